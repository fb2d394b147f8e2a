package dial

import (
	"strings"
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
	r.RetryAfter = retry.Wish(r.Status, func(name string) (values []string) {
		for _, h := range a.Headers {
			if strings.EqualFold(h.Name, name) {
				values = append(values, h.Value)
			}
		}
		return values
	}, time.Now())
	locations := 0
	for _, h := range a.Headers {
		if h.Name == "location" {
			locations++
			r.Location = h.Value
		}
	}
	if locations > 1 {
		r.Location = ""
	}
	return r
}
