package rules_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/fault"
	"weir/internal/ledger"
	"weir/internal/policy"
	"weir/internal/rules"
	"weir/internal/weirtest/harness"
	"weir/internal/weirtest/table"
	writes "weir/processors/rules"
	"weir/schemas"
)

// others makes so many writes of somebody else.
func (r *room) others(n int) {
	r.t.Helper()
	for range n {
		was := r.newest()
		doc := was.Doc
		doc.By = "other"
		_, err := r.keeper.Put(r.t.Context(), tenant, doc, was.Revision)
		require.NoError(r.t, err)
	}
}

// TestCrash: a worker dies over a write, and the next one finds out what became of
// it. No write is made twice, and none is told of that was not made.
func TestCrash(t *testing.T) {
	t.Parallel()
	const died, before = "died", "before"
	for name, tt := range map[string]struct {
		// at is where the first worker died: before its write, or behind it; empty:
		// there was none.
		at    string
		other int // writes of others since
		// prior are writes of others before the first worker read.
		prior   int
		outcome schemas.Outcome
		code    schemas.Code
	}{
		"nobody was there":                     {"", 0, 0, schemas.OutcomeSucceeded, ""},
		"nobody was there, another was":        {"", 1, 0, schemas.OutcomeFailed, schemas.EtagMismatch},
		"nobody was there, many were":          {"", history + 1, 0, schemas.OutcomeFailed, schemas.EtagMismatch},
		"before the write":                     {before, 0, 0, schemas.OutcomeSucceeded, ""},
		"before the write, then another":       {before, 1, 0, schemas.OutcomeFailed, schemas.EtagMismatch},
		"before the write, then a history":     {before, history, 0, schemas.OutcomeFailed, schemas.EtagMismatch},
		"before the write, then many":          {before, history + 1, 0, schemas.OutcomeUnknown, schemas.OutcomeUnknownCode},
		"behind the write":                     {died, 0, 0, schemas.OutcomeSucceeded, ""},
		"behind the write, then another":       {died, 1, 0, schemas.OutcomeSucceeded, ""},
		"behind the write, then nearly all":    {died, history - 1, 0, schemas.OutcomeSucceeded, ""},
		"behind the write, then many":          {died, history + 1, 0, schemas.OutcomeUnknown, schemas.OutcomeUnknownCode},
		"behind the write of a longer history": {died, 2, history + 6, schemas.OutcomeSucceeded, ""},
		"before the write of a longer history": {before, 2, history + 6, schemas.OutcomeFailed, schemas.EtagMismatch},
	} {
		for _, o := range []schemas.RuleOrder{create(delay("n")), patch("a", `{"priority":5}`), on(schemas.OpRulesDisable, "a"), on(schemas.OpGlobalOff, "")} {
			t.Run(name+", "+o.Operation, func(t *testing.T) {
				t.Parallel()
				r := newRoom(t)
				r.do(create(delay("a")))
				r.others(tt.prior)
				o.IfMatch = r.etag()
				st := r.claim(o)
				want := ""
				switch tt.at {
				case before:
					r.start(st)
				case died: // its write is in, and no word of it anywhere else
					r.start(st)
					r.dies(st)
					want = r.etag()
				}
				r.others(tt.other)
				rev := r.newest().Revision
				if tt.at != "" {
					st = r.again(st)
				} else {
					r.start(st)
				}
				e := r.verdict(st)
				require.Equal(t, tt.outcome, e.Outcome)
				require.Equal(t, tt.code, e.Code)
				made := 0
				for _, rec := range r.bucket.All() {
					doc := harness.Decode[schemas.RuleSet](t, rec.Data)
					if doc.By == st.ID {
						made++
					}
				}
				if e.Outcome != schemas.OutcomeSucceeded {
					require.Equal(t, rev, r.newest().Revision)
					require.NotNil(t, e.result.Error)
					require.Equal(t, r.etag(), e.result.RulesEtag)
					_, audit := r.audit()
					after := r.etag()
					if e.Outcome == schemas.OutcomeUnknown {
						after = "" // nobody knows
					}
					require.Equal(t, []string{string(tt.code), r.etag(), after}, []string{audit.Result, audit.RulesEtagBefore, audit.RulesEtagAfter})
					return
				}
				require.Equal(t, 1, made)
				if want != "" {
					require.Equal(t, want, e.result.RulesEtag, "the etag of the write, not of what came after it")
				}
				if o.Operation == schemas.OpRulesCreate {
					require.Equal(t, "n", e.result.Rule.ID)
				} else if o.ID != "" {
					require.Equal(t, "a", e.result.Rule.ID)
				}
				all := r.evidence(st.ID)
				require.Len(t, all, 1)
				audit := harness.Decode[schemas.RuleAudit](t, all[0].Payload)
				require.Equal(t, []string{"ok", o.IfMatch, e.result.RulesEtag, r.now.Format(time.RFC3339Nano)},
					[]string{audit.Result, audit.RulesEtagBefore, audit.RulesEtagAfter, audit.Timestamp})
			})
		}
	}
}

