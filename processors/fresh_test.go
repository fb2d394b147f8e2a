package processors_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/ledger"
	"weir/internal/outbound"
	"weir/internal/policy"
	"weir/internal/redact"
	"weir/internal/retry"
	"weir/internal/secrets"
	"weir/internal/telemetry"
	"weir/internal/weirtest/memlog"
	"weir/internal/weirtest/rulebook"
	"weir/internal/weirtest/table"
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

// site is a pipeline over the real client, whose policy can be exchanged while
// a call is anywhere on its way.
type site struct {
	log    *memlog.Log
	guard  *guard.Guard
	policy atomic.Pointer[policy.Policy]
	book   rulebook.Book
	server *upstream.Server

	pipeline *processors.Pipeline
	ledger   *ledger.Ledger

	sensitive bool // of the next action

	// The points of a call's way at which a test may act; each runs once. offering
	// is a connection's first write, and known on pipes only.
	dialled, written, read, offering func()
	once                             [4]sync.Once
}

// at is one of those points.
func (s *site) at(i int, f *func()) {
	if *f != nil {
		s.once[i].Do(*f)
	}
}

func newSite(t *testing.T, behaviours ...upstream.Behaviour) *site {
	t.Helper()
	s := &site{server: upstream.New(t, behaviours...)}
	names := upstream.NewNetwork(s.server.Addr(), map[string][][]string{"*": upstream.Answers("93.184.216.34")})
	s.build(t, outbound.Config{Resolver: names, Dial: names.Dial})
	return s
}

// build makes everything over one network.
func (s *site) build(t *testing.T, network outbound.Config) {
	t.Helper()
	s.guard = guard.New(s.policy.Load, &s.book)
	s.log = memlog.New(layout, time.Now, memlog.Hooks{After: func(m schemas.Append, _ uint64) error {
		var ev schemas.Event
		if json.Unmarshal(m.Data, &ev) == nil && ev.Type == schemas.EventAttempt {
			s.at(1, &s.written)
		}
		return nil
	}})
	dial := network.Dial
	network.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		s.at(0, &s.dialled)
		return conn, err
	}
	client := outbound.New(network)
	t.Cleanup(client.Close)
	store := secrets.New(secrets.Config{LookupEnv: func(name string) (string, bool) {
		s.at(2, &s.read)
		return "value-of-" + strings.TrimPrefix(name, secrets.EnvPrefix), true
	}})
	s.serve(t, direct.New(client, store, redact.New(nil)))
}

// serve makes the pipeline, which handles whatever accept claims.
func (s *site) serve(t *testing.T, a call.Adapter) {
	t.Helper()
	barrier := func(context.Context) error { return nil }
	metrics := telemetry.NewMetrics()
	l := ledger.New(s.log, layout, time.Now)
	s.ledger = l
	recorder := settle.NewRecorder(publisher{s.log}, s.log, metrics)
	caller := call.New(l, s.guard, a, call.Config{
		Worker: "w", Barrier: barrier, Schedule: retry.Schedule{Attempts: 3, Base: time.Millisecond, Cap: time.Millisecond},
	})
	s.pipeline = processors.NewPipeline(l, nowhere{}, "w", processors.Stages{
		Admit: admit.New(l, admit.Config{Worker: "w", Alone: true}),
		Performers: map[schemas.Kind]processors.Performer{
			schemas.KindHTTP: executor.New(caller, recorder, call.Answers{Blobs: l}),
			schemas.KindPlan: plans.New(caller, recorder),
		},
		Caller: caller, Evidence: recorder, Settle: settle.New(l, barrier, metrics),
		Park: park.New(publisher{s.log}, metrics, slog.New(slog.DiscardHandler)), Barrier: barrier,
	})
}

