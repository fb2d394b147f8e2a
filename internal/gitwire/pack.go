package gitwire

import (
	"compress/zlib"
	"crypto/sha1" //nolint:gosec // the checksum that the format of packs has
	"encoding/binary"
	"errors"
	"hash"
	"io"
	"math"
)

const (
	packHeader  = 12
	packTrailer = sha1.Size
	packVersion = 2
	// minObject is the fewest bytes that an object has in a pack: its head, and zlib's nothing.
	minObject = 1 + 8
	// packPiece is about what is handed out at a time, and packScratch what is unpacked.
	packPiece   = 64 << 10
	packScratch = 32 << 10
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

// PackReader passes a pack through and reads along: what it is made of, how large it
// unpacks to. Its Read returns the bytes of r, and ErrTooLarge or ErrMalformed as
// soon as a limit is passed or the bytes are no pack, before the bytes that do it are
// handed out; io.EOF comes only after a whole pack with its right checksum and nothing
// behind it; where r ends sooner it is io.ErrUnexpectedEOF, and another error of r's is
// that. It holds a few hundred KiB whatever the pack, beside what Follow keeps. It does not
// apply the deltas of anything but commits, and those where Follow was called: what they
// make is what they say that it is, which git holds them to.
type PackReader struct {
	src    source
	limits PackLimits
	sum    hash.Hash
	size   int64
	err    error
	step   func(*PackReader) error // what comes next in the pack

	objects, left int
	unpacked      int64
	object        object
	inflate       io.ReadCloser
	scratch       []byte
	line          *Lineage // nil: nobody asks about the commits
}

// NewPackReader returns a reader of r's pack.
func NewPackReader(r io.Reader, limits PackLimits) *PackReader {
	p := &PackReader{src: newSource(r, limits.Bytes), limits: limits, scratch: make([]byte, packScratch)}
	p.sum = sha1.New() //nolint:gosec // as above
	p.step = (*PackReader).header
	return p
}

// Read is io.Reader's. After an error it returns that for good.
func (p *PackReader) Read(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	for len(p.src.ready()) == 0 {
		if p.err != nil {
			return 0, p.err
		}
		p.err = p.advance()
	}
	n := copy(b, p.src.ready())
	p.src.handed += n
	p.size += int64(n)
	return n, nil
}

// Size is how many bytes were handed out.
func (p *PackReader) Size() int64 { return p.size }

// Objects is how many objects the pack has by its own word, once that was read.
func (p *PackReader) Objects() int { return p.objects }

// Unpacked is what was counted so far for the limit of that name.
func (p *PackReader) Unpacked() int64 { return p.unpacked }

// advance goes on until there is something worth handing out, or r would have to be
// waited for.
func (p *PackReader) advance() error {
	for {
		if err := p.step(p); err != nil {
			return p.cause(err)
		}
		_, _ = p.sum.Write(p.src.pass())
		if p.src.empty() || len(p.src.ready()) >= packPiece {
			return nil
		}
	}
}

// cause tells an error of r's from what reading it made of it.
func (p *PackReader) cause(err error) error {
	switch {
	case errors.Is(p.src.failed, io.EOF):
		return io.ErrUnexpectedEOF
	case p.src.failed != nil:
		return p.src.failed
	}
	return err
}

func (p *PackReader) header() error {
	var h [packHeader]byte
	if _, err := io.ReadFull(&p.src, h[:]); err != nil {
		return err
	}
	if string(h[:4]) != "PACK" || binary.BigEndian.Uint32(h[4:]) != packVersion {
		return malformed("what follows the commands is no pack of version 2")
	}
	n := int64(binary.BigEndian.Uint32(h[8:]))
	if over(n, int64(p.limits.Objects)) || over(packHeader+n*minObject+packTrailer, p.limits.Bytes) {
		return tooLarge("the pack has too many objects")
	}
	p.objects, p.left = int(n), int(n)
	p.step = (*PackReader).next
	return nil
}

// next begins another object, or ends the pack.
func (p *PackReader) next() error {
	if p.left == 0 {
		p.step = (*PackReader).trailer
		return nil
	}
	p.left--
	o, err := readObject(&p.src)
	if err != nil {
		return err
	}
	p.object = o
	if err := p.count(o.size); err != nil {
		return err
	}
	p.line.begin(&p.object)
	if again, ok := p.inflate.(zlib.Resetter); ok {
		err = again.Reset(&p.src, nil)
	} else {
		p.inflate, err = zlib.NewReader(&p.src)
	}
	if err != nil {
		return malformed("an object is not packed by zlib")
	}
	p.step = (*PackReader).unpack
	return nil
}

// unpack reads on in an object, some KiB of what it unpacks to.
func (p *PackReader) unpack() error {
	n, err := p.inflate.Read(p.scratch)
	if err != nil && !errors.Is(err, io.EOF) {
		return malformed("an object is packed wrongly")
	}
	size, told, bad := p.object.take(p.scratch[:n], err != nil)
	if bad != nil {
		return bad
	}
	if told {
		if err := p.count(size); err != nil {
			return err
		}
	}
	p.line.take(p.scratch[:n])
	if err != nil {
		p.line.end()
		p.step = (*PackReader).next
	}
	return nil
}

// count adds an object, or what a delta makes.
func (p *PackReader) count(size int64) error {
	if over(size, p.limits.Object) {
		return tooLarge("an object of the pack")
	}
	if size > math.MaxInt64-p.unpacked || over(p.unpacked+size, p.limits.Unpacked) {
		return tooLarge("what the pack unpacks to")
	}
	p.unpacked += size
	return nil
}

func (p *PackReader) trailer() error {
	want := p.sum.Sum(nil)
	var got [packTrailer]byte
	if _, err := io.ReadFull(&p.src, got[:]); err != nil {
		return err
	}
	if [packTrailer]byte(want) != got {
		return malformed("the pack's checksum is not its own")
	}
	switch _, err := p.src.ReadByte(); {
	case err == nil:
		return malformed("something follows the pack")
	case errors.Is(err, io.EOF):
		p.src.failed = nil
		p.step = func(*PackReader) error { return io.EOF }
		return nil
	default:
		return err
	}
}

func over(n, limit int64) bool { return limit > 0 && n > limit }

// EmptyPack is a pack without objects.
func EmptyPack() []byte {
	b := binary.BigEndian.AppendUint32([]byte("PACK"), packVersion)
	b = binary.BigEndian.AppendUint32(b, 0)
	sum := sha1.Sum(b) //nolint:gosec // the checksum that the format has
	return append(b, sum[:]...)
}
