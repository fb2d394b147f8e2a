package redact

// What a text may cost to search: a step is one byte of one pattern compared.
// Ordinary text takes a few for each byte, and about one for every twenty
// patterns; text that repeats the beginning of a secret, tens.
const (
	stepsPerByte = 64
	stepsPerText = 1 << 14
)

// budget is the steps that are left; below zero it is spent.
type budget struct{ steps int }

func (s *Scrubber) budget(size int) budget {
	return budget{steps: stepsPerText + size*(stepsPerByte+len(s.patterns))}
}

func (l *budget) take() bool {
	l.steps--
	return l.steps >= 0
}

func (l *budget) spent() bool { return l.steps < 0 }

// match gives the end of the pattern from its jth byte on, where b has it at i,
// else -1. At each place an escape is read as what it stands for, at every
// depth, and then as itself. Where the pattern has backslashes of its own,
// readings branch, and without a budget a run of them would take for ever.
func (p *pattern) match(b []byte, i, j int, left *budget) int {
	for ; j < len(p.bytes); j++ {
		if !left.take() {
			return -1
		}
		if p.b64 && j > 0 {
			i = overBreak(b, i)
		}
		if i >= len(b) {
			return -1
		}
		if escapes(b[i]) {
			if end := p.matchEscaped(b, i, j, left); end >= 0 {
				return end
			}
		}
		if !p.accepts(j, b[i]) {
			return -1
		}
		i++
	}
	return i
}

// matchEscaped tries the deepest escape first: of several readings, the one that
// takes most is taken out.
func (p *pattern) matchEscaped(b []byte, i, j int, left *budget) int {
	for depth := maxEscapes; depth >= 1; depth-- {
		c, n := unescape(b, i, depth)
		if n == 0 || !p.accepts(j, c) {
			continue
		}
		if end := p.match(b, i+n, j+1, left); end >= 0 {
			return end
		}
	}
	return -1
}

// overBreak steps over one line break, plain or escaped, such as long base64 has.
func overBreak(b []byte, i int) int {
	for _, want := range [...]byte{'\r', '\n'} {
		if i >= len(b) {
			break
		}
		if b[i] == want {
			i++
		} else if c, n := unescape(b, i, 1); n > 0 && c == want {
			i += n
		}
	}
	return i
}
