//go:build nightly

package faults_test

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

)

// line is a row of the table. Bold is what is in the selection.
func (s *scene) line() string {
	number, verdict := s.number, strconv.Itoa(len(s.violations))
	if s.short {
		number = "**" + number + "**"
	}
	if s.failed {
		verdict = "it did not come to the end"
	}
	var did []string
	for _, what := range slices.Sorted(maps.Keys(s.bit)) {
		did = append(did, grouped(s.bit[what])+" "+what)
	}
	return fmt.Sprintf("| %s | %s | 1 | %s | %s | %.1f s | %s |\n", number, s.title, grouped(s.actions), strings.Join(did, ", "),
		s.counts.Gap.Seconds(), verdict)
}

// tell logs the row's line, in the form of docs/reliability.md.
func (s *scene) tell(t *testing.T) {
	t.Helper()
	t.Logf("%s took %s\n%s", s.number, s.took.Round(time.Second), s.line())
}

// grouped is a number with commas between its thousands.
func grouped(n int) string {
	if n < 1000 {
		return strconv.Itoa(n)
	}
	return fmt.Sprintf("%s,%03d", grouped(n/1000), n%1000)
}
