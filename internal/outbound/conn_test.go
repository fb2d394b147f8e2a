package outbound

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/fault"
	"weir/internal/policy"
	"weir/internal/weirtest/upstream"
	"weir/schemas"
)

// scripted is a connection with an answer for each call.
type scripted struct {
	net.Conn
	write  func([]byte) (int, error)
	words  io.Reader
	closed bool
}

func (s *scripted) Write(p []byte) (int, error) { return s.write(p) }
func (s *scripted) Read(p []byte) (int, error)  { return s.words.Read(p) }
func (s *scripted) Close() error                { s.closed = true; return nil }

func (*scripted) SetDeadline(time.Time) error { return nil }

func overConn(conn net.Conn) *Conn {
	s := &socket{Conn: conn}
	return &Conn{link: &link{Conn: s, socket: s}, silent: make(chan struct{}), offered: make(chan struct{}), closeBody: func() {}, most: 1<<10 + readAhead}
}

func write(c *Conn, text string) (int, error) { return (*tap)(c).Write([]byte(text)) }

// sent closes a connection and reports whether a byte may have left.
func sent(c *Conn) bool {
	c.Close()
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sent
}

// TestClosedIsSilent: after "not sent" was reported, nothing is sent.
func TestClosedIsSilent(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	w := overConn(&scripted{write: out.Write})
	require.False(t, sent(w))
	_, err := write(w, "late")
	require.ErrorIs(t, err, errClosed)
	assert.Empty(t, out.Bytes())
	assert.False(t, sent(w))

	w = overConn(&scripted{write: out.Write})
	_, err = write(w, "in time")
	require.NoError(t, err)
	assert.True(t, sent(w))
	_, err = write(w, "late")
	require.ErrorIs(t, err, errClosed)
	assert.Equal(t, "in time", out.String())
}

// TestWhatCountsAsSent: only a first write that moved nothing counts as none.
func TestWhatCountsAsSent(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken pipe")
	for name, c := range map[string]struct {
		writes []int // bytes each write moves; it fails when short
		sent   bool
	}{
		"no write":              {nil, false},
		"nothing moved":         {[]int{0}, false},
		"nothing moved, twice":  {[]int{0, 0}, false},
		"a part":                {[]int{1}, true},
		"all":                   {[]int{4}, true},
		"all, then nothing":     {[]int{4, 0}, true},
		"nothing, then no more": {[]int{0, 4}, false},
		"a part, then nothing":  {[]int{2, 0}, true},
	} {
		next, failed := 0, false
		w := overConn(&scripted{write: func(p []byte) (int, error) {
			assert.False(t, failed, "%s: a write after one that failed", name)
			n := c.writes[next]
			next++
			if n < len(p) {
				failed = true
				return n, broken
			}
			return n, nil
		}})
		for range c.writes {
			n, err := write(w, "four")
			assert.Equal(t, 4, n, "the reader finds out")
			require.NoError(t, err)
		}
		assert.Equal(t, c.sent, sent(w), name)
	}
}

func publicPermit(t *testing.T) *policy.Permit {
	t.Helper()
	p, err := policy.Compile(policy.Config{Entries: []policy.Entry{{Name: "api", URLPrefix: "https://api.example.com"}}})
	require.NoError(t, err)
	permit, ok := p.Decide(policy.Request{Key: "api", Method: "GET", URL: "https://api.example.com/"}).Permit()
	require.True(t, ok)
	return &permit
}

// TestRecheck: what the kernel is about to connect to is checked once more, by the dialer before it connects.
func TestRecheck(t *testing.T) {
	t.Parallel()
	for address, allowed := range map[string]bool{
		"93.184.216.34:443":          true,
		"[2606:4700:4700::1111]:443": true,
		"93.184.216.34:80":           false,
		"127.0.0.1:443":              false,
		"[::1]:443":                  false,
		"169.254.169.254:443":        false,
		"/run/socket":                false,
		"":                           false,
	} {
		err := dialer(publicPermit(t)).ControlContext(t.Context(), "tcp", address, nil)
		var refused *fault.Call
		if allowed {
			assert.NoError(t, err, address)
		} else if assert.ErrorAs(t, err, &refused, address) {
			assert.Equal(t, schemas.DenyAddress, refused.Code)
		}
	}
	s := upstream.New(t)
	_, err := dialer(publicPermit(t)).DialContext(t.Context(), "tcp4", s.Addr().String())
	var refused *fault.Call
	require.ErrorAs(t, err, &refused)
	assert.Equal(t, schemas.DenyAddress, refused.Code)
	assert.Zero(t, s.Accepted())
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// TestOfferedIsNotGuessed: a write that goes on although the connection was given
// up keeps everybody waiting; without one, giving up is enough.
func TestOfferedIsNotGuessed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		held := make(chan struct{})
		w := overConn(&scripted{write: func(p []byte) (int, error) { <-held; return len(p), nil }})
		go func() { _, _ = write(w, "x") }()
		synctest.Wait()
		assert.True(t, sent(w), "while a write is under way, it has been sent")
		synctest.Wait()
		assert.False(t, closed(w.offered))
		close(held)
		<-w.offered
	})
	w := overConn(&scripted{})
	w.Close()
	assert.True(t, closed(w.offered))
}

func TestSystemKnowsLocalhost(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"localhost.", "localhost", "a.localhost."} {
		addrs, err := newSystem().LookupNetIP(t.Context(), "ip", name)
		require.NoError(t, err, name)
		assert.Equal(t, []netip.Addr{netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("::1")}, addrs, name)
	}
}
