//go:build e2e

package corpus_test

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/policy/callurl"
	"weir/internal/weirtest/upstream"
	"weir/schemas"
)

// way is a surface that takes a call as it is, without a document around it.
type way struct {
	// unsaid is why a row cannot be said in the form of the surface. It is empty if the row can.
	unsaid func(r *outboundRow) string
	// adapt changes a row to what the surface can show of it.
	adapt func(r outboundRow) outboundRow
	send  func(x *trial) answer
}

// ways are the surfaces besides the executor, by name.
func ways() map[string]way {
	return map[string]way{
		"passthrough": {unsaid: unsaidByEntry, send: sendByEntry},
		"proxy":       {unsaid: unsaidAbsolute, send: sendAbsolute},
		"connect":     {unsaid: unsaidConnect, adapt: tunneled, send: sendConnect},
	}
}

// TestOutboundWays sends the rows of the corpus through passthrough, and through the proxy in both
// forms. Each row that can be said there has the verdict that it has as a document.
func TestOutboundWays(t *testing.T) {
	t.Parallel()
	rows, authority := readRows[outboundRow](t, "outbound"), upstream.NewAuthority(t)
	for name, w := range ways() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			unsaid, said := map[string]int{}, map[string][]outboundRow{}
			sent := 0
			for _, r := range rows {
				if why := w.unsaid(&r); why != "" {
					unsaid[why]++
					continue
				}
				if w.adapt != nil {
					r = w.adapt(r)
				}
				said[r.key()] = append(said[r.key()], r)
				sent++
			}
			for _, why := range slices.Sorted(maps.Keys(unsaid)) {
				t.Logf("%d rows cannot be said: %s", unsaid[why], why)
			}
			t.Logf("%d rows are sent", sent)
			require.Greater(t, sent, 100)
			for _, some := range said {
				for batch := range slices.Chunk(some, mostRowsOfWay) {
					l := &lane{authority: authority, all: rows, nodes: map[string]*node{}}
					t.Run("lane", func(t *testing.T) {
						t.Parallel()
						for _, r := range batch {
							t.Run(r.ID, func(sub *testing.T) { //nolint:paralleltest // one after the other
								w.run(sub, l.node(sub, t, &r), &r, authority)
							})
						}
					})
				}
			}
		})
	}
}

// mostRowsOfWay is how many rows a lane has at most. Most are decided by policy alone.
const mostRowsOfWay = 24

// run sends a row and compares the verdict.
func (w way) run(t *testing.T, n *node, r *outboundRow, authority *upstream.Authority) {
	t.Helper()
	s, token := newStage(t, r, authority), n.as(t, strings.ToLower(r.ID))
	if r.Assert.Rule != nil && n.createRules(t, r, s, token) != nil {
		return // the rule is refused, before any call
	}
	x := &trial{outboundRow: r, t: t, node: n, stage: s, token: token, bare: true}
	n.stage.Store(s)
	prepared := x.prepare()
	x.reply = w.send(x)
	x.observe(prepared)
	x.verdict()
}

var (
	httpToken  = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]+$")
	httpTarget = regexp.MustCompile(`^[!-~]+$`)
)

// unsaidBare is why no request without a document says a row.
func unsaidBare(r *outboundRow) string {
	var method string
	var headers map[string]string
	switch {
	case r.planned():
		return "only plans have parameters and snippets"
	case r.Request.ResponseSchema != nil:
		return "the schema of an answer is a member of the document"
	case r.Assert.InsecureField:
		return "the row is about an unknown member of the document"
	case r.Assert.CrashAt != "", r.Assert.MaxRSS > 0:
		return "the row needs a process of its own"
	case r.Upstream.Behaviour == "slow_body":
		return "an answer that is streamed may arrive slowly, until the deadline"
	case r.Assert.PolicyReload != nil:
		return "the row is about a connection before a reload"
	case slices.ContainsFunc(r.Policy.SelfPorts, func(port int) bool { return strings.Contains(r.Request.URL, fmt.Sprintf(":%d/", port)) }):
		return "the row calls a port that is Weir's own there, and not here"
	case sized(r) > 1<<20:
		return "a body that is refused for its size may end the connection before the sender reads why"
	case json.Unmarshal(r.Request.Method, &method) != nil || !httpToken.MatchString(method):
		return "the method is no HTTP token"
	case method != strings.ToUpper(method):
		return "the method is in lower case, which is another method in HTTP"
	case method == http.MethodConnect:
		return "CONNECT is not the method of a call"
	case r.Code == string(schemas.DenyURLInvalid) && callurl.Escaped(r.Request.URL) != r.Request.URL:
		return "the characters are percent-encoded on the way in, because fetch sends them as they are"
	case !httpTarget.MatchString(r.Request.URL):
		return "the URL has characters that no request line can hold"
	case r.Request.Headers != nil && json.Unmarshal(r.Request.Headers, &headers) != nil:
		return "the headers are not names and texts"
	}
	for name, value := range headers {
		if !httpToken.MatchString(name) || strings.ContainsAny(value, "\r\n\x00") {
			return "the header has characters that no header field can hold"
		}
		if ownOfWay.MatchString(name) {
			return "the header belongs to the connection or to Weir, and is not passed on"
		}
	}
	return ""
}

