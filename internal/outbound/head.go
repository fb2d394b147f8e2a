package outbound

import (
	"bytes"
	"slices"
)

// opening is what an upstream's first bytes amount to.
type opening int

const (
	nothing  opening = iota // no byte came
	begun                   // the beginning of an answer, cut before its headers ended
	headed                  // headers that ended; what is wrong is in them
	nonsense                // another protocol, or none
)

// httpPrefix is how every answer begins.
const httpPrefix = "HTTP/1."

// head watches the header bytes go by. It keeps a few: enough to tell a
// connection that broke off from one that spoke nonsense, which net/http's
// parser, taking the end of the connection for the end of a line, does not.
type head struct {
	first []byte // as far as httpPrefix goes
	last  []byte // the last two bytes
	ended bool   // an empty line was seen
}

func (h *head) add(p []byte) {
	h.first = append(h.first, p[:min(len(p), len(httpPrefix)-len(h.first))]...)
	if h.ended {
		return
	}
	edge := slices.Concat(h.last, p[:min(len(p), 2)])
	h.ended = blankLine(edge) || blankLine(p)
	h.last = append(h.last, p[max(0, len(p)-2):]...)
	h.last = append([]byte(nil), h.last[max(0, len(h.last)-2):]...)
}

func blankLine(p []byte) bool {
	return bytes.Contains(p, []byte("\n\r\n")) || bytes.Contains(p, []byte("\n\n"))
}

func (h *head) opening() opening {
	switch {
	case len(h.first) == 0:
		return nothing
	case string(h.first) != httpPrefix[:len(h.first)]:
		return nonsense
	case h.ended:
		return headed
	default:
		return begun
	}
}
