package model

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"hash"
	"io"
	"slices"
	"strings"
	"time"

	"weir/internal/completion"
	"weir/internal/fault"
	"weir/internal/ledger"
	"weir/internal/redact"
	"weir/processors/call"
	"weir/schemas"
)

// stream is an answer's body as it comes; see outbound.Stream.
type stream interface {
	io.Reader
	// ReadAllBy reads what is left by a reader over this one, where that is no more than limit.
	ReadAllBy(r io.Reader, limit int64) ([]byte, error)
	Close()
}

// listener is one answer while it is read.
type listener struct {
	*exchange
	status     int
	retryAfter time.Duration
	stream     stream
	scrub      *redact.Scrubber
	sum        hash.Hash // of what came
	asked      time.Time
	first      *alarm // until something of the body comes
	grace      *grace // from the end of the last choice
	whole      completion.Assembler
	weighed    int // bytes of chunks since whole was measured
	told       Told
	called     bool // Chunk was
}

var (
	errNoCompletion = errors.New("the answer is no completion")
	errNoEnd        = errors.New("the stream ended before the answer did")
	errMuch         = errors.New("the answer is over the limit")
)

// maxRefusal is how much is read of an answer that is no success.
const maxRefusal = 256 << 10

// listen reads an answer of any kind. What an answer is, its first byte tells better
// than its content type.
func (l *listener) listen(ctx context.Context) (reply call.Reply, err error) {
	l.sum = sha256.New()
	if l.status < 200 || l.status > 299 {
		return l.refused()
	}
	defer func() {
		if l.called && l.talk.Done != nil {
			if late := l.talk.Done(ctx); late != nil && err == nil {
				reply, err = call.Reply{}, late
			}
		}
		if used := cmp.Or(l.whole.Spent(), l.told.Usage); err != nil && used != nil && l.talk.Broke != nil {
			l.talk.Broke(used)
		}
	}()
	begin, err := l.peek()
	switch {
	case errors.Is(err, io.EOF):
		return call.Reply{}, l.failure(schemas.UpstreamTruncated, errNoEnd)
	case err != nil:
		return call.Reply{}, err
	case begin == '{', begin == '[':
		return l.document(ctx, begin)
	case begin == '<':
		return call.Reply{}, l.failure(schemas.UpstreamProtocol, errNoCompletion)
	default:
		return l.events(ctx, begin)
	}
}

// Read reads on, and takes the sum of what comes.
func (l *listener) Read(p []byte) (int, error) {
	n, err := l.stream.Read(p)
	if n > 0 {
		l.first.stop()
		l.grace.more()
		l.sum.Write(p[:n])
	}
	if err != nil && !errors.Is(err, io.EOF) && l.first.ringing() {
		err = l.failure(schemas.UpstreamTimeout, err)
	}
	return n, err
}

// peek passes over white space and gives the first other byte.
func (l *listener) peek() (byte, error) {
	one := []byte{0}
	for {
		if _, err := io.ReadFull(l, one); err != nil {
			return 0, err
		}
		if !strings.ContainsRune(" \t\r\n", rune(one[0])) {
			return one[0], nil
		}
	}
}

// readAll reads what is left, where that is no more than limit, with memory reserved for it.
func (l *listener) readAll(limit int64) ([]byte, error) {
	raw, err := l.stream.ReadAllBy(l, limit)
	if errors.Is(err, errMuch) {
		err = l.failure(schemas.UpstreamTooLarge, err)
	}
	return raw, err
}

// refused reads an answer that is no success. What cannot be read of it does not matter.
func (l *listener) refused() (call.Reply, error) {
	raw, err := l.readAll(maxRefusal)
	if err != nil {
		raw = nil
	}
	l.fault(completion.ReadFault(l.scrub.Bytes(raw)))
	return l.reply()
}

