package broker

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"io"

	"github.com/nats-io/nats.go"

	"weir/schemas"
)

// blobWindow is how many chunks of a body are in memory at once while it is stored or read.
const blobWindow = 4

// Spool stores a body as it comes, without a name: Commit gives it one. After an error nothing of it
// is kept; an error of body is returned as it is.
func (b *Broker) Spool(ctx context.Context, body io.Reader) (schemas.Spooled, error) {
	s := schemas.Spooled{Object: rand.Text()}
	f := &flights{b: b}
	if err := f.take(ctx, &s, body); err != nil {
		f.forget()
		b.Discard(ctx, s)
		return schemas.Spooled{}, err
	}
	return s, nil
}

// Discard drops a spooled body that was not committed, even if ctx has ended. Where the log does not
// answer, it expires unused. One empty message is left until then: a purge needs a right of its own.
func (b *Broker) Discard(ctx context.Context, s schemas.Spooled) {
	if s.Chunks > 0 {
		_, _ = b.store(context.WithoutCancel(ctx), alone(blobChunks+s.Object, nil))
	}
}

// flights are the chunks of one body on their way into the log.
type flights struct {
	b     *Broker
	next  int
	rooms [blobWindow][]byte
	calls [blobWindow]*call
}

// take stores all of a body. Only io.EOF itself is its end: an error that wraps it is none.
func (f *flights) take(ctx context.Context, s *schemas.Spooled, body io.Reader) error {
	sum := sha256.New()
	for end := false; !end; {
		chunk, err := f.room(ctx)
		n := 0
		for n < len(chunk) && err == nil {
			var more int
			more, err = body.Read(chunk[n:])
			n += more
		}
		if end = err == io.EOF; err != nil && !end { //nolint:errorlint // see above
			return err
		}
		if n == 0 {
			continue
		}
		sum.Write(chunk[:n])
		s.Size, s.Chunks = s.Size+n, s.Chunks+1
		if err := f.send(&nats.Msg{Subject: blobChunks + s.Object, Data: chunk[:n]}); err != nil {
			return err
		}
	}
	s.Name = hex.EncodeToString(sum.Sum(nil))
	for range f.calls {
		if _, err := f.room(ctx); err != nil {
			return err
		}
		f.next++
	}
	return nil
}

// room is a buffer whose last content is stored.
func (f *flights) room(ctx context.Context) ([]byte, error) {
	i := f.next % blobWindow
	if c := f.calls[i]; c != nil {
		f.calls[i] = nil
		if err := f.b.acks.wait(ctx, c, f.b.cfg.AttemptTimeout); err != nil {
			return nil, err
		}
	} else if f.rooms[i] == nil {
		f.rooms[i] = make([]byte, blobChunk)
	}
	return f.rooms[i], nil
}

// send sends what is in the last room.
func (f *flights) send(m *nats.Msg) (err error) {
	f.calls[f.next%blobWindow], err = f.b.acks.send(m, nil)
	f.next++
	return err
}

// forget waits for nothing any more.
func (f *flights) forget() {
	for _, c := range f.calls {
		if c != nil {
			f.b.acks.drop(c)
		}
	}
}