// sized is the size of a row's body; 0 if it has none that can be written.
func sized(r *outboundRow) int {
	if r.Request.Body == nil {
		return 0
	}
	body, err := written(r.Request.Body)
	if err != nil {
		return 0
	}
	return len(body)
}

// ownOfWay are the names of headers that mean something to Weir or to a hop before it.
var ownOfWay = regexp.MustCompile(`(?i)^(host|connection|content-length|transfer-encoding|te|trailer|upgrade|keep-alive|http2-settings|expect|accept-encoding|idempotency-key|traceparent|tracestate|forwarded|via|x-real-ip|x-forwarded-.*|proxy-.*|weir-.*)$`)

// refusedBefore are the codes of requests that are refused before policy reaches the check of the row's
// code.
func refusedBefore(code string) []schemas.Code {
	return map[string][]schemas.Code{
		string(schemas.DenyMethod):     {schemas.MethodNotAllowed},
		string(schemas.DenyURLInvalid): {schemas.InvalidRequest, schemas.URITooLong},
		string(schemas.DenyUserinfo):   {schemas.InvalidRequest},
		string(schemas.DenyAddress):    {schemas.DenyHost}, // of a CONNECT, which takes no address that an entry does not name
	}[code]
}

// entry is the row's entry by its key, if it has one.
func (r *outboundRow) entry() (entry, bool) {
	var key string
	_ = json.Unmarshal(r.Request.Key, &key)
	for _, e := range r.Policy.Entries {
		if e.Name == key {
			return e, true
		}
	}
	return entry{}, false
}

func unsaidByEntry(r *outboundRow) string {
	if why := unsaidBare(r); why != "" {
		return why
	}
	e, ok := r.entry()
	if !ok {
		return "the key names no entry"
	}
	u, err := url.Parse(e.URLPrefix)
	if err != nil || u.Host == "" || strings.Contains(u.Host, "*") {
		return "the entry has no one host"
	}
	if rest, ok := strings.CutPrefix(r.Request.URL, u.Scheme+"://"+u.Host); !ok || rest != "" && rest[0] != '/' && rest[0] != '?' {
		return "the URL is not below the entry's host"
	}
	return ""
}

func sendByEntry(x *trial) answer {
	e, _ := x.entry()
	u, err := url.Parse(e.URLPrefix)
	require.NoError(x.t, err)
	return x.exchange(x.node.url, schemas.RoutePassthrough+e.Name+strings.TrimPrefix(x.Request.URL, u.Scheme+"://"+u.Host), "Authorization")
}

func unsaidAbsolute(r *outboundRow) string {
	if why := unsaidBare(r); why != "" {
		return why
	}
	if _, ok := r.entry(); !ok || len(r.Policy.Entries) > 1 {
		return "the key names no entry, or one of several: the proxy chooses by the URL"
	}
	if !strings.HasPrefix(r.Request.URL, "http://") && !strings.HasPrefix(r.Request.URL, "https://") {
		return "a proxy is asked for http:// and https:// alone"
	}
	return ""
}

func sendAbsolute(x *trial) answer {
	return x.exchange(x.node.proxy, x.Request.URL, "Proxy-Authorization")
}

// exchange sends the row's call with this target, byte for byte, and reads the answer.
func (x *trial) exchange(server, target, credential string) answer {
	x.t.Helper()
	conn := dial(x.t, server)
	var method string
	require.NoError(x.t, json.Unmarshal(x.Request.Method, &method))
	var raw bytes.Buffer
	fmt.Fprintf(&raw, "%s %s HTTP/1.1\r\nHost: weir\r\n%s: Bearer %s\r\nConnection: close\r\n", method, target, credential, x.token)
	var headers map[string]string
	_ = json.Unmarshal(x.Request.Headers, &headers) // unsaidBare has seen that it can be read
	typed := false
	for name, value := range headers {
		fmt.Fprintf(&raw, "%s: %s\r\n", name, value)
		typed = typed || strings.EqualFold(name, "content-type")
	}
	var key string
	if json.Unmarshal(x.Request.IdempotencyKey, &key) == nil {
		fmt.Fprintf(&raw, "Idempotency-Key: %s\r\n", key)
	}
	if x.Request.Body != nil {
		body, err := written(x.Request.Body)
		require.NoError(x.t, err)
		if !typed {
			raw.WriteString("Content-Type: application/json\r\n")
		}
		fmt.Fprintf(&raw, "Content-Length: %d\r\n\r\n%s", len(body), body)
	} else {
		raw.WriteString("\r\n")
	}
	began := time.Now()
	_, err := conn.Write(raw.Bytes())
	require.NoError(x.t, err)
	h := receive(x.t, conn, method)
	h.took = time.Since(began)
	return h
}

