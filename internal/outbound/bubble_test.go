package outbound_test

import (
	"bufio"
	"cmp"
	"context"
	"io"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
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

// pipes is a client in a bubble whose every connection is a pipe, with serve at the other end.
func pipes(serve func(far net.Conn), change ...func(*outbound.Config)) *outbound.Client {
	n := upstream.NewNetwork(permitAddr, map[string][][]string{"*": upstream.Answers("93.184.216.34")})
	cfg := outbound.Config{Resolver: n, Dial: func(context.Context, string, string) (net.Conn, error) {
		near, far := net.Pipe()
		go func() {
			defer far.Close()
			serve(far)
		}()
		return near, nil
	}}
	for _, c := range change {
		c(&cfg)
	}
	return outbound.New(cfg)
}

// spoken is pipes whose other end reads a request's head and then speaks.
func spoken(speak func(far net.Conn), change ...func(*outbound.Config)) *outbound.Client {
	return pipes(func(far net.Conn) {
		r := bufio.NewReader(far)
		for line := " "; line != "" && line != "\r\n"; {
			line, _ = r.ReadString('\n')
		}
		speak(far)
	}, change...)
}

// piped is spoken for words, after which the other end waits for the end.
func piped(words string, change ...func(*outbound.Config)) *outbound.Client {
	return spoken(func(far net.Conn) {
		_, _ = io.WriteString(far, words)
		_, _ = io.Copy(io.Discard, far)
	}, change...)
}

const halfBody = ok200 + "Content-Length: 9\r\n\r\nhalf"

// timedOut asserts that a call was sent and reached its limit, with the status that had come.
func timedOut(t *testing.T, err error, status int) {
	t.Helper()
	assert.Equal(t, status, failure(t, err, schemas.UpstreamTimeout, true).Status)
}

// TestQuota: an answer over 256 KiB may have what is granted to it. One that waits for memory until its
// time is up is a timeout that says so. The length of a coded body bounds nothing.
func TestQuota(t *testing.T) {
	t.Parallel()
	const size, most = 300 << 10, 1 << 20
	permit, text := public(t, "GET", api), strings.Repeat("x", size)
	sized := func(fields, body string) string {
		return ok200 + fields + "Content-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n" + body
	}
	for name, c := range map[string]struct {
		words    string
		asked    int64
		granted  int64 // 0: nothing, before the time is up
		code     schemas.Code
		noMemory bool
	}{
		"all of it":  {sized("", text), size, size, "", false},
		"too little": {sized("", text), size, 8 << 10, schemas.UpstreamTooLarge, false},
		"gzip":       {sized("Content-Encoding: gzip\r\n", upstream.Compress(text)), most, most, "", false},
		"no memory":  {sized("", text), size, 0, schemas.UpstreamTimeout, true},
	} {
		reserve := func(ctx context.Context, n int64) (int64, func(), error) {
			assert.Equal(t, c.asked, n, name)
			if c.granted == 0 {
				<-ctx.Done()
			}
			return c.granted, func() {}, ctx.Err()
		}
		for _, streamed := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				conn := open(ctx, t, piped(c.words, func(cfg *outbound.Config) {
					cfg.Quota = func(string) outbound.Quota { return outbound.Quota{Bytes: most, Reserve: reserve} }
				}), permit)
				defer conn.Close()
				body, err := readWhole(ctx, conn, streamed)
				if c.code == "" {
					require.NoError(t, err, name)
					assert.Len(t, body, size, name)
					return
				}
				failed := failure(t, err, c.code, true)
				assert.Equal(t, []any{200, c.noMemory}, []any{failed.Status, failed.NoMemory}, name)
			})
		}
	}
}

// readWhole makes a request and reads its answer, at once or as it comes.
func readWhole(ctx context.Context, c *outbound.Conn, streamed bool) ([]byte, error) {
	if !streamed {
		resp, err := do(ctx, c, outbound.Request{})
		if err != nil {
			return nil, err
		}
		return resp.Body, nil
	}
	s, err := c.Stream(ctx, outbound.Request{}, outbound.StreamLimits{})
	if err != nil {
		return nil, err
	}
	return s.ReadAllBy(s, 1<<20)
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
				conn := open(t.Context(), t, untaken(t, take), permit)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				result, begun := make(chan error, 1), make(chan struct{})
				go func() {
					_, err := do(ctx, conn, outbound.Request{Body: []byte("{}"), Begun: func() { close(begun) }})
					result <- err
				}()
				synctest.Wait()
				select {
				case <-begun:
					t.Fatal("begun, and the first write has not returned")
				default:
				}
				start := time.Now()
				c.end(cancel, conn, take)
				<-begun
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
	return pipes(func(far net.Conn) {
		select {
		case <-take:
		case <-t.Context().Done():
			return
		}
		_, _ = far.Read(make([]byte, 4<<10)) // the request
		_, _ = io.WriteString(far, ok200+"Content-Length: 2\r\n\r\n{}")
		_, _ = io.Copy(io.Discard, far)
	})
}

