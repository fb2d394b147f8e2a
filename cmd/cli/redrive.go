package cli

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/time/rate"

	"weir/schemas"
)

type redriveFlags struct {
	all, yes   bool
	rate       string
	kind, code string // empty: any

	query url.Values
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
	f.kind, f.code = f.query.Get("kind"), f.query.Get("code")
	count, per, ok := schemas.ParseRate(f.rate)
	switch {
	case !ok:
		return nil, usageError{fmt.Errorf("--rate %q is no rate; write 10/s, 100/m or 1000/h", f.rate)}
	case f.all && len(args) > 0:
		return nil, usageError{errors.New("actions redrive takes ids or --all, not both")}
	case len(args) > 0 && len(filtered) > 0:
		return nil, usageError{fmt.Errorf("actions redrive takes ids or --%s, not both", filtered[0])}
	case f.all && slices.ContainsFunc(filtered, func(name string) bool { return name != "kind" && name != "code" }):
		return nil, usageError{errors.New("with --all, only --kind and --code choose among the dead letters")}
	case !f.all && len(args) == 0 && f.query.Get("status") == "":
		return nil, usageError{errors.New("actions redrive takes ids, --status, or --all; `weir dead ls` lists the dead letters")}
	case f.all && f.kind != "" && !slices.Contains(schemas.Kinds(), schemas.Kind(f.kind)):
		return nil, usageError{fmt.Errorf("--kind: there is no kind %q; choose from %v", f.kind, schemas.Kinds())}
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
	newest := map[string]uint64{} // the sequence, by action
	var order []string
	for d, err := range c.deadLetters(ctx, 0) {
		if err != nil {
			return err
		}
		if f.kind != "" && f.kind != string(d.Kind) || f.code != "" && f.code != string(d.Code) {
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
