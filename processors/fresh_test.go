package processors_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/ledger"
	"weir/internal/outbound"
	"weir/internal/policy"
	"weir/internal/policy/evaluate"
	"weir/internal/weirtest/fixture"
	"weir/internal/weirtest/upstream"
	"weir/schemas"
)

// TestReloadAtEveryPoint places a reload that revokes the call at each point of its way: whatever the upstream
// had received by then is all it ever receives. The addresses that a name had are judged by the policy in force,
// though they were resolved under another.
func TestReloadAtEveryPoint(t *testing.T) {
	t.Parallel()
	type point struct {
		behaviours func(reload func()) []upstream.Behaviour
		place      func(s *site, reload func())
		hits       int
		tries      int
		to         policy.Entry // default: elsewhere
	}
	private := up(func(e *policy.Entry) { e.Network, e.CIDRs = policy.NetworkPrivate, []string{"10.0.0.0/8"} })
	answering := func(b upstream.Behaviour) func(func()) []upstream.Behaviour {
		return func(reload func()) []upstream.Behaviour {
			return []upstream.Behaviour{upstream.Answer(func(x *upstream.Exchange) {
				reload()
				upstream.Do(b, x)
			}), upstream.OK()}
		}
	}
	points := map[string]point{
		"while it is queued":                {place: func(_ *site, reload func()) { reload() }},
		"while it dials":                    {place: func(s *site, reload func()) { s.dialled = reload }},
		"after it was written":              {place: func(s *site, reload func()) { s.written = reload }, tries: 1},
		"its network, while it dials":       {place: func(s *site, reload func()) { s.dialled = reload }, tries: 1, to: private},
		"its network, after it was written": {place: func(s *site, reload func()) { s.written = reload }, tries: 1, to: private},
		"between its attempts":              {behaviours: answering(upstream.Respond(503, "")), hits: 1, tries: 1},
		"in a chain of redirects":           {behaviours: answering(upstream.Redirect(302, "/b")), hits: 1, tries: 2},
		"before the second hop": {behaviours: func(reload func()) []upstream.Behaviour {
			again := upstream.Redirect(302, "/b")
			return append([]upstream.Behaviour{again}, answering(again)(reload)...)
		}, hits: 2, tries: 3},
	}
	for name, at := range points {
		if at.to.Name == "" {
			at.to = elsewhere()
		}
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			if method == http.MethodPost && at.behaviours != nil {
				continue // it is neither repeated nor redirected
			}
			t.Run(name+", "+method, func(t *testing.T) {
				t.Parallel()
				var s *site
				revoke := func() { s.reload(t, at.to) }
				var behaviours []upstream.Behaviour
				if at.behaviours != nil {
					behaviours = at.behaviours(revoke)
				}
				s = newSite(t, behaviours...)
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
				assert.Equal(t, at.to.Name == private.Name, st.Settled.Code == schemas.DenyAddress)
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
	res := fixture.Decode[schemas.HTTPResult](t, st.Settled.Result)
	require.NotNil(t, res.Decision)
	assert.Equal(t, s.policy.Load().Version(), res.Decision.Version)
	assert.NotEmpty(t, res.Decision.Reason)
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
}

// piped is a site in a bubble. Its upstream is the far end of a pipe, so that
// synctest.Wait sees every goroutine at rest; got counts the requests there.
func piped(t *testing.T) (s *site, got *atomic.Int32) {
	t.Helper()
	s, got = &site{}, &atomic.Int32{}
	names := upstream.NewNetwork(netip.AddrPort{}, map[string][][]string{"*": upstream.Answers("93.184.216.34")})
	s.build(t, outbound.Config{Resolver: names, Dial: func(context.Context, string, string) (net.Conn, error) {
		near, far := net.Pipe()
		go answer(far, got)
		return &watched{Conn: near, site: s}, nil
	}})
	return s, got
}

func answer(far net.Conn, got *atomic.Int32) {
	defer far.Close()
	r := bufio.NewReader(far)
	if _, err := http.ReadRequest(r); err != nil {
		return
	}
	got.Add(1)
	_, _ = io.WriteString(far, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
	_, _ = io.Copy(io.Discard, r)
}

// watched is a connection whose first write passes one of the site's points
// before it moves anything.
type watched struct {
	net.Conn
	site *site
}

func (w *watched) Write(p []byte) (int, error) {
	w.site.at(3, &w.site.offering)
	return w.Conn.Write(p)
}

// TestReloadWaitsForWhatItLetPass: behind the last look at the policy a call may
// be held up before its first byte has left. A reload that revokes it is then
// acknowledged after that byte, never before, and the next call is denied.
func TestReloadWaitsForWhatItLetPass(t *testing.T) {
	t.Parallel()
	for name, place := range map[string]func(s *site, hold func()){
		"while its secret is read":          func(s *site, hold func()) { s.read = hold },
		"while its first bytes are offered": func(s *site, hold func()) { s.offering = hold },
	} {
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			t.Run(name+", "+method, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					s, got := piped(t)
					s.reload(t, up(nil))
					rec := s.claim(t, schemas.HTTPCall{Method: method, URL: "http://up.example/a"})
					acknowledged := make(chan struct{})
					place(s, func() {
						go func() {
							defer close(acknowledged)
							s.reload(t, elsewhere())
						}()
						synctest.Wait() // the reload has come as far as it comes
						assert.False(t, s.allows(), "the new policy is in force")
						assert.Zero(t, got.Load())
						select {
						case <-acknowledged:
							assert.Fail(t, "acknowledged before the call had begun")
						default:
						}
					})
					st := s.handle(t, rec)
					<-acknowledged
					assert.Equal(t, schemas.OutcomeSucceeded, st.Settled.Outcome)
					assert.Equal(t, int32(1), got.Load())
					assert.False(t, s.allows())
				})
			})
		}
	}
}

// allows asks about the tests' call by the policy in force.
func (s *site) allows() bool {
	p, _ := s.guard.Check(schemas.HTTPCall{Method: http.MethodGet, URL: "http://up.example/a"}, evaluate.Scope{})
	return p.Valid()
}
