package ingress_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/ingress"
	"weir/schemas"
)

const echoRun = `{"request_id":"r","task_type":"ECHO","inputs":{}}`

// deferrable are the routes that put an action off, with a body of each.
var deferrable = map[string]string{"/v1/execute": okPost, "/v1/plans": okPlan, schemas.RouteRunSync: echoRun}

// TestLaterBeginning: an action that is put off is stored with its beginning and not waited for.
func TestLaterBeginning(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 31, 9, 0, 0, 0, time.UTC)
	for name, tc := range map[string]struct {
		path, body string
		header     []string
		want       time.Time
		wait       time.Duration
	}{
		"executor":        {"/v1/execute", okPost, []string{"Weir-Delay", "30s"}, now.Add(30 * time.Second), 0},
		"plan":            {"/v1/plans", okPlan, []string{"Weir-Delay", "1m30s"}, now.Add(90 * time.Second), 0},
		"run":             {schemas.RouteRunSync, echoRun, []string{"Weir-Delay", "1s"}, now.Add(time.Second), 0},
		"an instant":      {"/v1/execute", okPost, []string{"Weir-Not-Before", "2026-01-31T10:01:00+01:00"}, now.Add(time.Minute), 0},
		"who would wait":  {"/v1/execute", okPost, []string{"Weir-Delay", "30s", "Prefer", "wait=40"}, now.Add(30 * time.Second), 40 * time.Second},
		"one denied":      {"/v1/execute", denied, []string{"Weir-Delay", "30s", "Prefer", "respond-async"}, now.Add(30 * time.Second), 0},
		"no delay":        {"/v1/execute", okPost, []string{"Weir-Delay", "0s"}, time.Time{}, -1},
		"a past instant":  {"/v1/execute", okPost, []string{"Weir-Not-Before", "2020-01-01T00:00:00Z"}, time.Time{}, -1},
		"nothing of that": {"/v1/execute", okPost, nil, time.Time{}, -1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t, func(c *ingress.Config) { c.Accept.Now = func() time.Time { return now } })
			w.do(t, post(tc.path, tc.body, tc.header...))
			c := w.responder.last(t)
			require.Equal(t, tc.wait, c.wait, "how long the answer is held back")
			a := w.action(t, c.ref.Tenant, c.ref.ID)
			require.True(t, tc.want.Equal(a.NotBefore), "%s", a.NotBefore)
		})
	}
}

// TestOrderingKey: the key is stored with a place in its line.
func TestOrderingKey(t *testing.T) {
	t.Parallel()
	for path, key := range map[string]string{"/v1/execute": "account.4711", "/v1/plans": "A:b_c-d", schemas.RouteRunSync: strings.Repeat("k", 128)} {
		w := setup(t)
		w.do(t, post(path, deferrable[path], schemas.HeaderOrderingKey, key))
		st, err := w.ledger.Load(t.Context(), w.responder.last(t).ref)
		require.NoError(t, err)
		require.Equal(t, key, st.Action.OrderingKey)
		require.NotZero(t, st.Action.Ticket)
		mine, _, err := w.ledger.Turn(t.Context(), st)
		require.NoError(t, err)
		require.True(t, mine)
	}
}

// TestTheSameRequestInOtherTerms joins its action, whatever its key or delay then is.
func TestTheSameRequestInOtherTerms(t *testing.T) {
	t.Parallel()
	for header, values := range map[string][2]string{schemas.HeaderOrderingKey: {"one", "two"}, "Weir-Delay": {"30s", "45s"}} {
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
}

// TestBadTerms are refused on every route, name the header and leave nothing.
func TestBadTerms(t *testing.T) {
	t.Parallel()
	const delay, instant, key, priority = "Weir-Delay", "Weir-Not-Before", schemas.HeaderOrderingKey, schemas.HeaderPriority
	for name, tc := range map[string]struct {
		header string
		values []string
	}{
		"no duration":       {delay, []string{"soon"}},
		"a bare number":     {delay, []string{"30"}},
		"negative":          {delay, []string{"-1s"}},
		"an empty delay":    {delay, []string{""}},
		"two delays":        {delay, []string{"1s", "1s"}},
		"over its time":     {delay, []string{"25h"}},
		"no instant":        {instant, []string{"tomorrow"}},
		"no zone":           {instant, []string{"2026-01-31T09:00:00"}},
		"an instant there":  {instant, []string{time.Now().Add(25 * time.Hour).Format(time.RFC3339)}},
		"an empty key":      {key, []string{""}},
		"a space":           {key, []string{"a b"}},
		"a slash":           {key, []string{"a/b"}},
		"not ASCII":         {key, []string{"kö"}},
		"a wildcard":        {key, []string{"*"}},
		"a list of keys":    {key, []string{"a,b"}},
		"too long":          {key, []string{strings.Repeat("k", 129)}},
		"two keys":          {key, []string{"a", "a"}},
		"no priority":       {priority, []string{""}},
		"upper case":        {priority, []string{"HIGH"}},
		"low":               {priority, []string{"low"}},
		"a number":          {priority, []string{"1"}},
		"a list of them":    {priority, []string{"high,normal"}},
		"two priorities":    {priority, []string{"high", "high"}},
		"both of beginning": {delay, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for path, body := range deferrable {
				w := setup(t)
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
				require.Regexp(t, tc.header+"|would begin when its time is up", a.Body.String())
				require.Zero(t, w.records(t))
			}
		})
	}
	for header, value := range map[string]string{delay: "1s", key: "k", priority: "high"} { // what is done again begins at once
		a := setup(t).do(t, post("/v1/dead-letters/redrive", `{"sequence":1}`, header, value))
		require.Contains(t, a.refused(t, http.StatusBadRequest, schemas.InvalidRequest).Body.String(), header)
	}
}
