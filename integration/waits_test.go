package integration_test

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestNothingSleeps: a test sleeps only in a bubble of testing/synctest, where the time is not real. The
// one helper that waits for real is internal/weirtest/poll. A function that is no test may sleep in a
// file with bubbles, and in the kits that bubbles alone use.
func TestNothingSleeps(t *testing.T) {
	t.Parallel()
	bubbled := 0
	for _, f := range sources(t, "time.Sleep(", "<-time.After(") {
		outside, inside := sleeps(f)
		bubbled += inside
		switch filepath.Base(filepath.Dir(f.name)) {
		case "poll", "disk", "harness", "sim": // what waits for real, a device that is slow, a kit for bubbles, and a test that is one
			continue
		}
		for _, at := range outside {
			t.Errorf("%s sleeps outside a bubble: wait with poll.Until for what must become true", at)
		}
	}
	require.Greater(t, bubbled, 50, "the sleeps in bubbles must be seen")
}

// TestNothingListensOnAFixedPort: a port that a test names may be taken; port 0 is free.
func TestNothingListensOnAFixedPort(t *testing.T) {
	t.Parallel()
	all := sources(t, ".Listen", `"--listen"`)
	require.Greater(t, len(all), 10, "what listens must be seen")
	for _, f := range all {
		for _, at := range fixedPorts(f) {
			t.Errorf("%s listens on a fixed port: use port 0", at)
		}
	}
}

// TestWaitsAreSeen shows what both checks find.
func TestWaitsAreSeen(t *testing.T) {
	t.Parallel()
	const text = `package p
func TestA(t *testing.T) { synctest.Test(t, func(*testing.T) { time.Sleep(1); inside() }) }
func TestB(t *testing.T) { table.Bubble(t, nil, func() { inside() }); time.Sleep(1) }
func TestC(t *testing.T) { <-time.After(1); select { case <-time.After(1): } }
func inside() { time.Sleep(1) }
func ports() { net.Listen("tcp", ":8080"); run("--listen", "127.0.0.1:1"); net.Listen("tcp", "127.0.0.1:0") }
`
	f := parse(t, "a_test.go", []byte(text))
	outside, inside := sleeps(f)
	require.Equal(t, []string{"a_test.go:3", "a_test.go:4"}, outside)
	require.Equal(t, 2, inside)
	outside, _ = sleeps(parse(t, "b_test.go", []byte("package p\nfunc help() { time.Sleep(1) }\n")))
	require.Equal(t, []string{"b_test.go:2"}, outside, "the file has no bubble")
	require.Equal(t, []string{"a_test.go:6", "a_test.go:6"}, fixedPorts(f))
}

// source is a file of tests or of their kit.
type source struct {
	name string
	set  *token.FileSet
	file *ast.File
}

func (s source) at(n ast.Node) string {
	p := s.set.Position(n.Pos())
	return filepath.ToSlash(s.name) + ":" + strconv.Itoa(p.Line)
}

func parse(t *testing.T, name string, text []byte) source {
	t.Helper()
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, name, text, parser.SkipObjectResolution)
	require.NoError(t, err)
	return source{name, set, file}
}

// sources are the files of tests and of their kit that have one of these words.
func sources(t *testing.T, words ...string) (all []source) {
	t.Helper()
	require.NoError(t, filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "node_modules" || d.Name() != ".." && strings.HasPrefix(d.Name(), ".")):
			return filepath.SkipDir
		case strings.HasSuffix(path, ".go") && (strings.HasSuffix(path, "_test.go") || strings.Contains(path, "weirtest")):
			text, err := os.ReadFile(path)
			if slices.ContainsFunc(words, func(word string) bool { return bytes.Contains(text, []byte(word)) }) {
				all = append(all, parse(t, path, text))
			}
			return err
		}
		return nil
	}))
	return all
}

// bubbleKits are files without bubbles whose functions run in those of their package.
var bubbleKits = []string{"../internal/rules/kit_test.go", "../internal/token/kit_test.go", "../processors/call/kit_test.go"}

// sleeps is where a file sleeps outside bubbles, and how often it may sleep: in a bubble, or in a
// function that is for bubbles. A wait in a select for the first of several is no sleep.
func sleeps(f source) (outside []string, inside int) {
	kit := slices.Contains(bubbleKits, filepath.ToSlash(f.name))
	ast.Inspect(f.file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		kit = kit || ok && isBubble(call)
		return true
	})
	var look func(n ast.Node, bubble, cases bool)
	look = func(n ast.Node, bubble, cases bool) {
		ast.Inspect(n, func(n ast.Node) bool {
			slept := false
			switch n := n.(type) {
			case *ast.FuncDecl:
				test := n.Recv == nil && strings.HasPrefix(n.Name.Name, "Test")
				look(n.Body, kit && !test, kit)
				return false
			case *ast.CompositeLit: // the cases of a test run in bubbles
				for _, e := range n.Elts {
					look(e, bubble || cases, cases)
				}
				return false
			case *ast.CommClause:
				for _, stmt := range n.Body {
					look(stmt, bubble, cases)
				}
				return false
			case *ast.CallExpr:
				if isBubble(n) {
					for _, arg := range n.Args {
						look(arg, true, cases)
					}
					return false
				}
				slept = dotted(n.Fun) == "time.Sleep"
			case *ast.ExprStmt:
				if wait, ok := n.X.(*ast.UnaryExpr); ok && wait.Op == token.ARROW {
					call, ok := wait.X.(*ast.CallExpr)
					slept = ok && dotted(call.Fun) == "time.After"
				}
			}
			switch {
			case slept && bubble:
				inside++
			case slept:
				outside = append(outside, f.at(n))
			}
			return true
		})
	}
	look(f.file, kit, kit)
	return outside, inside
}

var fixedPort = regexp.MustCompile(`^"[^" ]*:[1-9]\d*"$`)

// fixedPorts is where a file listens on a port that it names: in a call of Listen, or after --listen.
func fixedPorts(f source) (at []string) {
	literal := func(e ast.Expr) string {
		if lit, ok := e.(*ast.BasicLit); ok {
			return lit.Value
		}
		return ""
	}
	check := func(list []ast.Expr, listens bool) {
		for i, e := range list {
			if fixedPort.MatchString(literal(e)) && (listens || i > 0 && literal(list[i-1]) == `"--listen"`) {
				at = append(at, f.at(e))
			}
		}
	}
	ast.Inspect(f.file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			sel, ok := n.Fun.(*ast.SelectorExpr)
			check(n.Args, ok && strings.HasPrefix(sel.Sel.Name, "Listen"))
		case *ast.CompositeLit:
			check(n.Elts, false)
		}
		return true
	})
	return at
}

func isBubble(call *ast.CallExpr) bool {
	fun := dotted(call.Fun)
	return fun == "synctest.Test" || fun == "harness.EachStep" || strings.HasPrefix(fun, "table.Bubble")
}

// dotted is the name of a package's function, as its callers write it.
func dotted(e ast.Expr) string {
	if sel, ok := e.(*ast.SelectorExpr); ok {
		if x, ok := sel.X.(*ast.Ident); ok {
			return x.Name + "." + sel.Sel.Name
		}
	}
	return ""
}
