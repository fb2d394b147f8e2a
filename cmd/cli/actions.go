package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

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

// actionFilters are the parameters of GET /v1/actions. A flag has hyphens for underscores, and --search
// is the parameter q.
func actionFilters() [][2]string {
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

// registerFilters adds the flags of the filters, without one of them.
func registerFilters(flags *pflag.FlagSet, without string) {
	for _, f := range actionFilters() {
		if f[0] != without {
			flags.String(f[0], "", f[1])
		}
	}
}

// filters are the names of the filters that are set, in alphabetical order, and their parameters.
func filters(flags *pflag.FlagSet) (names []string, query url.Values) {
	query = url.Values{}
	for _, f := range actionFilters() {
		if name := f[0]; flags.Changed(name) {
			names = append(names, name)
			query.Set(strings.ReplaceAll(cmp.Or(map[string]string{"search": "q"}[name], name), "-", "_"), flags.Lookup(name).Value.String())
		}
	}
	slices.Sort(names)
	return names, query
}

func newActionList(env *Env) *cobra.Command {
	limit, count := 50, false
	cmd := &cobra.Command{
		Use: "ls", Short: "List actions, newest first", Args: Exactly(0, "no arguments"),
		Example: `  weir actions ls --status open                # open actions
  weir actions ls --search /orders --http-status 4xx,5xx --since 24h
  weir actions ls --code DENY_HOST --since 7d   # calls to hosts that no entry allows
  weir actions ls --task task-17 --json | jq .id
  weir actions ls --kind run --since 24h --count`,
	}
	registerFilters(cmd.Flags(), "")
	cmd.Flags().IntVar(&limit, "limit", limit, "the most actions to list")
	cmd.Flags().BoolVar(&count, "count", false, "print only the number of actions for each outcome")
	return remote(env, cmd, func(ctx context.Context, c *api, _ []string) error {
		_, query := filters(cmd.Flags())
		switch {
		case limit < 1:
			return usageError{fmt.Errorf("--limit %d: it takes a number of at least 1", limit)}
		case count:
			return c.countActions(ctx, query)
		default:
			return c.listActions(ctx, query, limit)
		}
	})
}

func (c *api) listActions(ctx context.Context, query url.Values, limit int) error {
	const empty, header = "weir: there are no such actions", "TIME\tID\tCALL\tHTTP\tSTATUS\tCODE\tDURATION\tCALLER"
	now := time.Now()
	err := printList(c, list[schemas.ActionEntry](ctx, c, routeActions, query, limit), empty, header, func(e schemas.ActionEntry) []any {
		return []any{listTime(e.Created, now), e.ID, cut(entryCall(e), longestCall), httpStatus(e.HTTPStatus), e.Status, orDash(e.Code), took(e.DurationMS), orDash(e.Caller)}
	})
	if err != nil {
		return err
	}
	if c.asJSON && c.items == 0 {
		fmt.Fprintln(c.Err, empty)
	}
	switch {
	case c.last.Next == "":
		c.behindNote()
	case Terminal(c.Err):
		fmt.Fprintf(c.Err, "weir: there may be more; --limit %d ends the list here\n", limit)
	}
	return nil
}

// behindNote says that what was printed may lack the newest.
func (c *api) behindNote() {
	if c.last.Behind > 0 {
		fmt.Fprintf(c.Err, "weir: the index is %d records behind the log, so the newest may be missing; try again\n", c.last.Behind)
	}
}

func (c *api) countActions(ctx context.Context, query url.Values) error {
	query.Set("limit", "1")
	query.Set("count", "true")
	page, err := c.Actions(ctx, query)
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
	c.last.Freshness = page.Freshness
	c.behindNote()
	return table.Flush()
}

func newActionCancel(env *Env) *cobra.Command {
	return remote(env, &cobra.Command{
		Use: "cancel ID…", Short: "Cancel actions",
		Example: `  weir actions cancel 01890a5d-…`,
		Args:    between(1, math.MaxInt, "actions cancel takes ids; `weir actions ls --status open` shows them"),
	}, func(ctx context.Context, c *api, ids []string) error {
		failed := false
		for _, id := range ids {
			s, err := c.Cancel(ctx, id)
			state := string(s.Status)
			if s.CancelRequested {
				state += ", and asked to stop"
			}
			if err := c.print(s, err, "%s\t%s", s.ID, state); err != nil {
				if len(ids) == 1 {
					return err
				}
				failed = true
				fmt.Fprintf(c.Err, "weir: %s: %v\n", id, err)
			}
		}
		if failed {
			return Printed()
		}
		return nil
	})
}

func newActionResolve(env *Env) *cobra.Command {
	var applied, notApplied bool
	var req schemas.ResolveRequest
	cmd := &cobra.Command{
		Use:   "resolve ID --applied | --not-applied",
		Short: "Record whether a call with an unknown outcome took effect",
		Long: `Record whether a call took effect whose action ended as outcome_unknown. Look at the target
first: Weir cannot know. The answer is recorded once; the status of the action stays.`,
		Example: `  weir actions resolve 01890a5d-… --applied --note 'the order is there, number 4711'
  weir actions resolve 01890a5d-… --not-applied`,
		Args: Exactly(1, "the id of an action"),
	}
	cmd.Flags().BoolVar(&applied, "applied", false, "the call took effect")
	cmd.Flags().BoolVar(&notApplied, "not-applied", false, "the call had no effect")
	cmd.Flags().StringVar(&req.Note, "note", "", "how you know, at most 2000 bytes")
	return remote(env, cmd, func(ctx context.Context, c *api, args []string) error {
		if applied == notApplied {
			return usageError{errors.New("say what you found at the target: give one of --applied and --not-applied")}
		}
		req.Effect = schemas.EffectApplied
		if notApplied {
			req.Effect = schemas.EffectNotApplied
		}
		s, err := c.Resolve(ctx, args[0], req)
		if err := c.print(s, err, "%s\t%s, resolved as %s", s.ID, s.Status, s.Resolution); err != nil {
			return err
		}
		if s.Resolution == schemas.EffectNotApplied {
			fmt.Fprintf(c.Err, "to make the call again: weir actions redrive %s\n", s.ID)
		}
		return nil
	})
}
