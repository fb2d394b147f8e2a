// Package jsonschema evaluates JSON documents against schemas of untrusted
// authors. It supports JSON Schema draft 2020-12 only: no other dialect, no
// reference to another document, no format assertions (the draft's default), and
// patterns in RE2's syntax. Compile bounds the cost of a schema, and Validate the
// cost of a schema on one document before it evaluates that document.
package jsonschema

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
	js "github.com/santhosh-tekuri/jsonschema/v6"
)

// Draft is the one dialect, as $schema names it.
const Draft = "https://json-schema.org/draft/2020-12/schema"

// address is the URL of every schema while it is compiled. No loader can fetch it.
const address = "mem:///schema"

var (
	errCompile = errors.New("the schema cannot be compiled")
	errRemote  = errors.New("a schema may not refer to other documents")
)

// Schema is a compiled schema. It is safe for concurrent use.
type Schema struct {
	root  *js.Schema
	nodes map[*js.Schema]*node
	// unevaluated is set if the library copies the members of every container it
	// visits, for unevaluatedProperties and unevaluatedItems.
	unevaluated bool
}

// Compile reads a schema of at most 256 KiB. The text of its error is a sentence
// for the schema's author. It caches nothing: see Cache.
func Compile(raw json.RawMessage) (s *Schema, err error) {
	if len(raw) > maxBytes {
		return nil, errBytes
	}
	doc, err := js.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return nil, errors.New("the schema is not valid JSON")
	}
	switch m := doc.(type) {
	case bool:
	case map[string]any:
		// The root's $id only names the document. Without it, every reference is one into the document.
		if id, ok := m["$id"]; ok {
			if _, ok := id.(string); !ok {
				return nil, errors.New("$id must be a string")
			}
			delete(m, "$id")
		}
	default:
		return nil, errors.New("a schema is an object or a boolean")
	}
	in := &inspector{subject: "the schema", refs: make(map[string]struct{})}
	if err := in.value(doc, schema, 0, 0); err != nil {
		return nil, err
	}
	defer func() { // a panic of the library must not end the process
		if r := recover(); r != nil {
			s, err = nil, errCompile
		}
	}()
	compiled, err := compile(doc)
	if err != nil {
		return nil, err
	}
	return newSchema(compiled)
}

func compile(doc any) (*js.Schema, error) {
	patterns := &patterns{done: make(map[string]*pattern)}
	c := js.NewCompiler()
	c.DefaultDraft(js.Draft2020)
	c.UseLoader(refuse{})
	c.UseRegexpEngine(patterns.compile)
	if err := c.AddResource(address, doc); err != nil {
		return nil, errCompile
	}
	s, err := c.Compile(address)
	if err == nil {
		return s, nil
	}
	if patterns.size > maxProgram {
		return nil, errPatterns
	}
	return nil, compileError(err)
}

// refuse loads nothing. The library carries its metaschemas in itself.
type refuse struct{}

func (refuse) Load(string) (any, error) {
	return nil, errRemote
}

// compileError replaces the library's error, which names our address.
func compileError(err error) error {
	var invalid *js.SchemaValidationError
	switch {
	case errors.As(err, &invalid):
		if v, ok := errors.AsType[*js.ValidationError](invalid.Err); ok {
			if reasons := messages(v); len(reasons) > 0 {
				return errors.New("the schema is not valid: " + reasons[0])
			}
		}
		return errors.New("the schema is not valid")
	case errors.As(err, new(*js.LoadURLError)):
		return errRemote
	case errors.As(err, new(*js.AnchorNotFoundError)), errors.As(err, new(*js.JSONPointerNotFoundError)):
		return errors.New("a $ref in the schema leads nowhere")
	case errors.As(err, new(*js.DuplicateAnchorError)):
		return errors.New("an anchor appears twice in the schema")
	default:
		return errCompile
	}
}

// repeated returns the pointer of the first member that an object has twice.
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

// Validate returns the errors of a document, in an order that depends on the
// schema and the document alone, and nil if it fits. A document that cannot be
// evaluated within bounds does not fit. Each message begins with a JSON pointer;
// none holds a value of the document.
func (s *Schema) Validate(instance json.RawMessage) (found []string) {
	doc, err := js.UnmarshalJSON(bytes.NewReader(instance))
	if err != nil {
		return []string{"(root): is not valid JSON"}
	}
	if at, ok := repeated(instance); ok {
		return []string{cut(at, maxMessage) + ": appears twice in its object; readers differ on which one counts"}
	}
	if err := (&inspector{subject: "(root):"}).value(doc, data, 0, 0); err != nil {
		return []string{err.Error()}
	}
	if !s.affordable(doc) {
		return []string{"(root): the document is too large to be checked by this schema"}
	}
	defer func() {
		if r := recover(); r != nil {
			found = []string{"(root): the document cannot be checked by this schema"}
		}
	}()
	var v *js.ValidationError
	if err := s.root.Validate(doc); errors.As(err, &v) {
		return messages(v)
	}
	return nil
}
