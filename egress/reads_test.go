package egress_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/egress"
	"weir/schemas"
)

func TestEveryReadNeedsATenant(t *testing.T) {
	t.Parallel()
	h := build(t)
	st := h.claim(httpRef("a"))
	h.attempt(st)
	for _, path := range []string{"/v1/actions", "/v1/actions/a", "/v1/actions/a/events", "/v1/evidence", "/v1/dead-letters"} {
		require.Equal(t, http.StatusUnauthorized, h.ask(http.MethodGet, path, "").Code, path)
		require.Equal(t, http.StatusForbidden, h.ask(http.MethodGet, path, "weak").Code, path)
		other := h.ask(http.MethodGet, path, "other", "Accept", "application/json")
		if strings.Contains(path, "/a") && strings.Contains(path, "actions/") {
			require.Equal(t, http.StatusNotFound, other.Code, path)
		} else {
			require.Contains(t, other.Body.String(), `{"items":[]`, path)
			require.NotContains(t, other.Body.String(), `"next"`, path)
		}
	}
}

func TestStatusOfAnAction(t *testing.T) {
	t.Parallel()
	h := build(t)
	st := h.claim(httpRef("a"))
	view := func() schemas.ActionView {
		w := h.get("/v1/actions/a")
		require.Equal(t, http.StatusOK, w.Code)
		for _, internal := range []string{"secret.example", "worker-7", "fingerprint"} {
			require.NotContains(t, w.Body.String(), internal)
		}
		return decode[schemas.ActionView](t, w.Body)
	}
	v := view()
	require.EqualValues(t, "accepted", v.Status)
	require.Equal(t, "/v1/actions/a/events", v.EventsURL)
	require.True(t, st.Action.Deadline.Equal(v.Deadline))
	require.NotNil(t, v.Attempts)

	h.attempt(st)
	v = view()
	require.EqualValues(t, "started", v.Status)
	require.Len(t, v.Attempts, 1)
	require.False(t, v.Attempts[0].Done)
	require.Equal(t, "github", v.Decision.Entry)

	h.append(st, schemas.Event{Type: schemas.EventAttempted, Attempted: &schemas.Attempted{Number: 1, Sent: true, Status: 200, Duration: 1500 * time.Microsecond}})
	h.append(st, schemas.Event{Type: schemas.EventWaiting, Waiting: &schemas.Waiting{For: schemas.WaitDelay}})
	h.append(st, schemas.Event{Type: schemas.EventCancel})
	v = view()
	require.EqualValues(t, "waiting", v.Status)
	require.True(t, v.CancelRequested)
	require.True(t, *v.Attempts[0].Sent)
	require.InDelta(t, 1.5, *v.Attempts[0].DurationMS, 0)

	h.settle(st, schemas.Settled{
		Outcome: schemas.OutcomeDenied, Code: schemas.DenyHost, Message: "no", Attempts: 1,
		Result: json.RawMessage(`{"variant":"DisallowedHost","message":"disallowed host 'h'","decision":{"allowed":false,"code":"DENY_HOST","entry":"gitlab","version":"v-2"}}`),
	})
	v = view()
	require.EqualValues(t, "denied", v.Status)
	require.Equal(t, schemas.DenyHost, v.Code)
	require.Equal(t, "gitlab", v.Decision.Entry)
	require.Contains(t, string(v.Result), `"variant":"DisallowedHost"`)
	require.False(t, v.CancelRequested)
	require.False(t, v.Settled.IsZero())
	require.Positive(t, h.barrier.Load(), "nothing is shown before it is durable")
}

// TestEventOfAMock: what was answered without having been written down before says
// which rule it was.
func TestEventOfAMock(t *testing.T) {
	t.Parallel()
	h := build(t)
	st := h.claim(httpRef("a"))
	mocked := schemas.Decision{Allowed: true, Entry: "up", Traffic: &schemas.Traffic{RulesEtag: "etag-1-x", Rules: []string{"m"}, Mocked: "m"}}
	h.append(st, schemas.Event{
		Type: schemas.EventAttempted, Attempt: &schemas.Attempt{Number: 1, Decision: mocked}, Attempted: &schemas.Attempted{Number: 1, Status: 200},
	})
	w := h.get("/v1/actions/a/events?live=long-poll")
	require.Equal(t, http.StatusOK, w.Code)
	require.Contains(t, w.Body.String(), `"traffic":{"rules_etag":"etag-1-x","rules":["m"],"mocked":"m"}`)
}

