package rules_test

import (
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"weir/internal/ledger"
	"weir/internal/policy"
	"weir/internal/rules"
	"weir/internal/weirtest/bucket"
	"weir/internal/weirtest/fixture"
	"weir/internal/weirtest/harness"
	"weir/internal/weirtest/memlog"
	writes "weir/processors/rules"
	"weir/processors/settle"
	"weir/schemas"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const tenant = "acme"

// history is how many sets of a tenant the bucket keeps; the broker's keeps more.
const history = 16

// env is a worker without its pipeline: the executor of writes over the real
// keeper, a bucket and a log in memory.
type env struct {
	t      *testing.T
	bucket *bucket.Bucket
	log    *memlog.Log
	ledger *ledger.Ledger
	keeper *rules.Keeper
	cfg    writes.Config
	sets   writes.Sets
	now    time.Time

	policy harness.Policy
	mu     sync.Mutex
	n      int
}

func newEnv(t *testing.T) *env {
	t.Helper()
	r := &env{t: t, bucket: bucket.New(), log: memlog.New(harness.Layout(), time.Now, memlog.Hooks{}), now: time.Now().UTC().Truncate(time.Second)}
	r.bucket.Keep = history
	r.ledger = ledger.New(r.log, harness.Layout(), time.Now)
	r.keeper = rules.New(r.bucket, rules.Config{})
	r.sets = r.keeper
	r.cfg.Now = func() time.Time { return r.now }
	r.enforce(policy.Entry{Name: "api", URLPrefix: "https://api.test/v1/", Methods: []string{"GET", "POST"}})
	return r
}

func (r *env) enforce(entries ...policy.Entry) {
	r.t.Helper()
	r.policy.Put(r.t, policy.Config{Entries: entries, AllowedHosts: []string{"allowed.test"}})
}

func (r *env) newest() rules.Snapshot {
	r.t.Helper()
	s, err := r.keeper.Newest(r.t.Context(), tenant)
	require.NoError(r.t, err)
	return s
}

func (r *env) etag() string { return r.newest().Etag }

// claim accepts a write.
func (r *env) claim(o schemas.RuleOrder) *ledger.State {
	r.t.Helper()
	r.mu.Lock()
	r.n++
	id := fmt.Sprintf("rul-%d", r.n)
	r.mu.Unlock()
	if o.RequestID == "" {
		o.RequestID = "req " + id
	}
	o.Caller = "tok-1"
	return harness.Claim(r.t, r.ledger, schemas.Action{
		ID: id, Tenant: tenant, Kind: schemas.KindRule, Principal: "tok-1", AcceptedAt: r.now, Deadline: r.now.Add(time.Minute),
	}, o)
}

// begun accepts a write against the newest set, unless it names another, and has a worker begin it.
func (r *env) begun(o schemas.RuleOrder) *ledger.State {
	r.t.Helper()
	if o.IfMatch == "" {
		o.IfMatch = r.etag()
	}
	st := r.claim(o)
	r.start(st)
	return st
}

// start writes down that a worker begins, as the pipeline does.
func (r *env) start(st *ledger.State) {
	r.t.Helper()
	harness.Start(r.t, r.ledger, st)
}

// again is the action as the next worker reads it.
func (r *env) again(st *ledger.State) *ledger.State {
	r.t.Helper()
	return harness.Load(r.t, r.ledger, st.Ref)
}

// settled is embedded under a name that does not hide its field Outcome.
type settled = settle.Outcome

// ended is a write that was performed.
type ended struct {
	settled

	result schemas.RuleResult
	err    error
}

func (r *env) executor() *writes.Rules {
	return writes.New(r.sets, r.policy.InForce, harness.Recorder(r.log), r.cfg)
}

func (r *env) perform(st *ledger.State) ended {
	v, err := r.executor().Execute(r.t.Context(), st, harness.NoStop())
	e := ended{settled: v, err: err}
	e.result, _ = v.Result.(schemas.RuleResult)
	return e
}

// try carries an order out for the first time.
func (r *env) try(o schemas.RuleOrder) ended {
	r.t.Helper()
	st := r.claim(o)
	if !st.Started {
		r.start(st)
	}
	return r.perform(st)
}

// against carries an order out against the newest set.
func (r *env) against(o schemas.RuleOrder) ended {
	r.t.Helper()
	o.IfMatch = r.etag()
	e := r.try(o)
	require.NoError(r.t, e.err)
	return e
}

// do carries an order out that must succeed, against the newest set.
func (r *env) do(o schemas.RuleOrder) ended {
	r.t.Helper()
	e := r.against(o)
	require.Equal(r.t, schemas.OutcomeSucceeded, e.Outcome, "%+v", e.result.Error)
	return e
}

// verdict performs a write to its end.
func (r *env) verdict(st *ledger.State) ended {
	r.t.Helper()
	e := r.perform(st)
	require.NoError(r.t, e.err)
	return e
}

// dies performs a write whose worker dies once it is in, with no word of it anywhere else.
func (r *env) dies(st *ledger.State) {
	r.t.Helper()
	r.sets = mute{r.keeper}
	require.ErrorIs(r.t, r.perform(st).err, errDied)
	r.sets = r.keeper
}

// evidence are the records that an action has left.
func (r *env) evidence(id string) []schemas.Evidence {
	r.t.Helper()
	return harness.Evidence(r.t, r.log, id)
}

// audit is the only record of the newest action.
func (r *env) audit() (schemas.Evidence, schemas.RuleAudit) {
	r.t.Helper()
	all := r.evidence(fmt.Sprintf("rul-%d", r.n))
	require.Len(r.t, all, 1)
	return all[0], fixture.Decode[schemas.RuleAudit](r.t, all[0].Payload)
}

// delay is a rule that holds every call to api.test back.
func delay(id string) json.RawMessage {
	return json.RawMessage(`{"id":"` + id + `","type":"delay","match":{"url_pattern":"https://api.test/*"},"action":{"delay_ms":1}}`)
}

// inGroup is a rule that names its group itself.
func inGroup(rule json.RawMessage, group string) json.RawMessage {
	return json.RawMessage(fmt.Sprintf(`{"group":%q,%s`, group, rule[1:]))
}

func redirect(id, from, to string) json.RawMessage {
	return json.RawMessage(fmt.Sprintf(`{"id":%q,"type":"redirect","match":{"url_pattern":%q},"action":{"to_url":%q}}`, id, from, to))
}

func create(rule json.RawMessage) schemas.RuleOrder {
	return schemas.RuleOrder{Operation: schemas.OpRulesCreate, Rule: rule}
}

func patch(id, doc string) schemas.RuleOrder {
	return schemas.RuleOrder{Operation: schemas.OpRulesPatch, ID: id, Patch: json.RawMessage(doc)}
}

func on(operation, id string) schemas.RuleOrder {
	return schemas.RuleOrder{Operation: operation, ID: id}
}
