package cli

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/time/rate"

	"weir/schemas"
)

func newActions(env *Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "actions",
		Short: "see what was done, and act on it",
		Example: `  weir actions ls --status failed,outcome_unknown --since 24h
  weir actions ls --entry github --count
  weir actions show 01890a5d-…
  weir actions cancel 01890a5d-…
  weir actions redrive --all --code POISON --rate 10/s`,
		Args: Exactly(0, "one of ls, show, cancel, redrive"),
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newActionList(env), newActionShow(env), newActionCancel(env), newActionRedrive(env))
	return cmd
}

// actionFilters are the flags that say which actions are meant.
type actionFilters struct{ values map[string]*string }

// filterFlags are the parameters of GET /v1/actions by their flags' names.
func filterFlags() [][2]string {
	return [][2]string{
		{"status", "only those: accepted, started, waiting, open for all three, or an outcome; several with commas"},
		{"kind", "only those: http, plan, run, rule, task, push, repo, chat; several with commas"},
		{"entry", "only those whose last call this entry of the policy decided"},
		{"agent", "only runs for this task type"},
		{"task", "only this task, and what was made for it"},
		{"code", "only those with this code, such as DENY_HOST"},
		{"q", "only those whose id has this text in it"},
		{"since", "accepted from then on: 15m, 24h, 7d, or an instant such as 2026-11-22T20:00:00Z"},
		{"until", "accepted before then"},
		{"tenant", "another tenant's, or * for all; for an admin of the operator's"},
	}
}

func (f *actionFilters) register(cmd *cobra.Command) {
	f.values = map[string]*string{}
	for _, p := range filterFlags() {
		f.values[p[0]] = cmd.Flags().String(p[0], "", p[1])
	}
}

// query are the flags that were given.
func (f *actionFilters) query(cmd *cobra.Command) url.Values {
	q := url.Values{}
	for name, v := range f.values {
		if cmd.Flags().Changed(name) {
			q.Set(name, *v)
		}
	}
	return q
}

func newActionList(env *Env) *cobra.Command {
	var f clientFlags
	var filters actionFilters
	limit, count, follow := 50, false, false
	cmd := &cobra.Command{
		Use: "ls", Short: "list actions, newest first", Args: Exactly(0, "no arguments"),
		Example: `  weir actions ls --status open                # what has not ended
  weir actions ls --code DENY_HOST --since 7d   # what was refused, and how it was called
  weir actions ls --task task-17 --json | jq .id
  weir actions ls --kind run --since 24h --count`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if limit < 1 {
				return usageError{fmt.Errorf("--limit %d: it takes a number of at least 1", limit)}
			}
			query := filters.query(cmd)
			if follow && (count || len(query) > 0) {
				return usageError{errors.New("--follow goes with no filter and no --count: it shows every action as it comes")}
			}
			return f.asking(env, func(c *api) error {
				switch {
				case follow:
					return c.watchActions(cmd.Context(), env.Out, f.asJSON)
				case count:
					return c.countActions(cmd.Context(), env, query, f.asJSON)
				default:
					return c.listActions(cmd.Context(), env, query, limit, f.asJSON)
				}
			})
		},
	}
	f.register(cmd, env)
	filters.register(cmd)
	cmd.Flags().IntVar(&limit, "limit", limit, "at most so many")
	cmd.Flags().BoolVar(&count, "count", false, "print how many there are, by outcome, and not which")
	cmd.Flags().BoolVar(&follow, "follow", false, "go on, with each action as it is accepted and as it ends")
	return cmd
}

// actionPage reads one page of a list of actions.
func (c *api) actionPage(ctx context.Context, query url.Values) (schemas.ActionPage, error) {
	return c.Actions(ctx, query)
}

// biggestPage is how many items the server gives at once.
const biggestPage = 1000

func (c *api) listActions(ctx context.Context, env *Env, query url.Values, limit int, asJSON bool) error {
	table := newTable(env.Out)
	defer table.Flush()
	for left := limit; left > 0; {
		query.Set("limit", strconv.Itoa(min(left, biggestPage)))
		page, err := c.actionPage(ctx, query)
		if err != nil {
			return err
		}
		if left == limit && !asJSON && len(page.Items) > 0 {
			fmt.Fprintln(table, "CREATED\tID\tKIND\tSTATUS\tCODE\tENTRY\tTOOK")
		}
		for _, e := range page.Items {
			if asJSON {
				err = printDocuments(env.Out, e)
			} else {
				_, err = fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n",
					e.Created.Local().Format(time.DateTime), e.ID, e.Kind, e.Status, orDash(string(e.Code)), orDash(e.Entry), took(e.DurationMS))
			}
			if err != nil {
				return err
			}
		}
		left -= len(page.Items)
		switch {
		case page.Next != "":
			query.Set("cursor", page.Next)
		case left == limit:
			fmt.Fprintln(env.Err, "weir: there are no such actions")
			return behindNote(env, page.Freshness)
		default:
			return behindNote(env, page.Freshness)
		}
	}
	return nil
}

