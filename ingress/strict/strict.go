// Package strict reads JSON the way every surface of Weir does: valid UTF-8, one document, no
// duplicate, unknown or differently cased name, bounded in depth and members. Content that a
// surface passes on keeps its bytes.
package strict

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"reflect"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"weir/internal/fault"
	"weir/internal/nearest"
	"weir/schemas"
)

// Limits bound one document.
type Limits struct {
	// Depth is the maximum nesting of objects and arrays; default 64.
	Depth int
	// Members is how many members all objects may have together; default 9,999.
	Members int
}

// maxName is how long one name may be, in bytes of UTF-8.
const maxName = 4096

// Fingerprint is the hex SHA-256 of a checked document in canonical form:
// members in order of their names, strings without needless escapes, no white
// space. Numbers keep their spelling, so that two that a float cannot tell
// apart stay two; 1 and 1.0 are different documents.
func Fingerprint(doc []byte) (string, error) {
	canonical, err := jsontext.AppendFormat(nil, doc,
		jsontext.ReorderRawObjects(true),
		jsontext.CanonicalizeRawInts(false),
		jsontext.CanonicalizeRawFloats(false),
		jsontext.PreserveRawStrings(false),
	)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(canonical)
	return hex.EncodeToString(sum[:]), nil
}

// Check reports whether data is one JSON document within the limits. Its
// errors are *fault.Error with INVALID_REQUEST; they say what is wrong and
// where, and show no value of the document.
func Check(data []byte, limits Limits) error {
	limits = Limits{cmp.Or(limits.Depth, 64), cmp.Or(limits.Members, 9_999)}
	if bytes.HasPrefix(data, []byte("\uFEFF")) {
		return invalid("", "the body begins with a byte order mark; send it without")
	}
	if len(bytes.TrimLeft(data, " \t\r\n")) == 0 {
		return invalid("", "the body is empty; send one JSON document")
	}
	if !utf8.Valid(data) {
		return invalid("", "the body is not valid UTF-8; send JSON encoded as UTF-8")
	}
	dec := jsontext.NewDecoder(bytes.NewBuffer(data))
	for members, more := 0, true; more; {
		start := dec.InputOffset()
		tok, err := dec.ReadToken()
		if err != nil {
			return syntax(err, data)
		}
		depth := dec.StackDepth()
		if depth > limits.Depth {
			return invalid("", "the document is nested deeper than "+strconv.Itoa(limits.Depth)+" levels")
		}
		if tok.Kind() == '"' {
			// A string is a name where an odd number of tokens of an object has been read.
			if kind, n := dec.StackIndex(depth); kind == '{' && n%2 == 1 {
				members++
				if dec.InputOffset()-start > maxName && len(tok.String()) > maxName { // the offsets count white space
					return invalid("", "a name is longer than "+strconv.Itoa(maxName)+" bytes")
				}
			}
			if members > limits.Members {
				return invalid("", "the document has more than "+strconv.Itoa(limits.Members)+" members")
			}
		}
		more = depth > 0
	}
	if _, err := dec.ReadToken(); !errors.Is(err, io.EOF) {
		return invalid("", "something follows the JSON document; send exactly one")
	}
	return nil
}

// syntax turns the decoder's error about data into ours.
func syntax(err error, data []byte) error {
	var at *jsontext.SyntacticError
	if !errors.As(err, &at) {
		return invalid("", "the document ends too early")
	}
	switch {
	case errors.Is(err, jsontext.ErrDuplicateName):
		return invalid(at.JSONPointer, "the name appears twice in its object; send it once")
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return invalid("", "the document ends too early")
	case surrogate(data, at.ByteOffset):
		return invalid(at.JSONPointer, "a lone surrogate at byte "+strconv.FormatInt(at.ByteOffset, 10)+
			": a character that takes two \\u escapes has only one of them")
	default:
		return invalid(at.JSONPointer, "not valid JSON at byte "+strconv.FormatInt(at.ByteOffset, 10))
	}
}

