package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/time/rate"

	"weir/schemas"
)

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
