//go:build e2e

package corpus_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	executoringress "weir/ingress/executor"
	"weir/internal/config"
	"weir/internal/ledger"
	"weir/internal/outbound"
	"weir/internal/policy"
	"weir/internal/redact"
	"weir/internal/secrets"
	"weir/internal/telemetry"
	"weir/internal/weirtest/memlog"
	"weir/internal/weirtest/upstream"
	"weir/processors"
	"weir/processors/admit"
	"weir/processors/call"
	"weir/processors/call/direct"
	"weir/processors/executor"
	"weir/processors/guard"
	"weir/processors/park"
	"weir/processors/plans"
	"weir/processors/settle"
	"weir/schemas"
)

// crashPoints say when a worker dies: the moment before or after the log has
// stored an event, or on the wire. Nothing that it does afterwards arrives.
var crashPoints = map[string]*crashPoint{
	"before_intent":             {before: schemas.EventAttempt},
	"after_intent":              {after: schemas.EventAttempt},
	"after_first_byte":          {wire: true, first: true},
	"after_last_byte":           {wire: true},
	"after_response":            {before: schemas.EventAttempted},
	"after_result":              {after: schemas.EventAttempted},
	"before_terminal":           {before: schemas.EventSettled},
	"after_terminal_before_ack": {after: schemas.EventSettled},
}

type crashPoint struct {
	before, after schemas.EventType
	wire, first   bool
}

var errCrashed = errors.New("the worker has crashed")

var crashLayout = schemas.Layout{Partitions: 1, Lanes: 8}

// site is a log and a far side that outlive the worker that dies on them.
type site struct {
	log   *memlog.Log
	stage *stage
	point *crashPoint

	mu   sync.Mutex
	dead bool
	over bool // it has died once: the next worker lives
}

func newSite(s *stage, p *crashPoint) *site {
	w := &site{stage: s, point: p}
	w.log = memlog.New(crashLayout, time.Now, memlog.Hooks{
		Before: func(m schemas.Append) error { return w.reached(m, p.before) },
		After:  func(m schemas.Append, _ uint64) error { return w.reached(m, p.after) },
		Read:   w.alive,
	})
	return w
}

// reached dies if the message is an event of the type that the point is about.
func (w *site) reached(m schemas.Append, at schemas.EventType) error {
	var ev schemas.Event
	if at != "" && json.Unmarshal(m.Data, &ev) == nil && ev.Type == at {
		w.die()
	}
	return w.alive()
}

func (w *site) die() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.dead = w.dead || !w.over
	w.over = true
}

func (w *site) revive() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.dead = false
}

func (w *site) alive() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.dead {
		return errCrashed
	}
	return nil
}

func (w *site) barrier(context.Context) error { return w.alive() }

// dial gives a connection on which the worker may die.
func (w *site) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := w.stage.network.Dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return &mortal{Conn: conn, site: w}, nil
}

// mortal is a connection of a worker that may die: once the request has left,
// or half of its first write.
type mortal struct {
	net.Conn
	site *site
	out  int // records of TLS that carry the request

	// leaving is held while the request leaves: no answer to it is seen before
	// the worker has died of sending it, however quick the upstream is.
	leaving sync.Mutex
}

// applicationData is how a record begins that carries what TLS protects. The
// handshake's last flight, which is protected too, begins with another.
const applicationData = 0x17

func (c *mortal) Write(p []byte) (int, error) {
	if err := c.site.alive(); err != nil {
		return 0, err
	}
	if !c.site.point.wire || len(p) == 0 || p[0] != applicationData {
		return c.Conn.Write(p)
	}
	c.leaving.Lock()
	defer c.leaving.Unlock()
	c.out++
	if c.site.point.first {
		p = p[:len(p)/2]
	}
	n, err := c.Conn.Write(p)
	if err == nil && !c.site.point.first {
		// The last byte is out: what the upstream does with it, it does now.
		c.site.stage.server.WaitHits(c.out)
	}
	c.site.die()
	return n, errors.Join(err, c.site.alive())
}

func (c *mortal) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.leaving.Lock()
	defer c.leaving.Unlock()
	if dead := c.site.alive(); dead != nil {
		return 0, dead
	}
	return n, err
}

