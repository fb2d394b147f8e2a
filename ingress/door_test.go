package ingress_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"weir/ingress"
	"weir/schemas"
)

func TestHostileBodies(t *testing.T) {
	t.Parallel()
	long := `{"method":"GET","url":"http://ok.example/","body":"` + strings.Repeat("x", 1<<20) + `"}`
	for name, tc := range map[string]struct {
		body    string
		headers []string
		status  int
		code    schemas.Code
	}{
		"empty":                  {"", nil, 400, "INVALID_REQUEST"},
		"duplicate":              {`{"method":"GET","method":"POST"}`, nil, 400, "INVALID_REQUEST"},
		"duplicate in a body":    {`{"method":"POST","url":"http://ok.example/","body":{"a":1,"a":2}}`, nil, 400, "INVALID_REQUEST"},
		"too deep":               {strings.Repeat("[", 65) + strings.Repeat("]", 65), nil, 400, "INVALID_REQUEST"},
		"too large":              {long, nil, 413, "PAYLOAD_TOO_LARGE"},
		"no type":                {okGet, []string{"Content-Type", ""}, 415, "UNSUPPORTED_MEDIA_TYPE"},
		"text":                   {okGet, []string{"Content-Type", "text/plain"}, 415, "UNSUPPORTED_MEDIA_TYPE"},
		"form":                   {okGet, []string{"Content-Type", "application/x-www-form-urlencoded"}, 415, "UNSUPPORTED_MEDIA_TYPE"},
		"multipart":              {okGet, []string{"Content-Type", "multipart/form-data; boundary=x"}, 415, "UNSUPPORTED_MEDIA_TYPE"},
		"two types":              {okGet, []string{"Content-Type", "application/json, text/plain"}, 415, "UNSUPPORTED_MEDIA_TYPE"},
		"other JSON":             {okGet, []string{"Content-Type", "application/merge-patch+json"}, 415, "UNSUPPORTED_MEDIA_TYPE"},
		"UTF-16":                 {okGet, []string{"Content-Type", "application/json;charset=utf-16"}, 415, "UNSUPPORTED_MEDIA_TYPE"},
		"parameter":              {okGet, []string{"Content-Type", "application/json; version=2"}, 415, "UNSUPPORTED_MEDIA_TYPE"},
		"gzip":                   {okGet, []string{"Content-Encoding", "gzip"}, 415, "UNSUPPORTED_ENCODING"},
		"encodings":              {okGet, []string{"Content-Encoding", "identity, gzip"}, 415, "UNSUPPORTED_ENCODING"},
		"type before size":       {long, []string{"Content-Type", "text/plain"}, 415, "UNSUPPORTED_MEDIA_TYPE"},
		"unknown":                {`{"method":"GET","url":"http://ok.example/","verify":false}`, nil, 400, "VALIDATION_ERROR"},
		"other case":             {`{"METHOD":"GET","url":"http://ok.example/"}`, nil, 400, "VALIDATION_ERROR"},
		"nested secret in names": {`{"method":"GET","url":"http://ok.example/","headers":{"SECRET":1}}`, nil, 400, "DENY_HEADER"},
		"in capitals":            {okGet, []string{"Content-Type", "Application/JSON"}, 202, ""},
		"a charset":              {okGet, []string{"Content-Type", "application/json; charset=utf-8"}, 202, ""},
		"a quoted charset":       {okGet, []string{"Content-Type", `application/json;charset="UTF-8"`, "Accept", "text/html"}, 202, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			a := w.do(t, post("/v1/execute", tc.body, tc.headers...)).refused(t, tc.status, tc.code)
			if tc.code == "" {
				return
			}
			require.Equal(t, false, a.field("error", "retryable"))
			require.Empty(t, a.Header().Get("Weir-Action-Id"))
			require.Equal(t, 1, w.metrics.refused[tc.code])
			if tc.status != 400 || tc.code == schemas.InvalidRequest { // the plans' door is the same door
				w.do(t, post("/v1/plans", tc.body, tc.headers...)).refused(t, tc.status, tc.code)
			}
			require.Zero(t, w.records(t))
			require.Empty(t, w.responder.calls)
		})
	}
}

