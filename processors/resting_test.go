package processors_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/ledger"
	"weir/internal/policy"
	"weir/internal/telemetry"
	"weir/internal/weirtest/rulebook"
	"weir/internal/weirtest/table"
	"weir/processors"
	"weir/processors/admit"
	"weir/processors/call"
	"weir/processors/executor"
	"weir/processors/guard"
	"weir/processors/park"
	"weir/processors/settle"
	"weir/schemas"
)

// alarm is a Waker that notes when it is to wake whom.
type alarm struct {
	mu      sync.Mutex
	at      map[string]time.Time
	setting func() // runs while one is set
}

func (a *alarm) Wake(_ context.Context, ref schemas.Ref, at time.Time) error {
	if a.setting != nil {
		a.setting()
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.at[ref.ID] = at
	return nil
}

// dormitory is a pipeline whose log hands every nudge to it, as the broker does.
type dormitory struct {
	*house
	alarm    *alarm
	ledger   *ledger.Ledger
	pipeline *processors.Pipeline
	handled  chan error // what became of each nudge
}

func newDormitory(t *testing.T) *dormitory {
	t.Helper()
	d := &dormitory{house: newHouse(), alarm: &alarm{at: map[string]time.Time{}}, handled: make(chan error, 1000)}
	d.ledger = ledger.New(d.log, layout, time.Now)
	d.pipeline = d.node(t, "w1", true)
	stop, err := d.log.Live(schemas.LiveRoot+".>", func(r schemas.Record) {
		if _, tail, _ := schemas.ParseSubject(r.Subject); tail == schemas.TailWake {
			d.handled <- d.pipeline.Handle(context.Background(), r, true)
		}
	}, nil)
	require.NoError(t, err)
	t.Cleanup(stop)
	return d
}

// node is one of the processes that share the log.
func (d *dormitory) node(t *testing.T, name string, alone bool) *processors.Pipeline {
	t.Helper()
	p, err := policy.Compile(policy.Config{Entries: []policy.Entry{{Name: "up", URLPrefix: "http://up.example/", Methods: []string{"GET", "POST"}}}})
	require.NoError(t, err)
	barrier := func(context.Context) error { return nil }
	metrics := telemetry.NewMetrics()
	recorder := settle.NewRecorder(publisher{d.log}, d.log, metrics)
	caller := call.New(d.ledger, guard.New(func() *policy.Policy { return p }, &d.book), d.house, call.Config{Worker: name, Barrier: barrier})
	return processors.NewPipeline(d.ledger, d.alarm, name, processors.Stages{
		Admit:      admit.New(d.ledger, admit.Config{Worker: name, Alone: alone}),
		Performers: map[schemas.Kind]processors.Performer{schemas.KindHTTP: executor.New(caller, recorder, call.Answers{Blobs: d.ledger})},
		Caller:     caller, Evidence: recorder, Settle: settle.New(d.ledger, barrier, metrics),
		Park: park.New(publisher{d.log}, metrics, slog.New(slog.DiscardHandler)), Barrier: barrier,
	})
}

// put claims an action of a tenant and handles it.
func (d *dormitory) put(t *testing.T, tenant, id string) {
	t.Helper()
	require.NoError(t, d.pipeline.Handle(t.Context(), d.store(t, tenant, id, "POST"), true))
}

// store claims an action of a tenant and gives its accepted record.
func (d *dormitory) store(t *testing.T, tenant, id, method string) schemas.Record {
	t.Helper()
	payload, err := json.Marshal(schemas.HTTPCall{Method: method, URL: "http://up.example/" + id})
	require.NoError(t, err)
	ref := schemas.Ref{Tenant: tenant, Kind: schemas.KindHTTP, ID: id}
	_, _, err = d.ledger.Claim(t.Context(), schemas.Action{
		ID: id, Tenant: tenant, Kind: ref.Kind, Fingerprint: "f",
		AcceptedAt: time.Now().UTC(), Deadline: time.Now().Add(10 * time.Minute).UTC(), Payload: payload,
	})
	require.NoError(t, err)
	rec, err := d.log.Last(t.Context(), schemas.LogStream(0), layout.Subject(ref, schemas.TailAccepted))
	require.NoError(t, err)
	return rec
}

func (d *dormitory) state(t *testing.T, tenant, id string) *ledger.State {
	t.Helper()
	st, err := d.ledger.Load(t.Context(), schemas.Ref{Tenant: tenant, Kind: schemas.KindHTTP, ID: id})
	require.NoError(t, err)
	return st
}

// TestRulesWakeWhatTheyHeldBack: the actions of the tenant whose rules have changed
// are looked at at once, and no others.
func TestRulesWakeWhatTheyHeldBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDormitory(t)
		start := time.Now()
		d.book.Put(t, rulebook.Delay("d", anywhere, 60_000))
		for _, id := range []string{"one", "two"} {
			d.put(t, "mine", id)
		}
		d.put(t, "theirs", "three")
		st := d.state(t, "mine", "one")
		require.NotNil(t, st.Waiting)
		assert.Equal(t, schemas.WaitRule, st.Waiting.For)
		assert.Equal(t, start.Add(time.Minute).UTC(), st.Waiting.Until)
		assert.Equal(t, start.Add(time.Minute), d.alarm.at["one"])
		assert.Zero(t, d.sent)

		time.Sleep(5 * time.Second)
		d.book.Off(t)
		d.pipeline.RulesChanged("mine")
		require.NoError(t, <-d.handled)
		require.NoError(t, <-d.handled)
		synctest.Wait()
		assert.Empty(t, d.handled)
		assert.Equal(t, 2, d.sent)
		assert.Equal(t, start.Add(5*time.Second), time.Now())
		for _, id := range []string{"one", "two"} {
			assert.Equal(t, schemas.OutcomeSucceeded, d.state(t, "mine", id).Settled.Outcome)
		}
		assert.Nil(t, d.state(t, "theirs", "three").Settled)

		d.pipeline.RulesChanged("mine")
		d.pipeline.RulesChanged("nobody")
		synctest.Wait()
		assert.Empty(t, d.handled, "they are told once")
		d.pipeline.RulesChanged("theirs")
		require.NoError(t, <-d.handled)
	})
}

