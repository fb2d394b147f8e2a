package broker

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"io"

	"github.com/nats-io/nats.go"

	"weir/schemas"
)

// blobWindow is how many chunks of a body are on their way at once while it is stored or read.
const blobWindow = 4

// Spool stores a body as it comes, without a name: Commit gives it one. After an error nothing of it
// is kept; an error of body is returned as it is. Only io.EOF itself is the body's end: an error that
// wraps it is none.
func (b *Broker) Spool(ctx context.Context, body io.Reader) (s schemas.Spooled, err error) {
	s.Object = rand.Text()
	var sent []*call // chunks whose acknowledgements are pending
	defer func() {
		if err != nil {
			for _, c := range sent {
				b.acks.drop(c)
			}
			b.Discard(ctx, s)
			s = schemas.Spooled{}
		}
	}()
	settle := func(pending int) error {
		err := wrap(context.Cause(ctx))
		for len(sent) > pending && err == nil {
			err = b.acks.wait(ctx, sent[0], b.cfg.AttemptTimeout)
			sent = sent[1:]
		}
		return err
	}
	sum := sha256.New()
	var chunk bytes.Buffer
	chunk.Grow(blobChunk + bytes.MinRead)
	for end := false; !end; chunk.Reset() {
		n, err := io.CopyN(&chunk, body, blobChunk)
		if end = err == io.EOF; err != nil && !end { //nolint:errorlint // see above
			return s, err
		}
		if n == 0 {
			continue
		}
		sum.Write(chunk.Bytes())
		if err := settle(blobWindow - 1); err != nil {
			return s, err
		}
		s.Size, s.Chunks = s.Size+int(n), s.Chunks+1
		// The connection has its own copy of the data after send.
		c, err := b.acks.send(&nats.Msg{Subject: blobChunks + s.Object, Data: chunk.Bytes()}, nil)
		if err != nil {
			return s, err
		}
		sent = append(sent, c)
	}
	s.Name = hex.EncodeToString(sum.Sum(nil))
	return s, settle(0)
}

// Discard drops a spooled body that was not committed, even if ctx has ended. Where the log does not
// answer, it expires unused. One empty message is left until then: a purge needs a right of its own.
func (b *Broker) Discard(ctx context.Context, s schemas.Spooled) {
	if s.Chunks > 0 {
		_, _ = b.store(context.WithoutCancel(ctx), rollup(blobChunks+s.Object, nil))
	}
}
