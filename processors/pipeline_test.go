package processors_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/fault"
	"weir/internal/ledger"
	"weir/internal/policy"
	"weir/internal/retry"
	"weir/internal/telemetry"
	"weir/internal/weirtest/memlog"
	"weir/internal/weirtest/rulebook"
	"weir/internal/weirtest/table"
	"weir/processors"
	"weir/processors/admit"
	"weir/processors/call"
	"weir/processors/executor"
	"weir/processors/guard"
	"weir/processors/park"
	"weir/processors/plans"
	"weir/processors/settle"
	"weir/schemas"
)

var layout = schemas.Layout{Partitions: 1, Lanes: 8}

// house is a log and a target that outlive the workers that use them.
type house struct {
	log *memlog.Log

	mu     sync.Mutex
	dead   bool      // the worker at hand has crashed: it can do nothing any more
	left   int       // appends until it does; negative: never
	kept   bool      // whether the append it dies on is stored
	sent   int       // requests that reached the target
	opened int       // connections to it that were asked for
	deaf   bool      // no event is acknowledged, though it is stored
	late   time.Time // until when a replica answers that shows nothing

	during func()                     // runs while the first request is out
	refuse func(schemas.Append) error // what the log says to an append; nil: it takes all

	book rulebook.Book // the traffic rules

	over func(ledger.Log) ledger.Log // what the workers have between them and the log; nil: nothing
}

var errDead = errors.New("the worker is dead")

func newHouse() *house {
	h := &house{left: -1}
	h.log = memlog.New(layout, time.Now, memlog.Hooks{
		Before: func(m schemas.Append) error {
			h.mu.Lock()
			defer h.mu.Unlock()
			if h.dead {
				return errDead
			}
			if h.refuse != nil {
				if err := h.refuse(m); err != nil {
					return err
				}
			}
			if h.left == 0 && !h.kept {
				h.dead = true
				return errDead
			}
			return nil
		},
		After: func(m schemas.Append, _ uint64) error {
			h.mu.Lock()
			defer h.mu.Unlock()
			if h.left--; h.left < 0 && h.kept && h.left == -1 {
				h.dead = true
				return errDead
			}
			if h.deaf && strings.HasPrefix(m.Subject, schemas.LogRoot) {
				return fault.ErrUnavailable
			}
			return nil
		},
		Late: func() int {
			h.mu.Lock()
			defer h.mu.Unlock()
			if time.Now().Before(h.late) {
				return 1000
			}
			return 0
		},
		Read: func() error {
			h.mu.Lock()
			defer h.mu.Unlock()
			if h.dead {
				return errDead
			}
			return nil
		},
	})
	return h
}

// crashAt has the next worker die at its n-th append, counted from 0.
func (h *house) crashAt(n int, kept bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.left, h.kept, h.dead = n, kept, false
}

// heal lets the next worker live.
func (h *house) heal() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.left, h.kept, h.dead = -1_000_000, false, false
}

func (h *house) Open(_ context.Context, p guard.Pass) (call.Exchange, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.opened++
	return exchange{h, p.Mocked()}, nil
}

type exchange struct {
	h      *house
	mocked bool
}

func (exchange) Close() {}

func (exchange) Renew(guard.Pass) error { return nil }

func (exchange) Begun() <-chan struct{} { return begun }

// begun is that of an exchange which begins at once.
var begun = func() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

func (x exchange) Do(context.Context) (call.Reply, error) {
	x.h.mu.Lock()
	defer x.h.mu.Unlock()
	if during := x.h.during; during != nil {
		x.h.during = nil
		x.h.mu.Unlock()
		during()
		x.h.mu.Lock()
	}
	if x.h.dead {
		return call.Reply{}, &fault.Call{Code: schemas.UpstreamReset}
	}
	if !x.mocked {
		x.h.sent++
	}
	return call.Reply{Answer: schemas.Answer{Status: 200, JSON: true, Hash: "x", Body: json.RawMessage(`{"ok":true}`)}}, nil
}

// publisher stores messages without looking at their ids: what keeps a record
// from being stored twice must not be the broker's window alone.
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

type nowhere struct{}

func (nowhere) Wake(context.Context, schemas.Ref, time.Time) error { return nil }

