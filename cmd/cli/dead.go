package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/url"
	"strconv"

	"github.com/spf13/cobra"

	"weir/schemas"
)

func newDead(env *Env) *cobra.Command {
	return Group(&cobra.Command{
		Use:   "dead",
		Short: "List and show dead letters",
		Long: `List and show dead letters: messages that Weir set aside because no retry can help.
Remove the cause, then redrive them with weir actions redrive.`,
		Example: `  weir dead ls
  weir dead show 17
  weir actions redrive 01890a5d-…`,
	}, newDeadList(env), newDeadShow(env), newDeadRedrive())
}

func newDeadList(env *Env) *cobra.Command {
	return clientFlags{words: true}.command(env, &cobra.Command{
		Use: "ls", Short: "List dead letters, oldest first",
		Example: `  weir dead ls
  weir dead ls --json | jq .action_id`,
		Args: Exactly(0, "no arguments"),
	}, func(ctx context.Context, c *api, _ []string) error {
		return printList(c, c.deadLetters(ctx, 0), "there are no dead letters", "SEQ\tTIME\tKIND\tACTION\tCODE\tREASON", letterRow)
	})
}

func letterRow(d schemas.DeadLetterView) []any {
	return []any{d.Seq, when(d.Time), d.Kind, d.ActionID, d.Code, d.Reason}
}

// deadLetters reads those after a sequence.
func (c *api) deadLetters(ctx context.Context, after uint64) iter.Seq2[schemas.DeadLetterView, error] {
	query := url.Values{}
	if after > 0 {
		query.Set("cursor", strconv.FormatUint(after, 10))
	}
	return list[schemas.DeadLetterView](ctx, c, routeDead, query, everything)
}

func newDeadShow(env *Env) *cobra.Command {
	return clientFlags{words: true}.command(env, &cobra.Command{
		Use: "show SEQ", Short: "Show one dead letter", Example: "  weir dead show 17", Args: Exactly(1, "a sequence number"),
	}, func(ctx context.Context, c *api, args []string) error {
		seq, err := strconv.ParseUint(args[0], 10, 64)
		if err != nil || seq == 0 {
			return usageError{fmt.Errorf("%q is not a sequence number; `weir dead ls` shows them", args[0])}
		}
		letters, err := page[schemas.DeadLetterView](ctx, c, routeDead, url.Values{"limit": {"1"}, "cursor": {strconv.FormatUint(seq-1, 10)}})
		if err != nil {
			return err
		}
		if len(letters) == 0 || letters[0].Seq != seq {
			return fmt.Errorf("there is no dead letter %d; `weir dead ls` lists them", seq)
		}
		enc := json.NewEncoder(c.Out)
		if !c.asJSON {
			enc.SetIndent("", "  ")
		}
		return enc.Encode(letters[0])
	})
}

// newDeadRedrive refuses a command that has a new name.
func newDeadRedrive() *cobra.Command {
	return &cobra.Command{
		Use: "redrive", Hidden: true, DisableFlagParsing: true,
		RunE: func(*cobra.Command, []string) error {
			return usageError{errors.New("use `weir actions redrive ID…`; `weir dead ls` lists the ids")}
		},
	}
}
