//go:build e2e

package canary_test

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/cmd/app"
	"weir/internal/config"
	"weir/internal/weirtest/agent"
	"weir/internal/weirtest/capture"
	"weir/internal/weirtest/llm"
	"weir/internal/weirtest/upstream"
	"weir/schemas"
)

// house is a whole Weir in tokens mode, upstreams that it can reach, and
// everything that came out of it.
type house struct {
	t   *testing.T
	g   *garden
	app *app.App
	at  string // where it serves
	cfg config.Config
	dir string

	log, notices capture.Buffer

	plain, good, bad *upstream.Server // good: TLS as it should be; bad: a certificate nobody trusts
	agent            *agent.Agent
	llm              *llm.Server
	talking, goOn    chan struct{} // a completion has come to a model that waits; it may go on
	spans            *collector
	git              *gitUpstream
	sampled          *sampler            // what is seen of processes while they run
	told             capture.Buffer      // the changes of tasks' states, as observers hear them
	heard            *nats.Conn          // what they are heard over
	hung             chan *agent.Request // the runs that the agent leaves without an answer
	runs, chats      counter
	hashes           string // what the evidence of sensitive runs says

	admin, owner, stranger *person
	nobody                 *person // has no token

	loads   chan func() (config.Config, error) // what the next reload reads; none: the same again
	stopped sync.Once
}

// The addresses that names resolve to, and where they lead.
const (
	plainAddr   = "93.184.216.34"
	goodAddr    = "93.184.216.35"
	badAddr     = "93.184.216.36"
	refusedAddr = "93.184.216.37"
	agentAddr   = "93.184.216.38"
	gitAddr     = "93.184.216.39"
	llmAddr     = "93.184.216.40"
	privateAddr = "10.1.2.3"
)

// maxRules is how many a tenant may have, a few more than the rules that this
// test makes on purpose.
const maxRules = 48

// ample is a deadline that nothing comes near.
const ample = "60s"

// newHouse starts one whose actions have a deadline. What the upstreams answer is up to the caller.
func newHouse(t *testing.T, g *garden, deadline, extra string) *house {
	t.Helper()
	h := &house{t: t, g: g, dir: filepath.Join(directory(t), "data"), loads: make(chan func() (config.Config, error), 4), hung: make(chan *agent.Request, 16)}
	h.talking, h.goOn = make(chan struct{}, 16), make(chan struct{}, 1)
	authority := upstream.NewAuthority(t)
	h.plain = upstream.New(t)
	h.good = upstream.NewTLS(t, authority.Config("good.example"))
	h.bad = upstream.NewTLS(t, subjectConfig(t, g.plant("upstream tls subject")))
	h.agent = agent.New(t, agent.Config{TaskTypes: taskTypes(), Script: []agent.Act{{Answer: h.speak}}})
	h.git = newGitUpstream(t, g)
	h.llm = llm.New(t, h.provider())
	h.spans = collect(t, g)
	h.cfg = h.parse(deadline, extra+agentsText()+modelsText())
	environ := []string{
		"WEIR_SECRET_HEADER=" + g.secret("header"), "WEIR_SECRET_QUERY=" + g.secret("query"), "WEIR_SECRET_BODY=" + g.secret("body"),
		"WEIR_SECRET_BASIC=" + g.secret("basic"), "WEIR_SECRET_OTHER=" + g.secret("of another entry"),
		"WEIR_SECRET_AGENT=" + g.secret("of an agent"), "WEIR_SECRET_GIT=" + g.secret("of a git server"),
		"WEIR_SECRET_MODEL=" + g.secret("of a model"), "WEIR_SECRET_BESIDE=" + g.secret("beside a model's"),
	}
	a, err := app.New(t.Context(), app.Options{
		Config: h.cfg, Environ: environ, Log: &h.log, Notices: &h.notices, Load: h.load, Network: h.network(authority.Pool()),
	})
	require.NoError(t, err)
	h.app = a
	require.NoError(t, a.Start(t.Context()))
	h.at = a.URL()
	t.Cleanup(h.stop)
	h.observe()
	h.sampled = sample(t)
	h.people()
	return h
}

