package broker

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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
	return name, b.renew(ctx, tenant, name, func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(data)), nil
	})
}

// renew stores the body with a name unless it is stored and young.
func (b *Broker) renew(ctx context.Context, tenant, name string, open func() (io.ReadCloser, error)) error {
	if young, err := b.young(ctx, name); young || err != nil {
		return err
	}
	body, err := open()
	if err != nil {
		return err
	}
	defer body.Close()
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
	return b.renew(ctx, tenant, name, func() (io.ReadCloser, error) {
		body, _, err := b.OpenBlob(ctx, name)
		return body, err
	})
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
		b.usage.add(tenant, int64(s.Size), ageBlob)
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
