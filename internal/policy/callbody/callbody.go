// Package callbody makes the body of a call from the forms in which a request may give one: JSON, text,
// base64 and the fields of a form. It checks nothing: policy alone decides about the call.
package callbody

import (
	"encoding/base64"
	"mime"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"weir/schemas"
)

// The media types of bodies that are no JSON, where the caller names none.
const (
	textType      = "text/plain; charset=utf-8"
	bytesType     = "application/octet-stream"
	fieldsType    = "application/x-www-form-urlencoded"
	multipartType = "multipart/form-data"
)

// Forms are the members of a request that may give its body, as they came. Null counts as absent.
type Forms struct {
	Body, Text, Base64, Form []byte
}

// Error refuses a member of a request.
type Error struct {
	Member string
	Reason string // the fault, then what to do; it shows no value
}

func (e *Error) Error() string { return "'" + e.Member + "' " + e.Reason }

// Put gives a call, which has its headers, the body of a request. Its errors are *Error.
func (f Forms) Put(call *schemas.HTTPCall) error {
	given := ""
	for _, m := range [...]struct {
		name  string
		value []byte
		put   func(*schemas.HTTPCall, jsontext.Value) error
	}{{"body", f.Body, putJSON}, {"body_text", f.Text, putString}, {"body_base64", f.Base64, putBase64}, {"form", f.Form, putForm}} {
		value := jsontext.Value(m.value)
		if kind := value.Kind(); kind == 0 || kind == 'n' {
			continue
		}
		if given != "" {
			return &Error{m.name, "is a second form of the body, beside '" + given + "'; send one of body, body_text, body_base64 and form"}
		}
		given = m.name
		if err := m.put(call, value); err != nil {
			return err
		}
	}
	return nil
}

func putJSON(call *schemas.HTTPCall, v jsontext.Value) error {
	call.Body = []byte(v)
	return nil
}

func putString(call *schemas.HTTPCall, v jsontext.Value) error {
	if _, ok := str(v); !ok {
		return &Error{"body_text", "must be a string"}
	}
	call.Body, call.TextBody, call.ContentType = []byte(v), true, textType
	return nil
}

func putBase64(call *schemas.HTTPCall, v jsontext.Value) error {
	s, ok := str(v)
	if !ok {
		return &Error{"body_base64", "must be a string"}
	}
	raw, ok := decode(s)
	if !ok {
		return &Error{"body_base64", notBase64}
	}
	putBytes(call, raw, bytesType)
	return nil
}

// putText gives a call a text as its body, and putBytes gives it bytes.
func putText(call *schemas.HTTPCall, s, contentType string) error {
	quoted, err := jsontext.AppendQuote(nil, s)
	call.Body, call.TextBody, call.ContentType = quoted, true, contentType
	return err
}

func putBytes(call *schemas.HTTPCall, raw []byte, contentType string) {
	call.Body = []byte(`"` + base64.StdEncoding.EncodeToString(raw) + `"`)
	call.Base64Body, call.ContentType = true, contentType
}

// putForm sends fields as application/x-www-form-urlencoded or, if one of them is a part with members of
// its own, all of them as multipart/form-data.
func putForm(call *schemas.HTTPCall, v jsontext.Value) error {
	fields, parts, err := readForm(v)
	if err != nil {
		return err
	}
	// Names repeat for each item of a list, so that a short form can have a long encoding.
	limit := 3*len(v) + 1<<20
	if !parts {
		if err := ownType(call, fieldsType, "; for multipart/form-data, write a field as {\"text\": …}"); err != nil {
			return err
		}
		encoded, ok := urlencoded(fields, limit)
		if !ok {
			return tooLarge
		}
		return putText(call, encoded, fieldsType)
	}
	if err := ownType(call, multipartType, ""); err != nil {
		return err
	}
	if err := printable(fields); err != nil {
		return err
	}
	encoded, contentType, ok := multiparted(fields, limit)
	if !ok {
		return tooLarge
	}
	call.Headers = slices.DeleteFunc(call.Headers, isContentType) // it has no boundary
	if utf8.Valid(encoded) {
		return putText(call, string(encoded), contentType)
	}
	putBytes(call, encoded, contentType)
	return nil
}

// ownType refuses another Content-Type of the caller's than the form needs.
func ownType(call *schemas.HTTPCall, want, hint string) error {
	i := slices.IndexFunc(call.Headers, isContentType)
	if i < 0 {
		return nil
	}
	media, params, err := mime.ParseMediaType(call.Headers[i].Value)
	switch {
	case err != nil || media != want:
		return &Error{"headers", "has a Content-Type other than that for a form, " + want + "; leave it out" + hint}
	case params["boundary"] != "":
		return &Error{"headers", "has a Content-Type with a boundary, which is set from the form's parts; leave it out"}
	}
	return nil
}

func isContentType(h schemas.Header) bool { return strings.EqualFold(h.Name, "Content-Type") }

const notBase64 = "must be standard base64 (RFC 4648, section 4) with its padding and without line breaks"

// decode reads strict base64: each text that it accepts is the only one for its bytes.
func decode(s string) ([]byte, bool) {
	raw, err := base64.StdEncoding.Strict().DecodeString(s)
	return raw, err == nil && !strings.ContainsAny(s, "\r\n")
}

// str is a JSON string's content.
func str(v jsontext.Value) (s string, ok bool) {
	return s, v.Kind() == '"' && json.Unmarshal(v, &s) == nil
}
