package chat_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"
	"go.uber.org/goleak"

	"weir/internal/completion"
	"weir/internal/fault"
	"weir/internal/ledger"
	"weir/internal/limits/budget"
	"weir/internal/models"
	"weir/internal/policy"
	"weir/internal/weirtest/bucket"
	"weir/internal/weirtest/fixture"
	"weir/internal/weirtest/harness"
	"weir/internal/weirtest/llm"
	"weir/internal/weirtest/rulebook"
	"weir/processors"
	"weir/processors/call"
	"weir/processors/call/model"
	"weir/processors/chat"
	"weir/processors/guard"
	"weir/processors/settle"
	"weir/schemas"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var ref = schemas.Ref{Tenant: "acme", Kind: schemas.KindChat, ID: "c-1"}

const deadline = 15 * time.Minute

// env is a worker of completions between a log and the upstreams of a test.
type env struct {
	*harness.Bench
	*world

	worker   *processors.Pipeline // the one at hand
	draining chan struct{}        // of that
	// hook runs before each append of the worker's; its error is the log's.
	hook func(m schemas.Append) error

	conf    sync.Mutex
	set     *models.Set
	policy  harness.Policy
	reading func() // runs before the models are read
	budgets []schemas.Budget
	shelf   *bucket.Bucket
	metrics *counted
	book    rulebook.Book
	adapter chat.Adapter // default: the house's own upstreams
}

func modelOf(name string, upstreams ...string) schemas.Model {
	m := schemas.Model{Name: name, Price: &schemas.ModelPrice{Input: 1_000_000, Output: 2_000_000, Request: 7}, MaxOutput: 1000}
	for _, u := range upstreams {
		m.Upstreams = append(m.Upstreams, schemas.ModelUpstream{Name: u, URL: "http://" + u + ".example/v1", Model: "real-" + u, Usage: true})
	}
	return m
}

func newEnv(t *testing.T, list ...schemas.Model) *env {
	t.Helper()
	h := &env{world: &world{acts: map[string][]act{}}, metrics: &counted{}}
	h.Bench = harness.New(t, schemas.KindChat, func(m schemas.Append) error {
		if h.hook == nil {
			return nil
		}
		return h.hook(m)
	})
	h.adapter = h.world
	h.shelf = bucket.New()
	h.shelf.Hook(func() (error, bool) { // every Put is a step of a worker's
		if err := h.Step(false); err != nil {
			return err, false
		}
		return h.Step(true), true
	})
	h.configure(list...)
	h.Employ(h.hire)
	return h
}

// configure puts models in force, with their entries.
func (h *env) configure(list ...schemas.Model) {
	h.T.Helper()
	var entries []policy.Entry
	for _, m := range list {
		for _, u := range m.Upstreams {
			entries = append(entries, policy.Entry{Name: schemas.ModelEntry(u.Name), URLPrefix: u.URL, Methods: []string{"POST"}, Agent: true})
		}
	}
	h.policy.Enforce(h.T, entries...)
	h.conf.Lock()
	defer h.conf.Unlock()
	h.set = models.New(list)
}

func (h *env) known() *models.Set {
	h.conf.Lock()
	defer h.conf.Unlock()
	if h.reading != nil {
		h.reading()
	}
	return h.set
}

func (h *env) hire(name string) harness.Handler {
	h.draining = make(chan struct{})
	h.worker = h.pipeline(name, true, chat.Config{Metrics: h.metrics, Draining: h.draining})
	return h.worker
}

// node is one of several workers on the house's log.
func (h *env) node(name string) *processors.Pipeline {
	return h.pipeline(name, false, chat.Config{Metrics: &counted{}})
}

func (h *env) pipeline(name string, alone bool, cfg chat.Config) *processors.Pipeline {
	l := ledger.New(h.Log, harness.Layout(), time.Now)
	caller := call.New(l, guard.New(h.policy.InForce, &h.book), nil, call.Config{Worker: name, Barrier: h.Barrier, Draining: cfg.Draining})
	cfg.Models, cfg.Adapter, cfg.Mac = h.known, h.adapter, settle.NewSeal([]byte("0123456789abcdef")).Mac
	cfg.Budgets = budget.NewLimiter(h.shelf, budget.Config{Budgets: func() []schemas.Budget { return h.budgets }})
	return harness.Worker{
		Name: name, Alone: alone, Log: h.Log, Ledger: l, Barrier: h.Barrier, Caller: caller,
		Kinds: func(r *settle.Recorder) map[schemas.Kind]processors.Kind {
			talk := chat.New(l, caller, r, call.Answers{Blobs: l}, cfg)
			return map[schemas.Kind]processors.Kind{schemas.KindChat: {Executor: talk, Ended: talk.Ended}}
		},
	}.Pipeline()
}

