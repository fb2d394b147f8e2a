//go:build e2e

package integration_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/text"

	"weir/internal/weirtest/program"
)

// TestDocs runs the commands and snippets of the README, the tutorials and the how-tos: those of a page
// in order, in a directory of its own, each must succeed. A comment before a block says what differs:
//
//	<!-- not run: WHY -->   it needs what a test has not, such as a cluster or the internet
//	<!-- fails -->          its last command must fail
//	<!-- prints -->         a block of text: the snippet before it prints these lines, … being anything
//	<!-- file: NAME -->     it is written to a file instead; with a + before the name it is added to one
//
// Ports of this machine are other ones in the test. A server that a page starts is awaited, as a
// person would do. `weir serve` runs in the background until the next one or the end of the page, and
// commands that follow something without an end stop after 3 s.
func TestDocs(t *testing.T) {
	t.Parallel()
	python, _ := exec.LookPath("python3")
	program.Needs(t, python, "TestDocs needs python3: install it with your package manager")
	root, err := filepath.Abs("..")
	require.NoError(t, err)
	pages := []string{filepath.Join(root, "README.md")}
	for _, pattern := range []string{"docs/tutorial/*.md", "docs/how-to/*.md"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		require.NoError(t, err)
		pages = append(pages, found...)
	}
	for _, page := range pages {
		name, err := filepath.Rel(root, page)
		require.NoError(t, err)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			source, err := os.ReadFile(page)
			require.NoError(t, err)
			runPage(t, root, snippets(source))
		})
	}
}

// snippet is one block of code of a page, with the comment before it.
type snippet struct {
	line                 int
	language, note, code string
}

// snippets are the blocks of code of a page, in order.
func snippets(source []byte) (all []snippet) {
	doc := goldmark.DefaultParser().Parse(text.NewReader(source))
	lines := func(n ast.Node) string { return string(n.Lines().Value(source)) }
	_ = ast.Walk(doc, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if _, fenced := n.(*ast.FencedCodeBlock); !entering || !fenced && n.Kind() != ast.KindCodeBlock || n.Lines().Len() == 0 {
			return ast.WalkContinue, nil
		}
		s := snippet{line: 1 + bytes.Count(source[:n.Lines().At(0).Start], []byte("\n")), language: "sh", code: lines(n)}
		if fenced, ok := n.(*ast.FencedCodeBlock); ok {
			s.language = string(fenced.Language(source))
		}
		if before, ok := n.PreviousSibling().(*ast.HTMLBlock); ok {
			s.note = strings.TrimSpace(strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(lines(before)), "<!--"), "-->"))
		}
		all = append(all, s)
		return ast.WalkContinue, nil
	})
	return all
}

// runPage runs the snippets of a page.
func runPage(t *testing.T, root string, all []snippet) {
	t.Helper()
	dir := t.TempDir()
	ports, free := portsOf(t)
	script := strings.Builder{}
	script.WriteString(docsPrelude)
	for i, s := range all {
		at, code := fmt.Sprintf("line %d", s.line), background.ReplaceAllString(ports(s.code), "$0\nawait $1")
		name := fmt.Sprintf("snippet-%d", i)
		write := func(name, code string) {
			require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(code), 0o600))
		}
		if strings.HasPrefix(s.note, "not run: ") {
			continue
		}
		fmt.Fprintf(&script, "at='%s'\n", at)
		file, isFile := strings.CutPrefix(s.note, "file: ")
		switch {
		case isFile:
			write(name, code)
			if added, ok := strings.CutPrefix(file, "+"); ok {
				fmt.Fprintf(&script, "cat %s >>'%s'\n", name, added)
			} else {
				fmt.Fprintf(&script, "cp %s '%s'\n", name, file)
			}
		case s.language == "sh" && s.note == "fails":
			fmt.Fprintf(&script, "set +e; trap - ERR\n{\n%s} >out 2>&1\n[ $? -ne 0 ] || { cat out; echo \"$at: the last command succeeds\"; exit 1; }\nstrict\n", code)
		case s.language == "sh":
			fmt.Fprintf(&script, "{\n%s} >out 2>&1\n", code)
		case s.language == "text" && s.note == "prints":
			for line := range strings.Lines(code) {
				pattern := strings.ReplaceAll(regexp.QuoteMeta(strings.TrimSpace(line)), "…", ".*")
				fmt.Fprintf(&script, "grep -Eq -- '%s' out\n", strings.ReplaceAll(pattern, "'", `'\''`))
			}
		case s.language == "text":
		case s.language == "python":
			write(name+".py", code)
			fmt.Fprintf(&script, "python3 %s.py\n", name)
		case s.language == "typescript", s.language == "javascript":
			write(name+".mjs", code)
			fmt.Fprintf(&script, "node %s.mjs\n", name)
		case s.language == "go":
			write("main.go", ports(fmt.Sprintf(goProgram, s.code)))
			overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{filepath.Join(root, "integration", "snippet", "main.go"): filepath.Join(dir, "main.go")}})
			require.NoError(t, err)
			write("overlay.json", string(overlay))
			fmt.Fprintf(&script, "here=$PWD; (cd '%s' && go run -overlay \"$here/overlay.json\" ./integration/snippet)\n", root)
		default:
			t.Errorf("%s: a block of %q is not run, and no comment before it says why or into which file it goes", at, s.language)
		}
	}
	readme, err := os.ReadFile(filepath.Join(root, "README.md"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "README.md"), readme, 0o600)) // what the tour fetches
	wrapper := filepath.Join(dir, "weir")
	require.NoError(t, os.WriteFile(wrapper, []byte(docsWeir), 0o700)) // #nosec G306 -- a program
	require.NoError(t, os.Mkdir(filepath.Join(dir, "home"), 0o700))

	// Under another HOME Go would download every module and compile every package again.
	caches, err := exec.CommandContext(t.Context(), "go", "env", "GOCACHE", "GOMODCACHE").Output()
	require.NoError(t, err)
	cache, modules, _ := strings.Cut(strings.TrimSpace(string(caches)), "\n")

	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-c", script.String())
	cmd.Dir, cmd.WaitDelay = dir, 10*time.Second
	cmd.Env = append(os.Environ(), "PATH="+dir+string(os.PathListSeparator)+os.Getenv("PATH"),
		"REAL_WEIR="+binary, "HOME="+filepath.Join(dir, "home"), "GOCACHE="+cache, "GOMODCACHE="+modules,
		"EXAMPLES="+filepath.Join(root, "examples"), "DOCS_DIR="+dir,
		"LOCAL_PORTS="+strings.Join(slices.Collect(maps.Values(free)), " "), ports("WEIR_LISTEN=127.0.0.1:8092"), ports("WEIR_URL=http://127.0.0.1:8092"))
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
}