// surrogate reports whether an escape of half a character stands somewhere in data.
func surrogate(data []byte, at int64) bool {
	if at < 0 || at >= int64(len(data)) {
		return false
	}
	hex, ok := bytes.CutPrefix(data[at:], []byte(`\u`))
	if !ok || len(hex) < 4 {
		return false
	}
	r, err := strconv.ParseUint(string(hex[:4]), 16, 16)
	return err == nil && utf16.IsSurrogate(rune(r))
}

// Decode reads a checked document into the struct that v points to. Every
// member must be known by exactly its name. A member that does not belong, or
// is of another type, is VALIDATION_ERROR.
func Decode(data []byte, v any) error { return decode(data, v, "", json.RejectUnknownMembers(true)) }

// At is Decode for a part of a document: base is the pointer of that part, and the prefix of the
// pointers in its errors.
func At(base string, data []byte, v any) error {
	return decode(data, v, jsontext.Pointer(base), json.RejectUnknownMembers(true))
}

func decode(data []byte, v any, base jsontext.Pointer, members json.Options) error {
	if Kind(data) != '{' {
		if base == "" {
			return invalid("", "the body must be a JSON object")
		}
		return wrong(base, "must be an object")
	}
	err := json.Unmarshal(data, v, members)
	if err == nil {
		return nil
	}
	var sem *json.SemanticError
	if !errors.As(err, &sem) {
		return syntax(err, data)
	}
	if errors.Is(err, json.ErrUnknownName) {
		return unknown(base+sem.JSONPointer, data, v)
	}
	return wrong(base+sem.JSONPointer, "must be "+wanted(sem.GoType))
}

// unknown words an unknown member. A known name in another case is named; where
// both stand, a lenient reader would take either, as with a name that stands
// twice.
func unknown(at jsontext.Pointer, data []byte, v any) error {
	name := at.LastToken()
	var members map[string]jsontext.Value
	_ = json.Unmarshal(data, &members) // checked: cannot fail
	for _, known := range names(v) {
		switch {
		case !strings.EqualFold(known, name):
		case members[known] != nil:
			return invalid(at, "the name appears twice in its object, in two spellings; send it once, as '"+known+"'")
		default:
			return wrong(at, "names are case-sensitive; this one is '"+known+"'")
		}
	}
	return wrong(at, "this member is not known here; leave it out"+nearest.Hint(name, names(v)))
}

// names are the members of the struct that v points to.
func names(v any) []string {
	t := reflect.TypeOf(v)
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return nil
	}
	var all []string
	for _, f := range reflect.VisibleFields(t) {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" {
			all = append(all, name)
		}
	}
	return all
}

func wanted(t reflect.Type) string {
	if t == nil {
		return "of another type"
	}
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int64, reflect.Uint, reflect.Uint64:
		return "a whole number in range"
	case reflect.Float64:
		return "a number"
	case reflect.Slice:
		return "an array"
	case reflect.Struct, reflect.Map:
		return "an object"
	default:
		return "of another type"
	}
}

// Kind is the sort of a value by its first byte: one of { [ " 0 t f n, and 0
// for an absent value.
func Kind(v []byte) byte {
	for _, c := range v {
		switch c {
		case ' ', '\t', '\r', '\n':
			continue
		case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
			return '0'
		default:
			return c
		}
	}
	return 0
}

// Absent reports whether a member was left out, or is null, which says the same.
func Absent(v []byte) bool { k := Kind(v); return k == 0 || k == 'n' }

// String reads a checked value as a string.
func String(v []byte) (string, bool) {
	if Kind(v) != '"' {
		return "", false
	}
	var s string
	return s, json.Unmarshal(v, &s) == nil
}

// maxPointer bounds how much of a pointer is shown: names come from the caller.
const maxPointer = 200

func invalid(at jsontext.Pointer, text string) error {
	return fault.New(schemas.InvalidRequest, where(string(at), text))
}

func wrong(at jsontext.Pointer, text string) error {
	return fault.New(schemas.ValidationError, where(string(at), text))
}

func where(pointer, text string) string {
	if pointer == "" {
		return text
	}
	if len(pointer) > maxPointer {
		pointer = strings.ToValidUTF8(pointer[:maxPointer], "") + "…"
	}
	return "at " + pointer + ": " + text
}
