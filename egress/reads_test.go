package egress_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/egress"
	"weir/egress/executor"
	"weir/egress/plans"
	"weir/egress/runs"
	"weir/internal/ledger"
	"weir/internal/redact"
	"weir/schemas"
)

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
	require.Equal(t, schemas.Called{Method: "GET", Host: "api.example", Path: "/orders"}, v.Called)

	h.attempt(st)
	v = view()
	require.EqualValues(t, "started", v.Status)
	require.Len(t, v.Attempts, 1)
	require.False(t, v.Attempts[0].Done)
	require.Equal(t, "github", v.Decision.Entry)

	last := schemas.Decision{Allowed: true, Entry: "github", Version: "v-2", Shadow: &schemas.Shadow{Entry: "new"}} // of a policy that came into force meanwhile
	h.append(st, schemas.Event{Type: schemas.EventAttempted, Attempted: &schemas.Attempted{Number: 1, Sent: true, Status: 200, Duration: 1500 * time.Microsecond, Decision: &last}})
	h.append(st, schemas.Event{Type: schemas.EventWaiting, Waiting: &schemas.Waiting{For: schemas.WaitDelay}})
	h.append(st, schemas.Event{Type: schemas.EventCancel})
	v = view()
	require.EqualValues(t, "waiting", v.Status)
	require.True(t, v.CancelRequested)
	require.True(t, *v.Attempts[0].Sent)
	require.Equal(t, last, *v.Decision)
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

// TestWhoSentAnAction: the status of an action names the token that sent it, and the one that leased
// its task last. A sensitive run shows nothing of its call.
func TestWhoSentAnAction(t *testing.T) {
	t.Parallel()
	h := build(t)
	call := []byte(`{"call":{"method":"GET","url":"http://api.example/orders"}}`)
	h.accept(schemas.Action{ID: "run", Kind: schemas.KindRun, TaskType: "HTTP_EXECUTE", Caller: "shop", Principal: "id-1", Payload: call})
	h.accept(schemas.Action{ID: "hidden", Kind: schemas.KindRun, TaskType: "HTTP_EXECUTE", Sensitive: true, Principal: "id-1", Payload: call})
	task := h.accept(schemas.Action{ID: "task", Kind: schemas.KindTask, Payload: []byte(`{"description":"d","repo":"r","pool":"p"}`)})
	h.append(task, schemas.Event{Type: schemas.EventSignal, Task: &schemas.TaskEvent{What: schemas.TaskClaimed, Lease: 1, Holder: "id-2", Agent: "coder"}})
	for id, want := range map[string]schemas.ActionView{
		"run":    {Called: schemas.Called{Method: "GET", Host: "api.example", Path: "/orders"}, Agent: "HTTP_EXECUTE", Caller: "shop"},
		"hidden": {Agent: "HTTP_EXECUTE", Caller: "id-1"},
		"task":   {Agent: "coder"},
	} {
		v := decode[schemas.ActionView](t, h.get("/v1/actions/"+id).Body)
		require.Equal(t, want, schemas.ActionView{Called: v.Called, Agent: v.Agent, Caller: v.Caller}, id)
	}
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
	_, err := h.log.Append(t.Context(), schemas.Append{Subject: layout.Subject(planRef("a"), schemas.SectionAccepted), Data: []byte(`{"v":99}`)})
	require.NoError(t, err)
	w := h.get("/v1/actions/a/events?live=long-poll")
	require.Equal(t, http.StatusOK, w.Code)
	require.Contains(t, w.Body.String(), `"type":"unknown"`)
	st, err := h.ledger.Load(t.Context(), planRef("a"))
	require.NoError(t, err)
	h.settle(st, schemas.Settled{Outcome: schemas.OutcomeFailed, Code: schemas.Poison})
	v := decode[schemas.ActionView](t, h.get("/v1/actions/a").Body)
	require.EqualValues(t, "failed", v.Status)
	require.Equal(t, schemas.Poison, v.Code)
	require.Equal(t, schemas.KindPlan, v.Kind)
	unreadable := &schemas.Settled{Outcome: schemas.OutcomeSucceeded, Result: json.RawMessage(`[]`)}
	require.Nil(t, h.server.Result(httpRef("b"), unreadable, unreadable.Result), "a document that is none is not shown")
}

