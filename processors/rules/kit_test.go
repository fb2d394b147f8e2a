package rules_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"weir/internal/fault"
	"weir/internal/ledger"
	"weir/internal/policy"
	"weir/internal/rules"
	"weir/internal/telemetry"
	"weir/internal/weirtest/memlog"
	"weir/processors/call"
	writes "weir/processors/rules"
	"weir/processors/settle"
	"weir/schemas"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const tenant = "acme"

// history is how many sets of a tenant the bucket keeps, as the broker's does.
const history = 64

// room is a worker without its pipeline: the performer of writes over the real
// keeper, a bucket and a log in memory.
type room struct {
	t      *testing.T
	bucket *bucket
	log    *memlog.Log
	ledger *ledger.Ledger
	keeper *rules.Keeper
	cfg    writes.Config
	sets   writes.Sets
	now    time.Time

	mu     sync.Mutex
	policy *policy.Policy
	n      int
}

func newRoom(t *testing.T) *room {
	t.Helper()
	layout := schemas.Layout{Partitions: 1, Lanes: 8}
	r := &room{t: t, bucket: &bucket{history: history}, log: memlog.New(layout, time.Now, memlog.Hooks{}), now: time.Now().UTC().Truncate(time.Second)}
	r.ledger = ledger.New(r.log, layout, time.Now)
	r.keeper = rules.New(r.bucket, rules.Config{})
	r.sets = r.keeper
	r.cfg.Now = func() time.Time { return r.now }
	r.enforce(policy.Entry{Name: "api", URLPrefix: "https://api.test/v1/", Methods: []string{"GET", "POST"}})
	return r
}

func (r *room) enforce(entries ...policy.Entry) {
	r.t.Helper()
	p, err := policy.Compile(policy.Config{Entries: entries, AllowedHosts: []string{"allowed.test"}})
	require.NoError(r.t, err)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.policy = p
}

func (r *room) inForce() *policy.Policy {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.policy
}

func (r *room) newest() rules.Snapshot {
	r.t.Helper()
	s, err := r.keeper.Newest(r.t.Context(), tenant)
	require.NoError(r.t, err)
	return s
}

func (r *room) etag() string { return r.newest().Etag }

// claim accepts a write.
func (r *room) claim(o schemas.RuleOrder) *ledger.State {
	r.t.Helper()
	r.mu.Lock()
	r.n++
	id := fmt.Sprintf("rul-%d", r.n)
	r.mu.Unlock()
	if o.RequestID == "" {
		o.RequestID = "req " + id
	}
	o.Caller = "tok-1"
	payload, err := ledger.Encode(o)
	require.NoError(r.t, err)
	st, _, err := r.ledger.Claim(r.t.Context(), schemas.Action{
		ID: id, Tenant: tenant, Kind: schemas.KindRule, Fingerprint: "f", Principal: "tok-1",
		AcceptedAt: r.now, Deadline: r.now.Add(time.Minute), Payload: payload,
	})
	require.NoError(r.t, err)
	return st
}

// start writes down that a worker begins, as the pipeline does.
func (r *room) start(st *ledger.State) {
	r.t.Helper()
	require.NoError(r.t, r.ledger.Append(r.t.Context(), st, schemas.Event{Type: schemas.EventStarted, Started: &schemas.Started{Worker: "w1"}}))
}

// again is the action as the next worker reads it.
func (r *room) again(st *ledger.State) *ledger.State {
	r.t.Helper()
	again, err := r.ledger.Load(r.t.Context(), st.Ref)
	require.NoError(r.t, err)
	return again
}

// ended is a write that was performed.
type ended struct {
	settle.Verdict

	result schemas.RuleResult
	err    error
}

func (r *room) performer() *writes.Rules {
	recorder := settle.NewRecorder(publisher{log: r.log}, r.log, telemetry.NewMetrics())
	return writes.New(r.sets, r.inForce, recorder, r.cfg)
}

func (r *room) perform(st *ledger.State) ended {
	v, err := r.performer().Perform(r.t.Context(), st, asked{})
	e := ended{Verdict: v, err: err}
	e.result, _ = v.Result.(schemas.RuleResult)
	return e
}

// try carries an order out for the first time.
func (r *room) try(o schemas.RuleOrder) ended {
	r.t.Helper()
	st := r.claim(o)
	if !st.Started {
		r.start(st)
	}
	return r.perform(st)
}

// do carries an order out that must succeed, against the newest set.
func (r *room) do(o schemas.RuleOrder) ended {
	r.t.Helper()
	o.IfMatch = r.etag()
	e := r.try(o)
	require.NoError(r.t, e.err)
	require.Equal(r.t, schemas.OutcomeSucceeded, e.Outcome, "%+v", e.result.Error)
	return e
}

// evidence are the records that an action has left.
func (r *room) evidence(id string) (all []schemas.Evidence) {
	r.t.Helper()
	records, err := r.log.Range(r.t.Context(), schemas.EvidenceStream, schemas.EvidenceFilter(tenant, "", "", id, false), 1, 1000)
	require.NoError(r.t, err)
	for _, rec := range records {
		var e schemas.Evidence
		require.NoError(r.t, json.Unmarshal(rec.Data, &e))
		all = append(all, e)
	}
	return all
}

