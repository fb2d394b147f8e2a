//go:build e2e

package canary_test

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/weirtest/agent"
	"weir/internal/weirtest/capture"
	"weir/internal/weirtest/fixture"
	"weir/internal/weirtest/gitkit"
	"weir/internal/weirtest/llm"
	"weir/internal/weirtest/poll"
	"weir/internal/weirtest/program"
	"weir/internal/weirtest/upstream"
	"weir/schemas"
)

var weirBinary, natsBinary = program.Path(program.Weir), program.Path(program.NATS)

// world is a Weir in a process of its own, the services that it calls, and all of its output.
type world struct {
	t    *testing.T
	g    *planted
	p    *program.Program
	past []*program.Program // those that were killed
	dir  string             // has its configuration, its data and its temporary files
	env  []string

	plain, keyed, tls, forged *upstream.Server // forged: its certificate is not trusted
	agent                     *agent.Agent
	llm                       *llm.Server
	git                       *gitkit.Backend
	mirror                    string // the repository of git
	gone                      string // refuses connections
	session                   string // the cookie of the owner's session at the console
	spans                     *collector
	held                      map[string]chan struct{} // each request that a service holds sends one
	updates                   capture.Buffer

	mu        sync.Mutex
	responses []string // actions behind the owner's responses

	admin, owner, stranger, nobody *person
}

// beacon names what is an identifier by contract: the owner's tenant, a budget, actions,
// folders. So it must be in every sink, and shows that the sink is read and searched.
const beacon = "agwbeacon"

// patience bounds every wait.
const patience = 30 * time.Second

func newWorld(t *testing.T, g *planted) *world {
	t.Helper()
	w := &world{t: t, g: g, dir: filepath.Join(t.TempDir(), beacon), held: map[string]chan struct{}{"plain": make(chan struct{}, 64), "agent": make(chan struct{}, 64), "llm": make(chan struct{}, 64)}}
	for _, dir := range []string{"", "tmp", "data"} {
		require.NoError(t, os.Mkdir(w.at(dir), 0o700))
	}
	trusted := upstream.SelfSigned(t, "127.0.0.1")
	w.plain, w.keyed, w.tls = upstream.New(t), upstream.New(t), upstream.NewTLS(t, trusted)
	w.forged = upstream.NewTLS(t, upstream.SelfSigned(t, strings.ToLower(tidy(g.plant("certificate")))+".example"))
	w.agent = agent.New(t, agent.Config{TaskTypes: taskTypes(), Token: g.secret("agent"), Script: []agent.Act{{Answer: w.answerRun}}})
	w.llm = llm.New(t, w.provider())
	w.git, w.mirror = w.gitServer()
	w.spans = collect(t, g)
	w.upstreams()
	root := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: trusted.Certificates[0].Certificate[0]})
	require.NoError(t, os.WriteFile(w.at("roots.pem"), root, 0o600))
	require.NoError(t, os.WriteFile(w.at("weir.yaml"), []byte(w.config()), 0o600))
	require.NoError(t, os.WriteFile(w.at("git"), []byte(gitWrapper(t, w.at("children"))), 0o700))
	w.env = []string{
		"TMPDIR=" + w.at("tmp"), "SSL_CERT_FILE=" + w.at("roots.pem"), "OTEL_EXPORTER_OTLP_HEADERS=x-collector-key=" + g.secret("collector"), "OTEL_BSP_SCHEDULE_DELAY=100",
		"WEIR_SECRET_GIT=" + base64.StdEncoding.EncodeToString([]byte("weir:"+g.secret("git"))),
	}
	g.known("git as basic", base64.StdEncoding.EncodeToString([]byte("weir:"+g.secret("git"))))
	for _, name := range []string{"header", "query", "body", "basic", "other", "agent", "model", "beside"} {
		w.env = append(w.env, "WEIR_SECRET_"+strings.ToUpper(name)+"="+g.secret(name))
	}
	w.start()
	w.admin = &person{w: w, token: strings.TrimSpace(string(w.file("data/admin.token")))}
	g.known("first admin token", secretOf(w.admin.token))
	w.owner, w.stranger, w.nobody = w.person(beacon), w.person("stranger"), &person{w: w}
	return w
}

