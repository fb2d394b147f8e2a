package jsonschema

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
	js "github.com/santhosh-tekuri/jsonschema/v6"
)

// Prune removes the members of a document that the schema does not name, in properties,
// patternProperties, additionalProperties or unevaluatedProperties. A value with the schema true
// keeps all its members. The other members keep their bytes, except for space between values. A
// document that is not JSON is an error.
func (s *Schema) Prune(doc json.RawMessage) (json.RawMessage, error) {
	options := []jsontext.Options{jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true), jsontext.PreserveRawStrings(true)}
	var out bytes.Buffer
	p := pruner{from: jsontext.NewDecoder(bytes.NewReader(doc), options...), to: jsontext.NewEncoder(&out, options...)}
	if err := p.value([]*js.Schema{s.root}); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), nil
}

// pruner copies one document.
type pruner struct {
	from *jsontext.Decoder
	to   *jsontext.Encoder
}

// value copies the next value, to which the schemas apply.
func (p *pruner) value(list []*js.Schema) error {
	list = applied(list)
	kind := p.from.PeekKind()
	if kind != '{' && kind != '[' || slices.ContainsFunc(list, isTrue) {
		raw, err := p.from.ReadValue()
		if err != nil {
			return err
		}
		return p.to.WriteValue(raw)
	}
	if err := p.token(); err != nil {
		return err
	}
	for i := 0; p.from.PeekKind() != '}' && p.from.PeekKind() != ']'; i++ {
		if err := p.item(kind, list, i); err != nil {
			return err
		}
	}
	return p.token()
}

// item copies the next member of an object, if a schema names it, or the next element of an array.
func (p *pruner) item(kind jsontext.Kind, list []*js.Schema, i int) error {
	if kind == '[' {
		return p.value(elements(list, i))
	}
	raw, err := p.from.ReadValue()
	if err != nil {
		return err
	}
	name, err := jsontext.AppendUnquote(nil, raw)
	if len(name) == 0 && err != nil {
		return err
	}
	named := members(list, string(name))
	if len(named) == 0 {
		return p.from.SkipValue()
	}
	if err := p.to.WriteValue(raw); err != nil {
		return err
	}
	return p.value(named)
}

func (p *pruner) token() error {
	t, err := p.from.ReadToken()
	if err != nil {
		return err
	}
	return p.to.WriteToken(t)
}

// applied adds to schemas all that they apply to the same value.
func applied(list []*js.Schema) []*js.Schema {
	var all []*js.Schema
	for queue := list; len(queue) > 0; queue = queue[1:] {
		if s := queue[0]; !slices.Contains(all, s) {
			all = append(all, s)
			queue = slices.AppendSeq(slices.Concat(queue, inPlace(s)), maps.Values(s.DependentSchemas))
		}
	}
	return all
}

func isTrue(s *js.Schema) bool { return s.Bool != nil && *s.Bool }

// members are the schemas of a member; none: no schema names it.
func members(list []*js.Schema, name string) (named []*js.Schema) {
	for _, s := range list {
		before := len(named)
		if sub := s.Properties[name]; sub != nil {
			named = append(named, sub)
		}
		for pattern, sub := range s.PatternProperties {
			if pattern.MatchString(name) {
				named = append(named, sub)
			}
		}
		if len(named) > before {
			continue
		}
		switch other := s.AdditionalProperties.(type) {
		case *js.Schema:
			named = append(named, other)
		case bool:
			if other {
				named = append(named, &js.Schema{Bool: &other})
			}
		}
		if other := s.UnevaluatedProperties; other != nil && (other.Bool == nil || *other.Bool) {
			named = append(named, other)
		}
	}
	return named
}

// elements are the schemas of an element of an array.
func elements(list []*js.Schema, i int) (of []*js.Schema) {
	for _, s := range list {
		switch {
		case i < len(s.PrefixItems):
			of = append(of, s.PrefixItems[i])
		case s.Items2020 != nil:
			of = append(of, s.Items2020)
		case s.UnevaluatedItems != nil:
			of = append(of, s.UnevaluatedItems)
		}
		if s.Contains != nil {
			of = append(of, s.Contains)
		}
	}
	return of
}
