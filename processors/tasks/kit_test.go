package tasks_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"weir/internal/fault"
	"weir/internal/ledger"
	"weir/internal/task"
	"weir/internal/weirtest/bucket"
	"weir/internal/weirtest/fixture"
	"weir/internal/weirtest/harness"
	"weir/processors"
	"weir/processors/call"
	"weir/processors/guard"
	"weir/processors/settle"
	"weir/processors/tasks"
	"weir/schemas"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var ref = schemas.Ref{Tenant: "acme", Kind: schemas.KindTask, ID: "t-1"}

const (
	lease    = time.Minute
	deadline = time.Hour
)

// env is a worker of tasks with all that stands around it, and the door's side of one task.
type env struct {
	*harness.Bench

	branches map[string]string // by name: the task that they were made for
	opens    int
	opening  *ledger.State // the one that a branch is made for
	refuse   func() error  // what the branches answer; nil: they are made
	told     []schemas.TaskUpdate
	leases   *bucket.Bucket
	jump     time.Duration // how far the worker's clock is off
	each     func()        // runs before each append of the worker's, evidence among them
	before   func()        // runs once, before the worker's next append
	hashes   int
}

func newEnv(t *testing.T) *env {
	t.Helper()
	h := &env{branches: map[string]string{}, leases: bucket.New()}
	h.Bench = harness.New(t, schemas.KindTask, func(schemas.Append) error {
		if h.each != nil {
			h.Apart(h.each)
		}
		if f := h.before; f != nil {
			h.before = nil
			h.Apart(f)
		}
		return nil
	})
	h.leases.Reads = h.Alive
	h.Employ(h.hire)
	return h
}

// filed is a house whose task was just accepted.
func filed(t *testing.T) *env {
	t.Helper()
	h := newEnv(t)
	h.accept()
	return h
}

// queued is one whose task has its branch, and waits for an agent.
func queued(t *testing.T) *env {
	t.Helper()
	h := filed(t)
	h.Advance(0)
	return h
}

func (h *env) now() time.Time { return time.Now().Add(h.jump) }

func (h *env) hire(name string) harness.Handler {
	var none harness.Policy
	none.Enforce(h.T)
	l := ledger.New(h.Log, harness.Layout(), h.now)
	return harness.Worker{
		Name: name, Alone: true, Log: h.Log, Ledger: l, Barrier: h.Barrier,
		Caller: call.New(l, guard.New(none.InForce, nil), nil, call.Config{Worker: name, Barrier: h.Barrier}),
		Kinds: func(r *settle.Recorder) map[schemas.Kind]processors.Kind {
			work := tasks.New(l, h, r, tasks.Config{
				Leases: h.leases, Lease: lease - lease/(schemas.LeaseShare+1), // what is written down is a share of it old
				Announce: h.announce, Barrier: h.Barrier, Now: h.now,
			})
			return map[schemas.Kind]processors.Kind{schemas.KindTask: {Executor: work, WritesStarted: processors.Always, Ended: work.Ended}}
		},
	}.Pipeline()
}

// Open makes branches.
func (h *env) Open(_ context.Context, st *ledger.State, _ schemas.TaskOrder, branch string) (string, error) {
	h.opens++
	h.opening = st
	if h.refuse != nil {
		if err := h.refuse(); err != nil {
			return "", err
		}
	}
	if err := h.Step(false); err != nil {
		return "", err
	}
	if by, ok := h.branches[branch]; ok && by != st.ID {
		return "", fault.New(schemas.Conflict, "the branch exists")
	}
	h.branches[branch] = st.ID
	return "b0", h.Step(true)
}

func (h *env) announce(subject string, data []byte) error {
	require.Equal(h.T, schemas.StatusSubject(ref), subject)
	if err := h.Step(false); err != nil {
		return err
	}
	h.told = append(h.told, fixture.Decode[schemas.TaskUpdate](h.T, data))
	return h.Step(true)
}

// touch is what the desk does when it hears of the holder.
func (h *env) touch(n int) {
	h.leases.Overwrite(task.LeaseKey(ref, n), fmt.Sprintf(`{"lease":%d}`, n))
}

// accept files a task that ends after a while.
func (h *env) accept() {
	h.T.Helper()
	harness.Claim(h.T, h.Ingress, schemas.Action{
		ID: ref.ID, Tenant: ref.Tenant, Kind: ref.Kind, Principal: "tok-1", TokenHash: "00", Deadline: time.Now().Add(deadline),
	}, schemas.TaskOrder{Repo: "shop", Pool: schemas.PoolDefault, Description: "Fix the <rounding>"})
}

// load is the task as the log has it.
func (h *env) load() (*ledger.State, *task.State) {
	h.T.Helper()
	st := harness.Load(h.T, h.Ingress, ref)
	return st, h.fold(st)
}