func TestListRefuses(t *testing.T) {
	t.Parallel()
	h := build(t)
	for _, query := range []string{
		"limit=0", "limit=x", "kind=teapot", "kind=", "kind=http,", "status=odd", "cursor=1-1-1", "cursor=-1", "cursor=0", "cursor=zzzzzzzzzzzzzz",
		"cursor=01", "cursor=1", "cursor=A", "cursor=0DN2RZWVITE69", "cursor=dn2rzwvite69", "cursor=0dn2rzwvite6", "cursor=" + strings.Repeat("1", 400), "kind=http&kind=plan", "cursor=", "q=", "q=a%00b", "host=", "method=get", "http_status=4", "caller=a*b", "since=soon", "until=-5m",
		"since=99999999d", "count=yes", "colour=red", "code=a%20b", "task=", "agent=",
	} {
		require.Equal(t, http.StatusBadRequest, h.get("/v1/actions?"+query).Code, query)
	}
	require.Equal(t, http.StatusOK, h.get("/v1/actions?cursor=0dn2rzwvite69").Code)
	for _, query := range []string{"by=code", "step=7s", "since=1h&until=2h", "since=30d&step=10s", "limit=3", "kind=teapot"} {
		require.Equal(t, http.StatusBadRequest, h.get("/v1/stats?"+query).Code, query)
	}
}

// A filter that a list does not know would show everything.
func TestListsRefuseUnknownParameters(t *testing.T) {
	t.Parallel()
	h := build(t, tasked, shelved, listing, func(c *config) { c.Budgets = accounts{} })
	for _, path := range []string{
		"/v1/actions", "/v1/actions/a/events", "/v1/stats", "/v1/usage", "/v1/tasks", "/v1/tasks/a/events", "/v1/evidence", "/v1/dead-letters",
		"/v1/repos", "/v1/rules", "/v1/tokens", "/v1/budgets",
	} {
		w := h.ask(http.MethodGet, path+"?pool=x", "acme")
		require.Equal(t, http.StatusBadRequest, w.Code, path)
		require.Contains(t, w.Body.String(), "there is no parameter of that name; it can be ", path)
	}
	w := h.ask(http.MethodGet, "/v1/tasks?Statsu=Failed", "acme")
	require.Equal(t, http.StatusBadRequest, w.Code)
	require.Contains(t, w.Body.String(), "there is no parameter of that name; did you mean status?")
	require.Contains(t, h.get(schemas.RouteBackup+"?pool=x").Body.String(), "this route has no parameters; remove them")
}

func (h *env) evidence(tenant, kind, entry, action string) schemas.Evidence {
	h.t.Helper()
	e := schemas.Evidence{
		ID: fmt.Sprintf("%s-%s-%d", tenant, action, h.barrier.Add(1)), Time: time.Now().UTC(), Tenant: tenant,
		ActionID: action, Kind: kind, Entry: entry, Payload: json.RawMessage(`{"n":1.0}`),
	}
	data, err := ledger.Encode(e)
	require.NoError(h.t, err)
	_, err = h.log.Append(context.Background(), schemas.Append{Subject: schemas.EvidenceSubject(e), Data: data})
	require.NoError(h.t, err)
	return e
}

func TestEvidenceFilters(t *testing.T) {
	t.Parallel()
	h := build(t)
	a := h.evidence("acme", schemas.EvidenceConnector, "github", "x")
	h.evidence("other", schemas.EvidenceConnector, "github", "x")
	b := h.evidence("acme", schemas.EvidenceDecision, "host:localhost", "y")
	c := h.evidence("acme", schemas.EvidenceConnector, "github", "y")
	for query, want := range map[string][]schemas.Evidence{
		"":                              {a, b, c},
		"action_id=y":                   {b, c},
		"kind=builtin.http_connector":   {a, c},
		"entry=host:localhost":          {b},
		"entry=github&action_id=y":      {c},
		"since=1":                       {b, c},
		"since=2999-01-01T00:00:00.5Z":  {},
		"cursor=3":                      {c},
		"kind=git.push&action_id=x%3Ey": {},
	} {
		w := h.get("/v1/evidence?" + query)
		require.Equal(t, http.StatusOK, w.Code, query)
		p := decode[schemas.Page[schemas.Evidence]](t, w.Body)
		require.Len(t, p.Items, len(want), query)
		for i := range want {
			require.Equal(t, want[i].ID, p.Items[i].ID, query)
			require.Equal(t, `{"n":1.0}`, string(p.Items[i].Payload))
		}
	}
	for _, query := range []string{"since=yesterday", "since=-1", "since=99", "kind=", "kind=bogus", "kind=git.push&kind=git.push", "limit=0", "action_id=%00", "cursor=x"} {
		require.Equal(t, http.StatusBadRequest, h.get("/v1/evidence?"+query).Code, query)
	}
	require.Equal(t, http.StatusNotAcceptable, h.get("/v1/evidence", "Accept", "text/html").Code)
	require.Equal(t, http.StatusBadRequest, h.get("/v1/evidence", "Last-Event-ID", "x").Code)
}

