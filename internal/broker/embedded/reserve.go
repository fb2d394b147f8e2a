package embedded

import (
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"weir/schemas"
)

// ahead is how many sequences of a stream are reserved beyond its newest record. A stream that
// gains more than half of that between two writes of the marks asks for more at once.
const ahead = 1 << 14

// reserved holds, for each guarded stream, the sequence up to which no sequence is reused after a
// power cut. The marks on the disk hold the same, and a start after an unclean stop continues after
// it. So a record may be shown before it is on the disk: a reader that resumes after its sequence
// misses no replacement.
type reserved struct {
	upTo map[string]*atomic.Uint64
	low  chan struct{} // more must be reserved soon
}

func newReserved(layout schemas.Layout) reserved {
	r := reserved{upTo: map[string]*atomic.Uint64{}, low: make(chan struct{}, 1)}
	for _, stream := range guarded(layout) {
		r.upTo[stream] = new(atomic.Uint64)
	}
	return r
}

// set is called once the marks are on the disk.
func (r *reserved) set(m marks) {
	for stream, upTo := range r.upTo {
		upTo.Store(m.Streams[stream].Reserved)
	}
}

// Reserved reports whether a record may be shown before a Barrier has covered it: no other record
// gets its sequence later, even if a power cut loses this one. For a record that is not reserved, a
// Barrier gives the same guarantee. Reserved never waits. It is true for all records if Barrier has
// nothing to do.
func (s *Server) Reserved(stream string, seq uint64) bool {
	if s.group == nil {
		return true
	}
	upTo := s.reserve.upTo[stream]
	if upTo == nil {
		return false
	}
	end := upTo.Load()
	if seq+ahead/2 > end {
		select {
		case s.reserve.low <- struct{}{}:
		default:
		}
	}
	return seq <= end
}

// short reports whether a stream has little left that is reserved.
func (m marks) short() bool {
	for _, k := range m.Streams {
		if k.Reserved < k.Last+ahead/2 {
			return true
		}
	}
	return false
}

// reserving is m with sequences reserved beyond where its streams end.
func (m marks) reserving() marks {
	for stream, k := range m.Streams {
		k.Reserved = max(k.Reserved, k.Last+ahead)
		m.Streams[stream] = k
	}
	return m
}

// skipReserved has a stream that did not end in a clean stop go on behind all that may have been
// shown of it. It leaves the stream alone when it has got there already, and where there is nothing
// of it on the disk: then nothing was shown.
func (s *Server) skipReserved(stream string, m mark, blocks []block) error {
	if m.Reserved == 0 {
		return nil
	}
	if blocks == nil { // verify did not need to read them
		var err error
		if blocks, err = s.dir.blocks(stream); err == nil {
			err = readAll(stream, blocks)
		}
		if err != nil {
			return err
		}
	}
	if len(blocks) == 0 || reached(blocks) >= m.Reserved {
		return nil
	}
	return s.dir.skip(stream, &blocks[len(blocks)-1], m.Reserved)
}

// reached is the highest sequence in blocks that were read.
func reached(blocks []block) (last uint64) {
	for _, b := range blocks {
		last = max(last, b.last)
	}
	return last
}

// skip ends a stream's newest block with a record that marks all up to a sequence as deleted. The
// server reads all its blocks again and cuts off what it cannot read.
func (d *dataDir) skip(stream string, newest *block, seq uint64) error {
	if err := newest.skipTo(stream, seq, time.Now().UnixNano()); err != nil {
		return err
	}
	return d.forgetIndex(stream)
}

// forgetIndex removes what the server made of a stream's blocks.
func (d *dataDir) forgetIndex(stream string) error {
	dir := d.msgsDir(stream)
	if err := os.Remove(filepath.Join(dir, indexName)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return syncDir(dir)
}
