package secrets

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"weir/internal/policy/placeholder"
)

// parseMapping reads a flat YAML mapping of names to texts. It walks the syntax
// tree: the library's decoder takes numbers for texts, and quotes what it reads
// in its errors. Errors here name a line and a valid name, never a value.
func parseMapping(data []byte) (values map[string]Value, err error) {
	wrong := func(format string, args ...any) error { return &fileError{reason: fmt.Sprintf(format, args...)} }
	noYAML := wrong("the age file does not decrypt to YAML")
	defer func() {
		if recover() != nil { // the parser's own slips on broken text
			values, err = nil, noYAML
		}
	}()
	file, parseErr := parser.ParseBytes(data, 0, parser.AllowDuplicateMapKey())
	if parseErr != nil || !utf8.Valid(data) {
		return nil, noYAML
	}
	docs := slices.DeleteFunc(file.Docs, func(d *ast.DocumentNode) bool { return d.Body == nil || d.Body.Type() == ast.NullType })
	if len(docs) > 1 {
		return nil, wrong("the age file holds more than one YAML document")
	}
	values = map[string]Value{}
	for _, doc := range docs {
		pairs, ok := doc.Body.(ast.MapNode)
		if !ok {
			return nil, wrong("the age file does not decrypt to a mapping of names to values")
		}
		for pair := pairs.MapRange(); pair.Next(); {
			key, ok := pair.Key().(*ast.StringNode)
			if !ok || !placeholder.ValidName(key.Value) { // it is not shown: it may be a value in the wrong place
				return nil, wrong("the age file has a name on line %d that does not match %s", pair.Key().GetToken().Position.Line, placeholder.NamePattern)
			}
			name := key.Value
			if _, twice := values[name]; twice {
				return nil, wrong("the age file has %s twice", name)
			}
			text, ok := textOf(pair.Value())
			switch {
			case !ok:
				return nil, wrong("the value of %s in the age file is not text; write it in quotes", name)
			case len(text) > maxSize:
				return nil, wrong("the value of %s in the age file is too large", name)
			}
			values[name] = newValue(trimLine(text))
		}
	}
	return values, nil
}

func textOf(n ast.Node) (string, bool) {
	switch v := n.(type) {
	case *ast.StringNode:
		return v.Value, true
	case *ast.LiteralNode:
		return v.Value.Value, true
	default: // a number's spelling would be lost; aliases and tags have no use here
		return "", false
	}
}

// trimLine takes one line break from the end, which files and block texts have.
func trimLine(s string) string { return strings.TrimSuffix(strings.TrimSuffix(s, "\n"), "\r") }