func TestEvidenceSinceATime(t *testing.T) {
	t.Parallel()
	h := build(t)
	var times []time.Time
	for range 40 {
		h.evidence("acme", schemas.EvidenceAttempt, "e", "a")
		rec, err := h.log.Last(t.Context(), schemas.EvidenceStream, schemas.EvidenceRoot+".>")
		require.NoError(t, err)
		times = append(times, rec.Time)
	}
	for i, at := range times {
		want := 0
		for _, other := range times {
			if !other.Before(at) {
				want++
			}
		}
		p := decode[schemas.Page[schemas.Evidence]](t, h.get("/v1/evidence?since="+at.Format(time.RFC3339Nano)).Body)
		require.Len(t, p.Items, want, "%d", i)
	}
}

func TestEvidencePages(t *testing.T) {
	t.Parallel()
	h := build(t)
	for i := range 150 {
		h.evidence("acme", schemas.EvidenceAttempt, "e", fmt.Sprint("a", i))
		h.evidence("other", schemas.EvidenceAttempt, "e", fmt.Sprint("a", i))
	}
	for _, limit := range []int{1, 7, 63, 64, 65, 150, 151} {
		var got []string
		next, pages := "0", 0
		for next != "" {
			p := decode[schemas.Page[schemas.Evidence]](t, h.get(fmt.Sprintf("/v1/evidence?limit=%d&since=%s", limit, next)).Body)
			for _, e := range p.Items {
				got = append(got, e.ActionID)
			}
			next = p.Next
			pages++
		}
		require.Len(t, got, 150)
		require.Equal(t, "a0", got[0])
		require.Equal(t, "a149", got[149])
		require.Equal(t, (150+limit-1)/limit, pages, "limit %d", limit)
	}
	h.log.Purge(schemas.EvidenceStream, 50)
	w := h.get("/v1/evidence?since=3")
	require.Equal(t, http.StatusGone, w.Code)
	require.Equal(t, "50", decode[schemas.Problem](t, w.Body).EarliestID)
	require.Equal(t, http.StatusOK, h.get("/v1/evidence?since=49").Code)
}

// watched opens the stream of the evidence of tenant acme, and gives its frames one by one.
func (h *env) watched(query, after string) (next func() string) {
	w := &flushRecorder{header: http.Header{}, got: make(chan string, 10)}
	done := make(chan struct{})
	r := httptest.NewRequestWithContext(context.Background(), http.MethodGet, "/v1/evidence"+query, http.NoBody)
	for name, value := range map[string]string{"Accept": "text/event-stream", "Authorization": "Bearer acme", "Last-Event-ID": after} {
		if value != "" {
			r.Header.Set(name, value)
		}
	}
	go func() {
		defer close(done)
		h.engine.ServeHTTP(w, r)
	}()
	h.t.Cleanup(func() { h.feed.Close(); <-done })
	require.Equal(h.t, ":\n\n", <-w.got)
	return func() string { return <-w.got }
}

func TestEvidenceStream(t *testing.T) {
	t.Parallel()
	h := build(t)
	shows := func(frame string, want schemas.Evidence) (id string) {
		t.Helper()
		_, data, _ := strings.Cut(strings.TrimSpace(frame), "\ndata: ")
		require.Equal(t, want.ID, decode[schemas.Evidence](t, strings.NewReader(data)).ID)
		return idOf(frame)
	}
	old := h.evidence("acme", schemas.EvidenceAttempt, "e", "a")
	next := h.watched("?entry=e", "")
	id := shows(next(), old)
	h.evidence("other", schemas.EvidenceAttempt, "e", "a")
	h.evidence("acme", schemas.EvidenceAttempt, "not asked for", "a")
	second := h.evidence("acme", schemas.EvidenceAttempt, "e", "b")
	shows(next(), second)
	shows(h.watched("?entry=e", id)(), second)
}

func TestEvidenceWrittenOnSeveralLinesStaysOneEvent(t *testing.T) {
	t.Parallel()
	h := build(t)
	e := schemas.Evidence{Tenant: "acme", Kind: "k", ActionID: "a"}
	for _, data := range []string{"{\"id\":\"1\",\n\n\"event\":\r\n\"x\"}", "not\njson\n\nevent: x"} {
		_, err := h.log.Append(t.Context(), schemas.Append{Subject: schemas.EvidenceSubject(e), Data: []byte(data)})
		require.NoError(t, err)
	}
	require.Equal(t, "id: 1\nevent: evidence\ndata: {\"id\":\"1\",\"event\":\"x\"}\n\n", h.watched("", "")())
	require.Len(t, decode[schemas.Page[json.RawMessage]](t, h.get("/v1/evidence").Body).Items, 1)
}

// flushRecorder is a response whose flushes a test reads.
type flushRecorder struct {
	header http.Header
	code   int
	buf    strings.Builder
	got    chan string
}

