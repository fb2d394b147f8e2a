// Package cli holds the subcommands: clients of the HTTP API, through one typed client.
package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"weir/client"
	"weir/internal/nearest"
	"weir/schemas"
	published "weir/schemas/json"
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
}

// Policy is a policy that can be asked: a configuration's, or a running Weir's.
type Policy struct {
	View func() (schemas.PolicyView, error)
	// Explain decides about a call, and says why. Only are the entries that it may use; empty: all.
	Explain func(req schemas.ExplainRequest, only []string) (schemas.Explanation, error)
}

// The exit codes. ExitMeanings explains them.
const (
	ExitOK = iota
	ExitFailed
	ExitUsage
	ExitDenied
	ExitUnknown
)

// ExitMeanings are the meanings of the exit codes, in their order.
func ExitMeanings() []string {
	return []string{
		"success",
		"failure, or the answer to the question of the command is no",
		"a mistake on the command line, in a file or in the configuration",
		"the policy denies the call",
		"the outcome of the call is unknown",
	}
}

// exitError ends the program with a code of its own. An error of nil is one that was printed.
type exitError struct {
	error

	code int
}

func (e exitError) Error() string {
	if e.error == nil {
		return "failed"
	}
	return e.error.Error()
}

// Unwrap returns the error that is printed.
func (e exitError) Unwrap() error { return e.error }

// Usage returns a mistake on the command line or in the configuration: Run ends with ExitUsage.
func Usage(err error) error { return exitError{err, ExitUsage} }

func usagef(format string, args ...any) error { return Usage(fmt.Errorf(format, args...)) }

// Printed ends the program with ExitFailed after the errors were printed.
func Printed() error { return ended(ExitFailed) }

// ended ends the program with a code, after everything was printed.
func ended(code int) error {
	if code == ExitOK {
		return nil
	}
	return exitError{code: code}
}

// exitOf is the exit code for a call or a request that ended with a code.
func exitOf(code schemas.Code) int {
	switch {
	case code.Denied():
		return ExitDenied
	case code == schemas.OutcomeUnknownCode:
		return ExitUnknown
	case code == schemas.InvalidRequest, code == schemas.ValidationError:
		return ExitUsage
	default:
		return ExitFailed
	}
}

// outcomeOfExit is the outcome that an exit code stands for.
func outcomeOfExit(code int) schemas.Outcome {
	switch code {
	case ExitOK:
		return schemas.OutcomeSucceeded
	case ExitDenied:
		return schemas.OutcomeDenied
	case ExitUnknown:
		return schemas.OutcomeUnknown
	default:
		return schemas.OutcomeFailed
	}
}

// exitCode is the exit code for an error of a command.
func exitCode(err error) int {
	if own, ok := errors.AsType[exitError](err); ok {
		return own.code
	}
	if answer, ok := errors.AsType[*client.Error](err); ok {
		return exitOf(answer.Problem.Code)
	}
	if _, malformed := errors.AsType[*client.RequestError](err); malformed {
		return ExitUsage
	}
	return ExitFailed
}

// Run runs the program and returns its exit code. Data goes to Out, everything else to Err, both
// with unsafe characters escaped. more are commands beside those of this package. It returns
// soon after ctx ends.
func Run(ctx context.Context, args []string, env *Env, more func(env *Env) []*cobra.Command) int {
	env.Out, env.Err = env.printer(env.Out), env.printer(env.Err)
	root := Tree(env, more) //nolint:contextcheck // cobra hands the context to the commands
	root.SetArgs(args)
	root.SetIn(env.In)
	root.SetOut(env.Out)
	root.SetErr(env.Err)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return ExitOK
	}
	if own, ok := errors.AsType[exitError](err); !ok || own.error != nil {
		text := err.Error()
		if _, answer := errors.AsType[*client.Error](err); answer {
			text = commandsOf().Replace(text)
		}
		fmt.Fprintf(env.Err, "weir: %s\n", text)
	}
	return exitCode(err)
}

// commandsOf replaces the routes that errors of the server name by the commands for them.
func commandsOf() *strings.Replacer {
	return strings.NewReplacer(
		"POST /v1/repos", "`weir repos create`", "GET /v1/repos", "`weir repos ls`", "POST /v1/tasks", "`weir tasks create`",
		"GET /v1/tasks/{id}", "`weir tasks show ID`", "GET /v1/policy", "`weir policy show`", "GET /models", "`weir models`",
		"GET "+schemas.RouteOperations, "`weir operations`",
	)
}

// printer writes to w, in colour if that is a terminal and $NO_COLOR is not set.
func (e *Env) printer(w io.Writer) printer {
	return printer{to: w, colour: Terminal(w) && e.Lookup("NO_COLOR", "") == "" && e.Lookup("TERM", "") != "dumb"}
}

// Tree returns the root of all commands; more are those beside the commands of this package.
func Tree(env *Env, more func(env *Env) []*cobra.Command) *cobra.Command {
	root := newRoot(env)
	root.AddCommand(more(env)...)
	arrange(root, env)
	return root
}

