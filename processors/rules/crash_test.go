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
	"weir/internal/weirtest/fixture"
	"weir/internal/weirtest/harness"
	"weir/internal/weirtest/memlog"
	"weir/internal/weirtest/table"
	writes "weir/processors/rules"
	"weir/schemas"
)

// others makes so many writes of somebody else.
func (r *env) others(n int) {
	r.t.Helper()
	for range n {
		was := r.newest()
		doc := was.Doc
		doc.By = "other"
		_, err := r.keeper.Put(r.t.Context(), tenant, doc, was.Revision)
		require.NoError(r.t, err)
	}
}

// What became of the write of a first worker, which then died.
const (
	notSent  = "it was not sent"
	stored   = "it was stored, and nobody was told"
	failed   = "its store was away, and it was not stored"
	unheard  = "its store was away, and it was stored"
	arrives  = "it arrives as the second worker voids it"
	tooLate  = "it arrives after the second worker's end"
	noWorker = "there was no first worker"
)

// hindrances are what keeps a second worker from a write, by what it says then.
func hindrances() map[schemas.Code]func(*env, *ledger.State) {
	return map[schemas.Code]func(*env, *ledger.State){
		"": func(*env, *ledger.State) {},
		schemas.Canceled: func(r *env, st *ledger.State) {
			harness.Append(r.t, r.ledger, st, schemas.Event{Type: schemas.EventCancel})
		},
		schemas.DeadlineExceeded: func(r *env, _ *ledger.State) { r.now = r.now.Add(time.Minute) },
		schemas.ValidationError:  func(r *env, _ *ledger.State) { r.enforce() },
	}
}

// TestCrash: whatever became of the write of a worker that died, however many others have written
// since and whatever keeps the next one from it, no write is made twice, a write that was reported
// as not made does not arrive afterwards, and only what cannot be known is reported as unknown.
func TestCrash(t *testing.T) {
	t.Parallel()
	for _, fate := range []string{notSent, stored, failed, unheard, arrives, tooLate, noWorker} {
		for _, empty := range []bool{true, false} { // before the write
			for _, others := range []int{0, 1, history - 1, history + 1} { // writes since
				if empty && others == history-1 {
					continue
				}
				for code, hinder := range hindrances() {
					t.Run(fmt.Sprint(fate, empty, others, code), func(t *testing.T) {
						t.Parallel()
						crash{fate, empty, others, code}.run(t, hinder)
					})
				}
			}
		}
	}
}

// crash is one case of TestCrash.
type crash struct {
	fate   string
	empty  bool
	others int
	code   schemas.Code // of what hinders the second worker
}

// want is how the second worker ends.
func (c crash) want() (schemas.Outcome, schemas.Code) {
	late := c.fate == arrives && c.others == 0 && c.code != ""
	switch {
	case (c.fate == stored || c.fate == unheard) && c.others < history, late:
		return schemas.OutcomeSucceeded, ""
	case c.fate != noWorker && c.others > history:
		return schemas.OutcomeUnknown, schemas.OutcomeUnknownCode
	case c.code == schemas.Canceled:
		return schemas.OutcomeCanceled, c.code
	case c.code == schemas.DeadlineExceeded:
		return schemas.OutcomeExpired, c.code
	case c.others > 0:
		return schemas.OutcomeFailed, schemas.EtagMismatch
	case c.code != "":
		return schemas.OutcomeFailed, c.code
	}
	return schemas.OutcomeSucceeded, ""
}

