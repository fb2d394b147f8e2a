package chat_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"weir/internal/budget"
	"weir/internal/completion"
	"weir/internal/fault"
	"weir/internal/ledger"
	"weir/internal/models"
	"weir/internal/policy"
	"weir/internal/telemetry"
	"weir/internal/weirtest/memlog"
	"weir/internal/weirtest/rulebook"
	"weir/processors"
	"weir/processors/admit"
	"weir/processors/call"
	"weir/processors/chat"
	"weir/processors/guard"
	"weir/processors/park"
	"weir/processors/settle"
	"weir/schemas"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	layout = schemas.Layout{Partitions: 1, Lanes: 8}
	ref    = schemas.Ref{Tenant: "acme", Kind: schemas.KindChat, ID: "c-1"}
)

const deadline = 15 * time.Minute

var errDead = errors.New("the worker is dead")

type delivered struct {
	rec   schemas.Record
	first bool
	after time.Time
}

// house is a log and upstreams with a worker between them, in a bubble: advance has the
// worker do what falls due. A worker that dies is replaced by another.
type house struct {
	*world

	t        *testing.T
	log      *memlog.Log
	door     *ledger.Ledger
	queue    []delivered
	worker   *processors.Pipeline
	name     int
	draining chan struct{}
	ctx      context.Context // the life of the worker at hand
	stop     context.CancelFunc

	mu      sync.Mutex
	working bool
	outside int // what is written is not the worker's, though it is at it
	steps   int
	kept    bool
	dead    bool
	crashes int
	// hook runs before each append of the worker's; its error is the log's.
	hook func(m schemas.Append) error

	conf    sync.Mutex
	models  []schemas.Model
	set     *models.Set
	policy  *policy.Policy
	entries func(e *policy.Entry)
	reading func() // runs before the models are read
	budgets []schemas.Budget
	shelf   *bucket
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

func newHouse(t *testing.T, list ...schemas.Model) *house {
	t.Helper()
	h := &house{t: t, steps: -1, world: &world{acts: map[string][]act{}}, metrics: &counted{}}
	h.adapter = h.world
	h.shelf = &bucket{kept: map[string]schemas.Record{}, step: h.stepping}
	h.log = memlog.New(layout, time.Now, memlog.Hooks{
		Before: func(m schemas.Append) error {
			if f := h.hook; f != nil && h.busy() {
				if err := f(m); err != nil {
					return err
				}
			}
			return h.stepping(false)
		},
		After: func(schemas.Append, uint64) error { return h.stepping(true) },
		Read: func() error {
			h.mu.Lock()
			defer h.mu.Unlock()
			if h.working && h.dead && h.outside == 0 {
				return errDead
			}
			return nil
		},
	})
	h.door = ledger.New(h.log, layout, time.Now)
	for _, tail := range schemas.WorkTails(schemas.KindChat) {
		filter := schemas.WorkFilter(0, schemas.KindChat, tail)
		stop, err := h.log.Live(schemas.LiveRoot+strings.TrimPrefix(filter, schemas.LogRoot), func(r schemas.Record) {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.queue = append(h.queue, delivered{rec: r, first: true})
		}, nil)
		require.NoError(t, err)
		t.Cleanup(stop)
	}
	h.configure(list...)
	h.hire()
	return h
}

func (h *house) busy() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.working && h.outside == 0
}

// stepping counts what the worker does, before and after it is done.
func (h *house) stepping(after bool) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case !h.working || h.outside > 0:
		return nil
	case h.dead:
		return errDead
	case h.steps < 0:
		return nil
	case h.steps == 0 && after == h.kept:
		h.dead, h.steps = true, -1
		return errDead
	case after && h.steps > 0:
		h.steps--
	}
	return nil
}

func (h *house) barrier(context.Context) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.working && h.dead {
		return errDead
	}
	return nil
}

// configure puts models in force, with their entries.
func (h *house) configure(list ...schemas.Model) {
	h.t.Helper()
	set, err := models.Compile(list)
	require.NoError(h.t, err)
	var entries []policy.Entry
	for _, m := range list {
		for _, u := range m.Upstreams {
			e := policy.Entry{Name: schemas.ModelEntry(u.Name), URLPrefix: u.URL + schemas.RouteChat, Methods: []string{"POST"}, Agent: true}
			if h.entries != nil {
				h.entries(&e)
			}
			entries = append(entries, e)
		}
	}
	p, err := policy.Compile(policy.Config{Entries: entries})
	require.NoError(h.t, err)
	h.conf.Lock()
	defer h.conf.Unlock()
	h.models, h.set, h.policy = list, set, p
}

