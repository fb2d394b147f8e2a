package app

import (
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"weir/internal/jsonschema"
	"weir/internal/policy/casefile"
)

func newPolicy(env *environment) *cobra.Command {
	cmd := &cobra.Command{
		Use: "policy", Short: "try a policy without sending anything", Args: exactly(0, "the command test"),
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newPolicyTest(env))
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
