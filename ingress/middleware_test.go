package ingress_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/stretchr/testify/require"

	"weir/ingress"
	"weir/internal/problem"
	"weir/internal/weirtest/table"
	"weir/schemas"
)

func TestPathsAndMethods(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for _, tc := range []struct {
		method, path string
		status       int
		allow        string
	}{
		{"GET", "/v1/execute", 405, "POST"},
		{"TRACE", "/v1/execute", 405, "POST"},
		{"TRACE", "/nowhere", 405, ""},
		{"BREW", "/v1/execute", 405, "POST"},
		{"OPTIONS", "/v1/execute", 405, "POST"},
		{"POST", "/v1/execute/", 404, ""},
		{"POST", "/v1//execute", 404, ""},
		{"POST", "//v1/execute", 404, ""},
		{"POST", "/v1%2fexecute", 404, ""},
		{"POST", "/v1/%65xecute", 404, ""},
		{"POST", "/v1/actions//cancel", 404, ""},
		{"POST", "/v1/actions/x/y/cancel", 404, ""},
		{"POST", "/v1/actions/x%2fcancel", 404, ""},
		{"POST", "/v1/actions/" + strings.Repeat("a", 129) + "/cancel", 404, ""},
		{"GET", "/debug/pprof/", 404, ""},
		{"GET", "/nope/AGWCANARY-PATH?q=AGWCANARY-QUERY", 404, ""},
		{"POST", "/agents/run", 404, ""},
		{"POST", "/v1/tokens", 404, ""}, // what this node is not configured to serve
		{"POST", schemas.RouteConsoleSession, 404, ""},
		{"POST", "/git/own.git/git-receive-pack", 404, ""},
		{"POST", "/v1/tasks/x/cancel", 404, ""},
		{"POST", schemas.RouteTaskLease, 404, ""},
		{"POST", "/api//agent/task/fail", 404, ""},
	} {
		a := w.do(t, httptest.NewRequest(tc.method, tc.path, http.NoBody))
		require.Equal(t, tc.status, a.Code, "%s %s", tc.method, tc.path)
		require.NotContains(t, a.body, "outputs", tc.path)
		require.Equal(t, tc.allow, a.Header().Get("Allow"), "%s %s", tc.method, tc.path)
		require.Empty(t, a.Header().Get("Location"), "nothing is redirected")
		require.NotContains(t, a.Body.String(), "AGWCANARY")
		require.NotContains(t, w.logs.String(), "AGWCANARY")
	}
}

// TestBodiesOfChanges: a route that takes no body refuses one, whatever its type.
func TestBodiesOfChanges(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.do(t, submit("x"))
	for _, tc := range []struct {
		path, body, media string
		status            int
	}{
		{"/v1/actions/x/cancel", `{"force":true}`, "application/json", 422},
		{"/v1/actions/x/cancel", `x`, "", 400},
		{"/v1/actions/x/resolve", ``, "", 415},
		{"/v1/actions/x/resolve", `{"effect":"AGWCANARY"}`, "application/json", 422},
		{"/v1/dead-letters/redrive", ``, "", 415},
		{"/v1/dead-letters/redrive", `{}`, "application/json", 422},
		{"/v1/actions/x/cancel", `{}`, "application/json", 200},
	} {
		r := post(tc.path, tc.body)
		if r.Header.Set("Content-Type", tc.media); tc.media == "" {
			r.Header.Del("Content-Type")
		}
		require.Equal(t, tc.status, w.do(t, r).Code, tc)
	}
}

func TestEncodedIDsAreDecodedOnce(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.do(t, post("/v1/execute", `{"method":"GET","url":"http://ok.example/","request_id":"a:b.c"}`))
	w.do(t, submit("x"))
	before := w.records(t)
	for _, path := range []string{"/v1/actions/x%2fcancel", "/v1/actions/x%2Fcancel", "/v1/actions%2Fx/cancel", "/v1/%61ctions/x/cancel"} {
		require.Equal(t, http.StatusNotFound, w.do(t, httptest.NewRequest(http.MethodPost, path, http.NoBody)).Code, path)
	}
	require.Equal(t, before, w.records(t), "no other spelling of a route cancels")
	for _, path := range []string{"/v1/actions/a%3Ab%2ec/cancel", "/v1/actions/a:b.c/cancel"} {
		require.NotEqual(t, http.StatusNotFound, w.do(t, httptest.NewRequest(http.MethodPost, path, http.NoBody)).Code, path)
	}
	require.Equal(t, http.StatusNotFound, w.do(t, httptest.NewRequest(http.MethodPost, "/v1/actions/a%253Ab.c/cancel", http.NoBody)).Code)
}