// background is a line that starts a server.
var background = regexp.MustCompile(`(?m)^(python3 [^>&\n]*).* &$`)

// portsOf returns a function that replaces the ports of this machine in a text by free ones, a port
// always by the same one, and the free ones by the ports that they replace.
func portsOf(t *testing.T) (replace func(string) string, free map[string]string) {
	t.Helper()
	local := regexp.MustCompile(`(localhost|127\.0\.0\.1|0\.0\.0\.0):(\d{4,5})|(http\.server |-p |\("127\.0\.0\.1", )(\d{4,5})`)
	free = map[string]string{}
	return func(s string) string {
		return local.ReplaceAllStringFunc(s, func(m string) string {
			at := strings.LastIndexAny(m, ": ") + 1
			if free[m[at:]] == "" {
				l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
				require.NoError(t, err)
				defer l.Close()
				_, free[m[at:]], _ = net.SplitHostPort(l.Addr().String())
			}
			return m[:at] + free[m[at:]]
		})
	}, free
}

// docsPrelude says where a page stopped, and ends what runs in the background with it.
const docsPrelude = `exec 3>&1
trap 'for p in $(jobs -p) $(cat weir.pid 2>/dev/null); do kill $p 2>/dev/null || :; done' EXIT
strict() {
	set -eE
	trap 'echo "FAILED at $at: $BASH_COMMAND" >&3; cat out serve.log >&3 2>/dev/null' ERR
}
strict
await() { # PROGRAM ARG…: until it listens on those of the ports that it, or a file of it, names
	local port
	for port in $LOCAL_PORTS; do
		[[ " $* " == *" $port "* ]] || grep -qsw -- "$port" "$@" || continue
		for ((i = 0; i < 600; i++)); do
			(: <>"/dev/tcp/127.0.0.1/$port") 2>/dev/null && break
			read -rt 0.05 <> <(:) || :
		done
	done
}
`

// docsWeir is weir as pages run it.
const docsWeir = `#!/bin/bash
case "$1 $*" in
*--help*|*-h*) exec "$REAL_WEIR" "$@" ;;
serve\ *)
	if [ -f "$DOCS_DIR/weir.pid" ]; then
		kill "$(cat "$DOCS_DIR/weir.pid")" 2>/dev/null || :
		while kill -0 "$(cat "$DOCS_DIR/weir.pid")" 2>/dev/null; do read -rt 0.05 <> <(:) || :; done
	fi
	"$REAL_WEIR" "$@" >"$DOCS_DIR/serve.log" 2>&1 &
	pid=$! # <(:) sets it anew
	echo $pid >"$DOCS_DIR/weir.pid"
	for ((i = 0; i < 300; i++)); do
		"$REAL_WEIR" health >/dev/null 2>&1 && exit 0
		kill -0 $pid 2>/dev/null || break
		read -rt 0.1 <> <(:) || :
	done
	cat "$DOCS_DIR/serve.log"
	exit 1
	;;
tail\ *) timeout 3 "$REAL_WEIR" "$@"; [ $? -eq 124 ] ;;
*) exec "$REAL_WEIR" "$@" ;;
esac
`

// goProgram is what a snippet of Go is put into.
const goProgram = `package main

import (
	"context"
	"fmt"
	"log"
	"net/http"

	"weir/client"
)

var ctx = context.Background()

func main() {
%s
}
`
