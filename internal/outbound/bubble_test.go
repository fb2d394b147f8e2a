package outbound_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/fault"
	"weir/internal/outbound"
	"weir/internal/weirtest/upstream"
	"weir/schemas"
)

// piped is a client in a bubble whose every connection is a pipe: the other
// end reads a request's head, says its words, and waits for the end.
func piped(words string, change ...func(*outbound.Config)) *outbound.Client {
	n := upstream.NewNetwork(permitAddr, map[string][][]string{"*": upstream.Answers("93.184.216.34")})
	cfg := outbound.Config{Resolver: n, Dial: func(context.Context, string, string) (net.Conn, error) {
		near, far := net.Pipe()
		go func() {
			defer far.Close()
			r := bufio.NewReader(far)
			for line := " "; line != "" && line != "\r\n"; {
				line, _ = r.ReadString('\n')
			}
			_, _ = io.WriteString(far, words)
			_, _ = io.Copy(io.Discard, r)
		}()
		return near, nil
	}}
	for _, c := range change {
		c(&cfg)
	}
	return outbound.New(cfg)
}

const halfBody = ok200 + "Content-Length: 9\r\n\r\nhalf"

// TestPhasesAreBounded: each phase has its own limit, and what is slow within
// it does not move it.
func TestPhasesAreBounded(t *testing.T) {
	t.Parallel()
	permit := public(t, "POST", api)
	for name, c := range map[string]struct {
		words  string
		within time.Duration
		status int
		phase  outbound.Phase
		took   time.Duration
	}{
		"no answer":                  {"", 0, 0, outbound.PhaseHeader, 10 * time.Second},
		"half a header":              {ok200 + "X: y", 0, 0, outbound.PhaseHeader, 10 * time.Second},
		"interim only":               {"HTTP/1.1 103 Early Hints\r\n\r\n", 0, 0, outbound.PhaseHeader, 10 * time.Second},
		"half a body":                {halfBody, 0, 200, outbound.PhaseBody, 30 * time.Second},
		"caller's end in the header": {"", 2 * time.Second, 0, outbound.PhaseHeader, 2 * time.Second},
		"caller's end in the body":   {halfBody, 2 * time.Second, 200, outbound.PhaseBody, 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx := t.Context()
				if c.within > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, c.within)
					defer cancel()
				}
				conn, err := piped(c.words).Open(ctx, permit)
				require.NoError(t, err)
				start := time.Now()
				_, err = conn.Do(ctx, outbound.Request{Body: []byte("{}")})
				assert.Equal(t, c.took, time.Since(start))
				got := failure(t, err, schemas.UpstreamTimeout, true)
				assert.Equal(t, c.status, got.Status)
				var phase *outbound.PhaseError
				require.ErrorAs(t, err, &phase)
				assert.Equal(t, c.phase, phase.Phase)
			})
		})
	}
}

// TestNoMemory: an answer that waits for memory until its time is up is a timeout that says so.
func TestNoMemory(t *testing.T) {
	t.Parallel()
	permit := public(t, "GET", api)
	large := strings.Repeat("x", 300<<10)
	for name, read := range map[string]func(context.Context, *outbound.Conn) error{
		"whole": func(ctx context.Context, c *outbound.Conn) error {
			_, err := c.Do(ctx, outbound.Request{})
			return err
		},
		"stream": func(ctx context.Context, c *outbound.Conn) error {
			s, err := c.Stream(ctx, outbound.Request{}, outbound.StreamLimits{})
			if err == nil {
				_, err = s.ReadAll(1 << 20)
			}
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := piped(ok200+"Content-Length: "+strconv.Itoa(len(large))+"\r\n\r\n"+large, func(cfg *outbound.Config) {
					cfg.Quota = func(string) outbound.Quota {
						return outbound.Quota{Bytes: 1 << 20, Reserve: func(ctx context.Context, n int64) (int64, func(), error) {
							assert.EqualValues(t, len(large), n)
							<-ctx.Done()
							return 0, nil, ctx.Err()
						}}
					}
				})
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				conn, err := c.Open(ctx, permit)
				require.NoError(t, err)
				defer conn.Close()
				conn.Bound("a")
				failed := failure(t, read(ctx, conn), schemas.UpstreamTimeout, true)
				assert.True(t, failed.NoMemory)
				assert.Equal(t, 200, failed.Status)
			})
		})
	}
}

// TestCancel: a caller that leaves is let go at once, with the truth about sending.
func TestCancel(t *testing.T) {
	t.Parallel()
	permit := public(t, "POST", api)
	for name, c := range map[string]struct {
		words  string
		status int
		end    func(cancel context.CancelFunc, conn *outbound.Conn)
		code   schemas.Code
	}{
		"header":         {"", 0, func(cancel context.CancelFunc, _ *outbound.Conn) { cancel() }, schemas.Canceled},
		"body":           {halfBody, 200, func(cancel context.CancelFunc, _ *outbound.Conn) { cancel() }, schemas.Canceled},
		"header, closed": {"", 0, func(_ context.CancelFunc, conn *outbound.Conn) { conn.Close() }, schemas.UpstreamReset},
		"body, closed":   {halfBody, 200, func(_ context.CancelFunc, conn *outbound.Conn) { conn.Close() }, schemas.UpstreamTruncated},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				conn, err := piped(c.words).Open(ctx, permit)
				require.NoError(t, err)
				got := make(chan error)
				go func() {
					_, err := conn.Do(ctx, outbound.Request{Body: []byte("{}")})
					got <- err
				}()
				synctest.Wait()
				start := time.Now()
				c.end(cancel, conn)
				assert.Equal(t, c.status, failure(t, <-got, c.code, true).Status)
				assert.Zero(t, time.Since(start))
			})
		})
	}
}

