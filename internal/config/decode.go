package config

import (
	"encoding"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// maxFile and maxDepth bound what is given to the YAML parser.
const (
	maxFile  = 1 << 20
	maxDepth = 64
)

// yaml reads a file's text over c. It walks the syntax tree itself instead of
// using the library's decoder: that stops at the first error, quotes the source
// in it, secrets included, and takes a number where text is meant.
func (r *reader) yaml(data []byte, c *Config) {
	root := r.parse(data)
	if c.blank = root == nil; c.blank {
		return
	}
	r.decode("", root, reflect.ValueOf(c).Elem())
}

func (r *reader) parse(data []byte) (root ast.Node) {
	if len(data) > maxFile {
		r.at(r.file, "", "the file is larger than %s; it is not a configuration", Size(maxFile))
		return nil
	}
	if deep(data) {
		r.at(r.file, "", "lists and mappings are nested more than %d deep; it is not a configuration", maxDepth)
		return nil
	}
	defer func() {
		if recover() != nil { // the parser's own slips on broken text
			root = nil
			r.at(r.file, "", "the file is not YAML")
		}
	}()
	file, err := parser.ParseBytes(data, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		r.syntax(err)
		return nil
	}
	for _, doc := range file.Docs {
		if doc.Body == nil || doc.Body.Type() == ast.NullType {
			continue
		}
		if root != nil {
			r.at(r.line(doc.Body), "", "a second document begins here; one file holds one configuration")
			return nil
		}
		root = doc.Body
	}
	return root
}

func (r *reader) syntax(err error) {
	var syntax *yaml.SyntaxError
	if errors.As(err, &syntax) && syntax.Token != nil {
		// What the parser quotes may be a piece of a secret.
		message, _, _ := strings.Cut(syntax.Message, "\"")
		r.at(r.file+":"+strconv.Itoa(syntax.Token.Position.Line), "", "not YAML: %s", strings.TrimRight(message, ": "))
		return
	}
	r.at(r.file, "", "the file is not YAML")
}

// deep reports whether flow or block collections may nest beyond maxDepth,
// before a parser that recurses sees them. It counts, and does not understand.
func deep(data []byte) bool {
	flow := 0
	for line := range strings.Lines(string(data)) {
		text := strings.TrimLeft(line, " ")
		if len(line)-len(text) > 16*maxDepth {
			return true
		}
		inLine := 0 // collections that begin one inside the other on this line
		for len(text) > 1 && strings.IndexByte("-?:", text[0]) >= 0 && (text[1] == ' ' || text[1] == '\t') {
			inLine++
			text = strings.TrimLeft(text[1:], " \t")
		}
		opened := strings.Count(text, "[") + strings.Count(text, "{")
		closed := strings.Count(text, "]") + strings.Count(text, "}")
		if flow = max(flow+opened-closed, 0); flow > maxDepth || inLine > maxDepth || opened > 64*maxDepth {
			return true
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
	switch {
	case v.Kind() == reflect.Pointer:
		fresh := reflect.New(v.Type().Elem())
		r.decode(path, n, fresh.Elem())
		v.Set(fresh)
	case isScalar(v.Type()):
		r.scalar(path, n, v)
	case v.Kind() == reflect.Struct:
		r.mapping(path, n, func(key string, value ast.Node) { r.field(path, key, value, v) })
	case v.Kind() == reflect.Map:
		r.stringMap(path, n, v)
	case v.Kind() == reflect.Slice:
		r.list(path, n, v)
	default:
		panic("config: no way to read a " + v.Type().String())
	}
}

// mapping calls each for every pair, after noting where its key stands.
func (r *reader) mapping(path string, n ast.Node, each func(key string, value ast.Node)) {
	var pairs []*ast.MappingValueNode
	switch m := n.(type) {
	case *ast.MappingNode:
		pairs = m.Values
	case *ast.MappingValueNode:
		pairs = []*ast.MappingValueNode{m}
	case *ast.NullNode:
		return // a section without keys
	default:
		r.wrong(path, "is %s; write keys and values below it", describe(n))
		return
	}
	seen := make(map[string]string, len(pairs))
	for _, pair := range pairs {
		where := r.line(pair.Key)
		text, ok := pair.Key.(*ast.StringNode)
		if !ok {
			r.at(where, path, "a key here is not plain text; write a name, in quotes where it is a number")
			continue
		}
		inner := join(path, text.Value)
		if first, repeated := seen[text.Value]; repeated {
			r.at(where, inner, "the key is here twice, first at %s; remove one", first)
			continue
		}
		seen[text.Value] = where
		r.given[inner] = where
		each(text.Value, pair.Value)
	}
}

func (r *reader) field(path, key string, value ast.Node, v reflect.Value) {
	var names []string
	for i := range v.NumField() {
		name := keyOf(v.Type().Field(i))
		if name == "" {
			continue
		}
		if name == key {
			r.decode(join(path, key), value, v.Field(i))
			return
		}
		names = append(names, name)
	}
	r.wrong(join(path, key), "unknown key; %s", advice(key, names))
}

// stringMap reads names and texts, or names and sections. What is wrong with a value is told without
// the value: headers hold credentials.
func (r *reader) stringMap(path string, n ast.Node, v reflect.Value) {
	if v.Type().Key().Kind() != reflect.String {
		panic("config: no way to read a " + v.Type().String())
	}
	m := reflect.MakeMap(v.Type())
	r.mapping(path, n, func(key string, value ast.Node) {
		item := blank(v.Type().Elem())
		r.decode(join(path, key), value, item)
		m.SetMapIndex(reflect.ValueOf(key).Convert(v.Type().Key()), item)
	})
	v.Set(m)
}

// blank is what an item of a mapping or a list is before the file says anything of it.
func blank(t reflect.Type) reflect.Value {
	item := reflect.New(t).Elem()
	for _, known := range []any{newAgent(), newModel(), newUpstream()} {
		if v := reflect.ValueOf(known); v.Type() == t {
			item.Set(v)
		}
	}
	return item
}

func (r *reader) list(path string, n ast.Node, v reflect.Value) {
	if n.Type() == ast.NullType {
		v.Set(reflect.MakeSlice(v.Type(), 0, 0))
		return
	}
	if text, ok := n.(*ast.StringNode); ok && v.Type() == reflect.TypeFor[Pass]() {
		v.Set(reflect.ValueOf(Pass{text.Value}))
		return
	}
	seq, ok := n.(*ast.SequenceNode)
	if !ok {
		r.wrong(path, "is %s; write a list: [a, b], or one \"- \" a line", describe(n))
		return
	}
	items := reflect.MakeSlice(v.Type(), len(seq.Values), len(seq.Values))
	for i, item := range seq.Values {
		inner := path + "[" + strconv.Itoa(i) + "]"
		r.given[inner] = r.line(item)
		items.Index(i).Set(blank(items.Type().Elem()))
		r.decode(inner, item, items.Index(i))
	}
	v.Set(items)
}

func (r *reader) scalar(path string, n ast.Node, v reflect.Value) {
	var text string
	switch s := n.(type) {
	case *ast.StringNode:
		text = s.Value
		if numeric(v) {
			if allDigits(text) && len(text) > 18 { // the parser takes it for text
				r.wrong(path, "%s", errRange)
				return
			}
			r.wrong(path, "is text; write a whole number without quotes")
			return
		}
	case *ast.LiteralNode:
		text = s.Value.Value
	case *ast.IntegerNode:
		if v.Kind() == reflect.String {
			r.wrong(path, "is a number; write it in quotes")
			return
		}
		text = fmt.Sprint(s.Value)
	case *ast.FloatNode:
		if v.Type() != reflect.TypeFor[USD]() {
			r.wrong(path, "is %s; %s", describe(n), wanted(v))
			return
		}
		text = s.Token.Value // as it is written, not as it is rounded
	case *ast.BoolNode:
		if v.Kind() != reflect.Bool {
			r.wrong(path, "is %s; %s", describe(n), wanted(v))
			return
		}
		text = strconv.FormatBool(s.Value)
	case *ast.NullNode:
		r.wrong(path, "has no value; give one or remove the key")
		return
	default:
		r.wrong(path, "is %s; %s", describe(n), wanted(v))
		return
	}
	if err := setText(v, text); err != nil {
		r.wrong(path, "%s", err)
	}
}

// numeric holds for what takes a plain number.
func numeric(v reflect.Value) bool {
	_, text := reflect.TypeAssert[encoding.TextUnmarshaler](v.Addr())
	return !text && v.Type() != reflect.TypeFor[time.Duration]() && (v.CanInt() || v.CanUint())
}

func allDigits(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }
