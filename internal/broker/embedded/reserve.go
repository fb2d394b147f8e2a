package embedded

// ahead is how many sequences of a stream are reserved beyond its newest record. A stream that
// gains more than half of that between two writes of the marks asks for more at once.
const ahead = 1 << 14

// Reserved reports whether a record may be shown before a Barrier has covered it: no other record
// gets its sequence later, even if a power cut loses this one, because the marks on the disk reserve
// it and a start after an unclean stop continues after what they reserve. So a reader that resumes
// after a record that was shown misses no replacement. For a record that is not reserved, a Barrier
// gives the same guarantee. Reserved never waits. It is true for all records if Barrier has nothing
// to do.
func (s *Server) Reserved(stream string, seq uint64) bool {
	if s.group == nil {
		return true
	}
	end := s.written.Load().Streams[stream].Reserved
	if seq+ahead/2 > end {
		select {
		case s.reserveLow <- struct{}{}:
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
