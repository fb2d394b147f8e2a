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

// event is one event, unnamed in the stream or not.
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
	r := reader{s: s, lines: lines{in: bufio.NewReader(io.LimitReader(resp.Body, maxStream))}, event: func(e event) {
		first.Stop()
		if e.terminal() && grace == nil {
			grace = stop(p.cfg.Grace, "not closed after the terminal event")
		}
	}}
	err = r.read()
	if grace != nil {
		grace.Stop()
	}
	if err != nil && !errors.Is(err, io.EOF) {
		s.stopped = whyStopped(ctx, err)
	}
	return s
}

func whyStopped(ctx context.Context, err error) string {
	if errors.Is(err, errTooLong) {
		return errTooLong.Error()
	}
	return why(ctx, err)
}

var errTooLong = errors.New("more than a check reads")

// reader reads a stream by the rules of server-sent events and notes what breaks
// them.
type reader struct {
	s     *streamed
	lines lines
	event func(event)

	name     string
	data     bytes.Buffer
	hasData  bool
	anything bool // a field of the event at hand was seen
}

// read reads to the end. A stream that closes in order ends in io.EOF.
func (r *reader) read() error {
	for {
		line, err := r.lines.next()
		if err != nil {
			// What we cut off ourselves, or what broke, proves nothing about its end.
			if errors.Is(err, io.EOF) && (r.anything || len(line) > 0) {
				r.s.open = true
				r.field(line)
				r.dispatch()
			}
			return err
		}
		if len(line) == 0 {
			r.dispatch()
			continue
		}
		r.field(line)
		if r.data.Len() > maxLine {
			return errTooLong
		}
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
	if r.s.events == 0 || e.terminal() { // the rest is nobody's business
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

// note keeps the first of its kind.
func note(first *string, what []byte) {
	if *first == "" {
		*first = quote(string(what))
	}
}

// lines splits a stream at LF, CR LF and CR. A line ends at its CR: an LF may
// never come.
type lines struct {
	in    *bufio.Reader
	begun bool
	cr    bool // the last line ended in CR
	line  []byte
	read  int
}

// next is the next line, valid until the call after; what was begun comes with
// the error that ended it.
func (l *lines) next() ([]byte, error) {
	l.line = l.line[:0]
	for len(l.line) <= maxLine {
		if _, err := l.in.Peek(1); err != nil {
			if errors.Is(err, io.EOF) && l.read >= maxStream {
				err = errTooLong
			}
			return l.line, err
		}
		part, _ := l.in.Peek(l.in.Buffered()) // what is there cannot fail
		if l.cr && part[0] == '\n' {
			part = part[:1]
		} else if end := bytes.IndexAny(part, "\r\n"); end >= 0 {
			l.line = append(l.line, part[:end]...)
			part = part[:end+1]
		} else {
			l.line = append(l.line, part...)
		}
		if l.take(part) {
			return l.line, nil
		}
	}
	return nil, errTooLong
}

// take leaves bytes behind, and reports whether they ended a line: they did, if
// they end in a break that is not the second half of one.
func (l *lines) take(part []byte) bool {
	last := part[len(part)-1]
	half := l.cr && last == '\n' && len(part) == 1
	l.cr = last == '\r'
	l.read += len(part)
	_, _ = l.in.Discard(len(part))
	if half || (last != '\r' && last != '\n') {
		return false
	}
	if !l.begun {
		l.begun = true
		l.line = bytes.TrimPrefix(l.line, []byte("\ufeff"))
	}
	return true
}
