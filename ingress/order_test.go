package ingress_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/ingress"
	"weir/schemas"
)

// TestOrderingKey: the routes that put actions off take a key, which is stored with a place in
// its line; and the same request again joins its action whatever its key.
func TestOrderingKey(t *testing.T) {
	t.Parallel()
	longest := strings.Repeat("k", 128)
	for name, tc := range map[string]struct{ path, body, key string }{
		"executor": {"/v1/execute", okPost, "account.4711"},
		"plan":     {"/v1/plans", okPlan, "A:b_c-d"},
		"run":      {"/agents/run/sync", `{"request_id":"r","task_type":"ECHO","inputs":{}}`, longest},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			w.do(t, post(tc.path, tc.body, schemas.HeaderOrderingKey, tc.key))
			st, err := w.ledger.Load(t.Context(), w.responder.last(t).ref)
			require.NoError(t, err)
			require.Equal(t, tc.key, st.Action.OrderingKey)
			require.NotZero(t, st.Action.Ticket)
			mine, _, err := w.ledger.Turn(t.Context(), st)
			require.NoError(t, err)
			require.True(t, mine)
		})
	}

	w := setup(t)
	named := []string{"Idempotency-Key", "k", "Prefer", "respond-async"}
	w.do(t, post("/v1/execute", okPost, append(named, schemas.HeaderOrderingKey, "one")...))
	first := w.responder.last(t).ref
	a := w.do(t, post("/v1/execute", okPost, append(named, schemas.HeaderOrderingKey, "two")...))
	require.Equal(t, http.StatusConflict, a.Code, "it is under way")
	require.Equal(t, first.ID, a.Header().Get("Weir-Action-Id"))
	require.EqualValues(t, 1, w.records(t))
}

// refusalOf is the status of a malformed request: the run contract has one of its own.
func refusalOf(path string) int {
	if path == schemas.RouteRunSync {
		return http.StatusUnprocessableEntity
	}
	return http.StatusBadRequest
}

// TestBadOrderingKeys are refused and leave nothing, as is one where there is no order.
func TestBadOrderingKeys(t *testing.T) {
	t.Parallel()
	for name, values := range map[string][]string{
		"empty": {""}, "a space": {"a b"}, "a slash": {"a/b"}, "not ASCII": {"kö"}, "a wildcard": {"*"}, "a list": {"a,b"}, "too long": {strings.Repeat("k", 129)}, "twice": {"a", "a"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for path, body := range map[string]string{"/v1/execute": okPost, "/v1/plans": okPlan, "/agents/run/sync": `{"request_id":"r","task_type":"ECHO","inputs":{}}`} {
				w := setup(t)
				r := post(path, body)
				r.Header[schemas.HeaderOrderingKey] = values
				a := w.do(t, r)
				require.Equal(t, refusalOf(path), a.Code, a.Body.String())
				require.Contains(t, a.Body.String(), schemas.HeaderOrderingKey)
				require.Zero(t, w.records(t))
			}
		})
	}
	w := setup(t, func(*ingress.Config) {})
	a := w.do(t, post("/v1/dead-letters/redrive", `{"sequence":1}`, schemas.HeaderOrderingKey, "k"))
	require.Equal(t, http.StatusBadRequest, a.Code)
	require.Contains(t, a.Body.String(), schemas.HeaderOrderingKey)
}

// TestPriority: high is written down and hurried, normal is what goes without saying.
func TestPriority(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]schemas.Priority{"high": schemas.PriorityHigh, "normal": ""} {
		w := setup(t)
		w.do(t, post("/v1/execute", okPost, schemas.HeaderPriority, value))
		st, err := w.ledger.Load(t.Context(), w.responder.last(t).ref)
		require.NoError(t, err)
		require.Equal(t, want, st.Action.Priority)
		hurry := w.ledger.Layout().Hurry(st.Ref)
		_, err = w.log.Newest(t.Context(), schemas.LogStream(w.ledger.Layout().Partition(st.Tenant, st.ID)), hurry)
		require.Equal(t, want == "", err != nil)
	}
	for name, values := range map[string][]string{
		"empty": {""}, "upper case": {"HIGH"}, "low": {"low"}, "a number": {"1"}, "a list": {"high,normal"}, "twice": {"high", "high"},
	} {
		for path, body := range map[string]string{"/v1/execute": okPost, "/v1/plans": okPlan, "/agents/run/sync": `{"request_id":"r","task_type":"ECHO","inputs":{}}`} {
			w := setup(t)
			r := post(path, body)
			r.Header[schemas.HeaderPriority] = values
			a := w.do(t, r)
			require.Equal(t, refusalOf(path), a.Code, "%s: %s", name, a.Body.String())
			require.Contains(t, a.Body.String(), schemas.HeaderPriority)
			require.Zero(t, w.records(t))
		}
	}
	a := setup(t).do(t, post("/v1/dead-letters/redrive", `{"sequence":1}`, schemas.HeaderPriority, "high"))
	require.Equal(t, http.StatusBadRequest, a.Code)
}
