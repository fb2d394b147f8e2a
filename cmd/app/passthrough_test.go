package app

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/internal/weirtest/fixture"
	"weir/internal/weirtest/table"
	"weir/schemas"
)

// viaNode is an open node with entries whose target is the switchboard.
var viaNode = &shared{extra: withProxy + `limits: {upload: 1MiB}
policy:
  allowlist:
    - {name: below, url_prefix: "TARGET/below/", network: loopback, methods: [GET]}
    - {name: keyed, url_prefix: "TARGET/keyed/", network: loopback, methods: [POST], upstream_idempotency: {ttl: 1h, header: X-Request-Key}}
    - {name: strict, url_prefix: "TARGET/schema/", network: loopback, response_schema: {mode: strict, schema: {required: [id], properties: {id: {}}}}}
    - {name: warn, url_prefix: "TARGET/schema/", network: loopback, response_schema: {mode: warn, schema: {required: [id], properties: {id: {}}}}}
    - {name: redact, url_prefix: "TARGET/schema/", network: loopback, response_schema: {mode: redact, schema: {required: [id], properties: {id: {}}}}}
    - {name: needs, url_prefix: "TARGET/needs/", network: loopback, methods: [POST], requires_key: true, upstream_idempotency: {ttl: 1h, header: X-Request-Key}}
    - {name: adds, url_prefix: "TARGET/adds/", network: loopback, methods: [POST], body: {own: x}}
    - {name: any, url_prefix: "*"}
    - {name: t, url_prefix: "TARGET/", network: loopback, methods: [GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS]}
`}

// via has a handler be the target of the entry t below a path, and returns the URL of that path on the node.
func via(t *testing.T, path string, target http.HandlerFunc) (a *App, base string) {
	t.Helper()
	a = viaNode.node(t)
	switchboard().Handle(path+"/", http.StripPrefix(path, target))
	return a, a.URL() + "/via/t" + path
}

// echoVia answers with the body, the media type and some more of a request.
func echoVia(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	w.Header().Set("Content-Type", r.Header.Get("Content-Type"))
	w.Header().Set("X-Target", r.RequestURI)
	w.Header().Set("X-Coding", r.Header.Get("Content-Encoding"))
	w.Header().Set("Set-Cookie", "sid="+r.Header.Get("X-Cookie")+"; Path=/")
	if r.Header.Get("X-Zip") != "" {
		w.Header().Set("Content-Encoding", "gzip")
		body = zipped(body)
	}
	_, _ = w.Write(body)
}

func zipped(body []byte) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write(body) // a buffer takes everything
	_ = w.Close()
	return b.Bytes()
}

// TestPassthroughBytes: the target gets the bytes that the caller sends, and the caller those that the
// target answers with, whatever they are. A coding of the body is the target's to undo, one of the answer
// is a coding on the way.
func TestPassthroughBytes(t *testing.T) {
	t.Parallel()
	_, base := via(t, "/bytes", echoVia)
	media := []string{"application/json", "text/plain; charset=utf-8", "application/octet-stream", "multipart/form-data; boundary=x", "application/x-www-form-urlencoded", "image/png"}
	const callers = 8
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: callers}}
	var each sync.WaitGroup
	for n := range uint64(callers) {
		each.Go(func() {
			random := rand.New(rand.NewPCG(n, 1))
			for i := range table.Rounds(1_000) / callers {
				body := anyBody(random)
				if i == 0 { // stored by itself
					body = append(bytes.Repeat([]byte{'x'}, schemas.InlineLimit), body...)
				}
				sent, coding := body, ""
				if i%5 == 0 {
					sent, coding = zipped(body), []string{"gzip", "aws-chunked"}[i/5%2]
				}
				kind := media[random.IntN(len(media))]
				target := fmt.Sprintf("/a%%20b/%d/x?q=%%2f+%d&&", n, i)
				req, err := http.NewRequestWithContext(t.Context(), []string{"POST", "PUT", "PATCH"}[i%3], base+target+`{100%`, bytes.NewReader(sent))
				if err != nil {
					t.Error(err)
					return
				}
				for name, value := range map[string]string{"Content-Type": kind, "X-Cookie": strconv.Itoa(i), "Content-Encoding": coding, "X-Zip": strings.Repeat("1", i%2)} {
					setHeader(req, name, value)
				}
				resp, err := client.Do(req)
				if err != nil {
					t.Error(err)
					return
				}
				got, err := io.ReadAll(resp.Body)
				_ = resp.Body.Close()
				if err != nil || !bytes.Equal(got, sent) || resp.Header.Get("X-Coding") != coding || resp.Header.Get("Content-Type") != kind || resp.Header.Get("X-Target") != "/bytes"+target+"%7B100%25" ||
					resp.Header.Get("Set-Cookie") != fmt.Sprintf("sid=%d; Path=/via/t", i) {
					t.Errorf("%d %s %.200q: got %.200q, %v, %v", resp.StatusCode, kind, body, got, err, resp.Header)
					return
				}
			}
		})
	}
	each.Wait()
}

