package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/tmaxmax/go-sse"

	"weir/internal/nearest"
	"weir/schemas"
)

func newTail(env *Env) *cobra.Command {
	const takes = "tail takes one of: actions [ID], evidence, dead"
	return (&clientFlags{words: true}).command(env, &cobra.Command{
		Use:   "tail actions [ID] | evidence | dead",
		Short: "Follow actions, evidence or dead letters as they come",
		Long: `Follow actions, evidence or dead letters as they come. The numbers of events and of evidence
only grow. A gap between two of them, such as after a crash, means nothing.`,
		Example: `  weir tail actions                     # each action, as it is accepted and as it goes on
  weir tail actions 01890a5d-…          # one action, from its beginning to its end
  weir tail evidence --json | jq .payload`,
		ValidArgs: []string{"actions", "evidence", "dead"},
		Args:      between(1, 2, takes),
	}, func(ctx context.Context, c *api, args []string) error {
		switch what := args[0]; {
		case len(args) == 2 && what == "actions":
			return c.Follow(ctx, within(routeActions, args[1], "/events"), func(e sse.Event) error {
				if err := c.showEvent(e); err != nil || c.asJSON || e.Type != string(schemas.EventAccepted) {
					return err
				}
				view, err := c.Action(ctx, args[1])
				if err != nil {
					return err
				}
				return printCells(c.Out, "  ", []any{"       ", "call      ", viewCall(view)})
			})
		case len(args) == 2:
			return usageError{errors.New(takes)}
		case what == "actions":
			return c.watchActions(ctx)
		case what == "evidence":
			return c.Follow(ctx, "/v1/evidence", c.showEvent)
		case what == "dead":
			return c.watchDead(ctx)
		default:
			return usageError{fmt.Errorf("%q is not actions, evidence or dead%s", what, nearest.Hint(what, []string{"actions", "evidence", "dead"}))}
		}
	})
}

func (c *api) showEvent(e sse.Event) error {
	if c.asJSON {
		_, err := fmt.Fprintln(c.Out, e.Data)
		return err
	}
	var doc map[string]any
	if err := json.Unmarshal([]byte(e.Data), &doc); err != nil {
		return fmt.Errorf("the stream holds something that is not JSON: %w", err)
	}
	text := func(key string) string {
		v, _ := doc[key].(string)
		return v
	}
	cells := []any{fmt.Sprintf("%-7s", e.LastEventID), tinted{fmt.Sprintf("%-10s", e.Type), eventOutcome(e.Type, text("code"), doc["settled"])}}
	for _, key := range []string{"time", "action_id", "kind", "entry", "code", "reason"} {
		cells = append(cells, text(key))
	}
	payload, err := json.Marshal(doc["payload"])
	if err != nil {
		return err
	}
	cells = append(cells, cut(evidenceText(payload), 160))
	for _, key := range []string{e.Type, "data"} {
		if nested, ok := doc[key].(map[string]any); ok {
			brief, err := json.Marshal(nested)
			if err != nil {
				return err
			}
			cells = append(cells, cut(string(brief), 160))
			break
		}
	}
	return printCells(c.Out, "  ", filled(cells))
}

// eventOutcome is the outcome in whose colour a line of an event is: of its end, or what its code says.
func eventOutcome(kind, code string, settled any) string {
	end, _ := settled.(map[string]any)
	if outcome, ok := end["outcome"].(string); ok {
		return outcome
	}
	if code != "" {
		return string(outcomeOfExit(exitOf(schemas.Code(code))))
	}
	return kind
}

// filled are those cells that have a text.
func filled(cells []any) []any {
	return slices.DeleteFunc(cells, func(cell any) bool { return fmt.Sprint(cell) == "" })
}

// cut shortens a text to n characters.
func cut(s string, n int) string {
	r := []rune(s)
	if len(r) <= n {
		return s
	}
	return string(r[:n-1]) + "…"
}

// watchEvery is how often a list is looked at. Lists are not streams: one
// action's events are, and the evidence is.
const watchEvery = 500 * time.Millisecond

// watch calls look again and again until ctx ends, which is no error. Only a
// first look that fails ends it.
func watch(ctx context.Context, look func(context.Context) error) error {
	ticker := time.NewTicker(watchEvery)
	defer ticker.Stop()
	for seen := false; ; {
		err := look(ctx)
		switch {
		case ctx.Err() != nil:
			return nil // the person has seen enough
		case err == nil:
			seen = true
		case !seen:
			return err
		} // a server that was there comes back: a restart is not the end
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// quietRun is the number of unchanged actions in a row that ends a look: all older ones are history.
const quietRun = 20

// watchActions prints each action as it is accepted and as its status changes,
// beginning with the newest ten.
func (c *api) watchActions(ctx context.Context) error {
	shown := map[string]schemas.Status{}
	var since time.Time // when the oldest action that is watched was accepted
	return watch(ctx, func(ctx context.Context) error {
		changed, oldest, err := c.changedActions(ctx, shown, since)
		if err != nil {
			return err
		}
		since = oldest
		for _, e := range slices.Backward(changed) { // the list is newest first
			shown[e.ID] = e.Status
			if err := c.printLine(e, "  ", tailCells(e)); err != nil {
				return err
			}
		}
		return nil
	})
}

// changedActions lists the actions since an instant whose status is not the one that was shown. Without an
// instant it lists the newest and begins at the oldest of them.
func (c *api) changedActions(
	ctx context.Context, shown map[string]schemas.Status, since time.Time,
) (changed []schemas.ActionEntry, oldest time.Time, err error) {
	if since.IsZero() {
		newest, err := page[schemas.ActionEntry](ctx, c, routeActions, url.Values{"limit": {"10"}})
		oldest = time.Unix(1, 0)
		if n := len(newest); n > 0 {
			oldest = newest[n-1].Created
		}
		return newest, oldest, err
	}
	quiet := 0
	for e, err := range list[schemas.ActionEntry](ctx, c, routeActions, url.Values{"limit": {"50"}}, everything) {
		if err != nil {
			return nil, since, err
		}
		if e.Created.Before(since) || quiet == quietRun {
			break
		}
		if quiet++; shown[e.ID] != e.Status {
			quiet = 0
			changed = append(changed, e)
		}
	}
	return changed, since, nil
}

// watchDead prints each dead letter as it is parked, from the first one on.
func (c *api) watchDead(ctx context.Context) error {
	last := uint64(0)
	return watch(ctx, func(ctx context.Context) error {
		for d, err := range c.deadLetters(ctx, last) {
			if err == nil {
				err = c.printLine(d, "\t", letterRow(d))
			}
			if err != nil {
				return err
			}
			last = d.Seq
		}
		return nil
	})
}

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
