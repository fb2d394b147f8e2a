package cli

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"weir/schemas"
)

func newActions(env *Env) *cobra.Command {
	return Group(&cobra.Command{
		Use:   "actions",
		Short: "List, show, cancel and redrive actions",
		Example: `  weir actions ls --status failed,outcome_unknown --since 24h
  weir actions ls --entry github --count
  weir actions show 01890a5d-…
  weir actions cancel 01890a5d-…
  weir actions resolve 01890a5d-… --applied
  weir actions redrive 01890a5d-…`,
	}, newActionList(env), newActionShow(env), newActionCancel(env), newActionResolve(env), newActionRedrive(env))
}

// filterFlags are the parameters of GET /v1/actions. A flag has hyphens for underscores, and --search
// is the parameter q.
func filterFlags() [][2]string {
	return [][2]string{
		{"status", "only these statuses: accepted, started, waiting, open for all three, or an outcome; separate several with commas"},
		{"kind", "only these kinds: http, plan, run, rule, task, push, repo, chat, passthrough; separate several with commas"},
		{"entry", "only actions whose last call this entry of the policy decided"},
		{"search", "only actions with this text in method, host, path, agent, caller or model, or at the start of the id"},
		{"host", "only calls of this host, with the port unless it is the scheme's default"},
		{"method", "only calls with this method; separate several with commas"},
		{"http-status", "only actions whose target last answered with this status or class, such as 404 or 5xx; separate several with commas"},
		{"agent", "only runs for this task type, or tasks that the token of this name leased last"},
		{"caller", "only actions that the token of this name sent"},
		{"task", "only this task and the actions made for it"},
		{"code", "only actions with this code, such as DENY_HOST"},
		{"resolved", "true: only unknown outcomes with a resolution; false: only actions without one"},
		{"since", "only actions accepted since: 15m, 24h, 7d, or a time such as 2026-11-22T20:00:00Z"},
		{"until", "only actions accepted before this time"},
		{"tenant", "another tenant, or * for all; it needs an admin of the tenant default"},
	}
}

func newActionList(env *Env) *cobra.Command {
	var f clientFlags
	limit, count, follow := 50, false, false
	filters := map[string]*string{}
	cmd := &cobra.Command{
		Use: "ls", Short: "List actions, newest first", Args: Exactly(0, "no arguments"),
		Example: `  weir actions ls --status open                # open actions
  weir actions ls --search /orders --http-status 4xx,5xx --since 24h
  weir actions ls --code DENY_HOST --since 7d   # calls to hosts that no entry allows
  weir actions ls --task task-17 --json | jq .id
  weir actions ls --kind run --since 24h --count`,
	}
	for _, p := range filterFlags() {
		filters[p[0]] = cmd.Flags().String(p[0], "", p[1])
	}
	cmd.Flags().IntVar(&limit, "limit", limit, "the most actions to list")
	cmd.Flags().BoolVar(&count, "count", false, "print only the number of actions for each outcome")
	cmd.Flags().BoolVar(&follow, "follow", false, "go on with each action as it is accepted and as it ends")
	return f.command(env, cmd, func(ctx context.Context, c *api, _ []string) error {
		query := url.Values{}
		for name, v := range filters {
			if cmd.Flags().Changed(name) {
				query.Set(parameterOf(name), *v)
			}
		}
		switch {
		case limit < 1:
			return usageError{fmt.Errorf("--limit %d: it takes a number of at least 1", limit)}
		case follow && (count || len(query) > 0):
			return usageError{errors.New("--follow goes with no filter and no --count: it shows every action as it comes")}
		case follow:
			return c.watchActions(ctx)
		case count:
			return c.countActions(ctx, query)
		default:
			return c.listActions(ctx, query, limit)
		}
	})
}

// parameterOf is the parameter of GET /v1/actions that a flag sets.
func parameterOf(flag string) string {
	if flag == "search" {
		return "q"
	}
	return strings.ReplaceAll(flag, "-", "_")
}

// biggestPage is how many items the server gives at once.
const biggestPage = 1000

