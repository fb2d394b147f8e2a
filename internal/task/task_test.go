package task_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/task"
	"weir/schemas"
)

var (
	begun = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	late  = begun.Add(time.Hour)
	own   = task.New("t", "a", 0, [32]byte{1})
	first = task.New("t", "a", 1, [32]byte{2})
	next  = task.New("t", "a", 2, [32]byte{3})
)

// told folds events into a task that was accepted with its own token.
func told(order schemas.TaskOrder, events ...schemas.Event) *task.State {
	s := task.Begin(schemas.Action{Tenant: "t", ID: "a", TokenHash: own.Hash()}, order)
	for _, ev := range events {
		s.Apply(ev)
	}
	return s
}

func happened(e schemas.TaskEvent) schemas.Event {
	return schemas.Event{Type: schemas.EventSignal, Time: begun, Task: &e}
}

func leased(t task.Token) schemas.Event {
	return happened(schemas.TaskEvent{What: schemas.TaskClaimed, Lease: t.Lease, Holder: "h", TokenHash: t.Hash()})
}

var (
	opened    = happened(schemas.TaskEvent{What: schemas.TaskOpened, Base: "b0"})
	claimed   = happened(schemas.TaskEvent{What: schemas.TaskClaimed})
	lost      = happened(schemas.TaskEvent{What: schemas.TaskLost, Lease: 1})
	completed = happened(schemas.TaskEvent{What: schemas.TaskReported, Report: &schemas.TaskReport{Completed: true, Description: "done"}})
	failed    = happened(schemas.TaskEvent{What: schemas.TaskReported, Report: &schemas.TaskReport{Reason: schemas.ReasonTaskIssues}})
	cancel    = schemas.Event{Type: schemas.EventCancel, Time: begun}
	stopped   = schemas.Event{Type: schemas.EventStatus, Time: begun, Task: &schemas.TaskEvent{What: schemas.TaskClosed, Status: schemas.TaskStatusCanceled}}
	pushed    = happened(schemas.TaskEvent{What: schemas.TaskPushed, Head: "h1", Push: "p"})
)

func settled(o schemas.Outcome) schemas.Event {
	return schemas.Event{Type: schemas.EventSettled, Time: begun, Settled: &schemas.Settled{Outcome: o}}
}

// TestStatesAndTokens: which state some events leave, and whose token may still act.
func TestStatesAndTokens(t *testing.T) {
	t.Parallel()
	type tokens []task.Token
	for name, c := range map[string]struct {
		events   []schemas.Event
		status   schemas.TaskStatus
		live     tokens
		leasable bool
	}{
		"accepted":                 {nil, schemas.TaskStatusQueued, tokens{own}, false},
		"opened":                   {[]schemas.Event{opened}, schemas.TaskStatusQueued, tokens{own}, true},
		"claimed by its own":       {[]schemas.Event{opened, claimed}, schemas.TaskStatusRunning, tokens{own}, false},
		"own, then a lease":        {[]schemas.Event{opened, claimed, leased(first)}, schemas.TaskStatusRunning, tokens{own}, false},
		"leased":                   {[]schemas.Event{opened, leased(first)}, schemas.TaskStatusRunning, tokens{first}, false},
		"leased, then its own":     {[]schemas.Event{opened, leased(first), claimed}, schemas.TaskStatusRunning, tokens{first}, false},
		"a lease out of turn":      {[]schemas.Event{opened, leased(next)}, schemas.TaskStatusQueued, tokens{own}, true},
		"lost":                     {[]schemas.Event{opened, leased(first), lost}, schemas.TaskStatusQueued, nil, true},
		"lost twice":               {[]schemas.Event{opened, leased(first), lost, lost}, schemas.TaskStatusQueued, nil, true},
		"leased again":             {[]schemas.Event{opened, leased(first), lost, leased(next)}, schemas.TaskStatusRunning, tokens{next}, false},
		"the old lease lost late":  {[]schemas.Event{opened, leased(first), lost, leased(next), lost}, schemas.TaskStatusRunning, tokens{next}, false},
		"completed":                {[]schemas.Event{opened, claimed, completed}, schemas.TaskStatusCompleted, nil, false},
		"completed, then failed":   {[]schemas.Event{opened, claimed, completed, failed}, schemas.TaskStatusCompleted, nil, false},
		"failed, then canceled":    {[]schemas.Event{opened, claimed, failed, cancel}, schemas.TaskStatusFailed, nil, false},
		"canceled, not yet ended":  {[]schemas.Event{opened, claimed, cancel}, schemas.TaskStatusRunning, nil, false},
		"canceled":                 {[]schemas.Event{opened, cancel, settled(schemas.OutcomeCanceled)}, schemas.TaskStatusCanceled, nil, false},
		"expired":                  {[]schemas.Event{opened, settled(schemas.OutcomeExpired)}, schemas.TaskStatusExpired, nil, false},
		"no branch":                {[]schemas.Event{settled(schemas.OutcomeFailed)}, schemas.TaskStatusFailed, nil, false},
		"canceled, then claimed":   {[]schemas.Event{opened, cancel, leased(first), completed}, schemas.TaskStatusQueued, nil, false},
		"canceled, then reported":  {[]schemas.Event{opened, claimed, cancel, completed}, schemas.TaskStatusRunning, nil, false},
		"closed":                   {[]schemas.Event{opened, claimed, stopped}, schemas.TaskStatusCanceled, nil, false},
		"closed, then reported":    {[]schemas.Event{opened, claimed, stopped, completed}, schemas.TaskStatusCanceled, nil, false},
		"closed without an end":    {[]schemas.Event{opened, claimed, happened(schemas.TaskEvent{What: schemas.TaskClosed, Status: schemas.TaskStatusRunning})}, schemas.TaskStatusRunning, tokens{own}, false},
		"canceled, then closed":    {[]schemas.Event{opened, claimed, cancel, stopped}, schemas.TaskStatusCanceled, nil, false},
		"settled, then whatever":   {[]schemas.Event{opened, settled(schemas.OutcomeExpired), leased(first), completed}, schemas.TaskStatusExpired, nil, false},
		"settled as it was said":   {[]schemas.Event{opened, claimed, completed, settled(schemas.OutcomeSucceeded)}, schemas.TaskStatusCompleted, nil, false},
		"nothing that is known":    {[]schemas.Event{opened, {Type: schemas.EventSignal}, happened(schemas.TaskEvent{What: "dance"})}, schemas.TaskStatusQueued, tokens{own}, true},
		"an empty report says nil": {[]schemas.Event{opened, claimed, happened(schemas.TaskEvent{What: schemas.TaskReported})}, schemas.TaskStatusRunning, tokens{own}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := told(schemas.TaskOrder{Pool: schemas.PoolDefault}, c.events...)
			assert.Equal(t, c.status, s.Status)
			assert.Equal(t, c.leasable, s.Leasable())
			var live tokens
			for _, tok := range []task.Token{own, first, next} {
				if s.Accepts(tok) && s.Lives(tok.Lease, late, begun) {
					live = append(live, tok)
				}
				assert.False(t, s.Lives(tok.Lease, begun, begun), "at the deadline it is over")
			}
			assert.Equal(t, c.live, live)
			assert.False(t, s.Report != nil && s.Closed != nil, "the first end counts")
			other := task.New("t", "a", 0, [32]byte{9})
			assert.False(t, s.Accepts(other))
			assert.False(t, s.Was(other))
		})
	}
}

