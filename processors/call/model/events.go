package model

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"

	"weir/internal/completion"
	"weir/internal/fault"
	"weir/processors/call"
	"weir/processors/call/sse"
	"weir/schemas"
)

// weighing is how many bytes of chunks come between two looks at how large the answer is.
const weighing = 256 << 10

// done is the data of the event behind the last chunk.
const done = "[DONE]"

// events reads a stream, of which the first byte was read.
func (l *listener) events(ctx context.Context, begin byte) (call.Reply, error) {
	l.grace = newGrace(l.cfg.Grace, l.stream.Close)
	defer l.grace.stop()
	in := sse.New(io.MultiReader(bytes.NewReader([]byte{begin}), l), int(l.cfg.Event))
	held := newHolder(l.scrub)
	seen := false
	for {
		ev, err := in.Next()
		l.grace.stop()
		if err != nil {
			return l.ended(ctx, held, broken(err, seen, l), l.grace.ringing())
		}
		seen = true
		over, err := l.event(ctx, held, ev)
		switch {
		case err != nil:
			return call.Reply{}, err
		case over:
			return l.ended(ctx, held, nil, false)
		case l.finished():
			l.grace.begin()
		}
	}
}

// finished reports whether all that was asked for has ended.
func (l *listener) finished() bool { return l.whole.Finished(l.talk.Choices) }

// broken is the failure behind a stream that brings no more events; nil: it just ended.
func broken(err error, seen bool, l *listener) error {
	switch {
	case !errors.Is(err, io.EOF):
		if _, ok := errors.AsType[*fault.Call](err); ok {
			return err
		}
		return l.failure(schemas.UpstreamProtocol, err)
	case !seen:
		return l.failure(schemas.UpstreamProtocol, errNoCompletion)
	default:
		return l.failure(schemas.UpstreamTruncated, errNoEnd)
	}
}

// event takes one event; over: nothing that matters comes behind it.
func (l *listener) event(ctx context.Context, held *holder, ev sse.Event) (over bool, err error) {
	if ev.Over() {
		return false, l.failure(schemas.UpstreamTooLarge, errMuch)
	}
	data := bytes.TrimSpace(ev.Data)
	switch {
	case len(data) == 0:
		return false, nil // by the standard it is no event
	case string(data) == done:
		return true, nil
	}
	c, err := l.clean(data)
	switch {
	case err != nil && (ev.Cut || named(ev.Name)):
		return false, nil // half an event is none, and neither is one of another protocol
	case strings.EqualFold(ev.Name, "error") && (err != nil || c.Fault == nil):
		c.Fault = completion.ReadFault(l.scrub.Bytes(data))
	}
	if c.Fault != nil {
		l.whole.Add(c)
		l.fault(c.Fault)
		return true, nil
	}
	if err != nil {
		return false, err
	}
	list, ok := held.add(c)
	if !ok {
		return false, l.failure(schemas.UpstreamTooLarge, errMuch)
	}
	if !c.Blank {
		l.began()
	}
	return false, l.release(ctx, list)
}

// named reports whether an event has a name of its own that is none of an error.
func named(name string) bool {
	return name != "" && !strings.EqualFold(name, "message") && !strings.EqualFold(name, "error")
}

// release hands chunks on of which it is known that they hold no secret.
func (l *listener) release(ctx context.Context, list []completion.Chunk) error {
	for _, c := range list {
		l.whole.Add(c)
		if l.weighed += len(c.Raw); l.weighed > weighing {
			if l.weighed = 0; l.whole.Size() > l.cfg.Answer {
				return l.failure(schemas.UpstreamTooLarge, errMuch)
			}
		}
		p := Piece{Output: l.whole.Output()}
		if l.talk.Stream {
			keep := true
			c.Raw = completion.Named(c.Raw, l.talk.ID)
			if p.Raw = c.Raw; !l.talk.Usage {
				p.Raw, keep = completion.WithoutUsage(c)
			}
			if !keep {
				p.Raw = nil
			}
		}
		if err := l.give(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

// ended is what a stream comes to that ended, or broke: late says that it was given up
// after every choice had ended.
func (l *listener) ended(ctx context.Context, held *holder, broke error, late bool) (call.Reply, error) {
	list, err := held.end()
	if err == nil {
		err = l.release(ctx, list)
	}
	if err != nil {
		return call.Reply{}, err
	}
	l.told.Usage, l.told.Output, l.told.Reasons = l.whole.Usage(), l.whole.Output(), l.whole.Reasons()
	switch {
	case l.told.Fault != nil:
		l.told.Usage = l.whole.Spent()
		return l.reply()
	case broke != nil && (!l.finished() || !late && ctx.Err() != nil):
		return call.Reply{}, broke
	}
	doc := l.whole.Document()
	if doc == nil {
		return call.Reply{}, l.failure(schemas.UpstreamProtocol, errNoCompletion)
	}
	l.whole = completion.Assembler{} // a large answer is in memory often enough
	l.told.Completion = l.last(completion.Named(doc, l.talk.ID))
	return l.reply()
}
