package stream

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"weir/internal/wire"
)

// session is one stream.
type session struct {
	e      *Events
	reader *Reader
	d      *Dialect
	out    *Writer
	buf    []byte // unwritten frames, if any
	// release is of what Watch has held.
	release func()
	// client ends when the client has gone.
	client context.Context //nolint:containedctx // the request's
	// over: everything was given, the action's end too, or another answer. away: nothing
	// can be written.
	over, away bool
}

// stream answers with the events of a dialect. It may change the dialect.
func (e *Events) stream(w http.ResponseWriter, r *http.Request, d *Dialect) {
	s := &session{
		e: e, reader: e.feed.reader(d.Ref, d.After, d.Answer, false), d: d,
		out: NewWriter(w, e.cfg.WriteTimeout), client: r.Context(),
	}
	defer s.close()
	if ctx := s.start(w, r); ctx != nil {
		s.run(ctx) //nolint:contextcheck // as above
	}
}

// start begins the answer. It returns until when the stream may go on, and nil
// where nothing is left to do.
func (s *session) start(w http.ResponseWriter, r *http.Request) (ctx context.Context) {
	d, err := s.d, s.open(r.Context())
	if err == nil && d.Hold > 0 { // retained events are held open
		if ctx = s.admit(w, r); ctx == nil {
			return nil
		}
		s.out.unhurried()
	}
	if err == nil && (d.Plain || d.Hold > 0) {
		err = s.firstEvents(r.Context())
	}
	if err != nil {
		if s.client.Err() == nil {
			d.Refuse(w, r, explain(w, d.Ref.ID, err))
			s.over = true
		}
		return nil
	}
	if len(s.buf) == 0 && s.reader.Ended() {
		if s.over = true; d.Ended == nil {
			w.WriteHeader(http.StatusNoContent) // makes an EventSource stop resuming
			return nil
		}
		s.buf = d.Ended
	}
	if r.Method == http.MethodHead {
		Header(w.Header())
		w.WriteHeader(http.StatusOK)
		return nil
	}
	if ctx == nil {
		if ctx = s.admit(w, r); ctx == nil {
			return nil
		}
	}
	begin := s.flush
	if len(s.buf) == 0 {
		begin = s.out.Comment
	}
	s.out.Open()
	if s.away = begin() != nil; s.away {
		return nil
	}
	return ctx
}

// open reads the first events, and refuses a position that the dialect does not have.
func (s *session) open(ctx context.Context) error {
	err := s.reader.open(ctx)
	switch {
	case err == nil && s.d.Answer && s.reader.astray:
		return ErrBeyond
	case err == nil && s.d.Part > 0:
		return s.inside(ctx)
	}
	return err
}

// admit has the stream held open, or answers that it may not be.
func (s *session) admit(w http.ResponseWriter, r *http.Request) context.Context {
	slot, err := s.e.slot(r, s.d.Watch)
	if err != nil {
		s.d.Refuse(w, r, err)
		s.over = true
		return nil
	}
	s.release = slot.release
	s.e.cfg.Watching(1)
	return slot.ctx
}

// firstEvents renders events until there is one to begin with. It waits as long as the
// dialect holds the beginning, and else not at all.
func (s *session) firstEvents(ctx context.Context) error {
	up := make(chan time.Time)
	defer time.AfterFunc(s.d.Hold, func() { close(up) }).Stop()
	for len(s.buf) == 0 && (s.reader.Pending() || s.d.Hold > 0 && !s.reader.Ended()) {
		items, err := s.reader.Next(ctx, up)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if len(items) == 0 {
			return nil
		}
		for _, it := range items {
			if s.d.Opening != nil && len(s.buf) == 0 {
				if err := s.d.Opening(ctx, it); err != nil {
					return err
				}
			}
			frame, err := s.frame(ctx, it)
			if err != nil {
				return err
			}
			s.buf = append(s.buf, frame...)
		}
	}
	return nil
}

// batch is how many bytes of frames go into one write.
const batch = 32 << 10

