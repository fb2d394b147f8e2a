package tasks_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"

	"weir/internal/fault"
	"weir/internal/ledger"
	"weir/internal/policy"
	"weir/internal/task"
	"weir/internal/telemetry"
	"weir/internal/weirtest/memlog"
	"weir/internal/weirtest/rulebook"
	"weir/processors"
	"weir/processors/admit"
	"weir/processors/call"
	"weir/processors/guard"
	"weir/processors/park"
	"weir/processors/settle"
	"weir/processors/tasks"
	"weir/schemas"
)

var (
	layout = schemas.Layout{Partitions: 1, Lanes: 8}
	ref    = schemas.Ref{Tenant: "acme", Kind: schemas.KindTask, ID: "t-1"}
)

const (
	lease    = time.Minute
	deadline = time.Hour
)

var errDead = errors.New("the worker is dead")

// delivered is a message that a worker has to take, not before a time.
type delivered struct {
	rec   schemas.Record
	first bool
	after time.Time
}

// house is a log with all that stands around it, and the door's side of a task. It is
// driven by one goroutine, in a bubble: advance has the workers do what falls due.
type house struct {
	t      *testing.T
	log    *memlog.Log
	door   *ledger.Ledger
	queue  []delivered
	worker *processors.Pipeline
	name   int // of the worker

	working bool // the worker is at it, and what is written is its own
	steps   int  // what it does before it dies; negative: it does not
	kept    bool // the step it dies at is done
	dead    bool
	crashes int

	branches map[string]string // by name: the task that they were made for
	opens    int
	opening  *ledger.State // the one that a branch is made for
	refuse   func() error  // what the branches answer; nil: they are made
	told     []schemas.TaskUpdate
	leases   map[string]schemas.Record
	jump     time.Duration // how far the worker's clock is off
	each     func()        // runs before each append of the worker's, evidence among them
	before   func()        // runs once, before the worker's next append

	hashes int
	away   error // what the leases answer
}

func newHouse(t *testing.T) *house {
	t.Helper()
	h := &house{t: t, steps: -1, branches: map[string]string{}, leases: map[string]schemas.Record{}}
	h.log = memlog.New(layout, time.Now, memlog.Hooks{
		Before: func(schemas.Append) error {
			if f := h.each; h.working && f != nil {
				h.working = false
				f()
				h.working = true
			}
			if f := h.before; h.working && f != nil {
				h.before, h.working = nil, false
				f()
				h.working = true
			}
			return h.stepping(false)
		},
		After: func(schemas.Append, uint64) error { return h.stepping(true) },
		Read: func() error {
			if h.working && h.dead {
				return errDead
			}
			return nil
		},
	})
	h.door = ledger.New(h.log, layout, time.Now)
	for _, tail := range schemas.WorkTails(schemas.KindTask) {
		filter := schemas.WorkFilter(0, schemas.KindTask, tail)
		stop, err := h.log.Live(schemas.LiveRoot+strings.TrimPrefix(filter, schemas.LogRoot), func(r schemas.Record) {
			h.queue = append(h.queue, delivered{rec: r, first: true})
		}, nil)
		require.NoError(t, err)
		t.Cleanup(stop)
	}
	h.hire()
	return h
}

