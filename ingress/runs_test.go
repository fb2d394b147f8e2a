package ingress_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/ingress"
	"weir/schemas"
)

const okRun = `{"request_id":"r1","task_type":"LIT_RETRIEVAL","inputs":{}}`

// served has one remote agent.
func served(c *config) {
	c.Runs.Serves = func(taskType string) bool { return taskType == "LIT_RETRIEVAL" }
}

// refusal checks what must hold for every refusal of a run.
func refusal(t *testing.T, a answer) {
	t.Helper()
	require.Equal(t, "application/json", a.Header().Get("Content-Type"))
	require.Equal(t, false, a.body["ok"])
	require.Equal(t, "error", a.body["status"])
	require.Equal(t, map[string]any{}, a.body["outputs"])
	require.Equal(t, []any{}, a.body["warnings"])
	require.NotEmpty(t, a.field("error", "code"))
	require.NotEmpty(t, a.field("error", "message"))
	require.NotEmpty(t, a.body["code"])
	require.IsType(t, true, a.body["retryable"])
	require.NotContains(t, a.Body.String(), "null")
}

func (w *world) stream(body string, headers ...string) *httptest.ResponseRecorder {
	return w.send(post(schemas.RouteRunStream, body, headers...))
}

func TestARunIsStored(t *testing.T) {
	t.Parallel()
	w := setup(t, served)
	w.do(t, post(schemas.RouteRunSync, `{"request_id":"r1","task_type":"LIT_RETRIEVAL","mode":"LIVE","inputs":{"q":1.50},"budgets":{"timeout_ms":1500}}`))
	got := w.action(t, "default", "r1")
	require.Equal(t, "LIT_RETRIEVAL", got.TaskType)
	require.True(t, got.Sync)
	require.True(t, got.Sensitive, "no risk tier is the highest")
	require.Empty(t, got.Class)
	require.Equal(t, schemas.IDRequest, got.IDSource)
	require.Equal(t, 1500*time.Millisecond, got.Deadline.Sub(got.AcceptedAt))
	require.JSONEq(t, `{"task_type":"LIT_RETRIEVAL","mode":"LIVE","inputs":{"q":1.50},"budgets":{"timeout_ms":1500}}`, string(got.Payload))
	require.Contains(t, string(got.Payload), `1.50`)

	w.do(t, post(schemas.RouteRunSync, `{"request_id":"r2","task_type":"ECHO","risk_tier":"NON_SENSITIVE"}`))
	got = w.action(t, "default", "r2")
	require.False(t, got.Sensitive)
	require.Equal(t, 10*time.Minute, got.Deadline.Sub(got.AcceptedAt), "what its kind may take")
}

// TestARunIsStreamed: what cannot be read is refused before anything is done; what the request
// itself has made begins at its beginning, wherever another stream was cut.
func TestARunIsStreamed(t *testing.T) {
	t.Parallel()
	w := setup(t, served)
	a := w.do(t, post(schemas.RouteRunStream, okRun, "Last-Event-ID", "x")).refused(t, http.StatusUnprocessableEntity, schemas.InvalidRequest)
	require.Equal(t, "r1", a.body["request_id"])
	require.Empty(t, a.Header().Get("Weir-Action-Id"))
	require.Zero(t, w.records(t), "nothing was stored")
	require.Empty(t, w.responder.calls)
	require.Equal(t, 1, w.metrics.refused[schemas.InvalidRequest])

	for _, tc := range []struct {
		place string
		after uint64
	}{{"999999", 0}, {"999999", 999_999}, {"", 0}} { // made by this request; joined; joined from the beginning
		rec := w.stream(okRun, "Prefer", "respond-async", "Last-Event-ID", tc.place)
		require.Equal(t, http.StatusOK, rec.Code)
		require.Equal(t, "data: LIT_RETRIEVAL\n\n", rec.Body.String())
		require.Equal(t, "r1", rec.Header().Get("Weir-Action-Id"))
		require.Empty(t, rec.Header().Get("Preference-Applied"), "there is nothing to prefer")
		require.True(t, w.responder.last(t).stream)
		require.Equal(t, tc.after, w.responder.last(t).after)
	}
	w.do(t, post(schemas.RouteRunSync, okRun))
	require.True(t, w.responder.last(t).receipt.Duplicate, "the other route joins the same run")
	require.False(t, w.action(t, "default", "r1").Sync, "which is that of its first caller")
	require.EqualValues(t, 1, w.records(t))
}

// A run whose agent could not be asked is begun again by a repeat: on either route, and in the
// answer's words the newest. Positions in the stream of one action say nothing of another's.
func TestARepeatBeginsASuccessor(t *testing.T) {
	t.Parallel()
	w := setup(t, served)
	end := func(id string, o schemas.Outcome, code schemas.Code) {
		st, err := w.ledger.Find(t.Context(), "default", id)
		require.NoError(t, err)
		require.NoError(t, w.ledger.Append(t.Context(), st, schemas.Event{Type: schemas.EventSettled, Settled: &schemas.Settled{Outcome: o, Code: code}}))
	}
	w.do(t, post(schemas.RouteRunSync, okRun))
	end("r1", schemas.OutcomeFailed, schemas.AgentUnavailable)
	require.Equal(t, "r1", w.stream(okRun, "Last-Event-ID", "999999").Header().Get("Weir-Action-Id"), "a client that reconnects begins nothing")
	require.EqualValues(t, 999_999, w.responder.last(t).after)

	a := w.do(t, post(schemas.RouteRunSync, okRun))
	require.Equal(t, "r1~2", a.Header().Get("Weir-Action-Id"))
	c := w.responder.last(t)
	require.Equal(t, schemas.Ref{Tenant: "default", Kind: schemas.KindRun, ID: "r1~2"}, c.ref)
	require.False(t, c.receipt.Duplicate)
	require.True(t, c.held, "the end cannot be missed")
	require.Equal(t, "r1", w.action(t, "default", "r1~2").Supersedes)
	require.True(t, w.action(t, "default", "r1~2").Sync)
	require.Equal(t, 2, w.metrics.accepted[schemas.KindRun])

	for id, after := range map[string]uint64{"": 0, "999999": 0, "5~2": 5, "5~3": 0} {
		rec := w.stream(okRun, "Last-Event-ID", id)
		require.Equal(t, "r1~2", rec.Header().Get("Weir-Action-Id"))
		require.Equal(t, after, w.responder.last(t).after, id)
	}
	end("r1~2", schemas.OutcomeFailed, schemas.AgentUnavailable)
	require.Equal(t, "r1~3", w.stream(okRun).Header().Get("Weir-Action-Id"))
	require.Equal(t, "r1~2", w.action(t, "default", "r1~3").Supersedes)
	require.False(t, w.action(t, "default", "r1~3").Sync, "each goes by its own caller's route")
}

func TestADeniedCallOfARun(t *testing.T) {
	t.Parallel()
	w := setup(t)
	body := func(id string) string {
		return `{"request_id":"` + id + `","task_type":"HTTP_EXECUTE","inputs":` + denied + `}`
	}
	a := w.do(t, post(schemas.RouteRunSync, body("r1"), "Prefer", "respond-async"))
	require.Equal(t, 10*time.Second, w.responder.last(t).wait, "its caller hears of the denial at once")
	require.Empty(t, a.Header().Get("Preference-Applied"))
	require.Equal(t, http.StatusOK, w.stream(body("r2")).Code)
	require.EqualValues(t, 2, w.records(t), "denials leave evidence")
	require.JSONEq(t, `{"task_type":"HTTP_EXECUTE","call":{"method":"GET","url":"http://evil.example/x"}}`, string(w.action(t, "default", "r1").Payload))
}

