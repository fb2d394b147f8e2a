// Package jsonschema judges JSON documents by schemas that strangers wrote. It
// is JSON Schema draft 2020-12 and nothing else: no other dialect, no document
// but the one given, no format assertions (the draft's default), and patterns in
// RE2's syntax. What a schema can cost is bounded when it is compiled, and what
// it can cost on one document before that document is judged.
package jsonschema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
	js "github.com/santhosh-tekuri/jsonschema/v6"
)

// Draft is the one dialect, as $schema names it.
const Draft = "https://json-schema.org/draft/2020-12/schema"

// root is the address of a schema under compilation. Nobody can fetch it.
const root = "mem:///schema"

// Schema is a compiled schema. It is safe for concurrent use.
type Schema struct {
	schema *js.Schema
	graph  *graph
}

// Compile reads a schema of at most 256 KiB. The text of its error is a sentence
// for the schema's author. It caches nothing: see Cache.
func Compile(raw json.RawMessage) (s *Schema, err error) {
	if len(raw) > maxBytes {
		return nil, fmt.Errorf("the schema is larger than %d bytes", maxBytes)
	}
	doc, err := js.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return nil, errors.New("the schema is not valid JSON")
	}
	switch m := doc.(type) {
	case bool:
	case map[string]any:
		if err := dropID(m); err != nil {
			return nil, err
		}
	default:
		return nil, errors.New("a schema is an object or a boolean")
	}
	if err := inspect(doc); err != nil {
		return nil, err
	}
	defer func() { // the library must not take a process down
		if r := recover(); r != nil {
			s, err = nil, errors.New("the schema cannot be compiled")
		}
	}()
	compiled, err := compile(doc)
	if err != nil {
		return nil, err
	}
	g, err := newGraph(compiled)
	if err != nil {
		return nil, err
	}
	if !g.useful() {
		return nil, errors.New("the schema is too costly to judge any document by; it may apply itself too often")
	}
	return &Schema{schema: compiled, graph: g}, nil
}

// dropID takes the root's $id away: it only names the document, and without it
// every reference is one into the document.
func dropID(m map[string]any) error {
	id, ok := m["$id"]
	if !ok {
		return nil
	}
	if _, ok := id.(string); !ok {
		return errors.New("$id must be a string")
	}
	delete(m, "$id")
	return nil
}

func compile(doc any) (*js.Schema, error) {
	patterns := newPatterns()
	c := js.NewCompiler()
	c.DefaultDraft(js.Draft2020)
	c.UseLoader(refuse{})
	c.UseRegexpEngine(patterns.compile)
	if err := c.AddResource(root, doc); err != nil {
		return nil, errors.New("the schema cannot be compiled")
	}
	s, err := c.Compile(root)
	if err == nil {
		return s, nil
	}
	if patterns.err != nil {
		return nil, patterns.err
	}
	return nil, compileError(err)
}

// refuse loads nothing. The library carries its metaschemas in itself.
type refuse struct{}

func (refuse) Load(string) (any, error) {
	return nil, errors.New("a schema may not refer to other documents")
}

// compileError is the library's error in our words; its own names our address.
func compileError(err error) error {
	var (
		invalid *js.SchemaValidationError
		loading *js.LoadURLError
		anchor  *js.AnchorNotFoundError
		pointer *js.JSONPointerNotFoundError
		double  *js.DuplicateAnchorError
	)
	switch {
	case errors.As(err, &invalid):
		if v, ok := errors.AsType[*js.ValidationError](invalid.Err); ok {
			return errors.New("the schema is not valid: " + first(messages(v)))
		}
		return errors.New("the schema is not valid")
	case errors.As(err, &loading):
		return errors.New("a schema may not refer to other documents")
	case errors.As(err, &anchor), errors.As(err, &pointer):
		return errors.New("a $ref in the schema leads nowhere")
	case errors.As(err, &double):
		return errors.New("an anchor stands twice in the schema")
	default:
		return errors.New("the schema cannot be compiled")
	}
}

// repeated gives the pointer of the first member that stands twice in its object.
func repeated(instance json.RawMessage) (at string, ok bool) {
	err := jsontext.NewDecoder(bytes.NewReader(instance), jsontext.AllowInvalidUTF8(true)).SkipValue()
	if !errors.Is(err, jsontext.ErrDuplicateName) {
		return "", false
	}
	if where, known := errors.AsType[*jsontext.SyntacticError](err); known {
		at = point(slices.Collect(where.JSONPointer.Tokens()))
	}
	return at, true
}

// Validate returns what is wrong with a document, in an order that depends on
// the two alone, and nothing if it fits. A document that cannot be judged within
// bounds does not fit. Each message begins with a JSON pointer; none holds a
// value of the document.
func (s *Schema) Validate(instance json.RawMessage) (found []string) {
	doc, err := js.UnmarshalJSON(bytes.NewReader(instance))
	if err != nil {
		return []string{"(root): is not valid JSON"}
	}
	if at, ok := repeated(instance); ok {
		return []string{cut(at, maxMessage) + ": stands twice in its object; readers differ on which one counts"}
	}
	if err := inspectInstance(doc); err != nil {
		return []string{"(root): " + err.Error()}
	}
	if !s.graph.affordable(doc) {
		return []string{"(root): the document is too large to be judged by this schema"}
	}
	defer func() {
		if r := recover(); r != nil {
			found = []string{"(root): the document cannot be judged by this schema"}
		}
	}()
	var v *js.ValidationError
	if err := s.schema.Validate(doc); errors.As(err, &v) {
		return messages(v)
	}
	return nil
}