var errDied = errors.New("the worker died")

// mute stores, and never says so.
type mute struct{ *rules.Keeper }

func (m mute) Put(ctx context.Context, tenant string, doc schemas.RuleSet, revision uint64) (rules.Snapshot, error) {
	if _, err := m.Keeper.Put(ctx, tenant, doc, revision); err != nil {
		return rules.Snapshot{}, err
	}
	return rules.Snapshot{}, errDied
}

// TestFirstWrite of a tenant: there is no set before it.
func TestFirstWrite(t *testing.T) {
	t.Parallel()
	for _, others := range []int{0, 1, history + 1} {
		r := newRoom(t)
		st := r.begun(create(delay("n")))
		r.dies(st)
		r.others(others)
		e := r.verdict(r.again(st))
		if others > history {
			require.Equal(t, schemas.OutcomeUnknown, e.Outcome)
			continue
		}
		require.Equal(t, schemas.OutcomeSucceeded, e.Outcome)
	}
}

// TestRevisionOfAnotherTenant: an etag that never was this tenant's is refused,
// whoever had begun, however many have written.
func TestRevisionOfAnotherTenant(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	r.do(create(delay("a")))
	other, err := r.keeper.Put(t.Context(), "other", schemas.RuleSet{GlobalActive: true}, 0)
	require.NoError(t, err)
	r.others(1)
	o := create(delay("n"))
	o.IfMatch = other.Etag
	st := r.begun(o)
	e := r.verdict(r.again(st))
	require.Equal(t, schemas.EtagMismatch, e.Code)
}

// TestUnknownAck: the write may be in, and the next delivery finds out.
func TestUnknownAck(t *testing.T) {
	t.Parallel()
	for _, stored := range []bool{true, false} {
		for _, told := range []error{fault.ErrUnavailable, fault.ErrFull, context.Canceled} {
			r := newRoom(t)
			r.do(create(delay("a")))
			r.bucket.Hook(func() (error, bool) { return told, stored })
			st := r.begun(patch("a", `{"priority":5}`))
			e := r.perform(st)
			later := harness.As[*fault.RetryAfter](t, e.err)
			require.ErrorIs(t, later, told)
			require.Empty(t, r.evidence(st.ID))
			r.bucket.Hook(nil)
			e = r.verdict(r.again(st))
			require.Equal(t, schemas.OutcomeSucceeded, e.Outcome)
			require.Equal(t, uint64(2), r.newest().Revision)
			require.Equal(t, r.etag(), e.result.RulesEtag)
		}
	}
}

// TestOvertaken: another is first between the reading and the write.
func TestOvertaken(t *testing.T) {
	t.Parallel()
	for _, others := range []int{1, history + 1} {
		r := newRoom(t)
		r.do(create(delay("a")))
		o := patch("a", `{"priority":5}`)
		o.IfMatch = r.etag()
		once := func() (error, bool) {
			r.bucket.Hook(nil)
			for range others {
				_, err := r.keeper.Put(t.Context(), tenant, r.newest().Doc, r.newest().Revision)
				assert.NoError(t, err)
			}
			return nil, true
		}
		r.bucket.Hook(once)
		e := r.try(o)
		require.NoError(t, e.err)
		require.Equal(t, schemas.EtagMismatch, e.Code)
		require.Equal(t, r.etag(), e.result.RulesEtag)
	}
	r := newRoom(t)
	r.bucket.Hook(func() (error, bool) { return fault.ErrFenced, false })
	o := on(schemas.OpGlobalOff, "")
	o.IfMatch = r.etag()
	e := r.try(o)
	later := harness.As[*fault.RetryAfter](t, e.err)
	require.NotErrorIs(t, later, fault.ErrFenced, "the pipeline would take it for the action's own fence")
}