// saying is speak for pieces with a pause before each.
func saying(pause time.Duration, pieces ...string) func(context.Context) func(net.Conn) {
	return func(ctx context.Context) func(net.Conn) {
		return func(far net.Conn) {
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
}

const chunked200 = ok200 + "Transfer-Encoding: chunked\r\n\r\n"

// TestPhasesAreBounded: each phase has its own limit, and what is slow within it does not move it. What
// bounds a body that is read as it comes, and what does not.
func TestPhasesAreBounded(t *testing.T) {
	t.Parallel()
	permit := public(t, "POST", api)
	minutes := []string{chunked200, "1\r\na\r\n", "1\r\nb\r\n", "1\r\nc\r\n", "0\r\n\r\n"}
	atOnce := outbound.StreamLimits{Whole: true}
	for name, c := range map[string]struct {
		speak  func(context.Context) func(net.Conn)
		limits outbound.StreamLimits
		within time.Duration // ctx's; zero: an hour
		took   time.Duration
		status int
		whole  bool // it came to its end
	}{
		"no answer":                  {speak: saying(0), limits: atOnce, took: 10 * time.Second},
		"interim only":               {speak: saying(0, "HTTP/1.1 103 Early Hints\r\n\r\n"), limits: atOnce, took: 10 * time.Second},
		"half a body":                {speak: saying(0, halfBody), limits: atOnce, took: 30 * time.Second, status: 200},
		"caller's end in the header": {speak: saying(0), limits: atOnce, within: 2 * time.Second, took: 2 * time.Second},
		"no limit but the caller's": {
			speak: saying(10*time.Minute, minutes...), limits: outbound.StreamLimits{Header: -1}, took: 50 * time.Minute, whole: true,
		},
		"the client's limit of the header": {speak: saying(time.Minute, minutes...), took: 10 * time.Second},
		"always within the idle limit": {
			speak: saying(time.Minute, minutes...), limits: outbound.StreamLimits{Header: -1, Idle: 61 * time.Second}, took: 5 * time.Minute, whole: true,
		},
		"idle": {
			speak: saying(time.Minute, minutes...), limits: outbound.StreamLimits{Header: -1, Idle: 59 * time.Second}, took: 119 * time.Second, status: 200,
		},
		"framing is not something": {
			speak:  saying(time.Minute, chunked200, "1", ";x=y", ";x=y", ";x=y", ";x=y"),
			limits: outbound.StreamLimits{Header: -1, Idle: 2 * time.Minute}, took: 3 * time.Minute, status: 200,
		},
		"the caller's end in the body": {
			speak: saying(time.Minute, minutes...), limits: outbound.StreamLimits{Header: -1, Idle: time.Hour}, within: 150 * time.Second,
			took: 150 * time.Second, status: 200,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), cmp.Or(c.within, time.Hour))
				defer cancel()
				conn := open(ctx, t, spoken(c.speak(t.Context())), permit)
				defer conn.Close()
				start := time.Now()
				got, err := conn.Stream(ctx, outbound.Request{Body: []byte("{}")}, c.limits)
				if err == nil {
					defer got.Close()
					_, err = io.Copy(io.Discard, got)
				}
				assert.Equal(t, c.took, time.Since(start))
				if c.whole {
					require.NoError(t, err)
					return
				}
				timedOut(t, err, c.status)
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
		conn, err := spoken(func(far net.Conn) {
			_, _ = io.WriteString(far, ok200+"\r\n")
			for {
				n, err := far.Write(make([]byte, 100))
				taken.Add(int64(n))
				if err != nil {
					return
				}
			}
		}).Open(t.Context(), permit, "", outbound.Fresh)
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

// TestEndsAtOnce: whoever ends a call that waits for its answer or reads it is let go at once, with the
// truth about the call; the end of a connection never passes for a body's.
func TestEndsAtOnce(t *testing.T) {
	t.Parallel()
	permit := public(t, "POST", api)
	answers := map[string]string{
		"no answer":    "",
		"chunks":       chunked200 + "4\r\nhalf\r\n",
		"length":       halfBody,
		"no end known": ok200 + "\r\nhalf",
	}
	for name, c := range map[string]struct {
		end           func(cancel context.CancelFunc, conn *outbound.Conn, s *outbound.Stream)
		waiting, read schemas.Code
	}{
		"canceled":   {func(cancel context.CancelFunc, _ *outbound.Conn, _ *outbound.Stream) { cancel() }, schemas.Canceled, schemas.Canceled},
		"closed":     {func(_ context.CancelFunc, _ *outbound.Conn, s *outbound.Stream) { s.Close() }, "", schemas.Canceled},
		"connection": {func(_ context.CancelFunc, c *outbound.Conn, _ *outbound.Stream) { c.Close() }, schemas.UpstreamReset, schemas.UpstreamTruncated},
	} {
		for answer, words := range answers {
			if words == "" && c.waiting == "" {
				continue // there is no stream to close
			}
			t.Run(name+", "+answer, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					conn := open(ctx, t, piped(words), permit)
					defer conn.Close()
					var s *outbound.Stream
					var body []byte
					ended := make(chan error, 1)
					go func() {
						var err error
						if s, err = conn.Stream(ctx, outbound.Request{Body: []byte("{}")}, outbound.StreamLimits{Idle: time.Hour}); err == nil {
							body, err = io.ReadAll(s)
						}
						ended <- err
					}()
					synctest.Wait()
					start := time.Now()
					c.end(cancel, conn, s)
					err := <-ended
					assert.Zero(t, time.Since(start))
					if words == "" {
						assert.Zero(t, failure(t, err, c.waiting, true).Status)
						return
					}
					assert.Equal(t, "half", string(body), "what came before stands")
					assert.Equal(t, 200, failure(t, err, c.read, true).Status)
					s.Close()
				})
			})
		}
	}
}