// fault takes an error of the provider.
func (l *listener) fault(f *completion.Fault) {
	if f != nil {
		l.told.Fault = &Fault{
			Status: f.Status, Message: l.scrub.String(f.Message),
			Code: l.scrub.String(f.Code), Type: l.scrub.String(f.Type), Param: l.scrub.String(f.Param),
		}
	}
}

// document reads an answer that is one document, of which the first byte was read.
func (l *listener) document(ctx context.Context, begin byte) (call.Reply, error) {
	rest, err := l.readAll(l.cfg.Event - 1)
	if err != nil {
		return call.Reply{}, err
	}
	raw := slices.Concat([]byte{begin}, rest)
	if begin == '[' { // some have their errors in a list
		l.fault(completion.ReadFault(l.scrub.Bytes(raw)))
		if l.told.Fault == nil {
			return call.Reply{}, l.failure(schemas.UpstreamProtocol, errNoCompletion)
		}
		return l.reply()
	}
	doc, err := l.clean(raw)
	if err != nil {
		return call.Reply{}, err
	}
	l.told.Usage = doc.Usage
	if doc.Fault != nil {
		l.fault(doc.Fault)
		return l.reply()
	}
	chunks, err := completion.Split(doc.Raw, true)
	if err != nil {
		return call.Reply{}, l.failure(schemas.UpstreamProtocol, err)
	}
	var whole completion.Assembler
	whole.AddAll(chunks)
	l.began()
	l.told.Completion = completion.Named(doc.Raw, l.talk.ID)
	l.told.Reasons, l.told.Output = whole.Reasons(), whole.Output()
	if l.talk.Stream {
		if chunks, err = completion.Split(l.told.Completion, l.talk.Usage); err != nil {
			return call.Reply{}, l.failure(schemas.UpstreamProtocol, err)
		}
		for _, raw := range chunks {
			if err := l.give(ctx, Piece{raw, l.told.Output}); err != nil {
				return call.Reply{}, err
			}
		}
	}
	return l.reply()
}

// clean reads a chunk, or a whole answer, without the secrets in it.
func (l *listener) clean(raw []byte) (completion.Chunk, error) {
	c, err := completion.ReadChunk(raw)
	if err != nil {
		return c, l.failure(schemas.UpstreamProtocol, err)
	}
	if now := l.scrub.JSON(c.Raw); !bytes.Equal(now, c.Raw) {
		if c, err = completion.ReadChunk(now); err != nil {
			return c, l.failure(schemas.UpstreamProtocol, err)
		}
	}
	return c, nil
}

// last takes secrets out of a document that was put together.
func (l *listener) last(doc json.RawMessage) json.RawMessage { return l.scrub.JSON(doc) }

// give hands a piece on.
func (l *listener) give(ctx context.Context, p Piece) error {
	if l.talk.Chunk == nil {
		return nil
	}
	if !l.called && l.talk.Clean != nil {
		l.talk.Clean(l.last)
	}
	l.called = true
	if err := l.talk.Chunk(ctx, p); err != nil {
		return err
	}
	l.told.Began = l.told.Began || p.Raw != nil
	return nil
}

// began takes the time of the first of the answer.
func (l *listener) began() {
	if l.told.First == 0 {
		l.told.First = max(time.Since(l.asked), 1)
	}
}

func (l *listener) reply() (call.Reply, error) {
	body, err := ledger.Encode(l.told)
	if err != nil {
		return call.Reply{}, l.failure(schemas.UpstreamProtocol, err)
	}
	return call.Reply{Answer: schemas.Answer{
		Status: l.status, Headers: []schemas.Header{}, Body: body, JSON: true,
		Hash: hex.EncodeToString(l.sum.Sum(nil)), RetryAfter: l.retryAfter,
	}}, nil
}

func (l *listener) failure(code schemas.Code, cause error) *fault.Call {
	return &fault.Call{Code: code, Sent: true, Status: l.status, Cause: cause}
}
