package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"weir/internal/nearest"
	"weir/schemas"
)

// group is a section of `weir --help`.
type group struct{ id, title, commands string }

// helpGroups are the sections in their order, with the commands of this package and of others.
func helpGroups() []group {
	return []group{
		{"start", "Start:", "demo init serve config schema version"},
		{"call", "Call and watch:", "exec chat models actions tail health"},
		{"policy", "Policy:", "policy rules tokens"},
		{"agents", "Agents:", "tasks repos runner check"},
		{"operate", "Operate:", "dead budgets operations pause resume pin proxy backup restore"},
		{"roles", "Cluster roles:", "ingress worker egress nats"},
	}
}

// renamed maps a flag that is gone to what replaces it, by the path of its command.
func renamed() map[string]string {
	return map[string]string{
		"weir chat --key": "--idempotency-key", "weir actions ls --q": "--search",
		"weir actions ls --follow": "`weir tail actions`", "weir rules record --replace": "`weir rules patch`",
	}
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
	root.InitDefaultCompletionCmd()
	root.SetFlagErrorFunc(flagError)
	eachCommand(root, func(cmd *cobra.Command) {
		alias(cmd)
		if cmd.HasSubCommands() {
			cmd.Args = noSuchCommand
			if !cmd.Runnable() { // cobra would print the help, whatever the arguments
				Group(cmd)
			}
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
	return usagef("`%s` has no command %q%s", path, args[0], cmp.Or(nearest.Hint(args[0], names), "; `"+path+" --help` lists them"))
}

// gone refuses the name of a command that was removed, and says what to use.
func gone(name, use string) *cobra.Command {
	return &cobra.Command{
		Use: name, Hidden: true, DisableFlagParsing: true,
		RunE: func(*cobra.Command, []string) error {
			return Usage(errors.New("this command was removed; use " + use))
		},
	}
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
			hint = "; it is now " + now
		} else if best := nearest.Name(name, names); best != "" && len(name) > 1 {
			hint = "; did you mean --" + best + "?"
		}
	}
	if !strings.HasSuffix(err.Error()+hint, "?") {
		hint += ";"
	}
	return usagef("%w%s `%s --help` shows its flags", err, hint, cmd.CommandPath())
}

// listing is a command that lists by itself, and as its subcommand ls does.
func listing(env *Env, build func(*Env) *cobra.Command) *cobra.Command {
	cmd, ls := build(env), build(env)
	ls.Use = "ls"
	cmd.AddCommand(ls)
	return cmd
}

// choices are the words that a flag takes, by the path of the command below weir and the flag.
func choices() map[string][]string {
	statuses := append(texts(schemas.Statuses()...), "open")
	kinds := texts(schemas.Kinds()...)
	return map[string][]string{
		"actions ls --status":      statuses,
		"actions ls --kind":        kinds,
		"actions ls --method":      schemas.Methods(),
		"actions redrive --status": statuses,
		"actions redrive --kind":   kinds,
		"actions redrive --method": schemas.Methods(),
		"pause --kind":             kinds,
		"resume --kind":            kinds,
		"rules preview --kind":     kinds,
		"rules record --kind":      kinds,
		"tasks ls --status":        texts(schemas.TaskStatuses()...),
		"tokens create --scope":    schemas.Scopes(),
	}
}

func texts[T ~string](all ...T) []string {
	list := make([]string, len(all))
	for i, one := range all {
		list[i] = string(one)
	}
	return list
}

// choice is a flag whose values, separated by commas, come from a list.
type choice struct {
	pflag.Value

	words []string
}

// Set implements pflag.Value.
func (c choice) Set(text string) error {
	for word := range strings.SplitSeq(text, ",") {
		if word = strings.TrimSpace(word); slices.Contains(c.words, word) {
			continue
		}
		return fmt.Errorf("there is no %q%s", word, cmp.Or(nearest.Hint(word, c.words), "; choose from "+strings.Join(c.words, ", ")))
	}
	return c.Value.Set(text)
}

// complete completes the last of the words of a flag.
func (c choice) complete(_ *cobra.Command, _ []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	before := typed[:strings.LastIndex(typed, ",")+1]
	all := make([]cobra.Completion, len(c.words))
	for i, word := range c.words {
		all[i] = before + word
	}
	return all, cobra.ShellCompDirectiveNoFileComp
}

// source reads ids or names from a running Weir. A description follows after a tab.
type source func(ctx context.Context, c *api) []cobra.Completion

// listed is the source of a value, and a description of it, for each item that a query selects of the list at a route.
func listed[T any](route string, query url.Values, text func(T) (value, description string)) source {
	return func(ctx context.Context, c *api) []cobra.Completion {
		return described(list[T](ctx, c, route, query, mostCompletions), text)
	}
}

// actionIDs is the source of the ids of those actions that a query selects.
func actionIDs(query url.Values) source {
	return listed(routeActions, query, func(e schemas.ActionEntry) (string, string) { return e.ID, entryCall(e) + " " + string(e.Status) })
}

// sources has the flags that mean the same in every command, and the arguments of a command by its path
// below weir, or by its parent if it takes an ID. The last source also serves the arguments after it, if
// the command takes several.
func sources() map[string][]source {
	actions := actionIDs(nil)
	entries := entryNames(func(string) bool { return true })
	callable := entryNames(func(name string) bool { // those of agents and models are for runs and completions
		return !strings.HasPrefix(name, "agent:") && !strings.HasPrefix(name, "model:")
	})
	tasks := listed(schemas.RouteTasks, nil, func(t schemas.TaskView) (string, string) { return t.ID, string(t.Status) + ": " + t.Description })
	dead := listed(routeDead, nil, func(d schemas.DeadLetterView) (string, string) {
		return d.ActionID, letterCall(d) + " " + string(d.Code)
	})
	return map[string][]source{
		"--budget":        {listed(schemas.RouteBudgets, nil, func(b schemas.BudgetView) (string, string) { return b.Budget, ownerOf(b) })},
		"--entry":         {entries},
		"--key":           {callable},
		"--model":         {modelNames},
		"--repo":          {listed(schemas.RouteRepos, nil, func(r schemas.Repo) (string, string) { return r.Name, string(r.Mode) })},
		"--task":          {tasks},
		"actions":         {actions},
		"actions cancel":  {actionIDs(url.Values{"status": {"open"}})},
		"actions redrive": {dead},
		"actions resolve": {actionIDs(url.Values{"status": {string(schemas.OutcomeUnknown)}, "resolved": {"false"}})},
		"chat":            {modelNames},
		"pause":           {entries},
		"pin":             {func(context.Context, *api) []cobra.Completion { return pinWords() }, entries},
		"resume":          {entries},
		"rules":           {ruleIDs},
		"rules record":    {actions},
		"tasks":           {tasks},
		"tokens":          {listed(routeTokens, nil, func(t schemas.Token) (string, string) { return t.ID, t.Name })},
	}
}

// suggestValues checks the flags that take words from a list, and completes them and the names and
// ids that a running Weir knows.
func suggestValues(cmd *cobra.Command, env *Env) {
	path := strings.TrimPrefix(cmd.CommandPath(), "weir ")
	for name, words := range choices() {
		if at, flag, _ := strings.Cut(name, " --"); at == path {
			c := choice{cmd.Flags().Lookup(flag).Value, words}
			cmd.Flags().Lookup(flag).Value = c
			_ = cmd.RegisterFlagCompletionFunc(flag, c.complete) // it fails for an unknown flag and for a second function
		}
	}
	if cmd.Flags().Lookup("server") == nil {
		return
	}
	from := sources()
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if own := from["--"+f.Name]; own != nil {
			_ = cmd.RegisterFlagCompletionFunc(f.Name, func(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
				return completions(cmd, env, own[0])
			})
		}
	})
	all := from[path]
	if all == nil && strings.Contains(cmd.Use, " ID") {
		all = from[cmd.Parent().Name()]
	}
	several := strings.Contains(cmd.Use, "…")
	if len(all) == 0 {
		return
	}
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) >= len(all) && !several {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return completions(cmd, env, all[min(len(args), len(all)-1)])
	}
}

