// Package app wires the rooms together and holds the subcommands.
package app

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
)

// Streams are the program's standard streams.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
}

// The exit codes.
const (
	exitOK     = 0
	exitFailed = 1 // what was asked for did not succeed
	exitUsage  = 2 // the command line or the configuration is wrong
)

// usageError is a mistake on the command line or in the configuration.
type usageError struct{ error }

func (u usageError) Unwrap() error { return u.error }

// quietError ends the program with failure after everything was said.
type quietError struct{}

func (quietError) Error() string { return "failed" }

// Main runs the program and returns its exit code: 0, 1 for failure, 2 for a
// mistake in usage. Data goes to Out, everything else to Err, both with unsafe characters escaped.
// It returns soon after ctx ends.
func Main(ctx context.Context, args, environ []string, s Streams) int {
	s.Out, s.Err = printer{s.Out}, printer{s.Err}
	root := newRoot(&environment{environ: environ, Streams: s}) //nolint:contextcheck // cobra hands the context to the commands
	root.SetArgs(args)
	root.SetIn(s.In)
	root.SetOut(s.Out)
	root.SetErr(s.Err)
	err := root.ExecuteContext(ctx)
	var usage usageError
	var quiet quietError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &quiet):
		return exitFailed
	case errors.As(err, &usage):
		fmt.Fprintf(s.Err, "weir: %v\n", err)
		return exitUsage
	default:
		fmt.Fprintf(s.Err, "weir: %v\n", err)
		return exitFailed
	}
}

// environment is what the commands have of the outside.
type environment struct {
	Streams
	environ []string
}

func newRoot(env *environment) *cobra.Command {
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
		newServe(env), newRole(env, RoleIngress), newRole(env, RoleWorker), newRole(env, RoleEgress), newDemo(env), newHealth(env),
		newExec(env), newChat(env), newModels(env), newTail(env), newActions(env), newTop(env), newDead(env), newCheck(env),
		newRules(env), newTasks(env), newRepos(env), newRunner(env), newPolicy(env), newPause(env), newResume(env), newPin(env), newOperations(env), newBudgets(env), newToken(env), newNATS(env), newSchema(env), newVersion(env),
	)
	return root
}

// exactly is cobra.ExactArgs with an error that says what was expected.
func exactly(n int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != n {
			return usageError{fmt.Errorf("%s takes %s; see `%s --help`", cmd.CommandPath(), what, cmd.CommandPath())}
		}
		return nil
	}
}