func (c *api) listActions(ctx context.Context, query url.Values, limit int) error {
	var last schemas.ActionPage
	left := limit
	all := pages(func() (items []schemas.ActionEntry, next string, err error) {
		query.Set("limit", strconv.Itoa(min(left, biggestPage)))
		last, err = c.Actions(ctx, query)
		left -= len(last.Items)
		return last.Items, last.Next, err
	}, query, limit)
	const empty, header = "weir: there are no such actions", "TIME\tID\tCALL\tHTTP\tSTATUS\tCODE\tDURATION\tCALLER"
	now := time.Now()
	err := printList(c, all, empty, header, func(e schemas.ActionEntry) []any {
		return []any{listTime(e.Created, now), e.ID, cut(entryCall(e), longestCall), httpStatus(e.HTTPStatus), e.Status, orDash(e.Code), took(e.DurationMS), orDash(e.Caller)}
	})
	if err != nil {
		return err
	}
	if c.asJSON && left == limit {
		fmt.Fprintln(c.Err, empty)
	}
	if last.Next == "" {
		c.behindNote(last.Freshness)
	}
	return nil
}

// behindNote says that what was printed may lack the newest.
func (c *api) behindNote(f schemas.Freshness) {
	if f.Behind > 0 {
		fmt.Fprintf(c.Err, "weir: the index is %d records behind the log, so the newest may be missing; ask again\n", f.Behind)
	}
}

func (c *api) countActions(ctx context.Context, query url.Values) error {
	query.Set("limit", "1")
	query.Set("count", "true")
	page, err := c.caughtUp(ctx, query)
	if err != nil {
		return err
	}
	count := page.Count
	if count == nil {
		return errors.New("the server does not count actions: it is older than this program")
	}
	if c.asJSON {
		return PrintDocument(c.Out, count)
	}
	table := newTable(c.Out)
	for _, name := range append([]schemas.Outcome{"open"}, schemas.Outcomes()...) {
		if n := count.By[string(name)]; n > 0 {
			printRow(table, name, n)
		}
	}
	printRow(table, schemas.Outcome("total"), count.Total)
	c.behindNote(page.Freshness)
	return table.Flush()
}

// caughtUp reads a page and, where a person looks on, waits for an index that is being
// built, with a bar.
func (c *api) caughtUp(ctx context.Context, query url.Values) (schemas.ActionPage, error) {
	page, err := c.Actions(ctx, query)
	if err != nil || page.Behind < longWay || !Terminal(c.Err) {
		return page, err
	}
	most := page.Behind
	b := newBar(c.Err, "reading the log", int(most)) //nolint:gosec // no log is that long
	defer b.end()
	for page.Behind > 0 && ctx.Err() == nil {
		done := b.done
		if page.Behind < most {
			done = int(most - page.Behind) //nolint:gosec // below most
		}
		b.add(done - b.done)
		if page, err = c.Actions(ctx, query); err != nil {
			return page, err
		}
	}
	b.add(b.total - b.done)
	return page, nil
}

// longWay is the number of missing records from which on a bar is shown.
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
	return f.command(env, &cobra.Command{
		Use: "cancel ID…", Short: "Cancel actions",
		Example: `  weir actions cancel 01890a5d-…`,
		Args:    between(1, math.MaxInt, "actions cancel takes ids; `weir actions ls --status open` shows them"),
	}, func(ctx context.Context, c *api, ids []string) error {
		failed := false
		for _, id := range ids {
			s, err := c.Cancel(ctx, id)
			if err != nil && len(ids) > 1 {
				failed = true
				fmt.Fprintf(c.Err, "weir: %s: %v\n", id, err)
				continue
			}
			if err == nil {
				err = c.print(s, "%s\t%s", s.ID, canceled(s))
			}
			if err != nil {
				return err
			}
		}
		if failed {
			return Printed()
		}
		return nil
	})
}

func canceled(s schemas.ActionStatus) string {
	if s.CancelRequested {
		return string(s.Status) + ", and asked to stop"
	}
	return string(s.Status)
}
