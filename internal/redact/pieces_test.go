package redact_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/redact"
	"weir/internal/weirtest/table"
)

const pieceSecret = "zq-CANARY/a%b&c\"d+0123456789"

// inPieces gives a text in pieces of n bytes, and says how long the longest wait was.
func inPieces(t *testing.T, s *redact.Scrubber, text string, n int) (out string, waited int) {
	t.Helper()
	p := s.Pieces()
	var b strings.Builder
	var asked []string
	count := 0
	take := func(list []redact.Piece) {
		for _, piece := range list {
			b.WriteString(shown(piece, asked[count]))
			count++
		}
		waited = max(waited, len(asked)-count)
	}
	for rest := text; rest != ""; {
		size := min(n, len(rest))
		asked = append(asked, rest[:size])
		take(p.Add([]byte(rest[:size])))
		rest = rest[size:]
	}
	take(p.End())
	require.Len(t, asked, count, "every piece is given, once")
	return b.String(), waited
}

// shown is a piece as it is shown.
func shown(p redact.Piece, asked string) string {
	if p.Hit {
		return p.Text
	}
	return asked
}

// TestPiecesOfEveryForm: whichever way a secret is written and cut, no more of it than
// the first byte is seen.
func TestPiecesOfEveryForm(t *testing.T) {
	t.Parallel()
	s := redact.Values([]string{pieceSecret})
	table.Run(t, forms(pieceSecret), func(t *testing.T, form string) {
		for n := range 40 {
			got, _ := inPieces(t, s, "before "+form+" after", n+1)
			assert.Contains(t, got, redact.Mark, n)
			assert.Equal(t, s.String(got), got, n)
			assert.True(t, strings.HasPrefix(got, "before "), got)
			assert.True(t, strings.HasSuffix(got, " after"), got)
			assert.Less(t, len(got), len("before  after")+len(redact.Mark)+4*len(form)/len(pieceSecret)+40, got)
		}
	})
}

// TestPiecesKeepWhatTheyHaveSeen: the first byte is gone, and the rest is found.
func TestPiecesKeepWhatTheyHaveSeen(t *testing.T) {
	t.Parallel()
	s := redact.Values([]string{"sk-0123456789"})
	p := s.Pieces()
	var got []string
	all := []string{"the key s", "k", "", "-", "0", "1234", "56789", "!", " s", "kates"}
	for _, piece := range all {
		for _, given := range p.Add([]byte(piece)) {
			got = append(got, shown(given, all[len(got)]))
		}
	}
	assert.Equal(t, []string{"the key s", redact.Mark, "", "", "", "", "", "!", " s", "kates"}, got)
	assert.Empty(t, p.End())
}

// TestPiecesWaitForNothingElse: ordinary text is given at once, whatever it is cut into.
func TestPiecesWaitForNothingElse(t *testing.T) {
	t.Parallel()
	s := redact.Values([]string{"sk-0123456789", "Bearer sk-0123456789"})
	text := strings.Repeat("So s k sk- skates; beards & bees \\\\ \\n \\u00e9 %20 %s 100% é 🙂 sk-01 \r\n", 30)
	for n := 1; n < 20; n++ {
		got, waited := inPieces(t, s, text, n)
		require.Equal(t, text, got)
		require.LessOrEqual(t, waited, 5, "no longer than until it is known")
	}
	p := s.Pieces()
	for _, word := range []string{"a be", "s", "&am", "100%", "\\"} {
		require.Len(t, p.Add([]byte(" ")), 1)
		if list := p.Add([]byte(word)); word != "a be" {
			require.Equal(t, []redact.Piece{{}}, list, word)
		} else {
			require.Empty(t, list, word)
			require.Equal(t, []redact.Piece{{}, {}}, p.Add([]byte("s")))
		}
	}
}