// stop drains the program; the log is complete afterwards.
func (h *house) stop() {
	h.stopped.Do(func() { assert.NoError(h.t, h.app.Stop(context.WithoutCancel(h.t.Context()))) })
}

func (h *house) load() (config.Config, error) {
	select {
	case next := <-h.loads:
		return next()
	default:
		return h.cfg, nil
	}
}

func (h *house) parse(deadline, extra string) config.Config {
	h.t.Helper()
	chat := deadline
	if deadline == hastes {
		chat = "5s" // what is to come to a model has time to
	}
	text := fmt.Sprintf(`listen: 127.0.0.1:0
data: %[1]q
auth: {mode: tokens, rate: 100000/s}
log: {durability: process}
telemetry: {log_level: debug, otlp: {endpoint: %[2]q}}
limits: {body: 256KiB, chat: 256KiB, response: 64KiB, response_headers: 8KiB}
nats: {listen: 127.0.0.1:0}
deadline: {http: %[3]s, plan: 20s, chat: %[6]s}
git: {max_pack: 1MiB}
rules: {limit: %[4]d}
%[5]s`, h.dir, h.spans.at, deadline, maxRules, extra, chat)
	cfg, err := config.Parse("weir.yaml", []byte(text), nil, nil)
	require.NoError(h.t, err)
	return cfg
}

// policyText has entries of every sort. The worker adds secrets to all that go
// to the plain upstream.
const policyText = `
policy:
  timeout: 20s
  allowed_hosts: [.open.example]
  allowlist:
    - name: plain
      url_prefix: http://plain.example/
      methods: [GET, HEAD, OPTIONS, POST, PUT, PATCH, DELETE]
      headers: {Authorization: "Bearer ${secret:HEADER}", X-Basic: "Basic ${secret:BASIC}"}
      query: {key_in_query: "${secret:QUERY}"}
      caller_headers: ["*"]
      caller_params: ["*"]
    - name: keyed
      url_prefix: http://keyed.example/
      methods: [POST]
      upstream_idempotency: {ttl: 1h}
      headers: {X-Other: "${secret:OTHER}"}
      body: {key_in_body: "${secret:BODY}"}
      caller_headers: ["*"]
      caller_params: ["*"]
    - {name: hop, url_prefix: "http://hop.example/", redirects: 2}
    - {name: good, url_prefix: "https://good.example/", methods: [GET, POST]}
    - {name: bad, url_prefix: "https://bad.example/"}
    - {name: refused, url_prefix: "http://refused.example/"}
    - {name: private, url_prefix: "http://private.example/"}
    - {name: missing, url_prefix: "http://missing.example/", headers: {Authorization: "${secret:NOT_THERE}"}, caller_headers: ["*"], caller_params: ["*"]}
    - {name: narrow, url_prefix: "http://narrow.example/only/here", methods: [GET]}
    - {name: panics, url_prefix: "http://panics.example/"}
    - {name: mirror, url_prefix: "http://git.example/", methods: [GET, POST], headers: {Authorization: "Bearer ${secret:GIT}"}}
    - {name: rehearsed, url_prefix: "http://plain.example/shadow", methods: [GET], mode: shadow}
`

