package app

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/weirtest/table"
	"weir/schemas"
)

const withProxy = "proxy: {listen: \"127.0.0.1:0\"}\n"

// echoTarget is a target that sends back what it gets, and counts its connections.
type echoTarget struct {
	port     string
	accepted atomic.Int64
}

func newEcho(t *testing.T) *echoTarget {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	e := &echoTarget{}
	_, e.port, err = net.SplitHostPort(l.Addr().String())
	require.NoError(t, err)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			e.accepted.Add(1)
			go func() {
				defer c.Close()
				_, _ = io.Copy(c, c)
				_, _ = io.WriteString(c, "bye")
			}()
		}
	}()
	return e
}

// grants is a policy with an entry that permits tunnels to ports of this machine.
func grants(ports ...string) string {
	var text strings.Builder
	text.WriteString("policy:\n  allowed_hosts: []\n  allowlist:\n  - {name: other, url_prefix: \"https://other.example/\"}\n")
	for _, port := range ports {
		fmt.Fprintf(&text, "  - {name: t%s, url_prefix: \"https://localhost:%s/\", network: loopback, connect: tunnel}\n", port, port)
	}
	return text.String()
}

// connected is the client's end of a CONNECT that was answered.
type connected struct {
	*net.TCPConn
	in     *bufio.Reader
	answer answered
	body   string
}

// connect sends a CONNECT to the proxy, and what follows it in the same packet.
func (a *App) connect(t *testing.T, authority, credential, more string) *connected {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", a.proxy.addr())
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	if credential != "" {
		credential = "Proxy-Authorization: " + credential + "\r\n"
	}
	_, err = io.WriteString(conn, "CONNECT "+authority+" HTTP/1.1\r\nHost: proxied.example\r\n"+credential+"\r\n"+more)
	require.NoError(t, err)
	tcp, ok := conn.(*net.TCPConn)
	require.True(t, ok)
	c := &connected{TCPConn: tcp, in: bufio.NewReader(conn)}
	answer, err := http.ReadResponse(c.in, &http.Request{Method: http.MethodConnect})
	require.NoError(t, err)
	defer answer.Body.Close()
	if c.answer = (answered{answer.StatusCode, answer.Header}); answer.StatusCode != http.StatusOK {
		body, err := io.ReadAll(answer.Body)
		require.NoError(t, err)
		c.body = string(body)
	}
	return c
}

// opens is connect to a tunnel that must open.
func (a *App) opens(t *testing.T, authority, credential, more string) *connected {
	t.Helper()
	c := a.connect(t, authority, credential, more)
	require.Equal(t, http.StatusOK, c.answer.StatusCode, c.body)
	return c
}

func (c *connected) says(t *testing.T, text, want string) {
	t.Helper()
	_, err := io.WriteString(c.TCPConn, text)
	require.NoError(t, err)
	got := make([]byte, len(want))
	_, err = io.ReadFull(c.in, got)
	require.NoError(t, err)
	require.Equal(t, want, string(got))
}

// cut waits for the end of the connection, which must come soon after do.
func (c *connected) cut(t *testing.T, do func()) {
	t.Helper()
	done := make(chan time.Time, 1)
	go func() {
		_, _ = io.Copy(io.Discard, c.in)
		done <- time.Now()
	}()
	do()
	began := time.Now()
	require.Less(t, (<-done).Sub(began), time.Second)
}

// tunnelAudits are the payloads of the records of tunnels, once one has a text.
func (c caller) tunnelAudits(t *testing.T, holds string) (all []schemas.TunnelAudit, records []schemas.Evidence) {
	t.Helper()
	var page schemas.Page[schemas.Evidence]
	require.NoError(t, json.Unmarshal([]byte(c.evidence(t, "?kind=proxy.tunnel&limit=1000", holds)), &page))
	for _, r := range page.Items {
		var a schemas.TunnelAudit
		require.NoError(t, json.Unmarshal(r.Payload, &a))
		all = append(all, a)
	}
	return all, page.Items
}

