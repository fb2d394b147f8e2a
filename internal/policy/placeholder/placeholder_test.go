package placeholder_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/policy/placeholder"
)

func TestParse(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("A", 128)
	for _, c := range []struct {
		text   string
		pieces []placeholder.Piece
		err    string
		strict bool
	}{
		{text: "", strict: true},
		{text: "plain $ { }", pieces: []placeholder.Piece{{Literal: "plain $ { }"}}, strict: true},
		{text: "a ${secret:B_1} c", pieces: []placeholder.Piece{{Literal: "a "}, {Name: "B_1"}, {Literal: " c"}}, strict: true},
		{text: "${secret:A}${secret:A}", pieces: []placeholder.Piece{{Name: "A"}, {Name: "A"}}, strict: true},
		{text: "$${secret:A}}", pieces: []placeholder.Piece{{Literal: "$"}, {Name: "A"}, {Literal: "}"}}, strict: true},
		{text: "${secret:" + long + "}", pieces: []placeholder.Piece{{Name: long}}, strict: true},
		{text: "${HOME}", pieces: []placeholder.Piece{{Literal: "${HOME}"}}},
		{text: "${SECRET:A}", pieces: []placeholder.Piece{{Literal: "${SECRET:A}"}}},
		{text: "${secret:A} ${", pieces: []placeholder.Piece{{Name: "A"}, {Literal: " ${"}}},
		{text: "${${secret:A}}", pieces: []placeholder.Piece{{Literal: "${"}, {Name: "A"}, {Literal: "}"}}},
		{text: "${secret:A", err: "a placeholder is not closed: ${secret:…"},
		{text: "${secret:}", err: "a placeholder's name must match [A-Z0-9_]{1,128}"},
		{text: "${secret:a}", err: "a placeholder's name must match [A-Z0-9_]{1,128}"},
		{text: "${secret:${secret:A}}", err: "a placeholder's name must match [A-Z0-9_]{1,128}"},
		{text: "${secret:" + long + "A}", err: "a placeholder's name must match [A-Z0-9_]{1,128}"},
	} {
		pieces, err := placeholder.Parse(c.text)
		if c.err != "" {
			require.EqualError(t, err, c.err, c.text)
		} else {
			require.NoError(t, err, c.text)
		}
		assert.Equal(t, c.pieces, pieces, c.text)
		assert.Equal(t, c.strict, placeholder.Strict(c.text), c.text)
	}
}

// FuzzParse: the pieces make up the text, and a strict text is one whose every
// "${" is a placeholder's.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{"", "a${secret:A}b", "${secret:A${", "$${secret:A}", "${x}"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		pieces, err := placeholder.Parse(text)
		if err != nil {
			require.False(t, placeholder.Strict(text))
			return
		}
		var b strings.Builder
		names := 0
		for _, p := range pieces {
			b.WriteString(p.Literal)
			if p.Name != "" {
				names++
				b.WriteString("${secret:" + p.Name + "}")
				require.True(t, placeholder.ValidName(p.Name))
			}
		}
		require.Equal(t, text, b.String())
		require.Equal(t, strings.Count(text, "${") == names, placeholder.Strict(text))
	})
}
