package redact

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestFirstLettersCostLittle: a text of the letters that secrets begin with is as cheap to
// search as any. By their first letter alone each would cost all forms a step.
func TestFirstLettersCostLittle(t *testing.T) {
	t.Parallel()
	s := Values([]string{"Bearer sk-supersecret-0123456789", "sk-supersecret-0123456789"})
	const size = 10_000
	for _, c := range "BbsSQcU2j\\%&7" {
		text := []byte(strings.Repeat(string(c), size))
		f := s.search(size)
		from := f.left
		f.find(text, 0)
		for i := range f.left {
			assert.Less(t, int(from[i]-f.left[i]), size, "%q", c)
		}
	}
}

// TestPairs: the look at two bytes passes over nothing that a form may begin with.
func TestPairs(t *testing.T) {
	t.Parallel()
	s := Values([]string{"sk-sécret 0123", "aaaa", "+/+/"})
	for _, p := range s.patterns {
		for c := range 256 {
			if !p.accepts(0, byte(c)) {
				continue
			}
			for d := range 256 {
				b := []byte{byte(c), byte(d)}
				left := budget(1 << 20)
				if _, open := p.match(b, 0, 0, &left); open >= 0 {
					assert.True(t, s.near(b, 0), "%q", b)
				}
			}
			assert.True(t, s.near([]byte{byte(c)}, 0), "what may go on")
		}
	}
}
