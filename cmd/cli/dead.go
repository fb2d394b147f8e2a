package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"strconv"

	"github.com/spf13/cobra"

	"weir/schemas"
)

func newDead(env *Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "dead",
		Short: "what was parked because no retry can help",
		Example: `  weir dead ls
  weir dead show 17
  weir dead redrive 17`,
		Args: Exactly(0, "one of ls, show, redrive"),
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newDeadList(env), newDeadShow(env), newDeadRedrive(env))
	return cmd
}

func newDeadList(env *Env) *cobra.Command {
	var f clientFlags
	cmd := &cobra.Command{
		Use: "ls", Short: "list the dead letters, oldest first", Args: Exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := f.client(env)
			if err != nil {
				return err
			}
			table := newTable(env.Out)
			defer table.Flush()
			if !f.asJSON {
				fmt.Fprintln(table, "SEQ\tTIME\tKIND\tACTION\tCODE\tREASON")
			}
			return c.deadLetters(cmd.Context(), 0, func(d schemas.DeadLetterView) error {
				if f.asJSON {
					return printDocuments(env.Out, d)
				}
				return printLetter(table, d)
			})
		},
	}
	f.register(cmd, env)
	return cmd
}

func printLetter(out io.Writer, d schemas.DeadLetterView) error {
	_, err := fmt.Fprintf(out, "%d\t%s\t%s\t%s\t%s\t%s\n", d.Seq, d.Time.Format("2006-01-02 15:04:05"), d.Kind, d.ActionID, d.Code, d.Reason)
	return err
}

// deadLetters walks all pages after a sequence.
func (c *api) deadLetters(ctx context.Context, after uint64, each func(schemas.DeadLetterView) error) error {
	cursor := ""
	if after > 0 {
		cursor = strconv.FormatUint(after, 10)
	}
	for {
		page, err := c.deadPage(ctx, 0, cursor)
		if err != nil {
			return err
		}
		for _, d := range page.Items {
			if err := each(d); err != nil {
				return err
			}
		}
		if page.Next == "" {
			return nil
		}
		cursor = page.Next
	}
}

// deadPage reads one page; limit 0 is the server's own.
func (c *api) deadPage(ctx context.Context, limit int, cursor string) (schemas.Page[schemas.DeadLetterView], error) {
	query := url.Values{}
	if limit > 0 {
		query.Set("limit", strconv.Itoa(limit))
	}
	if cursor != "" {
		query.Set("cursor", cursor)
	}
	return c.DeadLetters(ctx, query)
}

// deadLetter reads one letter: the first after the sequence before it.
func (c *api) deadLetter(ctx context.Context, seq uint64) (schemas.DeadLetterView, error) {
	page, err := c.deadPage(ctx, 1, strconv.FormatUint(seq-1, 10))
	if err != nil {
		return schemas.DeadLetterView{}, err
	}
	if len(page.Items) == 0 || page.Items[0].Seq != seq {
		return schemas.DeadLetterView{}, fmt.Errorf("there is no dead letter %d; `weir dead ls` lists them", seq)
	}
	return page.Items[0], nil
}

// newDeadOne is a command that does something with one dead letter.
func newDeadOne(env *Env, use, short string, do func(cmd *cobra.Command, c *api, f *clientFlags, seq uint64) error) *cobra.Command {
	var f clientFlags
	cmd := &cobra.Command{
		Use: use, Short: short, Args: Exactly(1, "a sequence number"),
		RunE: func(cmd *cobra.Command, args []string) error {
			seq, err := sequence(args[0])
			if err != nil {
				return err
			}
			c, err := f.client(env)
			if err != nil {
				return err
			}
			return do(cmd, c, &f, seq)
		},
	}
	f.register(cmd, env)
	return cmd
}

func newDeadShow(env *Env) *cobra.Command {
	return newDeadOne(env, "show SEQ", "show one dead letter", func(cmd *cobra.Command, c *api, f *clientFlags, seq uint64) error {
		d, err := c.deadLetter(cmd.Context(), seq)
		if err != nil {
			return err
		}
		enc := json.NewEncoder(env.Out)
		if !f.asJSON {
			enc.SetIndent("", "  ")
		}
		return enc.Encode(d)
	})
}

func newDeadRedrive(env *Env) *cobra.Command {
	const short = "do the parked action again, as a new action that names the old one"
	return newDeadOne(env, "redrive SEQ", short, func(cmd *cobra.Command, c *api, f *clientFlags, seq uint64) error {
		r, err := c.Redrive(cmd.Context(), seq)
		if err != nil {
			return err
		}
		return printOne(env, f.asJSON, r, "%s", r.ID)
	})
}

func sequence(s string) (uint64, error) {
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil || n == 0 {
		return 0, usageError{fmt.Errorf("%q is not a sequence number; `weir dead ls` shows them", s)}
	}
	return n, nil
}
