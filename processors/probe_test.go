package processors_test

import (
	"context"
	"encoding/json"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/fault"
	"weir/internal/ledger"
	"weir/internal/policy"
	"weir/internal/weirtest/harness"
	"weir/processors"
	"weir/processors/call"
	"weir/processors/guard"
	"weir/processors/settle"
	"weir/schemas"
)

// shopConfig is what a shop and its entry do.
type shopConfig struct {
	policy policy.Contract
	derive bool // the entry has Weir derive the keys of calls
	// loses: the first request has its effect so much later, and its answer is lost.
	loses bool
	delay time.Duration
	// drops: the first request is lost as a whole.
	drops bool
	mute  bool // probes show nothing
}

// shop is a target that keeps a ledger of its effects, by key, and shows them to a probe.
type shop struct {
	*env
	shopConfig

	mu      sync.Mutex
	posts   int
	probes  int
	effects map[string]int // by idempotency key; "" counts each request
}

func (s *shop) Open(_ context.Context, p guard.Pass) (call.Exchange, error) { return &sale{s, p}, nil }

type sale struct {
	shop *shop
	pass guard.Pass
}

func (*sale) Close()                   {}
func (s *sale) Renew(guard.Pass) error { return nil }
func (*sale) Begun() <-chan struct{}   { return begun }

func (s *sale) Do(context.Context) (call.Reply, error) {
	shop, c := s.shop, s.pass.Call()
	shop.mu.Lock()
	defer shop.mu.Unlock()
	if shop.Dead() {
		return call.Reply{}, &fault.Call{Code: schemas.UpstreamReset}
	}
	if s.pass.Class() == schemas.ClassSafe {
		return shop.look()
	}
	shop.posts++
	if shop.posts == 1 && shop.drops {
		return call.Reply{}, &fault.Call{Code: schemas.UpstreamReset, Sent: true}
	}
	if shop.posts == 1 && shop.delay > 0 {
		time.AfterFunc(shop.delay, func() { shop.take(c.IdempotencyKey) })
	} else {
		shop.apply(c.IdempotencyKey)
	}
	if shop.posts == 1 && shop.loses {
		return call.Reply{}, &fault.Call{Code: schemas.UpstreamReset, Sent: true}
	}
	return call.Reply{Answer: schemas.Answer{Status: 201, JSON: true, Hash: "x", Body: json.RawMessage(`{"ok":true}`)}}, nil
}

func (s *shop) look() (call.Reply, error) {
	s.probes++
	status := 404
	switch {
	case s.mute:
		status = 204
	case len(s.effects) > 0:
		status = 200
	}
	return call.Reply{Answer: schemas.Answer{Status: status, Body: json.RawMessage("null")}}, nil
}

func (s *shop) take(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.apply(key)
}

// apply has an effect, unless the key had it before.
func (s *shop) apply(key string) {
	if key == "" || s.effects[key] == 0 {
		s.effects[key]++
	}
}

func (s *shop) total() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, count := range s.effects {
		n += count
	}
	return n
}

func (s *shop) worker(t *testing.T, name string) *processors.Pipeline {
	t.Helper()
	var p harness.Policy
	p.Enforce(t, policy.Entry{
		Name: "up", URLPrefix: "http://up.example/", Methods: []string{"GET", "POST"}, UpstreamIdempotency: &policy.Idempotency{TTL: time.Hour, Derive: s.derive}, Contract: s.policy,
	})
	w := harness.Worker{Name: name, Alone: true, Waker: nowhere{}, Log: s.log, Ledger: ledger.New(s.log, layout, time.Now), Barrier: s.Barrier}
	return assemble(w, guard.New(p.InForce, nil), s)
}

