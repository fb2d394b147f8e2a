package secrets

import (
	"fmt"
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
	defer func() {
		if recover() != nil { // the parser's own slips on broken text
			values, err = nil, errNotYAML
		}
	}()
	if !utf8.Valid(data) {
		return nil, errNotYAML
	}
	file, parseErr := parser.ParseBytes(data, 0, parser.AllowDuplicateMapKey())
	if parseErr != nil {
		return nil, errNotYAML
	}
	values = map[string]Value{}
	documents := 0
	for _, doc := range file.Docs {
		if doc.Body == nil || doc.Body.Type() == ast.NullType {
			continue
		}
		if documents++; documents > 1 {
			return nil, &fileError{reason: "the age file holds more than one YAML document"}
		}
		if err := readPairs(doc.Body, values); err != nil {
			return nil, err
		}
	}
	return values, nil
}

var errNotYAML = &fileError{reason: "the age file does not decrypt to YAML"}

func readPairs(n ast.Node, into map[string]Value) error {
	var pairs []*ast.MappingValueNode
	switch m := n.(type) {
	case *ast.MappingNode:
		pairs = m.Values
	case *ast.MappingValueNode:
		pairs = []*ast.MappingValueNode{m}
	default:
		return &fileError{reason: "the age file does not decrypt to a mapping of names to values"}
	}
	for _, pair := range pairs {
		key, ok := pair.Key.(*ast.StringNode)
		if !ok || !placeholder.ValidName(key.Value) { // it is not shown: it may be a value in the wrong place
			return &fileError{reason: fmt.Sprintf("the age file has a name on line %d that does not match %s", lineOf(pair.Key), placeholder.NamePattern)}
		}
		if _, twice := into[key.Value]; twice {
			return &fileError{reason: fmt.Sprintf("the age file has %s twice", key.Value)}
		}
		text, ok := textOf(pair.Value)
		if !ok {
			return &fileError{reason: fmt.Sprintf("the value of %s in the age file is not text; write it in quotes", key.Value)}
		}
		if len(text) > maxSize {
			return &fileError{reason: fmt.Sprintf("the value of %s in the age file is too large", key.Value)}
		}
		into[key.Value] = newValue(trimLine(text))
	}
	return nil
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

func lineOf(n ast.Node) int {
	if t := n.GetToken(); t != nil && t.Position != nil {
		return t.Position.Line
	}
	return 0
}
