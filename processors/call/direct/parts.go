package direct

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"io"
	"sync"
	"time"
	"unicode/utf8"

	"weir/internal/outbound"
	"weir/internal/redact"
	"weir/processors/call"
	"weir/schemas"
)

const (
	// backlog is how much of an answer waits for the log before its target is not read any further.
	backlog = 1 << 20
	// partSize is the most that one part adds to the body.
	partSize = 64 << 10
)

// parts reads an answer. Until begin it gathers the body; after that a goroutine gives what has come
// to Part while more is read, so that an answer which the log keeps up with is one part for each
// read, and another one has fewer.
type parts struct {
	exchange *exchange
	ctx      context.Context //nolint:containedctx // lives as long as the exchange
	head     *outbound.Response
	scrub    *redact.Scrubber
	stream   *outbound.Stream

	mu      sync.Mutex
	changed sync.Cond // any of these
	body    []byte    // read, and given to no one; clean once it has begun
	begun   bool
	ended   bool // no more comes
	running bool // the goroutine
	err     error

	// Once it has begun: the redactor of the body, pieces that it has not decided, and the sum and the
	// size of what came.
	pieces *redact.Pieces
	raw    [][]byte
	sum    hash.Hash
	size   int64
}

func newParts(ctx context.Context, e *exchange, head *outbound.Response, scrub *redact.Scrubber, s *outbound.Stream) *parts {
	p := &parts{exchange: e, ctx: ctx, head: head, scrub: scrub, stream: s}
	p.changed.L = &p.mu
	return p
}

// read reads to the end.
func (p *parts) read() (call.Reply, error) {
	hold := time.AfterFunc(p.exchange.adapter.passing.Hold, p.begin)
	defer hold.Stop()
	size := int64(32 << 10)
	if n := p.stream.Declared(); n >= 0 {
		size = min(n+1, size)
	}
	buf := make([]byte, size)
	var err error
	for err == nil {
		var n int
		n, err = p.stream.Read(buf)
		if late := p.push(buf[:n]); late != nil {
			err = late
		}
	}
	if late := p.end(); late != nil {
		err = late
	}
	switch {
	case !errors.Is(err, io.EOF):
		return call.Reply{}, err
	case !p.begun:
		p.head.Body = p.body
		return p.exchange.reply(p.head, p.scrub), nil
	}
	reply := p.exchange.head(p.head, p.scrub)
	reply.Answer.Body, reply.Answer.Streamed, reply.Answer.Size = []byte("null"), true, p.size
	reply.Answer.Hash = hex.EncodeToString(p.sum.Sum(nil))
	return reply, nil
}

// push adds what was read, and waits while too much of it is not given. Its error is that of Part.
func (p *parts) push(b []byte) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.begun {
		p.body = append(p.body, b...)
		if len(p.body) > schemas.InlineLimit {
			p.beginLocked()
		}
		return nil
	}
	p.add(b)
	for len(p.body) > backlog && p.err == nil {
		p.changed.Wait()
	}
	return p.err
}

// add takes secrets out of what was read, and has it given.
func (p *parts) add(b []byte) {
	if len(b) > 0 {
		p.sum.Write(b)
		p.size += int64(len(b))
		p.raw = append(p.raw, append([]byte(nil), b...))
		p.decided(p.pieces.Add(b))
	}
}

func (p *parts) decided(list []redact.Piece) {
	for i, piece := range list {
		if piece.Hit {
			p.body = append(p.body, piece.Text...)
		} else {
			p.body = append(p.body, p.raw[i]...)
		}
	}
	p.raw = p.raw[len(list):]
	p.changed.Broadcast()
}

// begin starts giving the answer in parts.
func (p *parts) begin() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.beginLocked()
}

func (p *parts) beginLocked() {
	if p.begun || p.ended {
		return
	}
	p.begun, p.running = true, true
	p.pieces, p.sum = p.scrub.Pieces(), sha256.New()
	body := p.body
	p.body = nil
	p.add(body)
	go p.give()
}

// end has no more come, and waits until everything was given. Its error is that of Part.
func (p *parts) end() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = true
	if p.begun {
		p.decided(p.pieces.End())
	}
	for p.running {
		p.changed.Wait()
	}
	return p.err
}

// give gives parts until there are no more. If one cannot be given, the target is not read any
// further.
func (p *parts) give() {
	head := p.exchange.head(p.head, p.scrub).Answer
	part := schemas.AnswerPart{Status: head.Status, Headers: head.Headers, Hidden: head.Hidden}
	var err error
	for more := true; more && err == nil; {
		var piece []byte
		if piece, more = p.next(part.Status != 0); !more {
			break
		}
		if utf8.Valid(piece) {
			part.Text = string(piece)
		} else {
			part.Base64 = piece
		}
		err = p.exchange.adapter.passing.Part(p.ctx, part)
		part = schemas.AnswerPart{}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running = false
	if p.err = err; err != nil {
		p.stream.Close()
	}
	p.changed.Broadcast()
}

// next is the next piece of the body. It waits for one, but not for the first part's, which may be
// empty.
func (p *parts) next(first bool) (piece []byte, more bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.body) == 0 && !p.ended && !first {
		p.changed.Wait()
	}
	n := min(len(p.body), partSize)
	piece = append([]byte(nil), p.body[:n]...)
	if p.body = p.body[n:]; len(p.body) == 0 {
		p.body = nil
	}
	p.changed.Broadcast()
	return piece, n > 0 || first
}
