package broker

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"weir/internal/fault"
	"weir/internal/retry"
	"weir/schemas"
)

// Bodies are stored in an ordinary NATS object store that any NATS tool can read. The object store
// of nats.go is not used: it creates a consumer for each read, and each write can leak a goroutine.
const (
	blobStream = "OBJ_" + schemas.BlobBucket
	blobChunks = "$O." + schemas.BlobBucket + ".C."
	blobMeta   = "$O." + schemas.BlobBucket + ".M."

	// blobChunk is the size of one message. It fits the servers' default payload limit.
	blobChunk = 256 << 10
)

// PutBlob stores a body under the hex of its SHA-256 and returns that name. An existing body is not
// stored again, unless it would expire before a new record that names it. As after Append, it
// survives a power cut only after a Barrier. It counts for the tenant that stores it first.
func (b *Broker) PutBlob(ctx context.Context, tenant string, data []byte) (string, error) {
	sum := sha256.Sum256(data)
	name := hex.EncodeToString(sum[:])
	young, err := b.young(ctx, name)
	if !young && err == nil {
		err = b.storeBlob(ctx, tenant, bytes.NewReader(data))
	}
	return name, err
}

func (b *Broker) storeBlob(ctx context.Context, tenant string, body io.Reader) error {
	s, err := b.Spool(ctx, body)
	if err != nil {
		return err
	}
	return b.describe(ctx, tenant, s)
}

// young reports whether a body is stored that lives as long as a record of now.
func (b *Broker) young(ctx context.Context, name string) (bool, error) {
	meta, err := b.Last(ctx, blobStream, blobSubject(name))
	if errors.Is(err, fault.ErrNotFound) {
		return false, nil
	}
	return err == nil && time.Since(meta.Time) < b.cfg.History, err
}

// Commit gives a spooled body its name, as PutBlob does. Where that body is stored already, the spooled
// copy is dropped. Do not discard the copy after Commit, whatever its error: a record may name it.
func (b *Broker) Commit(ctx context.Context, tenant string, s schemas.Spooled) error {
	young, err := b.young(ctx, s.Name)
	if young {
		b.Discard(ctx, s)
	}
	if young || err != nil {
		return err
	}
	return b.describe(ctx, tenant, s)
}

// Keep makes a body live as long as a record of now; fault.ErrNotFound if it is gone. It counts for the
// tenant if it must be stored anew.
func (b *Broker) Keep(ctx context.Context, tenant, name string) error {
	if young, err := b.young(ctx, name); young || err != nil {
		return err
	}
	body, _, err := b.OpenBlob(ctx, name)
	if err != nil {
		return err
	}
	defer body.Close()
	return b.storeBlob(ctx, tenant, body)
}

// describe writes the record by which a spooled body is found.
func (b *Broker) describe(ctx context.Context, tenant string, s schemas.Spooled) error {
	sum, err := hex.DecodeString(s.Name)
	if err != nil {
		return err
	}
	doc, err := json.Marshal(jetstream.ObjectInfo{
		ObjectMeta: jetstream.ObjectMeta{Name: s.Name, Opts: &jetstream.ObjectMetaOptions{ChunkSize: blobChunk}},
		Bucket:     schemas.BlobBucket, NUID: s.Object, Size: uint64(s.Size), Chunks: s.Chunks, //nolint:gosec // a number of bytes
		Digest: "SHA-256=" + base64.URLEncoding.EncodeToString(sum),
	})
	if err != nil {
		return err
	}
	if _, err = b.store(ctx, rollup(blobSubject(s.Name), doc)); err == nil {
		b.usage.add(tenant, int64(s.Size), 0, ageBlob)
	}
	return err
}

// rollup is a message that replaces all on its subject.
func rollup(subject string, data []byte) *nats.Msg {
	return &nats.Msg{Subject: subject, Data: data, Header: nats.Header{jetstream.MsgRollup: {jetstream.MsgRollupSubject}}}
}

