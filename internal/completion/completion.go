// Package completion knows the documents of the protocols of models as far as a proxy has to: it
// edits a request without touching what it does not know, reads the chunks of a streamed
// answer, assembles the whole answer from them, and splits a whole answer into chunks. It is
// pure. A Protocol is one of them.
//
// Text is never decoded on its way: the bytes between the quotes are joined. So an escape
// stays as it came, and a pair of surrogates that two chunks share is whole again.
//
// gjson and sjson read and edit documents here. They validate nothing and take the first
// of several members with one name, so that they only get documents that normalize has
// returned, or requests that the strict decoder of ingress has accepted.
package completion

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
	"unsafe"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"
)

// maxDepth is how deep values of a provider may be nested: much deeper than any are, and
// still no trouble inside a record.
const maxDepth = 256

// Parse reads a valid document. The result shares the memory of raw, which must not change:
// a copy of each chunk would cost more than reading it.
func Parse(raw []byte) gjson.Result {
	return gjson.Parse(unsafe.String(unsafe.SliceData(raw), len(raw)))
}

// object is a value that is an object; of any other value it has no members.
func object(v gjson.Result) gjson.Result {
	if !v.IsObject() {
		return gjson.Result{}
	}
	return v
}

// array is a value that is an array; of any other value it has no elements.
func array(v gjson.Result) gjson.Result {
	if !v.IsArray() {
		return gjson.Result{}
	}
	return v
}

// inner is what stands between the quotes of a string or the brackets of an array.
func inner(v gjson.Result) string { return v.Raw[1 : len(v.Raw)-1] }

// hollow reports whether a value of a normalized document says nothing: null, or an empty
// text, array or object.
func hollow(v gjson.Result) bool {
	return v.Type == gjson.Null || (v.Type == gjson.String || v.Type == gjson.JSON) && len(v.Raw) == 2
}

// silent reports whether every member of an object, but some, says nothing. A value that is no
// object has no members.
func silent(v gjson.Result, but ...string) bool {
	for name, member := range object(v).All() {
		if !hollow(member) && !slices.Contains(but, name.Str) {
			return false
		}
	}
	return true
}

// normalize returns a document without white space between its values, with each name of
// an object once, and with U+FFFD for bytes that are no text; it keeps nothing of data. It
// is false for what is no JSON, or nested deeper than maxDepth.
func normalize(data []byte) (json.RawMessage, bool) {
	v := jsontext.Value(bytes.ToValidUTF8(data, []byte("\uFFFD")))
	if deep(v) {
		return nil, false
	}
	if v.Compact(jsontext.AllowDuplicateNames(false)) != nil {
		return lastOfEach(v)
	}
	return json.RawMessage(v), true
}

// lastOfEach writes a document anew in which an object has a name several times: the last
// member of a name stays, as most readers have it. Numbers stay as they are spelled.
func lastOfEach(raw []byte) (json.RawMessage, bool) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var doc any
	if !json.Valid(raw) || dec.Decode(&doc) != nil {
		return nil, false
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	err := enc.Encode(doc)
	return bytes.TrimSpace(out.Bytes()), err == nil
}

// deep reports whether values are nested deeper than maxDepth, or what has so many is no JSON.
func deep(b []byte) bool {
	if bytes.Count(b, []byte{'{'})+bytes.Count(b, []byte{'['}) <= maxDepth {
		return false
	}
	dec := jsontext.NewDecoder(bytes.NewReader(b), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	for {
		if _, err := dec.ReadToken(); err != nil || dec.StackDepth() > maxDepth {
			return !errors.Is(err, io.EOF)
		}
	}
}

// quote writes a string. Invalid UTF-8 becomes U+FFFD.
func quote(s string) []byte {
	out, _ := jsontext.AppendQuote(nil, strings.ToValidUTF8(s, "\uFFFD")) // which leaves no error
	return out
}

// escaped is what stands between the quotes of a string with this text.
func escaped(s string) string {
	quoted := quote(s)
	return string(quoted[1 : len(quoted)-1])
}

// appendComma ends the member or element before the next one, where there is one.
func appendComma(to []byte) []byte {
	if last := to[len(to)-1]; last == '{' || last == '[' {
		return to
	}
	return append(to, ',')
}

// appendName writes the name of a member behind others of its object.
func appendName(to []byte, name string) []byte {
	to, _ = jsontext.AppendQuote(appendComma(to), name)
	return append(to, ':')
}

// appendMember writes a member behind others of its object.
func appendMember(to []byte, name, value string) []byte {
	return append(appendName(to, name), value...)
}

// identified is an object, normalized, with an id: its own, or this one if it has none or an empty
// one, or one that is no text.
func identified(raw json.RawMessage, id string) json.RawMessage {
	doc := Parse(raw)
	if own := doc.Get("id"); !doc.IsObject() || id == "" || own.Type == gjson.String && own.Str != "" {
		return raw
	}
	return set(raw, "id", string(quote(id)))
}

// set is a normalized object in which the member has the value: in the place where it stands,
// or as the first.
func set(object []byte, name, value string) []byte {
	if len(object) > len(`{}`) && !Parse(object).Get(name).Exists() {
		first := appendMember([]byte{'{'}, name, value)
		return slices.Concat(first, []byte{','}, object[1:])
	}
	return put(object, name, []byte(value))
}

// put sets a member of an object, in its place or as the last one.
func put(object []byte, name string, value []byte) []byte {
	with, err := sjson.SetRawBytes(object, name, value)
	if err != nil {
		return object
	}
	return with
}

// Without is an object without the member of a name, which it has once at most; every byte
// of every other one stays as it is.
func Without(object json.RawMessage, name string) json.RawMessage {
	rest, err := sjson.DeleteBytes(object, ":"+gjson.Escape(name)) // the colon: it is no number
	if err != nil {
		return object
	}
	return rest
}

// errNoObject: it is no object, or has a name twice.
var errNoObject = errors.New("completion: not one JSON object with each name once")

// Change lists the changes to a request on its way to a model.
type Change struct {
	// Model is the model's name there; empty: it stays.
	Model string
	// Usage adds stream_options.include_usage.
	Usage bool
	// Drop lists members that the provider does not receive.
	Drop []string
	// Previous replaces previous_response_id with the provider's own id; empty: the member stays.
	Previous string
}

// Request is a request with a change. Every byte of every other member stays as it is,
// numbers and the order of members too; stream_options keeps its other members. A name
// that stands twice is an error, because providers differ in which one they read; so is
// what is no JSON object.
func Request(body json.RawMessage, c Change) (json.RawMessage, error) {
	if k := jsontext.Value(body).Kind(); k != '{' || !jsontext.Value(body).IsValid(jsontext.AllowInvalidUTF8(true)) {
		return nil, errNoObject
	}
	var err error
	for _, m := range []struct{ name, value string }{{"model", c.Model}, {previousID, c.Previous}} {
		if m.value == "" {
			continue
		}
		if body, err = sjson.SetRawBytes(body, m.name, quote(m.value)); err != nil {
			return nil, err
		}
	}
	for _, name := range c.Drop {
		body = Without(body, name)
	}
	switch {
	case !c.Usage:
	case Parse(body).Get("stream_options").IsObject():
		body, err = sjson.SetRawBytes(body, "stream_options.include_usage", []byte("true"))
	default:
		body, err = sjson.SetRawBytes(body, "stream_options", []byte(`{"include_usage":true}`))
	}
	return body, err
}
