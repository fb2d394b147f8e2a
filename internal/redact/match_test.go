package redact_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/internal/redact"
)

// TestReadingsThatBranchEnd: each two backslashes are two, or one that is escaped,
// so that a run of them has more readings than could ever be tried. What is then
// not known to be no secret is taken out.
func TestReadingsThatBranchEnd(t *testing.T) {
	t.Parallel()
	scrub := redact.Values([]string{strings.Repeat(`\`, 60) + "-the-end"})
	require.Equal(t, "beforeREDACTED", scrub.String("before "+strings.Repeat(`\`, 120)+" after"))
	require.Equal(t, "before and after", scrub.String("before and after"), "each text has its own budget")
}

// TestShortRunsAreReadToTheEnd: the secrets that exist never spend the budget,
// whatever comes back.
func TestShortRunsAreReadToTheEnd(t *testing.T) {
	t.Parallel()
	for _, secret := range []string{`\pass`, `\\pass`, `p%s&\w`, `%%pass`, `&&pass`, `domain\user:p\\w`} {
		scrub := redact.Values([]string{secret})
		for _, unit := range []string{`\`, `\\`, `%25`, `&amp;`, `\u005c`, "%5C", secret[:len(secret)-1]} {
			text := strings.Repeat(unit, 1<<12)
			require.Equal(t, text, scrub.String(text), "%q, %q", secret, unit)
		}
		require.Equal(t, "a REDACTED b", scrub.String("a "+secret+" b"))
	}
}

// TestJSONWithinOneBudget: a document of many such texts is searched once, and
// is JSON still.
func TestJSONWithinOneBudget(t *testing.T) {
	t.Parallel()
	values := map[string]string{"first": "plain"}
	for name := range strings.SplitSeq("abcdefghijklmnopqrstuvwxyz", "") {
		values[name] = strings.Repeat(`\`, 60)
	}
	doc, err := json.Marshal(values)
	require.NoError(t, err)
	got := redact.Values([]string{strings.Repeat(`\`, 60) + "-the-end"}).JSON(doc)
	require.True(t, json.Valid(got), "%s", got)
	require.Contains(t, string(got), redact.Mark)
}