func setHeader(req *http.Request, name, value string) {
	if value != "" {
		req.Header.Set(name, value)
	}
}

// TestPassthroughStream: an answer is shown while it arrives, and can be read again.
func TestPassthroughStream(t *testing.T) {
	t.Parallel()
	next := make(chan struct{})
	a, base := via(t, "/stream", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		w.Header().Set("X-Api-Token", "shown")
		for i := range 3 {
			fmt.Fprintf(w, "data: %d\n\n", i)
			_ = http.NewResponseController(w).Flush()
			<-next
		}
	})
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, base, http.NoBody)
	require.NoError(t, err)
	req.URL.Path += "/"
	resp, err := http.DefaultTransport.RoundTrip(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	require.Equal(t, []string{"text/event-stream", "shown"}, []string{resp.Header.Get("Content-Type"), resp.Header.Get("X-Api-Token")})
	for i := range 3 {
		piece := make([]byte, len("data: 0\n\n"))
		_, err := io.ReadFull(resp.Body, piece)
		require.NoError(t, err)
		require.Equal(t, fmt.Sprintf("data: %d\n\n", i), string(piece))
		next <- struct{}{}
	}
	rest, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Empty(t, rest)
	action := "/v1/actions/" + resp.Header.Get("Weir-Action-Id")
	body, h := a.asks(t, http.StatusOK, http.MethodGet, action+"/response", "")
	require.Equal(t, []string{"data: 0\n\ndata: 1\n\ndata: 2\n\n", "shown"}, []string{body, h.Get("X-Api-Token")})
	events, _ := a.asks(t, http.StatusOK, http.MethodGet, action+"/events", "", "Accept", "application/json")
	require.Contains(t, events, "REDACTED")
	view, _ := a.asks(t, http.StatusOK, http.MethodGet, action, "")
	require.NotContains(t, events+view, "shown")
	require.Contains(t, view, `"status":"succeeded"`)
}