// behindNote says that what was printed may lack the newest.
func behindNote(env *Env, f schemas.Freshness) error {
	if f.Behind > 0 {
		fmt.Fprintf(env.Err, "weir: the index is %d records behind the log, so the newest may be missing; ask again\n", f.Behind)
	}
	return nil
}

func (c *api) countActions(ctx context.Context, env *Env, query url.Values, asJSON bool) error {
	query.Set("limit", "1")
	query.Set("count", "true")
	page, err := c.caughtUp(ctx, env, query)
	if err != nil {
		return err
	}
	count := page.Count
	if count == nil {
		return errors.New("the server does not count actions: it is older than this program")
	}
	if asJSON {
		return printDocuments(env.Out, count)
	}
	table := newTable(env.Out)
	for _, name := range countNames() {
		if n := count.By[name]; n > 0 {
			fmt.Fprintf(table, "%s\t%d\n", name, n)
		}
	}
	fmt.Fprintf(table, "total\t%d\n", count.Total)
	if err := table.Flush(); err != nil {
		return err
	}
	return behindNote(env, page.Freshness)
}

// countNames are the rows of a count, in order.
func countNames() []string {
	names := []string{"open"}
	for _, o := range schemas.Outcomes() {
		names = append(names, string(o))
	}
	return names
}

// caughtUp reads a page and, where a person looks on, waits for an index that is being
// built, with a bar.
func (c *api) caughtUp(ctx context.Context, env *Env, query url.Values) (schemas.ActionPage, error) {
	page, err := c.actionPage(ctx, query)
	if err != nil || page.Behind < longWay || !Terminal(env.Err) {
		return page, err
	}
	most := page.Behind
	b := newBar(env.Err, "reading the log", int(most)) //nolint:gosec // no log is that long
	defer b.end()
	for page.Behind > 0 && ctx.Err() == nil {
		done := b.done
		if page.Behind < most {
			done = int(most - page.Behind) //nolint:gosec // below most
		}
		b.add(done - b.done)
		if page, err = c.actionPage(ctx, query); err != nil {
			return page, err
		}
	}
	b.add(b.total - b.done)
	return page, nil
}

// longWay is how far behind an index is that is told of by a bar.
const longWay = 10_000

// took is a time in milliseconds for a person.
func took(ms *float64) string {
	if ms == nil {
		return "-"
	}
	d := time.Duration(*ms * float64(time.Millisecond))
	switch {
	case d < time.Millisecond:
		return d.Round(10 * time.Microsecond).String()
	case d < time.Second:
		return d.Round(100 * time.Microsecond).String()
	default:
		return d.Round(10 * time.Millisecond).String()
	}
}

func newActionCancel(env *Env) *cobra.Command {
	var f clientFlags
	cmd := &cobra.Command{
		Use: "cancel ID…", Short: "ask actions to stop",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usageError{errors.New("actions cancel takes ids; `weir actions ls --status open` shows them")}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.asking(env, func(c *api) error {
				failed := false
				for _, id := range args {
					s, err := c.Cancel(cmd.Context(), id)
					switch {
					case err != nil && len(args) == 1:
						return err
					case err != nil:
						failed = true
						fmt.Fprintf(env.Err, "weir: %s: %v\n", id, err)
					case f.asJSON:
						err = printDocuments(env.Out, s)
					default:
						_, err = fmt.Fprintf(env.Out, "%s\t%s\n", s.ID, canceled(s))
					}
					if err != nil && !failed {
						return err
					}
				}
				if failed {
					return quietError{}
				}
				return nil
			})
		},
	}
	f.register(cmd, env)
	return cmd
}

func canceled(s schemas.ActionStatus) string {
	if s.CancelRequested {
		return string(s.Status) + ", and asked to stop"
	}
	return string(s.Status)
}

// redriveFlags say which dead letters are done again, and how fast.
type redriveFlags struct {
	clientFlags

	all        bool
	rate       string
	kind, code string
}