// TestTunnel: bytes pass both ways, an end of one side is passed on, and two records describe it.
func TestTunnel(t *testing.T) {
	t.Parallel()
	target := newEcho(t)
	a := newApp(t, withTokens+withProxy+grants(target.port))
	admin := a.admin(t)
	one, made := admin.grant(t, `{"name":"one","scopes":["actions:write"]}`)
	c := a.opens(t, "localhost:"+target.port, "Bearer "+one.token, "early ")
	c.says(t, "bird", "early bird")
	require.NoError(t, c.CloseWrite())
	rest, err := io.ReadAll(c.in)
	require.NoError(t, err)
	require.Equal(t, "bye", string(rest))

	audits, records := admin.tunnelAudits(t, `"closed"`)
	require.Len(t, audits, 2)
	authority := "localhost:" + target.port
	require.Equal(t, schemas.TunnelAudit{State: schemas.TunnelOpened, Target: authority, Connect: "tunnel", Network: "loopback"}, audits[0])
	audits[1].DurationMS = 0
	require.Equal(t, schemas.TunnelAudit{
		State: schemas.TunnelEnded, Target: authority, Connect: "tunnel", Network: "loopback", End: schemas.TunnelClosed,
		BytesUp: int64(len("early bird")), BytesDown: int64(len("early birdbye")),
	}, audits[1])
	for _, r := range records {
		assert.Equal(t, []string{made.ID, "t" + target.port, schemas.Operator, a.policy.Load().Version()}, []string{r.Principal, r.Entry, r.Tenant, r.PolicyVersion})
		assert.Equal(t, records[0].ActionID, r.ActionID)
	}
	_, metrics, _ := admin.do(t, http.MethodGet, "/metrics", "")
	require.Contains(t, metrics, "weir_tunnels 0")
	require.Contains(t, metrics, `weir_tunnels_ended_total{end="closed"} 1`)
	require.Contains(t, metrics, `weir_tunnel_bytes_total{direction="down"} 13`)
}

// TestProxyCredentials: a token in any of its forms opens a tunnel; without one, the answer asks for it.
func TestProxyCredentials(t *testing.T) {
	t.Parallel()
	target := newEcho(t)
	a := newApp(t, withTokens+withProxy+grants(target.port))
	admin := a.admin(t)
	one, _ := admin.grant(t, `{"name":"one","scopes":["actions:write"]}`)
	reader, _ := admin.grant(t, `{"name":"reader","scopes":["actions:read"]}`)
	other, _ := admin.grant(t, `{"name":"other","scopes":["actions:write"],"entries":["other"]}`)
	basic := func(pair string) string { return "Basic " + base64.StdEncoding.EncodeToString([]byte(pair)) }
	table.Run(t, map[string]struct {
		credential string
		status     int
		says       string
	}{
		"bearer":        {"Bearer " + one.token, 200, ""},
		"password":      {basic("weir:" + one.token), 200, ""},
		"user":          {basic(one.token + ":"), 200, ""},
		"user and x":    {basic(one.token + ":x"), 200, ""},
		"none":          {"", 407, "HTTPS_PROXY=http://weir:TOKEN@HOST:PORT"},
		"wrong":         {basic("weir:" + one.token[:len(one.token)-1] + "-"), 407, "send it in Proxy-Authorization"},
		"no base64":     {"Basic ???", 407, "Proxy-Authorization"},
		"other scheme":  {"Digest x", 407, "Proxy-Authorization"},
		"no scope":      {"Bearer " + reader.token, 403, "actions:write"},
		"other entries": {"Bearer " + other.token, 403, "use a token whose entries cover this host"},
	}, func(t *testing.T, tc struct {
		credential string
		status     int
		says       string
	},
	) {
		c := a.connect(t, "localhost:"+target.port, tc.credential, "")
		require.Equal(t, tc.status, c.answer.StatusCode, c.body)
		require.Contains(t, c.body, tc.says)
		require.Equal(t, tc.status == 407, c.answer.Header.Get("Proxy-Authenticate") == `Basic realm="weir"`)
		require.Empty(t, c.answer.Header.Get("WWW-Authenticate"))
		if tc.status == 200 {
			c.says(t, "x", "x")
		}
	})
}

