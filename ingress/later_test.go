package ingress_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/ingress"
	"weir/schemas"
)

// TestLaterBeginning: an action that is put off is stored with its beginning and not waited
// for, and the same request again joins it, whatever its delay then comes to.
func TestLaterBeginning(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 31, 9, 0, 0, 0, time.UTC)
	clock := func(c *ingress.Config) { c.Accept.Now = func() time.Time { return now } }
	run := `{"request_id":"r","task_type":"ECHO","inputs":{}}`
	for name, tc := range map[string]struct {
		path, body string
		kind       schemas.Kind
		header     []string
		want       time.Time
		wait       time.Duration
	}{
		"executor":        {"/v1/execute", okPost, schemas.KindHTTP, []string{"Weir-Delay", "30s"}, now.Add(30 * time.Second), 0},
		"plan":            {"/v1/plans", okPlan, schemas.KindPlan, []string{"Weir-Delay", "1m30s"}, now.Add(90 * time.Second), 0},
		"run":             {"/agents/run/sync", run, schemas.KindRun, []string{"Weir-Delay", "1s"}, now.Add(time.Second), 0},
		"an instant":      {"/v1/execute", okPost, schemas.KindHTTP, []string{"Weir-Not-Before", "2026-01-31T10:01:00+01:00"}, now.Add(time.Minute), 0},
		"who would wait":  {"/v1/execute", okPost, schemas.KindHTTP, []string{"Weir-Delay", "30s", "Prefer", "wait=40"}, now.Add(30 * time.Second), 40 * time.Second},
		"one denied":      {"/v1/execute", denied, schemas.KindHTTP, []string{"Weir-Delay", "30s", "Prefer", "respond-async"}, now.Add(30 * time.Second), 0},
		"no delay":        {"/v1/execute", okPost, schemas.KindHTTP, []string{"Weir-Delay", "0s"}, time.Time{}, -1},
		"a past instant":  {"/v1/execute", okPost, schemas.KindHTTP, []string{"Weir-Not-Before", "2020-01-01T00:00:00Z"}, time.Time{}, -1},
		"nothing of that": {"/v1/execute", okPost, schemas.KindHTTP, nil, time.Time{}, -1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t, clock)
			w.do(t, post(tc.path, tc.body, tc.header...))
			c := w.responder.last(t)
			require.Equal(t, tc.wait, c.wait, "how long the answer is held back")
			st, err := w.ledger.Load(t.Context(), c.ref)
			require.NoError(t, err)
			require.Equal(t, tc.kind, st.Kind)
			require.True(t, tc.want.Equal(st.Action.NotBefore), "%s", st.Action.NotBefore)
		})
	}

	w := setup(t, clock)
	key := []string{"Idempotency-Key", "k", "Prefer", "respond-async"}
	w.do(t, post("/v1/execute", okPost, append(key, "Weir-Delay", "30s")...))
	first := w.responder.last(t).ref
	a := w.do(t, post("/v1/execute", okPost, append(key, "Weir-Delay", "45s")...))
	require.Equal(t, http.StatusConflict, a.Code, "it is under way: the delay does not make it another")
	require.Equal(t, first.ID, a.Header().Get("Weir-Action-Id"))
	require.EqualValues(t, 1, w.records(t))
}

// TestBadBeginnings are refused with 400 and leave nothing.
func TestBadBeginnings(t *testing.T) {
	t.Parallel()
	for name, header := range map[string][]string{
		"no duration":      {"Weir-Delay", "soon"},
		"a bare number":    {"Weir-Delay", "30"},
		"negative":         {"Weir-Delay", "-1s"},
		"empty":            {"Weir-Delay", ""},
		"no instant":       {"Weir-Not-Before", "tomorrow"},
		"no zone":          {"Weir-Not-Before", "2026-01-31T09:00:00"},
		"both":             {"Weir-Delay", "1s", "Weir-Not-Before", "2026-01-31T09:00:00Z"},
		"over its time":    {"Weir-Delay", "3m"},
		"an instant there": {"Weir-Not-Before", time.Now().Add(time.Hour).Format(time.RFC3339)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, path := range []string{"/v1/execute", "/v1/plans"} {
				w := setup(t)
				body, add := okPost, header
				if path == "/v1/plans" {
					body = okPlan
					if name == "over its time" {
						add = []string{"Weir-Delay", "11m"}
					}
				}
				a := w.do(t, post(path, body, add...))
				require.Equal(t, http.StatusBadRequest, a.Code, a.Body.String())
				require.Zero(t, w.records(t))
			}
		})
	}
	w := setup(t)
	r := post("/v1/execute", okPost)
	r.Header["Weir-Delay"] = []string{"1s", "1s"}
	require.Equal(t, http.StatusBadRequest, w.do(t, r).Code)
	a := w.do(t, post("/v1/dead-letters/redrive", `{"sequence":1}`, "Weir-Delay", "1s"))
	require.Equal(t, http.StatusBadRequest, a.Code)
	require.Contains(t, a.Body.String(), "begins at once")
	require.Zero(t, w.records(t))
}
