package app

import (
	"bufio"
	"context"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/ingress/proxy"
	"weir/internal/config"
	"weir/internal/weirtest/capture"
	"weir/internal/weirtest/fixture"
	"weir/internal/weirtest/poll"
	"weir/internal/weirtest/upstream"
	"weir/schemas"
)

// metric is the value of one series.
func (c caller) metric(t *testing.T, series string) string {
	t.Helper()
	_, text, _ := c.do(t, http.MethodGet, "/metrics", "")
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(line, series+" "); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// TestOneTenantDoesNotHoldUpAnother: while every call of one tenant hangs, and far more of them wait than fit, what
// another has accepted is called at once. Each is called once. When too many wait of one tenant, or of all, new actions
// are refused and not stored, one that exists is joined, and later there is room again.
func TestOneTenantDoesNotHoldUpAnother(t *testing.T) {
	t.Parallel()
	const many = 40
	gate := make(chan struct{})
	u := upstream.New(t, upstream.Hold(gate, upstream.OK()))
	order := func() (paths []string) {
		for _, r := range u.Ledger() {
			paths = append(paths, r.Target)
		}
		return paths
	}
	a := newApp(t, withTokens+"policy: {timeout: 300s, allowed_hosts: [127.0.0.1]}\ndeadline: {http: 1h}\nworkers: {slots: 4}\n"+ // however long the queue takes to fill
		fmt.Sprintf("limits: {queued_per_tenant: %d, queued: %d}\n", many, many+30))
	open := sync.OnceFunc(func() { close(gate) })
	t.Cleanup(open) // before the node is stopped
	admin := a.admin(t)
	heavy, _ := admin.grant(t, `{"name":"heavy","tenant":"heavy","scopes":["actions:write","actions:read"],"rate":"10000/s"}`)
	other, _ := admin.grant(t, `{"name":"other","tenant":"other","scopes":["actions:write"]}`)
	accepted := []string{}
	queue := func(who caller, id string) (int, string, http.Header) {
		body := fmt.Sprintf(`{"request_id":%q,"type":"Http","args":{"method":"GET","url":%q}}`, id, u.URL()+"/"+id)
		status, text, h := who.do(t, http.MethodPost, "/v1/execute", body, "Prefer", "respond-async")
		if status == http.StatusAccepted && !strings.Contains(text, `"duplicate":true`) {
			accepted = append(accepted, "/"+id)
		}
		return status, text, h
	}
	// What is accepted while the log counts is counted twice, until it counts again in a second.
	fill := func(who caller, name string, most, status int, code string) {
		t.Helper()
		n := 0
		poll.Until(t, func() bool {
			id := fmt.Sprint(name, n)
			got, text, h := queue(who, id)
			for got == http.StatusAccepted {
				n++
				id = fmt.Sprint(name, n)
				got, text, h = queue(who, id)
			}
			if got != status { // counted twice, all are too many
				return false
			}
			require.Contains(t, text, code)
			require.Equal(t, "5", h.Get("Retry-After"))
			if who == heavy {
				got, text, _ = who.do(t, http.MethodGet, "/v1/actions/"+id, "")
				require.Equal(t, http.StatusNotFound, got, text)
			}
			return n >= most
		})
	}
	fill(heavy, "heavy", many, http.StatusTooManyRequests, `"RATE_LIMITED"`)
	status, text, _ := queue(heavy, "heavy0")
	require.Equal(t, http.StatusAccepted, status, "one that exists is joined: "+text)
	require.Contains(t, text, `"duplicate":true`)
	_, text, _ = admin.do(t, http.MethodGet, "/v1/operations", "")
	require.Contains(t, text, `"items":[]`)
	for i := range 4 {
		poll.Until(t, func() bool {
			status, _, _ := queue(other, fmt.Sprint("other", i))
			return status == http.StatusAccepted
		})
	}
	poll.Until(t, func() bool { return slices.Contains(order(), "/other0") }, "all of the heavy one's hang")
	require.LessOrEqual(t, u.Hits(), 4)
	fill(other, "more", 1, http.StatusServiceUnavailable, `"QUEUE_FULL"`)

	open()
	poll.Until(t, func() bool { return u.Hits() >= len(accepted) })
	place := map[string]int{}
	for i, path := range order() {
		place[path] = i
	}
	require.Len(t, order(), len(accepted), "each is called once")
	for _, path := range accepted {
		require.Contains(t, place, path)
	}
	require.Less(t, place["/other3"], 25, "what waits is mixed")
	require.NotEqual(t, "0", admin.metric(t, `weir_work_overflowed_total{kind="http"}`))
	poll.Until(t, func() bool { status, _, _ := queue(heavy, "again"); return status == http.StatusAccepted })
}

// here resolves every name to this machine.
type here struct{}

func (here) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
}