// start starts the program, or starts it again, and receives what it publishes for observers.
func (w *world) start() {
	w.t.Helper()
	p, err := program.Run(weirBinary, program.How{Args: []string{"--config", w.at("weir.yaml")}, Environ: w.env})
	require.NoError(w.t, err)
	w.t.Cleanup(p.Kill)
	if w.p != nil {
		w.past = append(w.past, w.p)
	}
	w.p = p
	c := fixture.Decode[map[string]string](w.t, string(w.file("data/nats-credentials.json")))
	nc, err := nats.Connect(c["url"], nats.UserInfo(c["user"], c["password"]), nats.Timeout(patience))
	require.NoError(w.t, err)
	w.t.Cleanup(nc.Close)
	for _, subject := range []string{schemas.StatusRoot + ".>", schemas.LiveRoot + ".evidence.>"} {
		_, err = nc.Subscribe(subject, func(m *nats.Msg) {
			if strings.HasPrefix(m.Subject, schemas.StatusRoot) {
				fmt.Fprintf(&w.updates, "%s %v %s\n", m.Subject, m.Header, m.Data)
				return
			}
			fmt.Fprintf(&w.updates, "%s %v %s\n", m.Subject, m.Header, beyond(m.Data))
		})
		require.NoError(w.t, err)
	}
	js, err := jetstream.New(nc)
	require.NoError(w.t, err)
	_, err = js.CreateOrUpdateConsumer(w.t.Context(), schemas.EvidenceStream, jetstream.ConsumerConfig{Durable: beacon, AckPolicy: jetstream.AckExplicitPolicy})
	require.NoError(w.t, err)
}

func (w *world) at(name string) string { return filepath.Join(w.dir, name) }

func (w *world) file(name string) []byte {
	w.t.Helper()
	raw, err := os.ReadFile(w.at(name))
	require.NoError(w.t, err)
	return raw
}

// gitWrapper is a git that first writes down its arguments and its environment.
func gitWrapper(t *testing.T, log string) string {
	t.Helper()
	git, err := exec.LookPath("git")
	require.NoError(t, err)
	env, err := exec.LookPath("env")
	require.NoError(t, err)
	return fmt.Sprintf("#!/bin/sh\n{ for a in \"$@\"; do echo \"argument $a\"; done; %s; } >>%s\nexec %s \"$@\"\n", env, log, git)
}

// config is the configuration of testdata with this world's addresses.
func (w *world) config() string {
	gone := upstream.New(w.t)
	gone.Close()
	w.gone = gone.URL()
	text, err := os.ReadFile("testdata/weir.yaml")
	require.NoError(w.t, err)
	var agents strings.Builder
	for _, task := range taskTypes() {
		at := map[string]string{"RUN.WIRE": w.plain.URL() + "/wire", "RUN.FORGED": w.forged.URL()}[task]
		secret := map[bool]string{true: "NOT_THERE", false: "AGENT"}[task == "RUN.MISSING"]
		fmt.Fprintf(&agents, "  %s: {url: %q, network: loopback, token: \"${secret:%s}\"}\n", task, cmp.Or(at, w.agent.URL()), secret)
	}
	return strings.NewReplacer(
		"<dir>", w.dir, "<spans>", w.spans.url, "<plain>", w.plain.URL(), "<keyed>", w.keyed.URL(), "<tls>", w.tls.URL(), "<forged>", w.forged.URL(), "<gone>", w.gone, "<git>", w.git.URL,
		"<agents>", agents.String(), "<llm>", w.llm.URL(), "<beacon>", beacon,
		"<model>", `network: loopback, pass: "*", price: {input: 1, output: 2}, headers: {Authorization: "Bearer ${secret:MODEL}", X-Beside: "Basic ${secret:BESIDE}"}`,
	).Replace(string(text))
}

// person sends requests with a token, and keeps every answer.
type person struct {
	w         *world
	token, id string
	seen      capture.Buffer
}

// person makes a tenant with an admin of its own. The answer shows a token, once, and is no sink.
func (w *world) person(tenant string) *person {
	w.t.Helper()
	return w.made(w.admin, object{"name": "of-" + tenant, "tenant": tenant, "scopes": []any{"admin"}})
}

func (w *world) made(by *person, req object) *person {
	w.t.Helper()
	resp, text := by.send(http.MethodPost, "/v1/tokens", w.json(req))
	require.Equal(w.t, http.StatusCreated, resp.StatusCode, text)
	t := fixture.Decode[schemas.NewToken](w.t, text)
	w.g.known("a token", secretOf(t.Secret))
	return &person{w: w, token: t.Secret, id: t.ID}
}

