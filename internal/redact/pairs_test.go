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