// TestRefusedConnects: nothing is sent for them, and the answer says what would pass.
func TestRefusedConnects(t *testing.T) {
	t.Parallel()
	target, closed := newEcho(t), newEcho(t)
	a := newApp(t, withTokens+withProxy+grants(target.port))
	admin := a.admin(t)
	for authority, want := range map[string][2]string{
		"localhost:" + closed.port: {"DENY_PORT", "use port " + target.port + ", or an entry for port " + closed.port},
		"127.0.0.1:" + target.port: {"DENY_HOST", "add an entry with url_prefix https://127.0.0.1:" + target.port + "/, network loopback and connect tunnel"},
		"other.example:443":        {"DENY_METHOD", "set connect of entry other to tunnel or inspect"},
		"new.example:443":          {"DENY_HOST", "add an entry with url_prefix https://new.example/ and connect tunnel"},
		"169.254.169.254:80":       {"DENY_HOST", "none can"},
		"localhost:25":             {"DENY_PORT", "use port 587 or 465"},
		"localhost":                {"DENY_URL_INVALID", "write host:port"},
		"me@localhost:443":         {"DENY_USERINFO", "write host:port alone"},
		"localhost:443/x":          {"DENY_URL_INVALID", "without a scheme"},
	} {
		c := a.connect(t, authority, "Bearer "+admin.token, "")
		require.Equal(t, http.StatusForbidden, c.answer.StatusCode, authority)
		require.Equal(t, want[0], c.answer.Header.Get("Weir-Refused"), authority)
		require.Equal(t, "application/problem+json", c.answer.Header.Get("Content-Type"))
		require.Contains(t, c.body, want[1], authority)
	}
	audits, records := admin.tunnelAudits(t, "new.example:443")
	require.Len(t, audits, 9)
	for i, r := range records {
		require.Equal(t, schemas.TunnelRefused, audits[i].State)
		require.True(t, r.Code.Denied())
		require.NotEmpty(t, audits[i].Reason)
	}
	require.Zero(t, target.accepted.Load()+closed.accepted.Load())
	own := a.connect(t, "localhost:"+strconv.Itoa(int(portOf(a.proxy.addr()))), "Bearer "+admin.token, "")
	require.Equal(t, http.StatusForbidden, own.answer.StatusCode, "its own port is no target")
	body := a.connect(t, "localhost:"+target.port, "Bearer "+admin.token+"\r\nContent-Length: 3", "abc")
	require.Equal(t, http.StatusBadRequest, body.answer.StatusCode, "CONNECT has no body")
}

// TestRulesOfATunnel: a mock for one token refuses its tunnels to that host, and no others.
func TestRulesOfATunnel(t *testing.T) {
	t.Parallel()
	target := newEcho(t)
	a := newApp(t, withTokens+withProxy+grants(target.port))
	admin := a.admin(t)
	one, made := admin.grant(t, `{"name":"one","scopes":["actions:write"]}`)
	at := "localhost:" + target.port
	open := a.opens(t, at, "Bearer "+one.token, "")
	admin.ruled(t, "create", `{"id":"m","type":"mock","match":{"url_pattern":"https://`+at+`/orders","method":"POST"},"action":{"status":503},"scope":{"agent":"`+made.ID+`"}}`)
	c := a.connect(t, at, "Bearer "+one.token, "")
	require.Equal(t, http.StatusForbidden, c.answer.StatusCode)
	require.Equal(t, "DENY_RULE", c.answer.Header.Get("Weir-Refused"))
	require.Contains(t, c.body, "disable the rule, or set connect of the entry to inspect")
	open.says(t, "x", "x")
	a.opens(t, at, "Bearer "+admin.token, "").says(t, "x", "x")
	_, records := admin.tunnelAudits(t, "DENY_RULE")
	require.Equal(t, []string{"t" + target.port, made.ID}, []string{records[1].Entry, records[1].Principal})
	admin.ruled(t, "disable", "m")
	a.opens(t, at, "Bearer "+one.token, "").says(t, "x", "x")
}