// order is a request for a streamed answer of a model.
func order(name string) schemas.ChatOrder {
	return schemas.ChatOrder{
		Model: name, Stream: true, Prompt: 400, Choices: 1,
		Body: json.RawMessage(`{"model":"` + name + `","messages":[{"role":"user","content":"<hi>"}],"stream":true,"x":1.50}`),
	}
}

// whole is the same for one that is not streamed.
func whole() schemas.ChatOrder {
	o := order("small")
	o.Stream, o.Body = false, json.RawMessage(`{"model":"small","messages":[{"role":"user","content":"<hi>"}]}`)
	return o
}

// accept takes an order in.
func (h *env) accept(o schemas.ChatOrder, change ...func(a *schemas.Action)) {
	h.T.Helper()
	payload, err := ledger.Encode(o)
	require.NoError(h.T, err)
	a := schemas.Action{
		ID: ref.ID, Tenant: ref.Tenant, Kind: ref.Kind, Principal: "tok-1", Sensitive: true,
		AcceptedAt: time.Now().UTC(), Deadline: time.Now().Add(deadline).UTC(), Payload: payload,
	}
	for _, f := range change {
		if f != nil {
			f(&a)
		}
	}
	harness.Claim(h.T, h.Ingress, a, nil)
}

// message is accept, and gives the message that a worker has to take.
func (h *env) message(o schemas.ChatOrder) schemas.Record {
	h.T.Helper()
	h.accept(o)
	return h.Queue[len(h.Queue)-1].Record
}

// cancel asks for the completion to stop, as the door does.
func (h *env) cancel() {
	h.T.Helper()
	h.Cancel(ref)
	h.worker.Stop(ref)
}

// run accepts and performs a completion.
func (h *env) run(o schemas.ChatOrder, change ...func(a *schemas.Action)) end {
	h.T.Helper()
	h.accept(o, change...)
	h.Advance(2 * deadline)
	return h.end("")
}

// end is how a completion ended, by the log.
type end struct {
	schemas.Settled
	result   schemas.ChatResult
	given    string // what readers of the deltas put together
	deltas   int
	attempts []ledger.Attempt
	audits   []schemas.ChatAudit
	left     []schemas.Evidence
	types    []schemas.EventType
}

// end holds the log, the evidence and the budgets of a settled completion against each
// other.
func (h *env) end(msg string) end {
	h.T.Helper()
	var e end
	var order schemas.ChatOrder
	_ = json.Unmarshal(harness.Load(h.T, h.Ingress, ref).Action.Payload, &order) // TestPoison has orders that are none
	protocol := completion.For(order.Dialect)
	all := protocol.Answer(completion.Options{ID: ref.ID})
	ends := 0
	require.NoError(h.T, h.Ingress.Replay(h.T.Context(), ref, func(ev schemas.Event) error {
		e.types = append(e.types, ev.Type)
		switch ev.Type {
		case schemas.EventDelta:
			e.deltas++
			d := fixture.Decode[schemas.ChatDelta](h.T, ev.Data)
			require.NotEmpty(h.T, d.Chunks, msg)
			for _, raw := range d.Chunks {
				c, err := protocol.Read("", raw)
				require.NoError(h.T, err, msg)
				all.Add(c)
			}
		case schemas.EventSettled:
			ends++
			e.Settled = *ev.Settled
		default:
		}
		return nil
	}))
	require.Equal(h.T, 1, ends, "%s: terminal events", msg)
	doc, err := h.Ingress.Blob(h.T.Context(), e.Result, e.ResultBlob)
	require.NoError(h.T, err)
	if len(doc) > 0 {
		require.NoError(h.T, json.Unmarshal(doc, &e.result), msg)
	}
	e.given = said(all.Document())
	e.attempts = harness.Load(h.T, h.Ingress, ref).Attempts
	h.evidence(&e, msg)
	if e.Outcome == schemas.OutcomeSucceeded {
		require.Nil(h.T, e.result.Error, msg)
		require.False(h.T, e.result.Partial, msg)
	} else if e.Code != schemas.Poison {
		require.NotNil(h.T, e.result.Error, msg)
		require.NotEmpty(h.T, e.Message, msg)
		require.Equal(h.T, e.deltas > 0, e.result.Partial, msg)
	}
	if e.deltas > 0 {
		require.Equal(h.T, e.given, said(e.result.Completion), "%s: who read it as it came has the same", msg)
	}
	return e
}