// run writes until the action has ended, its client is gone, or the stream may not
// be held open any longer.
func (s *session) run(ctx context.Context) {
	tick := time.NewTicker(s.e.cfg.KeepAlive)
	defer tick.Stop()
	for s.drain(ctx) {
		ticked, err := s.reader.wait(ctx, tick.C)
		if err != nil {
			break
		}
		if ticked { // the feed itself checks the log for missed records
			if s.away = s.out.Comment() != nil; s.away {
				break
			}
		}
	}
	// A stream that must be resumed elsewhere reports it: the client may not have received the end,
	// although the stream has read it.
	if s.d.Interrupted != nil && !s.away && !s.over && s.client.Err() == nil {
		s.buf = s.d.Interrupted()
		s.away = s.flush() != nil
	}
	if !s.away {
		s.out.End()
	}
}

// drain writes what there is by now. more is false where the stream has ended.
func (s *session) drain(ctx context.Context) (more bool) {
	for {
		items, err := s.reader.now(ctx)
		if err != nil { // EOF, or a client that has to resume elsewhere
			s.over = errors.Is(err, io.EOF)
			return false
		}
		if len(items) == 0 {
			return true
		}
		if !s.send(ctx, items) {
			return false
		}
	}
}

// send writes events and flushes; many small frames are few writes. more is false if the stream
// must end: an event cannot be rendered, or the client is too slow, or gone. Then the deadline
// stays, and the server closes.
func (s *session) send(ctx context.Context, items []*Item) (more bool) {
	shown := false
	for i, it := range items {
		items[i] = nil // a long history is not held for as long as a slow client takes for it
		frame, err := s.frame(ctx, it)
		if err != nil { // the stream's end tells
			s.away = s.write() != nil
			return false
		}
		shown = shown || len(frame) > 0
		if s.buf == nil && i == len(items)-1 {
			s.buf = frame // it is not copied
			break
		}
		if len(s.buf)+len(frame) > batch {
			if s.away = s.write() != nil; s.away {
				return false
			}
		}
		s.buf = append(s.buf, frame...)
	}
	s.away = shown && s.flush() != nil
	return !s.away
}

// frame renders an event, and waits for a log that is away. Only what ended the
// action may have to be read from there, which a feed that is closed must not wait for.
func (s *session) frame(ctx context.Context, it *Item) ([]byte, error) {
	reading := ctx
	if final(it.Event.Type) {
		var cancel context.CancelFunc
		reading, cancel = context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(s.e.feed.ctx, cancel)() //nolint:contextcheck // the feed's end cuts the read off
	}
	for {
		frame, err := s.d.Frame(reading, it)
		if err == nil {
			if s.d.Pick != nil {
				frame = s.d.Pick(frame)
			}
			return frame, nil
		}
		if err := s.reader.outlive(ctx, err); err != nil {
			return nil, err
		}
	}
}

// write writes the frames that were put aside. A silent stream keeps no buffer.
func (s *session) write() error {
	frames := s.buf
	s.buf = nil
	if len(frames) == 0 {
		return nil
	}
	return s.out.Write(frames)
}

// flush writes the frames and flushes them.
func (s *session) flush() error {
	if err := s.write(); err != nil {
		return err
	}
	return s.out.Flush()
}

// close releases the stream's resources, and calls gone if its client left before the end.
func (s *session) close() {
	if s.release != nil {
		s.e.cfg.Watching(-1)
		s.release()
	}
	alone := s.e.feed.unregister(s.reader.w)
	if !s.over && (s.away || s.client.Err() != nil) {
		s.e.gone(s.client, alone, s.d.OnAbandon)
	}
}

// gone handles a client that left early: it calls left if no other client of this node reads its
// action. A client that is disconnected because the node stops does not count.
func (e *Events) gone(client context.Context, alone bool, left func()) {
	wire.Drop(client)
	if left != nil && alone && e.feed.waits.Err() == nil {
		left()
	}
}
