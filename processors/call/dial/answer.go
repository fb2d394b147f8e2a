package dial

import (
	"bytes"
	"io"
	"net/textproto"
	"time"

	"weir/internal/fault"
	"weir/internal/ledger"
	"weir/internal/outbound"
	"weir/internal/redact"
	"weir/internal/retry"
	"weir/processors/call"
	"weir/processors/guard"
	"weir/schemas"
)

// Stream is an answer's body as it comes; see outbound.Stream.
type Stream interface {
	io.Reader
	ReadAllBy(r io.Reader, limit int64) ([]byte, error)
	Declared() int64
	Patience(idle time.Duration)
	Close()
}

// Answer is an answer to a call. Its Stream is the body as it arrives, and its Body the part that a
// reader keeps. A traffic rule's answer has its Body from the beginning.
type Answer struct {
	Stream
	outbound.Response

	Pass  guard.Pass       // of the call
	Scrub *redact.Scrubber // takes out the secrets that were sent; nil: there were none
	Asked time.Time        // when the request was sent
}

// head is the method whose answers have no body.
const head = "HEAD"

// mock is the answer of the traffic rule that answers in the target's place, in the form in which an
// upstream's would have come.
func (a *Answer) mock() {
	m, now := a.Pass.Effect().Answer, time.Now()
	a.Response = outbound.Response{Status: m.Status, Headers: m.Headers}
	if a.Pass.Call().Method != head && len(m.Body) > 0 {
		a.Body = m.Body
	}
	fields := textproto.MIMEHeader{}
	for _, h := range m.Headers {
		fields.Add(h.Name, h.Value)
	}
	a.RetryAfter = retry.Wish(a.Status, fields.Values, now)
	if locations := fields["Location"]; len(locations) == 1 {
		a.Location = locations[0]
	}
	a.Stream, a.Asked = page{bytes.NewReader(a.Body), a.Status}, now
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

func (p page) Declared() int64      { return p.Size() }
func (page) Patience(time.Duration) {}
func (page) Close()                 {}
