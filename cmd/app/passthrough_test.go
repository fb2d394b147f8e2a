package app

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/weirtest/table"
	"weir/schemas"
)

// viaNode is a node with the entries t, whose target is a handler, and below, whose path is /below/.
func viaNode(t *testing.T, target http.HandlerFunc, extra string) (base string, up *httptest.Server) {
	t.Helper()
	up = httptest.NewServer(target)
	t.Cleanup(up.Close)
	a := newApp(t, fmt.Sprintf(`%spolicy:
  allowlist:
    - {name: t, url_prefix: "%[2]s/", network: loopback, methods: [GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS]}
    - {name: below, url_prefix: "%[2]s/below/", network: loopback, methods: [GET]}
    - {name: adds, url_prefix: "%[2]s/adds/", network: loopback, methods: [POST], body: {own: x}}
    - {name: any, url_prefix: "*"}
`, extra, up.URL))
	return "http://" + a.http.addr(), up
}

// echoVia answers with the body, the media type and some more of a request.
func echoVia(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	w.Header().Set("Content-Type", r.Header.Get("Content-Type"))
	w.Header().Set("X-Target", r.RequestURI)
	w.Header().Set("X-Method", r.Method)
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
// target answers with, whatever they are. Gzip is a coding on the way, and no part of them.
func TestPassthroughBytes(t *testing.T) {
	t.Parallel()
	base, _ := viaNode(t, echoVia, "")
	media := []string{"application/json", "text/plain; charset=utf-8", "application/octet-stream", "multipart/form-data; boundary=x", "application/x-www-form-urlencoded", "image/png", "text/html", "application/x-ndjson"}
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 16}}
	var each sync.WaitGroup
	const callers = 16
	for n := range uint64(callers) {
		each.Go(func() {
			random := rand.New(rand.NewPCG(n, 1))
			for i := range table.Rounds(3_000) / callers {
				body := anyBody(random)
				sent, coding := body, ""
				if i%5 == 0 {
					sent, coding = zipped(body), "gzip"
				}
				kind := media[random.IntN(len(media))]
				target := fmt.Sprintf("/a%%20b/%d/x?q=%%2f+%d&&", n, i)
				req, err := http.NewRequestWithContext(t.Context(), []string{"POST", "PUT", "PATCH"}[i%3], base+"/via/t"+target, bytes.NewReader(sent))
				if err != nil {
					t.Error(err)
					return
				}
				req.Header.Set("Content-Type", kind)
				req.Header.Set("X-Cookie", strconv.Itoa(i))
				if coding != "" {
					req.Header.Set("Content-Encoding", coding)
				}
				if i%7 == 0 {
					req.Header.Set("X-Zip", "1")
				}
				resp, err := client.Do(req)
				if err != nil {
					t.Error(err)
					return
				}
				got, err := io.ReadAll(resp.Body)
				_ = resp.Body.Close()
				if err != nil || !bytes.Equal(got, body) || resp.Header.Get("Content-Type") != kind || resp.Header.Get("X-Target") != target ||
					resp.Header.Get("Set-Cookie") != fmt.Sprintf("sid=%d; Path=/", i) {
					t.Errorf("%d %s %q: got %q, %v, %v", resp.StatusCode, kind, body, got, err, resp.Header)
					return
				}
			}
		})
	}
	each.Wait()
}

