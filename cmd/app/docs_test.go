package app

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"weir/cmd/cli"
	"weir/internal/problem"
	"weir/internal/weirtest/fixture"
	"weir/schemas"
	published "weir/schemas/json"
)

// TestReference holds the generated pages of docs/reference against what they are generated from.
func TestReference(t *testing.T) {
	t.Parallel()
	for page, generate := range map[string]func(t *testing.T) string{
		"http-api": routesPage, "cli": commandsPage, "configuration": keysPage,
	} {
		t.Run(page, func(t *testing.T) {
			t.Parallel()
			fixture.Page(t, "../../docs/reference/"+page+".md", "generated", generate(t))
		})
	}
}

// prose is a text of the code as Markdown: one paragraph without accidental markup.
func prose(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	return strings.NewReplacer("*", `\*`, "<", `\<`).Replace(text)
}

// sentence is prose that begins with a capital and ends with a stop.
func sentence(text string) string {
	text = prose(text)
	if text == "" {
		return ""
	}
	text = strings.ToUpper(text[:1]) + text[1:]
	if !strings.HasSuffix(text, ".") && !strings.HasSuffix(text, "?") {
		text += "."
	}
	return text
}

// commandsPage lists the commands of the program.
func commandsPage(t *testing.T) string {
	t.Helper()
	root := cli.Tree(&cli.Env{Streams: Streams{In: strings.NewReader(""), Out: io.Discard, Err: io.Discard}}, commands)
	var b strings.Builder
	exec, _, err := root.Find([]string{"exec"})
	require.NoError(t, err)
	b.WriteString("## Common flags\n\nEvery command that calls a running Weir has these flags.\n\n```\n" + flagsOf(exec, true) + "```\n\n")
	commandText(&b, root)
	return b.String()
}

// common are the flags of each command that calls a running Weir.
var common = map[string]bool{"server": true, "token-file": true, "json": true}

// flagsOf lists a command's flags: the common ones, or its own.
func flagsOf(cmd *cobra.Command, shared bool) string {
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if common[f.Name] == shared && f.Name != "help" && !f.Hidden {
			flags.AddFlag(f)
		}
	})
	return flags.FlagUsagesWrapped(100)
}

func commandText(b *strings.Builder, cmd *cobra.Command) {
	for _, c := range cmd.Commands() {
		if c.Hidden || c.Name() == "help" || c.Name() == "completion" {
			continue
		}
		fmt.Fprintf(b, "## %s\n\n%s\n\n```\n%s\n```\n\n", c.CommandPath(), sentence(cmp.Or(c.Long, c.Short)), c.UseLine())
		if len(c.Aliases) > 0 {
			fmt.Fprintf(b, "Aliases: `%s`.\n\n", strings.Join(c.Aliases, "`, `"))
		}
		if flags := flagsOf(c, false); flags != "" {
			b.WriteString("```\n" + flags + "```\n\n")
		}
		if c.Example != "" {
			b.WriteString("```\n" + strings.TrimRight(c.Example, "\n") + "\n```\n\n")
		}
		commandText(b, c)
	}
}

// keysPage lists the keys of the configuration.
func keysPage(t *testing.T) string {
	t.Helper()
	text, err := published.Files.ReadFile("weir.config.json")
	require.NoError(t, err)
	root := gjson.ParseBytes(text)
	var b strings.Builder
	b.WriteString("## Top level\n\n")
	keys(&b, root, root, "")
	return b.String()
}

// keys lists the keys of an object, then those of the objects in it.
func keys(b *strings.Builder, root, in gjson.Result, prefix string) {
	type object struct {
		key string
		s   gjson.Result
	}
	var inner []object
	properties := in.Get("properties").Map()
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		s := properties[name]
		for form, suffix := range map[string]string{"$ref": "", "items.$ref": "[]", "additionalProperties.$ref": ".NAME"} {
			if ref := s.Get(form).Str; ref != "" {
				inner = append(inner, object{prefix + name + suffix, root.Get("$defs." + ref[strings.LastIndexByte(ref, '/')+1:])})
			}
		}
		text, bounds := s.Get("description").Str, kindOf(s)
		for _, part := range []*regexp.Regexp{allowed, byDefault} {
			if m := part.FindStringSubmatch(text); m != nil {
				text, bounds = strings.Replace(text, m[0], "", 1), bounds+"; "+m[1]+"`"+m[2]+"`"
			}
		}
		fmt.Fprintf(b, "- `%s` (%s): %s\n", prefix+name, prose(strings.Replace(bounds, "Default: ", "default ", 1)), sentence(text))
	}
	b.WriteString("\n")
	for _, o := range inner {
		fmt.Fprintf(b, "## %s\n\n", o.key)
		keys(b, root, o.s, o.key+".")
	}
}

// The bounds and the default in the description of a key.
var allowed, byDefault = regexp.MustCompile(` ?Allowed: ()(.+?)\.(?: |$)`), regexp.MustCompile(` ?(Default: )(\S+)\.$`)