// TestCrashWithAProbe kills one worker at each of its steps, and a second one some steps later,
// after a call whose answer or request may be lost: there are never two effects, and where a probe
// or a key tells, no outcome is unknown.
func TestCrashWithAProbe(t *testing.T) {
	t.Parallel()
	probe := policy.Contract{Reconcile: &policy.Reconcile{
		Method: "GET", URL: "http://up.example/look?id={request.action_id}", Applied: "response.status == 200", NotApplied: "response.status == 404", Within: time.Second,
	}}
	keyed := schemas.HTTPCall{Method: "POST", URL: "http://up.example/x", IdempotencyKey: "k"}
	once := schemas.HTTPCall{Method: "POST", URL: "http://up.example/x"}
	for name, tt := range map[string]struct {
		call schemas.HTTPCall
		shop shopConfig
		// tells: the outcome is known, whatever crashes.
		tells bool
		ends  []schemas.Outcome // each must be seen
	}{
		"a probe tells, nothing is lost":     {once, shopConfig{policy: probe}, true, []schemas.Outcome{schemas.OutcomeSucceeded}},
		"a probe tells, the answer is lost":  {once, shopConfig{policy: probe, loses: true}, true, []schemas.Outcome{schemas.OutcomeSucceeded}},
		"a probe tells, the request is late": {once, shopConfig{policy: probe, loses: true, delay: 700 * time.Millisecond}, true, []schemas.Outcome{schemas.OutcomeSucceeded}},
		"a probe tells, the request is lost": {once, shopConfig{policy: probe, drops: true}, true, []schemas.Outcome{schemas.OutcomeSucceeded}},
		"a probe cannot, nothing is lost":    {once, shopConfig{policy: probe, mute: true}, false, []schemas.Outcome{schemas.OutcomeSucceeded, schemas.OutcomeUnknown}},
		"a probe cannot, the answer is lost": {once, shopConfig{policy: probe, mute: true, loses: true}, false, []schemas.Outcome{schemas.OutcomeUnknown}},
		"a key, the answer is lost":          {keyed, shopConfig{loses: true}, true, []schemas.Outcome{schemas.OutcomeSucceeded}},
		"a derived key, the answer is lost":  {once, shopConfig{derive: true, loses: true}, true, []schemas.Outcome{schemas.OutcomeSucceeded}},
		"a derived key, the request is lost": {once, shopConfig{derive: true, drops: true}, true, []schemas.Outcome{schemas.OutcomeSucceeded}},
		"a derived key and a probe":          {once, shopConfig{policy: probe, derive: true, loses: true}, true, []schemas.Outcome{schemas.OutcomeSucceeded}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			seen := map[schemas.Outcome]int{}
			harness.EachStep(t, 1, func(t *testing.T, n int, done bool, what string) bool { //nolint:thelper // it is the test
				s := &shop{env: newEnv(), shopConfig: tt.shop, effects: map[string]int{}}
				rec := s.accept(t, tt.call)
				s.DieAt(n, done)
				err := s.worker(t, "w1").Handle(t.Context(), rec, true)
				died := s.Dead()
				for i := 0; s.Dead(); i++ {
					require.Error(t, err)
					s.Heal()
					if i == 0 && tt.shop.policy.Reconcile != nil { // with keys alone, two deaths and a loss use all attempts
						s.DieAt(n%7, !done) // the second one dies too, somewhere else
					}
					err = s.worker(t, "w2").Handle(t.Context(), rec, false)
				}
				require.NoError(t, err)
				s.Heal()
				seen[s.settled(t, what, tt.tells)]++
				return died
			})
			for _, o := range tt.ends {
				assert.Positive(t, seen[o], "no crash led to %s", o)
			}
		})
	}
}

// settled holds the log, the target and the evidence against each other, and gives the outcome.
func (s *shop) settled(t *testing.T, what string, tells bool) schemas.Outcome {
	t.Helper()
	time.Sleep(time.Minute) // what was late has come
	st, left := s.state(t), s.evidence(t)
	require.NotNil(t, st.Settled, what)
	for id, n := range left {
		assert.Equal(t, 1, n, "%s: evidence %s", what, id)
	}
	probes := 0
	for _, a := range st.Attempts {
		assert.Equal(t, 1, left[settle.AttemptID("a", a.Attempt)], "%s: evidence of %v", what, a.Place())
		if a.Probe > 0 {
			probes++
		}
	}
	assert.Len(t, left, len(st.Attempts), what)
	assert.LessOrEqual(t, s.posts, len(st.Attempts)-probes, "%s: no request without a record", what)
	assert.LessOrEqual(t, s.probes, probes, "%s: no probe without a record", what)
	assert.LessOrEqual(t, s.total(), 1, "%s: effects", what)
	assert.Equal(t, settle.Attempts(st), st.Settled.Attempts, what)
	if st.Settled.Outcome == schemas.OutcomeSucceeded {
		assert.Equal(t, 1, s.total(), "%s: effects", what)
		var res schemas.HTTPResult
		require.NoError(t, json.Unmarshal(st.Settled.Result, &res))
		assert.Equal(t, res.Reconciled, res.Answer.Status == 200, what)
	}
	if tells {
		assert.Equal(t, schemas.OutcomeSucceeded, st.Settled.Outcome, what)
	}
	assert.NotEqual(t, schemas.OutcomeFailed, st.Settled.Outcome, what)
	return st.Settled.Outcome
}

// TestResponseSchemaOfAPlan: a step whose answer does not fit fails, unless the entry only warns.
func TestResponseSchemaOfAPlan(t *testing.T) {
	t.Parallel()
	for mode, want := range map[string]schemas.Outcome{
		policy.SchemaStrict: schemas.OutcomeFailed, policy.SchemaRedact: schemas.OutcomeFailed, policy.SchemaWarn: schemas.OutcomeSucceeded,
	} {
		h := newEnv()
		h.entries = []policy.Entry{{
			Name: "up", URLPrefix: "http://up.example/", Methods: []string{"PUT"},
			Contract: policy.Contract{ResponseSchema: &policy.ResponseSchema{Schema: []byte(`{"required":["id"]}`), Mode: mode}},
		}}
		rec := h.claim(t, schemas.KindPlan, schemas.PlanRequest{Snapshot: json.RawMessage(`{}`), Plan: schemas.ProposedPlan{Decisions: []schemas.PlanDecision{
			{EffectRef: "put", TargetState: json.RawMessage(`{"method":"PUT","url":"http://up.example/1","allowlist_key":"up"}`)},
		}}})
		require.NoError(t, h.worker(t, "w1").Handle(t.Context(), rec, true))
		st := harness.Load(t, h.ingressLedger(), schemas.Ref{Tenant: "default", Kind: schemas.KindPlan, ID: "a"})
		require.NotNil(t, st.Settled)
		assert.Equal(t, want, st.Settled.Outcome, mode)
		if want == schemas.OutcomeFailed {
			assert.Equal(t, schemas.ResponseSchemaInvalid, st.Settled.Code)
			assert.Contains(t, string(st.Settled.Result), "the answer does not fit the response schema of its entry")
		}
	}
}