// proxySite is a node with a forward proxy, whose policy permits tunnels to ports of this machine.
type proxySite struct {
	*site
	admin  caller
	ca     *x509.CertPool // of inspected tunnels
	target *echoTarget
	web    *httptest.Server // an https target, which is inspected, and its port
	port   string
	always string // the configuration but the tunnels
}

func newProxySite(t *testing.T) *proxySite {
	t.Helper()
	p := &proxySite{target: newEcho(t), ca: x509.NewCertPool()}
	show := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.WriteHeader(http.StatusTeapot)
		_, _ = fmt.Fprintf(w, "%s %s %s|%s%s|%s", r.Method, r.Host, r.RequestURI, r.Header.Get("X-Key"), r.Header.Get("Proxy-Authorization"), body)
	})
	p.web = httptest.NewTLSServer(show)
	t.Cleanup(p.web.Close)
	_, p.port, _ = net.SplitHostPort(p.web.Listener.Addr().String())
	switchboard().Handle("/proxied/", show)
	trust := x509.NewCertPool()
	trust.AddCert(p.web.Certificate())
	cert, key, err := proxy.MakeCA(t.TempDir(), time.Now())
	require.NoError(t, err)
	pem := fixture.Read(t, cert)
	require.True(t, p.ca.AppendCertsFromPEM(pem))
	_, plain, _ := net.SplitHostPort(switchboard().host)
	p.always = withTokens + fmt.Sprintf(`proxy: {listen: "127.0.0.1:0", ca_cert: %q, ca_key: %q, tunnels: 6, tunnels_per_token: 4}
policy:
  allowed_hosts: []
  allowlist:
  - {name: other, url_prefix: "https://other.example/"}
  - {name: plain, url_prefix: "http://plain.example:%s/", network: loopback}
  - {name: api, url_prefix: "https://example.com:%s/v1", methods: [GET, POST], network: loopback, connect: inspect, caller_params: [y], headers: {X-Key: "${secret:API}"}}
`, cert, key, plain, p.port)
	p.site = &site{file: filepath.Join(t.TempDir(), "weir.yaml"), said: &capture.Buffer{}, change: func(o *Options) {
		o.Environ = []string{"WEIR_SECRET_API=very-secret-key"}
		o.Network = Network{Resolver: here{}, RootCAs: trust}
	}}
	return p
}

// grants is the configuration with tunnels to ports of this machine.
func (p *proxySite) grants(ports ...string) string {
	var text strings.Builder
	text.WriteString(p.always)
	for _, port := range append(ports, p.target.port) {
		fmt.Fprintf(&text, "  - {name: t%s, url_prefix: \"https://localhost:%[1]s/\", network: loopback, connect: tunnel}\n", port)
	}
	return text.String()
}

// one makes a token that may do what the proxy needs.
func (p *proxySite) one(t *testing.T, more string) (caller, schemas.NewToken) {
	t.Helper()
	return p.admin.grant(t, `{"name":"one","scopes":["actions:write","actions:read","tasks:write"]`+more+`}`)
}

func (p *proxySite) reload(t *testing.T, text string) {
	t.Helper()
	p.write(t, text)
	p.admin.does(t, http.StatusOK, http.MethodPost, "/v1/policy/reload", "")
}

