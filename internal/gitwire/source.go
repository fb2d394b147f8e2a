package gitwire

import (
	"io"
)

const (
	// sourceBuffer is what a pack's reader holds. It is also the most that a step may
	// read, some KiB unpacked: what takes more is made to take more.
	sourceBuffer = 256 << 10
	sourceRead   = 32 << 10
	maxEmpty     = 100 // reads in a row that bring nothing
)

// source is the reader below a pack, with what was read and not handed out yet.
type source struct {
	r   io.Reader
	buf []byte
	// buf[handed:passed] may be handed out, buf[passed:pos] is what the step underway
	// has read, and buf[pos:end] what it has not.
	handed, passed, pos, end int
	offset                   int64 // of pos, in all of r
	room                     int64 // what r may still bring; -1: anything
	err                      error // what comes behind end
	failed                   error // err, when somebody has met it
}

func newSource(r io.Reader, limit int64) source {
	if limit <= 0 {
		limit = -1
	}
	return source{r: r, buf: make([]byte, sourceBuffer), room: limit}
}

// ready is what may be handed out.
func (s *source) ready() []byte { return s.buf[s.handed:s.passed] }

// pass lets out what the step has read, and returns it.
func (s *source) pass() []byte {
	b := s.buf[s.passed:s.pos]
	s.passed = s.pos
	return b
}

// empty reports whether r has to be asked for the next byte.
func (s *source) empty() bool { return s.pos == s.end }

// ReadByte is io.ByteReader's: flate reads no further than it must from who has it.
func (s *source) ReadByte() (byte, error) {
	if s.pos == s.end {
		if err := s.fill(); err != nil {
			return 0, err
		}
	}
	c := s.buf[s.pos]
	s.pos++
	s.offset++
	return c, nil
}

// Read is io.Reader's.
func (s *source) Read(b []byte) (int, error) {
	if s.pos == s.end {
		if err := s.fill(); err != nil {
			return 0, err
		}
	}
	n := copy(b, s.buf[s.pos:s.end])
	s.pos += n
	s.offset += int64(n)
	return n, nil
}

func (s *source) fill() error {
	for range maxEmpty {
		if s.err == nil && s.end == len(s.buf) {
			s.compact()
		}
		if s.err != nil {
			s.failed = s.err
			return s.err
		}
		n, err := s.r.Read(s.buf[s.end:min(len(s.buf), s.end+sourceRead)])
		s.err = err
		if s.room >= 0 && int64(n) > s.room {
			n, s.err = int(s.room), tooLarge("the pack")
		}
		if s.room >= 0 {
			s.room -= int64(n)
		}
		if s.end += n; n > 0 {
			return nil
		}
	}
	s.err = io.ErrNoProgress
	s.failed = s.err
	return s.err
}

// compact makes room by what was handed out.
func (s *source) compact() {
	n := copy(s.buf, s.buf[s.handed:s.end])
	s.passed, s.pos, s.end, s.handed = s.passed-s.handed, s.pos-s.handed, n, 0
	if s.end == len(s.buf) {
		s.err = malformed("an object is packed larger than it is")
	}
}
