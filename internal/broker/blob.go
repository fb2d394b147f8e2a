package broker

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"weir/internal/fault"
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
	meta, err := b.Last(ctx, blobStream, blobSubject(name))
	switch {
	case err == nil && time.Since(meta.Time) < b.cfg.History:
		return name, nil
	case err != nil && !errors.Is(err, fault.ErrNotFound):
		return "", err
	}
	info := jetstream.ObjectInfo{
		ObjectMeta: jetstream.ObjectMeta{Name: name, Opts: &jetstream.ObjectMetaOptions{ChunkSize: blobChunk}},
		Bucket:     schemas.BlobBucket,
		NUID:       rand.Text(),
		Size:       uint64(len(data)),
		Digest:     "SHA-256=" + base64.URLEncoding.EncodeToString(sum[:]),
	}
	for chunk := range slices.Chunk(data, blobChunk) {
		if _, err := b.store(ctx, &nats.Msg{Subject: blobChunks + info.NUID, Data: chunk}); err != nil {
			return "", err // the stored chunks expire unused
		}
		info.Chunks++
	}
	doc, err := json.Marshal(info)
	if err != nil {
		return "", err
	}
	_, err = b.store(ctx, &nats.Msg{
		Subject: blobSubject(name), Data: doc,
		Header: nats.Header{jetstream.MsgRollup: {jetstream.MsgRollupSubject}},
	})
	if err != nil {
		return "", err
	}
	b.usage.add(tenant, int64(len(data)), ageBlob)
	return name, nil
}

// GetBlob returns a body that PutBlob stored, or fault.ErrNotFound. A body with another hash than
// its name is fault.ErrUnavailable.
func (b *Broker) GetBlob(ctx context.Context, name string) ([]byte, error) {
	info, err := b.blobInfo(ctx, name)
	if err != nil {
		return nil, err
	}
	chunks, err := b.Range(ctx, blobStream, blobChunks+info.NUID, 0, int(info.Chunks))
	if err != nil {
		return nil, err
	}
	data := make([]byte, 0, info.Size)
	for _, c := range chunks {
		data = append(data, c.Data...)
	}
	if sum := sha256.Sum256(data); hex.EncodeToString(sum[:]) != name {
		return nil, fmt.Errorf("%w: a stored body is not what was stored", fault.ErrUnavailable)
	}
	return data, nil
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
