package outbound_test

import (
	"compress/gzip"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/outbound"
	"weir/internal/weirtest/upstream"
	"weir/schemas"
)

// stream is Open and Stream of one request to a path of s.
func stream(
	tb testing.TB, c *outbound.Client, s *upstream.Server, method, path string, r outbound.Request, limits outbound.StreamLimits,
) (*outbound.Stream, error) {
	tb.Helper()
	conn, err := c.Open(tb.Context(), loopback(tb, method, s.URL()+path))
	require.NoError(tb, err)
	tb.Cleanup(conn.Close)
	got, err := conn.Stream(tb.Context(), r, limits)
	if err == nil {
		tb.Cleanup(got.Close)
	}
	return got, err
}

// TestStreamComesAsItIsSent: the next piece is sent only after the one before
// was read, in every framing.
func TestStreamComesAsItIsSent(t *testing.T) {
	t.Parallel()
	authority := upstream.NewAuthority(t)
	piece := strings.Repeat("data: x\n", 4) + "\n"
	for name, framing := range map[string]struct{ head, piece, end string }{
		"chunks":       {"Transfer-Encoding: chunked\r\n\r\n", "21\r\n" + piece + "\r\n", "0\r\n\r\n"},
		"length":       {"Content-Length: 330\r\n\r\n", piece, ""},
		"no end known": {"\r\n", piece, ""},
	} {
		read := make(chan struct{})
		script := upstream.Answer(func(x *upstream.Exchange) {
			x.Write(ok200 + "Content-Type: text/event-stream\r\n" + framing.head)
			for range 10 {
				select {
				case <-read:
				case <-x.Stopped():
					return
				}
				x.Write(framing.piece)
			}
			x.Write(framing.end)
		})
		for kind, s := range map[string]*upstream.Server{
			"http":  upstream.New(t, script),
			"https": upstream.NewTLS(t, authority.Config("127.0.0.1"), script),
		} {
			got, err := stream(t, client(t, outbound.Config{RootCAs: authority.Pool()}), s, http.MethodPost, "/", outbound.Request{}, outbound.StreamLimits{})
			require.NoError(t, err, name)
			for range 10 {
				read <- struct{}{}
				p := make([]byte, len(piece))
				_, err = io.ReadFull(got, p)
				require.NoError(t, err, name+kind)
				require.Equal(t, piece, string(p), name+kind)
			}
			n, err := got.Read(make([]byte, 1))
			require.Equal(t, io.EOF, err, name+kind)
			require.Zero(t, n)
		}
	}
}

// TestStreamDecodesAsItIsSent: what was flushed into gzip is read before more comes,
// and neither length nor coding are those of what is read.
func TestStreamDecodesAsItIsSent(t *testing.T) {
	t.Parallel()
	const piece = "data: {\"delta\":\"é\"}\n\n"
	read := make(chan struct{})
	s := upstream.New(t, upstream.Answer(func(x *upstream.Exchange) {
		x.Write(ok200 + "Content-Encoding: gzip\r\nContent-Type: text/event-stream\r\n\r\n")
		var b strings.Builder
		w := gzip.NewWriter(&b)
		for range 10 {
			select {
			case <-read:
			case <-x.Stopped():
				return
			}
			_, _ = io.WriteString(w, piece)
			_ = w.Flush()
			x.Write(b.String())
			b.Reset()
		}
		_ = w.Close()
		x.Write(b.String())
	}))
	got, err := stream(t, client(t, outbound.Config{}), s, http.MethodPost, "/", outbound.Request{}, outbound.StreamLimits{})
	require.NoError(t, err)
	assert.Equal(t, []schemas.Header{{Name: "content-type", Value: "text/event-stream"}}, got.Headers)
	for range 10 {
		read <- struct{}{}
		p := make([]byte, len(piece))
		_, err = io.ReadFull(got, p)
		require.NoError(t, err)
		require.Equal(t, piece, string(p))
	}
	_, err = got.Read(make([]byte, 1))
	require.Equal(t, io.EOF, err)
	s.WaitIdle()
}

// TestStreamGivesWhatCameBeforeABrokenCoding, and then says what is wrong.
func TestStreamGivesWhatCameBeforeABrokenCoding(t *testing.T) {
	t.Parallel()
	s := upstream.New(t, upstream.GzipTrailingGarbage())
	got, err := stream(t, client(t, outbound.Config{}), s, http.MethodGet, "/", outbound.Request{}, outbound.StreamLimits{})
	require.NoError(t, err)
	body, err := io.ReadAll(got)
	failed(t, err, schemas.UpstreamEncoding, true)
	assert.Equal(t, "text", string(body))
}

