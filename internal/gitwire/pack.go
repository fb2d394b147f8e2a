package gitwire

import (
	"bytes"
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

// The limits of a pack's kept commits. A commit is a few hundred bytes.
const (
	maxCommit = 1 << 20 // of one, and of its delta; larger ones are passed over
	// maxLineage limits the kept commits and the buffers to read and build them. Further commits
	// are not kept.
	maxLineage  = 64 << 20
	roomLineage = maxLineage - 4*(maxCommit+maxCommit/4)
	// The memory of a commit besides its data, of each of its parents and of each of its positions
	// in the pack. The worst case of the tables' overhead is included.
	costCommit, costParent, costPlace = 192, 32, 64
)

// commit is a commit of a pack. Its data is kept as the base of deltas.
type commit struct {
	parents []plumbing.Hash
	data    []byte
}

// Lineage is the commits of a pack, by which a push can be seen to build on what it
// is to replace. It is reliable: the ids are computed from the objects
// themselves. It holds up to 64 MiB. A nil Lineage keeps nothing.
type Lineage struct {
	commits map[plumbing.Hash]*commit
	at      map[int64]*commit // by where an object begins
	size    int
	room    int
}

// NewLineage returns an empty Lineage.
func NewLineage() *Lineage {
	return &Lineage{commits: map[plumbing.Hash]*commit{}, at: map[int64]*commit{}, room: roomLineage}
}

// Builds reports whether a commit is known to be another or to descend from it. If a pack has too
// many commits, some are not known; see Whole.
func (l *Lineage) Builds(on, from string) bool {
	if !ValidOid(on) || !ValidOid(from) {
		return false
	}
	want, next := plumbing.NewHash(on), []plumbing.Hash{plumbing.NewHash(from)}
	seen := map[plumbing.Hash]bool{}
	for len(next) > 0 {
		id := next[len(next)-1]
		next = next[:len(next)-1]
		if id == want {
			return true
		}
		if c := l.commits[id]; c != nil && !seen[id] {
			seen[id] = true
			next = append(next, c.parents...)
		}
	}
	return false
}

// Whole reports whether every commit of the pack is kept that could be read: there was room.
func (l *Lineage) Whole() bool { return l.size <= l.room }

// base returns the commit that an object is a delta of, or nil.
func (l *Lineage) base(h *packfile.ObjectHeader) *commit {
	if h.Type == plumbing.OFSDeltaObject {
		return l.at[h.OffsetReference]
	}
	return l.commits[h.Reference]
}

// wants reports whether an object is a commit, as far as that is known, and not too large.
func (l *Lineage) wants(h *packfile.ObjectHeader) bool {
	if l == nil || h.Length > maxCommit || !l.Whole() {
		return false
	}
	return h.Type == plumbing.CommitObject || h.Type.IsDelta() && l.base(h) != nil
}

// add keeps an object with its data. What cannot be made of a delta is not known.
func (l *Lineage) add(h *packfile.ObjectHeader, data []byte) {
	if !l.wants(h) {
		return
	}
	if h.Type.IsDelta() {
		size, err := deltaSize(data)
		if err != nil || size > maxCommit {
			return
		}
		if data, err = packfile.PatchDelta(l.base(h).data, data); err != nil {
			return
		}
	}
	if parents, ok := parentsOf(data); ok {
		l.keep(h.Offset, data, parents)
	}
}

// keep knows a commit from now on, if there is room for it.
func (l *Lineage) keep(offset int64, data []byte, parents []plumbing.Hash) {
	id := plumbing.ComputeHash(plumbing.CommitObject, data)
	c, cost := l.commits[id], costPlace
	if c == nil {
		cost += costCommit + costParent*len(parents) + len(data) + len(data)/4 // memory comes in sizes of its own
	}
	if l.size += cost; l.size > l.room {
		return
	}
	if c == nil {
		c = &commit{parents: parents, data: bytes.Clone(data)}
		l.commits[id] = c
	}
	l.at[offset] = c
}

// parentsOf reads a commit as git does: a line of its tree, then one for each of its parents,
// and the first other line ends them. What follows may say what it likes.
func parentsOf(data []byte) (parents []plumbing.Hash, ok bool) {
	_, rest, ok := oidLine(data, "tree ")
	for more := ok; more; {
		var id plumbing.Hash
		if id, rest, more = oidLine(rest, "parent "); more {
			parents = append(parents, id)
		}
	}
	return parents, ok
}

// oidLine reads the object id after the keyword that a line begins with, and returns what follows
// the line.
func oidLine(data []byte, word string) (id plumbing.Hash, rest []byte, ok bool) {
	text, rest, ok := bytes.Cut(data, []byte("\n"))
	oid, is := bytes.CutPrefix(text, []byte(word))
	if !ok || !is || !ValidOid(string(oid)) {
		return id, data, false
	}
	return plumbing.NewHash(string(oid)), rest, true
}
