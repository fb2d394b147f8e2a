package cli

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"weir/schemas"
)

// mostRows is how many entries are told, the slowest first.
const mostRows = 10

// topView is the figures for a person.
func topView(entries, kinds schemas.Stats, server string) string {
	var b strings.Builder
	total := entries.Total
	fmt.Fprintf(&b, "%s  since %s, in steps of %s\n", server, entries.Since.Local().Format(time.DateTime), time.Duration(entries.StepS)*time.Second)
	table := newTable(&b)
	fmt.Fprintf(table, "accepted\t%d\t%s\n", total.Accepted, sparks(entries.Points.Accepted))
	fmt.Fprintf(table, "ended\t%d\t%s  %.4g/s\n", total.Settled, sparks(entries.Points.Settled), total.Rate)
	open := strconv.FormatUint(entries.Open.Count, 10)
	if !entries.Open.Oldest.IsZero() {
		open += "\tthe oldest since " + entries.Open.Oldest.Local().Format(time.DateTime)
	}
	fmt.Fprintf(table, "open\t%s\n", open)
	fmt.Fprintf(table, "took\tp50 %s\tp99 %s\n", took(total.P50MS), took(total.P99MS))
	fmt.Fprintf(table, "ends\t%s\n", outcomes(total))
	_ = table.Flush() // to a buffer: cannot fail
	if entries.Behind > 0 {
		fmt.Fprintf(&b, "the index is %d records behind the log\n", entries.Behind)
	}
	groups(&b, "ENTRY", entries.Groups)
	groups(&b, "KIND", kinds.Groups)
	return b.String()
}

// outcomes is how actions ended, the commonest first.
func outcomes(s schemas.StatsSum) string {
	names := slices.Collect(maps.Keys(s.Outcomes))
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(cmp.Compare(s.Outcomes[b], s.Outcomes[a]), cmp.Compare(a, b)) })
	parts := make([]string, len(names))
	for i, name := range names {
		parts[i] = fmt.Sprintf("%s %d (%.3g%%)", name, s.Outcomes[name], 100*float64(s.Outcomes[name])/float64(max(s.Settled, 1)))
	}
	return orDash(strings.Join(parts, ", "))
}

// groups is a table of groups, the slowest first.
func groups(b *strings.Builder, what string, all []schemas.StatsGroup) {
	all = slices.DeleteFunc(slices.Clone(all), func(g schemas.StatsGroup) bool { return g.Settled == 0 })
	if len(all) == 0 {
		return
	}
	slow := func(g schemas.StatsGroup) float64 {
		if g.P99MS == nil {
			return 0
		}
		return *g.P99MS
	}
	slices.SortStableFunc(all, func(x, y schemas.StatsGroup) int { return cmp.Compare(slow(y), slow(x)) })
	fmt.Fprintln(b)
	table := newTable(b)
	fmt.Fprintf(table, "%s\tENDED\tRATE\tP50\tP99\tENDS\n", what)
	for _, g := range all[:min(len(all), mostRows)] {
		fmt.Fprintf(table, "%s\t%d\t%.4g/s\t%s\t%s\t%s\n", oneLine(orDash(g.Name)), g.Settled, g.Rate, took(g.P50MS), took(g.P99MS), outcomes(g.StatsSum))
	}
	_ = table.Flush() // to a buffer: cannot fail
}

// sparkWidth is how many of the newest steps are drawn.
const sparkWidth = 60

// sparks draws numbers as blocks, the greatest as a full one.
func sparks(values []uint64) string {
	if len(values) > sparkWidth {
		values = values[len(values)-sparkWidth:]
	}
	blocks := []rune(" ▁▂▃▄▅▆▇█")
	most := uint64(1)
	for _, v := range values {
		most = max(most, v)
	}
	out := make([]rune, len(values))
	for i, v := range values {
		step := math.Ceil(float64(v) / float64(most) * float64(len(blocks)-1)) // what is there at all shows
		out[i] = blocks[int(step)]
	}
	return string(out)
}
