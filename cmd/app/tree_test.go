package app

import (
	"io"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/cmd/cli"
)

// commandTree is every command of the program that help shows.
func commandTree(t *testing.T) []*cobra.Command {
	t.Helper()
	env := &cli.Env{Streams: Streams{In: strings.NewReader(""), Out: io.Discard, Err: io.Discard}}
	root := cli.Tree(env, commands)
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	var all []*cobra.Command
	var visit func(cmd *cobra.Command)
	visit = func(cmd *cobra.Command) {
		all = append(all, cmd)
		for _, sub := range cmd.Commands() {
			if !sub.Hidden {
				visit(sub)
			}
		}
	}
	visit(root)
	require.Greater(t, len(all), 60)
	return all
}

// notVerbs are words that a help text might begin with in place of a verb.
var notVerbs = regexp.MustCompile(`^(The|A|An|Say|Tell|Have|What|Where|How|This|Weir) `)

// privatePhrases have no component or person as their subject, or no thing as their object.
var privatePhrases = regexp.MustCompile(`(?i)\b(whoever|nobody|somebody|what (is|was|runs|went|goes|comes|came) |has said\b|is told\b|are told\b|, say\b)`)

func TestEveryCommandHasHelp(t *testing.T) {
	t.Parallel()
	for _, cmd := range commandTree(t) {
		path := cmd.CommandPath()
		assert.Regexp(t, `^[A-Z][a-z]+(,? |$)`, cmd.Short, path)
		assert.NotRegexp(t, notVerbs, cmd.Short, path)
		assert.NotRegexp(t, `\.$`, cmd.Short, path)
		assert.NotRegexp(t, privatePhrases, cmd.Short+"\n"+cmd.Long+"\n"+cmd.LocalFlags().FlagUsages(), path)
		assert.LessOrEqual(t, len(cmd.Short), 100, path)
		if of := cmd.Parent(); of != nil && !of.HasParent() {
			assert.NotEmpty(t, cmd.GroupID, path)
		}
		if strings.HasPrefix(path, "weir completion") {
			continue // the library wrote it
		}
		require.NotEmpty(t, cmd.Example, path)
		for line := range strings.Lines(cmd.Example) {
			assert.LessOrEqual(t, len([]rune(line)), 161, path)
		}
		for line := range strings.Lines(cmd.Long) {
			assert.LessOrEqual(t, len([]rune(line)), 101, path)
		}
	}
}

// TestExamplesAreCommands: each example names a command of the program, with flags and a number of arguments that
// this command takes.
func TestExamplesAreCommands(t *testing.T) {
	t.Parallel()
	seen := 0
	for _, cmd := range commandTree(t) {
		for line := range strings.Lines(strings.ReplaceAll(cmd.Example, "\\\n", " ")) {
			args, ok := exampleArgs(line)
			if !ok {
				continue
			}
			seen++
			env := &cli.Env{Streams: Streams{In: strings.NewReader(""), Out: io.Discard, Err: io.Discard}}
			root := cli.Tree(env, commands)
			root.InitDefaultHelpCmd()
			found, rest, err := root.Find(args)
			require.NoError(t, err, line)
			require.NoError(t, found.ParseFlags(rest), line)
			require.NoError(t, found.ValidateArgs(found.Flags().Args()), line)
		}
	}
	require.Greater(t, seen, 80)
}

// exampleArgs are the arguments of the weir command in a line of a shell, whose quotes it understands.
func exampleArgs(line string) (args []string, ok bool) {
	_, rest, ok := strings.Cut(line, "weir ")
	if !ok || strings.HasPrefix(strings.TrimSpace(line), "nats") {
		return nil, false
	}
	word, quote, begun := "", rune(0), false
	flush := func() {
		if begun {
			args = append(args, word)
		}
		word, begun = "", false
	}
	for _, r := range rest {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word += string(r)
		case r == '\'' || r == '"':
			quote, begun = r, true
		case r == ' ' || r == '\n':
			flush()
		case strings.ContainsRune("|<>)#;", r) && !begun || r == ')':
			flush()
			return args, quote == 0
		default:
			word, begun = word+string(r), true
		}
	}
	flush()
	return args, quote == 0 // an open quote goes on in the next line
}