// worker is a pipeline of its own, as a new process has it.
func (h *house) worker(t *testing.T, name string) *processors.Pipeline {
	t.Helper()
	p, err := policy.Compile(policy.Config{Entries: []policy.Entry{{
		Name: "up", URLPrefix: "http://up.example/", Methods: []string{"GET", "PUT", "POST"},
		UpstreamIdempotency: &policy.Idempotency{TTL: time.Hour},
	}}})
	require.NoError(t, err)
	barrier := func(context.Context) error {
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.dead {
			return errDead
		}
		return nil
	}
	metrics := telemetry.NewMetrics()
	log := ledger.Log(h.log)
	if h.over != nil {
		log = h.over(log)
	}
	l := ledger.New(log, layout, time.Now)
	recorder := settle.NewRecorder(publisher{h.log}, h.log, metrics)
	caller := call.New(l, guard.New(func() *policy.Policy { return p }, &h.book), h, call.Config{
		Worker: name, Barrier: barrier, Schedule: retry.Schedule{Attempts: 3},
	})
	return processors.NewPipeline(l, nowhere{}, name, processors.Stages{
		Admit: admit.New(l, admit.Config{Worker: name, Alone: true}),
		Performers: map[schemas.Kind]processors.Performer{
			schemas.KindHTTP: executor.New(caller, recorder, call.Answers{Blobs: l}),
			schemas.KindPlan: plans.New(caller, recorder),
		},
		Caller: caller, Evidence: recorder,
		Settle: settle.New(l, barrier, metrics),
		Park:   park.New(publisher{h.log}, metrics, slog.New(slog.DiscardHandler)), Barrier: barrier,
	})
}

// accept claims an action for a call and returns its accepted record.
func (h *house) accept(t *testing.T, c schemas.HTTPCall) schemas.Record {
	t.Helper()
	return h.claim(t, schemas.KindHTTP, c)
}

func (h *house) claim(t *testing.T, kind schemas.Kind, doc any) schemas.Record {
	t.Helper()
	payload, err := ledger.Encode(doc)
	require.NoError(t, err)
	ref := schemas.Ref{Tenant: "default", Kind: kind, ID: "a"}
	_, _, err = ledger.New(h.log, layout, time.Now).Claim(t.Context(), schemas.Action{
		ID: ref.ID, Tenant: ref.Tenant, Kind: ref.Kind, Fingerprint: "f",
		AcceptedAt: time.Now().UTC(), Deadline: time.Now().Add(time.Minute).UTC(), Payload: payload,
	})
	require.NoError(t, err)
	rec, err := h.log.Last(t.Context(), schemas.LogStream(0), layout.Subject(ref, schemas.TailAccepted))
	require.NoError(t, err)
	return rec
}

// evidence reads all records back by id, with how often each is stored.
func (h *house) evidence(t *testing.T) map[string]int {
	t.Helper()
	records, err := h.log.Range(t.Context(), schemas.EvidenceStream, schemas.EvidenceRoot+".>", 1, 1000)
	require.NoError(t, err)
	found := map[string]int{}
	for _, r := range records {
		var e schemas.Evidence
		require.NoError(t, json.Unmarshal(r.Data, &e))
		found[e.ID]++
	}
	return found
}

// TestCrashAtEveryAppend kills the worker at each append it makes, stored or
// not, and has another take over: one terminal event, no send too many, no
// evidence missing or double.
func TestCrashAtEveryAppend(t *testing.T) {
	t.Parallel()
	calls := map[string]struct {
		call schemas.HTTPCall
		most int
	}{
		"safe":       {schemas.HTTPCall{Method: "GET", URL: "http://up.example/x"}, 3},
		"idempotent": {schemas.HTTPCall{Method: "PUT", URL: "http://up.example/x"}, 3},
		"keyed":      {schemas.HTTPCall{Method: "POST", URL: "http://up.example/x", IdempotencyKey: "k"}, 3},
		"once":       {schemas.HTTPCall{Method: "POST", URL: "http://up.example/x"}, 1},
		"denied":     {schemas.HTTPCall{Method: "GET", URL: "http://elsewhere.example/"}, 0},
		"mocked":     {schemas.HTTPCall{Method: "POST", URL: "http://up.example/mocked"}, 0},
	}
	branches := map[schemas.Outcome]int{}
	for name, tt := range calls {
		for _, kept := range []bool{false, true} {
			for n := 0; ; n++ {
				h := newHouse()
				h.book.Put(t, rulebook.Mock("m", "http://up.example/mocked", 200, ""))
				rec := h.accept(t, tt.call)
				h.crashAt(n, kept)
				first := h.worker(t, "w1").Handle(t.Context(), rec, true)
				if !h.dead {
					require.NoError(t, first)
					require.Greater(t, n, 2, "the worker appended too little for a test")
					break
				}
				require.Error(t, first)
				h.heal()
				require.NoError(t, h.worker(t, "w2").Handle(t.Context(), rec, false))
				outcome := h.check(t, fmt.Sprintf("%s, crash at %d, kept %v", name, n, kept), tt.most)
				branches[outcome]++
				if name == "mocked" {
					assert.Equal(t, schemas.OutcomeSucceeded, outcome, "what was not sent is never in doubt")
				}
			}
		}
	}
	for _, o := range []schemas.Outcome{schemas.OutcomeSucceeded, schemas.OutcomeUnknown, schemas.OutcomeDenied} {
		assert.Positive(t, branches[o], "no crash led to %s: the test sees less than it claims", o)
	}
}