// reload puts a policy of these entries in force, as a node does: when it
// returns, what the policy denies begins no more.
func (s *site) reload(t *testing.T, entries ...policy.Entry) {
	t.Helper()
	p, err := policy.Compile(policy.Config{Entries: entries})
	if assert.NoError(t, err) {
		s.policy.Store(p)
		assert.NoError(t, s.guard.Settle(context.Background()))
	}
}

var first = schemas.Ref{Tenant: "default", Kind: schemas.KindHTTP, ID: "a"}

// claim stores an action and returns its accepted record.
func (s *site) claim(t *testing.T, c schemas.HTTPCall, only ...string) schemas.Record {
	t.Helper()
	payload, err := ledger.Encode(c)
	require.NoError(t, err)
	_, _, err = s.ledger.Claim(t.Context(), schemas.Action{
		ID: first.ID, Tenant: first.Tenant, Kind: first.Kind, Fingerprint: "f", Principal: "token1", Entries: only, Sensitive: s.sensitive,
		AcceptedAt: time.Now().UTC(), Deadline: time.Now().Add(time.Minute).UTC(), Payload: payload,
	})
	require.NoError(t, err)
	rec, err := s.log.Last(t.Context(), schemas.LogStream(0), layout.Subject(first, schemas.TailAccepted))
	require.NoError(t, err)
	return rec
}

func (s *site) handle(t *testing.T, rec schemas.Record) *ledger.State {
	t.Helper()
	require.NoError(t, s.pipeline.Handle(t.Context(), rec, true))
	st, err := s.ledger.Load(t.Context(), first)
	require.NoError(t, err)
	require.NotNil(t, st.Settled)
	return st
}

func (s *site) records(t *testing.T) []schemas.Evidence {
	t.Helper()
	records, err := s.log.Range(t.Context(), schemas.EvidenceStream, schemas.EvidenceRoot+".>", 1, 1000)
	require.NoError(t, err)
	var all []schemas.Evidence
	for _, r := range records {
		var e schemas.Evidence
		require.NoError(t, json.Unmarshal(r.Data, &e))
		all = append(all, e)
	}
	return all
}

func up(change func(*policy.Entry)) policy.Entry {
	e := policy.Entry{
		Name: "up", URLPrefix: "http://up.example/", Methods: []string{"GET", "POST"}, Redirects: 2,
		Headers: map[string]string{"X-Key": "${secret:ONE}"}, CallerHeaders: []string{"*"}, CallerParams: []string{"*"},
	}
	if change != nil {
		change(&e)
	}
	return e
}

// elsewhere is the policy that lets nothing of the tests pass.
func elsewhere() policy.Entry {
	return policy.Entry{Name: "other", URLPrefix: "http://other.example/"}
}

