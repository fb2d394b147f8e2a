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

// reserved says of each guarded stream up to where its sequences are never given out again,
// whatever a power cut takes: the marks on the disk say the same, and a start after anything but a
// clean stop goes on behind it. So a record may be shown before it is on the disk, and whoever
// resumes behind its place misses nothing that came instead.
type reserved struct {
	upTo map[string]*atomic.Uint64
	low  chan struct{} // more is to be reserved before long
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

// Reserved reports whether a record may be shown before a Barrier has passed it: its sequence names
// no other record later, even if a power cut takes this one. What is not reserved a Barrier makes
// as good. It never waits, and is true for all records where Barrier has nothing to do.
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
	if blocks == nil { // nobody had to read them
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

// skip ends a stream's newest block with the word that all up to a sequence is gone. The server
// reads all its blocks anew, and cuts off what it cannot read.
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
