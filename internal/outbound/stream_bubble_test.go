package outbound_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/outbound"
	"weir/internal/weirtest/upstream"
	"weir/schemas"
)

// spoken is a client in a bubble whose every connection is a pipe: the other end
// reads a request's head and then speaks.
func spoken(ctx context.Context, speak func(ctx context.Context, far net.Conn)) *outbound.Client {
	n := upstream.NewNetwork(permitAddr, map[string][][]string{"*": upstream.Answers("93.184.216.34")})
	return outbound.New(outbound.Config{Resolver: n, Dial: func(context.Context, string, string) (net.Conn, error) {
		near, far := net.Pipe()
		go func() {
			defer far.Close()
			r := bufio.NewReader(far)
			for line := " "; line != "" && line != "\r\n"; {
				line, _ = r.ReadString('\n')
			}
			speak(ctx, far)
		}()
		return near, nil
	}})
}

// saying is speak for pieces with a pause before each.
func saying(pause time.Duration, pieces ...string) func(context.Context, net.Conn) {
	return func(ctx context.Context, far net.Conn) {
		for _, p := range pieces {
			select {
			case <-time.After(pause):
			case <-ctx.Done():
				return
			}
			if _, err := io.WriteString(far, p); err != nil {
				return
			}
		}
		_, _ = io.Copy(io.Discard, far) // until the other end closes
	}
}

const chunked200 = ok200 + "Transfer-Encoding: chunked\r\n\r\n"

// TestStreamPhases: what bounds a stream, and what does not.
func TestStreamPhases(t *testing.T) {
	t.Parallel()
	permit := public(t, "POST", api)
	minutes := []string{chunked200, "1\r\na\r\n", "1\r\nb\r\n", "1\r\nc\r\n", "0\r\n\r\n"}
	for name, c := range map[string]struct {
		speak  func(context.Context, net.Conn)
		limits outbound.StreamLimits
		within time.Duration // ctx's; zero: an hour
		took   time.Duration
		phase  outbound.Phase // empty: it came whole
		status int
	}{
		"no limit but the caller's": {
			speak: saying(10*time.Minute, minutes...), limits: outbound.StreamLimits{Header: -1}, took: 50 * time.Minute, status: 200,
		},
		"the client's limit of the header": {speak: saying(time.Minute, minutes...), took: 10 * time.Second, phase: outbound.PhaseHeader},
		"its own limit of the header": {
			speak: saying(time.Minute, minutes...), limits: outbound.StreamLimits{Header: 59 * time.Second}, took: 59 * time.Second, phase: outbound.PhaseHeader,
		},
		"always within the idle limit": {
			speak: saying(time.Minute, minutes...), limits: outbound.StreamLimits{Header: -1, Idle: 61 * time.Second}, took: 5 * time.Minute, status: 200,
		},
		"idle": {
			speak: saying(time.Minute, minutes...), limits: outbound.StreamLimits{Header: -1, Idle: 59 * time.Second}, took: 119 * time.Second,
			phase: outbound.PhaseBody, status: 200,
		},
		"framing is not something": {
			speak:  saying(time.Minute, chunked200, "1", ";x=y", ";x=y", ";x=y", ";x=y"),
			limits: outbound.StreamLimits{Header: -1, Idle: 2 * time.Minute}, took: 3 * time.Minute, phase: outbound.PhaseBody, status: 200,
		},
		"the caller's end in the header": {
			speak: saying(time.Hour), limits: outbound.StreamLimits{Header: -1}, within: 7 * time.Minute, took: 7 * time.Minute, phase: outbound.PhaseHeader,
		},
		"the caller's end in the body": {
			speak: saying(time.Minute, minutes...), limits: outbound.StreamLimits{Header: -1, Idle: time.Hour}, within: 150 * time.Second,
			took: 150 * time.Second, phase: outbound.PhaseBody, status: 200,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				if c.within == 0 {
					c.within = time.Hour
				}
				ctx, cancel := context.WithTimeout(t.Context(), c.within)
				defer cancel()
				conn, err := spoken(t.Context(), c.speak).Open(ctx, permit)
				require.NoError(t, err)
				defer conn.Close()
				start := time.Now()
				got, err := conn.Stream(ctx, outbound.Request{Body: []byte("{}")}, c.limits)
				if err == nil {
					defer got.Close()
					_, err = io.Copy(io.Discard, got)
				}
				assert.Equal(t, c.took, time.Since(start))
				if c.phase == "" {
					require.NoError(t, err)
					return
				}
				failed := failure(t, err, schemas.UpstreamTimeout, true)
				assert.Equal(t, c.status, failed.Status)
				var phase *outbound.PhaseError
				require.ErrorAs(t, err, &phase)
				assert.Equal(t, c.phase, phase.Phase)
			})
		})
	}
}