// evidence holds the records against the attempts: one each, and one alone.
func (h *env) evidence(e *end, msg string) {
	h.T.Helper()
	ids := map[string]bool{}
	for _, ev := range harness.Evidence(h.T, h.Log, ref.ID) {
		require.False(h.T, ids[ev.ID], "%s: %s was left twice", msg, ev.ID)
		require.NotContains(h.T, fmt.Sprintf("%+v %s", ev, ev.Payload), "Hel", msg)
		ids[ev.ID] = true
		e.left = append(e.left, ev)
		if ev.Kind == schemas.EvidenceChat {
			e.audits = append(e.audits, fixture.Decode[schemas.ChatAudit](h.T, ev.Payload))
		}
	}
	for _, t := range e.attempts {
		require.True(h.T, ids[settle.AttemptID(ref.ID, t.Attempt)], "%s: no evidence of step %d", msg, t.Step)
	}
}

// account is the one account of a budget that is used.
func (h *env) account(name string) schemas.BudgetView {
	h.T.Helper()
	list, err := h.books(h.budgets...).List(h.T.Context(), ref.Tenant)
	require.NoError(h.T, err)
	for _, v := range list {
		if v.Budget == name {
			return v
		}
	}
	return schemas.BudgetView{}
}

// counted are metrics that can be asked.
type counted struct {
	mu      sync.Mutex
	called  []schemas.Code
	refused []string
}

func (c *counted) ChatCalled(_ schemas.ChatAudit, code schemas.Code) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.called = append(c.called, code)
}

func (c *counted) ChatRefused(source string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refused = append(c.refused, source)
}

// act is what an upstream does with one call.
type act struct {
	open   *fault.Call   // nothing is sent
	texts  []string      // of the chunks
	every  time.Duration // how long each chunk takes
	wait   time.Duration // before the first
	hang   bool          // after the chunks nothing comes
	fails  *fault.Call   // how it breaks off
	status int           // default 200
	fault  *completion.Fault
	after  time.Duration // Retry-After
	usage  *schemas.ChatUsage
	silent bool     // there is no usage
	then   func()   // runs behind the chunks
	first  func()   // runs before the first
	raw    []string // further chunks
	counts bool     // it streams what is not asked for as a stream
}

// asked is a call as an upstream saw it.
type asked struct {
	upstream string
	url      string
	body     string
	accept   string
	headers  []schemas.Header
	talk     model.CallOptions
}

// world are the upstreams that a test's models have. It is an adapter that opens no
// socket.
type world struct {
	mu    sync.Mutex
	acts  map[string][]act // by upstream; the last one stays
	calls []asked

	chunks int
}

func (w *world) For(t model.CallOptions) call.Adapter { return voice{w, t} }

func (w *world) take(upstream string) act {
	w.mu.Lock()
	defer w.mu.Unlock()
	list := w.acts[upstream]
	if len(list) == 0 {
		return act{texts: []string{"Hel", "lo"}}
	}
	if len(list) > 1 {
		w.acts[upstream] = list[1:]
	}
	return list[0]
}

// asked are the upstreams that were sent something, in order.
func (w *world) asked() (list []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.calls {
		list = append(list, c.upstream)
	}
	return list
}

func (w *world) count() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.chunks++
}

// taken is how many chunks were given, the one that waits to be taken among them.
func (w *world) taken() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.chunks
}

type voice struct {
	*world
	talk model.CallOptions
}

func (v voice) Open(_ context.Context, p guard.Pass) (call.Exchange, error) {
	upstream := strings.TrimPrefix(p.Decision().Entry, schemas.ModelEntryPrefix)
	a := v.take(upstream)
	if a.open != nil {
		return nil, a.open
	}
	protocol := completion.For(v.talk.Dialect)
	whole := protocol.Answer(v.talk.Options)
	return &exchange{voice: v, act: a, upstream: upstream, pass: p, protocol: protocol, whole: whole}, nil
}

type exchange struct {
	voice
	act      act
	upstream string
	pass     guard.Pass
	given    bool
	protocol completion.Protocol
	whole    completion.Answer
}

func (e *exchange) Close() {}

// chunk is an event of an answer's stream.
func chunk(said string) string { return llm.Say(schemas.DialectChat, said).Pieces[0] }