// check holds the log, the target and the evidence against each other.
func (h *house) check(t *testing.T, what string, most int) schemas.Outcome {
	t.Helper()
	st, err := ledger.New(h.log, layout, time.Now).Load(t.Context(), schemas.Ref{Tenant: "default", Kind: schemas.KindHTTP, ID: "a"})
	require.NoError(t, err, what)
	settled := 0
	for _, e := range st.Events {
		if e.Type == schemas.EventSettled {
			settled++
		}
	}
	require.Equal(t, 1, settled, "%s: terminal events", what)
	assert.LessOrEqual(t, h.sent, most, "%s: requests", what)
	for id, n := range h.evidence(t) {
		assert.Equal(t, 1, n, "%s: evidence %s", what, id)
	}
	for _, a := range st.Attempts {
		assert.Equal(t, 1, h.evidence(t)[settle.AttemptID("a", a.Attempt)], "%s: evidence of attempt %d", what, a.Number)
	}
	switch st.Settled.Outcome {
	case schemas.OutcomeSucceeded:
		assert.Equal(t, st.Attempts[0].Mocked(), h.sent == 0, what)
	case schemas.OutcomeDenied:
		assert.Zero(t, h.sent, what)
		assert.Equal(t, 1, h.evidence(t)[settle.DenialID("a", 0, 0)], what)
	default:
	}
	return st.Settled.Outcome
}

// TestCrashInAPlan does the same with a plan of four decisions: none is carried
// out twice, and the closing record stands once.
func TestCrashInAPlan(t *testing.T) {
	t.Parallel()
	target := func(method, url string) json.RawMessage {
		return json.RawMessage(fmt.Sprintf(`{"method":%q,"url":%q,"allowlist_key":"up"}`, method, url))
	}
	plan := schemas.PlanRequest{Snapshot: json.RawMessage(`{}`), Plan: schemas.ProposedPlan{Decisions: []schemas.PlanDecision{
		{EffectRef: "put", TargetState: target("PUT", "http://up.example/1")},
		{EffectRef: "denied", TargetState: target("GET", "http://elsewhere.example/")},
		{EffectRef: "unreadable", TargetState: json.RawMessage(`{}`)},
		{EffectRef: "get", TargetState: target("GET", "http://up.example/2")},
	}}}
	ref := schemas.Ref{Tenant: "default", Kind: schemas.KindPlan, ID: "a"}
	for _, kept := range []bool{false, true} {
		for n := 0; ; n++ {
			what := fmt.Sprintf("crash at %d, kept %v", n, kept)
			h := newHouse()
			rec := h.claim(t, schemas.KindPlan, plan)
			h.crashAt(n, kept)
			err := h.worker(t, "w1").Handle(t.Context(), rec, true)
			died := h.dead
			h.heal()
			if died {
				require.Error(t, err, what)
				require.NoError(t, h.worker(t, "w2").Handle(t.Context(), rec, false), what)
			}
			st, err := ledger.New(h.log, layout, time.Now).Load(t.Context(), ref)
			require.NoError(t, err)
			require.NotNil(t, st.Settled, what)
			var result schemas.PlanResult
			require.NoError(t, json.Unmarshal(st.Settled.Result, &result))
			assert.Equal(t, "partial", result.Report.Status, what)
			assert.Len(t, result.Report.Errors, 2, what)
			assert.LessOrEqual(t, h.sent, 3, what)
			records := h.evidence(t)
			for id, times := range records {
				assert.Equal(t, 1, times, "%s: evidence %s", what, id)
			}
			assert.Equal(t, 1, records[settle.ClosingID("a")], what)
			assert.Equal(t, 1, records[settle.DenialID("a", 1, 0)], what)
			assert.Equal(t, 1, records[settle.DenialID("a", 2, 0)], what)
			if !died {
				assert.Equal(t, 2, h.sent)
				require.Greater(t, n, 8)
				break
			}
		}
	}
}

func TestSettledIsLeftAlone(t *testing.T) {
	t.Parallel()
	h := newHouse()
	rec := h.accept(t, schemas.HTTPCall{Method: "POST", URL: "http://up.example/x"})
	for i := range 3 { // the first delivery, one that claims to be the first, one that does not
		require.NoError(t, h.worker(t, strconv.Itoa(i)).Handle(t.Context(), rec, i < 2))
	}
	assert.Equal(t, 1, h.sent)
	assert.Equal(t, schemas.OutcomeSucceeded, h.check(t, "delivered three times", 1))
}