// network leads every name to one of the upstreams, and fails with texts that
// hold what the resolver and the system would tell.
func (h *house) network(roots *x509.CertPool) app.Network {
	names := map[string]string{
		"plain.example": plainAddr, "keyed.example": plainAddr, "hop.example": plainAddr, "missing.example": plainAddr, "narrow.example": plainAddr,
		"good.example": goodAddr, "bad.example": badAddr, "refused.example": refusedAddr, "private.example": privateAddr, "agent.example": agentAddr, "git.example": gitAddr, "llm.example": llmAddr,
	}
	dns, dial, thrown := h.g.plant("dns answer"), h.g.plant("dial error"), h.g.plant("panic")
	servers := map[string]string{
		plainAddr: h.plain.Addr().String(), goodAddr: h.good.Addr().String(), badAddr: h.bad.Addr().String(), agentAddr: h.agent.Addr(), gitAddr: h.git.Listener.Addr().String(), llmAddr: h.llm.Addr(),
	}
	return app.Network{
		RootCAs: roots,
		Resolver: resolver(func(host string) ([]netip.Addr, error) {
			if host == "panics.example" {
				panic("the resolver came upon " + thrown)
			}
			if at, ok := names[host]; ok {
				return []netip.Addr{netip.MustParseAddr(at)}, nil
			}
			return nil, &net.DNSError{Err: "no such host, alias of " + dns, Name: host, Server: dns, IsNotFound: true}
		}),
		Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			at, _, err := net.SplitHostPort(address)
			if err != nil {
				return nil, err
			}
			server, ok := servers[at]
			if !ok {
				return nil, &net.OpError{Op: "dial", Net: network, Err: fmt.Errorf("%s refused: %s", address, dial)}
			}
			return new(net.Dialer).DialContext(ctx, "tcp", server)
		},
	}
}

type resolver func(host string) ([]netip.Addr, error)

func (r resolver) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	return r(strings.TrimSuffix(host, "."))
}

// person is somebody with a token, and every answer that they got.
type person struct {
	h     *house
	token string
	id    string
	seen  capture.Buffer
}

// people are the operator's first admin, and the admins of two tenants: who may
// do more than most shows more than most would see.
func (h *house) people() {
	raw, err := os.ReadFile(h.cfg.AdminTokenFile())
	require.NoError(h.t, err)
	h.admin = &person{h: h, token: strings.TrimSpace(string(raw))}
	h.g.known("first admin token", secretOf(h.admin.token))
	h.owner, h.stranger, h.nobody = h.person("owner"), h.person("stranger"), &person{h: h}
}

func (h *house) person(tenant string) *person {
	h.t.Helper()
	// Made by the admin, who is told the secret this once: the answer is no sink.
	resp, body := h.admin.send(http.MethodPost, "/v1/tokens", fmt.Sprintf(`{"name":%q,"tenant":%q,"scopes":["admin"]}`, "of-"+tenant, tenant))
	require.Equal(h.t, http.StatusCreated, resp.StatusCode, body)
	var made schemas.NewToken
	require.NoError(h.t, json.Unmarshal([]byte(body), &made))
	h.g.known("token of "+tenant, secretOf(made.Secret))
	return &person{h: h, token: made.Secret, id: made.ID}
}

// secretOf is the part of a token that nobody may see; the rest is its id.
func secretOf(token string) string { return token[strings.LastIndex(token[:len(token)-43], "_")+1:] }

// ask sends a request and remembers the answer.
func (p *person) ask(method, path, body string, header ...string) (status int, text string) {
	p.h.t.Helper()
	resp, text := p.send(method, path, body, header...)
	fmt.Fprintf(&p.seen, "%s\n", resp.Status)
	_ = resp.Header.Write(&p.seen) // to memory: cannot fail
	fmt.Fprintf(&p.seen, "\n%s\n", text)
	return resp.StatusCode, text
}

func (p *person) send(method, path, body string, header ...string) (*http.Response, string) {
	p.h.t.Helper()
	req, err := http.NewRequestWithContext(p.h.t.Context(), method, p.h.at+path, strings.NewReader(body))
	require.NoError(p.h.t, err)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	if p.token != "" {
		req.Header.Set("Authorization", "Bearer "+p.token)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	require.NoError(p.h.t, err)
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	require.NoError(p.h.t, err)
	return resp, string(data)
}

// raw sends bytes as they are and reads until the connection ends.
func (h *house) raw(text string, p *person) {
	h.t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(h.at, "http://"))
	require.NoError(h.t, err)
	defer conn.Close()
	_, _ = io.WriteString(conn, text) // the server may have enough before the end
	if c, ok := conn.(*net.TCPConn); ok {
		_ = c.CloseWrite()
	}
	_, _ = io.Copy(&p.seen, conn)
}
