package integration_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// pkg is what `go list` says of one package.
type pkg struct {
	ImportPath string   `json:"ImportPath"`
	ForTest    string   `json:"ForTest"` // of a variant that a test of that package needs
	Dir        string   `json:"Dir"`
	Imports    []string `json:"Imports"`
	Deps       []string `json:"Deps"`
	GoFiles    []string `json:"GoFiles"`
}

// pureInternals do no I/O of their own: they decide from their arguments, or keep copies through
// interfaces that their callers give them.
var pureInternals = []string{"policy", "retry", "fault", "redact", "traffic", "jsonschema", "postcondition", "task", "gitwire", "models", "completion", "limits", "mirror", "nearest"}

// TestImportLaw holds the tree to the picture of the pipeline.
func TestImportLaw(t *testing.T) {
	t.Parallel()
	packages := list(t, false)
	require.Greater(t, len(packages), 15, "the law must see the whole house")
	for _, p := range packages {
		for _, imported := range p.Imports {
			if why := breach(p.ImportPath, imported); why != "" {
				t.Errorf("%s imports %s: %s", p.ImportPath, imported, why)
			}
		}
	}
}

// clients are the names of net/http that send.
var clients = []string{
	"Client", "DefaultClient", "Transport", "DefaultTransport", "NewRequest", "NewRequestWithContext", "Get", "Head", "Post", "PostForm",
}

// TestOneWayOut: only internal/outbound has an HTTP client. The typed client and the commands
// that talk to others than Weir have one too: they are clients of Weir, not Weir.
func TestOneWayOut(t *testing.T) {
	t.Parallel()
	found := 0
	for _, p := range list(t, false) {
		for _, name := range p.GoFiles {
			for _, used := range httpNames(t, filepath.Join(p.Dir, name)) {
				if !slices.Contains(clients, used) {
					continue
				}
				found++
				if p.ImportPath != "weir/internal/outbound" && p.ImportPath != "weir/client" && !strings.HasPrefix(p.ImportPath, "weir/cmd/") && !strings.HasPrefix(p.ImportPath, "weir/internal/weirtest") {
					t.Errorf("%s/%s uses http.%s: calls go out through internal/outbound", p.ImportPath, name, used)
				}
			}
		}
	}
	require.Positive(t, found, "the guarded client itself must be seen")
}

// httpNames are the names of net/http that a file uses.
func httpNames(t *testing.T, path string) []string {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	if !bytes.Contains(text, []byte(`"net/http"`)) {
		return nil
	}
	file, err := parser.ParseFile(token.NewFileSet(), path, text, parser.SkipObjectResolution)
	require.NoError(t, err)
	var names []string
	ast.Inspect(file, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := sel.X.(*ast.Ident); ok && x.Name == "http" {
				names = append(names, sel.Sel.Name)
			}
		}
		return true
	})
	return names
}

// TestLinked: linking these is most of what some test binaries cost.
func TestLinked(t *testing.T) {
	t.Parallel()
	for library, most := range map[string]int{"github.com/nats-io/nats-server/v2/server": 12, "modernc.org/sqlite": 3} {
		var linking []string
		for _, p := range list(t, true) {
			if slices.Contains(p.Deps, library) {
				linking = append(linking, p.ImportPath)
			}
		}
		require.NotEmpty(t, linking, library)
		require.LessOrEqual(t, len(linking), most, "%v link %s", linking, library)
	}
}

// TestImportLawSeesBreaches shows that each clause of the law can fail.
func TestImportLawSeesBreaches(t *testing.T) {
	t.Parallel()
	breaches := [][2]string{
		{"weir/schemas", "weir/internal/fault"},
		{"weir/schemas", "github.com/google/uuid"},
		{"weir/internal/policy", "weir/internal/ledger"},
		{"weir/internal/policy", "net/http"},
		{"weir/internal/retry", "os"},
		{"weir/internal/broker", "weir/internal/ledger"},
		{"weir/internal/outbound", "weir/ingress"},
		{"weir/ingress", "weir/egress/stream"},
		{"weir/ingress/plans", "weir/processors/plans"},
		{"weir/processors", "weir/egress"},
		{"weir/egress/plans", "weir/ingress"},
		{"weir/ingress", "weir/cmd/app"},
		{"weir/cmd/weir", "weir/ingress"},
		{"weir/cmd/cli", "weir/internal/policy"},
		{"weir/cmd/cli/runner", "weir/cmd/app"},
		{"weir/client", "weir/internal/fault"},
		{"weir/processors/call", "github.com/gin-gonic/gin"},
		{"weir/internal/problem", "github.com/gin-gonic/gin"},
		{"weir/egress/stream", "github.com/nats-io/nats.go"},
		{"weir/internal/broker", "github.com/nats-io/nats-server/v2/server"},
		{"weir/processors/call/direct", "net/http/httputil"},
	}
	for _, b := range breaches {
		require.NotEmpty(t, breach(b[0], b[1]), "%s importing %s must be a breach", b[0], b[1])
	}
}