// elsewhere: the main listener says where the proxy is, and the proxy serves no paths.
func (p *proxySite) elsewhere(t *testing.T) {
	for _, want := range [][3]string{
		{p.http.addr(), "CONNECT localhost:1", "weir serve --proxy-listen"},
		{p.http.addr(), "GET http://localhost:1/", "weir serve --proxy-listen"},
		{p.proxy.addr(), "GET /v1/actions", "this address is a forward proxy"},
		{p.proxy.addr(), "OPTIONS *", "this address is a forward proxy"},
		{p.proxy.addr(), "FETCH http://localhost:1/", "use one that Allow names"},
		{p.proxy.addr(), "TRACE http://localhost:1/", "never served"},
	} {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", want[0])
		require.NoError(t, err)
		_, err = io.WriteString(conn, want[1]+" HTTP/1.1\r\nHost: localhost\r\n\r\n")
		require.NoError(t, err)
		answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
		require.NoError(t, err)
		body, err := io.ReadAll(answer.Body)
		require.NoError(t, err)
		require.Contains(t, string(body), want[2], want[1])
		require.GreaterOrEqual(t, answer.StatusCode, 400)
		require.NoError(t, answer.Body.Close())
		require.NoError(t, conn.Close())
	}
}

// slow begins a request that does not end its head: it is answered, and its connection closed.
func (p *proxySite) slow(t *testing.T) (answered func()) {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", p.proxy.addr())
	require.NoError(t, err)
	_, err = io.WriteString(conn, "CONNECT localhost:1 HT")
	require.NoError(t, err)
	all := make(chan string, 1)
	go func() {
		defer conn.Close()
		text, _ := io.ReadAll(conn)
		all <- string(text)
	}()
	return func() {
		text := <-all
		require.Contains(t, text, "HTTP/1.1 408 ")
		require.Contains(t, text, schemas.RequestTimeout)
	}
}

// bounded: one token has so many tunnels, and all have.
func (p *proxySite) bounded(t *testing.T) {
	none := func() bool { return p.admin.metric(t, "weir_tunnels") == "0" }
	poll.Until(t, none)
	at := "localhost:" + p.target.port
	one, _ := p.one(t, "")
	first := one.opens(t, at)
	for range 3 {
		one.opens(t, at)
	}
	one.refuses(t, at, http.StatusTooManyRequests, schemas.RateLimited, "proxy.tunnels_per_token")
	p.admin.opens(t, at)
	p.admin.opens(t, at)
	p.admin.refuses(t, at, http.StatusServiceUnavailable, schemas.Unavailable, "proxy.tunnels)")
	require.NoError(t, first.Close())
	poll.Until(t, func() bool { return p.admin.metric(t, "weir_tunnels") == "5" })
	one.opens(t, at)
}

// stops: a node that stops cuts its tunnels, and stores the records of their ends first.
func (p *proxySite) stops(t *testing.T) {
	poll.Until(t, func() bool { return p.admin.metric(t, "weir_tunnels") == "0" })
	one, made := p.one(t, "")
	c := one.opens(t, "localhost:"+p.target.port)
	require.NoError(t, p.Stop(context.WithoutCancel(t.Context())))
	c.cut()
	a, err := begin(t.Context(), p.cfg.Data, withTokens)
	require.NoError(t, err)
	defer func() { require.NoError(t, a.Stop(context.WithoutCancel(t.Context()))) }()
	audits, _ := a.admin(t).tunnelAudits(t, made.ID, 2)
	require.Equal(t, []any{schemas.TunnelOpened, schemas.TunnelEnded, schemas.TunnelStopped}, []any{audits[0].State, audits[1].State, audits[1].End})
}

// TestNoProxy: a file that is no CA is refused at start, with how to make one, and so is a proxy of a role.
func TestNoProxy(t *testing.T) {
	t.Parallel()
	none := filepath.Join(t.TempDir(), "none")
	for says, text := range map[string]string{
		"weir proxy ca DIR":           fmt.Sprintf("data: %q\nproxy: {listen: \"127.0.0.1:0\", ca_cert: %q, ca_key: %[2]q}", t.TempDir(), none),
		"remove it for `weir worker`": "nats: {url: nats://127.0.0.1:1}\n" + withProxy,
	} {
		cfg, err := config.Parse("test", []byte("listen: 127.0.0.1:0\n"+text), nil, nil)
		require.NoError(t, err)
		role := RoleWorker
		if cfg.Embedded() {
			role = RoleAll
		}
		_, err = New(t.Context(), Options{Config: cfg, Role: role, Log: io.Discard})
		require.ErrorContains(t, err, says)
	}
}