// secretOf is the secret part of a token; the rest is its id.
func secretOf(token string) string { return token[strings.LastIndex(token[:len(token)-43], "_")+1:] }

var taskTokens = regexp.MustCompile(`weirt1_[a-z2-7]+_[A-Za-z0-9_-]{43}`)

// ask sends a request and keeps the answer. A task's token, which is shown once, is a secret
// from then on.
func (p *person) ask(method, path, body string, header ...string) (int, string) {
	p.w.t.Helper()
	resp, text := p.send(method, path, body, header...)
	for _, token := range taskTokens.FindAllString(text+resp.Header.Get(schemas.HeaderTaskToken), -1) {
		p.w.g.known("a task's token", secretOf(token))
	}
	resp.Header.Del(schemas.HeaderTaskToken)
	fmt.Fprintf(&p.seen, "%s\n", resp.Status)
	_ = resp.Header.Write(&p.seen) // to memory: cannot fail
	fmt.Fprintf(&p.seen, "\n%s\n", taskTokens.ReplaceAllString(text, ""))
	return resp.StatusCode, text
}

func (p *person) send(method, path, body string, header ...string) (*http.Response, string) {
	p.w.t.Helper()
	if p.token != "" {
		header = append([]string{"Authorization", "Bearer " + p.token}, header...)
	}
	resp, text, err := program.Ask(p.w.t.Context(), method, p.w.p.URL+path, body, header...)
	require.NoError(p.w.t, err)
	return resp, text
}

// get reads a document without keeping the answer.
func (p *person) get(path string) string {
	p.w.t.Helper()
	resp, text := p.send(http.MethodGet, path, "", "Accept", "application/json")
	require.Equal(p.w.t, http.StatusOK, resp.StatusCode, "%s: %s", path, text)
	return text
}

// settled waits for an action's end.
func (w *world) settled(id string) {
	w.t.Helper()
	poll.Until(w.t, func() bool {
		_, text := w.owner.send(http.MethodGet, "/v1/actions/"+id, "")
		return strings.Contains(text, `"settled"`)
	}, "the end of "+id)
}

// begin sends a request whose service holds it, and returns the action's id once it does.
func (w *world) begin(service, path, body string) string {
	w.t.Helper()
	resp, text := w.owner.send(http.MethodPost, path, body, "Prefer", "respond-async")
	require.Equal(w.t, http.StatusAccepted, resp.StatusCode, text)
	w.wait(service)
	return fixture.Decode[schemas.Receipt](w.t, text).ID
}

// wait waits until a service holds one more request.
func (w *world) wait(service string) {
	w.t.Helper()
	poll.Until(w.t, func() bool {
		select {
		case <-w.held[service]:
			return true
		default:
			return false
		}
	}, "a request that is held by the "+service)
}

type object = map[string]any

func (w *world) json(v any) string {
	w.t.Helper()
	raw, err := json.Marshal(v)
	require.NoError(w.t, err)
	return string(raw)
}

// pages reads a list of the owner's to its end.
func pages[T any](w *world, path string, item func(T)) {
	w.t.Helper()
	for next := path; next != ""; {
		page := fixture.Decode[schemas.Page[T]](w.t, w.owner.get(next))
		for _, it := range page.Items {
			item(it)
		}
		if next = ""; page.Next != "" {
			next = path + "&cursor=" + page.Next
		}
	}
}

func parallel(parts ...func()) {
	var group sync.WaitGroup
	for _, part := range parts {
		group.Go(part)
	}
	group.Wait()
}

// contains is assert.Contains for a long text, of which a failure prints the beginning.
func contains(t *testing.T, text, want, message string) {
	t.Helper()
	assert.True(t, strings.Contains(text, want), "%s: no %q in %.300s", message, want, text) //nolint:testifylint // the text is long
}

// with is a document with more members.
func with(doc, more object) object {
	doc = maps.Clone(doc)
	maps.Copy(doc, more)
	return doc
}

// saw adds the answers to another, who acted for the owner, to the owner's.
func (p *person) saw(other *person) { _, _ = p.seen.Write(other.seen.Bytes()) }
