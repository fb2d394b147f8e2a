//go:build e2e

// Package corpus_test runs the whole program against the corpora of hostile input: what a
// caller, DNS and an upstream can do to what leaves (TestOutbound), and what a caller can do to
// what comes in (TestInbound). It alone shows that no row of the corpora gets past the whole
// program: listener, log, worker and guarded client, with what each leaves in logs, evidence
// and files. Rows that need no network are decided by TestStatic, and rows in which a
// worker dies run in package processors; both are in the first tier.
package corpus_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net"
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

	"github.com/stretchr/testify/require"

	"weir/cmd/app"
	"weir/internal/config"
	"weir/internal/weirtest/capture"
	"weir/internal/weirtest/program"
	"weir/schemas"
)

// atOnce is how many rows run side by side: the slow ones wait, and use no processor.
const atOnce = "24"

// hang is the time after which a request that must end by itself hangs, on a loaded machine too.
const hang = time.Minute

func TestMain(m *testing.M) {
	flag.Parse()
	chosen := false
	flag.Visit(func(f *flag.Flag) { chosen = chosen || f.Name == "test.parallel" })
	if !chosen {
		must(flag.Set("test.parallel", atOnce))
	}
	var proxied atomic.Int64 // requests to the proxy of the environment, which Weir must not use
	proxy := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { proxied.Add(1) }))
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"} {
		must(os.Setenv(name, proxy.URL))
	}
	must(os.Setenv("NO_PROXY", ""))
	code := m.Run()
	if n := proxied.Load(); n > 0 {
		fmt.Fprintf(os.Stderr, "FAIL: %d requests went to the proxy of the environment\n", n)
		code = 1
	}
	os.Exit(code)
}

// cut shortens a text for a message.
func cut(s string) string { return s[:min(len(s), 400)] }

// weir is a whole Weir in this process, which wants tokens.
type weir struct {
	url, proxy, dir string
	log             capture.Buffer
	client          *http.Client
	admin           string // the operator's token
	stop            func() error

	mu     sync.Mutex
	issued []string // every other token
}

func newWeir(dir string) *weir {
	return &weir{dir: dir, client: &http.Client{Timeout: 5 * hang, Transport: &http.Transport{
		ExpectContinueTimeout: hang,
		// Another peer than the one that attacks.
		DialContext:       (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}).DialContext,
		DisableKeepAlives: true,
	}}}
}

// start starts it. The configuration must have the token file admin.token in the directory.
func (w *weir) start(t *testing.T, configuration string, o app.Options) {
	t.Helper()
	cfg, err := config.Parse("weir.yaml", []byte(configuration), nil, nil)
	require.NoError(t, err)
	o.Config, o.Log = cfg, &w.log
	ctx := context.WithoutCancel(t.Context())
	a, err := app.New(ctx, o)
	require.NoError(t, err)
	require.NoError(t, a.Start(ctx))
	w.url, w.proxy, w.stop = a.URL(), a.ProxyURL(), func() error { return a.Stop(ctx) }
	data, err := os.ReadFile(filepath.Join(w.dir, "admin.token"))
	require.NoError(t, err)
	w.admin = strings.TrimSpace(string(data))
}

func (w *weir) token(t *testing.T, req schemas.TokenRequest) schemas.NewToken {
	t.Helper()
	req.Name = "corpus"
	made := w.by(w.admin).MakeToken(t, req)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.issued = append(w.issued, made.Secret)
	return made
}

// by is an ordinary client with a token.
func (w *weir) by(token string) program.Client {
	return program.Client{Base: w.url, Token: token, HTTP: w.client}
}

// secrets are all tokens that were issued.
func (w *weir) secrets() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.issued)
}

// answer is what came back on a connection.
type answer struct {
	status int // 0: nothing did
	header http.Header
	body   string
	closed bool // the connection was ended
	took   time.Duration
}

// dial opens a connection that ends with the test.
func dial(t *testing.T, url string) *net.TCPConn {
	t.Helper()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", strings.TrimPrefix(url, "http://"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	require.NoError(t, conn.SetDeadline(time.Now().Add(5*hang)))
	tcp, ok := conn.(*net.TCPConn)
	require.True(t, ok)
	return tcp
}

// must sends a request that is answered with this status.
func (w *weir) must(t *testing.T, token, method, path string, doc any, status int, header ...string) answer {
	t.Helper()
	h := w.ask(t, token, method, path, doc, header...)
	require.Equal(t, status, h.status, "%s %s: %s", method, path, h.body)
	return h
}

// ask sends an ordinary request: a document, or the bytes of a body.
func (w *weir) ask(t *testing.T, token, method, path string, doc any, header ...string) answer {
	t.Helper()
	body, ok := doc.([]byte)
	if !ok && doc != nil {
		body = encode(doc)
	}
	header = append([]string{"Content-Type", "application/json", "Accept", "application/json"}, header...)
	if len(body) > 1<<20 { // one that is refused for its size is not sent: the connection ends
		header = append(header, "Expect", "100-continue")
	}
	began := time.Now()
	a := w.by(token).Ask(t, method, path, string(body), header...)
	return answer{status: a.Status, header: a.Header, body: a.Body, took: time.Since(began)}
}

// items are those of a page.
func items[T any](t *testing.T, h answer) []T {
	t.Helper()
	var page schemas.Page[T]
	require.NoError(t, json.Unmarshal([]byte(h.body), &page), h.body)
	return page.Items
}

// operate carries out an operation of the agent API that must succeed.
func (w *weir) operate(t *testing.T, token, operation string, args map[string]any) json.RawMessage {
	t.Helper()
	doc := map[string]any{"request_id": "of the test", "operation": operation, "args": args}
	return w.must(t, token, http.MethodPost, routeAgentAPI, doc, http.StatusOK).agent(t).Data
}
