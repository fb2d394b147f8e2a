package git

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"

	"weir/internal/fault"
	"weir/internal/gitwire"
	"weir/internal/ledger"
	"weir/internal/outbound"
	"weir/internal/redact"
	"weir/processors/call"
	"weir/processors/call/dial"
	"weir/processors/guard"
	"weir/schemas"
)

// mostAnswer is the size limit of a git server's answer to a push, progress included, in bytes.
const mostAnswer = 8 << 20

// PushCall is the request of one push.
type PushCall struct {
	Command gitwire.Command
	// Capabilities are those that are sent with it.
	Capabilities []string
	// Pack returns the pack and its size. It is called before the connection is opened, and again
	// if that fails. Its error means that there is no pack: then nothing is sent, and the push is
	// not retried. The pack is read right before it is sent; a small one is read completely before
	// the first byte.
	Pack func() (pack io.Reader, size int64, err error)
	// Progress takes the server's progress messages; nil: they are dropped.
	Progress func([]byte)
}

// whole is the size up to which a pack is sent with its length, for servers that do not accept
// chunks. A larger one is streamed.
const whole = 1 << 20

// pushReport is the server's report of a push: the body of the stored answer.
type pushReport struct {
	// Unpack is the result of unpacking, and Reason why the ref was not updated; both as in
	// gitwire.Report.
	Unpack string `json:"unpack,omitempty"`
	Reason string `json:"reason,omitempty"`
	// Updated: the ref was updated.
	Updated bool `json:"updated"`
	// Refused is the error sent instead of a report. The ref itself then shows the result.
	Refused *string `json:"refused,omitempty"`
}

// Push returns an adapter for one push. It keeps the status of the response and, on success, the
// result in the report.
func (f *Forward) Push(t PushCall) call.Adapter { return &pushing{Forward: f, call: t} }

type pushing struct {
	*Forward
	call PushCall
}

// Open gets the pack ready, and dials the server.
func (p *pushing) Open(ctx context.Context, pass guard.Pass) (call.Exchange, error) {
	e := &exchange{pushing: p}
	var err error
	if pass.Valid() && !pass.Mocked() {
		if e.pack, e.size, err = p.call.Pack(); err != nil {
			return nil, &fault.Call{Code: schemas.Canceled, Cause: err}
		}
	}
	if e.Base, err = dial.Open(ctx, p.client, pass); err != nil {
		return nil, err
	}
	return e, nil
}

type exchange struct {
	*dial.Base
	*pushing

	pack io.Reader
	size int64
}

var (
	errMembers  = errors.New("the entry adds members to a body that is no JSON object")
	errNoGit    = errors.New("the answer does not come from a git server")
	errNoResult = errors.New("the report has no result for the ref")
)

// Do sends the push, once, and reads the report.
func (e *exchange) Do(ctx context.Context) (call.Reply, error) {
	if e.Pass.Mocked() {
		m := e.Mock()
		return e.read(m.Status, m.Headers, bytes.NewReader(m.Body), nil)
	}
	if len(e.Pass.Added().Body) > 0 && !e.Pass.IsRedirect() {
		return call.Reply{}, &fault.Call{Code: schemas.DenyBody, Cause: errMembers}
	}
	q := outbound.Request{ContentType: gitwire.RequestType(schemas.GitReceivePack)}
	body := io.MultiReader(bytes.NewReader(e.call.Command.Request(e.call.Capabilities...)), e.pack)
	if e.size > whole {
		q.Stream = io.NopCloser(body)
	} else {
		var err error
		if q.Body, err = io.ReadAll(body); err != nil {
			return call.Reply{}, &fault.Call{Code: schemas.Canceled, Cause: err}
		}
	}
	s, scrub, err := e.stream(ctx, e.Base, q, mostAnswer)
	if err != nil {
		return call.Reply{}, err
	}
	defer s.Close()
	return e.read(s.Status, s.Headers, s, scrub)
}

// read reads an answer of any status.
func (e *exchange) read(status int, headers []schemas.Header, r io.Reader, scrub *redact.Scrubber) (call.Reply, error) {
	answer := schemas.Answer{Status: status, Headers: []schemas.Header{}}
	if status != statusOK {
		return call.Reply{Answer: answer}, nil
	}
	err := errNoGit
	if mediaType(headers) == gitwire.ResultType(schemas.GitReceivePack) {
		answer.Body, err = e.report(r, scrub)
	}
	if _, failed := errors.AsType[*fault.Call](err); err != nil && !failed {
		err = &fault.Call{Code: schemas.UpstreamProtocol, Sent: true, Status: status, Cause: err}
	}
	if err != nil {
		return call.Reply{}, err
	}
	answer.JSON = true
	return call.Reply{Answer: answer}, nil
}

// report reads the server's word, and passes on what is said meanwhile.
func (e *exchange) report(r io.Reader, scrub *redact.Scrubber) (json.RawMessage, error) {
	progress := e.call.Progress
	if progress != nil && scrub != nil {
		progress = func(b []byte) { e.call.Progress(scrub.Bytes(b)) }
	}
	rep, err := gitwire.Demux(r, slices.Contains(e.call.Capabilities, gitwire.CapSideBand), progress)
	if refused, said := errors.AsType[*gitwire.RemoteError](err); said {
		text := scrub.String(refused.Text)
		return ledger.Encode(pushReport{Refused: &text})
	}
	one, told := rep.Of(e.call.Command.Ref)
	w := pushReport{Unpack: scrub.String(rep.Unpack), Reason: scrub.String(one.Reason)}
	switch {
	case err != nil:
		return nil, err
	case rep.Unpack != gitwire.UnpackOK && w.Reason == "":
		w.Reason = w.Unpack
	case !told:
		return nil, errNoResult
	}
	w.Updated = w.Reason == ""
	return ledger.Encode(w)
}

// readReport is an upstream's stored answer and its status. The answer is empty unless the status is
// a success.
func readReport(ctx context.Context, from call.Answers, last *ledger.Attempt) (w pushReport, status int, err error) {
	a, err := from.Answer(ctx, last)
	if err != nil || a == nil {
		return w, 0, err
	}
	if a.Status == statusOK {
		if err := json.Unmarshal(a.Body, &w); err != nil {
			return w, 0, &fault.Terminal{Code: schemas.Poison, Reason: "the stored answer to a push cannot be read", Cause: err}
		}
	}
	return w, a.Status, nil
}

// mediaType is what an answer says that it is, without parameters.
func mediaType(headers []schemas.Header) string {
	for _, h := range headers {
		if h.Name == "content-type" {
			t, _, _ := strings.Cut(h.Value, ";")
			return strings.ToLower(strings.TrimSpace(t))
		}
	}
	return ""
}
