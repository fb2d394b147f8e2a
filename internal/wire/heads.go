package wire

import (
	"bytes"
	"strconv"
	"sync"
)

// heads looks through the heads of the requests on one connection for what
// RFC 9112 calls an error and net/http overlooks or hides: a length beside a
// transfer coding (section 6.3), a transfer coding in HTTP/1.0 (6.1), lengths
// that repeat (6.3), folded lines (5.2), line ends without CR (2.2). It parses
// only as much as it takes to find the next head. A length that it cannot read
// is one more fault, whatever net/http makes of it: with another length than
// net/http's, it would look for the next head in the wrong place. After a
// transfer coding it gives up, as the handler ends that connection anyway.
type heads struct {
	mu   sync.Mutex
	why  string // the first thing that was wrong
	done bool   // the rest cannot be inspected

	body  uint64 // bytes of a body still to come
	lines int    // lines of the head so far
	first int    // bytes of the request line so far; 0 between requests
	line  []byte // the begin of the line, at most lineMax bytes
	cut   bool   // line is not the whole of it
	tail  []byte // the end of the line so far, at most tailMax bytes

	old             bool // HTTP/1.0
	lengths, coding int
	length          uint64
}

const (
	lineMax = 128 // enough for a name and a number
	tailMax = 16  // enough for a version
)

func (h *heads) bad() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.why
}

// begun returns how many bytes of a request head have arrived; 0 if none is being received.
func (h *heads) begun() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.first
}

func (h *heads) see(p []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for len(p) > 0 && !h.done {
		if h.body > 0 {
			n := min(h.body, uint64(len(p)))
			h.body -= n
			p = p[n:]
			continue
		}
		i := bytes.IndexByte(p, '\n')
		if i < 0 {
			h.keep(p)
			return
		}
		h.keep(p[:i])
		h.endLine()
		p = p[i+1:]
	}
}

func (h *heads) keep(p []byte) {
	if h.lines == 0 {
		h.first += len(p)
	}
	kept := min(len(p), lineMax-len(h.line))
	h.line = append(h.line, p[:kept]...)
	h.cut = h.cut || kept < len(p)
	h.tail = append(h.tail, p[max(0, len(p)-tailMax):]...)
	h.tail = h.tail[max(0, len(h.tail)-tailMax):]
}

// wrong notes the first fault. The connection will be closed.
func (h *heads) wrong(why string) {
	h.why, h.done = why, true
}

func (h *heads) endLine() {
	line, tail, cut := bytes.TrimSuffix(h.line, []byte("\r")), h.tail, h.cut
	h.line, h.tail, h.cut = h.line[:0], h.tail[:0], false
	switch {
	case !bytes.HasSuffix(tail, []byte("\r")):
		h.wrong("a line ends without a carriage return")
	case h.lines == 0 && len(bytes.Trim(line, "\r")) == 0: // net/http skips a few before a head, or refuses it
		h.first = 0
	case len(line) == 0:
		h.endHead()
	case h.lines == 0:
		h.lines = 1
		h.old = bytes.HasSuffix(tail, []byte(" HTTP/1.0\r"))
	case line[0] == ' ' || line[0] == '\t':
		h.wrong("a header field is folded over several lines")
	default:
		h.lines++
		h.field(line, cut)
	}
}

func (h *heads) field(line []byte, cut bool) {
	name, value, _ := bytes.Cut(line, []byte(":"))
	switch {
	case bytes.EqualFold(name, []byte("Content-Length")):
		h.lengths++
		n, err := strconv.ParseUint(string(bytes.Trim(value, " \t")), 10, 63)
		if err != nil || cut {
			h.wrong("the length of the body cannot be read")
			return
		}
		h.length = n
	case bytes.EqualFold(name, []byte("Transfer-Encoding")):
		h.coding++
	}
}

func (h *heads) endHead() {
	switch {
	case h.coding > 0 && h.lengths > 0:
		h.wrong("the body has both a length and a transfer coding")
	case h.coding > 0 && h.old:
		h.wrong("HTTP/1.0 knows no transfer coding")
	case h.lengths > 1:
		h.wrong("the length of the body appears more than once")
	case h.coding > 0:
		h.done = true
	}
	h.body = h.length
	h.lines, h.first, h.lengths, h.coding, h.length, h.old = 0, 0, 0, 0, 0, false
}
