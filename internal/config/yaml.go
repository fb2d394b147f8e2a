package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"weir/schemas"
)

// The bounds of a file that is given to the YAML parser, which recurses.
const (
	maxFile  = 1 << 20
	maxDepth = 64
)

// yaml reads the text of a file over c. It walks the syntax tree: the library's decoder stops at the
// first error, quotes the source in it, secrets included, and takes a number where text is meant.
func (r *reader) yaml(data []byte, c *Config) {
	root := r.parse(data)
	if c.blank = root == nil; !c.blank {
		r.decode("", root, reflect.ValueOf(c).Elem())
	}
}

func (r *reader) parse(data []byte) (root ast.Node) {
	const no = "it is not a configuration"
	if r.refuse(!utf8.Valid(data) || bytes.IndexByte(data, 0) >= 0, "", "the file is not UTF-8 text") ||
		r.refuse(len(data) > maxFile, "", "the file is larger than 1MiB; %s", no) ||
		r.refuse(deep(data), "", "lists and mappings are nested more than %d deep; %s", maxDepth, no) {
		return nil
	}
	defer func() {
		if recover() != nil { // the parser's own slips on broken text
			root = nil
			r.wrong("", "the file is not YAML")
		}
	}()
	file, err := parser.ParseBytes(data, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		where, what := r.file, "the file is not YAML"
		if syntax, ok := errors.AsType[*yaml.SyntaxError](err); ok && syntax.Token != nil {
			where += ":" + strconv.Itoa(syntax.Token.Position.Line)
			message, _, _ := strings.Cut(syntax.Message, "\"") // a quote may be a piece of a secret
			what = "not YAML: " + strings.TrimRight(message, ": ")
		}
		r.at(where, "", "%s", what)
		return nil
	}
	docs := slices.DeleteFunc(file.Docs, func(d *ast.DocumentNode) bool { return d.Body == nil || d.Body.Type() == ast.NullType })
	switch len(docs) {
	case 0:
		return nil
	case 1:
		return docs[0].Body
	default:
		r.at(r.line(docs[1].Body), "", "a second document begins here; one file holds one configuration")
		return nil
	}
}

// deep reports whether flow or block collections may nest beyond maxDepth. It counts, and does not
// understand: the beginning of a line bounds how many blocks can be open in it.
func deep(data []byte) bool {
	flow := 0
	for line := range bytes.Lines(data) {
		if len(line)-len(bytes.TrimLeft(line, " \t-?:")) > 2*maxDepth {
			return true
		}
		for _, c := range line {
			switch c {
			case '[', '{':
				flow++
			case ']', '}':
				flow = max(flow-1, 0)
			}
			if flow > maxDepth {
				return true
			}
		}
	}
	return false
}

func (r *reader) line(n ast.Node) string {
	if t := n.GetToken(); t != nil && t.Position != nil {
		return r.file + ":" + strconv.Itoa(t.Position.Line)
	}
	return r.file
}

// decode reads a node into v, which is settable.
func (r *reader) decode(path string, n ast.Node, v reflect.Value) {
	switch n.(type) {
	case *ast.AnchorNode, *ast.AliasNode, *ast.TagNode:
		r.wrong(path, "anchors, aliases and tags are not supported; write the value out")
		return
	}
	if v.Type() == reflect.TypeFor[json.RawMessage]() {
		v.SetBytes(r.document(path, n))
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		v.Elem().Set(fresh(v.Type().Elem()))
		r.decode(path, n, v.Elem())
	case reflect.Struct, reflect.Map:
		r.mapping(path, n, v)
	case reflect.Slice:
		r.list(path, n, v)
	default:
		r.scalar(path, n, v)
	}
}

// maxDocument is the largest JSON file that a key may name.
const maxDocument = 256 << 10

// document is a JSON value that is written in place, or that the named file holds. The members of its
// objects are sorted, so that two ways to write it are one.
func (r *reader) document(path string, n ast.Node) (doc []byte) {
	var err error
	text, ok := n.(*ast.StringNode)
	switch {
	case ok && strings.HasPrefix(strings.TrimSpace(text.Value), "{"):
		doc = []byte(text.Value)
		if r.refuse(!json.Valid(doc), path, "is not a JSON value without repeated members; correct it, or name a file with it") {
			return nil
		}
	case ok:
		doc = r.named(path, text.Value)
	default:
		var value any
		if err = yaml.NodeToValue(n, &value); err == nil {
			doc, err = json.Marshal(value)
		}
		if r.refuse(err != nil || repeats(n), path, "is not a JSON value without repeated members; correct it, or name a file with it") {
			return nil
		}
	}
	if doc == nil {
		return nil
	}
	sorted, err := jsontext.AppendFormat(nil, doc, jsontext.ReorderRawObjects(true))
	r.refuse(err != nil, path, "names a file that is not one JSON document without repeated members; correct it")
	return sorted
}

