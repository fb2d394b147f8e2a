package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/time/rate"

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

// filters are the names of the filters that are set, and their parameters.
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
			return usagef("--limit %d: it takes a number of at least 1", limit)
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
		return []any{listTime(e.Created, now), e.ID, cut(entryCall(e), longestCall), orDash(positive(e.HTTPStatus)), e.Status, orDash(e.Code), orDash(took(e.DurationMS)), orDash(e.Caller)}
	})
	if err != nil {
		return err
	}
	if c.asJSON && c.items == 0 {
		fmt.Fprintln(c.Err, empty)
	}
	if c.last.Next == "" {
		c.behindNote()
	} else {
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
		code := ExitOK
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
				code = ExitFailed
				fmt.Fprintf(c.Err, "weir: %s: %v\n", id, err)
			}
		}
		return ended(code)
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
			return usagef("say what you found at the target: give one of --applied and --not-applied")
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

type redriveFlags struct {
	all, yes bool
	rate     string
	query    url.Values // of the filters
}

func newActionRedrive(env *Env) *cobra.Command {
	var f redriveFlags
	cmd := &cobra.Command{
		Use:   "redrive ID… | --all | --status STATUS",
		Short: "Redrive failed actions and dead letters as new actions",
		Long: `Redrive actions that ended without success: those with these ids, those that --status and
the other filters of weir actions ls select, or with --all every dead letter. Each becomes
a new action that names the old one. Remove the cause first. An action is redriven at most
once. Weir refuses an action of which a call took effect, or may have, and must not be
repeated. If the outcome is unknown, record the result with weir actions resolve first.

With --status, list the selected actions; add --yes to redrive them.`,
		Example: `  weir actions redrive 01890a5d-…
  weir actions redrive --status failed --host api.example.com --since 2h
  weir actions redrive --status failed --host api.example.com --since 2h --yes
  weir actions redrive --all --code POISON --rate 10/s`,
	}
	cmd.Flags().BoolVar(&f.all, "all", false, "every dead letter, or every one with --kind and --code")
	cmd.Flags().BoolVar(&f.yes, "yes", false, "with --status: redrive the actions instead of listing them")
	cmd.Flags().StringVar(&f.rate, "rate", "10/s", "the most actions in a time, such as 10/s or 100/m")
	registerFilters(cmd.Flags(), "tenant") // a redrive belongs to the token's own
	return remote(env, cmd, func(ctx context.Context, c *api, ids []string) error {
		pace, err := f.check(cmd.Flags(), ids)
		if err != nil {
			return err
		}
		if f.all {
			return c.redriveLetters(ctx, &f, pace)
		}
		if len(ids) == 0 {
			if ids, err = c.selected(ctx, &f); err != nil || !f.yes {
				return err
			}
		}
		return c.redriveAll(ctx, ids, pace, func(id string) (schemas.Receipt, error) { return c.Redrive(ctx, id) })
	})
}

func (f *redriveFlags) check(flags *pflag.FlagSet, args []string) (*rate.Limiter, error) {
	var filtered []string
	filtered, f.query = filters(flags)
	count, per, ok := schemas.ParseRate(f.rate)
	switch {
	case !ok:
		return nil, usagef("--rate %q is no rate; write 10/s, 100/m or 1000/h", f.rate)
	case f.all && len(args) > 0:
		return nil, usagef("actions redrive takes ids or --all, not both")
	case len(args) > 0 && len(filtered) > 0:
		return nil, usagef("actions redrive takes ids or --%s, not both", filtered[0])
	case f.all && slices.ContainsFunc(filtered, func(name string) bool { return name != "kind" && name != "code" }):
		return nil, usagef("with --all, only --kind and --code choose among the dead letters")
	case !f.all && len(args) == 0 && f.query.Get("status") == "":
		return nil, usagef("actions redrive takes ids, --status, or --all; `weir dead ls` lists the dead letters")
	}
	return rate.NewLimiter(rate.Every(per/time.Duration(count)), 1), nil
}

// selected are the ids of the actions that the filters select, oldest first. Without --yes they are
// listed.
func (c *api) selected(ctx context.Context, f *redriveFlags) (ids []string, err error) {
	if !f.yes {
		if err := c.listActions(ctx, f.query, biggestPage); err != nil {
			return nil, err
		}
		fmt.Fprintln(c.Err, "weir: nothing was redriven; add --yes to redrive these actions")
		return nil, nil
	}
	for e, err := range list[schemas.ActionEntry](ctx, c, routeActions, f.query, everything) {
		if err != nil {
			return nil, err
		}
		ids = append(ids, e.ID)
	}
	slices.Reverse(ids)
	return ids, nil
}