// TestPassthroughStream: an answer is shown while it arrives, and can be read again.
func TestPassthroughStream(t *testing.T) {
	t.Parallel()
	next := make(chan struct{})
	base, _ := viaNode(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		w.Header().Set("X-Api-Token", "shown")
		w.WriteHeader(http.StatusOK)
		for i := range 3 {
			_ = http.NewResponseController(w).Flush()
			<-next
			fmt.Fprintf(w, "data: %d\n\n", i)
		}
	}, "")
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, base+"/via/t/events", http.NoBody)
	require.NoError(t, err)
	resp, err := http.DefaultTransport.RoundTrip(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	require.Equal(t, http.StatusOK, resp.StatusCode)
	require.Equal(t, "text/event-stream", resp.Header.Get("Content-Type"))
	require.Equal(t, "shown", resp.Header.Get("X-Api-Token"))
	in := bufio.NewReader(resp.Body)
	for i := range 3 {
		next <- struct{}{}
		line, err := in.ReadString('\n')
		require.NoError(t, err)
		require.Equal(t, fmt.Sprintf("data: %d\n", i), line)
		_, err = in.ReadString('\n')
		require.NoError(t, err)
	}
	_, err = in.ReadByte()
	require.ErrorIs(t, err, io.EOF)
	id := resp.Header.Get("Weir-Action-Id")
	again, body := askVia(t, http.MethodGet, base+"/v1/actions/"+id+"/response", "")
	require.Equal(t, "data: 0\n\ndata: 1\n\ndata: 2\n\n", body)
	require.Equal(t, "shown", again.Header.Get("X-Api-Token"))
	_, events := askVia(t, http.MethodGet, base+"/v1/actions/"+id+"/events", "", "Accept", "application/json")
	require.Contains(t, events, "REDACTED")
	require.NotContains(t, events, "shown")
	_, view := askVia(t, http.MethodGet, base+"/v1/actions/"+id, "")
	require.NotContains(t, view, "shown")
	require.Contains(t, view, `"status":"succeeded"`)
}

// TestPassthroughRefusals: a refusal is a problem with its code in a header, and says what would pass.
func TestPassthroughRefusals(t *testing.T) {
	t.Parallel()
	var hits atomic.Int32
	base, _ := viaNode(t, func(http.ResponseWriter, *http.Request) { hits.Add(1) }, "limits: {upload: 64KiB}\n")
	for name, tt := range map[string]struct {
		method, path, body string
		headers            []string
		status             int
		code               schemas.Code
		says               string
	}{
		"no such entry":       {"GET", "/via/none/x", "", nil, 404, schemas.NotFound, "use t, below, adds, or send the call with its whole URL to /v1/execute"},
		"an entry of any":     {"GET", "/via/any/x", "", nil, 404, schemas.NotFound, "use t, below"},
		"an allowed host":     {"GET", "/via/host:127.0.0.1/x", "", nil, 404, schemas.NotFound, "use t, below"},
		"out of the prefix":   {"GET", "/via/below/", "", nil, 403, schemas.DenyPath, "use one under its url_prefix"},
		"up from the prefix":  {"GET", "/via/below/below/../x", "", nil, 403, schemas.DenyPath, "dot segment"},
		"a method":            {"POST", "/via/below/below/x", "{}", nil, 403, schemas.DenyMethod, "use one that it lists"},
		"a header":            {"GET", "/via/t/", "", []string{"X-HTTP-Method-Override", "PUT"}, 403, schemas.DenyHeader, "X-Http-Method-Override"},
		"a large body":        {"POST", "/via/t/", strings.Repeat("x", 64<<10+1), nil, 413, schemas.PayloadTooLarge, "65536 bytes, the limit limits.upload"},
		"two keys":            {"POST", "/via/t/", "", []string{"Idempotency-Key", "a", "Idempotency-Key", "b"}, 400, schemas.InvalidRequest, "send it once"},
		"a delay that is not": {"POST", "/via/t/", "", []string{"Weir-Delay", "soon"}, 400, schemas.InvalidRequest, "must be a duration"},
		"no entry":            {"GET", "/via/", "", nil, 404, schemas.NotFound, ""},
		"a body of a GET":     {"GET", "/via/t/", "x", nil, 403, schemas.DenyBody, "GET"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			resp, body := askVia(t, tt.method, base+tt.path, tt.body, tt.headers...)
			require.Equal(t, tt.status, resp.StatusCode, body)
			require.Equal(t, string(tt.code), resp.Header.Get(schemas.HeaderRefused), body)
			require.Equal(t, "application/problem+json", resp.Header.Get("Content-Type"))
			require.Contains(t, body, tt.says)
		})
	}
	t.Cleanup(func() { assert.Zero(t, hits.Load()) })
}