func TestStatusOfAnUnknownOutcome(t *testing.T) {
	t.Parallel()
	h := build(t)
	st := h.claim(httpRef("a"))
	h.settle(st, schemas.Settled{Outcome: schemas.OutcomeUnknown, Code: schemas.Interrupted, Message: "x", Attempts: 1})
	h.append(st, schemas.Event{Type: schemas.EventResolution, Resolution: &schemas.Resolution{Effect: "applied"}})
	v := decode[schemas.ActionView](t, h.get("/v1/actions/a").Body)
	require.EqualValues(t, "outcome_unknown", v.Status)
	require.Equal(t, "/v1/actions/a/resolve", v.ResolveURL)
	require.Equal(t, schemas.UnknownText, v.Message)
	require.Equal(t, "applied", v.Resolution.Effect)
}

func TestStatusThatThereIsNot(t *testing.T) {
	t.Parallel()
	h := build(t)
	for _, id := range []string{"nobody", "bad*id", "%2e%2e%2f"} {
		w := h.get("/v1/actions/" + id)
		require.Equal(t, http.StatusNotFound, w.Code, id)
	}
	st := h.claim(httpRef("a"))
	h.attempt(st)
	h.log.Purge(schemas.LogStream(layout.Partition("acme", "a")), st.Events[1].Seq)
	require.Equal(t, http.StatusGone, h.get("/v1/actions/a").Code)
}

func TestStatusOfARecordThatCannotBeRead(t *testing.T) {
	t.Parallel()
	h := build(t)
	_, err := h.log.Append(t.Context(), schemas.Append{Subject: layout.Subject(planRef("a"), schemas.TailAccepted), Data: []byte(`{"v":99}`)})
	require.NoError(t, err)
	w := h.get("/v1/actions/a/events?live=long-poll")
	require.Equal(t, http.StatusOK, w.Code)
	require.Contains(t, w.Body.String(), `"type":"unknown"`)
	st, err := h.led.Load(t.Context(), planRef("a"))
	require.NoError(t, err)
	h.settle(st, schemas.Settled{Outcome: schemas.OutcomeFailed, Code: schemas.Poison})
	v := decode[schemas.ActionView](t, h.get("/v1/actions/a").Body)
	require.EqualValues(t, "failed", v.Status)
	require.Equal(t, schemas.Poison, v.Code)
	require.Equal(t, schemas.KindPlan, v.Kind)
}

func (h *house) list(query string, limit int) (ids []string) {
	h.t.Helper()
	for _, it := range pages[schemas.ActionEntry](h, "/v1/actions"+query, limit) {
		ids = append(ids, it.ID)
	}
	return ids
}

func TestListIsNewestFirst(t *testing.T) {
	t.Parallel()
	h := build(t)
	var want, plans []string
	for i := range 40 {
		ref := httpRef(fmt.Sprintf("a-%d", i))
		if i%7 == 0 {
			ref = planRef(ref.ID)
			plans = append(plans, ref.ID)
		}
		st := h.claim(ref)
		h.claim(schemas.Ref{Tenant: "other", Kind: schemas.KindHTTP, ID: fmt.Sprintf("o-%d", i)})
		if i == 21 {
			h.settle(st, schemas.Settled{Outcome: schemas.OutcomeDenied, Code: schemas.DenyHost})
		}
		want = append(want, ref.ID)
	}
	slices.Reverse(want)
	slices.Reverse(plans)
	for _, limit := range []int{1000, 40, 33, 3} {
		require.Equal(t, want, h.list("", limit), "limit %d", limit)
	}
	require.Equal(t, plans, h.list("?kind=plan", 4))
	require.Empty(t, h.list("?status=expired", 50))
	page := decode[schemas.Page[schemas.ActionEntry]](t, h.get("/v1/actions?status=denied").Body)
	require.Len(t, page.Items, 1)
	entry := page.Items[0]
	require.Equal(t, schemas.DenyHost, entry.Code)
	require.Equal(t, schemas.ClassOnce, entry.Class)
	require.Equal(t, "/v1/actions/a-21", entry.URL)
}

