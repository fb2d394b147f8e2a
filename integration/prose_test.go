package integration_test

import (
	"fmt"
	"go/scanner"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// wordings are phrases that make a text hard to read, with the usual replacement. A text has no such
// phrase if it has none of the parts in lower case, which is quicker to find out.
var wordings = []struct {
	parts   []string
	pattern *regexp.Regexp
	instead string
}{
	{[]string{"who", "body"}, regexp.MustCompile(`(?i)\b(who(ever|soever)|nobody|somebody|everybody|anybody)\b`), "name the component, the caller or the person"},
	{[]string{"told", "tell"}, regexp.MustCompile(`(?i)\b(is|are|was|were|be|been|being) told\b|\b(tells?|told) of\b`), "receives, reports, logs"},
	{[]string{"behind"}, regexp.MustCompile(`(?i)\bbehind (it|them|that|those|which|what|its end|the (first|last|one|end|event|record|newest))\b`), "after; behind is for a proxy"},
	{[]string{" word"}, regexp.MustCompile(`(?i)\b(a|the|its|their|whose|no|first|last) word\b`), "answer, result, code, keyword"},
	{[]string{"hat "}, regexp.MustCompile(`(^|[.;:,(] )[Ww]hat (is|was|has|had|it|they|a|the|came|comes|goes|went|lies|stands|waits)\b`), "a noun: the result, pending actions"},
	{[]string{"stand", "stood"}, regexp.MustCompile(`(?i)\b(stands?|stood) (in|on|at|there|beside|before|behind|with)\b`), "is, exists, is listed"},
	{[]string{"lie", "lay"}, regexp.MustCompile(`(?i)\b(lies|lay|lie) (in|on|at|there|beside|behind|between|with)\b`), "is, is stored"},
	{[]string{" to "}, regexp.MustCompile(`(?i)\b(is|are|was|were) to (be|have|go|end|begin|come|stop|run)\b`), "must, will"},
	{[]string{"all the same", "as good as", "no sooner", "for good"}, regexp.MustCompile(`(?i)\ball the same\b|\bas good as\b|\bno sooner\b|\bfor good\b`), "anyway, like, permanently"},
	{[]string{"came", "come"}, regexp.MustCompile(`(?i)\b(came|comes?) (to|again|of (it|them|that))\b|\bbec(ame|omes?) of\b`), "is redelivered, results in, the result"},
	{[]string{"anew", "under way", "begun"}, regexp.MustCompile(`(?i)\b(begins?|began|begun) anew\b|\bunder way\b|\bnot (yet )?begun\b`), "restarts, running, queued"},
}

// loggedEvent finds the name of an event where it is logged.
var loggedEvent = regexp.MustCompile(`[lL]og(?:ger)?\.(?:LogAttrs|Log|(?:Info|Warn|Error|Debug)(?:Context)?)\([^"\n]*"([^"\n]+)"`)

// eventName is the form of a logged event's name: a noun and a verb.
var eventName = regexp.MustCompile(`^[a-z]+(_[a-z]+)*$`)

// maxColumns is the width of prose in Markdown, maxCell that of a table's cell.
const (
	maxColumns = 100
	maxCell    = 160
)

// proseLimits are the findings that each area may have. Lower them with the counts; never raise them.
var proseLimits = map[string]int{"README": 0, "docs": 10, "adr": 1, "code": 50}

// finding is one place to rewrite.
type finding struct {
	file string
	line int
	text string
	why  string
}

func (f finding) String() string { return fmt.Sprintf("%s:%d: %q: %s", f.file, f.line, f.text, f.why) }

// TestProse limits unclear phrases in comments, messages and Markdown, and the width of Markdown.
func TestProse(t *testing.T) {
	t.Parallel()
	const bad = "package x\n\n// Close is called by whoever has it, and the caller is\n// told.\nvar nobody = \"the message comes again\" // nobody reads it\n"
	require.Len(t, inGo("a.go", []byte(bad)), 4, "the check finds what it is for")
	require.Len(t, inMarkdown("a.md", "What is left is sent later.\n```\n"+strings.Repeat("word ", 25)+"\n```\n"+strings.Repeat("word ", 25)+"\n"), 2)
	root, err := filepath.Abs("..")
	require.NoError(t, err)
	out, err := exec.Command("git", "-C", root, "ls-files", "-z", "*.go", "*.md").Output()
	require.NoError(t, err)
	found, files := make(map[string][]finding), make(map[string]int)
	for name := range strings.SplitSeq(strings.TrimRight(string(out), "\x00"), "\x00") {
		area := areaOf(name)
		if area == "" {
			continue
		}
		text, err := os.ReadFile(filepath.Join(root, name))
		if os.IsNotExist(err) { // removed, and not committed yet
			continue
		}
		require.NoError(t, err)
		files[area]++
		if area == "code" {
			for _, m := range loggedEvent.FindAllSubmatch(text, -1) {
				require.Regexp(t, eventName, string(m[1]), "%s logs an event without a name such as policy_reloaded", name)
			}
			found[area] = append(found[area], inGo(name, text)...)
		} else {
			found[area] = append(found[area], inMarkdown(name, string(text))...)
		}
	}
	for area, limit := range proseLimits {
		require.Positive(t, files[area], "no files of %s", area)
		t.Logf("%s: %d findings, limit %d", area, len(found[area]), limit)
		if len(found[area]) <= limit {
			continue
		}
		t.Errorf("%s: %d findings and not at most %d; rewrite the newest of these:", area, len(found[area]), limit)
		for _, f := range found[area] {
			t.Error(f)
		}
	}
}

// maxWords is how many words the pages that are written by hand may have together, as `wc -w` counts them.
const maxWords = 18_000

// TestWords limits the README and the documentation, without decisions and generated pages.
func TestWords(t *testing.T) {
	t.Parallel()
	generated := []string{"../docs/reference/cli.md", "../docs/reference/configuration.md", "../docs/reference/http-api.md", "../docs/reference/metrics.md"}
	pages := []string{"../README.md", "../docs/index.md"}
	for _, folder := range []string{"tutorial", "how-to", "explanation", "reference"} {
		found, err := filepath.Glob("../docs/" + folder + "/*.md")
		require.NoError(t, err)
		require.NotEmpty(t, found, folder)
		pages = append(pages, found...)
	}
	total := 0
	var report strings.Builder
	for _, page := range pages {
		if slices.Contains(generated, page) {
			continue
		}
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		words := len(strings.Fields(string(text)))
		total += words
		fmt.Fprintf(&report, "%6d %s\n", words, page)
	}
	require.LessOrEqual(t, total, maxWords, "shorten a page; they have:\n%s", &report)
}

// areaOf is the area whose limit covers a file; empty: none does.
func areaOf(name string) string {
	switch {
	case name == "README.md":
		return "README"
	case strings.HasPrefix(name, "docs/adr/"):
		return "adr"
	case strings.HasPrefix(name, "docs/") && strings.HasSuffix(name, ".md"):
		return "docs"
	case !strings.HasSuffix(name, ".go"), strings.HasSuffix(name, "_test.go"), strings.HasPrefix(name, "integration/"),
		strings.HasPrefix(name, "internal/weirtest/"), strings.Contains(name, "testdata/"):
		return ""
	}
	return "code"
}

// directive is a comment for a tool.
var directive = regexp.MustCompile(`^//[a-z0-9]+:[a-z0-9]`)

// inGo checks the comments and the string literals of a Go file. To scan it is far quicker than to parse it.
func inGo(name string, text []byte) (found []finding) {
	file := token.NewFileSet().AddFile(name, -1, len(text))
	var s scanner.Scanner
	s.Init(file, text, nil, scanner.ScanComments)
	group, begun := "", 0
	for tok := token.ILLEGAL; tok != token.EOF; {
		pos, next, lit := s.Scan()
		tok = next
		if tok == token.COMMENT {
			if group == "" {
				begun = file.Line(pos)
			}
			if directive.MatchString(lit) {
				lit = ""
			}
			group += strings.TrimSpace(strings.Trim(lit, "/*")) + "\n"
			continue
		}
		if group != "" {
			found, group = append(found, phrases(name, begun, group)...), ""
		}
		if tok == token.STRING && strings.Contains(lit, " ") {
			found = append(found, phrases(name, file.Line(pos), strings.Trim(lit, "`\""))...)
		}
	}
	return found
}

// inMarkdown checks a page's prose, and its width outside code blocks.
func inMarkdown(name, text string) (found []finding) {
	found = phrases(name, 1, text)
	code := false
	for i, line := range strings.Split(text, "\n") {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			code = !code
			continue
		}
		if code || strings.HasPrefix(line, "    ") || strings.HasPrefix(strings.TrimSpace(line), "<") {
			continue
		}
		if strings.HasPrefix(line, "|") {
			for cell := range strings.SplitSeq(line, "|") {
				if n := utf8.RuneCountInString(strings.TrimSpace(cell)); n > maxCell {
					found = append(found, finding{name, i + 1, short(strings.TrimSpace(cell)), fmt.Sprintf("a cell of %d characters; write one phrase, and the rest below the table", n)})
				}
			}
			continue
		}
		if n := utf8.RuneCountInString(line); n > maxColumns && breakable(line) {
			found = append(found, finding{name, i + 1, short(line), fmt.Sprintf("%d columns; wrap at %d", n, maxColumns)})
		}
	}
	return found
}

// breakable reports whether a line has a space at which it could be wrapped.
func breakable(line string) bool {
	line = strings.TrimLeft(line, " -*>#")
	return strings.Contains(line, " ") && !strings.HasPrefix(line, "[") && !strings.HasPrefix(line, "!")
}

// phrases finds the wordings in a text that starts at a line. A phrase may continue on the next line.
func phrases(name string, line int, text string) (found []finding) {
	flat := strings.ReplaceAll(text, "\n", " ")
	lower := strings.ToLower(flat)
	for _, w := range wordings {
		if !slices.ContainsFunc(w.parts, func(part string) bool { return strings.Contains(lower, part) }) {
			continue
		}
		for _, at := range w.pattern.FindAllStringIndex(flat, -1) {
			phrase := strings.TrimLeft(flat[at[0]:at[1]], ".;:,( ")
			found = append(found, finding{name, line + strings.Count(text[:at[1]-len(phrase)], "\n"), phrase, w.instead})
		}
	}
	return found
}

// short is the beginning of a text.
func short(s string) string {
	if r := []rune(s); len(r) > 60 {
		return string(r[:60]) + "…"
	}
	return s
}
