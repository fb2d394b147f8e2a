// Package gitkit makes git's bytes for tests, good and evil, without the code that
// reads them: packs object by object, deltas that grow, the bodies of pushes. It also
// runs the real git, as a client and as an upstream server.
package gitkit

import (
	"bytes"
	"compress/zlib"
	"crypto/sha1" //nolint:gosec // the hash that git's formats have
	"encoding/binary"
	"encoding/hex"
	"hash/adler32"
	"math"
	"strconv"
	"strings"
)

// Type is the type of an object in a pack.
type Type int

// The types.
const (
	Commit   Type = 1
	Tree     Type = 2
	Blob     Type = 3
	Tag      Type = 4
	OfsDelta Type = 6
	RefDelta Type = 7
)

// Object is one of a pack's. The zero of each member but Type and Data is what is right.
type Object struct {
	Type Type
	Data []byte // not packed; of a delta its lines
	// Base says where in the list an OfsDelta's base stands, and BaseID which object is
	// a RefDelta's.
	Base   int
	BaseID string
	// Size is what the object says instead of its size.
	Size int64
	// Packed stands instead of Data packed by zlib.
	Packed []byte
}

// ID is the object's id; a delta has none of its own.
func (o Object) ID() string {
	word := map[Type]string{Commit: "commit", Tree: "tree", Blob: "blob", Tag: "tag"}[o.Type]
	sum := sha1.Sum(append([]byte(word+" "+strconv.Itoa(len(o.Data))+"\x00"), o.Data...)) //nolint:gosec // as above
	return hex.EncodeToString(sum[:])
}

// Pack is a pack of the objects.
func Pack(objects ...Object) []byte { return PackSaying(len(objects), objects...) }

// PackSaying is a pack that says it had so many objects.
func PackSaying(count int, objects ...Object) []byte {
	b := binary.BigEndian.AppendUint32([]byte("PACK"), 2)
	b = binary.BigEndian.AppendUint32(b, uint32(count)) //nolint:gosec // a test's own number
	offsets := make([]int, len(objects))
	deflate := deflater()
	for i, o := range objects {
		offsets[i] = len(b)
		size := o.Size
		if size == 0 {
			size = int64(len(o.Data))
		}
		b = appendHead(b, o.Type, size)
		switch o.Type {
		case OfsDelta:
			b = appendOffset(b, offsets[i]-offsets[o.Base])
		case RefDelta:
			id, err := hex.DecodeString(o.BaseID)
			if err != nil || len(id) != sha1.Size {
				panic("gitkit: a RefDelta needs the id of its base")
			}
			b = append(b, id...)
		default:
		}
		if o.Packed == nil {
			o.Packed = deflate(o.Data)
		}
		b = append(b, o.Packed...)
	}
	return Seal(b)
}

// Seal appends the checksum that ends a pack.
func Seal(b []byte) []byte {
	sum := sha1.Sum(b) //nolint:gosec // as above
	return append(b, sum[:]...)
}

// Deflate packs data by zlib.
func Deflate(data []byte) []byte { return deflater()(data) }

// deflater is Deflate for many: what it returns is good until it is called again.
func deflater() func([]byte) []byte {
	var b bytes.Buffer
	w, _ := zlib.NewWriterLevel(&b, zlib.BestSpeed) // the level is a good one
	return func(data []byte) []byte {
		b.Reset()
		w.Reset(&b)
		_, _ = w.Write(data)
		_ = w.Close()
		return b.Bytes()
	}
}

// Store is zlib around data as they are, which is quick.
func Store(data []byte) []byte {
	b := []byte{0x78, 0x01}
	sum := adler32.Checksum(data)
	for more := true; more; {
		n := min(len(data), math.MaxUint16)
		last := byte(1)
		if more = n < len(data); more {
			last = 0
		}
		b = append(b, last, byte(n&0xff), byte(n>>8), byte(^n&0xff), byte(^n>>8&0xff))
		b = append(b, data[:n]...)
		data = data[n:]
	}
	return binary.BigEndian.AppendUint32(b, sum)
}

// DeflateZeros packs so many zeros, without holding them.
func DeflateZeros(size int64) []byte {
	var b bytes.Buffer
	w, err := zlib.NewWriterLevel(&b, zlib.BestSpeed)
	if err != nil {
		panic(err)
	}
	for zeros := make([]byte, 1<<20); size > 0; {
		n := min(size, int64(len(zeros)))
		_, _ = w.Write(zeros[:n])
		size -= n
	}
	_ = w.Close()
	return b.Bytes()
}

func appendHead(b []byte, kind Type, size int64) []byte {
	c := byte(kind&7)<<4 | byte(size&15)
	if size < 16 {
		return append(b, c)
	}
	return binary.AppendUvarint(append(b, c|0x80), uint64(size>>4))
}

func appendOffset(b []byte, n int) []byte {
	digits := []byte{byte(n & 0x7f)}
	for n >>= 7; n > 0; n >>= 7 {
		n--
		digits = append([]byte{byte(n&0x7f) | 0x80}, digits...)
	}
	return append(b, digits...)
}

// Entry is one of a tree's.
type Entry struct{ Mode, Name, ID string }

// TreeOf is a tree of the entries, in their order.
func TreeOf(entries ...Entry) Object {
	var b []byte
	for _, e := range entries {
		id, err := hex.DecodeString(e.ID)
		if err != nil {
			panic("gitkit: an entry's id is not hex")
		}
		b = append(append(b, e.Mode+" "+e.Name+"\x00"...), id...)
	}
	return Object{Type: Tree, Data: b}
}

// CommitOf is a commit of a tree.
func CommitOf(tree, message string, parents ...string) Object {
	var b strings.Builder
	b.WriteString("tree " + tree + "\n")
	for _, p := range parents {
		b.WriteString("parent " + p + "\n")
	}
	const who = " A Tester <tester@example.com> 1700000000 +0000\n"
	b.WriteString("author" + who + "committer" + who + "\n" + message + "\n")
	return Object{Type: Commit, Data: []byte(b.String())}
}

// BlobOf is a blob.
func BlobOf(data string) Object { return Object{Type: Blob, Data: []byte(data)} }
