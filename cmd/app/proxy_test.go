package app

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/weirtest/fixture"
	"weir/internal/weirtest/poll"
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

// opens is connect with this caller's token to a tunnel that must open, and that carries bytes.
func (c caller) opens(t *testing.T, authority string) *connected {
	t.Helper()
	conn := c.connect(t, authority, "Bearer "+c.token, "")
	require.Equal(t, http.StatusOK, conn.answer.StatusCode, conn.body)
	conn.says(t, "x", "x")
	return conn
}

// refuses is connect with this caller's token to a tunnel that must not open.
func (c caller) refuses(t *testing.T, authority string, status int, code schemas.Code, says string) {
	t.Helper()
	conn := c.connect(t, authority, "Bearer "+c.token, "")
	require.Equal(t, []any{status, string(code)}, []any{conn.answer.StatusCode, conn.answer.Header.Get("Weir-Refused")}, authority)
	require.Contains(t, conn.body, says, authority)
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

// cut waits for the end of the connection.
func (c *connected) cut() { _, _ = io.Copy(io.Discard, c.in) }

// tunnelAudits are the payloads of the records of a token's tunnels, once there are as many.
func (c caller) tunnelAudits(t *testing.T, token string, n int) (all []schemas.TunnelAudit, records []schemas.Evidence) {
	t.Helper()
	poll.Until(t, func() bool {
		var page schemas.Page[schemas.Evidence]
		text, _ := c.does(t, http.StatusOK, http.MethodGet, "/v1/evidence?kind=proxy.tunnel&limit=1000", "", "Accept", "application/json")
		require.NoError(t, json.Unmarshal([]byte(text), &page))
		all, records = nil, nil
		for _, r := range page.Items {
			a := fixture.Decode[schemas.TunnelAudit](t, r.Payload)
			if r.Principal == token {
				all, records = append(all, a), append(records, r)
			}
		}
		return len(all) >= n
	})
	return all, records
}

// proxied is a client of the proxy that trusts a CA.
func (a *App) proxied(t *testing.T, token string, trusted *x509.CertPool) *http.Client {
	t.Helper()
	at, err := url.Parse(a.ProxyURL())
	require.NoError(t, err)
	if token != "" {
		at.User = url.UserPassword("weir", token)
	}
	transport := &http.Transport{Proxy: http.ProxyURL(at), TLSClientConfig: &tls.Config{RootCAs: trusted, MinVersion: tls.VersionTLS12}}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// TestForwardProxy is what can be seen of the proxy on one node.
func TestForwardProxy(t *testing.T) { //nolint:tparallel // one after the other, on one node
	t.Parallel()
	p := newProxySite(t)
	p.write(t, p.grants())
	p.start(t, false)
	p.admin = p.App.admin(t)
	slow := p.slow(t)
	t.Run("tunnel", p.tunnel)           //nolint:paralleltest // as said
	t.Run("credentials", p.credentials) //nolint:paralleltest // as said
	t.Run("refused", p.refused)         //nolint:paralleltest // as said
	t.Run("rules", p.rules)             //nolint:paralleltest // as said
	t.Run("cut", p.cuts)                //nolint:paralleltest // as said
	t.Run("task", p.task)               //nolint:paralleltest // as said
	t.Run("inspected", p.inspected)     //nolint:paralleltest // as said
	t.Run("elsewhere", p.elsewhere)     //nolint:paralleltest // as said
	t.Run("bounded", p.bounded)         //nolint:paralleltest // as said
	slow()
	t.Run("stop", p.stops) //nolint:paralleltest // as said
}

// tunnel: bytes pass both ways, an end of one side is passed on, and two records describe it.
func (p *proxySite) tunnel(t *testing.T) {
	one, made := p.one(t, "")
	authority := "localhost:" + p.target.port
	c := p.connect(t, authority, "Bearer "+one.token, "early ")
	require.Equal(t, http.StatusOK, c.answer.StatusCode, c.body)
	c.says(t, "bird", "early bird")
	require.NoError(t, c.CloseWrite())
	rest, err := io.ReadAll(c.in)
	require.NoError(t, err)
	require.Equal(t, "bye", string(rest))
	audits, records := p.admin.tunnelAudits(t, made.ID, 2)
	require.Equal(t, schemas.TunnelAudit{State: schemas.TunnelOpened, Target: authority, Connect: "tunnel", Network: "loopback"}, audits[0])
	audits[1].DurationMS = 0
	require.Equal(t, schemas.TunnelAudit{
		State: schemas.TunnelEnded, Target: authority, Connect: "tunnel", Network: "loopback", End: schemas.TunnelClosed,
		BytesUp: int64(len("early bird")), BytesDown: int64(len("early birdbye")),
	}, audits[1])
	for _, r := range records {
		assert.Equal(t, []string{"t" + p.target.port, schemas.Operator, p.policy().Version(), records[0].ActionID}, []string{r.Entry, r.Tenant, r.PolicyVersion, r.ActionID})
	}
	for series, want := range map[string]string{"weir_tunnels": "0", `weir_tunnels_ended_total{end="closed"}`: "1", `weir_tunnel_bytes_total{direction="down"}`: "13"} {
		require.Equal(t, want, p.admin.metric(t, series), series)
	}
}

// credentials: a token opens a tunnel, and sends a request by its whole URL; without one, the answer asks for it.
func (p *proxySite) credentials(t *testing.T) {
	one, _ := p.one(t, "")
	_, port, _ := net.SplitHostPort(switchboard().host)
	for token, want := range map[string]string{one.token: "418 GET plain.example:" + port + " /proxied/a?b||", "": "407 "} {
		resp, body := fetch(t, p.proxied(t, token, nil), http.MethodGet, "http://plain.example:"+port+"/proxied/a?b", "")
		require.True(t, strings.HasPrefix(strconv.Itoa(resp.StatusCode)+" "+body, want), body)
		require.Equal(t, token == "", resp.Header.Get("Proxy-Authenticate") != "")
	}
	reader, _ := p.admin.grant(t, `{"name":"reader","scopes":["actions:read"]}`)
	other, _ := p.one(t, `,"entries":["other"]`)
	for credential, want := range map[string]struct {
		status int
		says   string
	}{
		"Basic " + base64.StdEncoding.EncodeToString([]byte("weir:"+one.token)): {200, ""},
		"":         {407, "HTTPS_PROXY=http://weir:TOKEN@HOST:PORT"},
		"Digest x": {407, "Proxy-Authorization"},
		"Bearer " + one.token[:len(one.token)-1] + "-": {407, "send it in Proxy-Authorization"},
		"Bearer " + reader.token:                       {403, "actions:write"},
		"Bearer " + other.token:                        {403, "use a token whose entries cover this host"},
	} {
		c := p.connect(t, "localhost:"+p.target.port, credential, "")
		require.Equal(t, want.status, c.answer.StatusCode, c.body)
		require.Contains(t, c.body, want.says)
		require.Equal(t, want.status == 407, c.answer.Header.Get("Proxy-Authenticate") == `Basic realm="weir"`)
		require.Empty(t, c.answer.Header.Get("WWW-Authenticate"))
		if want.status == 200 {
			c.says(t, "x", "x")
		}
	}
}

// refused: nothing is sent for a CONNECT that is refused, and the answer says what would pass.
func (p *proxySite) refused(t *testing.T) {
	one, made := p.one(t, "")
	closed, before := newEcho(t), p.target.accepted.Load()
	away, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	_, gone, _ := net.SplitHostPort(away.Addr().String())
	require.NoError(t, away.Close())
	p.reload(t, p.grants(gone))
	rows := map[string][2]string{
		"localhost:" + closed.port:   {"DENY_PORT", "or an entry for port " + closed.port},
		"127.0.0.1:" + p.target.port: {"DENY_HOST", "add an entry with url_prefix https://127.0.0.1:" + p.target.port + "/, network loopback and connect tunnel"},
		"other.example:443":          {"DENY_METHOD", "set connect of entry other to tunnel or inspect"},
		"new.example:443":            {"DENY_HOST", "add an entry with url_prefix https://new.example/ and connect tunnel"},
		"169.254.169.254:80":         {"DENY_HOST", "none can"},
		"localhost:25":               {"DENY_PORT", "use port 587 or 465"},
		"localhost":                  {"DENY_URL_INVALID", "write host:port"},
		"me@localhost:443":           {"DENY_USERINFO", "write host:port alone"},
		"localhost:443/x":            {"DENY_URL_INVALID", "without a scheme"},
	}
	for authority, want := range rows {
		one.refuses(t, authority, http.StatusForbidden, schemas.Code(want[0]), want[1])
	}
	one.refuses(t, "localhost:"+gone, http.StatusBadGateway, schemas.UpstreamConnect, "")
	audits, records := p.admin.tunnelAudits(t, made.ID, len(rows)+1)
	require.Len(t, audits, len(rows)+1)
	for i, r := range records {
		require.Equal(t, schemas.TunnelRefused, audits[i].State)
		require.Equal(t, i < len(rows), r.Code.Denied(), "a target that is away is no denial")
	}
	require.Zero(t, p.target.accepted.Load()-before+closed.accepted.Load())
	body := p.connect(t, "localhost:"+p.target.port, "Bearer "+one.token+"\r\nContent-Length: 3", "abc")
	require.Equal(t, http.StatusBadRequest, body.answer.StatusCode, "CONNECT has no body")
}

// rules: a mock for one token refuses its tunnels to that host, and no others.
func (p *proxySite) rules(t *testing.T) {
	one, made := p.one(t, "")
	at := "localhost:" + p.target.port
	open := one.opens(t, at)
	p.admin.ruled(t, "create", `{"id":"m","type":"mock","match":{"url_pattern":"https://`+at+`/orders","method":"POST"},"action":{"status":503},"scope":{"agent":"`+made.ID+`"}}`)
	one.refuses(t, at, http.StatusForbidden, schemas.DenyRule, "disable the rule, or set connect of the entry to inspect")
	open.says(t, "x", "x")
	p.admin.opens(t, at)
	_, records := p.admin.tunnelAudits(t, made.ID, 2)
	require.Equal(t, "t"+p.target.port, records[1].Entry)
	p.admin.ruled(t, "disable", "m")
	one.opens(t, at)
}

// cuts: a tunnel is cut that may no longer be open, and its record says why. A reload that leaves its entry as it is
// leaves it open.
func (p *proxySite) cuts(t *testing.T) {
	post := func(path, body string) { p.admin.does(t, http.StatusOK, http.MethodPost, path, body) }
	for name, tt := range map[string]struct {
		end schemas.TunnelEnd
		do  func(port, token string)
	}{
		"revoked": {schemas.TunnelRevoked, func(_, token string) { p.admin.revoke(t, token) }},
		"denied":  {schemas.TunnelDenied, func(string, string) { p.reload(t, p.grants()) }},
		"changed": {schemas.TunnelDenied, func(port, _ string) {
			p.reload(t, strings.ReplaceAll(p.grants(port), port+`/", network: loopback`, port+`/", network: loopback, methods: [POST]`))
		}},
		"entry paused": {schemas.TunnelPaused, func(port, _ string) { post(schemas.RouteOperationsPause, `{"entry":"t`+port+`"}`) }},
		"pinned open": {schemas.TunnelPaused, func(port, _ string) {
			post(schemas.RouteOperationsPin, `{"destination":"https://localhost:`+port+`","state":"open"}`)
		}},
	} {
		target, kept := newEcho(t), newEcho(t)
		p.reload(t, p.grants(target.port))
		one, made := p.one(t, "")
		c := one.opens(t, "localhost:"+target.port)
		p.reload(t, p.grants(target.port, kept.port))
		c.says(t, "y", "y")
		tt.do(target.port, made.ID)
		c.cut()
		audits, _ := p.admin.tunnelAudits(t, made.ID, 2)
		require.Equal(t, tt.end, audits[1].End, name)
	}
}

// task: the token of a task opens tunnels by the entries of who filed it, and its end cuts them.
func (p *proxySite) task(t *testing.T) {
	lead, _ := p.one(t, `,"entries":["t`+p.target.port+`"]`)
	p.admin.files(t, "")
	holder := lead.files(t, "")
	c := holder.opens(t, "localhost:"+p.target.port)
	holder.refuses(t, "other.example:443", http.StatusForbidden, schemas.DenyHost, "")
	lead.does(t, http.StatusAccepted, http.MethodPost, schemas.RouteTasks+"/"+holder.id+"/cancel", "")
	c.cut()
	require.Equal(t, http.StatusProxyAuthRequired, p.connect(t, "localhost:"+p.target.port, "Bearer "+holder.token, "").answer.StatusCode)
}

// inspected: a client that knows nothing of Weir reaches an https target with the entry's secret, and each of its
// requests is an action.
func (p *proxySite) inspected(t *testing.T) {
	one, made := p.one(t, "")
	client, base := p.proxied(t, one.token, p.ca), "https://example.com:"+p.port
	resp, body := fetch(t, client, http.MethodPost, base+"/v1/x?y=z", "hello", "Content-Type", "text/plain")
	require.Equal(t, http.StatusTeapot, resp.StatusCode, body)
	require.Equal(t, "POST example.com:"+p.port+" /v1/x?y=z|REDACTED|hello", strings.Replace(body, "very-secret-key", "REDACTED", 1))
	view, _ := one.does(t, http.StatusOK, http.MethodGet, "/v1/actions/"+resp.Header.Get("Weir-Action-Id"), "")
	require.Contains(t, view, `"kind":"passthrough"`)
	require.NotContains(t, view, "very-secret-key")
	for target, want := range map[string]string{"GET /other": "DENY_PATH", "DELETE /v1/x": "DENY_METHOD"} { // each request is checked
		method, path, _ := strings.Cut(target, " ")
		resp, body = fetch(t, client, method, base+path, "")
		require.Equal(t, []any{http.StatusForbidden, want}, []any{resp.StatusCode, resp.Header.Get("Weir-Refused")}, body)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, base+"/v1/x", http.NoBody)
	require.NoError(t, err)
	req.Host = "victim.example"
	misdirected, err := client.Do(req)
	require.NoError(t, err)
	require.NoError(t, misdirected.Body.Close())
	require.Equal(t, http.StatusMisdirectedRequest, misdirected.StatusCode, "another Host")
	client.CloseIdleConnections()
	shakes := func(name string) (*connected, error) {
		c := p.connect(t, "example.com:"+p.port, "Bearer "+one.token, "")
		return c, tls.Client(c.TCPConn, &tls.Config{ServerName: name, RootCAs: p.ca, MinVersion: tls.VersionTLS12}).HandshakeContext(t.Context())
	}
	_, err = shakes("victim.example")
	require.Error(t, err, "another name in TLS")
	c, err := shakes("example.com")
	require.NoError(t, err)
	p.admin.revoke(t, made.ID)
	c.cut()
	ends := map[schemas.TunnelEnd]schemas.Code{}
	poll.Until(t, func() bool {
		audits, records := p.admin.tunnelAudits(t, made.ID, 1)
		for i, a := range audits {
			ends[a.End] = records[i].Code
		}
		_, revoked := ends[schemas.TunnelRevoked]
		_, named := ends[schemas.TunnelName]
		return revoked && named
	})
	require.Equal(t, schemas.DenyHost, ends[schemas.TunnelName], ends)
}
