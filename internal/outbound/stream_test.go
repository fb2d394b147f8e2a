package outbound_test

import (
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"slices"
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
	conn, err := c.Open(tb.Context(), loopback(tb, method, s.URL()+path), "", outbound.Fresh)
	require.NoError(tb, err)
	tb.Cleanup(conn.Close)
	got, err := conn.Stream(tb.Context(), r, limits)
	if err == nil {
		tb.Cleanup(got.Close)
	}
	return got, err
}

// TestStreamComesAsItIsSent: the next piece is sent only after the one before was read, in every
// framing, flushed gzip too. Neither length nor coding are those of what is read.
func TestStreamComesAsItIsSent(t *testing.T) {
	t.Parallel()
	authority := upstream.NewAuthority(t)
	const n = 10
	piece := strings.Repeat("data: é\n", 4) + "\n"
	type framing struct {
		head   string
		pieces []string
		end    string
	}
	zipped := framing{head: "Content-Encoding: gzip\r\n\r\n"}
	var b strings.Builder
	w := gzip.NewWriter(&b)
	for range n {
		_, _ = io.WriteString(w, piece)
		_ = w.Flush()
		zipped.pieces = append(zipped.pieces, b.String())
		b.Reset()
	}
	_ = w.Close()
	zipped.end = b.String()
	for name, f := range map[string]framing{
		"chunks":       {"Transfer-Encoding: chunked\r\n\r\n", slices.Repeat([]string{fmt.Sprintf("%x\r\n%s\r\n", len(piece), piece)}, n), "0\r\n\r\n"},
		"length":       {fmt.Sprintf("Content-Length: %d\r\n\r\n", n*len(piece)), slices.Repeat([]string{piece}, n), ""},
		"no end known": {"\r\n", slices.Repeat([]string{piece}, n), ""},
		"gzip":         zipped,
	} {
		read := make(chan struct{})
		script := upstream.Answer(func(x *upstream.Exchange) {
			x.Write(ok200 + "Content-Type: text/event-stream\r\n" + f.head)
			for _, p := range f.pieces {
				select {
				case <-read:
				case <-x.Stopped():
					return
				}
				x.Write(p)
			}
			x.Write(f.end)
		})
		for kind, s := range map[string]*upstream.Server{
			"http":  upstream.New(t, script),
			"https": upstream.NewTLS(t, authority.Config("127.0.0.1"), script),
		} {
			got, err := stream(t, client(t, outbound.Config{RootCAs: authority.Pool()}), s, http.MethodPost, "/", outbound.Request{}, outbound.StreamLimits{})
			require.NoError(t, err, name)
			if name == "gzip" {
				assert.Equal(t, []schemas.Header{{Name: "content-type", Value: "text/event-stream"}}, got.Headers)
			}
			for range n {
				read <- struct{}{}
				p := make([]byte, len(piece))
				_, err = io.ReadFull(got, p)
				require.NoError(t, err, name+kind)
				require.Equal(t, piece, string(p), name+kind)
			}
			_, err = got.Read(make([]byte, 1))
			require.Equal(t, io.EOF, err, name+kind)
		}
	}
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
// ReadAllBy may.
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
		"exactly":           {upstream.BodyBytes(limit), -1, ""},
		"exactly, gzip":     {upstream.Gzip(long[1:]), -1, ""},
		"over":              {upstream.BodyBytes(limit + 1), 0, schemas.UpstreamTooLarge}, // by its own word, before a byte is read
		"over, no length":   {upstream.Raw(ok200 + "\r\n" + long), limit, schemas.UpstreamTooLarge},
		"over, chunks":      {upstream.Raw(chunks), limit, schemas.UpstreamTooLarge},
		"over, gzip":        {upstream.GzipBomb(limit + 1), limit, schemas.UpstreamTooLarge},
		"over the stream's": {upstream.BodyBytes(2*limit + 1), 0, schemas.UpstreamTooLarge},
		"endless":           {upstream.InfiniteBody(), limit, schemas.UpstreamTooLarge},
		"cut within it":     {upstream.LyingLength(limit-10, "half"), 4, schemas.UpstreamTruncated},
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
					body, err = got.ReadAllBy(got, limit)
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
