package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"weir/schemas"
)

func newActionResolve(env *Env) *cobra.Command {
	var f struct {
		clientFlags

		applied, notApplied bool
		note                string
	}
	cmd := &cobra.Command{
		Use:   "resolve ID --applied | --not-applied",
		Short: "Record whether a call with an unknown outcome took effect",
		Long: `Record whether a call took effect whose action ended as outcome_unknown. Look at the target
first: Weir cannot know. The answer is recorded once; the status of the action stays.`,
		Example: `  weir actions resolve 01890a5d-… --applied --note 'the order is there, number 4711'
  weir actions resolve 01890a5d-… --not-applied`,
		Args: Exactly(1, "the id of an action"),
	}
	cmd.Flags().BoolVar(&f.applied, "applied", false, "the call took effect")
	cmd.Flags().BoolVar(&f.notApplied, "not-applied", false, "the call had no effect")
	cmd.Flags().StringVar(&f.note, "note", "", "how you know, at most 2000 bytes")
	return f.command(env, cmd, func(ctx context.Context, c *api, args []string) error {
		if f.applied == f.notApplied {
			return usageError{errors.New("say what you found at the target: give one of --applied and --not-applied")}
		}
		req := schemas.ResolveRequest{Effect: schemas.EffectApplied, Note: f.note}
		if f.notApplied {
			req.Effect = schemas.EffectNotApplied
		}
		s, err := c.Resolve(ctx, args[0], req)
		if err != nil {
			return err
		}
		if err := c.print(s, "%s\t%s, resolved as %s", s.ID, s.Status, s.Resolution); err != nil {
			return err
		}
		if s.Resolution == schemas.EffectNotApplied {
			fmt.Fprintf(c.Err, "to make the call again: weir actions redrive %s\n", s.ID)
		}
		return nil
	})
}
