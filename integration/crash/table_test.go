//go:build e2e

package crash_test

import (
	"fmt"
	"strconv"
	"strings"
)

// table is what a run did, for people: one line a fault.
func table(trials []*trial) string {
	var b strings.Builder
	b.WriteString("\n| fault | where | durability | actions | kills | befell (GET PUT POST keyed mocked denied) | violations |\n|---|---|---|---|---|---|---|\n")
	type line struct{ actions, kills, violations int }
	for _, c := range cells() {
		for _, d := range []string{"disk", "process"} {
			var l line
			fired := map[string]int{}
			seen := false
			for _, r := range trials {
				if r.cell.slug() != c.slug() || r.durability != d {
					continue
				}
				seen = true
				l.actions += len(c.classes)
				l.kills += r.kills
				l.violations += len(r.violations)
				for class, n := range r.fired {
					fired[class] += n
				}
			}
			if !seen {
				continue
			}
			var befell []string
			for _, class := range []string{get, put, post, keyed, mocked, denied} {
				text := "–"
				if n, ok := fired[class]; ok {
					text = strconv.Itoa(n)
				}
				befell = append(befell, text)
			}
			fmt.Fprintf(&b, "| %s | %s | %s | %d | %d | %s | %d |\n", c.row, c.title, d, l.actions, l.kills, strings.Join(befell, " "), l.violations)
		}
	}
	return b.String()
}