// TestReloadAtEveryPoint places a reload that revokes the call at each point of
// its way: whatever the upstream had received by then is all it ever receives.
func TestReloadAtEveryPoint(t *testing.T) {
	t.Parallel()
	type point struct {
		behaviours func(reload func()) []upstream.Behaviour
		place      func(s *site, reload func())
		hits       int
		tries      int
	}
	answering := func(b upstream.Behaviour) func(func()) []upstream.Behaviour {
		return func(reload func()) []upstream.Behaviour {
			return []upstream.Behaviour{upstream.Answer(func(x *upstream.Exchange) {
				reload()
				upstream.Do(b, x)
			}), upstream.OK()}
		}
	}
	points := map[string]point{
		"while it is queued":      {place: func(_ *site, reload func()) { reload() }},
		"while it dials":          {place: func(s *site, reload func()) { s.dialled = reload }},
		"after it was written":    {place: func(s *site, reload func()) { s.written = reload }, tries: 1},
		"between its attempts":    {behaviours: answering(upstream.Respond(503, "")), hits: 1, tries: 1},
		"in a chain of redirects": {behaviours: answering(upstream.Redirect(302, "/b")), hits: 1, tries: 2},
		"before the second hop": {behaviours: func(reload func()) []upstream.Behaviour {
			again := upstream.Redirect(302, "/b")
			return append([]upstream.Behaviour{again}, answering(again)(reload)...)
		}, hits: 2, tries: 3},
	}
	for name, at := range points {
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			if method == http.MethodPost && at.behaviours != nil {
				continue // it is neither repeated nor redirected
			}
			t.Run(name+", "+method, func(t *testing.T) {
				t.Parallel()
				var s *site
				revoke := func() { s.reload(t, elsewhere()) }
				var behaviours []upstream.Behaviour
				if at.behaviours != nil {
					behaviours = at.behaviours(revoke)
				}
				s = newSite(t, behaviours...)
				s.reload(t, up(nil))
				rec := s.claim(t, schemas.HTTPCall{Method: method, URL: "http://up.example/a", AllowlistKey: "up"})
				if at.place != nil {
					at.place(s, revoke)
				}
				st := s.handle(t, rec)
				s.server.WaitIdle()
				assert.Equal(t, at.hits, s.server.Hits(), "requests by the upstream's own ledger")
				assert.Len(t, st.Attempts, at.tries)
				want := schemas.OutcomeDenied
				if at.hits > 0 {
					want = schemas.OutcomeFailed // denied promises that nothing was sent
				}
				assert.Equal(t, want, st.Settled.Outcome)
				assert.True(t, strings.HasPrefix(string(st.Settled.Code), "DENY_"), "%s", st.Settled.Code)
				s.checkRefusal(t, st)
			})
		}
	}
}

// checkRefusal: one record says what refused the call and under which policy,
// and every attempt has one record in the name of who asked.
func (s *site) checkRefusal(t *testing.T, st *ledger.State) {
	t.Helper()
	denials, attempts := 0, 0
	for _, e := range s.records(t) {
		assert.Equal(t, "token1", e.Principal)
		switch e.Kind {
		case schemas.EvidenceDecision:
			denials++
			assert.Equal(t, s.policy.Load().Version(), e.PolicyVersion, "the policy that denied")
			assert.Equal(t, st.Settled.Code, e.Code)
		case schemas.EvidenceAttempt:
			attempts++
		}
	}
	assert.Equal(t, 1, denials, "denials in the evidence")
	assert.Len(t, st.Attempts, attempts)
	if st.Settled.Code == schemas.DenyRedirect {
		return // that is told as the answer it was
	}
	var res schemas.HTTPResult
	require.NoError(t, json.Unmarshal(st.Settled.Result, &res))
	require.NotNil(t, res.Decision)
	assert.Equal(t, s.policy.Load().Version(), res.Decision.Version)
	assert.NotEmpty(t, res.Decision.Reason)
}

// TestReloadThatStillAllows: the call goes out once, by the entry and with the
// credentials of the policy in force when it does.
func TestReloadThatStillAllows(t *testing.T) {
	t.Parallel()
	other := up(func(e *policy.Entry) { e.Headers = map[string]string{"X-Key": "${secret:TWO}"} })
	table.Run(t, map[string]func(s *site, reload func()){
		"while it is queued":   func(_ *site, reload func()) { reload() },
		"while it dials":       func(s *site, reload func()) { s.dialled = reload },
		"after it was written": func(s *site, reload func()) { s.written = reload },
	}, func(t *testing.T, place func(s *site, reload func())) {
		s := newSite(t)
		s.reload(t, up(nil))
		rec := s.claim(t, schemas.HTTPCall{Method: http.MethodPost, URL: "http://up.example/a"})
		place(s, func() { s.reload(t, other) })
		st := s.handle(t, rec)
		require.Equal(t, schemas.OutcomeSucceeded, st.Settled.Outcome)
		require.Equal(t, 1, s.server.Hits())
		assert.Equal(t, []string{"value-of-TWO"}, s.server.Ledger()[0].Values("X-Key"))
		require.Len(t, s.records(t), 1)
		assert.Equal(t, s.policy.Load().Version(), s.records(t)[0].PolicyVersion)
	})
}