func TestRequestIDOfTheTransport(t *testing.T) {
	t.Parallel()
	w := setup(t)
	a := w.do(t, post("/v1/execute", `{}`, "X-Request-ID", "trace:1.2_3-4"))
	require.Equal(t, "trace:1.2_3-4", a.Header().Get("X-Request-ID"))
	for _, bad := range []string{"a b", "\x1b[2J", strings.Repeat("a", 129), "AGWCANARY/1", ""} {
		r := post("/v1/execute", `{}`)
		r.Header["X-Request-Id"] = []string{bad}
		require.NotEqual(t, bad, w.do(t, r).Header().Get("X-Request-ID"))
	}
	r := post("/v1/execute", `{}`)
	r.Header["X-Request-Id"] = []string{"a", "b"}
	require.NotContains(t, []string{"a", "b"}, w.do(t, r).Header().Get("X-Request-ID"))
	require.NotContains(t, w.logs.String(), "AGWCANARY")
}

func TestOneLineARequest(t *testing.T) {
	t.Parallel()
	w := setup(t)
	a := w.do(t, post("/v1/execute?q=AGWCANARY-Q", `{"method":"POST","url":"http://ok.example/AGWCANARY-U","headers":{"X-A":"AGWCANARY-H"},"body":"AGWCANARY-B"}`, "X-Request-ID", "rq"))
	lines := strings.Split(strings.TrimSpace(w.logs.String()), "\n")
	require.Len(t, lines, 1)
	var line map[string]any
	require.NoError(t, json.Unmarshal([]byte(lines[0]), &line))
	require.Contains(t, line, "time")
	require.Contains(t, line, "duration_ms")
	delete(line, "time")
	delete(line, "duration_ms")
	require.Equal(t, map[string]any{
		"level": "INFO", "msg": "request", "method": "POST", "route": "/v1/execute", "surface": "executor", "tenant": "default",
		"status": 202.0, "request_id": "rq", "action_id": a.Header().Get("Weir-Action-Id"),
	}, line)
	w.do(t, post("/v1/plans", `{"AGWCANARY-NAME":1}`))
	w.do(t, post("/v1/execute", `{"method":"AGWCANARY-M","url":"x"}`))
	w.do(t, httptest.NewRequest("AGWCANARY", "/AGWCANARY", http.NoBody))
	require.Len(t, strings.Split(strings.TrimSpace(w.logs.String()), "\n"), 4)
	require.Contains(t, w.logs.String(), `"code":"VALIDATION_ERROR"`)
	require.NotContains(t, w.logs.String(), "AGWCANARY")
	require.Equal(t, []string{
		"executor POST 202 false", "plans POST 422 false", "executor POST 400 false", " AGWCANARY 404 false",
	}, w.metrics.answered, "each request is measured once")
}

// TestAPanicShowsNothing, and is answered in the dialect of its route.
func TestAPanicShowsNothing(t *testing.T) {
	t.Parallel()
	for name, s := range surfaces() {
		w := setup(t, served, desk(), func(c *config) {
			c.Authenticate = func(*http.Request) (ingress.Identity, error) { panic("AGWCANARY-PANIC") }
		})
		a := w.do(t, post(s.path, s.body))
		require.Equal(t, http.StatusInternalServerError, a.Code, name)
		require.Contains(t, []schemas.Code{schemas.Internal, schemas.InternalError}, a.code(), name)
		require.Equal(t, s.kind == schemas.KindRun, a.body["outputs"] != nil, name)
		for _, shown := range []string{a.Body.String(), w.logs.String()} {
			require.NotContains(t, shown, "AGWCANARY", name)
			require.NotContains(t, shown, "goroutine", name)
		}
		require.Regexp(t, `"err_kind":"panic",.*"at":"ingress_test\.TestAPanicShowsNothing[^"]* < ingress`, w.logs.String())
		require.Contains(t, w.logs.String(), `"status":500`)
	}
}

func TestAPanicInTheMiddleOfAnAnswerCutsIt(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.do(t, post("/v1/execute", `{"method":"GET","url":"http://ok.example/","request_id":"r"}`))
	w.settle(t, "r", schemas.OutcomeSucceeded)
	w.responder.panics = true
	require.PanicsWithError(t, http.ErrAbortHandler.Error(), func() {
		w.engine.ServeHTTP(httptest.NewRecorder(), post("/v1/execute", `{"method":"GET","url":"http://ok.example/","request_id":"r"}`))
	})
}