// TestStreamIsAReader: by the rules of io.Reader, for buffers of every size.
func TestStreamIsAReader(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("0123456789", 1000)
	s := upstream.New(t, upstream.Respond(200, text), upstream.Gzip(text))
	c := client(t, outbound.Config{})
	got, err := stream(t, c, s, http.MethodGet, "/", outbound.Request{}, outbound.StreamLimits{})
	require.NoError(t, err)
	require.NoError(t, iotest.TestReader(got, []byte(text)))
	for _, wrap := range []func(io.Reader) io.Reader{iotest.OneByteReader, iotest.HalfReader, iotest.DataErrReader} {
		got, err = stream(t, c, s, http.MethodGet, "/", outbound.Request{}, outbound.StreamLimits{})
		require.NoError(t, err)
		body, err := io.ReadAll(wrap(got))
		require.NoError(t, err)
		require.Equal(t, text, string(body))
	}
}

// TestStreamBytes: up to a limit all is read, and not a byte more. The stream may have twice what
// ReadAll may.
func TestStreamBytes(t *testing.T) {
	t.Parallel()
	const limit = 100
	long := strings.Repeat("x", limit+1)
	chunks := ok200 + "Transfer-Encoding: chunked\r\n\r\n65\r\n" + long + "\r\n0\r\n\r\n"
	for name, tt := range map[string]struct {
		behaviour upstream.Behaviour
		read      int // before Read fails; -1: it does not
		code      schemas.Code
	}{
		"exactly":            {upstream.BodyBytes(limit), -1, ""},
		"exactly, no length": {upstream.Raw(ok200 + "\r\n" + long[1:]), -1, ""},
		"exactly, gzip":      {upstream.Gzip(long[1:]), -1, ""},
		"over":               {upstream.BodyBytes(limit + 1), 0, schemas.UpstreamTooLarge}, // by its own word, before a byte is read
		"over, no length":    {upstream.Raw(ok200 + "\r\n" + long), limit, schemas.UpstreamTooLarge},
		"over, chunks":       {upstream.Raw(chunks), limit, schemas.UpstreamTooLarge},
		"over, gzip":         {upstream.GzipBomb(limit + 1), limit, schemas.UpstreamTooLarge},
		"over, and then cut": {upstream.LyingLength(2*limit-10, long), 0, schemas.UpstreamTooLarge},
		"over the stream's":  {upstream.BodyBytes(2*limit + 1), 0, schemas.UpstreamTooLarge},
		"endless":            {upstream.InfiniteBody(), limit, schemas.UpstreamTooLarge},
		"a failure's body":   {upstream.Respond(503, long), 0, schemas.UpstreamTooLarge},
		"cut within it":      {upstream.LyingLength(limit-10, "half"), 4, schemas.UpstreamTruncated},
	} {
		for _, all := range []bool{false, true} {
			t.Run(name+", all "+strconv.FormatBool(all), func(t *testing.T) {
				t.Parallel()
				s, limits := upstream.New(t, tt.behaviour), outbound.StreamLimits{Bytes: limit}
				if all {
					limits.Bytes = 2 * limit
				}
				got, err := stream(t, client(t, outbound.Config{}), s, http.MethodGet, "/", outbound.Request{}, limits)
				require.NoError(t, err)
				var body []byte
				if all {
					body, err = got.ReadAll(limit)
				} else {
					body, err = io.ReadAll(got)
				}
				if tt.code == "" {
					require.NoError(t, err)
					assert.Len(t, body, limit)
					return
				}
				assert.Equal(t, got.Status, failure(t, err, tt.code, true).Status)
				if all {
					assert.Nil(t, body)
				} else {
					assert.Len(t, body, tt.read)
				}
				s.WaitIdle() // the connection is let go without a Close
			})
		}
	}
}

func TestStreamIsTheOneRequest(t *testing.T) {
	t.Parallel()
	s := upstream.New(t, upstream.Respond(http.StatusServiceUnavailable, "later", upstream.Header("Retry-After", "7"), upstream.Header("X-B", "2"), upstream.Header("X-A", "1")))
	conn := open(t.Context(), t, client(t, outbound.Config{}), loopback(t, "POST", s.URL()+"/"))
	got, err := conn.Stream(t.Context(), outbound.Request{Body: []byte("{}"), Headers: []schemas.Header{{Name: "Accept", Value: "text/event-stream"}}}, outbound.StreamLimits{})
	require.NoError(t, err)
	assert.Equal(t, 503, got.Status)
	assert.Equal(t, "7s", got.RetryAfter.String())
	assert.Equal(t, []schemas.Header{
		{Name: "content-length", Value: "5"}, {Name: "retry-after", Value: "7"}, {Name: "x-a", Value: "1"}, {Name: "x-b", Value: "2"},
	}, got.Headers)
	_, err = conn.Stream(t.Context(), outbound.Request{}, outbound.StreamLimits{})
	failed(t, err, schemas.Internal, false)
	_, err = conn.Do(t.Context(), outbound.Request{})
	failed(t, err, schemas.Internal, false)
	body, err := got.ReadAll(5)
	require.NoError(t, err, "a refused second request does no harm to the first")
	assert.Equal(t, "later", string(body))
	got.Close()
	got.Close()
	_, err = got.Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF, "what was read to its end has ended")
	s.WaitIdle()
	assert.Equal(t, 1, s.Hits())
	assert.Equal(t, "text/event-stream", s.Ledger()[0].Header("Accept"))
}
