package ingress_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"weir/ingress"
	"weir/ingress/chat"
	"weir/internal/fault"
	"weir/internal/limits/budget"
	"weir/internal/models"
	"weir/internal/weirtest/table"
	"weir/schemas"
)

const okChat = `{"model":"fast","messages":[{"role":"user","content":"hi"}]}`

// streamedChat is okChat, answered as a stream.
var streamedChat = strings.Replace(okChat, `{`, `{"stream":true,`, 1)

// desk serves completions of a few models.
func desk(change ...func(*chat.Config)) func(*config) {
	return func(c *config) {
		set := models.New([]schemas.Model{
			{Name: "vendor/big", Upstreams: []schemas.ModelUpstream{{Name: "one", URL: "https://h"}}, Price: &schemas.ModelPrice{Input: 10, Output: 1000}, MaxOutput: 100},
			{Name: "vendor/small", Upstreams: []schemas.ModelUpstream{{Name: "two", URL: "https://i"}}, Price: &schemas.ModelPrice{Input: 1, Output: 1}, MaxOutput: 200},
			{Name: "other/*", Upstreams: []schemas.ModelUpstream{{Name: "three", URL: "https://j"}}},
			{Name: "fast", Alias: "vendor/big"},
		})
		c.Chat = &chat.Config{
			Models: func() *models.Set { return set }, MaxBody: 16 << 20,
			Reserve: func(context.Context, string, ...string) (func(), error) { return func() {}, nil },
		}
		for _, f := range change {
			f(c.Chat)
		}
	}
}

// chatFault is the error of an answer, as the protocol has it.
func chatFault(t *testing.T, a answer) (code string) {
	t.Helper()
	require.Equal(t, "application/json", a.Header().Get("Content-Type"))
	require.EqualValues(t, a.Code, a.field("error", "metadata", "status"), a.Body)
	require.NotEmpty(t, a.field("error", "message"))
	require.Equal(t, a.Header().Get("X-Request-ID"), a.field("error", "metadata", "request_id"))
	require.Len(t, a.body, 1)
	code, _ = a.field("error", "metadata", "code").(string)
	require.NotEmpty(t, code)
	return code
}

func TestACompletionIsStored(t *testing.T) {
	t.Parallel()
	for _, path := range []string{
		"/chat/completions", "/v1/chat/completions", "/api/chat/completions", "/api/v1/chat/completions",
		"//chat/completions", "/api//chat/completions", "/api/v1//chat//completions",
	} {
		w := setup(t, desk())
		body := `{"model":"fast","models":["vendor/small","nobody"],"messages":[{"role":"user","content":"hi"}],"seed":1.50,"max_tokens":7}`
		a := w.do(t, post(path, body, "Authorization", "Bearer sk-whatever", "Traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"))
		require.Equal(t, http.StatusAccepted, a.Code, path)
		c := w.responder.last(t)
		require.False(t, c.stream)
		require.Nil(t, c.left)
		require.Equal(t, c.ref.ID, a.Header().Get(schemas.HeaderGeneration))
		got := w.action(t, "default", c.ref.ID)
		require.True(t, got.Sensitive)
		require.Equal(t, schemas.IDGenerated, got.IDSource)
		require.Equal(t, 15*time.Minute, got.Deadline.Sub(got.AcceptedAt))
		require.NotEmpty(t, got.TraceParent)
		require.Equal(t, []string{"vendor/big", "vendor/small"}, got.Answers, "what it is an alias of now")
		var order schemas.ChatOrder
		require.NoError(t, json.Unmarshal(got.Payload, &order))
		require.Positive(t, order.Prompt)
		order.Prompt = 0
		require.Equal(t, schemas.ChatOrder{
			Model: "fast", Models: []string{"vendor/small", "nobody"}, Output: 7, Choices: 1,
			Body: json.RawMessage(`{"model":"fast","messages":[{"role":"user","content":"hi"}],"seed":1.50,"max_tokens":7}`),
		}, order)
		require.Contains(t, w.logs.String(), `"surface":"chat"`)
	}
}

func TestACompletionIsStreamed(t *testing.T) {
	t.Parallel()
	w := setup(t, desk())
	ask := func(key string) *httptest.ResponseRecorder {
		return w.send(post("/v1/chat/completions", streamedChat, "Prefer", "respond-async", "Last-Event-ID", "77.3", "Idempotency-Key", key))
	}
	rec := ask("k")
	require.Equal(t, "data: chat\n\n", rec.Body.String())
	require.Empty(t, rec.Header().Get("Preference-Applied"), "there is nothing to prefer")
	c := w.responder.last(t)
	require.True(t, c.stream)
	require.Zero(t, c.after, "this request has made it")
	require.Zero(t, c.chunk)

	require.Equal(t, http.StatusOK, ask(`"k"`).Code)
	c = w.responder.last(t)
	require.EqualValues(t, 77, c.after, "it goes on where the other one was cut")
	require.Equal(t, 3, c.chunk)
	require.True(t, c.receipt.Duplicate)
	w.do(t, post("/chat/completions", streamedChat, "Last-Event-ID", "x")).refused(t, http.StatusBadRequest, schemas.InvalidRequest)
	require.EqualValues(t, 1, w.records(t))
}

// A stream that nobody may hold open is of nothing that was stored.
func TestAStreamTooMany(t *testing.T) {
	t.Parallel()
	for name, r := range map[string]func() *http.Request{
		"completion": func() *http.Request {
			return post("/v1/chat/completions", streamedChat, "Idempotency-Key", "k")
		},
		"run": func() *http.Request { return post(schemas.RouteRunStream, okRun) },
	} {
		w := setup(t, desk(), func(c *config) { c.Runs.Serves = func(string) bool { return true } })
		w.responder.full = fault.New(schemas.RateLimited, "too many")
		a := w.do(t, r()).refused(t, http.StatusTooManyRequests, schemas.RateLimited)
		require.Zero(t, w.records(t), name)
		require.Empty(t, a.Header().Get("Weir-Action-Id"), name)
		require.Equal(t, 1, w.metrics.refused[schemas.RateLimited], name)

		w.responder.full = nil
		w.plant(fault.ErrFull, nil)
		require.Equal(t, http.StatusServiceUnavailable, w.do(t, r()).Code, name)
		require.Zero(t, w.responder.seats, "what is not begun needs no place")

		w.plant(nil, nil)
		require.Equal(t, http.StatusOK, w.send(r()).Code, name)
		require.True(t, w.responder.last(t).held, name)
		require.Zero(t, w.responder.seats, name)
	}
	w := setup(t, desk())
	w.responder.full = fault.New(schemas.RateLimited, "too many")
	require.Equal(t, http.StatusAccepted, w.do(t, post("/v1/chat/completions", okChat)).Code, "it is no stream")
}

func TestAClientThatLeaves(t *testing.T) {
	t.Parallel()
	w := setup(t, desk())
	w.do(t, post("/chat/completions", okChat, schemas.HeaderOnDisconnect, "continue"))
	require.Nil(t, w.responder.last(t).left)
	a := w.do(t, post("/chat/completions", okChat, schemas.HeaderOnDisconnect, "cancel"))
	w.responder.last(t).left()
	st, err := w.ledger.Find(t.Context(), "default", a.Header().Get("Weir-Action-Id"))
	require.NoError(t, err)
	require.Equal(t, schemas.OutcomeCanceled, st.Settled.Outcome)
	var result schemas.ChatResult
	require.NoError(t, json.Unmarshal(st.Settled.Result, &result))
	require.Equal(t, schemas.ChatCanceled, result.Error.Status)

	for _, headers := range [][]string{{"stop"}, {""}, {"Cancel"}, {"cancel", "continue"}} {
		r := post("/chat/completions", okChat)
		r.Header[http.CanonicalHeaderKey(schemas.HeaderOnDisconnect)] = headers
		w.do(t, r).refused(t, http.StatusBadRequest, schemas.InvalidRequest)
	}
}

func TestALongConversationIsTaken(t *testing.T) {
	t.Parallel()
	w := setup(t, desk())
	var body strings.Builder
	body.WriteString(`{"model":"fast","messages":[{"role":"user"}`)
	for range 20_000 {
		body.WriteString(`,{"role":"user","content":"` + strings.Repeat("a", 100) + `"}`)
	}
	body.WriteString(`]}`)
	require.Equal(t, http.StatusAccepted, w.do(t, post("/chat/completions", body.String())).Code)
}

// Which models a token may use.
func TestModelsOfAToken(t *testing.T) {
	t.Parallel()
	who := func(models, entries []string) ingress.Identity {
		return ingress.Identity{Token: schemas.Token{Tenant: "default", ID: "tok", Scopes: []string{schemas.ScopeActionsWrite}, Models: models, Entries: entries}}
	}
	for name, tc := range map[string]struct {
		who    ingress.Identity
		body   string
		status int
		code   string
	}{
		"the alias":              {who([]string{"fast"}, nil), okChat, 202, ""},
		"what is behind it":      {who([]string{"vendor/*"}, nil), okChat, 202, ""},
		"another":                {who([]string{"vendor/small", "other/*"}, nil), okChat, 403, "FORBIDDEN"},
		"one of several":         {who([]string{"vendor/small"}, nil), strings.Replace(okChat, `{`, `{"models":["nobody","vendor/small"],`, 1), 202, ""},
		"its entry":              {who(nil, []string{"model:one", "x"}), okChat, 202, ""},
		"unknown comes first":    {who([]string{"vendor/small"}, nil), strings.Replace(okChat, "fast", "nobody", 1), 404, "MODEL_NOT_FOUND"},
		"without the scope":      {ingress.Identity{Token: schemas.Token{Tenant: "default", ID: "tok", Scopes: []string{schemas.ScopeActionsRead}}}, okChat, 403, "FORBIDDEN"},
		"who may comes foremost": {ingress.Identity{Token: schemas.Token{Tenant: "default", ID: "tok", Scopes: []string{schemas.ScopeActionsRead}}}, "", 403, "FORBIDDEN"},
	} {
		w := setup(t, desk(), scoped(tc.who))
		a := w.do(t, post("/chat/completions", tc.body))
		require.Equal(t, tc.status, a.Code, "%s: %s", name, a.Body)
		if tc.code != "" {
			require.Equal(t, tc.code, chatFault(t, a), name)
			require.Zero(t, w.records(t), name)
			continue
		}
		got := w.action(t, "default", w.responder.last(t).ref.ID)
		require.Equal(t, tc.who.Models, got.Models, name)
		require.Equal(t, tc.who.Entries, got.Entries, name)
		require.Equal(t, "tok", got.Principal, name)
	}
	w := setup(t, desk(), func(c *config) {
		c.Authenticate = func(*http.Request) (ingress.Identity, error) {
			return ingress.Identity{}, fault.New(schemas.Unauthorized, "who are you")
		}
	})
	a := w.do(t, post("/chat/completions", okChat)).refused(t, http.StatusUnauthorized, schemas.Unauthorized)
	require.Equal(t, "Bearer", a.Header().Get("WWW-Authenticate"))
}

// looker is a budget that says what it is told to.
type looker struct {
	mu     sync.Mutex
	seen   []budget.Order
	limits []schemas.ChatLimit
	err    error
}

func (l *looker) Look(_ context.Context, o budget.Order) ([]schemas.ChatLimit, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seen = append(l.seen, o)
	return l.limits, l.err
}

func TestAFullWindow(t *testing.T) {
	t.Parallel()
	l := &looker{}
	w := setup(t, desk(func(c *chat.Config) { c.Budgets = l }), scoped(ingress.Identity{Token: schemas.Token{Tenant: "default", ID: "tok", Scopes: []string{schemas.ScopeActionsWrite}}}))
	l.limits = []schemas.ChatLimit{
		{Source: "a", What: schemas.BudgetRequests, Limit: 10, Remaining: 3, ResetMS: 1500},
		{Source: "b", What: schemas.BudgetRequests, Limit: 99, Remaining: 5},
		{Source: "b", What: schemas.BudgetUSD, Limit: 99, Remaining: 5},
	}
	a := w.do(t, post("/chat/completions", okChat, "Idempotency-Key", "k"))
	require.Equal(t, http.StatusAccepted, a.Code)
	require.Equal(t, "10", a.Header().Get("x-ratelimit-limit-requests"))
	require.Equal(t, "3", a.Header().Get("x-ratelimit-remaining-requests"))
	require.Equal(t, "2s", a.Header().Get("x-ratelimit-reset-requests"))
	require.Empty(t, a.Header().Get("x-ratelimit-limit-tokens"))
	o := l.seen[0]
	require.Positive(t, o.Prompt)
	require.Equal(t, budget.Order{
		Tenant: "default", Action: a.Header().Get("X-Generation-Id"), Token: "tok", Models: []string{"vendor/big"}, Prompt: o.Prompt, Output: 100, Until: o.Until,
		Prices: []*schemas.ModelPrice{{Input: 10, Output: 1000}},
	}, o)

	w.do(t, post("/chat/completions", strings.Replace(okChat, `{`, `{"models":["other/x","vendor/small"],"n":2,`, 1)))
	require.EqualValues(t, 2*16_384, l.seen[1].Output, "nobody knows how much of other/x")
	require.Len(t, l.seen[1].Prices, 3, "whichever is the dearest")
	w.send(post("/chat/completions", streamedChat))
	require.True(t, l.seen[2].Elastic)
	w.send(post("/chat/completions", strings.Replace(streamedChat, `{`, `{"max_tokens":9,`, 1)))
	require.False(t, l.seen[3].Elastic)
	require.EqualValues(t, 9, l.seen[3].Output)

	stored := w.records(t)
	l.err = &budget.Refusal{Source: "per-hour", What: schemas.BudgetTokens, After: 90 * time.Second, Limits: []schemas.ChatLimit{
		{Source: "per-hour", What: schemas.BudgetTokens, Limit: 1000, Remaining: 0, ResetMS: 90_000},
	}}
	for _, headers := range [][]string{nil, {"Idempotency-Key", "other"}} {
		a = w.do(t, post("/chat/completions", okChat, headers...)).refused(t, http.StatusTooManyRequests, schemas.RateLimited)
		require.Equal(t, "90", a.Header().Get("Retry-After"))
		require.Equal(t, "0", a.Header().Get("x-ratelimit-remaining-tokens"))
		require.Equal(t, "90s", a.Header().Get("x-ratelimit-reset-tokens"))
		require.Equal(t, "per-hour", a.field("error", "metadata", "limit_source"))
		require.Equal(t, "tokens", a.field("error", "metadata", "limit_what"))
	}
	a = w.do(t, post("/chat/completions", okChat, "Idempotency-Key", "k"))
	require.Equal(t, http.StatusAccepted, a.Code, "what has begun is joined")

	// What others hold of a budget without a window is free as soon as they have ended.
	l.err = &budget.Refusal{Source: "ever", What: schemas.BudgetRequests, Held: true}
	a = w.do(t, post("/chat/completions", okChat)).refused(t, http.StatusTooManyRequests, schemas.RateLimited)
	require.Equal(t, "1", a.Header().Get("Retry-After"))
	require.Equal(t, "ever", a.field("error", "metadata", "limit_source"))
	require.Contains(t, a.field("error", "message"), "reserved for running completions")
	require.Equal(t, stored, w.records(t))

	// What cannot be known is for the worker to say.
	l.err = errors.New("private")
	require.Equal(t, http.StatusAccepted, w.do(t, post("/chat/completions", okChat)).Code)
	require.Equal(t, stored+1, w.records(t))
}

func TestTheCompletionsOfATask(t *testing.T) {
	t.Parallel()
	filer := ingress.Identity{Token: schemas.Token{Tenant: "default", ID: "filer", Scopes: []string{schemas.ScopeAdmin}, Models: []string{"vendor/*"}}}
	h := lobby(t, desk(), scoped(filer))
	file := func(id, more string) string {
		a := h.do(t, post("/v1/tasks", `{"request_id":"`+id+`","description":"d","repo":"app"`+more+`}`))
		require.Equal(t, http.StatusCreated, a.Code, a.Body)
		token, _ := a.field("token").(string)
		h.open(t, id)
		return token
	}
	free, bound := file("free", `,"budget":{"tokens":5000}`), file("bound", `,"model":"fast","deadline":"5m"`)
	require.Equal(t, []string{"vendor/*"}, h.action(t, "default", "free").Models)

	a := h.do(t, holding(free, post("/api/chat/completions", okChat, "Idempotency-Key", "k")))
	require.Equal(t, http.StatusAccepted, a.Code, a.Body)
	first := h.responder.last(t).ref.ID
	got := h.action(t, "default", first)
	require.Equal(t, "filer", got.Principal)
	require.Equal(t, []string{"vendor/*"}, got.Models)
	var order schemas.ChatOrder
	require.NoError(t, json.Unmarshal(got.Payload, &order))
	require.Equal(t, "free", order.TaskID)
	require.Equal(t, &schemas.TaskBudget{Tokens: 5000}, order.Budget)
	st, err := h.ledger.Find(t.Context(), "default", "free")
	require.NoError(t, err)
	var happened []schemas.TaskWhat
	for _, ev := range st.Events {
		if ev.Task != nil {
			happened = append(happened, ev.Task.What)
		}
	}
	require.Equal(t, []schemas.TaskWhat{schemas.TaskOpened, schemas.TaskClaimed}, happened, "asking for a completion takes the task")

	// Another task's key is another key, and nobody's but a task's.
	strict := strings.Replace(okChat, "fast", "vendor/big", 1)
	a = h.do(t, holding(bound, post("/chat/completions", strict, "Idempotency-Key", "k")))
	require.Equal(t, http.StatusAccepted, a.Code, a.Body)
	second := h.action(t, "default", h.responder.last(t).ref.ID)
	require.NotEqual(t, first, second.ID)
	require.LessOrEqual(t, second.Deadline, h.action(t, "default", "bound").Deadline, "it ends with its task")
	a = h.do(t, post("/chat/completions", okChat, "Idempotency-Key", "k"))
	require.Equal(t, http.StatusAccepted, a.Code)
	require.NotEqual(t, first, h.responder.last(t).ref.ID)

	a = h.do(t, holding(bound, post("/chat/completions", strings.Replace(okChat, "fast", "vendor/small", 1))))
	require.Contains(t, a.refused(t, http.StatusForbidden, schemas.Forbidden).field("error", "message"), "fast")
	a = h.do(t, holding(bound, post("/chat/completions", strings.Replace(okChat, `{`, `{"models":["vendor/small"],`, 1))))
	require.Equal(t, http.StatusAccepted, a.Code)
	require.NotContains(t, string(h.action(t, "default", h.responder.last(t).ref.ID).Payload), "vendor/small")
	foreign := strings.Replace(okChat, "fast", "other/x", 1) // whoever filed the task may not use it
	h.do(t, holding(free, post("/chat/completions", foreign))).refused(t, http.StatusForbidden, schemas.Forbidden)

	require.Equal(t, http.StatusOK, h.send(holding(free, post(schemas.RouteAgentComplete, `{"description":"done"}`))).Code)
	h.do(t, holding(free, post("/chat/completions", okChat))).refused(t, http.StatusUnauthorized, schemas.Unauthorized)
}

// An agent of a pool asks with the pool's token, and is the task's that it holds.
func TestTheCompletionsOfAPoolsAgent(t *testing.T) {
	t.Parallel()
	who := ingress.Identity{Token: schemas.Token{Tenant: "default", ID: "p", Scopes: []string{schemas.ScopeAdmin}}}
	var mu sync.Mutex
	h := lobby(t, desk(), func(c *config) {
		c.Authenticate = func(*http.Request) (ingress.Identity, error) { mu.Lock(); defer mu.Unlock(); return who, nil }
	})
	be := func(scopes ...string) { mu.Lock(); defer mu.Unlock(); who.Scopes = scopes }
	h.file(t, "one")
	h.open(t, "one")
	be(schemas.ScopeTasksWork)
	ask := func() *http.Request { return holding("pool", post("/chat/completions", okChat)) }
	h.do(t, ask()).refused(t, http.StatusBadRequest, schemas.TaskNotRunning) // it holds none yet

	require.Equal(t, http.StatusOK, h.send(holding("pool", get(schemas.RouteAgentTask))).Code)
	require.Equal(t, http.StatusAccepted, h.do(t, ask()).Code)
	require.Contains(t, string(h.action(t, "default", h.responder.last(t).ref.ID).Payload), `"task_id":"one"`)

	be(schemas.ScopeTasksWork, schemas.ScopeActionsWrite)
	require.Equal(t, http.StatusNoContent, h.send(holding("pool", post(schemas.RouteTaskRelease, ``))).Code)
	require.Equal(t, http.StatusAccepted, h.do(t, ask()).Code)
	require.NotContains(t, string(h.action(t, "default", h.responder.last(t).ref.ID).Payload), "task_id", "it may ask for itself")
}

// TestWhatWaitsKeepsItsLease: the lease of a task's holder is kept until the answer to a question or to a completion has
// ended.
func TestWhatWaitsKeepsItsLease(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		during     func(r *responder, f func())
		path, body string
	}{
		"question":   {func(r *responder, f func()) { r.asking = f }, schemas.RouteAgentInquiry, `{"inquiry":"?"}`},
		"completion": {func(r *responder, f func()) { r.rest = f }, "/v1/chat/completions", streamedChat},
	} {
		h := lobbyOf(t, 8*time.Millisecond, desk(), scoped(ingress.Identity{Token: schemas.Token{Tenant: "default", ID: "p", Scopes: []string{schemas.ScopeAdmin, schemas.ScopeTasksWork}}}))
		h.file(t, "one")
		h.open(t, "one")
		require.Equal(t, http.StatusOK, h.send(holding("pool", get(schemas.RouteAgentTask))).Code)
		tc.during(h.responder, func() {
			for len(h.touched) > 0 {
				<-h.touched
			}
			<-h.touched // it is heard of again, and again
			<-h.touched
		})
		// What keeps the lease would be found as a leak after it.
		require.Equal(t, http.StatusOK, h.send(holding("pool", post(tc.path, tc.body))).Code, name)
	}
}

