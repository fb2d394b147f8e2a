package gitwire

import (
	"encoding/binary"
	"errors"
	"io"
	"math"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"
	"github.com/go-git/go-git/v5/plumbing/hash"
)

const (
	packHeader = 12
	// minObject is the fewest bytes that an object has in a pack: its head, and zlib's nothing.
	minObject = 1 + 8
	// maxNumber is the limit of every size.
	maxNumber = 1 << 60
	maxEmpty  = 100 // reads in a row that bring nothing
	// reserved is a type of objects that the format has, and that is not used.
	reserved plumbing.ObjectType = 5
)

// PackLimits bound a pack. A limit of 0 is none.
type PackLimits struct {
	Bytes   int64 // of the pack as it is sent
	Objects int
	Object  int64 // of one object, unpacked, and of one delta
	// Unpacked is the limit of all objects together, with the deltas that some of
	// them come as.
	Unpacked int64
}

// ReadPack reads a pack to its end, checks its form, its limits and its checksum, and returns how
// many bytes its objects unpack to. Line takes its commits; nil: they are not kept. The error is
// ErrTooLarge, ErrMalformed, io.ErrUnexpectedEOF if r ends before the pack does, or r's. ReadPack
// holds a few KiB beside what line keeps. It applies no deltas but those of commits: it takes what
// a delta makes for as large as the delta says, and git holds the delta to that.
func ReadPack(r io.Reader, limits PackLimits, line *Lineage) (unpacked int64, err error) {
	p := packReader{in: &bounded{r: r, limit: limits.Bytes}, limits: limits, line: line}
	p.scan = packfile.NewScanner(p.in)
	err = p.read()
	switch failed := p.in.failed; {
	case err == nil:
	case errors.Is(err, ErrTooLarge), errors.Is(err, ErrMalformed):
	case errors.Is(failed, io.EOF):
		err = io.ErrUnexpectedEOF
	case failed != nil:
		err = failed
	case errors.Is(err, packfile.ErrLengthOverflow):
		err = tooLarge("the number of an object's bytes")
	default:
		err = malformed("what follows the commands is no pack, or a broken one")
	}
	return p.unpacked, err
}

// bounded reads no more than a limit, and keeps why it ended.
type bounded struct {
	r        io.Reader
	limit, n int64 // limit 0: none
	failed   error
}

func (b *bounded) Read(p []byte) (n int, err error) {
	for range maxEmpty {
		if n, err = b.r.Read(p); n > 0 || err != nil {
			break
		}
	}
	if n == 0 && err == nil {
		err = io.ErrNoProgress
	}
	if b.n += int64(n); over(b.n, b.limit) {
		n, err = n-int(b.n-b.limit), tooLarge("the pack")
	}
	b.failed = err
	return n, err
}

type packReader struct {
	in       *bounded
	scan     *packfile.Scanner
	limits   PackLimits
	line     *Lineage
	unpacked int64
}

func (p *packReader) read() error {
	_, objects, err := p.scan.Header()
	if err != nil {
		return err
	}
	n := int64(objects)
	if over(n, int64(p.limits.Objects)) || over(packHeader+n*minObject+hash.Size, p.limits.Bytes) {
		return tooLarge("the pack has too many objects")
	}
	for range objects {
		if err := p.object(); err != nil {
			return err
		}
	}
	if _, err := p.scan.Checksum(); err != nil {
		return err
	}
	size, _ := p.scan.SeekFromStart(0) // it cannot seek, and returns where it is
	switch err := p.scan.Close(); {    // it reads to the end
	case err != nil:
		return err
	case p.in.n != size:
		return malformed("something follows the pack")
	}
	return nil
}

func (p *packReader) object() error {
	h, err := p.scan.NextObjectHeader()
	switch {
	case err != nil:
		return err
	case !h.Type.Valid() || h.Type == reserved:
		return malformed("an object has a type that there is not")
	case h.Type == plumbing.OFSDeltaObject && h.OffsetReference < packHeader:
		return malformed("a delta's base is not before it")
	}
	if err := p.count(h.Length); err != nil {
		return err
	}
	data := &beginning{most: 2 * binary.MaxVarintLen64}
	if p.line.wants(h) {
		data.most = maxCommit
	}
	n, _, err := p.scan.NextObject(data)
	switch {
	case err != nil:
		return err
	case n != h.Length:
		return malformed("an object is not as large as it says")
	}
	if h.Type.IsDelta() {
		made, err := deltaSize(data.kept)
		if err == nil {
			err = p.count(made)
		}
		if err != nil {
			return err
		}
	}
	p.line.add(h, data.kept)
	return nil
}

// beginning keeps what an object begins with.
type beginning struct {
	kept []byte
	most int
}

func (b *beginning) Write(p []byte) (int, error) {
	b.kept = append(b.kept, p[:min(len(p), b.most-len(b.kept))]...)
	return len(p), nil
}

// deltaSize returns the size of what a delta makes, by the delta's own beginning.
func deltaSize(delta []byte) (int64, error) {
	_, n := binary.Uvarint(delta)
	size, m := uint64(0), n
	if n > 0 {
		size, m = binary.Uvarint(delta[n:])
	}
	switch {
	case m < 0, size > math.MaxInt64:
		return 0, tooLarge("a size in a delta")
	case m == 0:
		return 0, malformed("a delta ends in its first line")
	}
	return int64(size), nil
}

// count adds an object, or what a delta makes.
func (p *packReader) count(size int64) error {
	if size >= maxNumber || over(size, p.limits.Object) {
		return tooLarge("an object of the pack")
	}
	if p.unpacked += size; p.unpacked >= maxNumber || over(p.unpacked, p.limits.Unpacked) {
		return tooLarge("the unpacked pack")
	}
	return nil
}

func over(n, limit int64) bool { return limit > 0 && n > limit }

// EmptyPack is a pack without objects.
func EmptyPack() []byte {
	b := []byte("PACK\x00\x00\x00\x02\x00\x00\x00\x00")
	sum := hash.New(hash.CryptoType)
	_, _ = sum.Write(b)
	return sum.Sum(b)
}