// An agent may leave while its runs go on: who repeats one, or comes back to its
// stream, still gets it; only a new one is refused.
func TestARunOfATaskTypeThatNobodyServesAnyMore(t *testing.T) {
	t.Parallel()
	for _, entries := range [][]string{nil, {"agent:LIT_RETRIEVAL"}} {
		var gone atomic.Bool
		who := ingress.Identity{Token: schemas.Token{Tenant: "a", ID: "id", Scopes: []string{schemas.ScopeActionsWrite}, Entries: entries}}
		w := setup(t, func(c *config) {
			c.Runs.Serves = func(taskType string) bool { return taskType == "LIT_RETRIEVAL" && !gone.Load() }
			c.Authenticate = func(*http.Request) (ingress.Identity, error) { return who, nil }
		})
		w.do(t, post(schemas.RouteRunSync, okRun))
		gone.Store(true)
		w.do(t, post(schemas.RouteRunSync, okRun))
		require.True(t, w.responder.last(t).receipt.Duplicate)
		require.True(t, w.responder.last(t).held, "its end is waited for as ever")
		require.Equal(t, http.StatusOK, w.stream(okRun, "Last-Event-ID", "7").Code)
		require.EqualValues(t, 7, w.responder.last(t).after)

		for body, want := range map[string]int{
			`{"request_id":"r1","task_type":"LIT_RETRIEVAL","inputs":{"a":1}}`: http.StatusConflict,
			`{"request_id":"r1","task_type":"OTHER","inputs":{}}`:              http.StatusConflict,
			`{"request_id":"r2","task_type":"LIT_RETRIEVAL","inputs":{}}`:      http.StatusBadRequest,
		} {
			for _, route := range []string{schemas.RouteRunSync, schemas.RouteRunStream} {
				a := w.do(t, post(route, body))
				require.Equal(t, want, a.Code, "%s", a.Body)
				require.Empty(t, a.Header().Get("Weir-Action-Id"))
			}
		}
		who.Entries = []string{"stock"}
		require.Equal(t, http.StatusConflict, w.do(t, post(schemas.RouteRunSync, okRun)).Code, "a token that may use something else asks for something else")
		require.Equal(t, 1, w.metrics.accepted[schemas.KindRun])
		require.EqualValues(t, 1, w.records(t))
	}
}

// TestRepeatsOfARun: a retry renews what a caller adds for itself. It is the same run all the
// same, unless something changes that the agent gets.
func TestRepeatsOfARun(t *testing.T) {
	t.Parallel()
	w := setup(t, served)
	run := func(members string) string {
		return `{"request_id":"r1","task_type":"LIT_RETRIEVAL",` + members + `}`
	}
	const first = `"inputs":{},"budgets":{"max_time_ms":300000,"max_tokens":100000}`
	w.do(t, post(schemas.RouteRunSync, run(first+`,"trace_id":"t-1"`), "Idempotency-Key", `"r1"`))
	got := w.action(t, "default", "r1")
	require.JSONEq(t, `{"task_type":"LIT_RETRIEVAL",`+first+`}`, string(got.Payload))
	require.Equal(t, 5*time.Minute, got.Deadline.Sub(got.AcceptedAt))
	for _, same := range []string{first + `,"trace_id":"t-2"`, first, "\n" + first, first + `,"trace_id":{"x":null},"retry":1`} {
		w.do(t, post(schemas.RouteRunSync, run(same), "Idempotency-Key", "r1"))
		require.True(t, w.responder.last(t).receipt.Duplicate, "%s: its id is its key", same)
	}
	for _, other := range []string{
		`"inputs":{"a":1}`,
		`"inputs":{},"budgets":{"max_time_ms":300000,"max_tokens":100001}`,
		first + `,"risk_tier":"PHI"`,
	} {
		for _, route := range []string{schemas.RouteRunSync, schemas.RouteRunStream} {
			a := w.do(t, post(route, run(other))).refused(t, http.StatusConflict, schemas.Conflict)
			require.Equal(t, "r1", a.body["request_id"])
		}
	}
	require.EqualValues(t, 1, w.records(t))
}

