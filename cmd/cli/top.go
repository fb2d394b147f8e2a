package cli

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"weir/schemas"
)

// topFlags are the flags of weir top.
type topFlags struct {
	since, tenant string
	every         time.Duration
	once          bool
}

func newTop(env *Env) *cobra.Command {
	var f topFlags
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Watch rates, latencies and outcomes as they change",
		Long: `Show how many actions come and end a second, how many are open, how long actions take and
how they end, and which entries and kinds are slowest. On a terminal it is drawn anew until
Ctrl-C; elsewhere it is printed once.`,
		Example: `  weir top
  weir top --since 24h --once
  weir top --json | jq .total.rate`,
		Args: Exactly(0, "no arguments"),
	}
	cmd.Flags().StringVar(&f.since, "since", "15m", "from then on: 15m, 24h, 7d, or an instant")
	cmd.Flags().DurationVar(&f.every, "every", 2*time.Second, "how often it is drawn")
	cmd.Flags().BoolVar(&f.once, "once", false, "print it once, on a terminal too")
	cmd.Flags().StringVar(&f.tenant, "tenant", "", "another tenant, or * for all; it needs an admin of the tenant default")
	return remote(env, cmd, func(ctx context.Context, c *api, _ []string) error {
		if f.every < 200*time.Millisecond || f.every > time.Hour {
			return usageError{fmt.Errorf("--every %s: it takes from 200ms to 1h", f.every)}
		}
		return c.top(ctx, &f)
	})
}

// figures reads the figures, in groups.
func (c *api) figures(ctx context.Context, f *topFlags, by string) (schemas.Stats, error) {
	q := url.Values{"since": {f.since}, "by": {by}}
	if f.tenant != "" {
		q.Set("tenant", f.tenant)
	}
	return get[schemas.Stats](ctx, c, "/v1/stats", q)
}

// The sequences that draw on a terminal: another screen without a cursor, and back; the
// upper left corner; and the rest of a line or of the screen emptied.
const (
	screenOn  = "\x1b[?1049h\x1b[?25l"
	screenOff = "\x1b[?25h\x1b[?1049l"
	screenTop = "\x1b[H"
	lineEnd   = "\x1b[K\n"
	screenEnd = "\x1b[J"
)

func (c *api) top(ctx context.Context, f *topFlags) error {
	if c.asJSON {
		s, err := c.figures(ctx, f, "entry")
		return c.print(s, err, "")
	}
	text, err := c.topText(ctx, f)
	if err != nil {
		return err
	}
	if f.once || !Terminal(c.Out) {
		_, err := fmt.Fprint(c.Out, text)
		return err
	}
	screen := Unescaped(c.Out)
	fmt.Fprint(screen, screenOn)
	defer fmt.Fprint(screen, screenOff)
	tick := time.NewTicker(f.every)
	defer tick.Stop()
	for {
		fmt.Fprint(screen, screenTop+strings.ReplaceAll(escaped(text, "\n\t"), "\n", lineEnd)+screenEnd)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
		now, err := c.topText(ctx, f)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil: // a server that was there comes back
			text = "weir: " + err.Error() + "; trying again\n" + text
		default:
			text = now
		}
	}
}

func (c *api) topText(ctx context.Context, f *topFlags) (string, error) {
	entries, err := c.figures(ctx, f, "entry")
	if err != nil {
		return "", err
	}
	kinds, err := c.figures(ctx, f, "kind")
	return topView(entries, kinds, c.BaseURL()), err
}

// mostRows is the most entries that are shown, the slowest first.
const mostRows = 10

// topView is the figures for a person.
func topView(entries, kinds schemas.Stats, server string) string {
	var b strings.Builder
	total := entries.Total
	fmt.Fprintf(&b, "%s  since %s, in steps of %s\n", server, when(entries.Since), time.Duration(entries.StepS)*time.Second)
	table := newTable(&b)
	fmt.Fprintf(table, "accepted\t%d\t%s\n", total.Accepted, sparks(entries.Points.Accepted))
	fmt.Fprintf(table, "ended\t%d\t%s  %.4g/s\n", total.Settled, sparks(entries.Points.Settled), total.Rate)
	open := strconv.FormatUint(entries.Open.Count, 10)
	if !entries.Open.Oldest.IsZero() {
		open += "\tthe oldest since " + when(entries.Open.Oldest)
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
	slow := func(g schemas.StatsGroup) float64 { return *cmp.Or(g.P99MS, new(float64)) }
	slices.SortStableFunc(all, func(x, y schemas.StatsGroup) int { return cmp.Compare(slow(y), slow(x)) })
	fmt.Fprintln(b)
	table := newTable(b)
	fmt.Fprintf(table, "%s\tENDED\tRATE\tP50\tP99\tENDS\n", what)
	for _, g := range all[:min(len(all), mostRows)] {
		rate := fmt.Sprintf("%.4g/s", g.Rate)
		printRow(table, oneLine(orDash(g.Name)), g.Settled, rate, took(g.P50MS), took(g.P99MS), outcomes(g.StatsSum))
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
