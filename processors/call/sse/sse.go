// Package sse reads streams of server-sent events as they come, from services that
// do not always write them well.
package sse

import (
	"bufio"
	"bytes"
	"io"
	"unicode/utf8"
)

// Event is one event of a stream. It is valid until the next one is read.
type Event struct {
	// Name is as it came, unless it is over the limit: then it has none.
	Name string
	// Data is the data lines, joined; nil where they are over the limit.
	Data []byte
	Size int // of Data, also where it is over the limit
	// Cut: the stream ended before the blank line that ends an event.
	Cut bool
	// Mended: the data was not valid UTF-8 as it came.
	Mended bool
}

// Over reports whether the data was larger than is kept.
func (e Event) Over() bool { return e.Size > len(e.Data) }

// Reader reads events as they come, by the rules of the server-sent events of
// HTML: any line ends, a byte order mark, comments, fields without a colon. It
// differs where such services need it: an event without data is an event if it has a
// name, and one that the end of the stream cut off is given, and said to be cut.
// It holds no more than one line and one event, each up to the limit.
type Reader struct {
	r      *bufio.Reader
	limit  int
	err    error // of r
	skipLF bool  // the last line ended in CR
	begun  bool  // the first line has been read

	line []byte
	data []byte
}

// chunkSize is how much is asked of the connection at a time.
const chunkSize = 4 << 10

// fieldRoom is what a line may have beside the data that the limit is for.
const fieldRoom = 128

// keepBuffer is the most memory that is held on to from one event to the next.
const keepBuffer = 64 << 10

// New returns a reader that keeps of a line, and of an event, no more than limit.
func New(r io.Reader, limit int) *Reader {
	return &Reader{r: bufio.NewReaderSize(r, chunkSize), limit: limit}
}

// Next returns the next event. Its error is the connection's error, io.EOF at the end.
func (s *Reader) Next() (Event, error) {
	var ev Event
	s.data = reuse(s.data)
	lines, pending := 0, false // data lines; whether there is anything to give
	for {
		line, size, ended := s.readLine()
		name, value, _ := bytes.Cut(line, []byte(":")) // the name of a comment is empty
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(name) {
		case "event":
			ev.Name = ""
			if size == len(line) { // the field name of a partial line would be unknown
				ev.Name = string(value)
			}
			pending = pending || ev.Name != ""
		case "data":
			pending = true
			if lines++; lines > 1 {
				ev.Size++
			}
			// A partial line is over the limit too, and a longer event does not come back under it.
			if ev.Size += size - (len(line) - len(value)); ev.Size > s.limit {
				s.data = s.data[:0]
				break
			}
			if lines > 1 {
				s.data = append(s.data, '\n')
			}
			s.data = append(s.data, value...)
		}
		switch {
		case ended && (size > 0 || !pending):
			continue
		case !pending:
			return ev, s.err
		}
		ev.Cut = !ended
		if ev.Size != len(s.data) {
			return ev, nil
		}
		ev.Data = s.data
		if !utf8.Valid(ev.Data) { // it is mended as the standard has it
			ev.Data = bytes.ToValidUTF8(ev.Data, []byte("\uFFFD"))
			ev.Size, ev.Mended = len(ev.Data), true
		}
		return ev, nil
	}
}

// readLine returns one line without its end and, at the beginning, without the byte order mark, and
// how long it is: of one over the limit only the beginning is kept. ended is false where the stream
// ended first.
func (s *Reader) readLine() (line []byte, size int, ended bool) {
	s.line = reuse(s.line)
	for !ended {
		if _, s.err = s.r.Peek(1); s.err != nil {
			break
		}
		chunk, _ := s.r.Peek(s.r.Buffered()) // it is there
		if s.skipLF {
			s.skipLF = false
			if chunk[0] == '\n' {
				_, _ = s.r.Discard(1)
				continue
			}
		}
		part, read := chunk, len(chunk)
		if n := bytes.IndexAny(chunk, "\r\n"); n >= 0 {
			part, read, ended, s.skipLF = chunk[:n], n+1, true, chunk[n] == '\r'
		}
		size += len(part)
		if room := s.limit + fieldRoom - len(s.line); room > 0 {
			s.line = append(s.line, part[:min(room, len(part))]...)
		}
		_, _ = s.r.Discard(read)
	}
	line = s.line
	if !s.begun {
		s.begun = true
		line = bytes.TrimPrefix(line, []byte("\uFEFF"))
	}
	return line, size - (len(s.line) - len(line)), ended
}

// reuse empties a buffer and lets go of a large one.
func reuse(b []byte) []byte {
	if cap(b) > keepBuffer {
		return nil
	}
	return b[:0]
}