// TestTooLargeEnds: a record that the log will never take ends its action instead
// of bringing it back for ever.
func TestTooLargeEnds(t *testing.T) {
	t.Parallel()
	h := newHouse()
	rec := h.accept(t, schemas.HTTPCall{Method: "GET", URL: "http://up.example/x"})
	h.refuse = func(m schemas.Append) error {
		if strings.HasPrefix(m.Subject, schemas.EvidenceRoot) {
			return fault.ErrTooLarge
		}
		return nil
	}
	require.NoError(t, h.worker(t, "w1").Handle(t.Context(), rec, true))
	st, err := ledger.New(h.log, layout, time.Now).Load(t.Context(), schemas.Ref{Tenant: "default", Kind: schemas.KindHTTP, ID: "a"})
	require.NoError(t, err)
	require.NotNil(t, st.Settled)
	assert.Equal(t, schemas.OutcomeFailed, st.Settled.Outcome)
}

// TestCondemnWaitsForTheLog: an action that cannot be read is not acknowledged.
func TestCondemnWaitsForTheLog(t *testing.T) {
	t.Parallel()
	h := newHouse()
	rec := h.accept(t, schemas.HTTPCall{Method: "GET", URL: "http://up.example/x"})
	why := &fault.Parked{Code: schemas.Poison, Reason: "again and again"}
	h.dead = true // nothing can be read
	w := h.worker(t, "w1")
	require.Error(t, w.Condemn(t.Context(), rec, why))
	h.heal()
	require.NoError(t, w.Condemn(t.Context(), rec, why))
	st, err := ledger.New(h.log, layout, time.Now).Load(t.Context(), schemas.Ref{Tenant: "default", Kind: schemas.KindHTTP, ID: "a"})
	require.NoError(t, err)
	require.NotNil(t, st.Settled)
	assert.Equal(t, schemas.Poison, st.Settled.Code)
	require.NoError(t, w.Condemn(t.Context(), rec, why), "what has settled is left alone")
}

// TestALargeMessageIsParked: its letter fits into a message of any server.
func TestALargeMessageIsParked(t *testing.T) {
	t.Parallel()
	h := newHouse()
	ref := schemas.Ref{Tenant: "default", Kind: schemas.KindHTTP, ID: "a"}
	large := bytes.Repeat([]byte("["), 1<<20)
	_, err := h.log.Append(t.Context(), schemas.Append{Subject: layout.Subject(ref, schemas.TailAccepted), Data: large})
	require.NoError(t, err)
	rec, err := h.log.Last(t.Context(), schemas.LogStream(0), layout.Subject(ref, schemas.TailAccepted))
	require.NoError(t, err)
	require.NoError(t, h.worker(t, "w1").Handle(t.Context(), rec, true))
	dead, err := h.log.Range(t.Context(), schemas.DeadStream, schemas.DeadRoot+".>", 1, 10)
	require.NoError(t, err)
	require.Len(t, dead, 1)
	assert.Less(t, len(dead[0].Data), 1<<20)
	var letter schemas.DeadLetter
	require.NoError(t, json.Unmarshal(dead[0].Data, &letter))
	assert.Equal(t, large[:512<<10], letter.Data)
	assert.Contains(t, letter.Reason, "the first 524288 of its 1048576 bytes")
}

func TestPoisonIsParkedAndSettled(t *testing.T) {
	t.Parallel()
	table.Run(t, map[string]string{
		"not JSON":        `{`,
		"no action":       `{"v":1,"n":1,"type":"accepted"}`,
		"unknown version": `{"v":99,"n":1,"type":"accepted","action":{}}`,
		"not a call":      `{"v":1,"n":1,"type":"accepted","action":{"id":"a","tenant":"default","kind":"http","payload":[1]}}`,
	}, func(t *testing.T, data string) {
		h := newHouse()
		ref := schemas.Ref{Tenant: "default", Kind: schemas.KindHTTP, ID: "a"}
		_, err := h.log.Append(t.Context(), schemas.Append{Subject: layout.Subject(ref, schemas.TailAccepted), Data: []byte(data)})
		require.NoError(t, err)
		rec, err := h.log.Last(t.Context(), schemas.LogStream(0), layout.Subject(ref, schemas.TailAccepted))
		require.NoError(t, err)
		require.NoError(t, h.worker(t, "w1").Handle(t.Context(), rec, true))

		dead, err := h.log.Range(t.Context(), schemas.DeadStream, schemas.DeadRoot+".>", 1, 10)
		require.NoError(t, err)
		require.Len(t, dead, 1)
		st, err := ledger.New(h.log, layout, time.Now).Load(t.Context(), ref)
		require.NoError(t, err)
		require.NotNil(t, st.Settled)
		assert.Equal(t, schemas.OutcomeFailed, st.Settled.Outcome)
		assert.Equal(t, schemas.Poison, st.Settled.Code)
		assert.Zero(t, h.sent)
	})
}
