package model

import (
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"weir/internal/completion"
	"weir/internal/redact"
)

// redactor keeps chunks back as long as their texts, put together as their reader will,
// may be a part of a secret. Nothing overtakes what is kept back.
type redactor struct {
	scrub    *redact.Scrubber
	protocol completion.Protocol
	texts    *completion.Texts
	lanes    []*lane // by their numbers
	queue    []*held
	bytes    int // in the queue
	free     []*held
	list     []completion.Chunk
	buf      []byte
}

// lane is one text of the answer.
type lane struct {
	text    completion.Text // the first of it
	pieces  *redact.Pieces
	waiting []slot
}

// slot is where a piece of a lane comes from.
type slot struct {
	in *held
	at int
}

// held is one chunk, and the treatment of its texts.
type held struct {
	chunk  completion.Chunk
	found  completion.Found
	pieces []redact.Piece
	left   int // of them
}

const (
	// maxQueue and maxQueued are how many chunks wait, and their bytes: then it is
	// decided by what is there.
	maxQueue  = 4096
	maxQueued = 1 << 20
	// maxFree and maxKept are how many chunks' room is used again, and that of how many
	// texts at most.
	maxFree = 64
	maxKept = 64
	// maxBuffer is the most memory that is held on to for a text.
	maxBuffer = 64 << 10
	// every lane.
	every = -1
)

// newRedactor returns a redactor of one answer; of a nil Scrubber one that keeps nothing back.
func newRedactor(s *redact.Scrubber, p completion.Protocol) *redactor {
	return &redactor{scrub: s, protocol: p, texts: p.Texts()}
}

// add takes the next chunk and gives those that are decided, until the next call. ok is
// false where an answer has more texts than any has.
func (r *redactor) add(c completion.Chunk) (list []completion.Chunk, ok bool) {
	if r.scrub == nil {
		r.list = append(r.list[:0], c)
		return r.list, true
	}
	if len(r.free) == 0 {
		r.free = append(r.free, &held{})
	}
	in := r.free[len(r.free)-1]
	r.free = r.free[:len(r.free)-1]
	if in.chunk = c; !r.texts.Read(c.Raw, &in.found) {
		return nil, false
	}
	in.left = len(in.found.Texts)
	in.pieces = slices.Grow(in.pieces[:0], in.left)[:in.left]
	r.queue = append(r.queue, in)
	r.bytes += len(c.Raw)
	for i, t := range in.found.Texts {
		l := r.lane(t)
		l.waiting = append(l.waiting, slot{in, i})
		if cap(r.buf) > maxBuffer {
			r.buf = nil
		}
		r.buf = t.Append(r.buf[:0], c.Raw) // the text as its reader has it
		l.assign(l.pieces.Add(r.buf))
	}
	for _, ended := range in.found.Ended {
		r.decide(ended)
	}
	if len(r.queue) > maxQueue || r.bytes > maxQueued {
		r.decide(every)
	}
	list, err := r.ready()
	return list, err == nil
}

// lane is the lane of a text; numbers come in order.
func (r *redactor) lane(t completion.Text) *lane {
	for t.Lane >= len(r.lanes) {
		r.lanes = append(r.lanes, nil)
	}
	l := r.lanes[t.Lane]
	if l == nil {
		l = &lane{text: t, pieces: r.scrub.Pieces()}
		r.lanes[t.Lane] = l
	}
	return l
}

// end gives all that is left.
func (r *redactor) end() ([]completion.Chunk, error) {
	r.decide(every)
	return r.ready()
}

// decide ends the waiting of a lane, or of a choice's lanes.
func (r *redactor) decide(which int) {
	for _, l := range r.lanes {
		if l != nil && len(l.waiting) > 0 && (which == every || which == l.text.Lane || which == l.text.Choice) {
			l.assign(l.pieces.End())
		}
	}
}

func (l *lane) assign(list []redact.Piece) {
	for i, piece := range list {
		s := l.waiting[i]
		s.in.pieces[s.at] = piece
		s.in.left--
	}
	l.waiting = slices.Delete(l.waiting, 0, len(list))
}

// ready takes the decided chunks from the front of the queue.
func (r *redactor) ready() ([]completion.Chunk, error) {
	r.list = r.list[:0]
	for _, in := range r.queue {
		if in.left > 0 {
			break
		}
		r.bytes -= len(in.chunk.Raw)
		c, err := in.shown(r.protocol)
		if err != nil {
			return nil, err
		}
		r.list = append(r.list, c)
		if len(r.free) < maxFree && cap(in.pieces) <= maxKept {
			clear(in.pieces)
			in.chunk = completion.Chunk{}
			r.free = append(r.free, in)
		}
	}
	r.queue = slices.Delete(r.queue, 0, len(r.list))
	return r.list, nil
}

// shown is the chunk without what was found in it. The tokens of a text with a secret
// would spell it once more, and are left out.
func (in *held) shown(p completion.Protocol) (completion.Chunk, error) {
	if !slices.ContainsFunc(in.pieces, func(p redact.Piece) bool { return p.Hit }) {
		return in.chunk, nil
	}
	type edit struct {
		completion.Extent

		text []byte // in its place
	}
	var edits []edit
	for _, t := range in.found.Tokens {
		edits = append(edits, edit{t, []byte("null")})
	}
	for i, t := range in.found.Texts {
		if in.pieces[i].Hit {
			text, err := jsontext.AppendQuote(nil, strings.ToValidUTF8(in.pieces[i].Text, "\uFFFD"))
			if err != nil {
				return completion.Chunk{}, err
			}
			edits = append(edits, edit{t.Extent, text})
		}
	}
	slices.SortStableFunc(edits, func(a, b edit) int { return a.From - b.From })
	raw, kept := in.chunk.Raw, 0
	var out []byte
	for _, e := range edits {
		if e.From >= kept { // else it is in a value that has gone
			out = append(append(out, raw[kept:e.From]...), e.text...)
			kept = e.To
		}
	}
	return p.Read(in.chunk.Type, append(out, raw[kept:]...))
}