func TestListWords(t *testing.T) {
	t.Parallel()
	h := build(t, tasked)
	word := func(id string, want schemas.Status) {
		t.Helper()
		for _, e := range decode[schemas.Page[schemas.ActionEntry]](t, h.get("/v1/actions").Body).Items {
			if e.ID == id {
				require.Equal(t, want, e.Status)
				require.Equal(t, want, decode[schemas.ActionView](t, h.get("/v1/actions/"+id).Body).Status)
				return
			}
		}
		require.Fail(t, "absent", id)
	}
	waiting := schemas.Event{Type: schemas.EventWaiting, Waiting: &schemas.Waiting{For: schemas.WaitDelay}}
	st := h.claim(httpRef("a"))
	word("a", "accepted")
	h.append(st, schemas.Event{Type: schemas.EventCancel})
	word("a", "accepted")
	h.attempt(st)
	word("a", "started")
	h.append(st, waiting)
	word("a", "waiting")
	_, err := h.log.Append(t.Context(), schemas.Append{Subject: layout.Subject(httpRef("a"), schemas.TailWake)})
	require.NoError(t, err)
	word("a", "waiting")
	st, err = h.led.Load(t.Context(), httpRef("a"))
	require.NoError(t, err)
	h.settle(st, schemas.Settled{Outcome: schemas.OutcomeUnknown, Code: schemas.Interrupted})
	word("a", "outcome_unknown")
	h.append(st, schemas.Event{Type: schemas.EventResolution, Resolution: &schemas.Resolution{Effect: "applied"}})
	word("a", "outcome_unknown")

	task := h.task("t-1", "d")
	h.claimed(task, 0)
	word("t-1", "accepted")
	h.opened(task)
	word("t-1", "started")
	h.append(task, waiting)
	word("t-1", "waiting")
	h.asked(task, 1, "a")
	word("t-1", "started")
}

func TestListRefuses(t *testing.T) {
	t.Parallel()
	h := build(t)
	for _, query := range []string{
		"limit=0", "limit=x", "kind=teapot", "kind=", "kind=http,", "status=odd", "cursor=1-1-1", "cursor=-1", "cursor=0", "cursor=zzzzzzzzzzzzzz",
		"cursor=01", "cursor=1", "cursor=A", "cursor=0DN2RZWVITE69", "cursor=dn2rzwvite69", "cursor=0dn2rzwvite6", "cursor=" + strings.Repeat("1", 400), "kind=http&kind=plan", "cursor=", "q=", "q=a*b", "since=soon", "until=-5m",
		"since=99999999d", "count=yes", "colour=red", "code=a%20b", "task=", "agent=",
	} {
		require.Equal(t, http.StatusBadRequest, h.get("/v1/actions?"+query).Code, query)
	}
	require.Equal(t, http.StatusOK, h.get("/v1/actions?cursor=0dn2rzwvite69").Code)
	for _, query := range []string{"by=code", "step=7s", "since=1h&until=2h", "since=30d&step=10s", "limit=3", "kind=teapot"} {
		require.Equal(t, http.StatusBadRequest, h.get("/v1/stats?"+query).Code, query)
	}
}

func FuzzCursor(f *testing.F) {
	for _, s := range []string{"1", "0dn2rzwvite69", "zz", "--", "1-1", "%00"} {
		f.Add(s)
	}
	h := build(f)
	h.claim(httpRef("a"))
	f.Fuzz(func(t *testing.T, cursor string) {
		r, err := http.NewRequestWithContext(context.Background(), http.MethodGet, "/v1/actions", http.NoBody)
		require.NoError(t, err)
		q := r.URL.Query()
		q.Set("cursor", cursor)
		w := httptest.NewRecorder()
		r.URL.RawQuery = q.Encode()
		r.Header.Set("Authorization", "Bearer acme")
		h.engine.ServeHTTP(w, r)
		require.Contains(t, []int{200, 400}, w.Code)
	})
}

// A filter that a list does not know would show everything.
func TestListsRefuseUnknownParameters(t *testing.T) {
	t.Parallel()
	h := build(t, tasked, shelved, listing, func(c *egress.Config) { c.Budgets = accounts{} })
	for _, path := range []string{
		"/v1/actions", "/v1/actions/a/events", "/v1/stats", "/v1/tasks", "/v1/tasks/a/events", "/v1/evidence", "/v1/dead-letters",
		"/v1/repos", "/v1/rules", "/v1/tokens", "/v1/budgets",
	} {
		w := h.ask(http.MethodGet, path+"?pool=x", "acme")
		require.Equal(t, http.StatusBadRequest, w.Code, path)
		require.Contains(t, w.Body.String(), "there is no parameter of that name; it can be ", path)
	}
}
