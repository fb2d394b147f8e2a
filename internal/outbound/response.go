package outbound

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

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
	errBodyBytes = errors.New("the response's body is over the limit")
	errCoding    = errors.New("the response's coding was not offered")
)

// codingOf is the content coding of an answer: nothing, gzip, or one that was not requested.
func codingOf(resp *http.Response) string {
	switch word := strings.ToLower(strings.TrimSpace(strings.Join(resp.Header["Content-Encoding"], ","))); word {
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

// freeBytes is how much of an answer is read before memory is reserved for it.
const freeBytes = 256 << 10

// errNoMemory ends an answer for which no memory was free in time.
var errNoMemory = errors.New("no memory for the response's body was free in time")

// reserve waits for the memory of an answer that may have up to limit bytes, and returns how many it may have.
func (x *exchange) reserve(limit, expected int64) (int64, error) {
	if x.quota.Reserve == nil {
		return limit, nil
	}
	if expected > 0 {
		limit = min(limit, expected)
	}
	granted, release, err := x.quota.Reserve(x.ctx, limit)
	if err != nil {
		return 0, fmt.Errorf("%w: %w", errNoMemory, err)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.release = release
	return granted, nil
}

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