// crash has a worker die at the row's point and another one take over.
func crash(t *testing.T, r *outboundRow, authority *upstream.Authority) {
	t.Helper()
	s := newStage(t, r, authority)
	w := newSite(s, crashPoints[text(r.Assert["crash_at"])])
	rec := w.accept(t, r.call(t))

	require.Error(t, w.worker(t, r, authority, "first").Handle(t.Context(), rec, true))
	require.Error(t, w.alive(), "the worker did not reach the point")
	w.revive()
	require.NoError(t, w.worker(t, r, authority, "second").Handle(t.Context(), rec, false))
	require.NoError(t, w.worker(t, r, authority, "third").Handle(t.Context(), rec, false), "what has ended is done with")
	s.server.WaitIdle()

	st, err := ledger.New(w.log, crashLayout, time.Now).Load(t.Context(), crashRef)
	require.NoError(t, err)
	require.NotNil(t, st.Settled)
	code, terminals := string(st.Settled.Code), 0
	if st.Settled.Outcome == schemas.OutcomeSucceeded {
		code = "OK"
	}
	for _, e := range st.Events {
		if e.Type == schemas.EventSettled {
			terminals++
		}
	}
	assert.Equal(t, r.Expected == "allow", st.Settled.Outcome == schemas.OutcomeSucceeded, "%s %s; %s", st.Settled.Outcome, code, r.Why)
	assert.Equal(t, r.Code, code, r.Why)
	assert.True(t, r.Sent[0] <= s.server.Hits() && s.server.Hits() <= r.Sent[1], "sent %d, may be %v; %s", s.server.Hits(), r.Sent, r.Why)
	assert.Equal(t, 1, terminals, "terminal events")
}

var crashRef = schemas.Ref{Tenant: "default", Kind: schemas.KindHTTP, ID: "case"}

// call is the row's request as the executor's handler stores it.
func (r *outboundRow) call(t *testing.T) schemas.HTTPCall {
	t.Helper()
	route, body := r.body()
	require.Equal(t, "/v1/execute", route)
	req, err := executoringress.Translate([]byte(body), permissive{}, executoringress.Checker{})
	require.NoError(t, err)
	return req.Call
}

// permissive is a policy that leaves the decision to the worker.
type permissive struct{}

func (permissive) Judge(schemas.HTTPCall) (schemas.Decision, schemas.Class) {
	return schemas.Decision{Allowed: true}, ""
}

func (permissive) MaxTimeout() time.Duration { return time.Minute }

// accept claims an action for a call and returns its accepted record.
func (w *site) accept(t *testing.T, c schemas.HTTPCall) schemas.Record {
	t.Helper()
	payload, err := ledger.Encode(c)
	require.NoError(t, err)
	_, _, err = ledger.New(w.log, crashLayout, time.Now).Claim(t.Context(), schemas.Action{
		ID: crashRef.ID, Tenant: crashRef.Tenant, Kind: crashRef.Kind, Fingerprint: "f",
		AcceptedAt: time.Now().UTC(), Deadline: time.Now().Add(time.Minute).UTC(), Payload: payload,
	})
	require.NoError(t, err)
	rec, err := w.log.Last(t.Context(), schemas.LogStream(0), crashLayout.Subject(crashRef, schemas.TailAccepted))
	require.NoError(t, err)
	return rec
}

// worker is a pipeline of its own, as a new process has it.
func (w *site) worker(t *testing.T, r *outboundRow, authority *upstream.Authority, name string) *processors.Pipeline {
	t.Helper()
	cfg, err := config.Parse("case.yaml", fmt.Appendf(nil, `{"policy":{"allowed_hosts":[],"allowlist":%s}}`, mustEncode(t, r.entries(r.Policy))), nil, nil)
	require.NoError(t, err)
	p, err := cfg.Compile()
	require.NoError(t, err)
	client := outbound.New(outbound.Config{Resolver: w.stage.network, Dial: w.dial, RootCAs: authority.Pool()})
	t.Cleanup(client.Close)
	metrics, l := telemetry.NewMetrics(), ledger.New(w.log, crashLayout, time.Now)
	store := secrets.New(secrets.Config{LookupEnv: func(string) (string, bool) { return r.secret(), true }})
	recorder := settle.NewRecorder(sinkhole{}, w.log, metrics)
	caller := call.New(l, guard.New(func() *policy.Policy { return p }, nil), direct.New(client, store, redact.New(nil)), call.Config{
		Worker: name, Barrier: w.barrier,
	})
	answers := call.Answers{Blobs: l}
	return processors.NewPipeline(l, nobody{}, name, processors.Stages{
		Admit: admit.New(l, admit.Config{Worker: name, Alone: true}),
		Performers: map[schemas.Kind]processors.Performer{
			schemas.KindHTTP: executor.New(caller, recorder, answers),
			schemas.KindPlan: plans.New(caller, recorder),
		},
		Caller: caller, Evidence: recorder, Settle: settle.New(l, w.barrier, metrics),
		Park: park.New(sinkhole{}, metrics, slog.New(slog.DiscardHandler)), Barrier: w.barrier,
	})
}

// sinkhole takes evidence: these rows are about the action's own log.
type sinkhole struct{}

func (sinkhole) Publish(string, ...*message.Message) error { return nil }

func (sinkhole) Close() error { return nil }

type nobody struct{}

func (nobody) Wake(context.Context, schemas.Ref, time.Time) error { return nil }
