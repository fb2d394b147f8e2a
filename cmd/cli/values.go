package cli

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"weir/internal/nearest"
	"weir/schemas"
)

// choices are the words that a flag takes, by the path of the command below weir and the flag.
func choices() map[string][]string {
	statuses := append(texts(schemas.Statuses()...), "open")
	kinds := texts(schemas.Kinds()...)
	return map[string][]string{
		"actions ls --status":    statuses,
		"actions ls --kind":      kinds,
		"actions ls --method":    schemas.Methods(),
		"actions redrive --kind": kinds,
		"pause --kind":           kinds,
		"resume --kind":          kinds,
		"rules preview --kind":   kinds,
		"rules record --kind":    kinds,
		"tasks ls --status":      texts(schemas.TaskStatuses()...),
		"tokens create --scope":  schemas.Scopes(),
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
type source func(ctx context.Context, c *api) iter.Seq2[cobra.Completion, error]

// arguments are the sources of a command's arguments, by its path below weir. The last one is also
// for the arguments after it, if the command takes several.
func arguments() map[string][]source {
	return map[string][]source{
		"actions cancel":  {actionIDs},
		"actions redrive": {deadIDs},
		"actions resolve": {actionIDs},
		"actions show":    {actionIDs},
		"chat":            {modelNames},
		"dead show":       {deadSequences},
		"pause":           {entryNames},
		"pin":             {pinStates, entryNames},
		"resume":          {entryNames},
		"rules disable":   {ruleIDs},
		"rules enable":    {ruleIDs},
		"rules get":       {ruleIDs},
		"rules patch":     {ruleIDs},
		"rules record":    {actionIDs},
		"tasks answer":    {taskIDs},
		"tasks cancel":    {taskIDs},
		"tasks follow":    {taskIDs},
		"tasks show":      {taskIDs},
		"tasks token":     {taskIDs},
		"tokens revoke":   {tokenIDs},
	}
}

// flagSources are the sources of flags that have the same meaning in every command.
func flagSources() map[string]source {
	return map[string]source{
		"budget": budgetNames, "entry": entryNames, "key": keyNames, "model": modelNames, "repo": repoNames, "task": taskIDs,
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
	for name, from := range flagSources() {
		if cmd.Flags().Lookup(name) != nil {
			_ = cmd.RegisterFlagCompletionFunc(name, func(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
				return completions(cmd, env, from)
			})
		}
	}
	all := arguments()[path]
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
	f := clientFlags{}
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
	var all []cobra.Completion
	for one, err := range from(ctx, c) {
		if err != nil || len(all) == mostCompletions {
			break
		}
		all = append(all, one)
	}
	return all, cobra.ShellCompDirectiveNoFileComp
}

// mapped is a list with each item as a completion: a value, and a description of it.
func mapped[T any](all iter.Seq2[T, error], text func(T) (value, description string)) iter.Seq2[cobra.Completion, error] {
	return func(yield func(cobra.Completion, error) bool) {
		for one, err := range all {
			if err != nil {
				yield("", err)
				return
			}
			value, about := text(one)
			about, _, _ = strings.Cut(strings.TrimSpace(about), "\n")
			if !yield(cobra.CompletionWithDesc(oneLine(value), oneLine(cut(about, 60))), nil) {
				return
			}
		}
	}
}

// failed is a list that cannot be read.
func failed[T any](err error) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		yield(none, err)
	}
}

func pinStates(context.Context, *api) iter.Seq2[cobra.Completion, error] {
	return given(pinWords())
}

func actionIDs(ctx context.Context, c *api) iter.Seq2[cobra.Completion, error] {
	query := url.Values{"limit": {strconv.Itoa(mostCompletions)}}
	all := pages(func() ([]schemas.ActionEntry, string, error) {
		page, err := c.Actions(ctx, query)
		return page.Items, page.Next, err
	}, query, mostCompletions)
	return mapped(all, func(e schemas.ActionEntry) (string, string) { return e.ID, entryCall(e) + " " + string(e.Status) })
}

func taskIDs(ctx context.Context, c *api) iter.Seq2[cobra.Completion, error] {
	query := url.Values{}
	all := pages(func() ([]schemas.TaskView, string, error) {
		page, err := c.Tasks(ctx, query)
		return page.Items, page.Next, err
	}, query, mostCompletions)
	return mapped(all, func(t schemas.TaskView) (string, string) { return t.ID, string(t.Status) + ": " + t.Description })
}

func deadIDs(ctx context.Context, c *api) iter.Seq2[cobra.Completion, error] {
	return mapped(c.deadLetters(ctx, 0), func(d schemas.DeadLetterView) (string, string) { return d.ActionID, string(d.Code) })
}

func deadSequences(ctx context.Context, c *api) iter.Seq2[cobra.Completion, error] {
	return mapped(c.deadLetters(ctx, 0), func(d schemas.DeadLetterView) (string, string) { return strconv.FormatUint(d.Seq, 10), string(d.Code) })
}

func repoNames(ctx context.Context, c *api) iter.Seq2[cobra.Completion, error] {
	return mapped(allOf(ctx, c.Repos, url.Values{}), func(r schemas.Repo) (string, string) { return r.Name, string(r.Mode) })
}

func tokenIDs(ctx context.Context, c *api) iter.Seq2[cobra.Completion, error] {
	return mapped(allOf(ctx, c.Tokens, url.Values{}), func(t schemas.Token) (string, string) { return t.ID, t.Name })
}

func budgetNames(ctx context.Context, c *api) iter.Seq2[cobra.Completion, error] {
	return mapped(allOf(ctx, c.Budgets, url.Values{}), func(b schemas.BudgetView) (string, string) { return b.Budget, ownerOf(b) })
}

func entryNames(ctx context.Context, c *api) iter.Seq2[cobra.Completion, error] {
	v, err := c.Policy(ctx)
	if err != nil {
		return failed[cobra.Completion](err)
	}
	return mapped(given(v.Entries), func(e schemas.EntryView) (string, string) { return e.Name, e.URLPrefix })
}

// keyNames are the entries that a caller may name for a call: those of agents and models are for runs and completions.
func keyNames(ctx context.Context, c *api) iter.Seq2[cobra.Completion, error] {
	return func(yield func(cobra.Completion, error) bool) {
		for one, err := range entryNames(ctx, c) {
			name, _, _ := strings.Cut(one, "\t")
			if !strings.HasPrefix(name, "agent:") && !strings.HasPrefix(name, "model:") && !yield(one, err) {
				return
			}
		}
	}
}

func modelNames(ctx context.Context, c *api) iter.Seq2[cobra.Completion, error] {
	list, err := c.models(ctx)
	if err != nil {
		return failed[cobra.Completion](err)
	}
	return mapped(given(list.Data), func(m schemas.ModelView) (string, string) { return m.ID, m.OwnedBy })
}

func ruleIDs(ctx context.Context, c *api) iter.Seq2[cobra.Completion, error] {
	all, err := readData(c.operate(ctx, schemas.OpRulesList, map[string]any{}))
	if err != nil {
		return failed[cobra.Completion](err)
	}
	return mapped(given(all.Rules), func(r schemas.Rule) (string, string) { return r.ID, r.Type })
}