// The most values that a completion has, and how long reading them may take.
const (
	mostCompletions = 100
	completionWait  = time.Second
)

// completions reads the values of a source with the flags that were given. It prints no error: the
// shell is about to show a line that a person is typing.
func completions(cmd *cobra.Command, env *Env, from source) ([]cobra.Completion, cobra.ShellCompDirective) {
	f := new(clientFlags)
	if cmd.Parent().Name() == "tokens" {
		f = adminFlags()
	}
	f.server, _ = cmd.Flags().GetString("server")
	f.tokenFile, _ = cmd.Flags().GetString("token-file")
	c, err := f.client(env)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), completionWait)
	defer cancel()
	return from(ctx, c), cobra.ShellCompDirectiveNoFileComp
}

// described are the items of a list until an error: a value, and a description of it.
func described[T any](all iter.Seq2[T, error], text func(T) (value, description string)) (found []cobra.Completion) {
	for one, err := range all {
		if err != nil || len(found) == mostCompletions {
			break
		}
		value, about := text(one)
		about, _, _ = strings.Cut(strings.TrimSpace(about), "\n")
		found = append(found, cobra.CompletionWithDesc(oneLine(value), oneLine(cut(about, 60))))
	}
	return found
}

// entryNames is the source of the policy's entries, those that fit.
func entryNames(fits func(name string) bool) source {
	return func(ctx context.Context, c *api) []cobra.Completion {
		v, err := get[schemas.PolicyView](ctx, c, routePolicy, nil)
		entries := slices.DeleteFunc(v.Entries, func(e schemas.EntryView) bool { return !fits(e.Name) })
		return described(read(entries, err), func(e schemas.EntryView) (string, string) { return e.Name, e.URLPrefix })
	}
}

func modelNames(ctx context.Context, c *api) []cobra.Completion {
	list, err := c.models(ctx)
	return described(read(list.Data, err), func(m schemas.ModelView) (string, string) { return m.ID, m.OwnedBy })
}

func ruleIDs(ctx context.Context, c *api) []cobra.Completion {
	all, err := c.operate(ctx, schemas.OpRulesList, map[string]any{})
	return described(read(all.Rules, err), func(r schemas.Rule) (string, string) { return r.ID, r.Type })
}

// read is the items of a slice, or the error with which they could not be read.
func read[T any](all []T, err error) iter.Seq2[T, error] {
	if err != nil {
		all = make([]T, 1)
	}
	return func(yield func(T, error) bool) {
		for _, one := range all {
			if !yield(one, err) {
				return
			}
		}
	}
}