// TestPassthroughAnswers: an answer of any status is the target's, and an end without one is Weir's.
func TestPassthroughAnswers(t *testing.T) {
	t.Parallel()
	var busy, slow atomic.Int32
	base, up := viaNode(t, func(w http.ResponseWriter, r *http.Request) {
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
			http.Redirect(w, r, "/elsewhere", http.StatusFound)
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
	}, "")
	for _, tt := range []struct {
		method, path string
		status       int
		body         string
		headers      http.Header
		outcome      string
	}{
		{"GET", "/404", 404, "{\"message\": \"Not Found\"}\n", http.Header{"X-Many": {"a", "b", "caf\xe9"}, "Set-Cookie": {"sid=hidden"}, "X-Own": nil, "Weir-Refused": nil, "Content-Length": {"25"}}, "failed HTTP_FAILURE"},
		{"HEAD", "/404", 404, "", http.Header{"X-Many": {"a", "b", "caf\xe9"}, "Content-Length": {"25"}}, "failed HTTP_FAILURE"},
		{"GET", "/busy", 200, "at last", http.Header{"X-Try": nil}, "succeeded "},
		{"GET", "/down", 503, "down", http.Header{"Weir-Refused": nil}, "failed RETRIES_EXHAUSTED"},
		{"POST", "/down", 503, "down", nil, "failed HTTP_FAILURE"},
		{"GET", "/moved", 302, "<a href=\"/elsewhere\">Found</a>.\n\n", http.Header{"Location": {"/elsewhere"}}, "failed DENY_REDIRECT"},
		{"DELETE", "/empty", 204, "", http.Header{"Content-Length": nil}, "succeeded "},
		{"GET", "/early", 200, "ok", http.Header{"Link": {"</style.css>; rel=preload"}}, "succeeded "},
		{"GET", "/large", 200, strings.Repeat("\x00\xfflarge", 60_000), nil, "succeeded "},
		{"POST", "/gone", 424, "", http.Header{"Weir-Refused": {"OUTCOME_UNKNOWN"}}, "outcome_unknown OUTCOME_UNKNOWN"},
	} {
		resp, body := askVia(t, tt.method, base+"/via/t"+tt.path, "")
		require.Equal(t, tt.status, resp.StatusCode, "%s: %s", tt.path, body)
		if tt.status != 424 {
			require.Equal(t, tt.body, body, tt.path)
		}
		for name, want := range tt.headers {
			require.Equal(t, want, resp.Header[name], "%s %s", tt.path, name)
		}
		id := resp.Header.Get("Weir-Action-Id")
		_, view := askVia(t, "GET", base+"/v1/actions/"+id, "")
		var v schemas.ActionView
		require.NoError(t, json.Unmarshal([]byte(view), &v))
		require.Equal(t, tt.outcome, string(v.Status)+" "+string(v.Code), tt.path)
		require.Equal(t, schemas.Called{Method: tt.method, Host: strings.TrimPrefix(up.URL, "http://"), Path: tt.path}, v.Called)
		_, events := askVia(t, "GET", base+"/v1/actions/"+id+"/events", "", "Accept", "application/json")
		_, records := askVia(t, "GET", base+"/v1/evidence", "")
		require.Contains(t, events, `"type":"settled"`, tt.path)
		require.NotContains(t, view+events+records, "sid=", "a cookie is the caller's alone")
		again, twice := askVia(t, "GET", base+"/v1/actions/"+id+"/response", "")
		if tt.status == 424 {
			require.Equal(t, 404, again.StatusCode)
			require.Contains(t, twice, "outcome_unknown")
			continue
		}
		require.Equal(t, tt.status, again.StatusCode, tt.path)
		require.Equal(t, tt.body, twice, tt.path)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, base+"/via/t/cut", http.NoBody)
	require.NoError(t, err)
	resp, err := http.DefaultTransport.RoundTrip(req)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, resp.StatusCode)
	_, err = io.ReadAll(resp.Body)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	require.NoError(t, resp.Body.Close())
	require.EqualValues(t, 1, slow.Load(), "the reader had its beginning")
	_, view := askVia(t, "GET", base+"/v1/actions/"+resp.Header.Get("Weir-Action-Id"), "")
	require.Contains(t, view, `"code":"UPSTREAM_TRUNCATED"`)
}