func (h *env) fold(st *ledger.State) *task.State {
	h.T.Helper()
	t := task.Begin(st.Action, fixture.Decode[schemas.TaskOrder](h.T, st.Action.Payload))
	for _, ev := range st.Events {
		t.Apply(ev)
	}
	return t
}

// signal is what the desk writes if the task can take it; false if it cannot.
func (h *env) signal(decide func(t *task.State) (schemas.TaskEvent, bool)) bool {
	h.T.Helper()
	return h.Write(ref, func(st *ledger.State) (schemas.Event, bool) {
		e, ok := decide(h.fold(st))
		return schemas.Event{Type: schemas.EventSignal, Task: &e}, ok
	})
}

// claim has an agent of the pool take the task.
func (h *env) claim(holder string) (n int, ok bool) {
	h.T.Helper()
	ok = h.signal(func(t *task.State) (schemas.TaskEvent, bool) {
		n = t.Lease + 1
		h.hashes++
		return schemas.TaskEvent{
			What: schemas.TaskClaimed, Status: schemas.TaskStatusRunning, Lease: n, Holder: holder, TokenHash: fmt.Sprintf("%02x", h.hashes),
		}, t.Leasable()
	})
	return n, ok
}

// leased checks whether an agent holds the task.
func (h *env) leased(want bool, msg ...any) {
	h.T.Helper()
	_, s := h.load()
	require.Equal(h.T, want, s.Leased, msg...)
}

// own has the holder of the task's own token take it.
func (h *env) own() {
	h.T.Helper()
	require.True(h.T, h.signal(func(t *task.State) (schemas.TaskEvent, bool) {
		return schemas.TaskEvent{What: schemas.TaskClaimed, Status: schemas.TaskStatusRunning}, t.Status == schemas.TaskStatusQueued && t.Lease == 0
	}))
}

// report is the agent's last word, if it still holds the task.
func (h *env) report(n int, r schemas.TaskReport) bool {
	h.T.Helper()
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
func (h *env) cancel() {
	h.T.Helper()
	_, t := h.load()
	require.False(h.T, t.Over())
	h.Cancel(ref)
}

// pushed is what a push writes.
func (h *env) pushed(head string) {
	h.T.Helper()
	st, t := h.load()
	harness.Append(h.T, h.Ingress, st, schemas.Event{Type: schemas.EventStatus, Task: &schemas.TaskEvent{
		What: schemas.TaskPushed, Status: t.Status, Lease: t.Lease, Head: head, Push: "p-" + head,
	}})
}

// audits are the records of the task by id.
func (h *env) audits() map[string]schemas.TaskAudit {
	h.T.Helper()
	byID := map[string]schemas.TaskAudit{}
	for _, e := range harness.Evidence(h.T, h.Log, ref.ID) {
		require.Equal(h.T, []string{schemas.EvidenceTask, "acme", "t-1", "tok-1"}, []string{e.Kind, e.Tenant, e.ActionID, e.Principal})
		require.NotContains(h.T, byID, e.ID, "a record was left twice")
		a := fixture.Decode[schemas.TaskAudit](h.T, e.Payload)
		require.Equal(h.T, e.Code, a.Code)
		byID[e.ID] = a
	}
	return byID
}

// what are the task's events in short.
func (h *env) what() (all []string) {
	h.T.Helper()
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
func (h *env) check(msg string) (schemas.Settled, schemas.TaskResult) {
	h.T.Helper()
	st, t := h.load()
	require.NotNil(h.T, st.Settled, msg)
	ends := 0
	audits := h.audits()
	said := map[int]schemas.TaskUpdate{}
	for _, u := range h.told {
		require.NotContains(h.T, fmt.Sprint(u), "done", "updates hold no content")
		said[u.N] = u
	}
	want := 0
	for _, ev := range st.Events {
		if ev.Type == schemas.EventSettled {
			ends++
		}
		u, ok := task.Update(ref.ID, ev)
		if !ok {
			continue
		}
		want++
		got, ok := said[ev.N]
		require.True(h.T, ok, "%s: event %d was not announced", msg, ev.N)
		if u.Status == "" {
			u.Status = got.Status
		}
		require.Equal(h.T, u, got, msg)
		id := fmt.Sprintf("t-1.task.%d", ev.N)
		if ev.Type == schemas.EventSettled {
			id = "t-1.task.settled"
		}
		a, ok := audits[id]
		require.True(h.T, ok, "%s: no evidence of event %d", msg, ev.N)
		require.Equal(h.T, []any{u.Status, u.What, u.Head, u.Reason, u.Code, u.Push, u.Inquiry}, []any{a.Status, a.What, a.Head, a.Reason, a.Code, a.Push, a.Inquiry}, msg)
	}
	require.Equal(h.T, 1, ends, "%s: terminal events", msg)
	require.Len(h.T, audits, want, msg)
	res := fixture.Decode[schemas.TaskResult](h.T, st.Settled.Result)
	require.Equal(h.T, t.Status, res.Status, msg)
	return *st.Settled, res
}
