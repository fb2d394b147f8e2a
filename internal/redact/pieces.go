package redact

import "slices"

// Pieces takes secrets out of one text that comes in pieces, a secret that several of
// them share too. It belongs to one goroutine.
//
// A piece is given once it is decided: where the text so far ends with two or more bytes
// of a secret, it waits for what follows. So a reader may see the first byte of a secret
// (its first seven if the text ends after them), and no more. It waits for no longer
// than a form of a secret is; text that goes on like one beyond all measure is taken out.
type Pieces struct {
	*search

	text  []byte // returned text that may still matter, then text that was not returned
	given int    // of text
	ends  []int  // of the pieces that were not given
	next  int    // the length of the text at which it is searched again
	list  []Piece
}

// Piece says how a piece may be shown.
type Piece struct {
	// Hit: a secret was in it, or a part of one. Otherwise it may be shown as it came.
	Hit bool
	// Text is what may be shown of a piece with a hit.
	Text string
}

const (
	// maxHeld is the most of a text that waits.
	maxHeld = 16 << 10
	// longHeld is how much of it is searched with every piece. More is searched again when
	// there is an eighth more.
	longHeld = 256
	// firstOpen is how many bytes of a secret a text may end with and waits. With one byte
	// 13 of 100 chunks of prose wait beside the key "sk-…", with two fewer than one.
	firstOpen = 2
	// lastOpen is how many bytes of a secret a text may end with.
	lastOpen = 2 * minPattern
)

// Pieces returns a Pieces for one text; of a nil Scrubber one that gives all as it comes.
func (s *Scrubber) Pieces() *Pieces {
	p := &Pieces{}
	if s != nil && len(s.patterns) > 0 {
		p.search = s.search(0)
	}
	return p
}

// Add takes the next piece, and gives those that are decided now, in order. They are
// valid until the next call.
func (p *Pieces) Add(piece []byte) []Piece {
	if p.search == nil {
		p.list = append(p.list[:0], Piece{})
		return p.list
	}
	p.text = append(p.text, piece...)
	p.ends = append(p.ends, len(p.text))
	if len(p.text) < p.next && len(p.text)-p.given <= maxHeld {
		return nil
	}
	spans, from, hold := p.look(firstOpen)
	for _, s := range slices.Backward(spans) {
		if s.to > hold {
			hold = min(hold, s.from)
		}
	}
	if len(p.text)-max(hold, p.given) > maxHeld {
		spans = addSpan(spans, hold, len(p.text))
		from, hold = len(p.text), len(p.text)
	}
	return p.give(spans, from, hold)
}

// End gives the pieces that are left, as Add does. If the text ends with what may be half
// a secret, that is taken out; if the text goes on, so is the other half.
func (p *Pieces) End() []Piece {
	if len(p.ends) == 0 {
		return nil
	}
	spans, from, hold := p.look(lastOpen)
	if hold < len(p.text) {
		spans = addSpan(spans, hold, len(p.text))
	}
	return p.give(spans, from, len(p.text))
}

// look searches the text with new budgets.
func (p *Pieces) look(least int) (spans []span, from, hold int) {
	for i := range p.left {
		p.left[i] = p.budget(len(p.text))
	}
	p.least, p.more = least, least == firstOpen
	spans, end := p.find(p.text, 0)
	return spans, end.from, end.hold
}

// addSpan returns the spans with one more.
func addSpan(spans []span, from, to int) []span { return join(append(spans, span{from, to})) }

// give cuts the pieces before hold out of the text, without the spans in them, and
// forgets what lies before from.
func (p *Pieces) give(spans []span, from, hold int) []Piece {
	n := 0
	for n < len(p.ends) && p.ends[n] <= hold {
		n++
	}
	p.list = p.list[:0]
	start := p.given
	for _, end := range p.ends[:n] {
		out, hit := []byte(nil), false
		if start < end && len(spans) > 0 {
			out, hit = replace(p.text, start, end, spans, p.given)
		}
		p.list = append(p.list, Piece{Hit: hit, Text: string(out)})
		start = end
	}
	p.given, p.ends = start, slices.Delete(p.ends, 0, n)
	for _, s := range spans { // one that is not given to its end is looked for again
		if s.to > p.given {
			from = min(from, s.from)
		}
	}
	if from = min(from, p.given); from > 0 {
		p.text = append(p.text[:0], p.text[from:]...)
		p.given -= from
		for i := range p.ends {
			p.ends[i] -= from
		}
	}
	if p.next = 0; len(p.text) > longHeld {
		p.next = len(p.text) + len(p.text)/8
	}
	return p.list
}

// replace returns text[from:to] with a mark in place of each span, if one is in
// it. The mark of a span is in the piece where the span begins, or in the first
// one after given.
func replace(text []byte, from, to int, spans []span, given int) (out []byte, hit bool) {
	out = make([]byte, 0, to-from)
	kept := from
	for _, s := range spans {
		if s.to <= from || s.from >= to {
			continue
		}
		hit = true
		out = append(out, text[kept:max(kept, s.from)]...)
		if max(s.from, given) >= from {
			out = append(out, Mark...)
		}
		kept = min(s.to, to)
	}
	return append(out, text[kept:to]...), hit
}
