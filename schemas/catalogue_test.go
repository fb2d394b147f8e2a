package schemas_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/schemas"
)

// declared lists the constants of a file whose names or types begin so.
func declared[T ~string](t *testing.T, file, prefix string) (values []T) {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	require.NoError(t, err)
	ast.Inspect(parsed, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || len(spec.Values) != 1 {
			return true
		}
		typ, _ := spec.Type.(*ast.Ident)
		literal, ok := spec.Values[0].(*ast.BasicLit)
		if !ok || !strings.HasPrefix(spec.Names[0].Name, prefix) && (typ == nil || typ.Name != prefix) {
			return true
		}
		text, err := strconv.Unquote(literal.Value)
		require.NoError(t, err)
		values = append(values, T(text))
		return true
	})
	return values
}

// TestEveryCodeIsExplained: each code of code.go has one row in the catalogue, no row is of another
// code, and each part of a row is one sentence.
func TestEveryCodeIsExplained(t *testing.T) {
	t.Parallel()
	codes := declared[schemas.Code](t, "code.go", "Code")
	require.Greater(t, len(codes), 70)
	var rows []schemas.Code
	for _, h := range schemas.Catalogue() {
		rows = append(rows, h.Code)
		for _, text := range []string{h.Meaning, h.Cause, h.Action} {
			assert.True(t, strings.HasSuffix(text, ".") && len(text) > 8, "%s: %q is no sentence", h.Code, text)
			assert.LessOrEqual(t, len(strings.Fields(text)), 25, h.Code)
		}
	}
	slices.Sort(codes)
	slices.Sort(rows)
	assert.Equal(t, codes, rows)
}

// TestEveryEventIsExplained: each event type and each kind of evidence has one row, with all of its parts.
func TestEveryEventIsExplained(t *testing.T) {
	t.Parallel()
	view := reflect.TypeFor[schemas.EventView]()
	members := map[string]bool{"": true}
	for field := range view.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		members[name] = true
	}
	var types []schemas.EventType
	for _, h := range schemas.Events() {
		types = append(types, h.Type)
		assert.True(t, members[h.Member], "%s: the schema has no member %q", h.Type, h.Member)
		assert.NotEmpty(t, h.When)
		assert.NotEmpty(t, h.Written)
	}
	assert.Equal(t, declared[schemas.EventType](t, "event.go", "EventType"), types)
	var kinds []string
	for _, h := range schemas.EvidenceKinds() {
		kinds = append(kinds, h.Kind)
		assert.NotEmpty(t, h.When)
		if h.Payload != "" {
			assert.FileExists(t, "json/"+h.Payload+".json")
		}
	}
	assert.Equal(t, declared[string](t, "record.go", "Evidence"), kinds)
}