// breach says what is wrong with an import, or nothing.
func breach(from, to string) string {
	if why := outside(from, to); why != "" {
		return why
	}
	if !strings.HasPrefix(to, "weir/") {
		return ""
	}
	top, target := part(from, 1), part(to, 1)
	switch top {
	case "schemas":
		if target != "schemas" && from != "weir/schemas/gen" {
			return "the contracts stand alone"
		}
	case "internal":
		return internals(from, to)
	case "ingress", "processors", "egress":
		if target != top && target != "internal" && target != "schemas" {
			return "ingress, processors and egress meet in schemas and on the log"
		}
	case "client":
		if target != "schemas" {
			return "the typed client knows the contracts alone"
		}
	case "cmd":
		switch {
		case from == "weir/cmd/weir" && to != "weir/cmd/app":
			return "main does nothing but call app"
		case part(from, 2) != "cli":
		case target != "schemas" && target != "client" && to != "weir/internal/nearest" && !strings.HasPrefix(to, "weir/cmd/cli/"):
			return "the commands are clients of the HTTP API"
		}
	}
	return ""
}

// internals is the law of the internal packages.
func internals(from, to string) string {
	name, target := part(from, 2), part(to, 2)
	if name == "weirtest" || part(to, 1) == "schemas" || strings.HasPrefix(to, "weir/internal/"+name) {
		return ""
	}
	if part(to, 1) != "internal" {
		return "the internals only look down"
	}
	if !slices.Contains(pureInternals, target) && target != "failpoint" { // in the program it is nothing at all
		return "an internal may use the pure ones and schemas"
	}
	return ""
}

// outside is the law for what is not ours.
func outside(from, to string) string {
	pure := part(from, 1) == "internal" && slices.Contains(pureInternals, part(from, 2))
	room := func(names ...string) bool { return slices.Contains(names, part(from, 1)) }
	switch {
	case from == "weir/schemas" && strings.Contains(part(to, 0), "."):
		return "schemas import the standard library only"
	case pure && slices.Contains([]string{"os", "net/http", "os/exec", "io/fs"}, to):
		return "a pure internal does no I/O"
	case strings.HasPrefix(to, "github.com/gin-gonic/") && !room("ingress", "egress") && from != "weir/cmd/app":
		return "gin belongs to ingress, egress and cmd/app"
	case strings.HasPrefix(to, "github.com/nats-io/nats-server") && from != "weir/internal/broker/embedded":
		return "the embedded server belongs to internal/broker/embedded"
	case (strings.HasPrefix(to, "github.com/nats-io/nats.go") || strings.HasPrefix(to, "github.com/synadia-io/")) &&
		!strings.HasPrefix(from, "weir/internal/broker") && !strings.HasPrefix(from, "weir/internal/weirtest") &&
		!strings.HasPrefix(from, "weir/examples/"): // examples are programs of users, which read the streams themselves
		return "nats.go belongs to internal/broker and to the kit of tests"
	case strings.HasPrefix(to, "net/http/") && room("processors"):
		return "calls go out through internal/outbound"
	}
	return ""
}

// part is the i-th element of an import path, or nothing.
func part(path string, i int) string {
	parts := strings.Split(path, "/")
	if i >= len(parts) {
		return ""
	}
	return parts[i]
}

// list returns the packages of the module, or their test binaries.
func list(t *testing.T, binaries bool) []pkg {
	t.Helper()
	all, err := listed()
	require.NoError(t, err)
	return slices.DeleteFunc(slices.Clone(all), func(p pkg) bool {
		return p.ForTest != "" || binaries != strings.HasSuffix(p.ImportPath, ".test")
	})
}

// listed reads the packages of the module and of their tests once: that takes a second.
var listed = sync.OnceValues(func() (all []pkg, err error) {
	out, err := exec.Command("go", "list", "-test", "-json=ImportPath,ForTest,Dir,Imports,Deps,GoFiles", "weir/...").Output()
	for dec := json.NewDecoder(bytes.NewReader(out)); err == nil; {
		var p pkg
		if err = dec.Decode(&p); err == nil {
			all = append(all, p)
		}
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return all, err
})