// TestStopped: what was not made is not made any more, and what was made is.
func TestStopped(t *testing.T) {
	t.Parallel()
	type testCase struct {
		stop    func(r *room, st *ledger.State)
		outcome schemas.Outcome
		code    schemas.Code
	}
	table.Run(t, map[string]testCase{
		"canceled": {func(r *room, st *ledger.State) {
			harness.Append(r.t, r.ledger, st, schemas.Event{Type: schemas.EventCancel})
		}, schemas.OutcomeCanceled, schemas.Canceled},
		"expired": {func(r *room, _ *ledger.State) { r.now = r.now.Add(time.Minute) }, schemas.OutcomeExpired, schemas.DeadlineExceeded},
	}, func(t *testing.T, tt testCase) {
		for _, begun := range []bool{true, false} {
			r := newRoom(t)
			o := create(delay("n"))
			o.IfMatch = r.etag()
			st := r.claim(o)
			if begun {
				r.start(st)
			}
			tt.stop(r, st)
			e := r.verdict(r.again(st))
			require.Equal(t, []any{tt.outcome, tt.code}, []any{e.Outcome, e.Code})
			require.Equal(t, schemas.AgentError{Code: schemas.InternalError, Message: e.Message, Detail: string(tt.code)}, *e.result.Error)
			set := r.newest()
			require.Empty(t, set.Doc.Rules)
			require.True(t, set.Doc.GlobalActive)
			// Where another worker had begun, the set stands in its own place: the
			// other's write cannot arrive any more.
			require.Equal(t, begun, set.Revision > 0)
			require.Equal(t, set.Etag, e.result.RulesEtag)
			_, audit := r.audit()
			require.Equal(t, []string{string(tt.code), o.IfMatch, set.Etag}, []string{audit.Result, audit.RulesEtagBefore, audit.RulesEtagAfter})
		}
		r := newRoom(t)
		st := r.begun(create(delay("n")))
		r.dies(st)
		tt.stop(r, st)
		require.Equal(t, schemas.OutcomeSucceeded, r.perform(r.again(st)).Outcome, "it is in")
	})
	r := newRoom(t)
	st := r.begun(create(delay("n")))
	stop := harness.NewStop(t)
	stop.Pull()
	v, err := r.executor().Execute(t.Context(), st, stop)
	require.NoError(t, err)
	require.Equal(t, schemas.OutcomeCanceled, v.Outcome)
}

// TestOutOfReach: without the store nothing is said.
func TestOutOfReach(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	r.do(create(delay("a")))
	st := r.begun(create(delay("n")))
	r.bucket.Away(true)
	e := r.perform(st)
	require.ErrorAs(t, e.err, new(*fault.RetryAfter))
	require.ErrorIs(t, e.err, fault.ErrUnavailable)
	r.bucket.Away(false)
	require.Equal(t, schemas.OutcomeSucceeded, r.perform(r.again(st)).Outcome)
}

// TestNoSuccessor: what replaced the set cannot be asked about, or is gone.
func TestNoSuccessor(t *testing.T) {
	t.Parallel()
	for told, want := range map[error][2]schemas.Code{ // for a first worker, for another
		fault.ErrUnavailable: {schemas.EtagMismatch, ""}, // a first worker does not ask, another asks again
		fault.ErrNotFound:    {schemas.EtagMismatch, schemas.OutcomeUnknownCode},
		rules.ErrUnreadable:  {schemas.EtagMismatch, schemas.OutcomeUnknownCode},
	} {
		r := newRoom(t)
		o := create(delay("n"))
		o.IfMatch = r.etag()
		r.others(1)
		r.sets = blind{r.keeper, told}
		st := r.begun(o)
		for i, code := range want {
			e := r.perform(st)
			require.Equal(t, code, e.Code)
			if code == "" {
				require.ErrorIs(t, e.err, told)
			}
			if i == 0 {
				st = r.again(st)
			}
		}
	}
}

