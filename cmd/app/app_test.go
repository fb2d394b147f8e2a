package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/cmd/cli"
	"weir/internal/broker"
	"weir/internal/broker/embedded"
	"weir/internal/config"
	"weir/internal/ledger"
	"weir/internal/weirtest/agent"
	"weir/internal/weirtest/poll"
	"weir/processors/janitor"
	"weir/schemas"
)

// begin starts a whole Weir on a directory. Extra lines are added to its configuration. Unless
// they have a policy, its callers may call this machine.
func begin(ctx context.Context, dir, extra string, more ...func(*Options)) (*App, error) {
	if !strings.Contains(extra, "policy:") {
		extra += "policy: {allowed_hosts: [localhost, 127.0.0.1]}\n"
	}
	if !strings.Contains(extra, "log:") {
		extra += "log: {durability: process}\n"
	}
	cfg, err := config.Parse("test", fmt.Appendf(nil, "listen: 127.0.0.1:0\ndata: %q\n%s", dir, extra), nil, nil)
	if err != nil {
		return nil, err
	}
	opts := Options{Config: cfg, Log: io.Discard}
	for _, change := range more {
		change(&opts)
	}
	a, err := New(ctx, opts)
	if err != nil {
		return nil, err
	}
	return a, a.Start(ctx)
}

// newApp is a running node on a directory of its own.
func newApp(t *testing.T, extra string, more ...func(*Options)) *App {
	t.Helper()
	a, err := begin(t.Context(), t.TempDir(), extra, more...)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, a.Stop(context.WithoutCancel(t.Context()))) })
	return a
}

// shared is a node that many tests use. Each keeps to tenants, ids and targets of its own.
type shared struct {
	extra string
	once  sync.Once
	dir   string
	app   *App
	err   error
}

var openNode, tokenNode = &shared{}, &shared{extra: withTokens + `policy:
  allowed_hosts: [localhost, 127.0.0.1]
  allowlist:
    - {name: orders, url_prefix: "https://orders.example/"}
    - {name: stock, url_prefix: "https://stock.example/"}
    - {name: stock, url_prefix: "https://stock.example/", methods: [DELETE], mode: shadow}
agents: {T: {url: "http://127.0.0.1:1"}}
`}

func (s *shared) node(t *testing.T) *App {
	t.Helper()
	s.once.Do(func() {
		if s.dir, s.err = os.MkdirTemp("", "weir-app"); s.err == nil { //nolint:usetesting // it outlives the test
			s.app, s.err = begin(context.Background(), s.dir, s.extra)
		}
	})
	require.NoError(t, s.err)
	return s.app
}

func (s *shared) stop() error {
	if s.app == nil {
		return nil
	}
	return errors.Join(s.app.Stop(context.Background()), os.RemoveAll(s.dir))
}

var used atomic.Int64

// fresh is a name of that sort which no test has used on a shared node.
func fresh(name string) string { return fmt.Sprintf("%s-%d", name, used.Add(1)) }

func TestMain(m *testing.M) {
	code := m.Run()
	if err := errors.Join(openNode.stop(), tokenNode.stop()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// answered is the head of an answer.
type answered struct {
	StatusCode int
	Header     http.Header
}

// fetch sends a request and returns the answer.
func fetch(t *testing.T, c *http.Client, method, target, body string, header ...string) (answered, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, target, strings.NewReader(body))
	require.NoError(t, err)
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Add(header[i], header[i+1])
	}
	resp, err := c.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return answered{resp.StatusCode, resp.Header}, string(text)
}

// askVia is fetch that follows no redirect.
func askVia(t *testing.T, method, target, body string, header ...string) (answered, string) {
	t.Helper()
	c := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return fetch(t, c, method, target, body, header...)
}

// ask is fetch from this node, with JSON for a body unless the header says otherwise.
func (a *App) ask(t *testing.T, method, path, body string, header ...string) (status int, text string, h http.Header) {
	t.Helper()
	if body != "" && !slices.Contains(header, "Content-Type") {
		header = append([]string{"Content-Type", "application/json"}, header...)
	}
	got, text := fetch(t, http.DefaultClient, method, a.URL()+path, body, header...)
	return got.StatusCode, text, got.Header
}

// asks is ask whose answer must have this status.
func (a *App) asks(t *testing.T, want int, method, path, body string, header ...string) (text string, h http.Header) {
	t.Helper()
	status, text, h := a.ask(t, method, path, body, header...)
	require.Equal(t, want, status, "%s %s: %s", method, path, text)
	return text, h
}