// TestWhoHadItLast: the holder at the end may hear of it, and nobody else.
func TestWhoHadItLast(t *testing.T) {
	t.Parallel()
	s := told(schemas.TaskOrder{}, opened, leased(first), lost, leased(next), completed, settled(schemas.OutcomeSucceeded))
	assert.Equal(t, []bool{false, false, true}, []bool{s.Was(own), s.Was(first), s.Was(next)})
	s = told(schemas.TaskOrder{}, opened, claimed, settled(schemas.OutcomeExpired))
	assert.True(t, s.Was(own))
	s = told(schemas.TaskOrder{}, opened, leased(first), lost, settled(schemas.OutcomeExpired))
	assert.False(t, s.Was(first), "it had lost the task before")
}

func TestNobodyLeasesFromNone(t *testing.T) {
	t.Parallel()
	assert.False(t, told(schemas.TaskOrder{Pool: schemas.PoolNone}, opened).Leasable())
	assert.False(t, told(schemas.TaskOrder{Pool: "p"}, opened, cancel).Leasable())
}

func TestInquiries(t *testing.T) {
	t.Parallel()
	asked := func(n int, text string) schemas.Event {
		return happened(schemas.TaskEvent{What: schemas.TaskAsked, Inquiry: &schemas.TaskInquiry{N: n, Text: text}})
	}
	answered := func(n int, text string) schemas.Event {
		return happened(schemas.TaskEvent{What: schemas.TaskAnswered, Inquiry: &schemas.TaskInquiry{N: n, Text: text, By: "p"}})
	}
	s := told(schemas.TaskOrder{}, opened, claimed, asked(1, "a?"), asked(1, "again"), asked(3, "later"), asked(2, "b?"), answered(2, "b!"), answered(2, "other"), answered(7, "no"), answered(0, "no"))
	require.Len(t, s.Inquiries, 2)
	require.Len(t, s.Open(), 1)
	assert.Equal(t, "a?", s.Open()[0].Text)
	assert.Equal(t, "b!", *s.Inquiries[1].Answer)
	assert.Equal(t, "p", s.Inquiries[1].By)
}

func TestReissue(t *testing.T) {
	t.Parallel()
	other := task.New("t", "a", 0, [32]byte{8})
	again := happened(schemas.TaskEvent{What: schemas.TaskReissued, TokenHash: other.Hash()})
	s := told(schemas.TaskOrder{}, opened, again, again)
	assert.Equal(t, []any{false, true, 2}, []any{s.Accepts(own), s.Accepts(other), s.Reissues})
	s = told(schemas.TaskOrder{}, opened, leased(first), again)
	assert.Equal(t, []any{false, true, 0}, []any{s.Accepts(other), s.Accepts(first), s.Reissues}, "the lease's token is not replaced by the task's")
}

func TestBranch(t *testing.T) {
	t.Parallel()
	const id = "01a2009a-f1b4-7473-9689-c6c36e06d458"
	assert.Equal(t, "paint", task.Branch("t", id, "paint"))
	assert.Equal(t, id, task.Branch("t", id, ""))
	derived := task.Branch("t", "x:1", "")
	assert.True(t, schemas.ValidBranch(derived))
	assert.Equal(t, derived, task.Branch("t", "x:1", ""))
	assert.NotEqual(t, derived, task.Branch("u", "x:1", ""))
}

func TestGrant(t *testing.T) {
	t.Parallel()
	g := task.Grant{TaskID: "a", Branch: "paint"}
	for ref, want := range map[string]bool{"refs/heads/paint": true, "refs/heads/main": true, "refs/heads/other": false, "refs/tags/paint": false, "HEAD": false} {
		assert.Equal(t, want, g.Reads(ref, "main"), ref)
	}
	g.Base = "next"
	assert.False(t, g.Reads("refs/heads/main", "main"))
	assert.True(t, task.Grant{}.Reads("refs/heads/other", "main"), "who has no task reads it all")
}
