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
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestNothingSleeps: a test sleeps only in a bubble of testing/synctest, where the time is not
// real. The one helper that waits for real is internal/weirtest/poll. A sleep may also be in a
// function or a method of a test that only bubbles use.
func TestNothingSleeps(t *testing.T) {
	t.Parallel()
	sleeps := 0
	for dir, files := range texts(t) {
		if !anySleeps(files) { // to read these takes seconds
			continue
		}
		var all []source
		for name, text := range files {
			all = append(all, parse(t, name, text))
		}
		s := newSleepers(all)
		sleeps += len(s.bubbled)
		switch filepath.Base(dir) {
		case "poll", "disk", "harness", "sim": // what waits for real, a device that is slow, a kit for bubbles alone, and a test that is one
			continue
		}
		for _, at := range s.outside() {
			t.Errorf("%s sleeps outside a bubble: wait with poll.Until for what must become true", at)
		}
	}
	require.Greater(t, sleeps, 50, "the sleeps in bubbles must be seen")
}

// TestNothingListensOnAFixedPort: a port that a test names may be taken; port 0 is free.
func TestNothingListensOnAFixedPort(t *testing.T) {
	t.Parallel()
	seen := 0
	for _, files := range texts(t) {
		for name, text := range files {
			if !bytes.Contains(text, []byte(".Listen")) && !bytes.Contains(text, []byte(`"--listen"`)) {
				continue
			}
			seen++
			for _, at := range fixedPorts(parse(t, name, text)) {
				t.Errorf("%s listens on a fixed port: use port 0", at)
			}
		}
	}
	require.Greater(t, seen, 10, "what listens must be seen")
}

// TestWaitsAreSeen shows what both checks find.
func TestWaitsAreSeen(t *testing.T) {
	t.Parallel()
	const text = `package p
type fake struct{}
func (fake) Do() { time.Sleep(1) }
type real struct{}
func (real) Do() { <-time.After(1) }
func TestA(t *testing.T) { synctest.Test(t, func(*testing.T) { time.Sleep(1); inside(); _ = fake{} }); both() }
func TestB(t *testing.T) { table.Bubble(t, nil, func() { both() }); time.Sleep(1) }
func TestC(t *testing.T) { use(real{}) }
func inside() { time.Sleep(1) }
func both() { time.Sleep(1); net.Listen("tcp", ":8080"); run("--listen", "127.0.0.1:1"); net.Listen("tcp", "127.0.0.1:0") }
`
	f := parse(t, "a_test.go", []byte(text))
	require.Equal(t, []string{"a_test.go:10", "a_test.go:5", "a_test.go:7"}, newSleepers([]source{f}).outside())
	require.Equal(t, []string{"a_test.go:10", "a_test.go:10"}, fixedPorts(f))
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

func anySleeps(files map[string][]byte) bool {
	for _, text := range files {
		if bytes.Contains(text, []byte("time.Sleep(")) || bytes.Contains(text, []byte("<-time.After(")) {
			return true
		}
	}
	return false
}

func parse(t *testing.T, name string, text []byte) source {
	t.Helper()
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, name, text, parser.SkipObjectResolution)
	require.NoError(t, err)
	return source{name, set, file}
}

// texts are the files of tests and of their kit by name, by directory.
func texts(t *testing.T) map[string]map[string][]byte {
	t.Helper()
	all, err := read()
	require.NoError(t, err)
	require.Greater(t, len(all), 50, "the whole house must be seen")
	return all
}

var read = sync.OnceValues(func() (all map[string]map[string][]byte, err error) {
	all = map[string]map[string][]byte{}
	return all, filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "node_modules" || d.Name() != ".." && strings.HasPrefix(d.Name(), ".")):
			return filepath.SkipDir
		case strings.HasSuffix(path, ".go") && (strings.HasSuffix(path, "_test.go") || strings.Contains(path, "weirtest")):
			dir := filepath.Dir(path)
			if all[dir] == nil {
				all[dir] = map[string][]byte{}
			}
			all[dir][path], err = os.ReadFile(path)
			return err
		}
		return nil
	})
})

// piece is a function, a method or a type of a package.
type piece struct {
	owner  string   // the type of a method
	tables bool     // its cases run in bubbles
	names  []string // what its code outside bubbles names
	sleeps []string // where it sleeps outside bubbles
}

// sleepers are the pieces of a package by name.
type sleepers struct {
	pieces  map[string][]*piece
	named   map[string]bool // all that the package names, in bubbles too
	roots   []string        // what go test runs, and what other packages may use
	bubbled []string        // where it sleeps in bubbles
}

