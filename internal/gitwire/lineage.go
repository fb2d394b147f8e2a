package gitwire

import (
	"bytes"
	"crypto/sha1" //nolint:gosec // the ids of objects are made so
	"encoding/hex"
	"hash"
	"slices"
	"strconv"
)

// What is kept of a pack's commits. A commit is a few hundred bytes.
const (
	maxCommit = 1 << 20 // of one; larger ones are passed over
	// maxLineage is for all of it: what is kept, and the two buffers that commits are read
	// and made in. Behind that, no more are kept.
	maxLineage  = 64 << 20
	roomLineage = maxLineage - 2*(maxCommit+maxCommit/4)
	// What a commit takes beside its data, and what each of its parents and each place where
	// it stands in the pack take: the tables' own room, at its worst, is in it.
	costCommit, costParent, costPlace = 192, 32, 64
)

type oid [sha1.Size]byte

func parseOid(s string) (id oid, ok bool) {
	if !ValidOid(s) {
		return id, false
	}
	_, err := hex.Decode(id[:], []byte(s))
	return id, err == nil
}

// commit is one of a pack's. Its data is there for the deltas that others come as.
type commit struct {
	parents []oid
	data    []byte
	seen    bool // by Builds
}

// Lineage is the commits of a pack, by which a push can be seen to build on what it
// is to replace. What it knows holds of them: the ids are those that the objects
// themselves make. It holds up to 64 MiB.
type Lineage struct {
	commits map[oid]*commit
	at      map[int64]*commit // by where an object begins
	size    int
	room    int
	sum     hash.Hash

	// start, base and reading are of the object underway: where it begins, which commit it is a
	// delta of, and whether it matters at all.
	start           int64
	base            *commit
	reading         bool
	head, buf, made []byte
}

// Follow has the reader keep the commits of its pack, and returns them. It is called
// before the first Read; what it returns is asked when the pack has been read.
func (p *PackReader) Follow() *Lineage {
	p.line = &Lineage{commits: map[oid]*commit{}, at: map[int64]*commit{}, room: roomLineage}
	p.line.sum = sha1.New() //nolint:gosec // as above
	return p.line
}

// Builds reports whether a commit is seen to have another among those before it, or to be it.
// What a pack has too many commits for is not seen; see Whole.
func (l *Lineage) Builds(on, from string) bool {
	want, known := parseOid(on)
	id, ok := parseOid(from)
	if !known || !ok || id == want {
		return known && ok
	}
	for _, c := range l.commits {
		c.seen = false
	}
	var next []*commit
	see := func(id oid) {
		if c := l.commits[id]; c != nil && !c.seen {
			c.seen = true
			next = append(next, c)
		}
	}
	for see(id); len(next) > 0; {
		c := next[len(next)-1]
		next = next[:len(next)-1]
		for _, parent := range c.parents {
			if parent == want {
				return true
			}
			see(parent)
		}
	}
	return false
}

// Whole reports whether every commit of the pack is kept that could be read: there was room.
func (l *Lineage) Whole() bool { return l.size <= l.room }

// begin is told of an object before its data. It passes over what is no commit, and what
// would be too much.
func (l *Lineage) begin(o *object) {
	if l == nil {
		return
	}
	l.start, l.base, l.buf = o.start, nil, l.buf[:0]
	switch o.kind {
	case typeOfsDelta:
		l.base = l.at[o.base]
	case typeRefDelta:
		l.base = l.commits[o.baseID]
	}
	l.reading = (l.base != nil || o.kind == typeCommit) && o.size <= maxCommit && l.Whole()
}

// take is told some of an object's data, which is no more than the object has by its own word.
func (l *Lineage) take(data []byte) {
	if l != nil && l.reading {
		l.buf = append(grown(l.buf, len(data)), data...)
	}
}

// grown makes room in a buffer, for no more than the largest commit takes.
func grown(b []byte, n int) []byte {
	if need := len(b) + n; need > cap(b) {
		b = slices.Grow(b, max(need, min(2*cap(b), maxCommit))-len(b))
	}
	return b
}

// end is told that all of an object was there. What cannot be made of a delta is not known.
func (l *Lineage) end() {
	if l == nil || !l.reading {
		return
	}
	data := l.buf
	if l.base != nil {
		var ok bool
		if l.made, ok = patch(l.made[:0], l.base.data, l.buf); !ok {
			return
		}
		data = l.made
	}
	if parents, ok := parentsOf(data); ok {
		l.keep(data, parents)
	}
}

// keep knows a commit from now on, if there is room for it.
func (l *Lineage) keep(data []byte, parents []oid) {
	l.sum.Reset()
	l.head = append(strconv.AppendInt(append(l.head[:0], "commit "...), int64(len(data)), 10), 0)
	_, _ = l.sum.Write(l.head)
	_, _ = l.sum.Write(data)
	id := oid(l.sum.Sum(l.head[:0]))
	c, cost := l.commits[id], costPlace
	if c == nil {
		cost += costCommit + costParent*len(parents) + roomFor(len(data))
	}
	if l.size += cost; l.size > l.room {
		return
	}
	if c == nil {
		c = &commit{parents: parents, data: bytes.Clone(data)}
		l.commits[id] = c
	}
	l.at[l.start] = c
}

// roomFor is what bytes of a number take at most: memory is given in sizes of its own.
func roomFor(n int) int { return n + n/4 }

const (
	treeLine   = len("tree \n") + len(Zero)
	parentLine = len("parent \n") + len(Zero)
)

// parentsOf reads a commit as git does: a line of its tree, then one for each of its parents,
// and the first other line ends them. What follows may say what it likes.
func parentsOf(data []byte) (parents []oid, ok bool) {
	if _, ok = oidLine(data, "tree ", treeLine); !ok {
		return nil, false
	}
	data = data[treeLine:]
	n := 0
	for ; ; n++ {
		if _, ok = oidLine(data[n*parentLine:], "parent ", parentLine); !ok {
			break
		}
	}
	parents = make([]oid, n)
	for i := range parents {
		parents[i], _ = oidLine(data[i*parentLine:], "parent ", parentLine)
	}
	return parents, true
}

// oidLine reads the object id that a line of a length has behind its word.
func oidLine(data []byte, word string, length int) (id oid, ok bool) {
	if len(data) < length || string(data[:len(word)]) != word || data[length-1] != '\n' {
		return id, false
	}
	return parseOid(string(data[len(word) : length-1]))
}