// TestStreamWaitsForItsReader: a reader that takes its time is not an upstream
// that does, and nothing is fetched for it in advance but a few KiB.
func TestStreamWaitsForItsReader(t *testing.T) {
	t.Parallel()
	permit := public(t, "POST", api)
	synctest.Test(t, func(t *testing.T) {
		var taken atomic.Int64
		conn, err := spoken(t.Context(), func(_ context.Context, far net.Conn) {
			_, _ = io.WriteString(far, ok200+"\r\n")
			for {
				n, err := far.Write(make([]byte, 100))
				taken.Add(int64(n))
				if err != nil {
					return
				}
			}
		}).Open(t.Context(), permit)
		require.NoError(t, err)
		got, err := conn.Stream(t.Context(), outbound.Request{}, outbound.StreamLimits{Idle: time.Second, Bytes: 1 << 30})
		require.NoError(t, err)
		for i := int64(1); i <= 5; i++ {
			<-time.After(time.Hour)
			synctest.Wait()
			assert.LessOrEqual(t, taken.Load(), 10_000*(i-1)+8<<10)
			_, err = io.ReadFull(got, make([]byte, 10_000))
			require.NoError(t, err)
		}
		got.Close()
		synctest.Wait()
	})
}

// TestStreamEndsAtOnce: whoever ends it while it is read ends the reading, with
// the truth about the call; the end of a connection never passes for a body's.
func TestStreamEndsAtOnce(t *testing.T) {
	t.Parallel()
	permit := public(t, "POST", api)
	framings := map[string]string{
		"chunks":       chunked200 + "4\r\nhalf\r\n",
		"half a chunk": chunked200 + "8\r\nhalf",
		"length":       halfBody,
		"no end known": ok200 + "\r\nhalf",
	}
	for name, c := range map[string]struct {
		end  func(cancel context.CancelFunc, conn *outbound.Conn, s *outbound.Stream)
		code schemas.Code
	}{
		"canceled":   {func(cancel context.CancelFunc, _ *outbound.Conn, _ *outbound.Stream) { cancel() }, schemas.Canceled},
		"closed":     {func(_ context.CancelFunc, _ *outbound.Conn, s *outbound.Stream) { s.Close() }, schemas.Canceled},
		"connection": {func(_ context.CancelFunc, c *outbound.Conn, _ *outbound.Stream) { c.Close() }, schemas.UpstreamTruncated},
	} {
		for framing, words := range framings {
			t.Run(name+", "+framing, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					conn, err := piped(words).Open(ctx, permit)
					require.NoError(t, err)
					s, err := conn.Stream(ctx, outbound.Request{Body: []byte("{}")}, outbound.StreamLimits{Idle: time.Hour})
					require.NoError(t, err)
					type ending struct {
						body []byte
						err  error
					}
					ended := make(chan ending, 1)
					go func() {
						body, err := io.ReadAll(s)
						ended <- ending{body, err}
					}()
					synctest.Wait()
					start := time.Now()
					c.end(cancel, conn, s)
					got := <-ended
					assert.Zero(t, time.Since(start))
					assert.Equal(t, "half", string(got.body), "what came before stands")
					assert.Equal(t, 200, failure(t, got.err, c.code, true).Status)
					s.Close()
				})
			})
		}
	}
}

// TestStreamClosedUnread: a stream that nobody reads lets go of all it holds.
func TestStreamClosedUnread(t *testing.T) {
	t.Parallel()
	permit := public(t, "POST", api)
	for name, words := range map[string]string{"whole": ok200 + "Content-Length: 2\r\n\r\nok", "open": chunked200} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				conn, err := piped(words).Open(t.Context(), permit)
				require.NoError(t, err)
				s, err := conn.Stream(t.Context(), outbound.Request{}, outbound.StreamLimits{})
				require.NoError(t, err)
				s.Close()
				n, err := s.Read(make([]byte, 1))
				assert.Zero(t, n)
				assert.Equal(t, 200, failure(t, err, schemas.Canceled, true).Status)
			}) // synctest itself fails if goroutines stay
		})
	}
}