// kindOf is the type of a key in a word or two.
func kindOf(s gjson.Result) string {
	for _, form := range append(s.Get("anyOf").Array(), s) {
		switch pattern := form.Get("pattern").Str; {
		case strings.Contains(pattern, "KiB"):
			return "size"
		case strings.Contains(pattern, "ms|s|m|h"):
			return "duration"
		case form.Get("type").Str == "number":
			return "number"
		}
	}
	switch of := s.Get("type").Str; {
	case s.Get("enum").Exists():
		return "text"
	case s.Get("$ref").Exists():
		return "section"
	default:
		return cmp.Or(map[string]string{"array": "list", "object": "section", "boolean": "true or false", "integer": "number"}[of], "text")
	}
}

// TestErrorsPage: docs/reference/errors.md has each code in its section, with its status, its cause and what
// to do, and no other.
func TestErrorsPage(t *testing.T) {
	t.Parallel()
	const file = "../../docs/reference/errors.md"
	var exits strings.Builder
	for code, meaning := range cli.ExitMeanings() {
		fmt.Fprintf(&exits, "- %d: %s\n", code, meaning)
	}
	fixture.Page(t, file, "exit codes", exits.String())
	text := fixture.Read(t, file)
	codes := slices.Concat(schemas.SettleCodes(), schemas.IngressCodes())
	slices.Sort(codes)
	codes = slices.Compact(codes)
	var explained []schemas.Code
	item := regexp.MustCompile("(?m)^- `([A-Z_]+)`((?s:.+?))(?:\n- `|\n\n|\\z)")
	for _, part := range regexp.MustCompile(`(?m)^## `).Split(string(text), -1)[1:] {
		section, list, _ := strings.Cut(part, "\n")
		for m := item.FindStringSubmatchIndex(list); m != nil; m = item.FindStringSubmatchIndex(list) {
			code, line := schemas.Code(list[m[2]:m[3]]), list[m[4]:m[5]]
			list = list[m[5]:]
			explained = append(explained, code)
			require.Equal(t, sectionOf(code), section, code)
			status := fmt.Sprintf(` \(%d\)`, problem.Status(code))
			if section == "Outcomes" && problem.Status(code) == http.StatusInternalServerError {
				status = "" // it depends on the surface
			}
			require.Regexp(t, `^`+status+`: [A-Z`+"`"+`](?s:.+)[.?] +[A-Z](?s:.+)\.$`, strings.ReplaceAll(line, "\n", " "), code)
		}
	}
	slices.Sort(explained)
	require.Equal(t, codes, explained)
}

// sectionOf is the section of the page of errors that explains a code.
func sectionOf(code schemas.Code) string {
	switch {
	case code.Denied():
		return "Policy"
	case slices.Contains(schemas.UpstreamCodes(), code):
		return "Targets"
	case slices.Contains(schemas.SettleCodes(), code) && !slices.Contains(schemas.IngressCodes(), code):
		return "Outcomes"
	default:
		return "Requests"
	}
}

// TestEventsPage: docs/reference/events.md explains each type of event with the member that has its document, and
// each kind of evidence with the schema of its payload.
func TestEventsPage(t *testing.T) {
	t.Parallel()
	text := fixture.Read(t, "../../docs/reference/events.md")
	schema, err := published.Files.ReadFile("event.json")
	require.NoError(t, err)
	events, evidence, _ := strings.Cut(string(text), "\n## Evidence\n")
	rows := regexp.MustCompile("(?m)^- `([a-z]+)` \\((?:ingress|worker)([^)]*)\\):\\s[A-Z]").FindAllStringSubmatch(events, -1)
	types := gjson.GetBytes(schema, "$defs.EventType.enum").Array()
	require.Len(t, rows, len(types))
	for _, row := range rows {
		require.True(t, slices.ContainsFunc(types, func(of gjson.Result) bool { return of.Str == row[1] }), row[1])
		for _, m := range regexp.MustCompile("`(.+)`").FindAllStringSubmatch(row[2], -1) {
			require.True(t, gjson.GetBytes(schema, "$defs.EventView.properties."+m[1]).Exists(), m[1])
		}
	}
	source := fixture.Read(t, "../../schemas/record.go")
	kinds := regexp.MustCompile(`(?m)^\tEvidence\w+ += "(.+?)"`).FindAllStringSubmatch(string(source), -1)
	require.NotEmpty(t, kinds)
	rows = regexp.MustCompile("(?m)^- `([a-z.]+[_a-z]*)`(?: \\(schema `(.+)`\\))?: [A-Z]").FindAllStringSubmatch(evidence, -1)
	for i, kind := range kinds {
		require.Equal(t, kind[1], rows[i][1])
	}
	require.Len(t, rows, len(kinds))
	for _, row := range rows {
		if row[2] != "" {
			_, err := published.Files.ReadFile(row[2] + ".json")
			require.NoError(t, err)
		}
	}
}

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