// seenByTunnel reports whether a code has its cause in the host, the port or the address of a CONNECT.
func seenByTunnel(code string) bool {
	return slices.Contains([]schemas.Code{
		"OK", schemas.DenyHost, schemas.DenyPort, schemas.DenyUserinfo, schemas.DenyAddress, schemas.DenyURLInvalid, schemas.UpstreamDNS, schemas.UpstreamConnect,
	}, schemas.Code(code))
}

// Targets of CONNECT: a name and a port in canonical form, and one that begins with an address.
var (
	plainAuthority = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]*[a-z0-9])?:[0-9]+$`)
	literal        = regexp.MustCompile(`^(\[|[0-9]+\.)`)
)

// authority is host:port of the row's URL, as a client of a proxy makes it.
func (r *outboundRow) authority() string {
	scheme, rest, _ := strings.Cut(r.Request.URL, "://")
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		rest = rest[:i]
	}
	if host := rest[strings.LastIndexByte(rest, '@')+1:]; !strings.Contains(host[strings.LastIndexByte(host, ']')+1:], ":") {
		rest += map[bool]string{true: ":443", false: ":80"}[scheme == "https"]
	}
	return rest
}

func unsaidConnect(r *outboundRow) string {
	if why := unsaidAbsolute(r); why != "" {
		return why
	}
	e, a := r.Policy.Entries[0], r.Assert
	switch {
	case r.Assert.Rule != nil:
		return "a rule for the call applies to no tunnel, or refuses it as a whole"
	case e.Secret != nil || r.secret() != "" || e.Headers != nil:
		return "an entry that adds something has no tunnels"
	case !slices.Contains([]string{"ok", "connect_refused", "syn_blackhole"}, r.Upstream.Behaviour):
		return "what the target does is inside of the tunnel"
	case !seenByTunnel(r.Code):
		return "the cause is inside of the tunnel: " + r.Code
	case r.Code == string(schemas.DenyURLInvalid) && plainAuthority.MatchString(r.authority()):
		return "the cause is inside of the tunnel: the path"
	case a.WireMethod != nil, a.WirePath != nil, a.WireQuery != nil, a.WireBody != nil, a.WireHeader != nil, a.WireAbsent != nil, a.HostHeader != nil:
		return "the request inside of the tunnel is the client's own"
	case e.URLPrefix == "*" && literal.MatchString(r.authority()) && r.Expected == "allow":
		return "CONNECT to an address needs an entry that names it"
	}
	return ""
}

// tunneled gives the row's entries tunnels. A tunnel hides the path, so they have none.
func tunneled(r outboundRow) outboundRow {
	r.Policy.Entries = slices.Clone(r.Policy.Entries)
	for i := range r.Policy.Entries {
		e := &r.Policy.Entries[i]
		e.Connect = "tunnel"
		if scheme, rest, ok := strings.Cut(e.URLPrefix, "://"); ok {
			host, _, _ := strings.Cut(rest, "/")
			e.URLPrefix = scheme + "://" + host + "/"
		}
	}
	return r
}

// sendConnect opens a tunnel and sends the row's call through it.
func sendConnect(x *trial) answer {
	conn := dial(x.t, x.node.proxy)
	to := x.authority()
	_, err := fmt.Fprintf(conn, "CONNECT %s HTTP/1.1\r\nHost: %s\r\nProxy-Authorization: Bearer %s\r\n\r\n", to, to, x.token)
	require.NoError(x.t, err)
	r := bufio.NewReader(conn)
	resp, err := http.ReadResponse(r, &http.Request{Method: http.MethodConnect})
	require.NoError(x.t, err)
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		text, err := io.ReadAll(resp.Body)
		require.NoError(x.t, err)
		return answer{status: resp.StatusCode, header: resp.Header, body: string(text)}
	}
	require.Zero(x.t, r.Buffered(), "bytes before the client's")
	x.allowed = true
	through := net.Conn(conn)
	if x.scheme() == "https" {
		host, _, err := net.SplitHostPort(to)
		require.NoError(x.t, err)
		secure := tls.Client(conn, &tls.Config{RootCAs: x.stage.authority.Pool(), ServerName: host, MinVersion: tls.VersionTLS12})
		require.NoError(x.t, secure.HandshakeContext(x.t.Context()))
		through = secure
	}
	req, err := http.NewRequestWithContext(x.t.Context(), http.MethodGet, x.Request.URL, nil)
	require.NoError(x.t, err)
	require.NoError(x.t, req.Write(through))
	inside, err := http.ReadResponse(bufio.NewReader(through), req)
	require.NoError(x.t, err)
	require.NoError(x.t, inside.Body.Close())
	assert.Equal(x.t, http.StatusOK, inside.StatusCode)
	return answer{status: http.StatusOK, header: resp.Header}
}