// blind cannot say what came behind a set.
type blind struct {
	*rules.Keeper

	err error
}

func (b blind) After(context.Context, string, uint64) (rules.Snapshot, error) {
	return rules.Snapshot{}, b.err
}

// TestUnreadable: nobody writes over a set that this program does not understand,
// and what is known all the same is told.
func TestUnreadable(t *testing.T) {
	t.Parallel()
	for _, begun := range []bool{false, true} {
		for _, made := range []bool{false, true} {
			r := newRoom(t)
			r.do(create(delay("a")))
			st := r.begun(create(delay("n")))
			if made {
				r.dies(st)
			}
			r.bucket.Overwrite(tenant, `{"v":99}`)
			if begun || made {
				st = r.again(st)
			}
			e := r.verdict(st)
			name := fmt.Sprintf("begun %v, made %v", begun, made)
			switch {
			case made:
				assert.Equal(t, schemas.OutcomeSucceeded, e.Outcome, name)
			case begun: // what replaced the set may have been this write, as another version makes it
				assert.Equal(t, schemas.OutcomeUnknown, e.Outcome, name)
			default:
				assert.Equal(t, schemas.OutcomeFailed, e.Outcome, name)
				assert.Equal(t, schemas.InternalError, e.result.Error.Code, name)
			}
			newest, err := r.bucket.Get(t.Context(), tenant)
			require.NoError(t, err)
			assert.JSONEq(t, `{"v":99}`, string(newest.Data), name)
		}
	}
}

// TestRefusedThenMade: what a worker refused, whose word nobody heard, the next may
// find right. The write has a record of its own then.
func TestRefusedThenMade(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	st := r.begun(create(redirect("n", "https://old.test/*", "https://new.test/")))
	require.Equal(t, schemas.ValidationError, r.perform(st).Code)
	r.enforce(policy.Entry{Name: "new", URLPrefix: "https://new.test/"})
	for range 2 { // however often
		require.Equal(t, schemas.OutcomeSucceeded, r.perform(r.again(st)).Outcome)
	}
	var results []string
	for _, e := range r.evidence(st.ID) {
		audit := harness.Decode[schemas.RuleAudit](t, e.Payload)
		results = append(results, strings.TrimPrefix(e.ID, st.ID)+" "+audit.Result)
	}
	require.Equal(t, []string{".rule.refused VALIDATION_ERROR", ".rule ok"}, results)
}

// TestEvidenceFirst: without its record a write has no verdict.
func TestEvidenceFirst(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	st := r.begun(on(schemas.OpGlobalOff, ""))
	v, err := writes.New(r.keeper, r.policy.InForce, deaf{}, r.cfg).Execute(t.Context(), st, harness.NoStop{})
	require.ErrorIs(t, err, fault.ErrUnavailable)
	require.Empty(t, v)
	require.Equal(t, schemas.OutcomeSucceeded, r.perform(r.again(st)).Outcome)
	require.Len(t, r.evidence(st.ID), 1)
}

// deaf takes no records.
type deaf struct{}

func (deaf) Leave(context.Context, *ledger.State, ...schemas.Evidence) error {
	return fault.ErrUnavailable
}

// reset is the order that has no etag.
func reset() schemas.RuleOrder { return schemas.RuleOrder{Operation: schemas.OpRulesReset} }

