package redact

// The limits of a search. A step compares one byte of one pattern. Ordinary text
// takes a few steps a byte, and about one for every twenty patterns; text that
// repeats the beginning of a secret takes tens.
const (
	stepsPerByte = 64
	stepsPerText = 1 << 14
)

// budget is the number of steps left; below zero it is spent.
type budget int

func (s *Scrubber) budget(size int) budget {
	return budget(stepsPerText + size*(stepsPerByte+len(s.patterns)))
}

func (l *budget) spend() bool {
	*l--
	return *l >= 0
}

func (l *budget) spent() bool { return *l < 0 }

// match compares b from i on with the pattern from its jth byte on. It returns
// the end of the pattern in b, else -1; and, if b may end before the pattern
// does, the largest number of its bytes that b has, else -1.
//
// At each place it reads an escape as the character it stands for, and then as itself. If the
// pattern has backslashes of its own, readings branch: without a budget, a run of them would take
// for ever.
func (p *pattern) match(b []byte, i, j int, left *budget) (end, open int) {
	open = -1
	for ; j < len(p.bytes); j++ {
		if !left.spend() {
			return -1, max(open, j)
		}
		if p.b64 && j > 0 {
			i = overBreak(b, i)
		}
		if i >= len(b) {
			return -1, max(open, j)
		}
		if escapes(b[i]) {
			if unfinished(b, i) {
				open = max(open, j)
			}
			if c, n := unescape(b, i); n > 0 && p.accepts(j, c) {
				end, more := p.match(b, i+n, j+1, left)
				open = max(open, more)
				if end >= 0 {
					return end, open
				}
			}
		}
		if !p.accepts(j, b[i]) {
			return -1, open
		}
		i++
	}
	return i, open
}

// overBreak steps over one line break, plain or escaped, such as long base64 has.
func overBreak(b []byte, i int) int {
	for _, want := range [...]byte{'\r', '\n'} {
		if i >= len(b) {
			break
		}
		if b[i] == want {
			i++
		} else if c, n := unescape(b, i); n > 0 && c == want {
			i += n
		}
	}
	return i
}