// TestATargetThatIsAway has its own code, and is no denial.
func TestATargetThatIsAway(t *testing.T) {
	t.Parallel()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	_, port, _ := net.SplitHostPort(l.Addr().String())
	require.NoError(t, l.Close())
	a := newApp(t, withProxy+grants(port))
	c := a.connect(t, "localhost:"+port, "", "")
	require.Equal(t, http.StatusBadGateway, c.answer.StatusCode)
	require.Equal(t, "UPSTREAM_CONNECT", c.answer.Header.Get("Weir-Refused"))
	audits, records := caller{a, ""}.tunnelAudits(t, "UPSTREAM_CONNECT")
	require.Equal(t, []any{schemas.TunnelRefused, schemas.UpstreamConnect, "t" + port}, []any{audits[0].State, records[0].Code, records[0].Entry})
}

// TestATunnelIsCut within a second, and its record says why.
func TestATunnelIsCut(t *testing.T) {
	t.Parallel()
	target := newEcho(t)
	at := "localhost:" + target.port
	table.Run(t, map[string]struct {
		end schemas.TunnelEnd
		do  func(t *testing.T, s *site, admin caller, id string)
	}{
		"revoked": {schemas.TunnelRevoked, func(t *testing.T, _ *site, admin caller, id string) {
			t.Helper()
			admin.revoke(t, id)
		}},
		"denied": {schemas.TunnelDenied, func(t *testing.T, s *site, admin caller, _ string) {
			t.Helper()
			s.write(t, withTokens+withProxy+grants())
			admin.does(t, http.StatusOK, http.MethodPost, "/v1/policy/reload", "")
		}},
		"changed": {schemas.TunnelDenied, func(t *testing.T, s *site, admin caller, _ string) {
			t.Helper()
			s.write(t, withTokens+withProxy+strings.ReplaceAll(grants(target.port), "network: loopback", "network: loopback, methods: [POST]"))
			admin.does(t, http.StatusOK, http.MethodPost, "/v1/policy/reload", "")
		}},
		"entry paused": {schemas.TunnelPaused, func(t *testing.T, _ *site, admin caller, _ string) {
			t.Helper()
			admin.does(t, http.StatusOK, http.MethodPost, schemas.RouteOperationsPause, `{"entry":"t`+target.port+`"}`)
		}},
		"destination pinned open": {schemas.TunnelPaused, func(t *testing.T, _ *site, admin caller, _ string) {
			t.Helper()
			admin.does(t, http.StatusOK, http.MethodPost, schemas.RouteOperationsPin, `{"destination":"https://`+at+`","state":"open"}`)
		}},
		"port taken away": {schemas.TunnelDenied, func(t *testing.T, s *site, admin caller, _ string) {
			t.Helper()
			s.write(t, withTokens+withProxy+grants("1"))
			admin.does(t, http.StatusOK, http.MethodPost, "/v1/policy/reload", "")
		}},
	}, func(t *testing.T, tc struct {
		end schemas.TunnelEnd
		do  func(t *testing.T, s *site, admin caller, id string)
	},
	) {
		s := newSite(t, withTokens+withProxy+grants(target.port))
		admin := s.admin(t)
		one, made := admin.grant(t, `{"name":"one","scopes":["actions:write"]}`)
		c := s.opens(t, at, "Bearer "+one.token, "")
		c.says(t, "x", "x")
		// A reload that leaves the entry as it is leaves the tunnel open.
		s.write(t, withTokens+withProxy+grants(target.port)+"  - {name: more, url_prefix: \"https://more.example/\"}\n")
		admin.does(t, http.StatusOK, http.MethodPost, "/v1/policy/reload", "")
		c.says(t, "y", "y")
		c.cut(t, func() { tc.do(t, s, admin, made.ID) })
		audits, _ := admin.tunnelAudits(t, `"end":"`+string(tc.end)+`"`)
		require.Equal(t, tc.end, audits[len(audits)-1].End)
	})
}