func TestBodiesOfUnknownLength(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		body   io.Reader
		status int
		code   schemas.Code
	}{
		"too large":  {strings.NewReader(strings.Repeat(" ", 101)), http.StatusRequestEntityTooLarge, schemas.PayloadTooLarge},
		"breaks off": {iotest.ErrReader(io.ErrUnexpectedEOF), http.StatusBadRequest, schemas.InvalidRequest},
		"fits":       {strings.NewReader(okGet), http.StatusAccepted, ""},
	} {
		w := setup(t, func(c *ingress.Config) { c.MaxBody = 100 })
		r := post("/v1/execute", "")
		r.Body, r.ContentLength = io.NopCloser(tc.body), -1
		a := w.do(t, r).refused(t, tc.status, tc.code)
		require.Equal(t, tc.code != "", a.Header().Get("Connection") == "close", name)
	}
}

// unread is a body that must not be touched.
type unread struct{ t *testing.T }

func (u unread) Read([]byte) (int, error) { u.t.Error("the body was read"); return 0, io.EOF }
func (unread) Close() error               { return nil }

func TestALengthOverTheLimitIsRefusedUnread(t *testing.T) {
	t.Parallel()
	w := setup(t)
	r := post("/v1/execute", "", "Expect", "100-continue")
	r.Body, r.ContentLength = unread{t}, 99999999999
	require.Equal(t, http.StatusRequestEntityTooLarge, w.do(t, r).Code)
}

// pipes is a listener of connections in memory.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	c, ok := <-p
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}
func (pipes) Close() error   { return nil }
func (pipes) Addr() net.Addr { return &net.UnixAddr{} }

func TestABodyThatNeverEndsIsTimedOut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := setup(t, func(c *ingress.Config) { c.BodyTimeout = 7 * time.Second })
		l := make(pipes)
		srv := &http.Server{Handler: w.engine}
		go func() { _ = srv.Serve(l) }()
		client, server := net.Pipe()
		l <- server
		start := time.Now()
		go func() {
			_, _ = io.WriteString(client, "POST /v1/execute HTTP/1.1\r\nHost: weir\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{")
		}()
		resp, err := http.ReadResponse(bufio.NewReader(client), nil)
		require.NoError(t, err)
		require.Equal(t, http.StatusRequestTimeout, resp.StatusCode)
		require.True(t, resp.Close)
		require.Equal(t, 7*time.Second, time.Since(start))
		require.NoError(t, resp.Body.Close())
		require.NoError(t, client.Close())
		close(l)
		require.NoError(t, srv.Close())
	})
}

// slowResponder answers after a time that is longer than any body may take.
type slowResponder struct{ *responder }

func (slowResponder) Respond(w http.ResponseWriter, r *http.Request, _ schemas.Ref, _ schemas.Receipt, _ time.Duration) {
	select {
	case <-time.After(time.Hour):
		w.WriteHeader(http.StatusNoContent)
	case <-r.Context().Done():
		w.WriteHeader(http.StatusTeapot)
	}
}

func TestTheDeadlineOfTheBodyDoesNotEndTheWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := setup(t)
		engine := ingress.NewEngine(ingress.EngineConfig{})
		ingress.New(w.ledger, door{}, slowResponder{w.responder}, ingress.Config{}).Mount(engine)
		l := make(pipes)
		srv := &http.Server{Handler: engine}
		go func() { _ = srv.Serve(l) }()
		client, server := net.Pipe()
		l <- server
		go func() { _ = post("/v1/execute", okGet).Write(client) }()
		resp, err := http.ReadResponse(bufio.NewReader(client), nil)
		require.NoError(t, err)
		require.Equal(t, http.StatusNoContent, resp.StatusCode)
		require.NoError(t, resp.Body.Close())
		require.NoError(t, client.Close())
		close(l)
		require.NoError(t, srv.Close())
	})
}

func FuzzExecute(f *testing.F) {
	for _, s := range []string{okGet, okPost, denied, `{}`, `[]`, `{"type":"Http","args":{"method":"GET"}}`, "\xff"} {
		f.Add([]byte(s), "application/json", "respond-async", `"k"`)
	}
	w := setup(f)
	f.Fuzz(func(t *testing.T, body []byte, media, prefer, key string) {
		r := post("/v1/execute", string(body))
		r.Header["Content-Type"] = []string{media}
		r.Header["Prefer"] = []string{prefer}
		r.Header["Idempotency-Key"] = []string{key}
		rec := httptest.NewRecorder()
		w.engine.ServeHTTP(rec, r)
		if rec.Code >= 500 || rec.Body.Len() == 0 {
			t.Fatalf("%d %s", rec.Code, rec.Body)
		}
	})
}