func newActionRedrive(env *Env) *cobra.Command {
	var f redriveFlags
	cmd := &cobra.Command{
		Use:   "redrive ID… | --all",
		Short: "do parked actions again, each as a new action that names the old one",
		Long: `Does again what was parked among the dead letters: the actions that are named, or
with --all every one, or every one of a kind or a code. Whatever parked them should be mended
first. An action that was done again is not done a second time.`,
		Example: `  weir actions redrive 01890a5d-…
  weir actions redrive --all --code POISON --rate 10/s`,
		RunE: func(cmd *cobra.Command, args []string) error {
			pace, err := f.check(args)
			if err != nil {
				return err
			}
			return f.asking(env, func(c *api) error { return c.redriveAll(cmd.Context(), env, &f, args, pace) })
		},
	}
	f.register(cmd, env)
	cmd.Flags().BoolVar(&f.all, "all", false, "every dead letter, or those of --kind and --code")
	cmd.Flags().StringVar(&f.rate, "rate", "10/s", "how many at most, such as 10/s or 100/m")
	cmd.Flags().StringVar(&f.kind, "kind", "", "with --all: only those of this kind")
	cmd.Flags().StringVar(&f.code, "code", "", "with --all: only those that were parked for this")
	return cmd
}

func (f *redriveFlags) check(args []string) (*rate.Limiter, error) {
	count, per, ok := schemas.ParseRate(f.rate)
	switch {
	case !ok:
		return nil, usageError{fmt.Errorf("--rate %q is no rate; write 10/s, 100/m or 1000/h", f.rate)}
	case f.all && len(args) > 0:
		return nil, usageError{errors.New("actions redrive takes ids or --all, not both")}
	case !f.all && len(args) == 0:
		return nil, usageError{errors.New("actions redrive takes ids, or --all; `weir dead ls` shows what was parked")}
	case !f.all && (f.kind != "" || f.code != ""):
		return nil, usageError{errors.New("--kind and --code choose among --all")}
	case f.kind != "" && !slices.Contains(schemas.Kinds(), schemas.Kind(f.kind)):
		return nil, usageError{fmt.Errorf("--kind: there is no kind %q; choose from %v", f.kind, schemas.Kinds())}
	}
	return rate.NewLimiter(rate.Every(per/time.Duration(count)), 1), nil
}

// wants reports whether a dead letter is one of those that were asked for.
func (f *redriveFlags) wants(d schemas.DeadLetterView, ids []string) bool {
	if !f.all {
		return slices.Contains(ids, d.ActionID)
	}
	return (f.kind == "" || string(d.Kind) == f.kind) && (f.code == "" || string(d.Code) == f.code)
}

func (c *api) redriveAll(ctx context.Context, env *Env, f *redriveFlags, ids []string, pace *rate.Limiter) error {
	letters := map[string]schemas.DeadLetterView{} // one an action: the newest
	var order []string
	err := c.deadLetters(ctx, 0, func(d schemas.DeadLetterView) error {
		if f.wants(d, ids) {
			if _, known := letters[d.ActionID]; !known {
				order = append(order, d.ActionID)
			}
			letters[d.ActionID] = d
		}
		return nil
	})
	if err != nil {
		return err
	}
	failed := 0
	for _, id := range ids {
		if _, found := letters[id]; !found {
			failed++
			fmt.Fprintf(env.Err, "weir: %s is not among the dead letters; `weir dead ls` lists them\n", id)
		}
	}
	if f.all && len(order) == 0 {
		fmt.Fprintln(env.Err, "weir: there are no such dead letters")
		return nil
	}
	b := newBar(env.Err, "redrive", len(order))
	for _, id := range order {
		if err := pace.Wait(ctx); err != nil {
			b.end()
			return err
		}
		if err := c.redriveOne(ctx, env, letters[id], f.asJSON); err != nil {
			failed++
			fmt.Fprintf(env.Err, "weir: %s: %v\n", id, err)
		}
		b.add(1)
	}
	b.end()
	if failed > 0 {
		fmt.Fprintf(env.Err, "weir: %d of %d were not done again\n", failed, max(len(order), len(ids)))
		return quietError{}
	}
	return nil
}

// redrivenAs is a line of JSON: which action came of which.
type redrivenAs struct {
	Redrives string `json:"redrives"`
	schemas.Receipt
}

func (c *api) redriveOne(ctx context.Context, env *Env, d schemas.DeadLetterView, asJSON bool) error {
	r, err := c.Redrive(ctx, d.Seq)
	if err != nil {
		return err
	}
	return printOne(env, asJSON, redrivenAs{Redrives: d.ActionID, Receipt: r}, "%s\t%s", d.ActionID, r.ID)
}
