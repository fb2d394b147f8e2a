package ingress_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"weir/ingress"
	"weir/ingress/accept"
	"weir/ingress/actions"
	"weir/ingress/chat"
	"weir/ingress/executor"
	"weir/ingress/git"
	"weir/ingress/grant"
	"weir/ingress/plans"
	"weir/ingress/rules"
	"weir/ingress/runs"
	"weir/ingress/session"
	"weir/ingress/tasks"
	"weir/internal/fault"
	"weir/internal/githttp"
	"weir/internal/ledger"
	"weir/internal/telemetry"
	"weir/internal/weirtest/capture"
	"weir/internal/weirtest/memlog"
	"weir/internal/weirtest/permit"
	"weir/schemas"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// call is one call of the responder.
type call struct {
	ref     schemas.Ref
	receipt schemas.Receipt
	wait    time.Duration
	held    bool // somebody expects its end, or has a place for its stream
	stream  bool
	order   *schemas.ChatOrder
	after   uint64
	chunk   int    // of a completion's event at after
	left    func() // a completion's
}

// responder answers 200 with the outcome of an action that has one, else 202.
type responder struct {
	ledger   *ledger.Ledger
	mu       sync.Mutex
	calls    []call
	held     map[schemas.Ref]int
	panics   bool
	instead  http.HandlerFunc // answers for Respond
	rest     func()           // what is left of a stream
	mute     bool             // nobody is given a lease
	handing  func()           // called before a task is handed over
	asking   func()           // what a question waits for
	full     error            // why nobody may hold a stream open
	chatting func()           // called before a completion is answered for
	seats    int              // that are taken now
}

func (r *responder) Expect(ref schemas.Ref) (release func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.held[ref]++
	return func() { r.mu.Lock(); defer r.mu.Unlock(); r.held[ref]-- }
}

func (r *responder) Respond(w http.ResponseWriter, req *http.Request, ref schemas.Ref, receipt schemas.Receipt, wait time.Duration) {
	if r.instead != nil {
		r.instead(w, req)
		return
	}
	if a, ok := w.(*githttp.Answer); ok {
		defer a.Report([]byte("end"))
		w = httptest.NewRecorder()
	}
	r.mu.Lock()
	r.calls = append(r.calls, call{ref: ref, receipt: receipt, wait: wait, held: r.held[ref] > 0})
	r.mu.Unlock()
	st, err := r.ledger.Load(req.Context(), ref)
	if err == nil && st.Settled != nil && wait != 0 {
		respond(w, http.StatusOK, map[string]any{"outcome": st.Settled.Outcome})
		if r.panics {
			panic("AGWCANARY-PANIC")
		}
		return
	}
	w.Header().Set("Location", "/v1/actions/"+ref.ID)
	respond(w, http.StatusAccepted, receipt)
}

// respond writes a JSON answer.
func respond(w http.ResponseWriter, status int, doc any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(doc) //nolint:errchkjson // checked JSON, and the recorder takes all
}

// Resume knows decimal positions, with a generation behind them or not.
func (r *responder) Resume(req *http.Request) (p schemas.RunPosition, err error) {
	id := req.Header.Get("Last-Event-ID")
	if id == "" {
		return p, nil
	}
	id, p.Generation = schemas.Generation(id)
	if p.Seq, err = strconv.ParseUint(id, 10, 64); err != nil {
		err = fault.New(schemas.InvalidRequest, "no position")
	}
	return p, err
}

// ResumeChat knows decimal positions, with a dot and a digit behind them or not.
func (r *responder) ResumeChat(req *http.Request) (p schemas.ChatPosition, err error) {
	id, chunk, _ := strings.Cut(req.Header.Get("Last-Event-ID"), ".")
	if chunk != "" {
		p.Chunk = int(chunk[0] - '0')
	}
	req = req.Clone(req.Context())
	req.Header.Set("Last-Event-ID", id)
	run, err := r.Resume(req)
	p.Seq = run.Seq
	return p, err
}

type seat struct{}

// Slot has a place unless it is full.
func (r *responder) Slot(req *http.Request) (seated *http.Request, leave func(), err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.full != nil {
		return nil, nil, r.full
	}
	r.seats++
	leave = func() { r.mu.Lock(); defer r.mu.Unlock(); r.seats-- }
	return req.WithContext(context.WithValue(req.Context(), seat{}, true)), leave, nil
}

