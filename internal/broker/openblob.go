package broker

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"time"

	"weir/internal/fault"
	"weir/internal/retry"
	"weir/schemas"
)

const (
	// A replica that lags is asked again after blobLag, up to blobPatience times in a row.
	blobLag      = 20 * time.Millisecond
	blobPatience = 100
)

var errDamaged = fmt.Errorf("%w: a stored body is not what was stored", fault.ErrUnavailable)

// OpenBlob returns a body that is read from the log as it is used, and its size; fault.ErrNotFound if
// there is none, and fault.ErrUnavailable if parts of it are missing. Its last bytes are given out only
// if the whole has the hash that is its name: otherwise Read returns fault.ErrUnavailable. Close may
// be called from any goroutine, and ends a running Read.
func (b *Broker) OpenBlob(ctx context.Context, name string) (body io.ReadCloser, size int64, err error) {
	info, err := b.blobInfo(ctx, name)
	if err != nil {
		return nil, 0, err
	}
	r := &blob{b: b, name: name, chunks: blobChunks + info.NUID, left: uint64(info.Chunks), sum: sha256.New()}
	r.ctx, r.cancel = context.WithCancel(ctx)
	rest, err := r.fetch()
	if err == nil && rest != r.left {
		err = errDamaged
	}
	if err != nil && !errors.Is(err, io.EOF) {
		r.cancel()
		return nil, 0, err
	}
	r.err = err
	return r, int64(info.Size), nil //nolint:gosec // the size of what was stored
}

// blob is a stored body while it is read.
type blob struct {
	b            *Broker
	ctx          context.Context //nolint:containedctx // lives as long as the body is read
	cancel       context.CancelFunc
	name, chunks string
	from         uint64 // sequence of the next chunk, at least
	left         uint64 // chunks that were not fetched
	sum          hash.Hash
	ready        []schemas.Record
	err          error // what Read returns after what is ready
}

// Read implements io.Reader.
func (r *blob) Read(p []byte) (int, error) {
	for len(r.ready) == 0 {
		if r.err != nil {
			return 0, r.err
		}
		_, r.err = r.fetch()
	}
	n := copy(p, r.ready[0].Data)
	if r.ready[0].Data = r.ready[0].Data[n:]; len(r.ready[0].Data) == 0 {
		r.ready = r.ready[1:]
	}
	return n, nil
}

// fetch reads the next chunks, and returns how many the log has after them.
func (r *blob) fetch() (rest uint64, err error) {
	req := directGet{Next: r.chunks, Seq: max(r.from, 1), Batch: int(min(r.left, blobWindow))}
	for late := 0; r.left > 0 && len(r.ready) == 0; late++ {
		if late > 0 && (r.b.cfg.Replicas == 1 || late > blobPatience || !retry.Pause(r.ctx, blobLag)) {
			return 0, errDamaged
		}
		p, err := r.b.get(r.ctx, blobStream, req)
		if err != nil {
			return 0, err
		}
		r.ready, rest = p.records, p.left
	}
	for _, chunk := range r.ready {
		r.sum.Write(chunk.Data)
		r.from = chunk.Seq + 1
	}
	if r.left -= uint64(len(r.ready)); r.left > 0 {
		return rest, nil
	}
	if hex.EncodeToString(r.sum.Sum(nil)) != r.name {
		r.ready = nil
		return 0, errDamaged
	}
	return rest, io.EOF
}

// Close implements io.Closer.
func (r *blob) Close() error {
	r.cancel()
	return nil
}