func newRoot(env *Env) *cobra.Command {
	version, showVersion := newVersion(env), false
	var exits strings.Builder
	for code, meaning := range ExitMeanings() {
		fmt.Fprintf(&exits, "\n  %d  %s", code, meaning)
	}
	root := &cobra.Command{
		Use:   "weir",
		Short: "Run and use a durable, policy-guarded gateway between AI agents and the APIs they call",
		Long: `Weir makes HTTP calls on behalf of AI agents. It stores each call first and checks it
against a policy. It repeats a call only if the repeat is safe. Callers can follow a call,
and Weir keeps a record of every attempt and every denial.

The commands call the Weir at $WEIR_URL (default http://127.0.0.1:8092) with the token in
$WEIR_TOKEN.

Exit codes:` + exits.String(),
		Example: `  weir demo                          # a tour, with everything on this machine
  weir init                          # write a first weir.yaml
  weir serve                         # run the gateway on 127.0.0.1:8092
  weir exec GET http://localhost:8080/status
  weir tail evidence`,
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if showVersion {
				return version.RunE(cmd, nil)
			}
			return cmd.Help()
		},
	}
	root.Flags().BoolVar(&showVersion, "version", false, "print the version")
	root.AddCommand(
		newHealth(env), newExec(env), newChat(env), listing(env, newModels), newTail(env), newActions(env), gone("top", "`weir tail actions`, the console's overview or GET /v1/stats"), newDead(env), newCheck(env),
		newRules(env), newTasks(env), newRepos(env), newRunner(env), newRunnerRelay(env), newPolicy(env), newPause(env), newResume(env), newPin(env),
		listing(env, newOperations), listing(env, newBudgets), newBackup(env), newTokens(env), newSchema(env), version,
	)
	return root
}

// Group completes a command that only has subcommands: it prints its help.
func Group(cmd *cobra.Command, subcommands ...*cobra.Command) *cobra.Command {
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	cmd.AddCommand(subcommands...)
	return cmd
}

// Exactly is cobra.ExactArgs with an error that says what was expected.
func Exactly(n int, what string) cobra.PositionalArgs {
	return between(n, n, "%s takes "+what+"; see `%s --help`")
}

// AtMost is cobra.MaximumNArgs with an error that says what was expected.
func AtMost(n int, what string) cobra.PositionalArgs {
	return between(0, n, "%s takes "+what+" at most; see `%s --help`")
}

// between is cobra.RangeArgs with an error that says what was expected. %s in it is the command.
func between(least, most int, expected string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < least || len(args) > most {
			return Usage(errors.New(strings.ReplaceAll(expected, "%s", cmd.CommandPath())))
		}
		return nil
	}
}

// The linker sets these for a release, where the build does not see the repository:
// -ldflags "-X weir/cmd/cli.release=v1.2.3 -X weir/cmd/cli.revision=COMMIT".
var release, revision string //nolint:gochecknoglobals // the linker can only set variables

// Version names the release, checkout or module that the program was built from.
var Version = Built().Version //nolint:gochecknoglobals // constant after start

// Build describes how the program was built.
type Build struct {
	Version  string `json:"version"`
	Revision string `json:"revision"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// Built returns how the program was built. The version is a tag, or a pseudo-version that names
// the commit; +dirty stands for changes that were not committed. It is "unknown" for a build
// without version control.
func Built() Build {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{}
	}
	return built(info, release, revision)
}

func built(info *debug.BuildInfo, release, revision string) Build {
	b := Build{release, revision, runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && b.Revision == "" {
			b.Revision = s.Value
		}
	}
	if b.Version == "" && info.Main.Version != "(devel)" {
		b.Version = info.Main.Version
	}
	b.Version = cmp.Or(b.Version, "unknown")
	return b
}

func newVersion(env *Env) *cobra.Command {
	asJSON := false
	cmd := &cobra.Command{
		Use: "version", Short: "Print the version", Example: "  weir version --json", Args: Exactly(0, "no arguments"),
		RunE: func(*cobra.Command, []string) error {
			b := Built()
			revision := b.Revision
			if short := revision[:min(8, len(revision))]; short != "" && strings.Contains(b.Version, short) {
				revision = "" // a version without a tag names the commit
			}
			return env.Print(asJSON, b, "%s", joined(" ", "weir", b.Version, b.Go, b.Platform, revision))
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func newSchema(env *Env) *cobra.Command {
	return &cobra.Command{
		Use:   "schema [NAME]",
		Short: "Print a JSON Schema or the OpenAPI document",
		Long:  "Print the JSON Schema of this name, or the OpenAPI document; without a name, list the names.",
		Example: `  weir schema
  weir schema openapi > openapi.json`,
		Args: between(0, 1, "schema takes one name; `weir schema` lists the names"),
		RunE: func(_ *cobra.Command, args []string) error {
			names, err := schemaNames()
			if err != nil {
				return err
			}
			if len(args) == 0 {
				for _, n := range names {
					fmt.Fprintln(env.Out, n)
				}
				return nil
			}
			for _, suffix := range []string{".json", ""} {
				if data, err := published.Files.ReadFile(args[0] + suffix); err == nil {
					_, err = env.Out.Write(data)
					return err
				}
			}
			return usagef("there is no schema %q%s", args[0], cmp.Or(nearest.Hint(args[0], names), "; there are: "+strings.Join(names, ", ")))
		},
	}
}

func schemaNames() ([]string, error) {
	entries, err := fs.ReadDir(published.Files, ".")
	if err != nil {
		return nil, err
	}
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		names = append(names, strings.TrimSuffix(strings.TrimSuffix(e.Name(), ".json"), ".schema"))
	}
	return names, nil
}
