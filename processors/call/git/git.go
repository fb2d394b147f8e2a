// Package git is the outward adapter for pushes to a git server elsewhere: it
// streams the commands and the pack of one push over smart HTTP, and reads the
// server's report on it.
package git

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"time"

	"weir/internal/fault"
	"weir/internal/gitwire"
	"weir/internal/ledger"
	"weir/internal/outbound"
	"weir/internal/redact"
	"weir/processors/call"
	"weir/processors/call/added"
	"weir/processors/call/dial"
	"weir/processors/guard"
	"weir/schemas"
)

// Agent is how Weir calls itself to git servers. Some serve no client whose name does
// not begin with git's.
const Agent = "git/weir"

// What a git server may answer: how long it may say nothing meanwhile, and how much it may say,
// progress included.
const (
	idle       = 2 * time.Minute
	mostAnswer = 8 << 20
)

// Adapter pushes through the guarded client. It is safe for concurrent use.
type Adapter struct {
	client  *outbound.Client
	secrets added.Secrets
}

// New returns an Adapter.
func New(c *outbound.Client, s added.Secrets) *Adapter { return &Adapter{client: c, secrets: s} }

// Talk is one push, as far as the server is concerned.
type Talk struct {
	// Commands are the commands as they go.
	Commands gitwire.Commands
	// Pack returns the pack and its size. It is called before the server is dialled, and again
	// if that comes to nothing. Its error says that there is none: then nothing is sent, and the
	// push is not tried again. The pack is read right before it is sent; if it is small, all of it
	// before the first byte.
	Pack func() (pack io.Reader, size int64, err error)
	// Progress takes what the server has to say meanwhile; nil: it is dropped.
	Progress func([]byte)
}

// whole is the size up to which a pack goes with its length, as servers like it that do not take
// chunks. A larger one is streamed.
const whole = 1 << 20

// Word is the server's word on a push: the body of the answer that is kept.
type Word struct {
	// Unpack is its word on the objects, and Reason why the ref was not updated; both as
	// gitwire.Report has them.
	Unpack string `json:"unpack,omitempty"`
	Reason string `json:"reason,omitempty"`
	// Updated: it says that the ref was updated.
	Updated bool `json:"updated"`
	// Refused is what it said instead of a report. What became of the ref is then
	// for the ref to tell.
	Refused *string `json:"refused,omitempty"`
}

// For returns an adapter for one push. Of what comes back it keeps the status, and of a
// success the Word.
func (a *Adapter) For(t Talk) call.Adapter { return voice{a, t} }

type voice struct {
	*Adapter
	talk Talk
}

// Open gets the pack ready, and dials the server.
func (v voice) Open(ctx context.Context, p guard.Pass) (call.Exchange, error) {
	e := &exchange{voice: v}
	var err error
	if p.Valid() && !p.Mocked() {
		if e.pack, e.size, err = v.talk.Pack(); err != nil {
			return nil, &fault.Call{Code: schemas.Canceled, Cause: err}
		}
	}
	e.Line, err = dial.Open(ctx, v.client, p)
	if err != nil {
		return nil, err
	}
	return e, nil
}

type exchange struct {
	*dial.Line
	voice

	pack io.Reader
	size int64
}

var errMembers = errors.New("the entry adds members to a body that is no JSON object")