// TestTheLevelOfALine: neither a target that fails nor a client that hangs up is an error of this node.
func TestTheLevelOfALine(t *testing.T) {
	t.Parallel()
	for code, level := range map[schemas.Code]string{
		schemas.HTTPFailure: "INFO", schemas.RetriesExhausted: "INFO", schemas.UpstreamConnect: "INFO",
		schemas.UpstreamTimeout: "INFO", schemas.AgentUnavailable: "INFO", schemas.ModelFailed: "INFO",
		schemas.Internal: "ERROR", schemas.Unavailable: "ERROR", schemas.LogFull: "ERROR", "": "ERROR",
	} {
		for _, gone := range []bool{false, true} {
			var log bytes.Buffer
			e := ingress.NewEngine(ingress.EngineConfig{Logger: slog.New(slog.NewJSONHandler(&log, nil))})
			e.GET("/read", func(c *gin.Context) {
				problem.ReportOf(c.Request.Context()).Code = code
				c.Status(http.StatusBadGateway)
			})
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			want := map[string]any{"level": level, "status": 502.0}
			if gone {
				leave()
				want = map[string]any{"level": "INFO", "status": 499.0}
			}
			e.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, http.MethodGet, "/read", http.NoBody))
			var line map[string]any
			require.NoError(t, json.Unmarshal(log.Bytes(), &line))
			require.Equal(t, want, map[string]any{"level": line["level"], "status": line["status"]}, code)
			require.Equal(t, code != "", line["code"] == string(code))
		}
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
		"just fits":  {strings.NewReader(okGet + strings.Repeat(" ", 100-len(okGet))), http.StatusAccepted, ""},
	} {
		w := setup(t, func(c *config) { c.MaxBody = 100 })
		r := post("/v1/execute", "")
		r.Body, r.ContentLength = io.NopCloser(tc.body), -1
		a := w.do(t, r).refused(t, tc.status, tc.code)
		require.Equal(t, tc.code != "", a.Header().Get("Connection") == "close", name)
	}
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

// overPipe serves an engine on one connection in memory, and reads the answer to what is sent:
// its status, and whether it closes the connection.
func overPipe(t *testing.T, engine http.Handler, send func(client net.Conn)) (status int, closes bool) {
	t.Helper()
	l := make(pipes)
	srv := &http.Server{Handler: engine}
	go func() { _ = srv.Serve(l) }()
	client, server := net.Pipe()
	l <- server
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		send(client)
	}()
	resp, err := http.ReadResponse(bufio.NewReader(client), nil)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.NoError(t, client.Close())
	<-sent
	close(l)
	require.NoError(t, srv.Close())
	return resp.StatusCode, resp.Close
}

func TestABodyThatNeverEndsIsTimedOut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := setup(t, func(c *config) { c.BodyTimeout = 7 * time.Second })
		start := time.Now()
		status, closes := overPipe(t, w.engine, func(client net.Conn) {
			_, _ = io.WriteString(client, "POST /v1/execute HTTP/1.1\r\nHost: weir\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{")
		})
		require.Equal(t, http.StatusRequestTimeout, status)
		require.True(t, closes)
		require.Equal(t, 7*time.Second, time.Since(start))
	})
}

// TestTheDeadlineOfTheBodyDoesNotEndTheWait, which is longer than any body may take.
func TestTheDeadlineOfTheBodyDoesNotEndTheWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := setup(t, func(c *config) { c.Metrics = nil }) // which nobody has to have
		w.responder.instead = func(w http.ResponseWriter, r *http.Request) {
			select {
			case <-time.After(time.Hour):
				w.WriteHeader(http.StatusNoContent)
			case <-r.Context().Done():
				w.WriteHeader(http.StatusTeapot)
			}
		}
		status, _ := overPipe(t, w.engine, func(client net.Conn) { _ = post("/v1/execute", okGet).Write(client) })
		require.Equal(t, http.StatusNoContent, status)
	})
}

const echoRun = `{"request_id":"r","task_type":"ECHO","inputs":{}}`

// deferrable are the routes that put an action off, with a body of each.
var deferrable = map[string]string{"/v1/execute": okPost, "/v1/plans": okPlan, schemas.RouteRunSync: echoRun}