func (s *flushRecorder) Header() http.Header         { return s.header }
func (s *flushRecorder) WriteHeader(code int)        { s.code = code }
func (s *flushRecorder) Write(p []byte) (int, error) { return s.buf.Write(p) }
func (s *flushRecorder) Flush() {
	s.got <- s.buf.String()
	s.buf.Reset()
}

func TestDeadLetters(t *testing.T) {
	t.Parallel()
	h := build(t)
	for i, tenant := range []string{"acme", "other", "acme", "acme"} {
		d := schemas.DeadLetter{
			Time: time.Now().UTC(), Tenant: tenant, Kind: schemas.KindHTTP, ActionID: fmt.Sprint("a", i), Code: schemas.Poison,
			Reason: "the record is not an event", Subject: "weir.log.0", Sequence: 7, Data: []byte("secret"),
			Called: schemas.Called{Method: "GET", Host: "h.example", Path: "/x"}, Agent: "A",
		}
		data, err := ledger.Encode(d)
		require.NoError(t, err)
		_, err = h.log.Append(t.Context(), schemas.Append{Subject: schemas.DeadSubject(d), Data: data})
		require.NoError(t, err)
	}
	w := h.get("/v1/dead-letters?limit=2")
	require.NotContains(t, w.Body.String(), "weir.log")
	require.NotContains(t, w.Body.String(), "data")
	p := decode[schemas.Page[schemas.DeadLetterView]](t, w.Body)
	require.Len(t, p.Items, 2)
	require.Equal(t, "a2", p.Items[1].ActionID)
	require.Equal(t, schemas.Called{Method: "GET", Host: "h.example", Path: "/x"}, p.Items[1].Called)
	require.Equal(t, "A", p.Items[1].Agent)
	require.Equal(t, schemas.Poison, p.Items[0].Code)
	p = decode[schemas.Page[schemas.DeadLetterView]](t, h.get("/v1/dead-letters?cursor="+p.Next).Body)
	require.Len(t, p.Items, 1)
	require.Empty(t, p.Next)
	require.Equal(t, http.StatusBadRequest, h.get("/v1/dead-letters?cursor=x").Code)
	require.Equal(t, http.StatusBadRequest, h.get("/v1/dead-letters?limit=x").Code)
}

// TestPayloadsHideCredentials: a worker needs them, and no reader does.
func TestPayloadsHideCredentials(t *testing.T) {
	t.Parallel()
	shown := map[schemas.Kind]func(*redact.Redactor, json.RawMessage) (json.RawMessage, error){}
	for _, s := range []egress.Surface{executor.Surface(), plans.Surface(), runs.Surface()} {
		shown[s.Views[0].Kind] = s.Views[0].Payload
	}
	const (
		call = `{"method":"POST","url":"http://h/?token=t","headers":[{"name":"Accept","value":"a"},{"name":"authorization","value":"Bearer x"},{"name":"X-Mine","value":"x"}],"body":{"token":"t","n":1.50}}`
		seen = `{"method":"POST","url":"http://h/?token=t","headers":[{"name":"Accept","value":"a"},{"name":"authorization","value":"REDACTED"},{"name":"X-Mine","value":"REDACTED"}],"body":{"token":"t","n":1.50}}`
		plan = `{"state:env.snapshot":{"snapshot_id":"s","password":"x"},"artifact:proposed.plan":{"plan_id":"p","decisions":[{"effect_ref":"e","target_state":{"url":"u","headers":{"Cookie":"x","A":1},"body":{"token":"t"},"params":{"token":"t"},"auth":{"token":"x"}},"idempotency_key":"d"}]}}`
		said = `{"state:env.snapshot":{"snapshot_id":"s","password":"REDACTED"},"artifact:proposed.plan":{"plan_id":"p","decisions":[{"effect_ref":"e","target_state":{"url":"u","headers":{"Cookie":"REDACTED","A":1},"body":{"token":"t"},"params":{"token":"t"},"auth":{"token":"REDACTED"}},"idempotency_key":"d"}]}}`
	)
	for _, tt := range []struct {
		kind          schemas.Kind
		payload, want string
	}{
		{schemas.KindHTTP, call, seen},
		{schemas.KindPlan, plan, said},
		{schemas.KindRun, `{"task_type":"HTTP_EXECUTE","call":` + call + `}`, `"call":` + seen},
		{schemas.KindRun, `{"task_type":"HTTP_PLAN","plan":` + plan + `}`, `"plan":` + said},
	} {
		got, err := shown[tt.kind](redact.New([]string{"X-Mine"}), json.RawMessage(tt.payload))
		require.NoError(t, err)
		require.Contains(t, string(got), tt.want, "order and numbers are kept")
	}
}
