package traffic

import "strings"

// glob is a text with wildcards: chunks is what stands between them, one more
// than there are wildcards. Each wildcard but the last matches as little as it can.
type glob struct{ chunks []string }

func newGlob(s string) glob { return glob{chunks: strings.Split(s, "*")} }

func (g glob) stars() int { return max(len(g.chunks)-1, 0) }

// open reports whether the last thing is a wildcard.
func (g glob) open() bool { return g.stars() > 0 && g.chunks[g.stars()] == "" }

// match takes each chunk at its leftmost place and never goes back, so its time
// grows with the text and not with what the wildcards could be.
func (g glob) match(s string) bool {
	first, last := g.chunks[0], g.chunks[len(g.chunks)-1]
	if !strings.HasPrefix(s, first) {
		return false
	}
	s = s[len(first):]
	if len(g.chunks) == 1 {
		return s == ""
	}
	if !strings.HasSuffix(s, last) {
		return false
	}
	s = s[:len(s)-len(last)]
	for _, c := range g.chunks[1 : len(g.chunks)-1] {
		i := strings.Index(s, c)
		if i < 0 {
			return false
		}
		s = s[i+len(c):]
	}
	return true
}

// capture appends what the wildcards matched. S is known to match.
func (g glob) capture(dst []string, s string) []string {
	if g.stars() == 0 {
		return dst
	}
	s = s[len(g.chunks[0]) : len(s)-len(g.chunks[g.stars()])]
	for _, c := range g.chunks[1:g.stars()] {
		i := max(strings.Index(s, c), 0)
		dst = append(dst, s[:i])
		s = s[i+len(c):]
	}
	return append(dst, s)
}
