package embedded

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/minio/highwayhash"
)

// The server's files of messages: a record is its length, its sequence, its time, the length of its
// subject, subject, headers, message, and a checksum of all but the lengths.
const (
	recordHead  = 22
	recordSum   = 8
	recordLimit = 32 << 20
	hasHeaders  = 1 << 31 // in a length
	erased      = 1 << 63 // in a sequence: there is no message any more
	tombstone   = 1 << 62 // in a sequence: says that an older message was deleted

	blockEnd  = ".blk"
	indexName = "index.db" // the server's index of the blocks, from its last write
)

// block is what one file holds, up to the first record that cannot be read.
type block struct {
	path  string
	index uint32
	// first and last are the lowest and the highest sequence; 0: no record.
	first, last uint64
	// end is where the readable part ends, and damaged says that more follows.
	end     int64
	damaged bool
}

// msgsDir is where a stream's messages are.
func (d *dataDir) msgsDir(stream string) string {
	return filepath.Join(d.file(storeName), "$G", "streams", stream, "msgs")
}

// blocks lists a stream's files in their order, unread. None: it has none.
func (d *dataDir) blocks(stream string) (all []block, err error) {
	entries, err := os.ReadDir(d.msgsDir(stream))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, e := range entries {
		number, ok := strings.CutSuffix(e.Name(), blockEnd)
		if n, err := strconv.ParseUint(number, 10, 32); ok && err == nil {
			all = append(all, block{path: filepath.Join(d.msgsDir(stream), e.Name()), index: uint32(n)})
		}
	}
	slices.SortFunc(all, func(a, b block) int { return int(a.index) - int(b.index) })
	return all, nil
}

// read looks at every record of the file.
func (b *block) read(stream string) error {
	*b = block{path: b.path, index: b.index}
	data, err := os.ReadFile(b.path)
	if err != nil {
		return err
	}
	h := newHash(fmt.Sprintf("%s-%d", stream, b.index))
	for rest := data; len(rest) > 0; rest = data[b.end:] {
		n, seq, ok := record(rest, h)
		if !ok {
			b.damaged = true
			return nil
		}
		b.end += int64(n)
		if seq&tombstone == 0 && b.first == 0 {
			b.first = seq &^ erased
		}
		b.last = max(b.last, seq&^(erased|tombstone))
	}
	return nil
}

// record reads the one at the beginning of data: its length and its sequence.
func record(data []byte, h hash.Hash64) (n int, seq uint64, ok bool) {
	if len(data) < recordHead+recordSum {
		return 0, 0, false
	}
	size := binary.LittleEndian.Uint32(data)
	subject := int(binary.LittleEndian.Uint16(data[20:]))
	headers := size&hasHeaders != 0
	n = int(size &^ hasHeaders)
	skip := 0
	if headers {
		skip = 4 // the length of the headers
	}
	if n > recordLimit || n > len(data) || recordHead+subject+skip+recordSum > n {
		return 0, 0, false
	}
	body := data[recordHead : n-recordSum]
	h.Reset()
	_, _ = h.Write(data[4:20])
	_, _ = h.Write(body[:subject])
	_, _ = h.Write(body[subject+skip:])
	return n, binary.LittleEndian.Uint64(data[4:]), bytes.Equal(h.Sum(nil), data[n-recordSum:n])
}

func newHash(name string) hash.Hash64 {
	key := sha256.Sum256([]byte(name))
	h, err := highwayhash.New64(key[:])
	if err != nil {
		panic(err) // the key has the right size
	}
	return h
}

// indexed reports whether the server will take the stream's index for what the blocks hold, and so
// not read them itself.
func (d *dataDir) indexed(stream string) bool {
	data, err := os.ReadFile(filepath.Join(d.msgsDir(stream), indexName))
	if err != nil || len(data) < 32 {
		return false
	}
	h := newHash(stream)
	body, sum := data[:len(data)-recordSum], data[len(data)-recordSum:]
	_, _ = h.Write(body)
	return bytes.Equal(h.Sum(nil), sum)
}

// skipTo appends a record to a block that marks all sequences up to seq as deleted, so that the
// server continues after seq. An unreadable end of the block is cut off.
func (b *block) skipTo(stream string, seq uint64, nanos int64) (err error) {
	f, err := os.OpenFile(b.path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	rec := make([]byte, recordHead, recordHead+recordSum)
	binary.LittleEndian.PutUint32(rec, recordHead+recordSum)
	binary.LittleEndian.PutUint64(rec[4:], seq|erased)
	binary.LittleEndian.PutUint64(rec[12:], uint64(nanos)) //nolint:gosec // no clock of today overflows it
	h := newHash(fmt.Sprintf("%s-%d", stream, b.index))
	_, _ = h.Write(rec[4:20])
	if err := f.Truncate(b.end); err != nil {
		return err
	}
	if _, err := f.WriteAt(h.Sum(rec), b.end); err != nil {
		return err
	}
	return f.Sync()
}