func okUpstream(t *testing.T) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"ok":true}`) }))
	t.Cleanup(s.Close)
	return s.URL
}

// letter puts a dead letter on the log.
func (a *App) letter(t *testing.T, tenant, id string) (sequence uint64) {
	t.Helper()
	dead := schemas.DeadLetter{Time: time.Now().UTC(), Tenant: tenant, Kind: schemas.KindHTTP, ActionID: id, Code: schemas.Poison}
	data, err := json.Marshal(dead)
	require.NoError(t, err)
	seq, err := a.broker.Append(t.Context(), schemas.Append{Subject: schemas.DeadSubject(dead), Data: data})
	require.NoError(t, err)
	return seq
}

// TestUndecodableMessageIsParked puts garbage on the log among good work: it is
// parked, its action reads as failed, and the others flow.
func TestUndecodableMessageIsParked(t *testing.T) {
	t.Parallel()
	a, upstream := openNode.node(t), okUpstream(t)
	id := fresh("garbage")
	ref := schemas.Ref{Tenant: "default", Kind: schemas.KindHTTP, ID: id}
	seq, err := a.broker.Append(t.Context(), schemas.Append{Subject: a.layout().Subject(ref, schemas.SectionAccepted), Data: []byte("{not an event")})
	require.NoError(t, err)
	a.asks(t, http.StatusOK, http.MethodPost, "/v1/execute", get(upstream))

	events := "/v1/actions/" + id + "/events?live=long-poll&after=" + strconv.FormatUint(seq, 10)
	body, _ := a.asks(t, http.StatusOK, http.MethodGet, events, "", "Accept", "application/json")
	assert.Contains(t, body, `"code":"POISON"`)
	body, _ = a.asks(t, http.StatusOK, http.MethodGet, "/v1/actions/"+id, "")
	assert.Contains(t, body, `"status":"failed"`)
	_, body, _ = a.ask(t, http.MethodGet, "/v1/dead-letters", "")
	assert.Regexp(t, `"action_id":"`+id+`"[^}]*"code":"POISON"`, body)
}

// TestOwnPortsAreNoTarget: what the node listens on is refused under every name
// of this machine, though everything that can be granted was.
func TestOwnPortsAreNoTarget(t *testing.T) {
	t.Parallel()
	upstream := okUpstream(t)
	s := newSite(t, "nats: {listen: '127.0.0.1:0'}\npolicy: {allowed_hosts: [localhost, .localhost, 127.0.0.1, 127.9.9.9, '::1']}\n")
	s.asks(t, http.StatusOK, http.MethodPost, "/v1/execute", get(upstream))
	for _, own := range []string{s.http.addr(), s.NATS()} {
		for _, host := range []string{"127.0.0.1", "localhost", "weir.localhost", "127.9.9.9", "[::1]"} {
			url := "http://" + host + ":" + strconv.Itoa(int(portOf(own))) + "/healthz"
			body, _ := s.asks(t, http.StatusForbidden, http.MethodPost, "/v1/execute", get(url))
			assert.Contains(t, body, `"code":"DENY_ADDRESS"`, url)
		}
	}
}

// TestAnAddressOfIPv4OpensNoOther: who writes 0.0.0.0 has not asked for [::].
func TestAnAddressOfIPv4OpensNoOther(t *testing.T) {
	t.Parallel()
	for listen, want := range map[string]string{
		"0.0.0.0:0": "tcp4", "127.0.0.1:0": "tcp4", ":0": "tcp", "[::]:0": "tcp", "[::ffff:127.0.0.1]:0": "tcp", "localhost:0": "tcp",
	} {
		assert.Equal(t, want, family(listen), listen)
	}
	a := &App{cfg: config.Config{Listen: "0.0.0.0:0"}}
	require.NoError(t, a.listen(t.Context()))
	defer func() { require.NoError(t, a.teardown.unwind(t.Context())) }()
	assert.Regexp(t, `^0\.0\.0\.0:`, a.http.addr())
}

// TestALostMessage: an action whose message was acknowledged without any work, and that has no wake-up, begins all the
// same, and ends by its deadline.
func TestALostMessage(t *testing.T) {
	t.Parallel()
	for deadline, want := range map[time.Duration]struct{ outcome, overdue string }{
		50 * time.Millisecond: {"expired", "1"},
		time.Hour:             {"failed", "0"}, // nobody listens at its target
	} {
		t.Run(want.outcome, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			strand(t, dir, schemas.Layout{Partitions: 1}, "stranded", deadline)
			a, err := begin(t.Context(), dir, "log: {durability: disk}\n", func(o *Options) {
				o.Janitor = janitor.Config{Every: 20 * time.Millisecond, Idle: time.Millisecond, Grace: time.Millisecond}
			})
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, a.Stop(context.WithoutCancel(t.Context()))) })
			status, body, _ := a.ask(t, http.MethodGet, "/v1/actions/stranded/events", "", "Accept", "text/event-stream") // until its end
			require.Equal(t, http.StatusOK, status)
			require.Contains(t, body, `"outcome":"`+want.outcome+`"`)
			poll.Until(t, func() bool {
				return caller{App: a}.metric(t, `weir_actions_overdue_total{kind="http"}`) == want.overdue
			})
		})
	}
}

// strand leaves an action on a log that no worker is told of any more.
func strand(t *testing.T, dir string, layout schemas.Layout, id string, within time.Duration) {
	t.Helper()
	server, err := embedded.Start(embedded.Config{Dir: dir, Layout: layout})
	require.NoError(t, err)
	defer func() { require.NoError(t, server.Stop()) }()
	b, err := broker.Open(t.Context(), broker.Config{Server: server, Layout: layout})
	require.NoError(t, err)
	defer b.Close(t.Context())
	_, _, err = ledger.New(b, layout, nil).Claim(t.Context(), schemas.Action{
		ID: id, Tenant: "default", Kind: schemas.KindHTTP, Class: schemas.ClassOnce, IDSource: schemas.IDRequest, Fingerprint: "f",
		AcceptedAt: time.Now().UTC(), Deadline: time.Now().Add(within).UTC(),
		Payload: json.RawMessage(`{"method":"POST","url":"http://127.0.0.1:1/"}`),
	})
	require.NoError(t, err)
	sub := broker.NewSubscriber(b, broker.SubscriberConfig{})
	messages, err := sub.Subscribe(t.Context(), broker.Topics(0)[0])
	require.NoError(t, err)
	require.True(t, (<-messages).Ack())
	require.NoError(t, sub.Close())
}

// TestARunThatOutlastsTheDrain: a node that stops waits as long as workers.drain
// says. A run that is not over by then loses its agent, and the next node ends it
// as unknown without asking the agent again. What would be forgotten before it ends
// is refused.
func TestARunThatOutlastsTheDrain(t *testing.T) {
	t.Parallel()
	hold := make(chan struct{})
	double := agent.New(t, agent.Config{Script: []agent.Act{{Hold: hold}}})
	t.Cleanup(func() { close(hold) })
	dir := t.TempDir()
	extra := fmt.Sprintf("log: {durability: process, history: 1h}\nworkers: {drain: 1s}\nagents: {%s: {url: %q}}\n", agent.TaskType, double.URL())
	run := fmt.Sprintf(`{"request_id":"r1","task_type":%q}`, agent.TaskType)
	first, err := begin(t.Context(), dir, extra)
	require.NoError(t, err)
	first.asks(t, http.StatusAccepted, http.MethodPost, "/agents/run/sync", run, "Prefer", "respond-async")
	double.WaitRun(1)
	require.NoError(t, first.Stop(context.WithoutCancel(t.Context())))

	second, err := begin(t.Context(), dir, extra)
	require.NoError(t, err)
	defer func() { assert.NoError(t, second.Stop(context.WithoutCancel(t.Context()))) }()
	body, _ := second.asks(t, http.StatusOK, http.MethodPost, "/agents/run/sync", run)
	assert.Contains(t, body, `"code":"OUTCOME_UNKNOWN"`)
	assert.Equal(t, 1, double.Hits())
	long := `{"request_id":"r2","task_type":"ECHO","budgets":{"timeout_ms":3000001}}`
	body, _ = second.asks(t, http.StatusUnprocessableEntity, http.MethodPost, "/agents/run/sync", long)
	assert.Contains(t, body, "from 1 to 3000000")
}

// TestCheckOfWeir holds Weir itself against the contract that it checks.
func TestCheckOfWeir(t *testing.T) {
	t.Parallel()
	a := openNode.node(t)
	code, out, errs := command(t, "check", a.URL()+"=ECHO")
	assert.Equal(t, cli.ExitOK, code, out+errs)
	assert.Contains(t, out, " passed, 0 failed, 0 skipped, 0 warnings\n")
	assert.Empty(t, errs)

	code, out, _ = command(t, "check", a.URL()+"=ECHO", "--inputs", `{"steps":3}`, "--json")
	assert.Equal(t, cli.ExitOK, code, out)
}

// TestEachKindHasItsParts: the first request for a kind would find a part missing.
func TestEachKindHasItsParts(t *testing.T) {
	t.Parallel()
	s := (&App{role: RoleWorker}).descriptions()
	entered, answered := []schemas.Kind{}, []schemas.Kind{}
	for _, in := range s.in {
		if in.Kind != "" { // some surfaces store no action
			entered = append(entered, in.Kind)
		}
	}
	for _, out := range s.out {
		for _, v := range out.Views {
			require.NotNil(t, v.Answer, v.Kind)
			answered = append(answered, v.Kind)
		}
	}
	require.Subset(t, schemas.Kinds(), entered)
	require.Subset(t, entered, schemas.Kinds())
	require.ElementsMatch(t, schemas.Kinds(), answered)
	require.ElementsMatch(t, schemas.Kinds(), slices.Collect(maps.Keys(s.works)))
}
