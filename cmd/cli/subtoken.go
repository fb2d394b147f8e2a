package cli

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"weir/schemas"
)

func newSubtoken(env *Env) *cobra.Command {
	var f clientFlags
	var req schemas.SubtokenRequest
	var budget schemas.TaskBudget
	file := ""
	cmd := &cobra.Command{
		Use: "subtoken", Short: "Make a token for a child of a task's holder", Args: Exactly(0, "no arguments"),
		Long: `Make a token for a child process or an agent of your own, with the token of a task or with another
subtoken. The new token never permits more than the one that makes it, reports and asks nothing,
and ends with the token of the task's holder. It goes to standard output or to --task-token-file.`,
		Example: `  WEIR_TOKEN=$(weir tasks subtoken --entry pypi --ttl 30m) ./child
  weir tasks subtoken --model openai/gpt-5-mini --entry model:openai --budget-usd 0.5`,
	}
	flags := cmd.Flags()
	flags.StringArrayVar(&req.Entries, "entry", nil, "an entry of the policy that it may use; may be repeated (default all that the token may)")
	flags.StringArrayVar(&req.Models, "model", nil, "a model that it may use, or a pattern; may be repeated (default all that the token may)")
	flags.StringVar(&req.TTL, "ttl", "", "how long it lasts, such as 30m (default as long as the token)")
	flags.StringVar(&req.Repo, "repo", "", "read or write: its rights on the repository (default none)")
	flags.Int64Var(&budget.Requests, "budget-requests", 0, "requests to models")
	flags.Int64Var(&budget.Tokens, "budget-tokens", 0, "tokens of models")
	flags.Float64Var(&budget.USD, "budget-usd", 0, "dollars for models")
	flags.StringVar(&file, "task-token-file", "", "a file to write the token to, instead of printing it")
	return f.command(env, cmd, func(ctx context.Context, c *api, _ []string) error {
		if budget != (schemas.TaskBudget{}) {
			req.Budget = &budget
		}
		made, err := c.Subtoken(ctx, req)
		if err != nil {
			return err
		}
		token := made.Token
		if file != "" {
			if err := secretFile(file, token, os.O_TRUNC); err != nil {
				return fmt.Errorf("the subtoken is made, and could not be kept: %w; make another", err)
			}
			token, made.Token = "", ""
		}
		if c.asJSON {
			return PrintDocument(c.Out, made)
		}
		fmt.Fprintf(c.Err, "subtoken %d, until %s\n", made.N, made.ExpiresAt.Local().Format("2006-01-02 15:04:05"))
		if token != "" {
			_, err = fmt.Fprintln(c.Out, token)
		}
		return err
	})
}
