package model

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"time"

	"weir/internal/completion"
	"weir/processors/call"
	"weir/processors/call/sse"
	"weir/schemas"
)

// weighing is how many bytes of chunks come between two looks at how large the answer is.
const weighing = 256 << 10

// done is the data of the event after the last chunk. In DialectChat it ends the answer; in others it
// says nothing.
const done = "[DONE]"

// events reads a stream.
func (d *decoder) events(ctx context.Context, from io.Reader) (*call.Reply, error) {
	in := sse.New(from, int(d.cfg.Event))
	held := newRedactor(d.Scrub, d.protocol)
	for seen := false; ; seen = true {
		ev, err := in.Next()
		if err != nil {
			return d.ended(ctx, held, d.broken(err, seen))
		}
		over, err := d.event(ctx, held, ev)
		switch {
		case err != nil:
			return nil, err
		case over:
			return d.ended(ctx, held, nil)
		case d.until.IsZero() && d.whole.Finished():
			d.until = time.Now().Add(graces * d.cfg.Grace)
		}
	}
}

// broken is the failure behind a stream that brings no more events, after some or none.
func (d *decoder) broken(err error, seen bool) error {
	switch {
	case !errors.Is(err, io.EOF):
		return err
	case !seen:
		return d.Failure(schemas.UpstreamProtocol, errNoAnswer)
	default:
		return d.Failure(schemas.UpstreamTruncated, errNoEnd)
	}
}

// event takes one event; over: the events after it do not matter.
func (d *decoder) event(ctx context.Context, held *redactor, ev sse.Event) (over bool, err error) {
	if ev.Over() {
		return false, d.Failure(schemas.UpstreamTooLarge, errMuch)
	}
	data := bytes.TrimSpace(ev.Data)
	switch {
	case len(data) == 0:
		return false, nil // by the standard it is no event
	case string(data) == done:
		return d.chat(), nil
	}
	c, err := d.clean(ev.Name, data)
	switch {
	case err != nil && (ev.Cut || d.chat() && named(ev.Name)):
		return false, nil // half an event is none, and neither is one of another protocol
	case strings.EqualFold(ev.Name, "error") && (err != nil || c.Fault == nil):
		c.Fault = completion.ReadFault(d.Scrub.Bytes(data))
	}
	if c.Fault != nil {
		d.whole.Add(c)
		d.fault(c.Fault)
		return true, nil
	}
	if err != nil {
		return false, err
	}
	list, ok := held.add(c)
	if !ok {
		return false, d.Failure(schemas.UpstreamTooLarge, errMuch)
	}
	if !c.Blank {
		d.began()
	}
	return c.Last, d.release(ctx, list)
}

// chat reports whether the answer is one of chat completions: they have no names of events, and end
// with done or with their choices. Each other stream has a last event.
func (d *decoder) chat() bool { return d.options.Dialect.Family() == schemas.DialectChat }

// named reports whether an event has a name of its own that is none of an error.
func named(name string) bool {
	return name != "" && !strings.EqualFold(name, "message") && !strings.EqualFold(name, "error")
}

// release hands chunks on of which it is known that they hold no secret.
func (d *decoder) release(ctx context.Context, list []completion.Chunk) error {
	for _, c := range list {
		d.whole.Add(c)
		if d.weighed += len(c.Raw); d.weighed > weighing {
			if d.weighed = 0; d.whole.Size() > d.cfg.Answer {
				return d.Failure(schemas.UpstreamTooLarge, errMuch)
			}
		}
		p := Piece{Output: d.whole.Output()}
		if d.options.Stream {
			if raw, keep := d.whole.Give(c); keep {
				p.Raw = raw
			}
		}
		if err := d.options.Chunk(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

// ended returns the reply of a stream that ended or broke.
func (d *decoder) ended(ctx context.Context, held *redactor, broke error) (*call.Reply, error) {
	list, err := held.end()
	if err == nil {
		err = d.release(ctx, list)
	}
	if err != nil {
		return nil, err
	}
	d.tell()
	switch {
	case d.response.Fault != nil:
		d.response.Usage = d.whole.Spent()
		return d.reply()
	case broke != nil && (!d.whole.Finished() || ctx.Err() != nil):
		return nil, broke
	}
	doc := d.whole.Document()
	if doc == nil {
		return nil, d.Failure(schemas.UpstreamProtocol, errNoAnswer)
	}
	d.whole = d.protocol.Answer(d.options.Options) // a large answer is in memory often enough
	d.response.Completion = d.Scrub.JSON(doc)
	return d.reply()
}
