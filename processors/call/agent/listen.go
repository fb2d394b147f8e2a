package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/tidwall/gjson"

	"weir/internal/fault"
	"weir/processors/call"
	"weir/processors/call/dial"
	"weir/processors/call/sse"
	"weir/schemas"
)

// events reads a stream to its end and then until the agent closes it or the grace period is over.
func (l *decoder) events(ctx context.Context, in io.Reader) (*call.Reply, error) {
	events := sse.New(in, int(l.cfg.Event))
	closing := false
	for {
		ev, err := events.Next()
		if err != nil {
			return l.ended(err)
		}
		if err := l.event(ctx, ev); err != nil {
			return nil, err
		}
		if l.reader.first != nil && !closing {
			closing = true
			defer time.AfterFunc(l.cfg.Grace, l.Close).Stop()
		}
	}
}

// event takes one event of the stream.
func (l *decoder) event(ctx context.Context, ev sse.Event) error {
	kind, known := partOf(ev.Name)
	if ev.Over() {
		switch {
		case l.reader.first != nil:
			l.reader.warn(afterEnd)
			return nil
		case !known || kind == isEnd: // it may be the end, and cannot be read
			return l.Failure(schemas.UpstreamTooLarge, nil)
		}
		l.seen++
		return l.progress(ctx, schemas.RunProgress{Name: l.name(ev.Name), Omitted: ev.Size})
	}
	if ev.Mended {
		l.reader.warn(notUTF8)
	}
	d := l.read(ev.Data, ev.Mended)
	name := ev.Name
	if !known {
		name, kind = l.reader.opts.nameIn(ev.Name, d.members)
	}
	name = l.name(name)
	if ev.Cut {
		if kind != isEnd || !d.members.IsObject() {
			return nil // half an event is none
		}
		l.reader.warn(unfinished)
	}
	if len(ev.Data) == 0 && kind != isEnd {
		return nil // by the standard it is no event
	}
	l.seen++
	if kind == mayEnd && l.reader.first == nil && !d.doubted {
		raw := bytes.Clone(ev.Data) // the next event overwrites it
		l.last = func() { l.reader.end(d, name, raw) }
	}
	switch {
	case kind == isEnd, kind == mayEnd && d.doubted:
		l.reader.end(d, name, ev.Data)
		return nil
	case l.reader.first != nil:
		l.reader.warn(afterEnd)
		return nil
	case kind == isStart && !d.doubted && l.reader.opts.plain(d):
		return nil // a run's own first event says the same
	case len(d.doc) > schemas.InlineLimit:
		return l.progress(ctx, schemas.RunProgress{Name: name, Omitted: ev.Size})
	default:
		return l.progress(ctx, schemas.RunProgress{Name: name, Data: d.doc})
	}
}

// maxEvents is how many events of one run are kept. Late readers read all of them, and all runs
// share the log.
const maxEvents = 100_000

// progress hands an event on, or counts it where there are too many.
func (l *decoder) progress(ctx context.Context, p schemas.RunProgress) error {
	if l.given == maxEvents {
		l.left++
		return nil
	}
	l.given++
	return l.reader.opts.Progress(ctx, p)
}

// result is the reply of an end, with how many events were not handed on.
func (l *decoder) result(r schemas.RunResult, hash string) (*call.Reply, error) {
	if l.left > 0 {
		r.Warnings = append(r.Warnings, fmt.Sprintf("the agent sent more than %d events; %d of them are left out", maxEvents, l.left))
	}
	return l.Document(r, hash)
}

// maxName is how much is kept of an event's name, in bytes.
const maxName = 128

// name is an event's name as stored: redacted first and then cut, because cleaning a name can join
// two parts to a secret.
func (l *decoder) name(word string) string {
	word = l.Scrub.String(word)
	if !utf8.ValidString(word) {
		word = l.Scrub.String(strings.ToValidUTF8(word, "\uFFFD"))
	}
	if len(word) > maxName {
		word = strings.ToValidUTF8(word[:maxName], "")
	}
	return word
}

// ended is the result of a finished stream: from its end event, or from err alone.
func (l *decoder) ended(err error) (*call.Reply, error) {
	var broke *fault.Call
	if !errors.Is(err, io.EOF) && !errors.As(err, &broke) {
		broke = l.Failure(schemas.UpstreamProtocol, err)
	}
	if broke == nil && l.last != nil && l.reader.first == nil && l.reader.failing == nil {
		l.last()
		l.reader.warn(otherName)
	}
	given := broke != nil && (broke.Code == schemas.Canceled || broke.Code == schemas.UpstreamTimeout)
	switch e := &l.reader; {
	case e.first != nil:
		return l.result(e.outcome(), e.first.hash)
	case e.failing != nil && !given:
		return l.result(e.failing.result, e.failing.hash)
	case broke != nil:
		return nil, broke
	case l.seen == 0, e.vague, e.doubted:
		return nil, l.Failure(schemas.UpstreamProtocol, errNoEnd)
	default:
		return nil, l.Failure(schemas.UpstreamTruncated, errNoEnd)
	}
}

var errNoEnd = errors.New("the agent did not say how the run ended")

// whole reads an answer that is one document.
func (l *decoder) whole(in io.Reader) (*call.Reply, error) {
	raw, err := l.ReadAllBy(in, l.cfg.Event)
	if err != nil {
		return nil, err
	}
	d := l.read(raw, false)
	if !d.members.IsObject() {
		return nil, l.Failure(schemas.UpstreamProtocol, errNoEnd)
	}
	l.reader.end(d, "", raw)
	return l.ended(io.EOF)
}

// refused reads an answer that is no success: the error in it, if there is one in
// a form of the contract. What cannot be read of it does not matter.
func (l *decoder) refused() (*call.Reply, error) {
	raw, readable := l.Refusal(l)
	var told schemas.RunResult
	d := l.read(raw, false)
	if d.members.IsObject() && !d.doubted {
		told.RunExtras = l.reader.extras(d.members)
		l.reader.failed(&told, d.members)
		if told.Error.Message == NoWords && told.Error.Code == string(schemas.TaskFailed) && told.Error.Details == nil {
			told.Error = nil // its status says more
		}
	}
	reply, err := l.Document(told, dial.Hash(raw))
	if err != nil {
		return nil, err
	}
	reply.Answer.NoRoute = readable && !d.doubted && NoRoute(l.Status) && !ofContract(l.Status, d.members)
	return reply, nil
}

// NoRoute reports whether a status may say that a route is not served, and never that
// something ran.
func NoRoute(status int) bool {
	return slices.Contains([]int{404, 405, 501}, status)
}

// ofContract reports whether a refusal may be the agent's own answer to a run, rather than that
// of a router which has no such route: it has a member of the contract, or is a 404 whose detail
// is not a router's. After such an answer the run is not sent again.
func ofContract(status int, m gjson.Result) bool {
	if m.Get("request_id").Str != "" || m.Get("outputs").Type != gjson.Null || m.Get("error").IsObject() {
		return true
	}
	detail := m.Get("detail")
	return status == 404 && detail.Type != gjson.Null && !strings.EqualFold(detail.Str, "Not Found")
}
