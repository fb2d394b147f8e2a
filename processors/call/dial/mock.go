package dial

import (
	"time"

	"weir/internal/outbound"
	"weir/internal/retry"
)

// head is the method whose answers have no body.
const head = "HEAD"

// Mock is the answer of the traffic rule that answers in the target's place, in the
// form in which an upstream's would have come.
func (l *Base) Mock() *outbound.Response {
	a := l.Pass.Answer()
	r := &outbound.Response{Status: a.Status, Headers: a.Headers}
	if l.Pass.Call().Method != head && len(a.Body) > 0 {
		r.Body = a.Body
	}
	locations := 0
	for _, h := range a.Headers {
		switch h.Name {
		case "location":
			locations++
			r.Location = h.Value
		case "retry-after":
			r.RetryAfter, _ = retry.ParseRetryAfter(h.Value, time.Now())
		}
	}
	if locations > 1 {
		r.Location = ""
	}
	return r
}