// TestPassthroughRefusals: a refusal is a problem with its code in a header, and says what would pass.
func TestPassthroughRefusals(t *testing.T) {
	t.Parallel()
	var hits atomic.Int32
	a, _ := via(t, "/refusals", func(http.ResponseWriter, *http.Request) { hits.Add(1) })
	for name, tt := range map[string]struct {
		method, path, body string
		headers            []string
		status             int
		code               schemas.Code
		says               string
	}{
		"no such entry":       {"GET", "none/x", "", nil, 404, schemas.NotFound, "redact, needs, adds, t, or send the call with its whole URL to /v1/execute"},
		"an entry of any":     {"GET", "any/x", "", nil, 404, schemas.NotFound, "use below, keyed"},
		"an allowed host":     {"GET", "host:127.0.0.1/x", "", nil, 404, schemas.NotFound, "use below"},
		"out of the prefix":   {"GET", "below/", "", nil, 403, schemas.DenyPath, "use one under its url_prefix"},
		"up from the prefix":  {"GET", "below/below/../x", "", nil, 403, schemas.DenyPath, "dot segment"},
		"a method":            {"POST", "below/below/x", "{}", nil, 403, schemas.DenyMethod, "use one that it lists"},
		"a header":            {"GET", "t/refusals/", "", []string{"X-HTTP-Method-Override", "PUT"}, 403, schemas.DenyHeader, "X-Http-Method-Override"},
		"a large body":        {"POST", "t/refusals/", strings.Repeat("x", 1<<20+1), nil, 413, schemas.PayloadTooLarge, "1048576 bytes, the limit limits.upload"},
		"a large, added to":   {"POST", "adds/adds/x", `{"a":"` + strings.Repeat("x", 300<<10) + `"}`, []string{"Content-Type", "application/json"}, 403, schemas.DenyBody, "send the call to /v1/execute"},
		"two keys":            {"POST", "t/refusals/", "", []string{"Idempotency-Key", "a", "Idempotency-Key", "b"}, 400, schemas.InvalidRequest, "send it once"},
		"no key of its own":   {"POST", "keyed/keyed/x", "", []string{"X-Request-Key", "k 3"}, 403, schemas.DenyHeader, "X-Request-Key"},
		"two of its own":      {"POST", "keyed/keyed/x", "", []string{"X-Request-Key", "a", "X-Request-Key", "b"}, 403, schemas.DenyHeader, "X-Request-Key"},
		"its own, and one":    {"POST", "keyed/keyed/x", "", []string{"X-Request-Key", "a", "Idempotency-Key", "b"}, 403, schemas.DenyHeader, "X-Request-Key"},
		"a key is missing":    {"POST", "needs/needs/x", "", []string{"Accept", "*/*"}, 403, schemas.DenyHeader, "key"},
		"a key and a header":  {"POST", "needs/needs/x", "", []string{"X-Request-Key", "a", "X-HTTP-Method", "PUT"}, 403, schemas.DenyHeader, "X-Http-Method"},
		"a delay that is not": {"POST", "t/refusals/", "", []string{"Weir-Delay", "soon"}, 400, schemas.InvalidRequest, "must be a duration"},
		"no entry":            {"GET", "", "", nil, 404, schemas.NotFound, ""},
		"a body of a GET":     {"GET", "t/refusals/", "x", nil, 403, schemas.DenyBody, "GET"},
	} {
		resp, body := askVia(t, tt.method, a.URL()+"/via/"+tt.path, tt.body, tt.headers...)
		require.Equal(t, tt.status, resp.StatusCode, "%s: %s", name, body)
		require.Equal(t, []string{string(tt.code), "application/problem+json"}, []string{resp.Header.Get(schemas.HeaderRefused), resp.Header.Get("Content-Type")}, name)
		require.Contains(t, body, tt.says, name)
		require.Equal(t, strings.HasPrefix(tt.says, "X-"), strings.Contains(body, "the header is"), name)
	}
	require.Zero(t, hits.Load())
}

