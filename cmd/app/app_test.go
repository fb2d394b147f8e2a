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
	"path/filepath"
	"slices"
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
	"weir/internal/weirtest/fixture"
	"weir/internal/weirtest/llm"
	"weir/internal/weirtest/upstream"
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
func newApp(t *testing.T, extra string) *App {
	t.Helper()
	a, err := begin(t.Context(), t.TempDir(), extra)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, a.Stop(context.WithoutCancel(t.Context()))) })
	return a
}

// shared is a node that many tests use. Each keeps to tenants, ids and targets of its own. TARGET in its
// configuration is the switchboard, and PROVIDER that of models.
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
    - {name: t, url_prefix: "TARGET/t/", network: loopback}
    - {name: other, url_prefix: "TARGET/other/", network: loopback}
    - {name: third, url_prefix: "TARGET/third/", network: loopback}
agents: {T: {url: "http://127.0.0.1:1"}}
models:
  m/*: {url: "PROVIDER", model: "*"}
  sim/*: {url: "PROVIDER", price: {input: 1, output: 1}}
`}

// natsNode is an open node that NATS clients of this machine reach, with a proxy. All that can be granted is.
var natsNode = &shared{extra: withProxy + `nats: {listen: "127.0.0.1:0"}
rules: {agent_api: false}
policy: {allowed_hosts: [localhost, .localhost, 127.0.0.1, 127.9.9.9, "::1"]}
`}

func (s *shared) node(t *testing.T) *App {
	t.Helper()
	s.once.Do(func() {
		if s.dir, s.err = os.MkdirTemp("", "weir-app"); s.err == nil { //nolint:usetesting // it outlives the test
			s.app, s.err = begin(context.Background(), s.dir, strings.NewReplacer("TARGET", switchboard().URL, "PROVIDER", provider().URL()).Replace(s.extra))
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

// provider answers for the models of shared nodes, until the end of the program.
var provider = sync.OnceValue(func() *llm.Server { return llm.Start(llm.Config{}) })

// board is a target on which each test has a path of its own. Elsewhere it shows the headers that it receives.
type board struct {
	*http.ServeMux
	URL, host string
}

var switchboard = sync.OnceValue(func() *board {
	b := &board{ServeMux: http.NewServeMux()}
	b.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { fmt.Fprintf(w, "%q", fmt.Sprint(r.Header)) })
	b.URL = httptest.NewServer(b).URL // until the end of the program
	b.host = strings.TrimPrefix(b.URL, "http://")
	return b
})

var used atomic.Int64

// fresh is a name of that sort which no test has used on a shared node.
func fresh(name string) string { return fmt.Sprintf("%s-%d", name, used.Add(1)) }

func TestMain(m *testing.M) {
	code := m.Run()
	if err := errors.Join(openNode.stop(), tokenNode.stop(), viaNode.stop(), natsNode.stop()); err != nil {
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

func okUpstream(t *testing.T) string { t.Helper(); return upstream.New(t).URL() }

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

// TestOwnPortsAreNoTarget: what the node listens on is refused under every name
// of this machine, though everything that can be granted was.
func TestOwnPortsAreNoTarget(t *testing.T) {
	t.Parallel()
	s := natsNode.node(t)
	s.asks(t, http.StatusOK, http.MethodPost, "/v1/execute", get(okUpstream(t)))
	for _, own := range []string{s.http.addr(), s.NATS(), s.proxy.addr()} {
		port := own[strings.LastIndex(own, ":"):]
		for _, host := range []string{"127.0.0.1", "weir.localhost", "127.9.9.9", "[::1]"} {
			url := "http://" + host + port + "/healthz"
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
}

// TestALostMessage: an action whose message was acknowledged without any work, and that has no wake-up, begins all the
// same.
func TestALostMessage(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	strand(t, dir, schemas.Layout{Partitions: 1}, "stranded", time.Hour)
	a, err := begin(t.Context(), dir, "log: {durability: disk}\n", func(o *Options) {
		o.Janitor = janitor.Config{Every: 20 * time.Millisecond, Idle: time.Millisecond, Grace: time.Millisecond}
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, a.Stop(context.WithoutCancel(t.Context()))) })
	events, _ := a.asks(t, http.StatusOK, http.MethodGet, "/v1/actions/stranded/events", "", "Accept", "text/event-stream") // until its end
	require.Contains(t, events, `"outcome":"failed"`, "nothing listens at its target")
	require.Equal(t, "0", caller{App: a}.metric(t, `weir_actions_overdue_total{kind="http"}`))
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
			require.NotEqual(t, v.Answer == nil, v.Render == nil, "one of both: %s", v.Kind)
			answered = append(answered, v.Kind)
		}
	}
	require.Subset(t, schemas.Kinds(), entered)
	require.Subset(t, entered, schemas.Kinds())
	require.ElementsMatch(t, schemas.Kinds(), answered)
	require.ElementsMatch(t, schemas.Kinds(), slices.Collect(maps.Keys(s.works)))
}

func TestInit(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "weir.yaml")
	code, out, errs := command(t, "init", file)
	require.Equal(t, cli.ExitOK, code, errs)
	require.Contains(t, out, "wrote "+file)
	code, out, errs = command(t, "config", "check", file)
	require.Equal(t, cli.ExitOK, code, out)
	require.Equal(t, "warning: "+file+": model openai/*: header Authorization: secret OPENAI_API_KEY: no source has it; its calls will fail until it is there\n", out)
	require.Contains(t, errs, "has no mistake; entries: 1, models: 1, agents: 0, warnings: 1")

	require.NoError(t, os.WriteFile(file, []byte("listen: 127.0.0.1:1\n"), 0o600))
	code, _, errs = command(t, "init", file)
	require.Equal(t, cli.ExitUsage, code)
	require.Contains(t, errs, "exists and was not changed")
	require.Equal(t, "listen: 127.0.0.1:1\n", string(fixture.Read(t, file)))
	code, _, errs = command(t, "init", filepath.Join(file, "none"))
	require.Equal(t, cli.ExitUsage, code)
	require.Contains(t, errs, "name one in a folder that exists")
	code, _, errs = command(t, "init", file, "--force")
	require.Equal(t, cli.ExitOK, code, errs)

	text := fixture.Read(t, file)
	c, err := config.Parse(file, text, nil, map[string]string{"listen": "127.0.0.1:0", "data": t.TempDir(), "log.durability": "process"})
	require.NoError(t, err)
	require.False(t, c.Open())
	for line := range strings.Lines(string(text)) {
		require.LessOrEqual(t, len(line), 101)
	}
	// Each commented part is a configuration, too.
	uncommented := strings.NewReplacer("# headers:", "headers:", "    # - name", "    - name", "    #   ", "      ", "  # local", "  local", "  #   ", "    ", "# budgets", "budgets", "#   daily", "  daily")
	_, err = config.Parse(file, []byte(uncommented.Replace(string(text))), nil, nil)
	require.NoError(t, err)
}

// TestConfigCheck lists all mistakes at once, with their lines, or all warnings.
func TestConfigCheck(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(text string) string {
		file := filepath.Join(dir, "weir.yaml")
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		return file
	}
	file := write("listne: x\ndata: []\n")
	code, out, errs := command(t, "config", "check", file)
	require.Equal(t, cli.ExitFailed, code)
	require.Equal(t, "error: "+file+":1: listne: unknown key; did you mean listen?\n"+
		"error: "+file+":2: data: is a YAML sequence; write text, in quotes where it looks like something else\n", out)
	require.Equal(t, "mistakes: 2\n", errs)

	write(`policy:
  allowed_hosts: ["*.example.com"]
  allowlist:
  - name: a
    url_prefix: https://*.example.com/
`)
	code, out, _ = command(t, "config", "check", file, "--json")
	require.Equal(t, cli.ExitFailed, code)
	lines := strings.Split(strings.TrimSpace(out), "\n")
	require.Len(t, lines, 2)
	for i, line := range lines {
		p := fixture.Decode[configProblem](t, line)
		assert.Equal(t, "error", p.Severity)
		assert.Equal(t, file+":"+[]string{"5", "2"}[i], p.Where)
		assert.Contains(t, p.What, "wildcards in a host are not supported; name each host")
	}

	write("policy:\n  allowlist:\n  - name: a\n    url_prefix: https://a.example/\n    headers: {X-Key: $KEY}\n")
	code, out, errs = command(t, "config", "check", file)
	require.Equal(t, cli.ExitOK, code)
	require.Regexp(t, `^warning: .*weir\.yaml:5: policy\.allowlist\[0\]\.headers\.X-Key: contains a \$ before a name`, out)
	require.NotContains(t, out, "KEY:")
	require.Contains(t, errs, "warnings: 1")

	write("policy:\n  allowlist:\n  - name: a\n    url_prefix: http://127.0.0.1:8000/\n")
	code, out, _ = command(t, "config", "check", file)
	require.Equal(t, cli.ExitOK, code)
	require.Regexp(t, `^warning: .*weir\.yaml:4: policy\.allowlist\[0\]\.url_prefix: names an address that network: public does not reach: .*set network of entry a to loopback`, out)

	none, empty := filepath.Join(dir, "none"), filepath.Join(dir, "empty")
	require.NoError(t, os.WriteFile(empty, nil, 0o600))
	const cluster = "listen: 127.0.0.1:0\nnats:\n  url: nats://127.0.0.1:1\n"
	for text, said := range map[string]string{
		"listen: 127.0.0.1:0\nproxy: {listen: 127.0.0.1:0, ca_cert: " + none + ", ca_key: " + none + "}\n": "proxy.ca_cert and proxy.ca_key are no certificate with its key",
		cluster + "  creds: " + none:                                 "nats.creds: open " + none,
		cluster + "  creds: " + empty:                                "nats.creds: the file holds no credentials",
		cluster + "  tls: {ca: " + none + "}":                        "nats.tls: .*" + none,
		cluster + "  tls: {ca: " + empty + "}":                       "nats.tls: .*" + empty,
		cluster + "  tls: {cert: " + empty + ", key: " + empty + "}": "nats.tls: .*certificate",
	} {
		write(text)
		code, out, _ := command(t, "config", "check", file)
		require.Equal(t, cli.ExitFailed, code, text)
		require.Regexp(t, "^error: "+file+": "+said, out)
		code, _, errs := command(t, "serve", "--config", file, "--data", filepath.Join(dir, "data"))
		require.Equal(t, cli.ExitUsage, code, text)
		require.Regexp(t, said, errs)
	}
	write(cluster + "log: {replicas: 1}\n")
	code, out, _ = command(t, "config", "check", file)
	require.Equal(t, cli.ExitOK, code)
	require.Contains(t, out, "warning: "+file+": git.dir: is not set, and with nats.url it has no default")
	require.Contains(t, (&App{cfg: config.Config{NATS: config.NATS{URL: "nats://h"}}}).warnings(config.Config{}), noGitDir)

	write("git: {program: " + none + "}\n")
	code, out, _ = command(t, "config", "check", file)
	require.Equal(t, cli.ExitOK, code)
	require.Equal(t, "warning: "+file+": git.program: git is not installed where Weir runs, or git.program does not name it\n", out)

	for _, args := range [][]string{{filepath.Join(dir, "nowhere.yaml")}, {"a", "b"}, {"--strict"}} {
		code, out, errs := command(t, append([]string{"config", "check"}, args...)...)
		require.Equal(t, cli.ExitUsage, code, args)
		require.Empty(t, out)
		require.NotEmpty(t, errs)
	}
}