func TestWhoMayRunWhat(t *testing.T) {
	t.Parallel()
	writer := func(entries ...string) func(*config) {
		return scoped(ingress.Identity{Token: schemas.Token{Tenant: "a", ID: "id", Scopes: []string{schemas.ScopeActionsWrite}, Entries: entries}})
	}
	run := func(taskType, inputs string) string {
		return `{"request_id":"r1","task_type":"` + taskType + `","inputs":` + inputs + `}`
	}
	keyed := `{"method":"GET","url":"http://ok.example/x","allowlist_key":"stock"}`
	for name, tc := range map[string]struct {
		may    func(*config)
		body   string
		status int
		code   string
	}{
		"its agent":      {writer("stock", "agent:LIT_RETRIEVAL"), okRun, 202, ""},
		"no agent":       {writer("orders"), okRun, 403, "FORBIDDEN"},
		"unserved":       {writer("orders"), run("NOBODY", "{}"), 400, "VALIDATION_ERROR"},
		"bad inputs too": {writer("agent:OTHER"), `{"request_id":"r1","task_type":"LIT_RETRIEVAL","inputs":[]}`, 422, "VALIDATION_ERROR"},
		"echo":           {writer("orders"), run("ECHO", "{}"), 202, ""},
		"its call":       {writer("stock"), run("HTTP_EXECUTE", keyed), 202, ""},
		"other call":     {writer("orders"), run("HTTP_EXECUTE", keyed), 403, "FORBIDDEN"},
		"other plan":     {writer("orders"), run("HTTP_PLAN", `{"state:env.snapshot":{},"artifact:proposed.plan":{"decisions":[{"effect_ref":"e","target_state":{"allowlist_key":"stock"}}]}}`), 403, "FORBIDDEN"},
	} {
		w := setup(t, served, tc.may)
		a := w.do(t, post(schemas.RouteRunSync, tc.body))
		require.Equal(t, tc.status, a.Code, "%s: %s", name, a.Body)
		if tc.status < 400 {
			stored := w.action(t, "a", "r1")
			require.Equal(t, "id", stored.Principal, name)
			continue
		}
		require.Equal(t, tc.code, a.body["code"], name)
		require.Contains(t, a.body, "outputs", name)
		require.Zero(t, w.records(t), name)
		rec := w.stream(tc.body)
		require.Equal(t, tc.status, rec.Code, name)
		require.Equal(t, "application/json", rec.Header().Get("Content-Type"), "a stream that was not begun is a plain refusal")
	}
}

// No run may ask for more time than it is remembered for, and the refusal says how
// much that is.
func TestTheLongestRun(t *testing.T) {
	t.Parallel()
	const body = `{"request_id":"r1","task_type":"LIT_RETRIEVAL","budgets":{"timeout_ms":%d}}`
	for most, allowed := range map[time.Duration]int{
		0: 86_400_000, time.Hour: 3_600_000, 168 * time.Hour: 86_400_000,
	} {
		w := setup(t, served, func(c *config) { c.Runs.MaxRun = most })
		for _, route := range []string{schemas.RouteRunSync, schemas.RouteRunStream} {
			a := w.do(t, post(route, fmt.Sprintf(body, allowed+1)))
			require.Equal(t, http.StatusUnprocessableEntity, a.Code)
			refusal(t, a)
			require.Equal(t, "at /budgets/timeout_ms: must be a whole number from 1 to "+strconv.Itoa(allowed), a.field("error", "message"))
		}
		require.Zero(t, w.records(t))
		require.Equal(t, http.StatusAccepted, w.do(t, post(schemas.RouteRunSync, fmt.Sprintf(body, allowed))).Code)
	}
}