// TestPassthroughAnswers: an answer of any status is the target's, and an end without one is Weir's.
func TestPassthroughAnswers(t *testing.T) {
	t.Parallel()
	var busy, slow atomic.Int32
	a, base := via(t, "/answers", func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/404":
			w.Header()["X-Many"] = []string{"a", "b", "caf\xe9"}
			w.Header().Set("Set-Cookie", "sid=hidden")
			w.Header().Set("Connection", "X-Own")
			w.Header().Set("X-Own", "hop")
			w.Header().Set("Weir-Refused", "NOT_OURS")
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, "{\"message\": \"Not Found\"}\n")
		case "/busy":
			if busy.Add(1) < 3 {
				w.Header().Set("X-Try", strconv.Itoa(int(busy.Load())))
				w.WriteHeader(http.StatusServiceUnavailable)
			}
			fmt.Fprint(w, "at last")
		case "/down":
			w.WriteHeader(http.StatusServiceUnavailable)
			fmt.Fprint(w, "down")
		case "/moved":
			w.Header().Set("Location", "/elsewhere")
			w.Header().Set("Content-Security-Policy", "default-src *")
			w.Header().Set("Service-Worker-Allowed", "/")
			w.Header().Set("Clear-Site-Data", `"*"`)
			w.WriteHeader(http.StatusFound)
		case "/empty":
			w.WriteHeader(http.StatusNoContent)
		case "/early":
			w.Header().Set("Link", "</style.css>; rel=preload")
			w.WriteHeader(http.StatusEarlyHints)
			fmt.Fprint(w, "ok")
		case "/large":
			for range 60 {
				_, _ = w.Write(bytes.Repeat([]byte("\x00\xfflarge"), 1000))
			}
		case "/cut":
			slow.Add(1)
			w.Header().Set("Content-Length", "1000000")
			_, _ = w.Write(make([]byte, 500_000))
			panic(http.ErrAbortHandler)
		case "/gone":
			panic(http.ErrAbortHandler)
		}
	})
	for _, tt := range []struct {
		method, path string
		status       int
		body         string
		headers      http.Header
		outcome      string
	}{
		{"GET", "/404", 404, "{\"message\": \"Not Found\"}\n", http.Header{"X-Many": {"a", "b", "caf\xe9"}, "Set-Cookie": {"sid=hidden; Path=/via/t/answers"}, "X-Own": nil, "Weir-Refused": nil, "Content-Length": {"25"}}, "failed HTTP_FAILURE"},
		{"HEAD", "/404", 404, "", http.Header{"X-Many": {"a", "b", "caf\xe9"}, "Content-Length": {"25"}}, "failed HTTP_FAILURE"},
		{"GET", "/busy", 200, "at last", http.Header{"X-Try": nil}, "succeeded "},
		{"GET", "/down", 503, "down", http.Header{"Weir-Refused": nil}, "failed RETRIES_EXHAUSTED"},
		{"POST", "/down", 503, "down", nil, "failed HTTP_FAILURE"},
		{"GET", "/moved", 302, "", http.Header{"Location": {"/via/t/elsewhere"}, "Content-Security-Policy": {"sandbox", "default-src *"}, "Service-Worker-Allowed": nil, "Clear-Site-Data": nil}, "failed DENY_REDIRECT"},
		{"DELETE", "/empty", 204, "", http.Header{"Content-Length": nil}, "succeeded "},
		{"GET", "/early", 200, "ok", http.Header{"Link": {"</style.css>; rel=preload"}}, "succeeded "},
		{"GET", "/large", 200, strings.Repeat("\x00\xfflarge", 60_000), nil, "succeeded "},
		{"POST", "/gone", 424, "", http.Header{"Weir-Refused": {"OUTCOME_UNKNOWN"}}, "outcome_unknown OUTCOME_UNKNOWN"},
	} {
		resp, body := askVia(t, tt.method, base+tt.path, "")
		require.Equal(t, tt.status, resp.StatusCode, "%s: %s", tt.path, body)
		if tt.status != 424 {
			require.Equal(t, tt.body, body, tt.path)
		}
		for name, want := range tt.headers {
			require.Equal(t, want, resp.Header[name], "%s %s", tt.path, name)
		}
		action := "/v1/actions/" + resp.Header.Get("Weir-Action-Id")
		view, _ := a.asks(t, http.StatusOK, http.MethodGet, action, "")
		v := fixture.Decode[schemas.ActionView](t, view)
		require.Equal(t, tt.outcome, string(v.Status)+" "+string(v.Code), tt.path)
		require.Equal(t, schemas.Called{Method: tt.method, Host: switchboard().host, Path: "/answers" + tt.path}, v.Called)
		events, _ := a.asks(t, http.StatusOK, http.MethodGet, action+"/events", "", "Accept", "application/json")
		records, _ := a.asks(t, http.StatusOK, http.MethodGet, "/v1/evidence?action_id="+v.ID, "")
		require.NotContains(t, view+events+records, "sid=", "a cookie is the caller's alone")
		again, twice := askVia(t, "GET", a.URL()+action+"/response", "")
		if tt.status == 424 {
			require.Equal(t, 404, again.StatusCode)
			require.Contains(t, twice, "outcome_unknown")
			continue
		}
		require.Equal(t, []any{tt.status, tt.body}, []any{again.StatusCode, twice}, tt.path)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, base+"/cut", http.NoBody)
	require.NoError(t, err)
	resp, err := http.DefaultTransport.RoundTrip(req)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, resp.StatusCode)
	_, err = io.ReadAll(resp.Body)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	require.NoError(t, resp.Body.Close())
	require.EqualValues(t, 1, slow.Load(), "the reader had its beginning")
	view, _ := a.asks(t, http.StatusOK, http.MethodGet, "/v1/actions/"+resp.Header.Get("Weir-Action-Id"), "")
	require.Contains(t, view, `"code":"UPSTREAM_TRUNCATED"`)
}