func (h *house) inForce() *policy.Policy {
	h.conf.Lock()
	defer h.conf.Unlock()
	return h.policy
}

func (h *house) known() *models.Set {
	h.conf.Lock()
	defer h.conf.Unlock()
	if h.reading != nil {
		h.reading()
	}
	return h.set
}

// hire puts another worker in the place of the one at hand.
func (h *house) hire() {
	h.t.Helper()
	h.name++
	h.mu.Lock()
	h.dead = false
	h.mu.Unlock()
	h.draining = make(chan struct{})
	h.ctx, h.stop = context.WithCancel(h.t.Context())
	metrics := telemetry.NewMetrics()
	l := ledger.New(h.log, layout, time.Now)
	recorder := settle.NewRecorder(publisher{h.log}, h.log, metrics)
	name := fmt.Sprintf("w%d", h.name)
	caller := call.New(l, guard.New(h.inForce, &h.book), nil, call.Config{Worker: name, Barrier: h.barrier, Draining: h.draining})
	book := budget.NewBook(h.shelf, budget.Config{Budgets: func() []schemas.Budget { return h.budgets }})
	performer := chat.New(l, caller, recorder, call.Answers{Blobs: l}, chat.Config{
		Models: h.known, Adapter: h.adapter, Budgets: book, Metrics: h.metrics, Draining: h.draining,
		Mac: func(tenant, content string) string {
			return settle.NewSeal([]byte("0123456789abcdef")).Mac(tenant, content)
		},
	})
	h.worker = processors.NewPipeline(l, h.log, name, processors.Stages{
		Admit:      admit.New(l, admit.Config{Worker: name, Alone: true}),
		Performers: map[schemas.Kind]processors.Performer{schemas.KindChat: performer},
		Caller:     caller, Evidence: recorder, Settle: settle.New(l, h.barrier, metrics),
		Park: park.New(publisher{h.log}, metrics, slog.New(slog.DiscardHandler)), Barrier: h.barrier,
	})
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
func (h *house) accept(o schemas.ChatOrder, change ...func(a *schemas.Action)) {
	h.t.Helper()
	payload, err := ledger.Encode(o)
	require.NoError(h.t, err)
	a := schemas.Action{
		ID: ref.ID, Tenant: ref.Tenant, Kind: ref.Kind, Fingerprint: "f", Principal: "tok-1", Sensitive: true,
		AcceptedAt: time.Now().UTC(), Deadline: time.Now().Add(deadline).UTC(), Payload: payload,
	}
	for _, f := range change {
		f(&a)
	}
	_, _, err = h.door.Claim(h.t.Context(), a)
	require.NoError(h.t, err)
}

// advance has time go by, and the workers do what is to be done meanwhile.
func (h *house) advance(d time.Duration) {
	h.t.Helper()
	until := time.Now().Add(d)
	for range 10_000 {
		h.drain()
		next, ok := h.log.NextWake()
		for _, m := range h.queue {
			if !ok || m.after.Before(next) {
				next, ok = m.after, true
			}
		}
		if !ok || next.After(until) {
			time.Sleep(time.Until(until))
			return
		}
		time.Sleep(time.Until(next))
		_, err := h.log.Due(h.t.Context(), time.Now())
		require.NoError(h.t, err)
	}
	h.t.Fatal("the workers do not come to rest")
}

func (h *house) drain() {
	h.t.Helper()
	for i := 0; i < len(h.queue); {
		m := h.queue[i]
		if m.after.After(time.Now()) {
			i++
			continue
		}
		h.queue = append(h.queue[:i:i], h.queue[i+1:]...)
		i = 0
		h.toWork(true)
		err := h.worker.Handle(h.ctx, m.rec, m.first)
		h.toWork(false)
		if h.dead {
			h.crashes++
			h.hire()
		} else if h.ctx.Err() != nil {
			h.hire()
		}
		if ack, again := fault.Disposition(err); !ack {
			h.queue = append(h.queue, delivered{rec: m.rec, after: time.Now().Add(again)})
		}
	}
}

func (h *house) toWork(working bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.working = working
}

func (h *house) leave(n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.outside += n
}

// ask asks for the completion to stop by the log alone.
func (h *house) ask() {
	h.t.Helper()
	h.leave(1)
	defer h.leave(-1)
	for {
		st, err := h.door.Load(h.t.Context(), ref)
		require.NoError(h.t, err)
		err = h.door.Append(h.t.Context(), st, schemas.Event{Type: schemas.EventCancel})
		if errors.Is(err, fault.ErrFenced) {
			continue
		}
		require.NoError(h.t, err)
		return
	}
}

// cancel asks for the completion to stop, as the door does.
func (h *house) cancel() {
	h.t.Helper()
	h.ask()
	h.worker.Stop(ref)
}

// run accepts and performs a completion.
func (h *house) run(o schemas.ChatOrder, change ...func(a *schemas.Action)) end {
	h.t.Helper()
	h.accept(o, change...)
	h.advance(2 * deadline)
	return h.end("")
}

// end is how a completion ended, by the log.
type end struct {
	schemas.Settled
	result   schemas.ChatResult
	given    string // what readers of the deltas put together
	deltas   int
	attempts []ledger.Try
	audits   []schemas.ChatAudit
	left     []schemas.Evidence
	types    []schemas.EventType
}

// end holds the log, the evidence and the budgets of a settled completion against each
// other.
func (h *house) end(msg string) end {
	h.t.Helper()
	var e end
	var all completion.Assembler
	ends := 0
	require.NoError(h.t, h.door.Replay(h.t.Context(), ref, func(ev schemas.Event) error {
		e.types = append(e.types, ev.Type)
		switch ev.Type {
		case schemas.EventDelta:
			e.deltas++
			var d schemas.ChatDelta
			require.NoError(h.t, json.Unmarshal(ev.Data, &d), msg)
			require.NotEmpty(h.t, d.Chunks, msg)
			for _, raw := range d.Chunks {
				c, err := completion.ReadChunk(raw)
				require.NoError(h.t, err, msg)
				all.Add(c)
			}
		case schemas.EventSettled:
			ends++
			e.Settled = *ev.Settled
		default:
		}
		return nil
	}))
	require.Equal(h.t, 1, ends, "%s: terminal events", msg)
	doc, err := h.door.Blob(h.t.Context(), e.Result, e.ResultBlob)
	require.NoError(h.t, err)
	if len(doc) > 0 {
		require.NoError(h.t, json.Unmarshal(doc, &e.result), msg)
	}
	e.given = said(all.Document())
	st, err := h.door.Load(h.t.Context(), ref)
	require.NoError(h.t, err)
	e.attempts = st.Attempts
	h.evidence(&e, msg)
	if e.Outcome == schemas.OutcomeSucceeded {
		require.Nil(h.t, e.result.Error, msg)
		require.False(h.t, e.result.Partial, msg)
	} else if e.Code != schemas.Poison {
		require.NotNil(h.t, e.result.Error, msg)
		require.NotEmpty(h.t, e.Message, msg)
		require.Equal(h.t, e.deltas > 0, e.result.Partial, msg)
	}
	if e.deltas > 0 {
		require.Equal(h.t, e.given, said(e.result.Completion), "%s: who read it as it came has the same", msg)
	}
	return e
}

// evidence holds the records against the attempts: one each, and one alone.
func (h *house) evidence(e *end, msg string) {
	h.t.Helper()
	records, err := h.log.Range(h.t.Context(), schemas.EvidenceStream, schemas.EvidenceFilter(ref.Tenant, "", "", ref.ID, false), 1, 1000)
	require.NoError(h.t, err)
	ids := map[string]bool{}
	for _, r := range records {
		var ev schemas.Evidence
		require.NoError(h.t, json.Unmarshal(r.Data, &ev))
		require.False(h.t, ids[ev.ID], "%s: %s was left twice", msg, ev.ID)
		require.NotContains(h.t, string(r.Data), "Hel", msg)
		ids[ev.ID] = true
		e.left = append(e.left, ev)
		if ev.Kind == schemas.EvidenceChat {
			var a schemas.ChatAudit
			require.NoError(h.t, json.Unmarshal(ev.Payload, &a), "%s: %s", msg, ev.Payload)
			e.audits = append(e.audits, a)
		}
	}
	for _, t := range e.attempts {
		require.True(h.t, ids[settle.AttemptID(ref.ID, t.Attempt)], "%s: no evidence of step %d", msg, t.Step)
	}
}

// account is the one account of a budget that is used.
func (h *house) account(name string) schemas.BudgetView {
	h.t.Helper()
	book := budget.NewBook(h.shelf, budget.Config{Budgets: func() []schemas.Budget { return h.budgets }})
	list, err := book.List(h.t.Context(), ref.Tenant)
	require.NoError(h.t, err)
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

type publisher struct{ log *memlog.Log }

func (p publisher) Publish(topic string, messages ...*message.Message) error {
	for _, m := range messages {
		if _, err := p.log.Append(m.Context(), schemas.Append{Subject: topic, Data: m.Payload}); err != nil {
			return err
		}
	}
	return nil
}

func (publisher) Close() error { return nil }
