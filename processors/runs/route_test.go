package runs_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	double "weir/internal/weirtest/agent"
	"weir/schemas"
)

// refuse is an agent that answers the first call with a status and a body, and others well.
func refuse(status int, contentType, body string) double.Config {
	return double.Config{Script: []double.Act{{Answer: func(x *double.Exchange) {
		x.Begin(status, contentType)
		x.Write(body)
	}}, {}}}
}

// TestRoutes: the caller's route is asked first, or that of the agent's mode. The other one is
// asked only where an answer proves that the first does not exist, as a call of its own.
func TestRoutes(t *testing.T) {
	t.Parallel()
	const (
		stream, sync = schemas.RouteRunStream, schemas.RouteRunSync
		detail       = `{"detail":"Not Found"}`
		contract     = `{"request_id":"r-1","ok":false,"outputs":{},"warnings":["w"]}`
		unsupported  = `{"error":{"code":"UNSUPPORTED_TASK_TYPE","message":"m"}}`
	)
	first := func(sync bool) string {
		if sync {
			return schemas.RouteRunSync
		}
		return schemas.RouteRunStream
	}
	neither := refuse(http.StatusNotFound, "application/json", detail)
	neither.Script[1] = neither.Script[0]
	for name, tt := range map[string]struct {
		mode   string
		agent  double.Config
		routes [2][]string // that are asked for a streaming and for a synchronous caller; nil: the first, then the other
		failed bool
	}{
		"both":                         {schemas.AgentAuto, double.Config{}, [2][]string{{stream}, {sync}}, false},
		"stream first":                 {schemas.AgentStream, double.Config{}, [2][]string{{stream}, {stream}}, false},
		"sync first":                   {schemas.AgentSync, double.Config{}, [2][]string{{sync}, {sync}}, false},
		"404":                          {schemas.AgentAuto, refuse(http.StatusNotFound, "application/json", detail), [2][]string{}, false},
		"404, a page":                  {schemas.AgentAuto, refuse(http.StatusNotFound, "text/html", "<h1>Cannot POST</h1>"), [2][]string{}, false},
		"404, a framework's":           {schemas.AgentAuto, refuse(http.StatusNotFound, "application/json", `{"status":404,"error":"Not Found","message":"m","path":"/"}`), [2][]string{}, false},
		"405":                          {schemas.AgentAuto, refuse(http.StatusMethodNotAllowed, "text/plain", ""), [2][]string{}, false},
		"501":                          {schemas.AgentAuto, refuse(http.StatusNotImplemented, "text/plain", "no"), [2][]string{}, false},
		"501, stream first":            {schemas.AgentStream, refuse(http.StatusNotImplemented, "text/plain", "no"), [2][]string{{stream, sync}, {stream, sync}}, false},
		"neither":                      {schemas.AgentAuto, neither, [2][]string{}, true},
		"404, the agent's answer":      {schemas.AgentAuto, refuse(http.StatusNotFound, "application/json", contract), [2][]string{{stream}, {sync}}, true},
		"404, the agent's error alone": {schemas.AgentAuto, refuse(http.StatusNotFound, "application/json", unsupported), [2][]string{{stream}, {sync}}, true},
		"404, an error of its own":     {schemas.AgentAuto, refuse(http.StatusNotFound, "application/json", `{"error":{"code":"DOC_NOT_FOUND","message":"m"}}`), [2][]string{{stream}, {sync}}, true},
		"404, a detail of its own":     {schemas.AgentAuto, refuse(http.StatusNotFound, "application/json", `{"detail":"document 17 not found"}`), [2][]string{{stream}, {sync}}, true},
		"406":                          {schemas.AgentAuto, refuse(http.StatusNotAcceptable, "text/plain", ""), [2][]string{{stream}, {sync}}, true},
		"400":                          {schemas.AgentAuto, refuse(http.StatusBadRequest, "text/plain", ""), [2][]string{{stream}, {sync}}, true},
		"500":                          {schemas.AgentAuto, refuse(http.StatusInternalServerError, "text/plain", ""), [2][]string{{stream}, {sync}}, true},
		"502":                          {schemas.AgentAuto, refuse(http.StatusBadGateway, "text/plain", ""), [2][]string{{stream}, {sync}}, true},
	} {
		for i, caller := range []string{"stream", "sync"} {
			t.Run(name+", "+caller, func(t *testing.T) {
				t.Parallel()
				a := double.New(t, tt.agent)
				served := to(a)
				served.Mode = tt.mode
				r := newRoom(t, options{}, served)
				r.sync = caller == "sync"
				e := r.run("r-1")
				want := tt.routes[i]
				if want == nil {
					want = []string{first(r.sync), first(!r.sync)}
				}
				var asked, left []string
				for n := range a.Hits() {
					asked = append(asked, a.WaitRun(n+1).Route)
				}
				assert.Equal(t, want, asked)
				for _, ev := range r.evidence("r-1") {
					route := sync
					if strings.Contains(string(ev.Payload), `"POST agent:DOUBLE`+stream+`"`) {
						route = stream
					}
					left = append(left, route)
				}
				assert.Equal(t, want, left, "each call leaves its evidence")
				assert.Equal(t, tt.failed, e.Outcome != schemas.OutcomeSucceeded)
			})
		}
	}
}

// TestASyncAnswerIsKept as it came: an agent says more there than in its stream.
func TestASyncAnswerIsKept(t *testing.T) {
	t.Parallel()
	const extras = `{"artifacts":["s3://a"],"provenance":{"model":"m","n":1.50},"usage":{"duration_ms":5,"tokens":7},"grounding":[{"id":1}],"warnings":["w"]}`
	var members map[string]any
	require.NoError(t, json.Unmarshal([]byte(extras), &members))
	members["provenance"] = json.RawMessage(`{"model":"m","n":1.50}`)
	a := double.New(t, double.Config{Script: []double.Act{{Extras: members}}})
	served := to(a)
	served.Mode = schemas.AgentAuto
	r := newRoom(t, options{}, served)
	r.sync = true
	e := r.run("r-2")
	require.Nil(t, e.result.Error)
	got, err := json.Marshal(e.result.RunExtras)
	require.NoError(t, err)
	assert.JSONEq(t, extras, string(got))
	assert.Contains(t, string(got), `"n":1.50`)
	assert.NotContains(t, r.types("r-2"), schemas.EventProgress)
}
