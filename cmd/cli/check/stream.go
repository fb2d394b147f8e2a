package check

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"unicode/utf8"

	"github.com/tidwall/gjson"

	"weir/schemas"
)

// maxStream bounds a stream, in bytes.
const maxStream = 16 << 20

// streamed is what was seen of a stream. It holds three events at most.
type streamed struct {
	events, ends     int // ends counts the terminal events
	first, last, end event
	// What was the first to break a rule of framing, for a person; empty: nothing.
	notUTF8, notField, unnamed, notJSON string
	// open: the last event was not ended by a blank line.
	open bool
	// stopped says how the stream ended, if it did not close in order.
	stopped string
}

type event struct {
	word string // its name: the event line's, else data.event's or data.type's
	doc  gjson.Result
}

func (e event) terminal() bool {
	return e.word == schemas.RunEventComplete || e.word == schemas.RunTypeFinal || e.word == "done"
}

var errTooLong = errors.New("more than a check reads")

// fields are those of an event that is being read.
type fields struct {
	name string
	data []byte // nil: it has none
	some bool   // it has a field
}

// follow reads a stream by the rules of server-sent events until it closes in order, and notes what breaks
// them. A stream that is cut off, here or by a broken connection, proves nothing about its end.
func (s *streamed) follow(in io.Reader, each func(event)) error {
	limited := &io.LimitedReader{R: in, N: maxStream}
	lines, r := lineReader{in: bufio.NewReader(limited)}, fields{}
	for begun := false; ; begun = true {
		line, err := lines.next()
		if !begun {
			line = bytes.TrimPrefix(line, []byte("\ufeff"))
		}
		switch {
		case limited.N <= 0 || len(r.data)+len(line) > maxAnswer:
			return errTooLong
		case errors.Is(err, io.EOF):
			if s.open = r.some || len(line) > 0; s.open {
				s.field(&r, line)
				s.dispatch(r, each)
			}
			return nil
		case err != nil:
			return err
		case len(line) > 0:
			s.field(&r, line)
		default:
			s.dispatch(r, each)
			r = fields{}
		}
	}
}

// lineReader splits a stream at LF, CR LF and CR.
type lineReader struct {
	in *bufio.Reader
	cr bool // the last line ended in CR: an LF may never come
}

// next is the next line, or the rest without an end and io.EOF. One above maxAnswer is cut off.
func (l *lineReader) next() (line []byte, err error) {
	for len(line) <= maxAnswer {
		b, err := l.in.ReadByte()
		if err != nil {
			return line, err
		}
		second := b == '\n' && l.cr
		if l.cr = b == '\r'; second {
			continue
		}
		if b == '\n' || b == '\r' {
			return line, nil
		}
		line = append(line, b)
	}
	return line, errTooLong
}

// field takes in a line that is not empty, or the rest of a stream.
func (s *streamed) field(r *fields, line []byte) {
	if len(line) == 0 {
		return
	}
	if !utf8.Valid(line) {
		note(&s.notUTF8, line)
	}
	name, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimPrefix(value, []byte(" "))
	switch string(name) {
	case "": // a comment
		return
	case "event":
		r.name = string(value)
	case "data":
		if r.data == nil {
			r.data = []byte{}
		} else {
			r.data = append(r.data, '\n')
		}
		r.data = append(r.data, value...)
	case "id", "retry":
	default:
		note(&s.notField, line)
		return
	}
	r.some = true
}

// dispatch takes in an event. Fields without data make no event.
func (s *streamed) dispatch(r fields, each func(event)) {
	if r.data == nil {
		return
	}
	e := event{word: r.name}
	if !json.Valid(r.data) {
		note(&s.notJSON, r.data)
	}
	if r.name == "" {
		note(&s.unnamed, r.data)
		doc, _ := object(r.data)
		e.word = cmp.Or(doc.Get("event").Str, doc.Get("type").Str)
	}
	if s.events == 0 || e.terminal() { // no rule needs the other documents
		e.doc, _ = object(r.data)
	}
	if s.events == 0 {
		s.first = e
	}
	s.events++
	s.last = e
	if e.terminal() {
		s.end = e
		s.ends++
	}
	each(e)
}

func note(first *string, what []byte) {
	if *first == "" {
		*first = quote(string(what))
	}
}