// TestRulesThatChangeWhileItGoesToRest are not missed, whenever they come, and find
// the action free.
func TestRulesThatChangeWhileItGoesToRest(t *testing.T) {
	t.Parallel()
	table.Bubble(t, map[string]bool{"and it is told": true, "and the telling was before": false}, func(t *testing.T, told bool) {
		d := newDormitory(t)
		d.book.Put(t, rulebook.Delay("d", anywhere, 60_000))
		d.alarm.setting = func() {
			d.book.Off(t)
			if told {
				d.pipeline.RulesChanged("mine")
			}
		}
		d.put(t, "mine", "one")
		require.NoError(t, <-d.handled, "it is not turned away as under way")
		assert.Equal(t, schemas.OutcomeSucceeded, d.state(t, "mine", "one").Settled.Outcome)
	})
}

// TestWokenByOthers: an action that another has woken is none to be woken.
func TestWokenByOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDormitory(t)
		d.book.Put(t, rulebook.Delay("d", anywhere, 60_000))
		d.put(t, "mine", "one")
		ref := schemas.Ref{Tenant: "mine", Kind: schemas.KindHTTP, ID: "one"}
		time.Sleep(time.Second)
		require.NoError(t, d.ledger.Nudge(t.Context(), ref)) // too early: it rests again
		require.NoError(t, <-d.handled)
		waits := 0
		for _, ev := range d.state(t, "mine", "one").Events {
			if ev.Waiting != nil {
				waits++
			}
		}
		assert.Equal(t, 1, waits, "for the same, until the same")
		time.Sleep(time.Minute)
		require.NoError(t, d.ledger.Nudge(t.Context(), ref))
		require.NoError(t, <-d.handled)
		assert.Equal(t, 1, d.sent)
		d.pipeline.RulesChanged("mine")
		synctest.Wait()
		assert.Empty(t, d.handled)
	})
}
