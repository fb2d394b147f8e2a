package embedded

import (
	"sync/atomic"

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
