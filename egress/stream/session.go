package stream

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"weir/internal/wire"
)

// session is one stream.
type session struct {
	f      *Feed
	reader *Reader
	d      *Dialect
	out    *Writer
	buf    []byte // unwritten frames, if any
	// release gives back what Watch reserved; nil: nothing.
	release func()
	// client ends when the client has gone.
	client context.Context //nolint:containedctx // the request's
	// begun: the answer is a stream. over: everything was given, the action's end too, or another
	// answer. away: nothing can be written.
	begun, over, away bool
}

// stream answers with the events of a dialect.
func (f *Feed) stream(w http.ResponseWriter, r *http.Request, d *Dialect) {
	s := &session{
		f: f, reader: f.reader(d.Ref, d.After, d.Answer, false), d: d,
		out: NewWriter(w, f.cfg.HTTP.WriteTimeout), client: r.Context(),
	}
	defer s.close()
	ctx, err := s.open(r)
	switch {
	case err != nil:
	case r.Method == http.MethodHead && !s.reader.Ended():
		Header(w.Header())
		w.WriteHeader(http.StatusOK)
	default:
		err = s.run(ctx) //nolint:contextcheck // the request's, which Watch may cut short
	}
	if err != nil && s.client.Err() == nil {
		d.Refuse(w, r, explain(w, d.Ref.ID, err))
		s.over = true
	}
}

// open reads the first events, and refuses a position that the dialect does not have. If there are
// events to come, the stream is held open until the context ends.
func (s *session) open(r *http.Request) (context.Context, error) {
	ctx := r.Context()
	err := s.reader.open(ctx)
	if err == nil && s.d.Part > 0 {
		err = s.inside(ctx)
	}
	if err != nil || s.reader.Ended() || r.Method == http.MethodHead {
		return ctx, err
	}
	ctx, s.release, err = s.f.Hold(r)
	return ctx, err
}

// inside makes a stream begin in the middle of its first event, after the first Part of the
// server-sent events in that event's frame.
func (s *session) inside(ctx context.Context) error {
	now := make(chan time.Time)
	close(now)
	items, err := s.reader.Next(ctx, now) // a replica may be late, and have the event to come
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	s.reader.ready = items
	if len(items) == 0 || items[0].Seq != s.d.After+1 || final(items[0].Event.Type) {
		return ErrBeyond
	}
	frame, err := s.frame(ctx, items[0])
	if err != nil {
		return err
	}
	events := bytes.SplitAfterN(frame, []byte("\n\n"), s.d.Part+1)
	if len(events) <= s.d.Part || len(events[s.d.Part]) == 0 {
		return ErrBeyond
	}
	s.d.Pick = func([]byte) []byte { // of the first frame
		s.d.Pick = nil
		return events[s.d.Part]
	}
	return nil
}

// run writes until the action has ended, its client is gone, or the stream may not be held open any
// longer. An error is for a client that has no answer yet.
func (s *session) run(ctx context.Context) (err error) {
	s.out.unhurried()
	tick := time.NewTicker(cmp.Or(s.d.Hold, s.f.cfg.HTTP.KeepAlive))
	defer tick.Stop()
	for err == nil {
		var items []*Item
		begun, until := s.begun, ctx //nolint:contextcheck // the one that Watch has given
		if !begun {
			until = s.client
		}
		if begun || s.d.Hold > 0 || len(s.reader.ready) > 0 || s.reader.Ended() {
			items, err = s.reader.Next(until, tick.C)
		}
		switch {
		case err != nil:
		case len(items) > 0:
			err = s.send(until, items)
		default: // the feed itself checks the log for missed records
			s.buf = append(s.buf, comment...)
			err = s.write(true)
		}
		if s.begun != begun {
			tick.Reset(s.f.cfg.HTTP.KeepAlive)
		}
	}
	return s.end(err)
}

// batch is how many bytes of frames go into one write.
const batch = 32 << 10

// send writes events and flushes; many small frames are few writes.
func (s *session) send(ctx context.Context, items []*Item) error {
	shown := false
	for i, it := range items {
		items[i] = nil // a long history is not held for as long as a slow client takes for it
		if s.d.Opening != nil && !s.begun && len(s.buf) == 0 {
			if err := s.d.Opening(ctx, it); err != nil {
				return err
			}
		}
		frame, err := s.frame(ctx, it)
		if err != nil {
			return err
		}
		if len(frame) == 0 {
			continue
		}
		shown = true
		if s.buf == nil && i == len(items)-1 {
			s.buf = frame // it is not copied
			break
		}
		if len(s.buf)+len(frame) > batch {
			if err := s.write(false); err != nil {
				return err
			}
		}
		s.buf = append(s.buf, frame...)
	}
	if !shown {
		return nil
	}
	return s.write(true)
}

// frame renders an event, and waits for a log that is away. Only what ended the
// action may have to be read from there, which a feed that is closed must not wait for.
func (s *session) frame(ctx context.Context, it *Item) ([]byte, error) {
	if s.d.Frame == nil {
		return it.Frame(), nil
	}
	reading := ctx
	if final(it.Event.Type) {
		var cancel context.CancelFunc
		reading, cancel = context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(s.f.ctx, cancel)() //nolint:contextcheck // the feed's end cuts the read off
	}
	for {
		frame, err := it.in(reading, s.d.Frame)
		if err == nil {
			if s.d.Pick != nil {
				frame = s.d.Pick(frame)
			}
			return frame, nil
		}
		if err := s.f.outlive(ctx, err); err != nil {
			return nil, err
		}
	}
}

// write writes the frames that were put aside, after the header. A silent stream keeps no buffer.
// After an error the client is too slow, or gone: the deadline stays, and the server closes.
func (s *session) write(flush bool) (err error) {
	if !s.begun {
		s.begun = true
		s.out.Open()
	}
	if len(s.buf) > 0 {
		err = s.out.Write(s.buf)
		s.buf = nil
	}
	if err == nil && flush {
		err = s.out.Flush()
	}
	s.away = err != nil
	return err
}

// end ends the stream for a reason, or returns it if there is no stream.
func (s *session) end(reason error) error {
	switch s.over = errors.Is(reason, io.EOF) && !s.away; {
	case s.away:
		return nil
	case s.over && !s.begun && s.d.Ended == nil:
		s.out.w.WriteHeader(http.StatusNoContent) // makes an EventSource stop resuming
		return nil
	case s.over && !s.begun:
		if s.buf = append(s.buf, s.d.Ended...); len(s.buf) == 0 {
			s.buf = append(s.buf, comment...)
		}
	case s.over:
	case !s.begun:
		return reason
	case s.d.Interrupted != nil && s.client.Err() == nil:
		// A stream that must be resumed elsewhere reports it: the client may not have received the
		// end, although the stream has read it.
		s.buf = append(s.buf, s.d.Interrupted()...)
	}
	if len(s.buf) > 0 {
		_ = s.write(true)
	}
	if !s.away {
		s.out.End()
	}
	return nil
}

// close releases the stream's resources, and calls gone if its client left before the end.
func (s *session) close() {
	if s.release != nil {
		s.release()
	}
	alone := s.reader.Close()
	if !s.over && (s.away || s.client.Err() != nil) {
		s.f.gone(s.client, alone, s.d.OnAbandon)
	}
}

// gone handles a client that left early: it calls left if no other client of this node reads its
// action. A client that is disconnected because the node stops does not count.
func (f *Feed) gone(client context.Context, alone bool, left func()) {
	wire.Drop(client)
	if left != nil && alone && f.waits.Err() == nil {
		left()
	}
}