// stepping counts what the worker does, before and after it is done.
func (h *house) stepping(after bool) error {
	switch {
	case !h.working:
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

// barrier is no step: it writes nothing of its own.
func (h *house) barrier(context.Context) error {
	if h.working && h.dead {
		return errDead
	}
	return nil
}

func (h *house) now() time.Time { return time.Now().Add(h.jump) }

// hire puts another worker in the place of the one at hand.
func (h *house) hire() {
	h.t.Helper()
	h.name++
	h.dead = false
	p, err := policy.Compile(policy.Config{})
	require.NoError(h.t, err)
	metrics := telemetry.NewMetrics()
	l := ledger.New(h.log, layout, h.now)
	recorder := settle.NewRecorder(publisher{h.log}, h.log, metrics)
	name := fmt.Sprintf("w%d", h.name)
	caller := call.New(l, guard.New(func() *policy.Policy { return p }, &rulebook.Book{}), nil, call.Config{Worker: name, Barrier: h.barrier})
	performer := tasks.New(l, h, recorder, tasks.Config{
		Leases: shelf{h}, Lease: lease - lease/(schemas.LeaseShare+1), // what is written down is a share of it old
		Announce: h.announce, Barrier: h.barrier, Now: h.now,
	})
	h.worker = processors.NewPipeline(l, h.log, name, processors.Stages{
		Admit:      admit.New(l, admit.Config{Worker: name, Alone: true}),
		Performers: map[schemas.Kind]processors.Performer{schemas.KindTask: performer},
		Caller:     caller, Evidence: recorder, Settle: settle.New(l, h.barrier, metrics),
		Park: park.New(publisher{h.log}, metrics, slog.New(slog.DiscardHandler)), Barrier: h.barrier,
	})
}

// Open makes branches.
func (h *house) Open(_ context.Context, st *ledger.State, _ schemas.TaskOrder, branch string) (string, error) {
	h.opens++
	h.opening = st
	if h.refuse != nil {
		if err := h.refuse(); err != nil {
			return "", err
		}
	}
	if err := h.stepping(false); err != nil {
		return "", err
	}
	if by, ok := h.branches[branch]; ok && by != st.ID {
		return "", fault.New(schemas.Conflict, "the branch exists")
	}
	h.branches[branch] = st.ID
	return "b0", h.stepping(true)
}

func (h *house) announce(subject string, data []byte) error {
	require.Equal(h.t, schemas.StatusSubject(ref), subject)
	if err := h.stepping(false); err != nil {
		return err
	}
	var u schemas.TaskUpdate
	require.NoError(h.t, json.Unmarshal(data, &u))
	h.told = append(h.told, u)
	return h.stepping(true)
}

// shelf is the leases as a worker sees them.
type shelf struct{ h *house }

func (s shelf) Get(_ context.Context, key string) (schemas.Record, error) {
	if s.h.dead {
		return schemas.Record{}, errDead
	}
	if s.h.away != nil {
		return schemas.Record{}, s.h.away
	}
	r, ok := s.h.leases[key]
	if !ok {
		return r, fault.ErrNotFound
	}
	return r, nil
}

// touch is what the desk does when it hears of the holder.
func (h *house) touch(n int) {
	key := task.LeaseKey(schemas.Ref{Tenant: "acme", ID: "t-1"}, n)
	seq := h.leases[key].Seq + 1
	h.leases[key] = schemas.Record{Seq: seq, Time: time.Now().UTC(), Data: fmt.Appendf(nil, `{"lease":%d}`, n)}
}

// accept files a task that ends after a while.
func (h *house) accept() {
	h.t.Helper()
	payload, err := ledger.Encode(schemas.TaskOrder{Repo: "shop", Pool: schemas.PoolDefault, Description: "Fix the <rounding>"})
	require.NoError(h.t, err)
	_, _, err = h.door.Claim(h.t.Context(), schemas.Action{
		ID: ref.ID, Tenant: ref.Tenant, Kind: ref.Kind, Fingerprint: "f", Principal: "tok-1", TokenHash: "00",
		AcceptedAt: time.Now().UTC(), Deadline: time.Now().Add(deadline).UTC(), Payload: payload,
	})
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

// drain handles the messages that are to be taken now.
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
		h.working = true
		err := h.worker.Handle(h.t.Context(), m.rec, m.first)
		h.working = false
		if h.dead {
			h.crashes++
			h.hire()
		}
		if ack, again := fault.Disposition(err); !ack {
			h.queue = append(h.queue, delivered{rec: m.rec, after: time.Now().Add(again)})
		}
	}
}

// load is the task as the log has it.
func (h *house) load() (*ledger.State, *task.State) {
	h.t.Helper()
	st, err := h.door.Load(h.t.Context(), ref)
	require.NoError(h.t, err)
	var o schemas.TaskOrder
	require.NoError(h.t, json.Unmarshal(st.Action.Payload, &o))
	t := task.Begin(st.Action, o)
	for _, ev := range st.Events {
		t.Apply(ev.Event)
	}
	return st, t
}

// signal is what the desk writes if the task can take it; false if it cannot.
func (h *house) signal(decide func(t *task.State) (schemas.TaskEvent, bool)) bool {
	h.t.Helper()
	for {
		st, t := h.load()
		e, ok := decide(t)
		if !ok {
			return false
		}
		err := h.door.Append(h.t.Context(), st, schemas.Event{Type: schemas.EventSignal, Task: &e})
		if errors.Is(err, fault.ErrFenced) {
			continue
		}
		require.NoError(h.t, err)
		return true
	}
}

// claim has an agent of the pool take the task.
func (h *house) claim(holder string) (n int, ok bool) {
	h.t.Helper()
	ok = h.signal(func(t *task.State) (schemas.TaskEvent, bool) {
		n = t.Lease + 1
		h.hashes++
		return schemas.TaskEvent{
			What: schemas.TaskClaimed, Status: schemas.TaskStatusRunning, Lease: n, Holder: holder, TokenHash: fmt.Sprintf("%02x", h.hashes),
		}, t.Leasable()
	})
	return n, ok
}

// own has the holder of the task's own token take it.
func (h *house) own() {
	h.t.Helper()
	require.True(h.t, h.signal(func(t *task.State) (schemas.TaskEvent, bool) {
		return schemas.TaskEvent{What: schemas.TaskClaimed, Status: schemas.TaskStatusRunning}, t.Status == schemas.TaskStatusQueued && t.Lease == 0
	}))
}

// report is the agent's last word, if it still holds the task.
func (h *house) report(n int, r schemas.TaskReport) bool {
	h.t.Helper()
	return h.signal(func(t *task.State) (schemas.TaskEvent, bool) {
		status := schemas.TaskStatusFailed
		if r.Completed {
			status = schemas.TaskStatusCompleted
		}
		st, _ := h.load()
		return schemas.TaskEvent{What: schemas.TaskReported, Status: status, Lease: n, Report: &r}, t.Lives(n, st.Action.Deadline, time.Now())
	})
}

// cancel asks for the task to stop. That alone wakes whoever looks after it.
func (h *house) cancel() {
	h.t.Helper()
	for {
		st, t := h.load()
		require.False(h.t, t.Over())
		err := h.door.Append(h.t.Context(), st, schemas.Event{Type: schemas.EventCancel})
		if errors.Is(err, fault.ErrFenced) {
			continue
		}
		require.NoError(h.t, err)
		return
	}
}

// pushed is what a push writes.
func (h *house) pushed(head string) {
	h.t.Helper()
	st, t := h.load()
	require.NoError(h.t, h.door.Append(h.t.Context(), st, schemas.Event{Type: schemas.EventStatus, Task: &schemas.TaskEvent{
		What: schemas.TaskPushed, Status: t.Status, Lease: t.Lease, Head: head, Push: "p-" + head,
	}}))
}

// audits are the records of the task by id.
func (h *house) audits() (byID map[string]schemas.TaskAudit, order []string) {
	h.t.Helper()
	records, err := h.log.Range(h.t.Context(), schemas.EvidenceStream, schemas.EvidenceFilter(ref.Tenant, "", "", ref.ID, false), 1, 1000)
	require.NoError(h.t, err)
	byID = map[string]schemas.TaskAudit{}
	for _, r := range records {
		var e schemas.Evidence
		require.NoError(h.t, json.Unmarshal(r.Data, &e))
		require.Equal(h.t, []string{schemas.EvidenceTask, "acme", "t-1", "tok-1"}, []string{e.Kind, e.Tenant, e.ActionID, e.Principal})
		require.NotContains(h.t, byID, e.ID, "a record was left twice")
		var a schemas.TaskAudit
		require.NoError(h.t, json.Unmarshal(e.Payload, &a))
		require.Equal(h.t, e.Code, a.Code)
		byID[e.ID], order = a, append(order, e.ID)
	}
	return byID, order
}

// what are the task's events in short.
func (h *house) what() (all []string) {
	h.t.Helper()
	st, _ := h.load()
	for _, ev := range st.Events {
		switch {
		case ev.Task != nil:
			all = append(all, string(ev.Task.What))
		default:
			all = append(all, string(ev.Type))
		}
	}
	return all
}

// check holds the log, the evidence and what was announced against each other, once
// the task has ended.
func (h *house) check(msg string) (schemas.Settled, schemas.TaskResult) {
	h.t.Helper()
	st, t := h.load()
	require.NotNil(h.t, st.Settled, msg)
	ends := 0
	audits, _ := h.audits()
	said := map[int]schemas.TaskUpdate{}
	for _, u := range h.told {
		said[u.N] = u
	}
	want := 0
	for _, ev := range st.Events {
		if ev.Type == schemas.EventSettled {
			ends++
		}
		u, ok := task.Update(ref.ID, ev.Event)
		if !ok {
			continue
		}
		want++
		got, ok := said[ev.N]
		require.True(h.t, ok, "%s: event %d was not announced", msg, ev.N)
		if u.Status == "" {
			u.Status = got.Status
		}
		require.Equal(h.t, u, got, msg)
		id := fmt.Sprintf("t-1.task.%d", ev.N)
		if ev.Type == schemas.EventSettled {
			id = "t-1.task.settled"
		}
		a, ok := audits[id]
		require.True(h.t, ok, "%s: no evidence of event %d", msg, ev.N)
		require.Equal(h.t, []any{u.Status, u.What, u.Head, u.Reason, u.Code, u.Push, u.Inquiry}, []any{a.Status, a.What, a.Head, a.Reason, a.Code, a.Push, a.Inquiry}, msg)
	}
	require.Equal(h.t, 1, ends, "%s: terminal events", msg)
	require.Len(h.t, audits, want, msg)
	var res schemas.TaskResult
	require.NoError(h.t, json.Unmarshal(st.Settled.Result, &res))
	require.Equal(h.t, t.Status, res.Status, msg)
	return *st.Settled, res
}

// publisher stores messages without looking at their ids.
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