// Stream answers with one event that names the task type, and leaves the rest.
func (r *responder) Stream(w http.ResponseWriter, req *http.Request, ref schemas.Ref, taskType string, after uint64) {
	if r.rest != nil {
		defer r.rest()
	}
	r.mu.Lock()
	r.calls = append(r.calls, call{ref: ref, stream: true, after: after, held: req.Context().Value(seat{}) != nil})
	r.mu.Unlock()
	w.Header().Set("Content-Type", "text/event-stream")
	_, _ = io.WriteString(w, "data: "+taskType+"\n\n")
}

// Chat is Stream or Respond, and keeps left.
func (r *responder) Chat(w http.ResponseWriter, req *http.Request, ref schemas.Ref, receipt schemas.Receipt, order *schemas.ChatOrder, behind schemas.ChatPosition, wait time.Duration, left func()) {
	if r.chatting != nil {
		r.chatting()
	}
	if order.Stream {
		r.Stream(w, req, ref, "chat", behind.Seq)
	} else {
		r.Respond(w, req, ref, receipt, wait)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	last := &r.calls[len(r.calls)-1]
	last.left, last.receipt, last.chunk, last.order = left, receipt, behind.Chunk, order
}

// Response answers with the id of a response, and its outcome if it has ended.
func (r *responder) Response(w http.ResponseWriter, req *http.Request, ref schemas.Ref) {
	st, err := r.ledger.Load(req.Context(), ref)
	if err != nil {
		panic(err)
	}
	doc := map[string]any{"id": schemas.ResponseID(ref.ID)}
	if st.Settled != nil {
		doc["outcome"] = st.Settled.Outcome
	}
	respond(w, http.StatusOK, doc)
}

func (r *responder) ReadRules(w http.ResponseWriter, _ *http.Request, tenant string, req schemas.AgentRequest) {
	respond(w, http.StatusOK, map[string]any{"ok": true, "tenant": tenant, "request_id": req.RequestID, "operation": req.Operation, "args": req.Args})
}

func (r *responder) Task(w http.ResponseWriter, _ *http.Request, ref schemas.Ref, status int, token string) {
	respond(w, status, map[string]any{"id": ref.ID, "token": token})
}

// AgentTask answers with the task's name, and says no status.
func (r *responder) AgentTask(w http.ResponseWriter, _ *http.Request, ref schemas.Ref, _ int) {
	if r.handing != nil {
		r.handing()
	}
	respond(w, http.StatusOK, map[string]any{"id": ref.ID})
}

// Leased answers with what was leased, unless it is told not to or the client has gone.
func (r *responder) Leased(w http.ResponseWriter, req *http.Request, ref schemas.Ref, lease int, token string, timeout time.Duration) bool {
	if r.handing != nil {
		r.handing()
	}
	if r.mute || req.Context().Err() != nil {
		w.WriteHeader(http.StatusServiceUnavailable)
		return false
	}
	respond(w, http.StatusOK, map[string]any{"id": ref.ID, "lease": lease, "token": token, "timeout_ms": timeout.Milliseconds()})
	return true
}

// Inquiry answers with the question's number.
func (r *responder) Inquiry(w http.ResponseWriter, _ *http.Request, _ schemas.Ref, _, n int) {
	if r.asking != nil {
		r.asking()
	}
	respond(w, http.StatusOK, map[string]any{"n": n})
}

// last is the newest call.
func (r *responder) last(t *testing.T) call {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	require.NotEmpty(t, r.calls)
	return r.calls[len(r.calls)-1]
}

type counter struct {
	mu       sync.Mutex
	accepted map[schemas.Kind]int
	refused  map[schemas.Code]int
	answered []string
}

func (c *counter) Accepted(k schemas.Kind) { c.mu.Lock(); defer c.mu.Unlock(); c.accepted[k]++ }
func (c *counter) Refused(k schemas.Code)  { c.mu.Lock(); defer c.mu.Unlock(); c.refused[k]++ }

func (c *counter) Answered(surface, method string, stream bool, status int, _ time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answered = append(c.answered, fmt.Sprint(surface, " ", method, " ", status, " ", stream))
}

// world is a whole ingress over a log in memory.
type world struct {
	engine    *gin.Engine
	ledger    *ledger.Ledger
	log       *memlog.Log
	responder *responder
	metrics   *counter
	logs      *capture.Buffer
	stopped   chan schemas.Ref

	mu      sync.Mutex
	before  error
	barrier error
}

// config is what a world is made of.
type config struct {
	ingress.Config

	Evaluate func(who grant.Caller) executor.Policy
	Rules    rules.Config
	Runs     runs.Config
	Work     tasks.SurfaceConfig
	Chat     *chat.Config
	Git      *git.Config
	Sessions session.Sessions
	Stop     func(ref schemas.Ref)
	Log      *memlog.Log
	Ledger   *ledger.Ledger
}

// surfacesOf are the surfaces of a world, whose answers are a responder's.
func surfacesOf(s *ingress.Server, r *responder, cfg config) (all []ingress.Surface) {
	kind := func(k schemas.Kind) (found ingress.Surface) {
		if i := slices.IndexFunc(all, func(s ingress.Surface) bool { return s.Kind == k }); i >= 0 {
			found = all[i]
		}
		return found
	}
	control := actions.New(cfg.Ledger, actions.Config{Barrier: cfg.Accept.Barrier, Stop: cfg.Stop, Kinds: kind})
	cfg.Rules.Read, cfg.Runs.Policy = r.ReadRules, cfg.Evaluate
	cfg.Runs.Resume, cfg.Runs.Slot, cfg.Runs.Stream = r.Resume, r.Slot, r.Stream
	work, talk, pushed := cfg.Work, chat.Config{}, git.Config{}
	work.Control, work.Policy, work.Show, work.Agent, work.Leased, work.Inquiry = control, cfg.Evaluate, r.Task, r.AgentTask, r.Leased, r.Inquiry
	if cfg.Chat != nil {
		talk, work.Models = *cfg.Chat, cfg.Chat.Models
	}
	talk.Tasks, talk.Stop, talk.Resume, talk.Slot, talk.Answer = work.Tasks, cfg.Stop, r.ResumeChat, r.Slot, r.Chat
	talk.Actions, talk.Respond = cfg.Ledger, r.Response
	talk.Cancel = func(ctx context.Context, tenant, id string) error {
		_, err := control.Cancel(ctx, tenant, id)
		return err
	}
	if cfg.Git != nil {
		pushed = *cfg.Git
	}
	serve := func(present bool, surfaces ...ingress.Surface) {
		for _, s := range surfaces {
			s.Absent = s.Absent || !present
			all = append(all, s)
		}
	}
	serve(true, actions.Surfaces(s, control, actions.NewRedriver(cfg.Log, cfg.Ledger, s.Acceptor(), kind))...)
	serve(true, executor.Surface(s, executor.Config{Policy: cfg.Evaluate, Batch: r.Batch}), plans.Surface(s), runs.Surface(s, cfg.Runs))
	serve(true, rules.Surfaces(s, cfg.Rules)...)
	serve(work.Tasks != nil, tasks.Surfaces(s, work)...)
	serve(cfg.Chat != nil, chat.Surface(s, talk))
	serve(cfg.Git != nil, git.Surface(s, pushed, r.Respond))
	serve(cfg.Sessions != nil, session.Surface(s, cfg.Sessions, func() string { return "" }))
	return all
}

// registry has the metrics of all worlds: a world needs only its loggers.
var registry = sync.OnceValue(telemetry.NewMetrics)

func setup(tb testing.TB, change ...func(*config)) *world {
	tb.Helper()
	w := &world{
		metrics: &counter{accepted: map[schemas.Kind]int{}, refused: map[schemas.Code]int{}},
		logs:    &capture.Buffer{}, stopped: make(chan schemas.Ref, 100),
	}
	layout := schemas.Layout{Partitions: 2}
	w.log = memlog.New(layout, time.Now, memlog.Hooks{
		Before: func(schemas.Append) error { w.mu.Lock(); defer w.mu.Unlock(); return w.before },
	})
	w.ledger = ledger.New(w.log, layout, nil)
	w.responder = &responder{ledger: w.ledger, held: map[schemas.Ref]int{}}
	policy := permit.Hosts(tb, "ok.example")
	cfg := config{
		Config: ingress.Config{
			Accept: accept.Config{
				Durability: schemas.DurabilityDisk, Deadlines: map[schemas.Kind]time.Duration{schemas.KindRule: 30 * time.Second, schemas.KindChat: 15 * time.Minute},
				Barrier: func(context.Context) error { w.mu.Lock(); defer w.mu.Unlock(); return w.barrier },
			},
			Metrics: w.metrics,
		},
		Evaluate: func(grant.Caller) executor.Policy { return policy }, Rules: rules.Config{AgentAPI: true},
		Stop: func(ref schemas.Ref) { w.stopped <- ref }, Log: w.log, Ledger: w.ledger,
	}
	for _, f := range change {
		f(&cfg)
	}
	cfg.Reply, cfg.Expect = w.responder.Respond, w.responder.Expect
	s := ingress.NewServer(w.ledger, cfg.Config)
	all := surfacesOf(s, w.responder, cfg)
	w.engine = ingress.NewEngine(ingress.EngineConfig{
		Logger: registry().NewLogger(w.logs, "debug", "json"), Metrics: w.metrics, Surfaces: all,
	})
	s.Mount(w.engine, all)
	return w
}

func (w *world) plant(before, barrier error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.before, w.barrier = before, barrier
}

// settle ends an action as a worker would.
func (w *world) settle(t *testing.T, id string, o schemas.Outcome) {
	t.Helper()
	st, err := w.ledger.Find(t.Context(), "default", id)
	require.NoError(t, err)
	require.NoError(t, w.ledger.Append(t.Context(), st, schemas.Event{Type: schemas.EventStarted, Started: &schemas.Started{Worker: "w"}}))
	require.NoError(t, w.ledger.Append(t.Context(), st, schemas.Event{Type: schemas.EventSettled, Settled: &schemas.Settled{Outcome: o}}))
}

// records is how many messages lie in the log.
func (w *world) records(t *testing.T) (n uint64) {
	t.Helper()
	for p := range 2 {
		_, last, err := w.log.Bounds(t.Context(), schemas.LogStream(p))
		require.NoError(t, err)
		n += last
	}
	return n
}

// answer is a checked answer.
type answer struct {
	*httptest.ResponseRecorder
	body map[string]any
}

// field reads a member of the body by its path.
func (a answer) field(path ...string) any {
	var v any = a.body
	for _, name := range path {
		m, _ := v.(map[string]any)
		v = m[name]
	}
	return v
}

// code is what the answer was refused for, in whichever dialect; the finer word where it has two.
func (a answer) code() schemas.Code {
	for _, path := range [][]string{{"error", "metadata", "code"}, {"error", "detail"}, {"code"}, {"error", "code"}} {
		if word, ok := a.field(path...).(string); ok {
			return schemas.Code(word)
		}
	}
	return ""
}

// refused checks the status and the code of a refusal.
func (a answer) refused(t *testing.T, status int, code schemas.Code) answer {
	t.Helper()
	require.Equal(t, status, a.Code, a.Body)
	require.Equal(t, code, a.code(), a.Body)
	return a
}

// do sends a request and checks what must hold for every answer.
func (w *world) do(t *testing.T, r *http.Request) answer {
	t.Helper()
	rec := httptest.NewRecorder()
	w.engine.ServeHTTP(rec, r)
	a := answer{ResponseRecorder: rec}
	h := rec.Header()
	require.Equal(t, "nosniff", h.Get("X-Content-Type-Options"))
	require.Equal(t, "no-store", h.Get("Cache-Control"))
	require.True(t, schemas.ValidID(h.Get("X-Request-ID")))
	require.NoError(t, json.Unmarshal(rec.Body.Bytes(), &a.body), "every body is JSON: %s", rec.Body)
	if rec.Code >= 400 {
		switch {
		case a.body["outputs"] != nil:
			refusal(t, a)
		case strings.HasPrefix(r.URL.Path, schemas.RouteAgentAPI), r.URL.Path == schemas.RouteRulesReset:
			envelope(t, a)
		case a.body["type"] == "error":
			refusalIn(t, schemas.DialectMessages, a)
		case a.field("error", "metadata") != nil:
			chatFault(t, a)
		case a.body["error"] != nil:
			require.Equal(t, "application/json", h.Get("Content-Type"))
			require.NotEmpty(t, a.field("error", "variant"))
			require.NotEmpty(t, a.field("error", "message"))
			require.NotEmpty(t, a.field("error", "code"))
			require.Equal(t, h.Get("X-Request-ID"), a.field("error", "request_id"))
		default:
			require.Equal(t, "application/problem+json", h.Get("Content-Type"))
			require.NotEmpty(t, a.body["detail"])
			require.NotEmpty(t, a.body["code"])
			require.EqualValues(t, rec.Code, a.body["status"])
			require.Equal(t, h.Get("X-Request-ID"), a.body["request_id"])
		}
	}
	if rec.Code == http.StatusMethodNotAllowed {
		require.Contains(t, h, "Allow")
	}
	if rec.Code == http.StatusServiceUnavailable || rec.Code == http.StatusTooManyRequests {
		require.NotEmpty(t, h.Get("Retry-After"))
	}
	for ref, n := range w.responder.held {
		require.Zero(t, n, "an expectation was not released: %v", ref)
	}
	return a
}

func envelope(t *testing.T, a answer) {
	t.Helper()
	require.Equal(t, "application/json", a.Header().Get("Content-Type"))
	require.Equal(t, false, a.body["ok"])
	require.NotContains(t, a.body, "data")
	require.NotEmpty(t, a.field("error", "code"))
	require.NotEmpty(t, a.field("error", "message"))
	require.IsType(t, "", a.body["request_id"])
	require.IsType(t, "", a.body["operation"])
}

// send sends a request and checks nothing of its answer.
func (w *world) send(r *http.Request) *httptest.ResponseRecorder {
	rec := httptest.NewRecorder()
	w.engine.ServeHTTP(rec, r)
	return rec
}

// action is what was stored under an id.
func (w *world) action(t *testing.T, tenant, id string) schemas.Action {
	t.Helper()
	st, err := w.ledger.Find(t.Context(), tenant, id)
	require.NoError(t, err)
	return st.Action
}

func post(path, body string, headers ...string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	return r
}

const (
	okGet  = `{"method":"GET","url":"http://ok.example/x"}`
	okPost = `{"type":"Http","args":{"method":"POST","url":"http://ok.example/x","body":{"n":1}}}`
	denied = `{"method":"GET","url":"http://evil.example/x"}`
	okPlan = `{"state:env.snapshot":{"snapshot_id":"s"},"artifact:proposed.plan":{"plan_id":"p","decisions":[]}}`
)

// surface is a route that stores an action, and the least that it takes.
type surface struct {
	path, body string
	kind       schemas.Kind
}

func surfaces() map[string]surface {
	return map[string]surface{
		"executor": {"/v1/execute", okPost, schemas.KindHTTP},
		"plans":    {"/v1/plans", okPlan, schemas.KindPlan},
		"runs":     {schemas.RouteRunSync, okRun, schemas.KindRun},
		"chat":     {"/v1/chat/completions", okChat, schemas.KindChat},
		"rules":    {schemas.RouteAgentAPI, api("r", schemas.OpGlobalOff, off), schemas.KindRule},
		"reset":    {schemas.RouteRulesReset, `{}`, schemas.KindRule},
	}
}

// TestSurfaces: each stores its action and waits as its client prefers. What a field of Prefer
// reads as is shown in accept.
func TestSurfaces(t *testing.T) {
	t.Parallel()
	for name, s := range surfaces() {
		for prefer, tc := range map[string]struct {
			wait    time.Duration
			applied string
		}{
			"respond-async":         {0, "respond-async"},
			"respond-async, wait=7": {7 * time.Second, "respond-async, wait=7"},
			"return=representation": {-1, ""},
			"":                      {-1, ""},
		} {
			w := setup(t, served, desk())
			a := w.do(t, post(s.path, s.body, "Prefer", prefer))
			c := w.responder.last(t)
			require.Equal(t, []any{"default", s.kind}, []any{c.ref.Tenant, c.ref.Kind}, name)
			require.Equal(t, tc.wait, c.wait, "%s: %s", name, prefer)
			require.Equal(t, tc.wait != 0, c.held, "%s: %s: the end cannot be missed", name, prefer)
			require.Equal(t, tc.applied, a.Header().Get("Preference-Applied"), "%s: %s", name, prefer)
			require.Equal(t, http.StatusAccepted, a.Code)
			require.Equal(t, "/v1/actions/"+c.ref.ID, a.Header().Get("Location"))
			require.Equal(t, c.ref.ID, a.Header().Get("Weir-Action-Id"), name)
			require.Equal(t, map[schemas.Kind]int{s.kind: 1}, w.metrics.accepted, name)
			require.Equal(t, schemas.DurabilityDisk, c.receipt.Durability, name)
		}
	}
}

func TestTheLogIsAwayOrFull(t *testing.T) {
	t.Parallel()
	all := surfaces()
	all["a stream of a run"] = surface{path: schemas.RouteRunStream, body: okRun}
	for name, s := range all {
		for fails, tc := range map[string]struct {
			before, barrier error
			code            schemas.Code
			named           bool
			after           string
		}{
			"full":       {fault.ErrFull, nil, schemas.LogFull, false, "60"},
			"away":       {fault.ErrUnavailable, nil, schemas.Unavailable, true, "1"},
			"no barrier": {nil, errors.New("private"), schemas.Unavailable, true, "1"},
		} {
			t.Run(name+" "+fails, func(t *testing.T) { // each waits for the log a while
				t.Parallel()
				w := setup(t, served, desk())
				w.plant(tc.before, tc.barrier)
				a := w.do(t, post(s.path, s.body)).refused(t, http.StatusServiceUnavailable, tc.code)
				require.Equal(t, tc.after, a.Header().Get("Retry-After"))
				require.Equal(t, tc.named, a.Header().Get("Weir-Action-Id") != "")
				require.Equal(t, tc.named, a.Header().Get("Location") != "")
				require.NotContains(t, a.Body.String(), "private")
				require.Empty(t, w.responder.calls)
				require.Empty(t, w.metrics.accepted)
			})
		}
	}
}

func TestDeniedIsStoredAndAnsweredAtOnce(t *testing.T) {
	t.Parallel()
	for prefer, wait := range map[string]time.Duration{
		"": -1, "respond-async": 10 * time.Second, "wait=1": 10 * time.Second, "respond-async, wait=60": time.Minute,
	} {
		w := setup(t)
		a := w.do(t, post("/v1/execute", denied, "Prefer", prefer))
		require.Equal(t, wait, w.responder.last(t).wait, prefer)
		require.Empty(t, a.Header().Get("Preference-Applied"))
		require.EqualValues(t, 1, w.records(t), "a denial leaves evidence")
	}
	w := setup(t)
	w.do(t, post("/v1/execute", `{"method":"POST","url":"http://evil.example/x","headers":{"X-A":"secret-header"},"body":"secret-body"}`))
	kept := string(w.action(t, "default", w.responder.last(t).ref.ID).Payload)
	require.Contains(t, kept, "evil.example")
	require.NotContains(t, kept, "secret", "what is denied is not kept")
}

func TestIdempotencyKey(t *testing.T) {
	t.Parallel()
	w := setup(t)
	first := w.do(t, post("/v1/execute", okPost, "Idempotency-Key", `"k1"`))
	id := first.Header().Get("Weir-Action-Id")
	require.Empty(t, first.Header().Get("Idempotency-Replayed"))

	flying := w.do(t, post("/v1/execute", okPost, "Idempotency-Key", `k1`)).refused(t, http.StatusConflict, schemas.InFlight)
	require.Equal(t, true, flying.field("error", "retryable"))
	require.Equal(t, "1", flying.Header().Get("Retry-After"))
	require.Equal(t, id, flying.Header().Get("Weir-Action-Id"))
	require.Equal(t, "/v1/actions/"+id, flying.Header().Get("Location"))
	w.do(t, post("/v1/execute", okGet, "Idempotency-Key", `"k1"`)).refused(t, http.StatusUnprocessableEntity, schemas.IdempotencyMismatch)

	w.settle(t, id, schemas.OutcomeSucceeded)
	replay := w.do(t, post("/v1/execute", strings.Replace(okPost, `"type"`, `"request_id":"r2","type"`, 1), "Idempotency-Key", `"k1"`))
	require.Equal(t, http.StatusOK, replay.Code)
	require.Equal(t, "true", replay.Header().Get("Idempotency-Replayed"))
	require.Equal(t, id, replay.Header().Get("Weir-Action-Id"))

	plan := w.do(t, post("/v1/plans", okPlan, "Idempotency-Key", `"k1"`))
	require.NotEqual(t, id, plan.Header().Get("Weir-Action-Id"), "a key belongs to its route")
	for path, body := range map[string]string{"/v1/execute": okPost, "/v1/plans": okPlan} {
		w.do(t, post(path, body, "Idempotency-Key", `"café"`)).refused(t, http.StatusBadRequest, schemas.InvalidRequest)
	}
}