// TestReloadOfTheNetwork: the addresses that a name had are judged by the policy
// in force, though they were resolved under another.
func TestReloadOfTheNetwork(t *testing.T) {
	t.Parallel()
	private := up(func(e *policy.Entry) { e.Network, e.CIDRs = policy.NetworkPrivate, []string{"10.0.0.0/8"} })
	table.Run(t, map[string]func(s *site, reload func()){
		"while it dials":       func(s *site, reload func()) { s.dialled = reload },
		"after it was written": func(s *site, reload func()) { s.written = reload },
	}, func(t *testing.T, place func(s *site, reload func())) {
		s := newSite(t)
		s.reload(t, up(nil))
		rec := s.claim(t, schemas.HTTPCall{Method: http.MethodPost, URL: "http://up.example/a"})
		place(s, func() { s.reload(t, private) })
		st := s.handle(t, rec)
		s.server.WaitIdle()
		assert.Zero(t, s.server.Hits())
		assert.Equal(t, schemas.OutcomeDenied, st.Settled.Outcome)
		assert.Equal(t, schemas.DenyAddress, st.Settled.Code)
		s.checkRefusal(t, st)
	})
}

// TestOnlyTheTokensEntries: what the asker may not use does not exist for its calls.
func TestOnlyTheTokensEntries(t *testing.T) {
	t.Parallel()
	second := up(func(e *policy.Entry) { e.Name, e.Headers = "second", map[string]string{"X-Key": "${secret:TWO}"} })
	s := newSite(t)
	s.reload(t, up(nil), second)
	st := s.handle(t, s.claim(t, schemas.HTTPCall{Method: http.MethodGet, URL: "http://up.example/a"}, "second"))
	require.Equal(t, schemas.OutcomeSucceeded, st.Settled.Outcome)
	assert.Equal(t, []string{"value-of-TWO"}, s.server.Ledger()[0].Values("X-Key"))

	s = newSite(t)
	s.reload(t, up(nil), second)
	st = s.handle(t, s.claim(t, schemas.HTTPCall{Method: http.MethodGet, URL: "http://up.example/a", AllowlistKey: "up"}, "second"))
	assert.Equal(t, schemas.OutcomeDenied, st.Settled.Outcome)
	assert.Equal(t, schemas.DenyKeyUnknown, st.Settled.Code)
	assert.Zero(t, s.server.Hits())
}

// TestShadow: a shadow entry changes nothing and is seen in the evidence.
func TestShadow(t *testing.T) {
	t.Parallel()
	narrow := up(func(e *policy.Entry) { e.Methods, e.Mode = []string{"GET"}, policy.ModeShadow })
	s := newSite(t)
	s.reload(t, up(nil), narrow)
	st := s.handle(t, s.claim(t, schemas.HTTPCall{Method: http.MethodPost, URL: "http://up.example/a"}))
	require.Equal(t, schemas.OutcomeSucceeded, st.Settled.Outcome)
	require.Len(t, s.records(t), 1)
	shadow := s.records(t)[0].Shadow
	require.NotNil(t, shadow)
	assert.False(t, shadow.Allowed)
	assert.Equal(t, schemas.DenyMethod, shadow.Code)

	wide := elsewhere()
	wide.Name, wide.URLPrefix, wide.Mode = "wide", "http://up.example/", policy.ModeShadow
	s = newSite(t)
	s.reload(t, elsewhere(), wide)
	st = s.handle(t, s.claim(t, schemas.HTTPCall{Method: http.MethodGet, URL: "http://up.example/a"}))
	require.Equal(t, schemas.OutcomeDenied, st.Settled.Outcome)
	assert.Zero(t, s.server.Hits())
	require.Len(t, s.records(t), 1)
	shadow = s.records(t)[0].Shadow
	require.NotNil(t, shadow)
	assert.True(t, shadow.Allowed)
	assert.Equal(t, "wide", shadow.Entry)
}
