package githttp

import (
	"compress/flate"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"weir/internal/fault"
	"weir/internal/gitwire"
	"weir/schemas"
)

// A body must bring leastBytes within leastTime: 1 KiB/s. Only the time counts in which the client is waited for,
// so that the reader of the body may be slow. The last bytes have as long.
const (
	leastBytes = 30 << 10
	leastTime  = 30 * time.Second
)

// Body is the body of a request of git's, decoded. It belongs to one goroutine at a
// time. Its errors are io.EOF, gitwire.ErrTooLarge, gitwire.ErrMalformed where it does
// not decode, os.ErrDeadlineExceeded where it comes too slowly, and whatever the connection
// fails with.
type Body struct {
	conn    *wire
	raw     limited // bytes as they arrive
	decoder *gzip.Reader
	decoded limited
	err     error
}

// limited fails after so many bytes.
type limited struct {
	read func([]byte) (int, error)
	left int64
}

func (l *limited) Read(p []byte) (int, error) {
	if l.left < 0 {
		return 0, gitwire.ErrTooLarge
	}
	n, err := l.read(p[:min(int64(len(p)), l.left+1)])
	if l.left -= int64(n); l.left < 0 {
		return n - 1, gitwire.ErrTooLarge
	}
	return n, err
}

// NewBody returns the body of a request, of which nothing was read. At most so many bytes may come, encoded
// and decoded, and for so long. Only gzip is decoded.
func NewBody(w http.ResponseWriter, r *http.Request, most int64, total time.Duration) (*Body, error) {
	b := &Body{conn: &wire{src: r.Body, conn: http.NewResponseController(w), end: time.Now().Add(total)}}
	b.raw, b.decoded = limited{b.conn.Read, most}, limited{b.raw.Read, most}
	if r.Body == nil { // only of requests that no server has read
		b.conn.src = http.NoBody
	}
	switch fields := r.Header.Values("Content-Encoding"); {
	case len(fields) == 0, len(fields) == 1 && strings.EqualFold(fields[0], "identity"):
	case len(fields) == 1 && (strings.EqualFold(fields[0], "gzip") || strings.EqualFold(fields[0], "x-gzip")):
		b.decoded.read = b.unzip
	default:
		w.Header().Set("Accept-Encoding", "gzip, identity") // RFC 9110, section 15.5.16
		return nil, fault.New(schemas.UnsupportedEncoding, "git's bodies are sent plain or with Content-Encoding: gzip")
	}
	return b, nil
}

// Read decodes what comes.
func (b *Body) Read(p []byte) (int, error) {
	if b.err != nil || len(p) == 0 {
		return 0, b.err
	}
	n, err := b.decoded.Read(p)
	b.err = err
	return n, err
}

func (b *Body) unzip(p []byte) (n int, err error) {
	if b.decoder == nil {
		if b.decoder, err = gzip.NewReader(&b.raw); err != nil {
			return 0, undecoded(err)
		}
	}
	n, err = b.decoder.Read(p)
	return n, undecoded(err)
}

// undecoded tells bytes that are no gzip from a connection that broke off.
func undecoded(err error) error {
	_, corrupt := errors.AsType[flate.CorruptInputError](err)
	if corrupt || errors.Is(err, gzip.ErrHeader) || errors.Is(err, gzip.ErrChecksum) {
		return fmt.Errorf("%w: the gzip of the body", gitwire.ErrMalformed)
	}
	return err
}

// Whole reports whether everything that the client sent has been read. Any goroutine
// may ask.
func (b *Body) Whole() bool { return b.conn.whole.Load() }

// Drain reads what is left, as it comes and to a limit: a client that still sends
// would not look at an answer.
func (b *Body) Drain(limit int64) {
	b.raw.left = limit
	_, _ = io.CopyN(io.Discard, &b.raw, limit)
}

// wire reads from the connection, each time with a deadline.
type wire struct {
	src   io.Reader
	conn  *http.ResponseController
	end   time.Time
	whole atomic.Bool

	waited time.Duration // for the next leastBytes
	came   int64         // of them
}

func (c *wire) Read(p []byte) (int, error) {
	start := time.Now()
	until := start.Add(leastTime - c.waited)
	if until.After(c.end) {
		until = c.end
	}
	_ = c.conn.SetReadDeadline(until) // a recorder has none
	n, err := c.src.Read(p)
	c.waited += time.Since(start)
	if c.came += int64(n); c.came >= leastBytes {
		c.waited, c.came = 0, 0
	}
	if errors.Is(err, io.EOF) {
		c.whole.Store(true)
		_ = c.conn.SetReadDeadline(time.Time{}) // it would end the wait for the answer
	}
	return n, err
}

// Refusal is the public error of a body that could not be read. what names it.
func Refusal(err error, what string) error {
	switch {
	case errors.Is(err, gitwire.ErrTooLarge):
		return &fault.Error{Code: schemas.PayloadTooLarge, Message: what + " is larger than the limit", Cause: err}
	case errors.Is(err, gitwire.ErrMalformed):
		return &fault.Error{Code: schemas.InvalidRequest, Message: what + " is not what a client of git sends: " + err.Error(), Cause: err}
	case errors.Is(err, os.ErrDeadlineExceeded):
		return &fault.Error{Code: schemas.RequestTimeout, Message: what + " did not come in time; try again", Cause: err}
	default:
		return &fault.Error{Code: schemas.InvalidRequest, Message: what + " could not be read to its end; try again", Cause: err}
	}
}

// ReadFetch reads the request of a fetch. Its errors are public.
func ReadFetch(w http.ResponseWriter, r *http.Request, v2 bool, most int64, total time.Duration) (f gitwire.Fetch, err error) {
	const what = "the request of the fetch"
	if r.ContentLength > most {
		return f, Refusal(gitwire.ErrTooLarge, what)
	}
	body, err := NewBody(w, r, most, total)
	if err != nil {
		return f, err
	}
	in, err := io.ReadAll(body)
	if err == nil {
		f, err = gitwire.ParseFetch(in, v2)
	}
	if err != nil {
		err = Refusal(err, what)
	}
	return f, err
}

// The most that is read of a refused request's body. If the server stops reading, a client that
// still sends sees a reset connection and not the answer.
const (
	lingering  = 64 << 20
	lingerTime = 3 * time.Second
	// small is what net/http reads by itself, and keeps the connection.
	small = 256 << 10
)

// Refuse has a request answered whose body may not have come yet, and goes on reading
// that for a while. Answer writes all of the answer.
func Refuse(w http.ResponseWriter, r *http.Request, answer func()) {
	if r.ContentLength >= 0 && r.ContentLength <= small || r.Header.Get("Expect") != "" {
		answer()
		return
	}
	w.Header().Set("Connection", "close") // or net/http would read before it answers, and close what is left
	answer()
	conn := http.NewResponseController(w)
	if conn.Flush() != nil || conn.SetReadDeadline(time.Now().Add(lingerTime)) != nil {
		return
	}
	_, _ = io.CopyN(io.Discard, r.Body, lingering)
}
