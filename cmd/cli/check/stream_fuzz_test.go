package check

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Rules lists the ids of the rules in the order in which they are checked.
func Rules() []string {
	var ids []string
	for _, r := range rules() {
		ids = append(ids, r.id)
	}
	return ids
}

func readAll(text string) (*streamed, error) {
	s := &streamed{}
	return s, s.follow(strings.NewReader(text), func(event) {})
}

// TestStreamsThatAreTooLong: no line and no event is read beyond what Weir itself takes of a run.
func TestStreamsThatAreTooLong(t *testing.T) {
	t.Parallel()
	half := "data: " + strings.Repeat("x", maxAnswer/2)
	for text, want := range map[string]error{
		half + "\n\n" + half + "\n\n":           nil,
		half + "\n" + half + "\n\n":             errTooLong,
		half + strings.Repeat("x", maxAnswer/2): errTooLong,
	} {
		s, err := readAll(text)
		require.ErrorIs(t, err, want)
		if want != nil {
			assert.Zero(t, s.events)
		}
	}
}

// FuzzStream shows that a stream says the same whichever line break it has, and
// that whatever comes is read to its end.
func FuzzStream(f *testing.F) {
	for _, seed := range []string{
		"", "\n", ":\n", "data", "data:\n\n", "data: {}\n\n", "event: done\ndata: {\"a\":\ndata:1}\n\n", "event: done\ndata: {}",
		"\ufeffdata: 1\n\n", "data: \xff\n\n", "bare\n\n", "event: a\n\ndata: {\"type\":\"final\"}\n\n: x\n", "id: 1\nretry: 2\n\n\n\n",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		text = strings.ReplaceAll(text, "\r", "")
		want, err := readAll(text)
		require.NoError(t, err)
		assert.LessOrEqual(t, want.ends, want.events)
		assert.LessOrEqual(t, want.events, strings.Count(text, "data"))
		for _, eol := range []string{"\r\n", "\r"} {
			got, err := readAll(strings.ReplaceAll(text, "\n", eol))
			require.NoError(t, err)
			assert.Equal(t, want, got)
		}
	})
}
