package direct

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"time"
	"unicode/utf8"

	"weir/internal/redact"
	"weir/processors/call"
	"weir/processors/call/dial"
	"weir/schemas"
)

const (
	// readSize is the most that is read at once, and backlog how much of an answer waits for the
	// log before its target is not read any further.
	readSize = 32 << 10
	backlog  = 1 << 20
	// partSize is the most that one part adds to the body.
	partSize = 64 << 10
)

// receive reads a stream ahead, up to backlog. The channel is closed after its end, whose cause is
// then in err.
func receive(s dial.Stream) (chunks <-chan []byte, err *error) {
	size := int64(readSize)
	if n := s.Declared(); n >= 0 {
		size = min(n+1, size)
	}
	into := make(chan []byte, backlog/readSize)
	err = new(error)
	go func() {
		defer close(into)
		buf := make([]byte, size)
		for *err == nil {
			var n int
			if n, *err = s.Read(buf); n > 0 {
				into <- bytes.Clone(buf[:n])
			}
		}
	}()
	return into, err
}

// read reads an answer to its end. If all of it is there soon, and it is not large, it is the
// reply's body. If not, or if inParts is set, what has come is given to Part while more is read, so
// that an answer which the log keeps up with is one part for each read, and another one has fewer.
func (a *Adapter) read(ctx context.Context, answer *dial.Answer, inParts bool) (*call.Reply, error) {
	chunks, end := receive(answer)
	defer func() {
		answer.Close()
		for range chunks { // until the reader has ended
		}
	}()
	hold := time.NewTimer(a.passing.Hold)
	defer hold.Stop()
	more := true
	for more && !inParts && len(answer.Body) <= schemas.InlineLimit {
		var b []byte
		select {
		case b, more = <-chunks:
			answer.Body = append(answer.Body, b...)
		case <-hold.C:
			inParts = true
		}
	}
	switch {
	case more:
		return a.give(ctx, answer, chunks, end)
	case !errors.Is(*end, io.EOF):
		return nil, *end
	default:
		return a.reply(answer), nil
	}
}

// give gives an answer in parts until its end: the beginning of its body, and then what
// chunks brings. A part that cannot be given ends the call.
func (a *Adapter) give(ctx context.Context, answer *dial.Answer, chunks <-chan []byte, end *error) (*call.Reply, error) {
	reply := a.head(answer)
	part := schemas.AnswerPart{Status: reply.Answer.Status, Headers: reply.Answer.Headers, Hidden: reply.Answer.Hidden}
	c := cleaner{pieces: answer.Scrub.Pieces()}
	b, more := answer.Body, true
	sum := sha256.New()
	for {
		if more {
			sum.Write(b)
			reply.Answer.Size += int64(len(b))
			c.add(b)
		} else {
			c.decide(c.pieces.End())
		}
		if more && len(c.clean) < partSize { // what has come since the last part goes with it
			select {
			case b, more = <-chunks:
				continue
			default:
			}
		}
		for len(c.clean) > 0 || part.Status != 0 { // the first part may be empty
			n := min(len(c.clean), partSize)
			if piece := c.clean[:n]; utf8.Valid(piece) {
				part.Text = string(piece)
			} else {
				part.Base64 = piece
			}
			if err := a.passing.Part(ctx, part); err != nil {
				return nil, err
			}
			c.clean, part = c.clean[n:], schemas.AnswerPart{}
		}
		if !more {
			break
		}
		c.clean = nil
		b, more = <-chunks
	}
	reply.Answer.Body, reply.Answer.Streamed, reply.Answer.Hash = []byte("null"), true, hex.EncodeToString(sum.Sum(nil))
	if !errors.Is(*end, io.EOF) {
		return nil, *end
	}
	return reply, nil
}

// cleaner takes secrets out of a body that comes in pieces.
type cleaner struct {
	pieces *redact.Pieces
	raw    [][]byte // that pieces has not decided
	clean  []byte
}

func (c *cleaner) add(b []byte) {
	if len(b) > 0 {
		c.raw = append(c.raw, b)
		c.decide(c.pieces.Add(b))
	}
}

func (c *cleaner) decide(list []redact.Piece) {
	for i, piece := range list {
		if piece.Hit {
			c.clean = append(c.clean, piece.Text...)
		} else {
			c.clean = append(c.clean, c.raw[i]...)
		}
	}
	c.raw = c.raw[len(list):]
}
