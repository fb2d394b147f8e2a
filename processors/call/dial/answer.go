package dial

import (
	"bytes"
	"context"
	"io"
	"time"

	"weir/internal/fault"
	"weir/internal/ledger"
	"weir/internal/outbound"
	"weir/internal/redact"
	"weir/processors/call"
	"weir/schemas"
)

// Stream is an answer's body as it comes; see outbound.Stream.
type Stream interface {
	io.Reader
	ReadAllBy(r io.Reader, limit int64) ([]byte, error)
	Patience(idle time.Duration)
	Close()
}

// Answer is an answer whose body is read as it comes.
type Answer struct {
	Stream

	Status     int
	Headers    []schemas.Header
	RetryAfter time.Duration
	Scrub      *redact.Scrubber // see Request
	Asked      time.Time        // when the request was sent
}

// Ask sends the JSON of the call, and returns when the answer begins; close it. The secrets of the
// entry are read as late as possible. If a traffic rule answers, nothing is sent, and its answer is
// read like the target's.
func (l *Base) Ask(ctx context.Context, secrets Secrets, limits outbound.StreamLimits) (*Answer, error) {
	if l.Pass.Mocked() {
		r := l.Mock()
		return &Answer{Stream: page{bytes.NewReader(r.Body), r.Status}, Status: r.Status, Headers: r.Headers, RetryAfter: r.RetryAfter, Asked: time.Now()}, nil
	}
	req, scrub, err := l.Request(ctx, secrets, l.Pass.Call().Body)
	if err != nil {
		return nil, err
	}
	req.ContentType = "application/json"
	asked := time.Now()
	s, err := l.Conn.Stream(ctx, req, limits)
	if err != nil {
		return nil, err
	}
	return &Answer{s, s.Status, s.Headers, s.RetryAfter, scrub, asked}, nil
}

// Refused reports whether the answer is no success.
func (a *Answer) Refused() bool { return a.Status < 200 || a.Status > 299 }

// maxRefusal is how much is read of an answer that is no success.
const maxRefusal = 256 << 10

// Refusal is the body of an answer that is no success, read by r; ok is false if it cannot be read.
func (a *Answer) Refusal(r io.Reader) (raw []byte, ok bool) {
	raw, err := a.ReadAllBy(r, maxRefusal)
	if err != nil {
		return nil, false
	}
	return raw, true
}

// Failure is the failure of the call after its answer began.
func (a *Answer) Failure(code schemas.Code, cause error) *fault.Call {
	return &fault.Call{Code: code, Sent: true, Status: a.Status, Cause: cause}
}

// Document is a reply whose body is a document of Weir's own making. The hash is that of what came.
func (a *Answer) Document(doc any, hash string) (*call.Reply, error) {
	body, err := ledger.Encode(doc)
	if err != nil {
		return nil, a.Failure(schemas.UpstreamProtocol, err)
	}
	return &call.Reply{Answer: schemas.Answer{
		Status: a.Status, Headers: []schemas.Header{}, Body: body, JSON: true, Hash: hash, RetryAfter: a.RetryAfter,
	}}, nil
}

// page is a body that is all there.
type page struct {
	*bytes.Reader

	status int
}

func (p page) ReadAllBy(r io.Reader, limit int64) ([]byte, error) {
	raw, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err == nil && int64(len(raw)) > limit {
		err = &fault.Call{Code: schemas.UpstreamTooLarge, Sent: true, Status: p.status}
	}
	return raw, err
}

func (page) Patience(time.Duration) {}
func (page) Close()                 {}
