// Package completion knows the documents of the protocols of models as far as a proxy has to: it
// edits a request without touching what it does not know, reads the chunks of a streamed
// answer, assembles the whole answer from them, and splits a whole answer into chunks. It is
// pure. A Protocol is one of them; Chunk, Assembler and Texts are those of chat completions.
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
	"slices"
	"strings"
	"unsafe"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/tidwall/gjson"
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

// silent reports whether every member of an object, but some, says nothing. A value that is no object
// has no members.
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
	if depth(v) > maxDepth {
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

// depth is how deep values are nested in a valid document. Only strings and brackets are looked at.
func depth(b []byte) (most int) {
	open := 0
	for at := 0; at < len(b); at++ {
		switch b[at] {
		case '"':
			at += quoted(b[at+1:])
		case '{', '[':
			open++
			most = max(most, open)
		case '}', ']':
			open--
		}
	}
	return most
}

// quoted is how many bytes of b belong to a string that began before it, with its closing
// quote; all of them if it does not end, so that nothing of it is looked at twice.
func quoted(b []byte) int {
	for at := 0; ; {
		n := bytes.IndexByte(b[at:], '"')
		if n < 0 {
			return len(b)
		}
		at += n + 1
		if text := b[:at-1]; (len(text)-len(bytes.TrimRight(text, `\`)))%2 == 0 {
			return at
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

// length is how many bytes the text between quotes has at most.
func length(in string) int64 {
	n := int64(len(in))
	for i := strings.IndexByte(in, '\\'); i >= 0 && i+1 < len(in); i++ {
		if in[i] != '\\' {
			continue
		}
		if i++; in[i] == 'u' {
			n -= 3 // six of them for one of at most three bytes
		} else {
			n--
		}
	}
	return n
}
