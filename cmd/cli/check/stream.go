package check

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"time"
	"unicode/utf8"

	"weir/schemas"
)

// The bounds of a stream, in bytes.
const (
	maxLine   = 8 << 20 // and of the data of one event
	maxStream = 16 << 20
)

// streamed is what was seen of a stream. It holds three events at most.
type streamed struct {
	head
	refusal document // what came with a status that is not 200
	events  int
	first   event
	last    event
	// end is the last terminal event; ends counts them.
	end  event
	ends int
	// What was the first to break a rule of framing, for a person; empty: nothing.
	notUTF8, notField, unnamed, notJSON string
	// open: the last event was not ended by a blank line.
	open bool
	// stopped says how the stream ended, if it did not close in order.
	stopped string
}

type event struct {
	word string // its name: the event line's, else data.event's or data.type's
	doc  document
}

func (e event) terminal() bool {
	return e.word == schemas.RunEventComplete || e.word == schemas.RunTypeFinal || e.word == "done"
}

// stream asks for a run on the streaming route and reads it to its end.
func (p *prober) stream(ctx context.Context, body []byte) *streamed {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := func(d time.Duration, what string) *time.Timer {
		return time.AfterFunc(d, func() { cancel(late(what + " within " + d.String())) })
	}
	all, first := stop(p.cfg.Timeout, "no end"), stop(p.cfg.FirstEvent, "no event")
	defer all.Stop()
	defer first.Stop()

	s := &streamed{}
	resp, err := p.send(ctx, http.MethodPost, schemas.RouteRunStream, "text/event-stream", body)
	if err != nil {
		s.none = why(ctx, err)
		return s
	}
	defer resp.Body.Close()
	s.head = headOf(resp)
	if s.status != http.StatusOK {
		s.refusal, _ = read(ctx, resp.Body)
		return s
	}
	var grace *time.Timer
	r := reader{s: s, event: func(e event) {
		first.Stop()
		if e.terminal() && grace == nil {
			grace = stop(p.cfg.Grace, "not closed after the terminal event")
		}
	}}
	err = r.read(resp.Body)
	if grace != nil {
		grace.Stop()
	}
	if err != nil {
		s.stopped = why(ctx, err)
	}
	return s
}

var errTooLong = errors.New("more than a check reads")

// reader reads a stream by the rules of server-sent events and notes what breaks
// them.
type reader struct {
	s     *streamed
	event func(event)

	name     string
	data     bytes.Buffer
	hasData  bool
	anything bool // a field of the event at hand was seen
}

// read reads a stream until it closes in order. A stream that is cut off, here or by a broken connection,
// proves nothing about its end.
func (r *reader) read(in io.Reader) error {
	limited := &io.LimitedReader{R: in, N: maxStream}
	var rest []byte
	lines := bufio.NewScanner(limited)
	lines.Buffer(nil, maxLine)
	lines.Split(splitLines(&rest))
	for begun := false; lines.Scan(); begun = true {
		line := lines.Bytes()
		if !begun {
			line = bytes.TrimPrefix(line, []byte("\ufeff"))
		}
		if len(line) == 0 {
			r.dispatch()
		} else {
			r.field(line)
		}
		if r.data.Len() > maxLine {
			return errTooLong
		}
	}
	switch err := lines.Err(); {
	case limited.N <= 0, errors.Is(err, bufio.ErrTooLong):
		return errTooLong
	case err != nil:
		return err
	}
	if r.anything || len(rest) > 0 {
		r.s.open = true
		r.field(rest)
		r.dispatch()
	}
	return nil
}

// splitLines splits a stream at LF, CR LF and CR. A line ends at its CR: an LF may never come. rest is a last
// line without an end.
func splitLines(rest *[]byte) bufio.SplitFunc {
	cr := false // the last line ended in CR
	looked := 0 // so much of the data has no end of a line: a long line is looked through once
	return func(data []byte, atEOF bool) (advance int, line []byte, err error) {
		begin := 0 // behind the second half of a line's end
		if cr && len(data) > 0 && data[0] == '\n' {
			begin = 1
		}
		from := max(begin, looked)
		if i := bytes.IndexAny(data[from:], "\r\n"); i >= 0 {
			end := from + i
			cr, looked = data[end] == '\r', 0
			return end + 1, data[begin:end], nil
		}
		looked = len(data)
		if atEOF {
			*rest = data[begin:]
			return len(data), nil, nil
		}
		return 0, nil, nil
	}
}

// field takes in a line that is not empty.
func (r *reader) field(line []byte) {
	if len(line) == 0 {
		return
	}
	if !utf8.Valid(line) {
		note(&r.s.notUTF8, line)
	}
	name, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimPrefix(value, []byte(" "))
	switch string(name) {
	case "": // a comment
		return
	case "event":
		r.name = string(value)
	case "data":
		if r.hasData {
			r.data.WriteByte('\n')
		}
		r.data.Write(value)
		r.hasData = true
	case "id", "retry":
	default:
		note(&r.s.notField, line)
		return
	}
	r.anything = true
}

// dispatch ends the event at hand. Fields without data make no event.
func (r *reader) dispatch() {
	defer func() {
		r.name, r.hasData, r.anything = "", false, false
		r.data.Reset()
	}()
	if !r.hasData {
		return
	}
	e, data := event{word: r.name}, r.data.Bytes()
	if !json.Valid(data) {
		note(&r.s.notJSON, data)
	}
	if r.name == "" {
		note(&r.s.unnamed, data)
		e.word = wordOf(data)
	}
	if r.s.events == 0 || e.terminal() { // no rule needs the other documents
		e.doc, _ = object(bytes.Clone(data))
	}
	if r.s.events == 0 {
		r.s.first = e
	}
	r.s.events++
	r.s.last = e
	if e.terminal() {
		r.s.end = e
		r.s.ends++
	}
	r.event(e)
}

// wordOf is the name of an event that only its data names.
func wordOf(data []byte) string {
	doc, _ := object(data)
	for _, member := range []string{"event", "type"} {
		if word, ok := doc.text(member); ok {
			return word
		}
	}
	return ""
}

func note(first *string, what []byte) {
	if *first == "" {
		*first = quote(string(what))
	}
}