// redriveLetters redrives dead letters, of an action the newest.
func (c *api) redriveLetters(ctx context.Context, f *redriveFlags, pace *rate.Limiter) error {
	kinds, code := f.query.Get("kind"), f.query.Get("code")
	newest := map[string]uint64{} // the sequence, by action
	var order []string
	for d, err := range c.deadLetters(ctx, 0) {
		if err != nil {
			return err
		}
		if kinds != "" && !slices.Contains(strings.Split(kinds, ","), string(d.Kind)) || code != "" && code != string(d.Code) {
			continue
		}
		if _, known := newest[d.ActionID]; !known {
			order = append(order, d.ActionID)
		}
		newest[d.ActionID] = d.Seq
	}
	if len(order) == 0 {
		fmt.Fprintln(c.Err, "weir: there are no such dead letters")
		return nil
	}
	return c.redriveAll(ctx, order, pace, func(id string) (schemas.Receipt, error) {
		return post[schemas.Receipt](ctx, c, routeDead+"/redrive", map[string]uint64{"sequence": newest[id]})
	})
}

// redriveAll redrives actions at a pace and prints the old and the new of each. It goes on after a refusal.
func (c *api) redriveAll(ctx context.Context, ids []string, pace *rate.Limiter, redrive func(id string) (schemas.Receipt, error)) error {
	failed := 0
	for _, id := range ids {
		if err := pace.Wait(ctx); err != nil {
			return err
		}
		r, err := redrive(id)
		if err == nil && r.Duplicate {
			fmt.Fprintf(c.Err, "weir: %s was redriven before; the new action is: %s\n", id, r.Status)
		}
		if err := c.print(redrivenAs{Redrives: id, Receipt: r}, err, "%s\t%s", id, r.ID); err != nil {
			failed++
			fmt.Fprintf(c.Err, "weir: %s: %v\n", id, err)
		}
	}
	if failed == 0 {
		return nil
	}
	if len(ids) > 1 {
		fmt.Fprintf(c.Err, "weir: not redriven: %d of %d\n", failed, len(ids))
	}
	return Printed()
}

// redrivenAs is a line of JSON: an old action, and the receipt of the new one.
type redrivenAs struct {
	Redrives string `json:"redrives"`
	schemas.Receipt
}

func newDead(env *Env) *cobra.Command {
	return Group(&cobra.Command{
		Use:   "dead",
		Short: "List dead letters",
		Long: `List dead letters: messages that Weir set aside because no retry can help.
Remove the cause, then redrive them with weir actions redrive.`,
		Example: `  weir dead ls
  weir actions redrive 01890a5d-…`,
	}, newDeadList(env), gone("show", "`weir dead ls --json`, which has all of each"), gone("redrive", "`weir actions redrive ID…`; `weir dead ls` lists the ids"))
}

func newDeadList(env *Env) *cobra.Command {
	return (&clientFlags{words: true}).command(env, &cobra.Command{
		Use: "ls", Short: "List dead letters, oldest first",
		Example: `  weir dead ls
  weir dead ls --json | jq .action_id`,
		Args: Exactly(0, "no arguments"),
	}, func(ctx context.Context, c *api, _ []string) error {
		return printList(c, c.deadLetters(ctx, 0), "there are no dead letters", "SEQ\tTIME\tCALL\tACTION\tCODE\tREASON", letterRow)
	})
}

func letterRow(d schemas.DeadLetterView) []any {
	return []any{d.Seq, when(d.Time), letterCall(d), d.ActionID, d.Code, d.Reason}
}

func letterCall(d schemas.DeadLetterView) string {
	return cut(callText(d.Kind, d.Called, d.Agent), longestCall)
}

// deadLetters reads those after a sequence.
func (c *api) deadLetters(ctx context.Context, after uint64) iter.Seq2[schemas.DeadLetterView, error] {
	query := url.Values{}
	if after > 0 {
		query.Set("cursor", strconv.FormatUint(after, 10))
	}
	return list[schemas.DeadLetterView](ctx, c, routeDead, query, everything)
}
