//go:build e2e

package corpus_test

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// securityPage states how many rows of each category are tested.
const securityPage = "../../docs/security.md"

// TestThePageCountsTheRows: what the page on security says of the corpus is true.
func TestThePageCountsTheRows(t *testing.T) {
	t.Parallel()
	if os.Getenv(otherInbound) != "" || os.Getenv(otherOutbound) != "" {
		return // it counts ours
	}
	page, err := os.ReadFile(securityPage)
	require.NoError(t, err)
	outbound, inbound := tally{}, tally{}
	for _, r := range readOutbound(t) {
		outbound.add(r.Category, r.Static, !isPassedOver(r.ID))
	}
	for _, r := range readInbound(t) {
		inbound.add(r.Surface, false, !isPassedOver(r.ID))
	}
	require.Contains(t, string(page), outbound.table("outbound", true), "docs/security.md must hold this table")
	require.Contains(t, string(page), inbound.table("inbound", false), "docs/security.md must hold this table")
}

type tallied struct{ rows, static, run int }

type tally map[string]tallied

func (c tally) add(category string, static, runs bool) {
	n := c[category]
	n.rows++
	if static {
		n.static++
	}
	if runs {
		n.run++
	}
	c[category] = n
}

// table is the page's: sorted, with a sum.
func (c tally) table(title string, static bool) string {
	var b strings.Builder
	line := func(name string, n tallied) {
		if static {
			fmt.Fprintf(&b, "| %s | %d | %d | %d | %d |\n", name, n.rows, n.static, n.run, n.rows-n.run)
			return
		}
		fmt.Fprintf(&b, "| %s | %d | %d | %d |\n", name, n.rows, n.run, n.rows-n.run)
	}
	if static {
		fmt.Fprintf(&b, "| %s | rows | decided without a network | run | pending |\n|---|---|---|---|---|\n", title)
	} else {
		fmt.Fprintf(&b, "| %s | rows | run | pending |\n|---|---|---|---|\n", title)
	}
	var sum tallied
	for _, name := range slices.Sorted(maps.Keys(c)) {
		n := c[name]
		line(name, n)
		sum.rows, sum.static, sum.run = sum.rows+n.rows, sum.static+n.static, sum.run+n.run
	}
	line("**all**", sum)
	return b.String()
}
