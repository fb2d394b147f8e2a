package completion_test

import (
	"flag"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/completion"
)

var update = flag.Bool("update", false, "write the table of members into docs/chat.md")

// TestDocsListTheMembers compares the table in docs/chat.md with the one in the code.
func TestDocsListTheMembers(t *testing.T) {
	t.Parallel()
	const page, begin, end = "../../docs/chat.md", "<!-- members -->\n", "<!-- /members -->\n"
	var b strings.Builder
	b.WriteString("\n| object | the protocol's members | members of many servers and clients |\n|---|---|---|\n")
	for _, m := range completion.Known() {
		b.WriteString("| " + string(m.Object) + " | " + code(m.Protocol) + " | " + code(m.Common) + " |\n")
	}
	b.WriteString("\n")
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	before, rest, ok := strings.Cut(string(text), begin)
	table, after, closed := strings.Cut(rest, end)
	require.True(t, ok && closed, "the page has a place for the table")
	if *update {
		require.NoError(t, os.WriteFile(page, []byte(before+begin+b.String()+end+after), 0o600))
		return
	}
	require.Equal(t, b.String(), table, "run go test ./internal/completion -run DocsList -update")
}

func code(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return "`" + strings.Join(names, "` `") + "`"
}

// TestMembers: a name is in one list of an object once, in order, and none of them is one
// that is refused or names a stored object.
func TestMembers(t *testing.T) {
	t.Parallel()
	for _, m := range completion.Known() {
		all := slices.Concat(m.Protocol, m.Common)
		assert.True(t, slices.IsSorted(m.Protocol), m.Object)
		assert.True(t, slices.IsSorted(m.Common), m.Object)
		slices.Sort(all)
		assert.Equal(t, slices.Compact(slices.Clone(all)), all, m.Object)
		for _, name := range all {
			assert.True(t, completion.ValidMember(name), name)
			assert.True(t, completion.Knows(m.Object, name), name)
			assert.False(t, completion.Refused(name) || completion.Stored(completion.Fold(name)), name)
			assert.False(t, completion.Knows(m.Object, strings.ToUpper(name)), "names are read as they are spelled")
		}
	}
	for _, name := range []string{"", "*", "a b", "a/b", "--", "é", strings.Repeat("a", completion.MaxMember+1)} {
		assert.False(t, completion.ValidMember(name), name)
	}
}
