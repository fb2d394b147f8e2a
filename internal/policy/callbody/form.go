package callbody

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"mime"
	"mime/multipart"
	"net/textproto"
	"net/url"
	"strconv"
	"strings"
	"unicode"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/tidwall/gjson"
)

// field is one name and value of a form.
type field struct {
	name    string
	content []byte

	// Of a part with members of its own.
	filename    *string
	contentType string
}

// tooLarge is the refusal of a form whose encoding is much larger than its JSON.
var tooLarge = &Error{"form", "is much larger as it is sent than as JSON, because of its many names; use fewer fields or shorter names"} //nolint:errname,gochecknoglobals // a constant

// readForm reads the fields of a form, which strict.Check has passed, in their order. Parts: one of them has
// members of its own.
func readForm(v jsontext.Value) (fields []field, parts bool, err error) {
	doc := gjson.ParseBytes(v)
	if !doc.IsObject() {
		return nil, false, &Error{"form", "must be an object of names and values"}
	}
	for name, value := range doc.All() {
		items := []gjson.Result{value}
		if value.IsArray() {
			items = value.Array()
		}
		for _, item := range items {
			f, own, err := readField(name.Str, jsontext.Value(item.Raw))
			if err != nil {
				return nil, false, err
			}
			fields, parts = append(fields, f), parts || own
		}
	}
	return fields, parts, nil
}

// readField reads one value of a name. Part: it has members of its own.
func readField(name string, v jsontext.Value) (f field, part bool, err error) {
	f = field{name: name}
	switch v.Kind() {
	case '"':
		s, ok := str(v)
		if !ok {
			return f, false, &Error{"form", "is not valid JSON"}
		}
		f.content = []byte(s)
		return f, false, nil
	case '0', 't', 'f':
		f.content = bytes.Clone(v)
		return f, false, nil
	case '{':
		return f, true, f.part(v)
	default:
		return f, false, wrong(name, "must be a string, a number, true, false, a part or a list of these")
	}
}

// part reads the members of a part.
func (f *field) part(v jsontext.Value) error {
	const known = "must have text or base64, and may have filename and content_type"
	var p struct {
		Filename    *string `json:"filename"`
		ContentType *string `json:"content_type"`
		Text        *string `json:"text"`
		Base64      *string `json:"base64"`
	}
	if err := json.Unmarshal(v, &p, json.RejectUnknownMembers(true)); err != nil {
		return wrong(f.name, known+"; all are strings, and it has no other member")
	}
	switch {
	case (p.Text == nil) == (p.Base64 == nil):
		return wrong(f.name, known+"; give one of text and base64")
	case p.Text != nil:
		f.content = []byte(*p.Text)
		if p.Filename != nil {
			f.contentType = textType
		}
	default:
		var ok bool
		if f.content, ok = decode(*p.Base64); !ok {
			return wrong(f.name, "has a base64 that cannot be read: it "+notBase64)
		}
		f.contentType = bytesType
	}
	f.filename = p.Filename
	if p.ContentType != nil {
		if media, _, err := mime.ParseMediaType(*p.ContentType); err != nil || !strings.Contains(media, "/") || strings.ContainsFunc(*p.ContentType, notVisible) {
			return wrong(f.name, "has a content_type that is no media type; write one such as image/png")
		}
		f.contentType = *p.ContentType
	}
	return nil
}

func notVisible(r rune) bool { return r < ' ' || r > '~' }

// wrong names the field of a form that is refused.
func wrong(name, reason string) error {
	const most = 64
	if len(name) > most {
		name = strings.ToValidUTF8(name[:most], "") + "…"
	}
	return &Error{"form", "has a field " + strconv.QuoteToGraphic(name) + " that is wrong: it " + reason}
}

// urlencoded is the fields as application/x-www-form-urlencoded; false: they have more than limit bytes.
func urlencoded(fields []field, limit int) (string, bool) {
	var b strings.Builder
	for i, f := range fields {
		if i > 0 {
			b.WriteByte('&')
		}
		b.WriteString(url.QueryEscape(f.name))
		b.WriteByte('=')
		b.WriteString(url.QueryEscape(string(f.content)))
		if b.Len() > limit {
			return "", false
		}
	}
	return b.String(), true
}

// multiparted is the fields as multipart/form-data, with its media type; false: they have more than
// limit bytes. The same fields always give the same bytes: their hash is the boundary.
func multiparted(fields []field, limit int) (encoded []byte, contentType string, ok bool) {
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	if err := w.SetBoundary(boundary(fields)); err != nil {
		return nil, "", false
	}
	for _, f := range fields {
		part, err := w.CreatePart(f.header())
		if err == nil {
			_, err = part.Write(f.content)
		}
		if err != nil || b.Len() > limit {
			return nil, "", false
		}
	}
	err := w.Close()
	return b.Bytes(), w.FormDataContentType(), err == nil
}

// header is the header of a field's part.
func (f *field) header() textproto.MIMEHeader {
	const none = `; filename=""`
	h := textproto.MIMEHeader{}
	if f.filename != nil {
		h.Set("Content-Disposition", multipart.FileContentDisposition(f.name, *f.filename))
	} else {
		h.Set("Content-Disposition", strings.TrimSuffix(multipart.FileContentDisposition(f.name, ""), none))
	}
	if f.contentType != "" {
		h.Set("Content-Type", f.contentType)
	}
	return h
}

// boundary is a hash of the fields. No field can contain it.
func boundary(fields []field) string {
	h := sha256.New()
	add := func(b []byte) {
		_ = binary.Write(h, binary.BigEndian, uint64(len(b))) // a hash accepts everything
		h.Write(b)
	}
	for _, f := range fields {
		add([]byte(f.header().Get("Content-Disposition")))
		add([]byte(f.contentType))
		add(f.content)
	}
	return "weir-" + hex.EncodeToString(h.Sum(nil)[:16])
}

// printable refuses a name that the header of a part cannot hold unaltered.
func printable(fields []field) error {
	for _, f := range fields {
		if strings.ContainsFunc(f.name, unicode.IsControl) {
			return wrong(f.name, "has a control character in its name, which multipart/form-data cannot hold")
		}
		if f.filename != nil && strings.ContainsFunc(*f.filename, unicode.IsControl) {
			return wrong(f.name, "has a control character in its filename; leave it out")
		}
	}
	return nil
}