// TestANodeThatStopsCutsItsTunnels and stores the records of their ends first.
func TestANodeThatStopsCutsItsTunnels(t *testing.T) {
	t.Parallel()
	target := newEcho(t)
	dir := t.TempDir()
	a, err := begin(t.Context(), dir, withProxy+grants(target.port))
	require.NoError(t, err)
	c := a.opens(t, "localhost:"+target.port, "", "")
	c.says(t, "x", "x")
	c.cut(t, func() { require.NoError(t, a.Stop(context.WithoutCancel(t.Context()))) })
	a, err = begin(t.Context(), dir, withProxy+grants(target.port))
	require.NoError(t, err)
	defer func() { require.NoError(t, a.Stop(context.WithoutCancel(t.Context()))) }()
	audits, _ := caller{a, ""}.tunnelAudits(t, `"stopped"`)
	require.Equal(t, []schemas.TunnelState{schemas.TunnelOpened, schemas.TunnelEnded}, []schemas.TunnelState{audits[0].State, audits[1].State})
}

// TestTunnelsAreBounded for one token and in all.
func TestTunnelsAreBounded(t *testing.T) {
	t.Parallel()
	target := newEcho(t)
	a := newApp(t, withTokens+"proxy: {listen: \"127.0.0.1:0\", tunnels: 3, tunnels_per_token: 2}\n"+grants(target.port))
	admin := a.admin(t)
	one, _ := admin.grant(t, `{"name":"one","scopes":["actions:write"]}`)
	at := "localhost:" + target.port
	first := a.opens(t, at, "Bearer "+one.token, "")
	first.says(t, "x", "x")
	a.opens(t, at, "Bearer "+one.token, "").says(t, "x", "x")
	over := a.connect(t, at, "Bearer "+one.token, "")
	require.Equal(t, http.StatusTooManyRequests, over.answer.StatusCode)
	require.Contains(t, over.body, "proxy.tunnels_per_token")
	a.opens(t, at, "Bearer "+admin.token, "").says(t, "x", "x")
	over = a.connect(t, at, "Bearer "+admin.token, "")
	require.Equal(t, http.StatusServiceUnavailable, over.answer.StatusCode)
	require.Contains(t, over.body, "proxy.tunnels)")
	require.NoError(t, first.Close())
	admin.tunnelAudits(t, `"state":"ended"`)
	a.opens(t, at, "Bearer "+one.token, "").says(t, "x", "x")
}

// TestTLSInATunnel: Go's own client reaches an https target, and a tunnel is no way to another name.
func TestTLSInATunnel(t *testing.T) {
	t.Parallel()
	upstream := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "hello "+r.Host)
	}))
	t.Cleanup(upstream.Close)
	_, port, _ := net.SplitHostPort(upstream.Listener.Addr().String())
	a := newApp(t, withProxy+grants(port))
	at, err := url.Parse(a.ProxyURL())
	require.NoError(t, err)
	ask := func(name string) (string, error) {
		transport := &http.Transport{
			Proxy:           http.ProxyURL(at),
			TLSClientConfig: &tls.Config{InsecureSkipVerify: true, ServerName: name},
		}
		defer transport.CloseIdleConnections()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://localhost:"+port+"/", http.NoBody)
		require.NoError(t, err)
		resp, err := (&http.Client{Transport: transport}).Do(req)
		if err != nil {
			return "", err
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		return string(body), err
	}
	body, err := ask("localhost")
	require.NoError(t, err)
	require.Equal(t, "hello localhost:"+port, body)
	_, err = ask("victim.example")
	require.Error(t, err)
	audits, records := caller{a, ""}.tunnelAudits(t, `"end":"name"`)
	cut := -1 // the end of the tunnel before may be recorded after it
	for i := range audits {
		if audits[i].End == schemas.TunnelName {
			cut = i
		}
	}
	require.GreaterOrEqual(t, cut, 0)
	require.Equal(t, []any{schemas.DenyHost, int64(0)}, []any{records[cut].Code, audits[cut].BytesUp})
}

