package rules_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/internal/fault"
	"weir/internal/weirtest/table"
	"weir/schemas"
)

// reset is the order that has no etag.
func reset() schemas.RuleOrder { return schemas.RuleOrder{Operation: schemas.OpRulesReset} }

// TestReset: what nobody can read is replaced, and nothing else.
func TestReset(t *testing.T) {
	t.Parallel()
	for _, stored := range []string{`{"v":99}`, `none`, `{"v":1,"tenant":"other","global_active":true,"groups":[],"rules":[]}`} {
		r := newRoom(t)
		r.do(create(delay("a")))
		r.do(on(schemas.OpGlobalOff, ""))
		r.bucket.overwrite(stored)
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
		r.bucket.overwrite(`{"v":99}`)
		st := r.claim(reset())
		r.start(st)
		if tt.made {
			r.bucket.hook(func() (error, bool) { return fault.ErrUnavailable, true })
			require.ErrorAs(t, r.perform(st).err, new(*fault.Later))
			r.bucket.hook(nil)
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
	r.bucket.overwrite(`{"v":99}`)
	r.bucket.hook(func() (error, bool) { r.bucket.hook(nil); mend(r); return nil, true })
	require.Equal(t, schemas.ValidationError, r.try(reset()).Code, "another was first by a hair")
	r.bucket.reading = fault.ErrUnavailable
	require.ErrorIs(t, r.try(reset()).err, fault.ErrUnavailable)
}