// A cancel that the log does not take is tried again for as long as the completion lives,
// and its worker hears of it before anything else.
func TestAClientThatLeavesWhileTheLogIsAway(t *testing.T) {
	t.Parallel()
	type testCase struct {
		meanwhile func(t *testing.T, w *world, id string, drain chan struct{})
		takes     time.Duration // at most
		outcome   schemas.Outcome
		logged    bool
	}
	table.Bubble(t, map[string]testCase{
		"it comes back": {
			meanwhile: func(_ *testing.T, w *world, _ string, _ chan struct{}) { w.plant(nil, nil) },
			takes:     time.Minute, outcome: schemas.OutcomeCanceled,
		},
		"the completion ends": {
			meanwhile: func(t *testing.T, w *world, id string, _ chan struct{}) {
				t.Helper()
				w.plant(nil, nil)
				w.settle(t, id, schemas.OutcomeSucceeded)
			},
			takes: time.Minute, outcome: schemas.OutcomeSucceeded,
		},
		"it stays away":  {meanwhile: func(*testing.T, *world, string, chan struct{}) {}, takes: 4 * time.Minute, logged: true},
		"the node stops": {meanwhile: func(_ *testing.T, _ *world, _ string, drain chan struct{}) { close(drain) }, takes: time.Minute, logged: true},
	}, func(t *testing.T, tc testCase) {
		var logs bytes.Buffer
		var stopped []schemas.Ref
		drain := make(chan struct{})
		w := setup(t, desk(func(c *chat.Config) { c.Draining = drain }), func(c *config) {
			c.Logger = slog.New(slog.NewJSONHandler(&logs, nil))
			c.Stop = func(ref schemas.Ref) { stopped = append(stopped, ref) }
		})
		id := w.do(t, post("/chat/completions", okChat, schemas.HeaderOnDisconnect, "cancel")).Header().Get("Weir-Action-Id")
		w.plant(fault.ErrUnavailable, nil)
		begin, over := time.Now(), make(chan struct{})
		left := w.responder.last(t).left
		go func() {
			defer close(over)
			left()
		}()
		time.Sleep(20 * time.Second)
		synctest.Wait()
		require.Equal(t, []schemas.Ref{w.responder.last(t).ref}, stopped, "at once")
		tc.meanwhile(t, w, id, drain)
		<-over
		require.LessOrEqual(t, time.Since(begin), tc.takes)
		st, err := w.ledger.Find(t.Context(), "default", id)
		require.NoError(t, err)
		if tc.outcome != "" {
			require.Equal(t, tc.outcome, st.Settled.Outcome)
		}
		if !tc.logged {
			require.Empty(t, logs.String())
			return
		}
		require.Contains(t, logs.String(), `"msg":"action_cancel_failed","action_id":"`+id+`","tenant":"default","code":"UNAVAILABLE"`)
	})
}

func largeChat(n int) string {
	return strings.Replace(okChat, "hi", strings.Repeat("a", n), 1)
}

// A large body takes memory of its tenant before it is read, until it is stored, and not while its answer is made.
func TestMemoryOfALargeBody(t *testing.T) {
	t.Parallel()
	for name, s := range surfaces() {
		if s.kind == schemas.KindRule {
			continue // its documents are small
		}
		var now, stored int64
		full := false
		w := setup(t, served, desk(), func(c *config) {
			c.Memory = func(_ context.Context, tenant string, n int64) (func(), error) {
				if full {
					return nil, context.DeadlineExceeded
				}
				require.Equal(t, "default", tenant)
				now += n
				return sync.OnceFunc(func() { now -= n }), nil
			}
			c.Accept.Barrier = func(context.Context) error { stored = now; return nil }
		})
		w.responder.chatting = func() { require.Zero(t, now) }
		large := s.body + strings.Repeat(" ", schemas.InlineLimit)
		require.Equal(t, http.StatusAccepted, w.do(t, post(s.path, large)).Code, name)
		require.Equal(t, []int64{int64(len(large)), 0}, []int64{stored, now}, name)
		full = true
		require.Equal(t, http.StatusAccepted, w.do(t, post(s.path, s.body)).Code, "a small one takes none")
		a := w.do(t, post(s.path, large)).refused(t, http.StatusServiceUnavailable, schemas.Unavailable)
		require.Equal(t, "close", a.Header().Get("Connection"), "its body is not read")
	}
}

// While a large completion is stored there are two of it here: what is stored, and the
// store's own.
func TestALargeBodyIsHeldOnce(t *testing.T) { //nolint:paralleltest // other tests' memory would be counted
	const size = 8 << 20
	held := func() int64 {
		for range 3 { // what pools keep outlasts one
			runtime.GC()
		}
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	var during int64
	w := setup(t, desk(), func(c *config) {
		c.Accept.Barrier = func(context.Context) error { during = held(); return nil }
	})
	body := largeChat(size)
	r := post("/v1/chat/completions", body)
	before := held()
	require.Equal(t, http.StatusAccepted, w.do(t, r).Code)
	runtime.KeepAlive(body)
	require.Less(t, during-before, int64(size/2*5))
}