// TestTimerDoesNotOutliveTheCall: with time left over, nothing is running.
func TestTimerDoesNotOutliveTheCall(t *testing.T) {
	t.Parallel()
	permit := public(t, "GET", api)
	synctest.Test(t, func(t *testing.T) {
		conn, err := piped(ok200+"Content-Length: 2\r\n\r\nok").Open(t.Context(), permit)
		require.NoError(t, err)
		resp, err := conn.Do(t.Context(), outbound.Request{})
		require.NoError(t, err)
		assert.Equal(t, "ok", string(resp.Body))
	}) // synctest itself fails if goroutines stay
}

// TestBegunWaitsForTheFirstWrite: as long as the request's first bytes are not
// taken, it has not begun; and however that ends, nobody waits for ever.
func TestBegunWaitsForTheFirstWrite(t *testing.T) {
	t.Parallel()
	permit := public(t, "POST", api)
	for name, c := range map[string]struct {
		end  func(cancel context.CancelFunc, conn *outbound.Conn, take chan<- struct{})
		code schemas.Code // empty: an answer
		took time.Duration
	}{
		"taken":    {end: func(_ context.CancelFunc, _ *outbound.Conn, take chan<- struct{}) { close(take) }},
		"canceled": {end: func(cancel context.CancelFunc, _ *outbound.Conn, _ chan<- struct{}) { cancel() }, code: schemas.Canceled},
		"closed":   {end: func(_ context.CancelFunc, conn *outbound.Conn, _ chan<- struct{}) { conn.Close() }, code: schemas.UpstreamReset},
		"given up": {end: func(context.CancelFunc, *outbound.Conn, chan<- struct{}) {}, code: schemas.UpstreamTimeout, took: 10 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				take := make(chan struct{})
				conn, err := untaken(t, take).Open(t.Context(), permit)
				require.NoError(t, err)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				result := make(chan error, 1)
				go func() {
					_, err := conn.Do(ctx, outbound.Request{Body: []byte("{}")})
					result <- err
				}()
				synctest.Wait()
				select {
				case <-conn.Begun():
					t.Fatal("begun, and the first write has not returned")
				default:
				}
				start := time.Now()
				c.end(cancel, conn, take)
				<-conn.Begun()
				assert.Equal(t, c.took, time.Since(start))
				if err := <-result; c.code != "" {
					var failed *fault.Call
					require.ErrorAs(t, err, &failed)
					assert.Equal(t, c.code, failed.Code)
				} else {
					require.NoError(t, err)
				}
			})
		})
	}
}

// untaken is a client whose every connection takes nothing until take is closed,
// and then answers.
func untaken(t *testing.T, take <-chan struct{}) *outbound.Client {
	t.Helper()
	n := upstream.NewNetwork(permitAddr, map[string][][]string{"*": upstream.Answers("93.184.216.34")})
	return outbound.New(outbound.Config{Resolver: n, Dial: func(context.Context, string, string) (net.Conn, error) {
		near, far := net.Pipe()
		t.Cleanup(func() { _ = far.Close() })
		go func() {
			select {
			case <-take:
			case <-t.Context().Done():
				return
			}
			r := bufio.NewReader(far)
			for line := " "; line != "" && line != "\r\n"; {
				line, _ = r.ReadString('\n')
			}
			_, _ = io.WriteString(far, ok200+"Content-Length: 2\r\n\r\n{}")
			_, _ = io.Copy(io.Discard, r)
		}()
		return near, nil
	}})
}

// TestGranted: an answer may have what is granted to it, whatever its limit was when the connection was made.
func TestGranted(t *testing.T) {
	t.Parallel()
	permit := public(t, "GET", api)
	large := strings.Repeat("x", 300<<10)
	for granted, fits := range map[int64]bool{8 << 10: false, int64(len(large)): true} {
		synctest.Test(t, func(t *testing.T) {
			c := piped(ok200+"Content-Length: "+strconv.Itoa(len(large))+"\r\n\r\n"+large, func(cfg *outbound.Config) {
				cfg.Quota = func(string) outbound.Quota {
					return outbound.Quota{Bytes: 1 << 20, Reserve: func(context.Context, int64) (int64, func(), error) { return granted, func() {}, nil }}
				}
			})
			conn, err := c.Open(t.Context(), permit)
			require.NoError(t, err)
			defer conn.Close()
			conn.Bound("a")
			_, err = conn.Do(t.Context(), outbound.Request{})
			if fits {
				require.NoError(t, err)
			} else {
				assert.Equal(t, 200, failure(t, err, schemas.UpstreamTooLarge, true).Status)
			}
		})
	}
}
