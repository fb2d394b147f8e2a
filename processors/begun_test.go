package processors_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/netip"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"

	"weir/internal/outbound"
	"weir/internal/weirtest/upstream"
	"weir/processors/guard"
	"weir/schemas"
)

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
	p, _ := s.guard.Check(schemas.HTTPCall{Method: http.MethodGet, URL: "http://up.example/a"}, guard.Scope{})
	return p.Valid()
}
