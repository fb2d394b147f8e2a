package ingress_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/gin-gonic/gin"
	"github.com/stretchr/testify/require"

	"weir/ingress"
	"weir/internal/problem"
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
