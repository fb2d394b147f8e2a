// Package cli holds the subcommands: clients of the HTTP API, through one typed client.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"weir/client"
	"weir/schemas"
)

// Streams are the program's standard streams.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
}

// Env is what the commands have of the outside.
type Env struct {
	Streams

	// Environ is the environment, as os.Environ has it.
	Environ []string
	// Policy reads the policy that a local configuration describes; an empty path is the default
	// one. Its errors are mistakes in the configuration.
	Policy func(path string) (Policy, error)
	// TestCases evaluates a file of policy cases and writes a JSON document for each; missed reports
	// whether a verdict was not the expected one. Its errors are mistakes in the file.
	TestCases func(in io.Reader, out io.Writer) (summary string, missed bool, err error)
}

// Policy is a policy that is not in force anywhere.
type Policy struct {
	View    func() schemas.PolicyView
	Explain func(req schemas.ExplainRequest) schemas.Explanation
}

// The exit codes.
const (
	ExitOK     = 0
	ExitFailed = 1 // what was asked for did not succeed
	ExitUsage  = 2 // the command line or the configuration is wrong
)

// usageError is a mistake on the command line or in the configuration.
type usageError struct{ error }

func (u usageError) Unwrap() error { return u.error }

// Usage returns a mistake on the command line or in the configuration: Run ends with ExitUsage.
func Usage(err error) error { return usageError{err} }

// quietError ends the program with failure after everything was said.
type quietError struct{}

func (quietError) Error() string { return "failed" }

// Run runs the program and returns its exit code. Data goes to Out, everything else to Err, both
// with unsafe characters escaped. more are commands beside those of this package. It returns
// soon after ctx ends.
func Run(ctx context.Context, args []string, env *Env, more func(env *Env) []*cobra.Command) int {
	env.Out, env.Err = printer{env.Out}, printer{env.Err}
	root := newRoot(env) //nolint:contextcheck // cobra hands the context to the commands
	root.AddCommand(more(env)...)
	root.SetArgs(args)
	root.SetIn(env.In)
	root.SetOut(env.Out)
	root.SetErr(env.Err)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return ExitOK
	}
	if !errors.Is(err, quietError{}) {
		fmt.Fprintf(env.Err, "weir: %v\n", err)
	}
	var usage usageError
	var malformed *client.RequestError
	if errors.As(err, &usage) || errors.As(err, &malformed) {
		return ExitUsage
	}
	return ExitFailed
}

func newRoot(env *Env) *cobra.Command {
	root := &cobra.Command{
		Use:   "weir",
		Short: "the durable, policy-guarded gateway between AI agents and what they call",
		Long: `Weir makes HTTP calls on behalf of AI agents. Each call is stored first and
checked against a policy; if it may leave, it is made without blind repeats.
Callers can follow it, and a record of every attempt and refusal is kept.`,
		Example: `  weir demo                          # a tour, with everything on this machine
  weir serve                         # the gateway on 127.0.0.1:8092
  weir exec GET http://localhost:8080/status
  weir tail evidence`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usageError{fmt.Errorf("there is no command %q; `weir help` lists them", args[0])}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usageError{fmt.Errorf("%w; `%s --help` shows what it takes", err, cmd.CommandPath())}
	})
	root.AddCommand(
		newHealth(env), newExec(env), newChat(env), newModels(env), newTail(env), newActions(env), newTop(env), newDead(env), newCheck(env),
		newRules(env), newTasks(env), newRepos(env), newRunner(env), newPolicy(env), newPause(env), newResume(env), newPin(env),
		newOperations(env), newBudgets(env), newBackup(env), newToken(env), newSchema(env), newVersion(env),
	)
	return root
}

// Group completes a command that has no work of its own: it prints its help. takes names the subcommands.
func Group(cmd *cobra.Command, takes string, subcommands ...*cobra.Command) *cobra.Command {
	cmd.Args = Exactly(0, takes)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	cmd.AddCommand(subcommands...)
	return cmd
}

// Exactly is cobra.ExactArgs with an error that says what was expected.
func Exactly(n int, what string) cobra.PositionalArgs {
	return between(n, n, "%s takes "+what+"; see `%s --help`")
}

// between is cobra.RangeArgs with an error that says what was expected. %s in it is the command.
func between(least, most int, expected string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < least || len(args) > most {
			return usageError{errors.New(strings.ReplaceAll(expected, "%s", cmd.CommandPath()))}
		}
		return nil
	}
}
