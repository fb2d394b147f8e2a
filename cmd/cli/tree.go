package cli

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"weir/internal/nearest"
)

// group is a section of `weir --help`.
type group struct{ id, title, commands string }

// helpGroups are the sections in their order, with the commands of this package and of others.
func helpGroups() []group {
	return []group{
		{"start", "Start:", "demo init serve config schema version"},
		{"call", "Call and watch:", "exec chat models actions tail top health"},
		{"policy", "Policy:", "policy rules tokens"},
		{"agents", "Agents:", "tasks repos runner check"},
		{"operate", "Operate:", "dead budgets operations pause resume pin proxy backup restore"},
		{"roles", "Cluster roles:", "ingress worker egress nats"},
	}
}

// renamed maps a flag that has a new name to that name, by the path of its command.
func renamed() map[string]string {
	return map[string]string{"weir chat --key": "idempotency-key", "weir actions ls --q": "search"}
}

// arrange completes the whole tree: groups, aliases, and errors that name what was probably meant.
func arrange(root *cobra.Command, env *Env) {
	for _, g := range helpGroups() {
		root.AddGroup(&cobra.Group{ID: g.id, Title: g.title})
		for _, cmd := range root.Commands() {
			if slices.Contains(strings.Fields(g.commands), cmd.Name()) {
				cmd.GroupID = g.id
			}
		}
	}
	root.SetHelpCommand(newHelp())
	root.SetHelpCommandGroupID("start")
	root.SetCompletionCommandGroupID("start")
	root.SetFlagErrorFunc(flagError)
	eachCommand(root, func(cmd *cobra.Command) {
		alias(cmd)
		if cmd.HasSubCommands() {
			cmd.Args = noSuchCommand
		}
		suggestValues(cmd, env)
	})
}

// eachCommand calls visit with a command and all those below it.
func eachCommand(cmd *cobra.Command, visit func(*cobra.Command)) {
	visit(cmd)
	for _, sub := range cmd.Commands() {
		eachCommand(sub, visit)
	}
}

// alias gives every ls the alias list, and the commands with an ls their singular.
func alias(cmd *cobra.Command) {
	if cmd.Name() != "ls" {
		return
	}
	cmd.Aliases = append(cmd.Aliases, "list")
	above := cmd.Parent()
	if singular, plural := strings.CutSuffix(above.Name(), "s"); plural {
		above.Aliases = append(above.Aliases, singular)
	}
}

// noSuchCommand refuses the arguments of a command that has subcommands.
func noSuchCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var names []string
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() {
			names = append(names, sub.Name())
		}
	}
	path := cmd.CommandPath()
	return usageError{fmt.Errorf("`%s` has no command %q%s", path, args[0], cmp.Or(nearest.Hint(args[0], names), "; `"+path+" --help` lists them"))}
}

// newHelp is the command help, which refuses the name of a command that does not exist.
func newHelp() *cobra.Command {
	return &cobra.Command{
		Use: "help [COMMAND]", Short: "Show the help of a command", Example: "  weir help tasks create",
		RunE: func(cmd *cobra.Command, args []string) error {
			found, rest, err := cmd.Root().Find(args)
			if err == nil {
				err = noSuchCommand(found, rest)
			}
			if err != nil {
				return err
			}
			return found.Help()
		},
	}
}

// flagError is the error for a mistake in a flag.
func flagError(cmd *cobra.Command, err error) error {
	hint := ""
	if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok {
		name := unknown.GetSpecifiedName()
		var names []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
		if now, old := renamed()[cmd.CommandPath()+" --"+name]; old {
			hint = "; it is now --" + now
		} else if best := nearest.Name(name, names); best != "" && len(name) > 1 {
			hint = "; did you mean --" + best + "?"
		}
	}
	if !strings.HasSuffix(err.Error()+hint, "?") {
		hint += ";"
	}
	return usageError{fmt.Errorf("%w%s `%s --help` shows its flags", err, hint, cmd.CommandPath())}
}

// listing is a command that lists by itself, and as its subcommand ls does.
func listing(env *Env, build func(*Env) *cobra.Command) *cobra.Command {
	cmd, ls := build(env), build(env)
	ls.Use = "ls"
	cmd.AddCommand(ls)
	return cmd
}