var runByGoTest = regexp.MustCompile(`^(Test|Fuzz|Benchmark|Example)`)

func newSleepers(files []source) *sleepers {
	s := &sleepers{pieces: map[string][]*piece{}, named: map[string]bool{}}
	for _, f := range files {
		for _, d := range f.file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				s.function(f, d)
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					switch spec := spec.(type) {
					case *ast.TypeSpec:
						s.look(f, s.piece(spec.Name.Name, ""), spec.Type, false)
					case *ast.ValueSpec:
						for _, n := range spec.Names {
							for _, v := range spec.Values {
								s.look(f, s.piece(n.Name, ""), v, false)
							}
						}
					}
				}
			}
		}
	}
	return s
}

func (s *sleepers) function(f source, d *ast.FuncDecl) {
	owner := ""
	if d.Recv != nil {
		owner = receiver(d.Recv.List[0].Type)
	} else if runByGoTest.MatchString(d.Name.Name) || !strings.HasSuffix(f.name, "_test.go") && d.Name.IsExported() {
		s.roots = append(s.roots, d.Name.Name)
	}
	p := s.piece(d.Name.Name, owner)
	p.tables = bubbles(d)
	s.look(f, p, d.Type, false)
	if d.Body != nil {
		s.look(f, p, d.Body, false)
	}
}

// bubbles reports whether a function runs another in a bubble.
func bubbles(d *ast.FuncDecl) (yes bool) {
	ast.Inspect(d, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		yes = yes || ok && isBubble(call)
		return !yes
	})
	return yes
}

func isBubble(call *ast.CallExpr) bool {
	fun := dotted(call.Fun)
	return fun == "synctest.Test" || fun == "harness.EachStep" || strings.HasPrefix(fun, "table.Bubble")
}

func (s *sleepers) piece(name, owner string) *piece {
	p := &piece{owner: owner}
	s.pieces[name] = append(s.pieces[name], p)
	return p
}

// look adds to a piece what a node names and where it sleeps. To wait in a select for
// the first of several is no sleep.
func (s *sleepers) look(f source, p *piece, n ast.Node, bubble bool) {
	found := func(n ast.Node) {
		if bubble {
			s.bubbled = append(s.bubbled, f.at(n))
		} else {
			p.sleeps = append(p.sleeps, f.at(n))
		}
	}
	ast.Inspect(n, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.TypeSpec: // of the cases
			return !p.tables
		case *ast.CompositeLit:
			if p.tables && !bubble {
				s.look(f, p, n, true)
				return false
			}
		case *ast.CommClause:
			if first, ok := n.Comm.(*ast.ExprStmt); ok {
				s.look(f, p, first.X, bubble)
			} else if n.Comm != nil {
				s.look(f, p, n.Comm, bubble)
			}
			for _, stmt := range n.Body {
				s.look(f, p, stmt, bubble)
			}
			return false
		case *ast.CallExpr:
			switch {
			case dotted(n.Fun) == "time.Sleep":
				found(n)
			case isBubble(n):
				for _, arg := range n.Args {
					s.look(f, p, arg, true)
				}
				return false
			}
		case *ast.ExprStmt:
			if wait, ok := n.X.(*ast.UnaryExpr); ok && wait.Op == token.ARROW {
				if call, ok := wait.X.(*ast.CallExpr); ok && dotted(call.Fun) == "time.After" {
					found(n)
				}
			}
		case *ast.Ident:
			s.named[n.Name] = true
			if !bubble {
				p.names = append(p.names, n.Name)
			}
		}
		return true
	})
}

// outside is where the package sleeps for real: in what its roots reach without a bubble. They
// reach a method where they name both its type and it, or its type alone if nothing names the
// method: then it is called by an interface of another package.
func (s *sleepers) outside() (at []string) {
	names, done := map[string]bool{}, map[*piece]bool{}
	for _, root := range s.roots {
		names[root] = true
	}
	for more := true; more; {
		more = false
		for name, all := range s.pieces {
			for _, p := range all {
				reached := names[name]
				if p.owner != "" {
					reached = names[p.owner] && (reached || !s.named[name])
				}
				if !reached || done[p] {
					continue
				}
				done[p], more = true, true
				at = append(at, p.sleeps...)
				for _, n := range p.names {
					names[n] = true
				}
			}
		}
	}
	slices.Sort(at)
	return at
}

// receiver is the name of a method's type.
func receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.IndexListExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
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