// repeats reports whether a mapping in a node has a key twice.
func repeats(n ast.Node) bool {
	for _, m := range ast.Filter(ast.MappingType, n) {
		mapping, ok := m.(ast.MapNode)
		if !ok {
			continue
		}
		seen := map[string]bool{}
		for pair := mapping.MapRange(); pair.Next(); {
			key := pair.Key().String()
			if seen[key] {
				return true
			}
			seen[key] = true
		}
	}
	return false
}

// named is the content of a file, relative to the folder of the configuration; nil with a problem.
func (r *reader) named(path, name string) []byte {
	if !filepath.IsAbs(name) {
		name = filepath.Join(filepath.Dir(r.file), name)
	}
	r.files = append(r.files, name)
	f, err := os.Open(name) //nolint:gosec // the operator names it
	if err == nil {
		defer f.Close()
		doc, failed := io.ReadAll(io.LimitReader(f, maxDocument+1))
		r.refuse(failed == nil && len(doc) > maxDocument, path, "names a file of more than 256KiB; name a smaller one")
		if err = failed; err == nil {
			return doc
		}
	}
	r.wrong(path, "names a file that cannot be read: %v; name one that this user may read, relative to the folder of this configuration", reason(err))
	return nil
}

// mapping reads keys and values into a struct, or names and values into a map.
func (r *reader) mapping(path string, n ast.Node, v reflect.Value) {
	m, ok := n.(ast.MapNode)
	if n.Type() == ast.NullType || r.refuse(!ok, path, "is a YAML %s; write keys and values below it", n.Type().YAMLName()) {
		return // without keys
	}
	if v.Kind() == reflect.Map {
		v.Set(reflect.MakeMap(v.Type()))
	}
	seen := map[string]string{}
	for pair := m.MapRange(); pair.Next(); {
		where := r.line(pair.Key())
		name, ok := pair.Key().(*ast.StringNode)
		if !ok {
			r.at(where, path, "a key here is not plain text; write a name, in quotes where it is a number")
			continue
		}
		key := name.Value
		inner := join(path, key)
		if first, again := seen[key]; again {
			r.at(where, inner, "the key appears twice, first at %s; remove one", first)
			continue
		}
		seen[key] = where
		r.given[inner] = origin{where: where}
		if v.Kind() == reflect.Map {
			value := fresh(v.Type().Elem())
			r.decode(inner, pair.Value(), value)
			v.SetMapIndex(reflect.ValueOf(key), value)
			continue
		}
		all := members(path, v)
		i := slices.IndexFunc(all, func(f field) bool { return f.key == key })
		if !r.refuse(i < 0, inner, "unknown key; %s", advice(key, keys(v.Type()))) {
			r.decode(inner, pair.Value(), all[i].value)
		}
	}
}

func (r *reader) list(path string, n ast.Node, v reflect.Value) {
	if word, ok := n.(*ast.StringNode); ok && v.Type() == reflect.TypeFor[Pass]() {
		v.Set(reflect.ValueOf(Pass{word.Value}))
		return
	}
	var nodes []ast.Node
	if seq, ok := n.(*ast.SequenceNode); ok {
		nodes = seq.Values
	} else if r.refuse(n.Type() != ast.NullType, path, `is a YAML %s; write a list: [a, b], or one "- " a line`, n.Type().YAMLName()) {
		return
	}
	v.Set(reflect.MakeSlice(v.Type(), len(nodes), len(nodes)))
	for i, node := range nodes {
		inner := item(path, i)
		r.given[inner] = origin{where: r.line(node)}
		v.Index(i).Set(fresh(v.Type().Elem()))
		r.decode(inner, node, v.Index(i))
	}
}

func (r *reader) scalar(path string, n ast.Node, v reflect.Value) {
	t, o, fits := v.Type(), r.given[path], false
	switch s := n.(type) {
	case *ast.StringNode:
		o.text, fits = s.Value, t != reflect.TypeFor[int]() && t != reflect.TypeFor[int64]()
	case *ast.LiteralNode:
		o.text, fits = s.Value.Value, true
	case *ast.IntegerNode:
		o.text, fits = fmt.Sprint(s.Value), t.Kind() != reflect.String
	case *ast.FloatNode:
		o.text, fits = s.Token.Value, t == reflect.TypeFor[schemas.USD]() // as it is written, not as it is rounded
	case *ast.BoolNode:
		o.text, fits = strconv.FormatBool(s.Value), t.Kind() == reflect.Bool
	case *ast.NullNode:
		r.wrong(path, "has no value; give one or remove the key")
		return
	}
	r.given[path] = o
	if !r.refuse(!fits, path, "is a YAML %s; %s", n.Type().YAMLName(), formOf(path, t)) {
		r.refuse(!setText(v, o.text), path, "cannot be read; %s", form(t))
	}
}