// audit is the only record of the newest action.
func (r *room) audit() (schemas.Evidence, schemas.RuleAudit) {
	r.t.Helper()
	all := r.evidence(fmt.Sprintf("rul-%d", r.n))
	require.Len(r.t, all, 1)
	var a schemas.RuleAudit
	require.NoError(r.t, json.Unmarshal(all[0].Payload, &a))
	return all[0], a
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

// bucket is a store of rule sets in memory, which keeps so many of each.
type bucket struct {
	history int

	mu      sync.Mutex
	seq     uint64
	records []schemas.Record
	// putting is called before each write, without the lock. What it returns is the
	// write's error; stored says that it is stored all the same.
	putting func() (err error, stored bool)
	reading error
}

func (b *bucket) Put(_ context.Context, key string, value []byte, last uint64) (uint64, error) {
	var told error
	b.mu.Lock()
	putting := b.putting
	b.mu.Unlock()
	if putting != nil {
		err, stored := putting()
		if err != nil && !stored {
			return 0, err
		}
		told = err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	newest := uint64(0)
	kept := 0
	for _, r := range b.records {
		if r.Subject == key {
			newest, kept = r.Seq, kept+1
		}
	}
	if newest != last {
		return 0, fault.ErrFenced
	}
	b.seq++
	b.records = append(b.records, schemas.Record{Subject: key, Seq: b.seq, Data: value})
	for i := 0; kept >= b.history; i++ {
		if b.records[i].Subject == key {
			b.records = append(b.records[:i:i], b.records[i+1:]...)
			break
		}
	}
	return b.seq, told
}

func (b *bucket) find(match func(schemas.Record) bool, first bool) (found schemas.Record, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.reading != nil {
		return found, b.reading
	}
	err = fault.ErrNotFound
	for _, r := range b.records {
		if match(r) {
			found, err = r, nil
			if first {
				break
			}
		}
	}
	return found, err
}

func (b *bucket) Get(_ context.Context, key string) (schemas.Record, error) {
	return b.find(func(r schemas.Record) bool { return r.Subject == key }, false)
}

func (b *bucket) Next(_ context.Context, key string, after uint64) (schemas.Record, error) {
	return b.find(func(r schemas.Record) bool { return r.Subject == key && r.Seq > after }, true)
}

func (b *bucket) Read(context.Context, uint64, int) ([]schemas.Record, error) { return nil, nil }

func (b *bucket) Watch(func(schemas.Record), func()) (func(), error) { return func() {}, nil }

func (b *bucket) Barrier(context.Context) error { return nil }

// hook puts another function before each write.
func (b *bucket) hook(f func() (error, bool)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.putting = f
}

// overwrite puts bytes in the place of what is newest of a key.
func (b *bucket) overwrite(value string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.seq++
	b.records = append(b.records, schemas.Record{Subject: tenant, Seq: b.seq, Data: []byte(value)})
}

// heap holds one set as it is given, and compiles nothing.
type heap struct {
	doc      schemas.RuleSet
	revision uint64
	size     int
	err      error // of each write
}

func (h *heap) etag() string { return fmt.Sprintf("etag-%d-0123456789abcdef", h.revision) }

func (h *heap) Newest(context.Context, string) (rules.Snapshot, error) {
	return rules.Snapshot{Doc: h.doc, Revision: h.revision, Etag: h.etag()}, nil
}

func (h *heap) After(context.Context, string, uint64) (rules.Snapshot, error) {
	return rules.Snapshot{}, fault.ErrNotFound
}

func (h *heap) Reset(context.Context, string, string) (rules.Snapshot, error) {
	return rules.Snapshot{}, fault.ErrFenced
}

func (h *heap) Put(ctx context.Context, tenant string, doc schemas.RuleSet, revision uint64) (rules.Snapshot, error) {
	data, err := ledger.Encode(doc)
	switch {
	case err != nil:
		return rules.Snapshot{}, err
	case revision != h.revision:
		return rules.Snapshot{}, fault.ErrFenced
	case len(data) > schemas.MaxRuleSet:
		return rules.Snapshot{}, fault.ErrTooLarge
	case h.err != nil:
		return rules.Snapshot{}, h.err
	}
	h.doc, h.size, h.revision = doc, len(data), h.revision+1
	return h.Newest(ctx, tenant)
}

// publisher writes what is published into the log.
type publisher struct {
	message.Publisher

	log *memlog.Log
}

func (p publisher) Publish(topic string, messages ...*message.Message) error {
	for _, m := range messages {
		if _, err := p.log.Append(m.Context(), schemas.Append{Subject: topic, Data: m.Payload}); err != nil {
			return err
		}
	}
	return nil
}

// asked says whether a request to stop has come.
type asked struct {
	call.Stop

	yes bool
}

func (a asked) Requested() bool { return a.yes }