// GetBlob returns a body that PutBlob stored, or fault.ErrNotFound. A body with another hash than
// its name is fault.ErrUnavailable.
func (b *Broker) GetBlob(ctx context.Context, name string) ([]byte, error) {
	body, size, err := b.OpenBlob(ctx, name)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	data := make([]byte, size)
	_, err = io.ReadFull(body, data) // the last bytes are only there if the hash is right
	return data, err
}

// BlobSize is the length of a body.
func (b *Broker) BlobSize(ctx context.Context, name string) (int64, error) {
	info, err := b.blobInfo(ctx, name)
	return int64(info.Size), err //nolint:gosec // the size of a slice
}

func (b *Broker) blobInfo(ctx context.Context, name string) (info jetstream.ObjectInfo, err error) {
	meta, err := b.Last(ctx, blobStream, blobSubject(name))
	if err != nil {
		return info, err
	}
	if err := json.Unmarshal(meta.Data, &info); err != nil {
		return info, fmt.Errorf("%w: a stored body's description cannot be read", fault.ErrUnavailable)
	}
	if info.Deleted {
		return info, fault.ErrNotFound
	}
	return info, nil
}

func blobSubject(name string) string {
	return blobMeta + base64.URLEncoding.EncodeToString([]byte(name))
}

// blobAge is how long a body is stored: records may name it until the end of their own history, and
// PutBlob reuses bodies that are younger than that history.
func blobAge(history time.Duration) time.Duration { return 2 * history }

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

const (
	// A replica that lags is asked again after blobLag, up to blobPatience times in a row.
	blobLag      = 20 * time.Millisecond
	blobPatience = 100
)

var errDamaged = fmt.Errorf("%w: a stored body is not what was stored", fault.ErrUnavailable)

// OpenBlob returns a body that is read from the log as it is used, and its size; fault.ErrNotFound if
// there is none, and fault.ErrUnavailable if parts of it are missing; on a cluster Read may be the first
// to find that. Its last bytes are given out only if the whole has the hash that is its name: otherwise
// Read returns fault.ErrUnavailable. Close may be called from any goroutine, and ends a running Read.
func (b *Broker) OpenBlob(ctx context.Context, name string) (body io.ReadCloser, size int64, err error) {
	info, err := b.blobInfo(ctx, name)
	if err != nil {
		return nil, 0, err
	}
	r := &blob{b: b, name: name, chunks: blobChunks + info.NUID, left: uint64(info.Chunks), sum: sha256.New()}
	r.ctx, r.cancel = context.WithCancel(ctx)
	if r.err = r.fetch(); r.err != nil && !errors.Is(r.err, io.EOF) {
		r.cancel()
		return nil, 0, r.err
	}
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
		r.err = r.fetch()
	}
	n := copy(p, r.ready[0].Data)
	if r.ready[0].Data = r.ready[0].Data[n:]; len(r.ready[0].Data) == 0 {
		r.ready = r.ready[1:]
	}
	return n, nil
}

// fetch reads the next chunks. io.EOF: these are the last.
func (r *blob) fetch() error {
	req := directGet{Next: r.chunks, Seq: max(r.from, 1), Batch: int(min(r.left, blobWindow))}
	for late := 0; r.left > 0 && len(r.ready) == 0; late++ {
		if late > blobPatience || late > 0 && !retry.Pause(r.ctx, blobLag) {
			return errDamaged
		}
		p, err := r.b.get(r.ctx, blobStream, req)
		switch {
		case err != nil:
			return err
		case r.b.cfg.Replicas == 1 && uint64(len(p.records))+p.left != r.left:
			return errDamaged
		}
		r.ready = p.records
	}
	for _, chunk := range r.ready {
		r.sum.Write(chunk.Data)
		r.from = chunk.Seq + 1
	}
	if r.left -= uint64(len(r.ready)); r.left > 0 {
		return nil
	}
	if hex.EncodeToString(r.sum.Sum(nil)) != r.name {
		r.ready = nil
		return errDamaged
	}
	return io.EOF
}

// Close implements io.Closer.
func (r *blob) Close() error {
	r.cancel()
	return nil
}
