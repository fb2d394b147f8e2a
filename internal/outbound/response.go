package outbound

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"weir/internal/fault"
	"weir/internal/retry"
	"weir/schemas"
)

// Response is a whole answer.
type Response struct {
	Status int
	// Headers are all fields, names in lower case, sorted by name; the order
	// of a name's values is kept. Trailers are not among them, nor are the
	// length and coding of a body that was decompressed.
	Headers []schemas.Header
	// Body is decoded. It is nil where there was none.
	Body []byte
	// Location is set where there is exactly one such field.
	Location string
	// RetryAfter is the upstream's own wish, unbounded.
	RetryAfter time.Duration
}

var (
	errLeft      = errors.New("the reader closed the stream")
	errBodyBytes = errors.New("the response's body is over the limit")
	errCoding    = errors.New("the response's coding was not offered")
)

// codingOf is the content coding of an answer by its fields: nothing, gzip, or one that was not
// requested.
func codingOf(fields []string) string {
	switch word := strings.ToLower(strings.TrimSpace(strings.Join(fields, ","))); word {
	case "identity":
		return ""
	case "x-gzip":
		return "gzip"
	default:
		return word
	}
}

// wireLimit is how many bytes of body may come over the wire for a decoded
// limit: compressed noise is a little longer than the noise. Without it,
// compressed nothing could come for ever.
func wireLimit(decoded int64) int64 { return decoded + decoded>>10 + 4096 }

// head is a Response without its body. decoded: the body is not in the coding of the fields.
func head(resp *http.Response, decoded bool, now time.Time) Response {
	a := Response{Status: resp.StatusCode, Headers: make([]schemas.Header, 0, len(resp.Header))}
	if decoded {
		resp.Header.Del("Content-Encoding")
		resp.Header.Del("Content-Length")
	}
	for name, values := range resp.Header {
		name = strings.ToLower(name)
		for _, v := range values {
			a.Headers = append(a.Headers, schemas.Header{Name: name, Value: v})
		}
	}
	slices.SortStableFunc(a.Headers, func(x, y schemas.Header) int { return strings.Compare(x.Name, y.Name) })
	if l := resp.Header["Location"]; len(l) == 1 {
		a.Location = l[0]
	}
	a.RetryAfter = retry.Wish(a.Status, resp.Header.Values, now)
	return a
}

// failure finds the code for an exchange that broke off.
func (s *Stream) failure(err error) error {
	w := s.conn.wire
	readErr := w.readErr
	if errors.Is(err, errOver) && readErr != nil { // why the body was let go of
		err = readErr
	}
	text := err.Error() // where net/http has no value for it
	ended := errors.Is(err, io.ErrUnexpectedEOF) || readErr != nil && errors.Is(err, readErr) || strings.Contains(text, "unexpected EOF")
	switch own := w.source.failure(); {
	case own != nil:
		return s.fail(schemas.Canceled, own)
	case errors.Is(readErr, errHeaderBytes), s.phase == PhaseBody && !ended && strings.Contains(text, "suspiciously long trailer"):
		return s.fail(schemas.UpstreamHeadersTooLarge, err)
	case ended && s.phase == PhaseBody:
		return s.fail(schemas.UpstreamTruncated, err)
	case ended, s.phase == PhaseHeader && readErr != nil && cut(w.head):
		return s.fail(schemas.UpstreamReset, err)
	default: // it was read, and is not HTTP
		return s.fail(schemas.UpstreamProtocol, err)
	}
}

// fail seals the wire and returns the call's error. A cancellation or a timeout explains whatever
// the connection then did.
func (s *Stream) fail(code schemas.Code, cause error) *fault.Call {
	sent := s.conn.wire.seal()
	if own, over := givenUp(s.ctx); over {
		code = own
	} else if s.conn.wire.late() {
		code = schemas.UpstreamTimeout
	} else if s.left.Load() {
		code = schemas.Canceled
	}
	return &fault.Call{Code: code, Sent: sent, Status: s.Status, NoMemory: errors.Is(cause, errNoMemory), Cause: &PhaseError{s.phase, cause}}
}

// cut reports whether the beginning of an answer came, and ended within its headers. The parser of
// net/http takes the end of the connection for the end of a line, and so for malformed bytes.
func cut(head []byte) bool {
	const prefix = "HTTP/1."
	n := min(len(head), len(prefix))
	return n > 0 && string(head[:n]) == prefix[:n] && !bytes.Contains(head, []byte("\n\r\n")) && !bytes.Contains(head, []byte("\n\n"))
}