func (e *exchange) Do(ctx context.Context, _ guard.Pass, begun func()) (*call.Reply, error) {
	if begun != nil {
		begun()
	}
	c := e.pass.Call()
	seen := asked{upstream: e.upstream, url: c.URL, body: string(c.Body), headers: c.Headers, talk: e.talk}
	for _, h := range c.Headers {
		if h.Name == "accept" {
			seen.accept = h.Value
		}
	}
	e.mu.Lock()
	e.calls = append(e.calls, seen)
	e.mu.Unlock()
	reply, err := e.answer(ctx)
	if e.given {
		if lost := e.talk.Done(ctx); lost != nil {
			reply, err = nil, lost
		}
	}
	if used := e.whole.Spent(); err != nil && used != nil {
		e.talk.Broke(used)
	}
	return reply, err
}

func (e *exchange) answer(ctx context.Context) (*call.Reply, error) {
	a := e.act
	if err := rest(ctx, a.wait); err != nil {
		return nil, err
	}
	if a.first != nil {
		a.first()
	}
	whole, say := e.whole, llm.Say(e.talk.Dialect, a.texts...)
	give := func(raw string) error {
		c, err := e.protocol.Read("", []byte(raw))
		if err != nil {
			return err
		}
		whole.Add(c)
		if !e.talk.Stream {
			if !a.counts {
				return nil
			}
			return e.talk.Chunk(ctx, model.Piece{Output: whole.Output()})
		}
		shown, keep := whole.Give(c)
		if !keep {
			return e.talk.Chunk(ctx, model.Piece{Output: whole.Output()})
		}
		e.given = true
		e.count()
		return e.talk.Chunk(ctx, model.Piece{Raw: shown, Output: whole.Output()})
	}
	begin := say.Begin
	if len(a.texts) == 0 {
		begin = nil
	}
	for at, raw := range slices.Concat(begin, say.Pieces, a.raw) {
		if said := at - len(begin); said >= 0 && said < len(say.Pieces) {
			if err := rest(ctx, a.every); err != nil {
				return nil, err
			}
		}
		if err := give(raw); err != nil {
			return nil, err
		}
	}
	if a.then != nil {
		a.then()
	}
	if a.hang {
		return nil, rest(ctx, 1000*time.Hour)
	}
	if a.fails != nil {
		return nil, a.fails
	}
	t := model.Response{Fault: a.fault, First: 3 * time.Millisecond}
	status := a.status
	if status == 0 {
		status = 200
	}
	if status == 200 && a.fault == nil {
		for _, raw := range slices.Concat(say.Begin[len(begin):], say.End) {
			if err := give(raw); err != nil {
				return nil, err
			}
		}
		t.Completion, t.Reasons, t.ProviderID = whole.Document(), whole.Reasons(), whole.ProviderID()
	}
	t.Output = whole.Output()
	if t.Usage = cmp.Or(a.usage, whole.Usage()); t.Usage == nil && !a.silent && t.Completion != nil {
		t.Usage = &schemas.ChatUsage{Prompt: 10, Completion: 5, Total: 15}
	}
	body, err := ledger.Encode(t)
	if err != nil {
		return nil, err
	}
	return &call.Reply{Answer: schemas.Answer{Status: status, Body: body, JSON: true, Hash: fmt.Sprintf("%064d", len(body)), RetryAfter: a.after}}, nil
}

// rest waits as the real client's reads do.
func rest(ctx context.Context, d time.Duration) error {
	if d > 0 {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
	}
	switch ctx.Err() {
	case nil:
		return nil
	case context.DeadlineExceeded:
		return &fault.Call{Code: schemas.UpstreamTimeout, Sent: true, Status: 200}
	default:
		return &fault.Call{Code: schemas.Canceled, Sent: true, Status: 200}
	}
}

// said is the text of an answer of any dialect.
func said(doc json.RawMessage) string {
	for _, path := range []string{"choices.0.message.content", "output.0.content.0.text", "content.0.text"} {
		if text := gjson.GetBytes(doc, path); text.Exists() {
			return text.String()
		}
	}
	return ""
}

// in is an order in a dialect.
func in(d schemas.Dialect, o schemas.ChatOrder) schemas.ChatOrder {
	if d == schemas.DialectChat {
		return o
	}
	o.Dialect = d
	if d.Family() == schemas.DialectMessages {
		o.Headers = []schemas.Header{{Name: "anthropic-version", Value: "2023-06-01"}}
	}
	o.Body = json.RawMessage(strings.Replace(string(o.Body), `"messages"`, `"input"`, 1))
	return o
}
