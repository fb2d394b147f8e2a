package app

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"

	"github.com/spf13/cobra"

	"weir/internal/jsonschema"
	"weir/internal/policy/casefile"
	"weir/schemas"
)

func newPolicy(env *environment) *cobra.Command {
	cmd := &cobra.Command{
		Use: "policy", Short: "try a policy without sending anything, or have a changed one take effect",
		Args: exactly(0, "a command: explain, test or reload"),
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newPolicyExplain(env), newPolicyTest(env), newPolicyReload(env))
	return cmd
}

func newPolicyReload(env *environment) *cobra.Command {
	var f clientFlags
	cmd := &cobra.Command{
		Use:   "reload",
		Short: "have a running Weir read its policy again",
		Long: `Have a running Weir read its configuration again and put its policy in force.
When this returns, no call begins on that node any more that the policy denies. A
policy with a mistake in it changes nothing.`,
		Args: exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := f.client(env)
			if err != nil {
				return err
			}
			var done schemas.Reload
			if err := c.call(cmd.Context(), http.MethodPost, "/v1/policy/reload", nil, &done); err != nil {
				return err
			}
			switch {
			case f.asJSON:
				return json.NewEncoder(env.Out).Encode(done)
			case done.Changed && done.Version == done.Previous:
				fmt.Fprintf(env.Out, "the agents, the models or their budgets have changed: policy %s is in force as before\n", done.Version)
			case done.Changed:
				fmt.Fprintf(env.Out, "policy %s is in force, in place of %s\n", done.Version, done.Previous)
			default:
				fmt.Fprintf(env.Out, "nothing changed: policy %s is in force\n", done.Version)
			}
			return nil
		},
	}
	f.register(cmd, env)
	return cmd
}

func newPolicyTest(env *environment) *cobra.Command {
	return &cobra.Command{
		Use:   "test CASES.jsonl",
		Short: "evaluate a file of cases, each with its own policy, request and resolver",
		Long: `Evaluate each line of a file: its policy, its request and its resolver's first
answer. Nothing is resolved or sent. One JSON document a line goes to standard
output, a summary to standard error. Exit 1 if a verdict is not the expected one.`,
		Example: `  weir policy test cases.jsonl
  cat cases.jsonl | weir policy test -`,
		Args: exactly(1, "a file, or - for standard input"),
		RunE: func(_ *cobra.Command, args []string) error {
			in := env.In
			if args[0] != "-" {
				f, err := os.Open(args[0])
				if err != nil {
					return usageError{err}
				}
				defer f.Close()
				in = io.Reader(f)
			}
			sum, err := casefile.Run(in, env.Out, casefile.Options{CheckSchema: func(raw json.RawMessage) error {
				_, err := jsonschema.Compile(raw)
				return err
			}})
			if err != nil {
				return usageError{err}
			}
			fmt.Fprintf(env.Err, "%d cases: %d as expected, %d not, %d need a network and were passed over\n", sum.Cases, sum.Passed, sum.Missed, sum.Skipped)
			if sum.Missed > 0 {
				return quietError{}
			}
			return nil
		},
	}
}