// TestReset: what nobody can read is replaced, and nothing else.
func TestReset(t *testing.T) {
	t.Parallel()
	for _, stored := range []string{`{"v":99}`, `none`, `{"v":1,"tenant":"other","global_active":true,"groups":[],"rules":[]}`} {
		r := newRoom(t)
		r.do(create(delay("a")))
		r.do(on(schemas.OpGlobalOff, ""))
		r.bucket.Overwrite(tenant, stored)
		e := r.try(reset())
		require.NoError(t, e.err)
		require.Equal(t, schemas.OutcomeSucceeded, e.Outcome)
		now := r.newest()
		require.Equal(t, uint64(4), now.Revision)
		require.Equal(t, schemas.RuleSet{
			V: schemas.RuleSetVersion, Tenant: tenant, GlobalActive: true, Groups: []string{}, Rules: []schemas.Rule{},
			By: "rul-3", Previous: 3, At: now.Doc.At,
		}, now.Doc)
		require.Equal(t, schemas.RuleResult{Operation: schemas.OpRulesReset, RequestID: "req rul-3", RulesEtag: now.Etag}, e.result)
		ev, audit := r.audit()
		require.Equal(t, "rul-3.rule", ev.ID)
		require.Equal(t, schemas.RuleAudit{
			Timestamp: now.Doc.At.Format(time.RFC3339Nano), Caller: "tok-1", RequestID: "req rul-3", Operation: schemas.OpRulesReset,
			Result: "ok", RulesEtagAfter: now.Etag,
		}, audit)
		r.do(create(delay("a")))

		newest := r.etag()
		e = r.try(reset())
		require.NoError(t, e.err)
		require.Equal(t, schemas.ValidationError, e.result.Error.Code)
		require.Contains(t, e.Message, "can be read")
		require.Equal(t, newest, r.etag())
		_, audit = r.audit()
		require.Equal(t, []string{"VALIDATION_ERROR", newest, newest}, []string{audit.Result, audit.RulesEtagBefore, audit.RulesEtagAfter})
	}
	r := newRoom(t)
	require.Equal(t, schemas.ValidationError, r.try(reset()).Code, "no set at all is the empty one")
	require.Zero(t, r.newest().Revision)
}

// TestResetAgain: a worker dies over it, is overtaken or comes too late.
func TestResetAgain(t *testing.T) {
	t.Parallel()
	late := func(r *room) { r.now = r.now.Add(time.Minute) }
	mend := func(r *room) { // another has reset it
		_, err := r.keeper.Reset(r.t.Context(), tenant, "other")
		require.NoError(r.t, err)
	}
	type testCase struct {
		made, again bool
		then        func(*room)
		outcome     schemas.Outcome
		code        schemas.Code
	}
	table.Run(t, map[string]testCase{
		"it is in":             {true, true, nil, schemas.OutcomeSucceeded, ""},
		"it is in, too late":   {true, true, late, schemas.OutcomeSucceeded, ""},
		"it is in, then more":  {true, true, func(r *room) { r.others(1) }, schemas.OutcomeUnknown, schemas.OutcomeUnknownCode},
		"not in":               {false, true, nil, schemas.OutcomeSucceeded, ""},
		"not in, too late":     {false, true, late, schemas.OutcomeUnknown, schemas.OutcomeUnknownCode},
		"not begun, too late":  {false, false, late, schemas.OutcomeExpired, schemas.DeadlineExceeded},
		"another's":            {false, true, mend, schemas.OutcomeUnknown, schemas.OutcomeUnknownCode},
		"another's, not begun": {false, false, mend, schemas.OutcomeFailed, schemas.ValidationError},
	}, func(t *testing.T, tt testCase) {
		r := newRoom(t)
		r.bucket.Overwrite(tenant, `{"v":99}`)
		st := r.claim(reset())
		r.start(st)
		if tt.made {
			r.bucket.Hook(func() (error, bool) { return fault.ErrUnavailable, true })
			require.ErrorAs(t, r.perform(st).err, new(*fault.RetryAfter))
			r.bucket.Hook(nil)
		}
		if tt.then != nil {
			tt.then(r)
		}
		if tt.again {
			st = r.again(st)
		}
		e := r.verdict(st)
		require.Equal(t, tt.outcome, e.Outcome)
		require.Equal(t, tt.code, e.Code)
		if tt.outcome == schemas.OutcomeSucceeded {
			require.Equal(t, uint64(2), r.newest().Revision, "once")
			require.Equal(t, st.ID, r.newest().Doc.By)
		}
	})

	r := newRoom(t)
	r.bucket.Overwrite(tenant, `{"v":99}`)
	r.bucket.Hook(func() (error, bool) { r.bucket.Hook(nil); mend(r); return nil, true })
	require.Equal(t, schemas.ValidationError, r.try(reset()).Code, "another was first by a hair")
	r.bucket.Away(true)
	require.ErrorIs(t, r.try(reset()).err, fault.ErrUnavailable)
}
