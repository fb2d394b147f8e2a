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
	w := &chunkWriter{b: b}
	if err := w.write(ctx, &s, body); err != nil {
		w.abandon()
		b.Discard(ctx, s)
		return schemas.Spooled{}, err
	}
	return s, nil
}

// Discard drops a spooled body that was not committed, even if ctx has ended. Where the log does not
// answer, it expires unused. One empty message is left until then: a purge needs a right of its own.
func (b *Broker) Discard(ctx context.Context, s schemas.Spooled) {
	if s.Chunks > 0 {
		_, _ = b.store(context.WithoutCancel(ctx), rollup(blobChunks+s.Object, nil))
	}
}

// chunkWriter stores the chunks of one body, several at a time.
type chunkWriter struct {
	b       *Broker
	next    int
	buffers [blobWindow][]byte
	pending [blobWindow]*call // the acknowledgement that a buffer waits for
}

// write stores all of a body. Only io.EOF itself is its end: an error that wraps it is none.
func (w *chunkWriter) write(ctx context.Context, s *schemas.Spooled, body io.Reader) error {
	sum := sha256.New()
	for end := false; !end; {
		chunk, err := w.buffer(ctx)
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
		c, err := w.b.acks.send(&nats.Msg{Subject: blobChunks + s.Object, Data: chunk[:n]}, nil)
		if err != nil {
			return err
		}
		w.pending[w.next%blobWindow] = c
		w.next++
	}
	s.Name = hex.EncodeToString(sum.Sum(nil))
	for i := range w.pending {
		if err := w.wait(ctx, i); err != nil {
			return err
		}
	}
	return nil
}

// buffer is the next buffer, whose last content is stored.
func (w *chunkWriter) buffer(ctx context.Context) ([]byte, error) {
	i := w.next % blobWindow
	if err := w.wait(ctx, i); err != nil {
		return nil, err
	}
	if w.buffers[i] == nil {
		w.buffers[i] = make([]byte, blobChunk)
	}
	return w.buffers[i], nil
}

// wait returns once the content of a buffer is stored.
func (w *chunkWriter) wait(ctx context.Context, i int) error {
	c := w.pending[i]
	if w.pending[i] = nil; c == nil {
		return nil
	}
	return w.b.acks.wait(ctx, c, w.b.cfg.AttemptTimeout)
}

// abandon waits for nothing any more.
func (w *chunkWriter) abandon() {
	for _, c := range w.pending {
		if c != nil {
			w.b.acks.drop(c)
		}
	}
}