func (c crash) run(t *testing.T, hinder func(*env, *ledger.State)) {
	t.Helper()
	r := newEnv(t)
	if !c.empty {
		r.do(create(delay("a")))
	}
	o := create(redirect("n", "https://old.test/*", "https://api.test/v1/x"))
	o.IfMatch = r.etag()
	st := r.claim(o)
	var way *slow
	made := "" // the etag of the first worker's write
	if c.fate != noWorker {
		r.start(st)
	}
	switch c.fate {
	case stored:
		r.dies(st)
		made = r.etag()
	case failed, unheard:
		r.bucket.Hook(func() (error, bool) { return fault.ErrUnavailable, c.fate == unheard })
		require.ErrorIs(t, harness.As[*fault.RetryAfter](t, r.perform(st).err), fault.ErrUnavailable)
		require.Empty(t, r.evidence(st.ID))
		r.bucket.Hook(nil)
	case arrives, tooLate:
		way = r.slow(st)
	}
	r.others(c.others)
	if c.fate == noWorker {
		r.start(st)
	} else {
		st = r.again(st)
	}
	hinder(r, st)
	if c.fate == arrives {
		r.bucket.Hook(func() (error, bool) {
			r.bucket.Hook(nil)
			way.arrive()
			return nil, true
		})
	}
	was := r.newest()
	e := r.verdict(st)
	r.bucket.Hook(nil)
	told, records := r.newest(), r.evidence(st.ID)
	if c.fate == tooLate || c.fate == arrives && told.Etag == was.Etag {
		way.arrive()
		require.Equal(t, told, r.newest(), "nothing arrives after the end")
	}

	outcome, code := c.want()
	require.Equal(t, []any{outcome, code}, []any{e.Outcome, e.Code})
	writes := 0
	for _, rec := range r.bucket.All() {
		if fixture.Decode[schemas.RuleSet](t, rec.Data).By == st.ID {
			writes++
		}
	}
	if way == nil {
		require.Len(t, records, 1)
	}
	audit := fixture.Decode[schemas.RuleAudit](t, records[len(records)-1].Payload)
	switch outcome {
	case schemas.OutcomeSucceeded:
		require.Equal(t, 1, writes)
		require.Equal(t, "n", e.result.Rule.ID)
		require.Equal(t, []string{"ok", o.IfMatch, e.result.RulesEtag}, []string{audit.Result, audit.RulesEtagBefore, audit.RulesEtagAfter})
		if made != "" {
			require.Equal(t, made, e.result.RulesEtag, "the etag of the write, not of what came after it")
		}
	case schemas.OutcomeUnknown:
		require.Equal(t, []string{string(code), was.Etag, ""}, []string{audit.Result, audit.RulesEtagBefore, audit.RulesEtagAfter})
		require.Equal(t, was, told)
	default:
		require.Zero(t, writes)
		require.Equal(t, []string{string(code), was.Etag, told.Etag}, []string{audit.Result, audit.RulesEtagBefore, audit.RulesEtagAfter})
		require.Equal(t, told.Etag, e.result.RulesEtag)
		// Where an earlier worker may have sent the write, the set stands in its own place: that write
		// cannot arrive any more.
		void := c.others == 0 && c.fate != noWorker
		require.Equal(t, void, told.Revision > was.Revision)
		require.Equal(t, was.Doc.Rules, told.Doc.Rules)
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

// TestOvertaken: another is first between the reading and the write.
func TestOvertaken(t *testing.T) {
	t.Parallel()
	for _, others := range []int{1, history + 1} {
		r := newEnv(t)
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
	r := newEnv(t)
	r.bucket.Hook(func() (error, bool) { return fault.ErrFenced, false })
	o := on(schemas.OpGlobalOff, "")
	o.IfMatch = r.etag()
	e := r.try(o)
	later := harness.As[*fault.RetryAfter](t, e.err)
	require.NotErrorIs(t, later, fault.ErrFenced, "the pipeline would take it for the action's own fence")
}

// TestNoSuccessor: what replaced the set cannot be asked about, or is gone.
func TestNoSuccessor(t *testing.T) {
	t.Parallel()
	for told, want := range map[error][2]schemas.Code{ // for a first worker, for another
		fault.ErrUnavailable: {schemas.EtagMismatch, ""}, // a first worker does not ask, another asks again
		fault.ErrNotFound:    {schemas.EtagMismatch, schemas.OutcomeUnknownCode},
		rules.ErrUnreadable:  {schemas.EtagMismatch, schemas.OutcomeUnknownCode},
	} {
		r := newEnv(t)
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
			r := newEnv(t)
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
				assert.Equal(t, []any{schemas.InternalError, schemas.DetailRulesUnreadable}, []any{e.result.Error.Code, e.result.Error.Detail}, name)
				assert.Contains(t, e.Message, "`weir rules reset`")
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
	r := newEnv(t)
	st := r.begun(create(redirect("n", "https://old.test/*", "https://new.test/")))
	require.Equal(t, schemas.ValidationError, r.perform(st).Code)
	r.enforce(policy.Entry{Name: "new", URLPrefix: "https://new.test/"})
	for range 2 { // however often
		require.Equal(t, schemas.OutcomeSucceeded, r.perform(r.again(st)).Outcome)
	}
	var results []string
	for _, e := range r.evidence(st.ID) {
		audit := fixture.Decode[schemas.RuleAudit](t, e.Payload)
		results = append(results, strings.TrimPrefix(e.ID, st.ID)+" "+audit.Result)
	}
	require.Equal(t, []string{".rule.refused VALIDATION_ERROR", ".rule ok"}, results)
}

// TestEvidenceFirst: without its record a write has no verdict.
func TestEvidenceFirst(t *testing.T) {
	t.Parallel()
	r := newEnv(t)
	st := r.begun(on(schemas.OpGlobalOff, ""))
	deaf := harness.Recorder(memlog.New(harness.Layout(), time.Now, memlog.Hooks{Before: func(schemas.Append) error { return fault.ErrUnavailable }}))
	v, err := writes.New(r.keeper, r.policy.InForce, deaf, r.cfg).Execute(t.Context(), st, harness.NoStop())
	require.ErrorIs(t, err, fault.ErrUnavailable)
	require.Empty(t, v)
	require.Equal(t, schemas.OutcomeSucceeded, r.perform(r.again(st)).Outcome)
	require.Len(t, r.evidence(st.ID), 1)
}

// reset is the order that has no etag.
func reset() schemas.RuleOrder { return schemas.RuleOrder{Operation: schemas.OpRulesReset} }

// TestReset: what nobody can read is replaced, and nothing else.
func TestReset(t *testing.T) {
	t.Parallel()
	for _, stored := range []string{`{"v":99}`, `none`, `{"v":1,"tenant":"other","global_active":true,"groups":[],"rules":[]}`} {
		r := newEnv(t)
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
	}
	r := newEnv(t)
	require.Equal(t, schemas.ValidationError, r.try(reset()).Code, "no set at all is the empty one")
	require.Zero(t, r.newest().Revision)
}

// TestResetAgain: a worker dies over it, is overtaken or comes too late.
func TestResetAgain(t *testing.T) {
	t.Parallel()
	late := func(r *env) { r.now = r.now.Add(time.Minute) }
	mend := func(r *env) { // another has reset it
		_, err := r.keeper.Reset(r.t.Context(), tenant, "other")
		require.NoError(r.t, err)
	}
	type testCase struct {
		made, again bool
		then        func(*env)
		outcome     schemas.Outcome
		code        schemas.Code
	}
	table.Run(t, map[string]testCase{
		"it is in":             {true, true, nil, schemas.OutcomeSucceeded, ""},
		"it is in, too late":   {true, true, late, schemas.OutcomeSucceeded, ""},
		"it is in, then more":  {true, true, func(r *env) { r.others(1) }, schemas.OutcomeUnknown, schemas.OutcomeUnknownCode},
		"not in":               {false, true, nil, schemas.OutcomeSucceeded, ""},
		"not in, too late":     {false, true, late, schemas.OutcomeUnknown, schemas.OutcomeUnknownCode},
		"not begun, too late":  {false, false, late, schemas.OutcomeExpired, schemas.DeadlineExceeded},
		"another's":            {false, true, mend, schemas.OutcomeUnknown, schemas.OutcomeUnknownCode},
		"another's, not begun": {false, false, mend, schemas.OutcomeFailed, schemas.ValidationError},
	}, func(t *testing.T, tt testCase) {
		r := newEnv(t)
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

	r := newEnv(t)
	r.bucket.Overwrite(tenant, `{"v":99}`)
	r.bucket.Hook(func() (error, bool) { r.bucket.Hook(nil); mend(r); return nil, true })
	require.Equal(t, schemas.ValidationError, r.try(reset()).Code, "another was first by a hair")
	r.bucket.Away(true)
	require.ErrorIs(t, r.try(reset()).err, fault.ErrUnavailable)
}