// TestLaterBeginning: an action that is put off is stored with its beginning and not waited for.
func TestLaterBeginning(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 31, 9, 0, 0, 0, time.UTC)
	type testCase struct {
		path, body string
		header     []string
		want       time.Time
		wait       time.Duration
	}
	table.Run(t, map[string]testCase{
		"executor":        {"/v1/execute", okPost, []string{"Weir-Delay", "30s"}, now.Add(30 * time.Second), 0},
		"plan":            {"/v1/plans", okPlan, []string{"Weir-Delay", "1m30s"}, now.Add(90 * time.Second), 0},
		"run":             {schemas.RouteRunSync, echoRun, []string{"Weir-Delay", "1s"}, now.Add(time.Second), 0},
		"an instant":      {"/v1/execute", okPost, []string{"Weir-Not-Before", "2026-01-31T10:01:00+01:00"}, now.Add(time.Minute), 0},
		"who would wait":  {"/v1/execute", okPost, []string{"Weir-Delay", "30s", "Prefer", "wait=40"}, now.Add(30 * time.Second), 40 * time.Second},
		"one denied":      {"/v1/execute", denied, []string{"Weir-Delay", "30s", "Prefer", "respond-async"}, now.Add(30 * time.Second), 0},
		"no delay":        {"/v1/execute", okPost, []string{"Weir-Delay", "0s"}, time.Time{}, -1},
		"a past instant":  {"/v1/execute", okPost, []string{"Weir-Not-Before", "2020-01-01T00:00:00Z"}, time.Time{}, -1},
		"nothing of that": {"/v1/execute", okPost, nil, time.Time{}, -1},
	}, func(t *testing.T, tc testCase) {
		w := setup(t, func(c *config) { c.Accept.Now = func() time.Time { return now } })
		w.do(t, post(tc.path, tc.body, tc.header...))
		c := w.responder.last(t)
		require.Equal(t, tc.wait, c.wait, "how long the answer is held back")
		a := w.action(t, c.ref.Tenant, c.ref.ID)
		require.True(t, tc.want.Equal(a.NotBefore), "%s", a.NotBefore)
	})
}

// TestTheSameRequestInOtherTerms joins its action, whatever its delay then is.
func TestTheSameRequestInOtherTerms(t *testing.T) {
	t.Parallel()
	for header, values := range map[string][2]string{"Weir-Delay": {"30s", "45s"}, schemas.HeaderPriority: {"high", "normal"}} {
		w := setup(t)
		ask := func(value string) answer {
			return w.do(t, post("/v1/execute", okPost, "Idempotency-Key", "k", "Prefer", "respond-async", header, value))
		}
		first := ask(values[0])
		again := ask(values[1]).refused(t, http.StatusConflict, schemas.InFlight)
		require.Equal(t, first.Header().Get("Weir-Action-Id"), again.Header().Get("Weir-Action-Id"), header)
		require.EqualValues(t, 1, w.records(t))
	}
}

// TestBadTerms are refused on every route, name the header and leave nothing.
func TestBadTerms(t *testing.T) {
	t.Parallel()
	w := setup(t)
	const delay, instant, priority = "Weir-Delay", "Weir-Not-Before", schemas.HeaderPriority
	for name, tc := range map[string]struct {
		header string
		values []string
	}{
		"an order":          {"Weir-Ordering-Key", []string{"k"}},
		"no duration":       {delay, []string{"soon"}},
		"negative":          {delay, []string{"-1s"}},
		"two delays":        {delay, []string{"1s", "1s"}},
		"over its time":     {delay, []string{"145h"}},
		"no instant":        {instant, []string{"tomorrow"}},
		"no zone":           {instant, []string{"2026-01-31T09:00:00"}},
		"an instant there":  {instant, []string{time.Now().Add(145 * time.Hour).Format(time.RFC3339)}},
		"no priority":       {priority, []string{""}},
		"upper case":        {priority, []string{"HIGH"}},
		"low":               {priority, []string{"low"}},
		"a list of them":    {priority, []string{"high,normal"}},
		"two priorities":    {priority, []string{"high", "high"}},
		"both of beginning": {delay, nil},
	} {
		for path, body := range deferrable {
			r := post(path, body)
			r.Header[tc.header] = tc.values
			if tc.values == nil {
				r.Header.Set(delay, "1s")
				r.Header.Set(instant, "2026-01-31T09:00:00Z")
			}
			status := http.StatusBadRequest
			if path == schemas.RouteRunSync { // the run contract has one of its own
				status = http.StatusUnprocessableEntity
			}
			a := w.do(t, r).refused(t, status, schemas.InvalidRequest)
			require.Regexp(t, tc.header+"|would end after .* log.history", a.Body.String(), name)
			require.Zero(t, w.records(t), name)
		}
	}
	for header, value := range map[string]string{delay: "1s", priority: "high"} { // what is done again begins at once
		a := w.do(t, post("/v1/dead-letters/redrive", `{"sequence":1}`, header, value))
		require.Contains(t, a.refused(t, http.StatusBadRequest, schemas.InvalidRequest).Body.String(), header)
	}
}