// Do sends the push, once, and reads the report. The secrets of its entry are read as
// late as can be.
func (e *exchange) Do(ctx context.Context) (call.Reply, error) {
	if e.Pass.Mocked() {
		m := e.Mock()
		return e.read(m.Status, m.Headers, bytes.NewReader(m.Body), nil)
	}
	own, err := added.Read(ctx, e.secrets, e.Pass)
	if err != nil {
		return call.Reply{}, err
	}
	if len(own.Body) > 0 {
		return call.Reply{}, &fault.Call{Code: schemas.DenyBody, Cause: errMembers}
	}
	q := outbound.Request{Headers: e.Pass.Call().Headers, Injected: own.Headers, Query: own.Query, ContentType: gitwire.RequestType(schemas.GitReceivePack)}
	body := io.MultiReader(bytes.NewReader(e.talk.Commands.Bytes(e.talk.Commands.Capabilities)), e.pack)
	if e.size > whole {
		q.Stream = io.NopCloser(body)
	} else if q.Body, err = io.ReadAll(body); err != nil {
		return call.Reply{}, &fault.Call{Code: schemas.Canceled, Cause: err}
	}
	s, err := e.Conn.Stream(ctx, q, outbound.StreamLimits{Header: -1, Idle: idle, Bytes: mostAnswer})
	if err != nil {
		return call.Reply{}, err
	}
	defer s.Close()
	return e.read(s.Status, s.Headers, s, own.Scrubber())
}

// read reads an answer of any status.
func (e *exchange) read(status int, headers []schemas.Header, r io.Reader, scrub *redact.Scrubber) (call.Reply, error) {
	answer := schemas.Answer{Status: status, Headers: []schemas.Header{}}
	if status != ok {
		return call.Reply{Answer: answer}, nil
	}
	if MediaType(headers) != gitwire.ResultType(schemas.GitReceivePack) {
		return call.Reply{}, &fault.Call{Code: schemas.UpstreamProtocol, Sent: true, Status: status, Cause: errNoGit}
	}
	heard := &Heard{Reader: r}
	word, err := e.listen(heard, scrub)
	if err != nil {
		if heard.Failed != nil {
			return call.Reply{}, heard.Failed
		}
		return call.Reply{}, &fault.Call{Code: schemas.UpstreamProtocol, Sent: true, Status: status, Cause: err}
	}
	answer.Body, err = ledger.Encode(word)
	answer.JSON = true
	return call.Reply{Answer: answer}, err
}

const ok = 200

var errNoGit = errors.New("the answer is not that of a git server")

// Heard is an answer that keeps how its call failed: a reader of the answer may take the
// failure for an early end.
type Heard struct {
	io.Reader

	Failed *fault.Call
}

// Read is io.Reader's.
func (h *Heard) Read(b []byte) (int, error) {
	n, err := h.Reader.Read(b)
	if failed, ok := errors.AsType[*fault.Call](err); ok {
		h.Failed = failed
	}
	return n, err
}

// listen reads the report, and passes on what is said meanwhile.
func (e *exchange) listen(r io.Reader, scrub *redact.Scrubber) (Word, error) {
	c := e.talk.Commands
	progress := e.talk.Progress
	if progress != nil && scrub != nil {
		progress = func(b []byte) { e.talk.Progress(scrub.Bytes(b)) }
	}
	rep, err := gitwire.Demux(r, c.Has(gitwire.CapSideBand), progress)
	if refused, said := errors.AsType[*gitwire.RemoteError](err); said {
		text := scrub.String(refused.Text)
		return Word{Refused: &text}, nil
	}
	if err != nil {
		return Word{}, err
	}
	word := Word{Unpack: scrub.String(rep.Unpack)}
	for _, cmd := range c.List {
		one, told := rep.Of(cmd.Ref)
		switch {
		case !told && rep.Unpack == gitwire.UnpackOK:
			return Word{}, errNoWord
		case one.Reason != "":
			word.Reason = scrub.String(one.Reason)
		case rep.Unpack != gitwire.UnpackOK:
			word.Reason = word.Unpack
		}
	}
	word.Updated = word.Reason == ""
	return word, nil
}

var errNoWord = errors.New("the report has no word on the ref")

// MediaType is what an answer says that it is, without parameters.
func MediaType(headers []schemas.Header) string {
	for _, h := range headers {
		if h.Name == "content-type" {
			t, _, _ := strings.Cut(h.Value, ";")
			return strings.ToLower(strings.TrimSpace(t))
		}
	}
	return ""
}
