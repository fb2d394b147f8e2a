package ingress_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
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
		code    string
	}{
		"empty":                  {"", nil, 400, "INVALID_REQUEST"},
		"trailing comma":         {`{"a":1,}`, nil, 400, "INVALID_REQUEST"},
		"two values":             {`{"a":1}{"b":2}`, nil, 400, "INVALID_REQUEST"},
		"NaN":                    {`{"a":NaN}`, nil, 400, "INVALID_REQUEST"},
		"comment":                {"// c\n{}", nil, 400, "INVALID_REQUEST"},
		"duplicate":              {`{"method":"GET","method":"POST"}`, nil, 400, "INVALID_REQUEST"},
		"escaped duplicate":      {`{"method":"GET","metho\u0064":"POST"}`, nil, 400, "INVALID_REQUEST"},
		"duplicate in a body":    {`{"method":"POST","url":"http://ok.example/","body":{"a":1,"a":2}}`, nil, 400, "INVALID_REQUEST"},
		"byte order mark":        {"\ufeff" + okGet, nil, 400, "INVALID_REQUEST"},
		"lone surrogate":         {`{"method":"\ud800"}`, nil, 400, "INVALID_REQUEST"},
		"invalid UTF-8":          {"{\"method\":\"\xff\"}", nil, 400, "INVALID_REQUEST"},
		"too deep":               {strings.Repeat("[", 10_001) + strings.Repeat("]", 10_001), nil, 400, "INVALID_REQUEST"},
		"cut":                    {`{"method":`, nil, 400, "INVALID_REQUEST"},
		"HTML":                   {"<html>", nil, 400, "INVALID_REQUEST"},
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
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			a := w.do(t, post("/v1/execute", tc.body, tc.headers...))
			require.Equal(t, tc.status, a.Code)
			require.Equal(t, tc.code, a.field("error", "code"))
			require.Equal(t, 1, w.metrics.refused[schemas.Code(tc.code)])
			if tc.status != 400 || tc.code == "INVALID_REQUEST" { // the plans' door is the same door
				a = w.do(t, post("/v1/plans", tc.body, tc.headers...))
				require.Equal(t, tc.status, a.Code)
				require.Equal(t, tc.code, a.body["code"])
			}
			require.Zero(t, w.records(t))
		})
	}
}

func TestGoodMediaTypes(t *testing.T) {
	t.Parallel()
	for _, media := range []string{"application/json", "Application/JSON", "application/json; charset=utf-8", "application/json;charset=UTF-8", `application/json; charset="utf-8"`} {
		w := setup(t)
		a := w.do(t, post("/v1/execute", okGet, "Content-Type", media, "Accept", "text/html"))
		require.Equal(t, http.StatusAccepted, a.Code, media)
	}
}

func TestAnUnknownLengthIsBoundedToo(t *testing.T) {
	t.Parallel()
	w := setup(t, func(c *ingress.Config) { c.MaxBody = 100 })
	r := post("/v1/execute", "")
	r.Body, r.ContentLength = io.NopCloser(strings.NewReader(strings.Repeat(" ", 101))), -1
	a := w.do(t, r)
	require.Equal(t, http.StatusRequestEntityTooLarge, a.Code)
	require.Equal(t, "close", a.Header().Get("Connection"))
	r = post("/v1/execute", "")
	r.Body, r.ContentLength = io.NopCloser(strings.NewReader(okGet)), -1
	require.Equal(t, http.StatusAccepted, w.do(t, r).Code)
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

type cutBody struct{}

func (cutBody) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }
func (cutBody) Close() error             { return nil }

func TestABodyThatBreaksOff(t *testing.T) {
	t.Parallel()
	w := setup(t)
	r := post("/v1/execute", "")
	r.Body, r.ContentLength = cutBody{}, 50
	a := w.do(t, r)
	require.Equal(t, http.StatusBadRequest, a.Code)
	require.Equal(t, "INVALID_REQUEST", a.field("error", "code"))
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