// TestNoProxyHere: the main listener says where the proxy is, and the proxy serves no paths.
func TestNoProxyHere(t *testing.T) {
	t.Parallel()
	a := newApp(t, withProxy+grants())
	for _, want := range [][3]string{
		{a.http.addr(), "CONNECT localhost:1", "weir serve --proxy-listen"},
		{a.http.addr(), "GET http://localhost:1/", "weir serve --proxy-listen"},
		{a.proxy.addr(), "GET /v1/actions", "this address is a forward proxy"},
		{a.proxy.addr(), "OPTIONS *", "this address is a forward proxy"},
		{a.proxy.addr(), "FETCH http://localhost:1/", "use one that Allow names"},
		{a.proxy.addr(), "TRACE http://localhost:1/", "never served"},
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
	_, err := New(t.Context(), Options{Config: a.cfg, Role: RoleWorker, Log: io.Discard})
	require.ErrorContains(t, err, "worker")
}

// TestATaskInATunnel: the token of a task opens tunnels by the entries of who filed it, and its end cuts them.
func TestATaskInATunnel(t *testing.T) {
	t.Parallel()
	target := newEcho(t)
	a := newApp(t, withTokens+withProxy+grants(target.port))
	admin := a.admin(t)
	lead, _ := admin.grant(t, `{"name":"lead","scopes":["tasks:write","actions:write"],"entries":["t`+target.port+`"]}`)
	admin.does(t, http.StatusCreated, http.MethodPost, schemas.RouteRepos, `{"name":"shop"}`)
	filed, _ := lead.does(t, http.StatusCreated, http.MethodPost, schemas.RouteTasks, `{"repo":"shop","description":"d"}`)
	var task struct {
		ID    string `json:"id"`
		Token string `json:"token"`
	}
	require.NoError(t, json.Unmarshal([]byte(filed), &task))
	require.NotEmpty(t, task.Token)
	c := a.opens(t, "localhost:"+target.port, "Bearer "+task.Token, "")
	c.says(t, "x", "x")
	require.Equal(t, "DENY_HOST", a.connect(t, "other.example:443", "Bearer "+task.Token, "").answer.Header.Get("Weir-Refused"))
	c.cut(t, func() { lead.do(t, http.MethodPost, schemas.RouteTasks+"/"+task.ID+"/cancel", "") })
	require.Equal(t, http.StatusProxyAuthRequired, a.connect(t, "localhost:"+target.port, "Bearer "+task.Token, "").answer.StatusCode)
}

// TestASlowClientOfTheProxy that does not end its head is answered, and its connection closed.
func TestASlowClientOfTheProxy(t *testing.T) {
	t.Parallel()
	a := newApp(t, withProxy+grants())
	for _, sent := range []string{"CONNECT localhost:1 HT", "GET http://localhost:1/ HTTP/1.1\r\nHost: localhost\r\nX"} {
		t.Run(sent[:3], func(t *testing.T) {
			t.Parallel()
			conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", a.proxy.addr())
			require.NoError(t, err)
			defer conn.Close()
			_, err = io.WriteString(conn, sent)
			require.NoError(t, err)
			require.NoError(t, conn.SetReadDeadline(time.Now().Add(4*headerTimeout)))
			all, err := io.ReadAll(conn)
			require.NoError(t, err, "it is closed")
			require.Contains(t, string(all), "HTTP/1.1 408 ")
			require.Contains(t, string(all), schemas.RequestTimeout)
		})
	}
}