// TestPiecesOfAnySecret: secrets that end as they begin, beneath up to two layers, side by side and
// cut anywhere.
func TestPiecesOfAnySecret(t *testing.T) {
	t.Parallel()
	known := layersKnown[:len(layersKnown)-1] // the last one twice is not clear before it ends
	for seed := range uint64(4000) {
		r := rand.New(rand.NewPCG(seed, 9))
		alphabet := []string{"ab", "abc-", "sk-01", "abcdefghijklmnop0123456789", "a/b+=\"&"}[r.IntN(5)]
		secret := make([]byte, 6+r.IntN(10))
		for i := range secret {
			secret[i] = alphabet[r.IntN(len(alphabet))]
		}
		var text strings.Builder
		for range 1 + r.IntN(3) {
			form := string(secret[:len(secret)-max(0, r.IntN(8)-4)])
			for range r.IntN(3) {
				form = known[r.IntN(len(known))].put(form) + " " // a reference ends there
			}
			text.WriteString(form)
		}
		s := redact.Values([]string{string(secret)})
		got, _ := inPieces(t, s, text.String(), 1+r.IntN(9))
		require.Equal(t, s.String(got), got, "%q in %q", secret, text.String())
	}
}

// TestPiecesOfASecretWithoutEnd: a text that is one overlapping secret is given in time.
func TestPiecesOfASecretWithoutEnd(t *testing.T) {
	t.Parallel()
	p := redact.Values([]string{"abcdefga"}).Pieces()
	given := 0
	for range 10_000 {
		given += len(p.Add([]byte("abcdefg")))
	}
	assert.Greater(t, given, 7_000)
}

// TestPiecesAtTheEnd: half a secret at the end is taken out, and what only looks a
// little like one stays.
func TestPiecesAtTheEnd(t *testing.T) {
	t.Parallel()
	s := redact.Values([]string{"sk-0123456789"})
	for text, want := range map[string]string{
		"it is sk-0123456": "it is " + redact.Mark, "it is sk-01": "it is sk-01", "it is sk-01234": "it is " + redact.Mark, "sk": "sk", "": "",
	} {
		p := s.Pieces()
		list := slices.Clone(p.Add([]byte(text)))
		list = append(list, p.End()...)
		require.Len(t, list, 1)
		assert.Equal(t, want, shown(list[0], text))
	}
}

// TestPiecesWithLongForms: a long text that waits is not searched anew with each of its
// bytes, and what is in it is found all the same.
func TestPiecesWithLongForms(t *testing.T) {
	t.Parallel()
	secret := string(letters(8 << 10))
	s := redact.Values([]string{secret})
	got, waited := inPieces(t, s, "it is "+secret+" or "+secret[:4<<10]+"? so", 1)
	assert.Equal(t, "it is "+secret[:1]+redact.Mark+" or "+secret[:4<<10]+"? so", got)
	assert.Greater(t, waited, 8<<10)
	p := s.Pieces()
	require.Len(t, p.Add([]byte(secret[:1])), 1)
	for i := 1; i < 1000; i++ {
		require.Empty(t, p.Add([]byte{secret[i]}))
	}
	n := 0
	for given := 0; given == 0; n++ {
		given = len(p.Add([]byte("?")))
	}
	assert.InDelta(t, 64, n, 64, "it is looked at again before there is an eighth more")
	assert.Greater(t, n, 1)
	assert.Len(t, p.Add([]byte("?")), 1)
}

func letters(n int) []byte {
	r := rand.New(rand.NewPCG(1, 2))
	text := make([]byte, n)
	for i := range text {
		text[i] = byte('a' + r.IntN(26))
	}
	return text
}

func TestPiecesOfNoSecret(t *testing.T) {
	t.Parallel()
	for _, s := range []*redact.Scrubber{nil, redact.Values(nil)} {
		p := s.Pieces()
		assert.Equal(t, []redact.Piece{{}}, p.Add([]byte("sk-")))
		assert.Empty(t, p.End())
	}
}
