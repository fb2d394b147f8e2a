package gitwire

import (
	"bytes"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"
)

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
