package callbody_test

import (
	"mime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/policy/callbody"
	"weir/internal/weirtest/table"
	"weir/schemas"
)

// TestPut holds each form of a body against what is sent for it.
func TestPut(t *testing.T) {
	t.Parallel()
	type testCase struct {
		forms callbody.Forms
		own   string // the caller's Content-Type
		sent  string
		media string // the Content-Type that is sent by default
		kept  string // the caller's that is sent in its place
	}
	const fields, parts = "application/x-www-form-urlencoded", "multipart/form-data"
	table.Run(t, map[string]testCase{
		"none":                     {},
		"null":                     {forms: callbody.Forms{Body: []byte("null"), Text: []byte(" null"), Form: []byte("null")}},
		"JSON keeps its bytes":     {forms: callbody.Forms{Body: []byte(`{"n":1.50}`)}, sent: `{"n":1.50}`},
		"text":                     {forms: callbody.Forms{Text: []byte(`"a\n\"é\u00e9"`)}, sent: "a\n\"éé", media: "text/plain; charset=utf-8"},
		"a text of the caller's":   {forms: callbody.Forms{Text: []byte(`"<a/>"`)}, own: "application/xml", sent: "<a/>", media: "text/plain; charset=utf-8", kept: "application/xml"},
		"an empty text":            {forms: callbody.Forms{Text: []byte(`""`)}, media: "text/plain; charset=utf-8"},
		"bytes":                    {forms: callbody.Forms{Base64: []byte(`"AP8\u003d"`)}, sent: "\x00\xff", media: "application/octet-stream"},
		"bytes of the caller's":    {forms: callbody.Forms{Base64: []byte(`"AP8="`)}, own: "image/png", sent: "\x00\xff", media: "application/octet-stream", kept: "image/png"},
		"an empty form":            {forms: callbody.Forms{Form: []byte(`{}`)}, media: fields},
		"fields in their order":    {forms: callbody.Forms{Form: []byte(`{"b":"x y&é","a":[1.50,true,"2",false],"c":[],"d[e]":-1e2}`)}, sent: "b=x+y%26%C3%A9&a=1.50&a=true&a=2&a=false&d%5Be%5D=-1e2", media: fields},
		"fields that name it":      {forms: callbody.Forms{Form: []byte(`{"a":"1"}`)}, own: "Application/X-WWW-Form-Urlencoded; charset=utf-8", sent: "a=1", media: fields, kept: "Application/X-WWW-Form-Urlencoded; charset=utf-8"},
		"a part of text alone":     {forms: callbody.Forms{Form: []byte(`{"a":{"text":"t"}}`)}, sent: "--B\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\nt\r\n--B--\r\n", media: parts},
		"parts that name the type": {forms: callbody.Forms{Form: []byte(`{"a":{"text":"t"}}`)}, own: parts, sent: "--B\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\nt\r\n--B--\r\n", media: parts},
		"files": {
			forms: callbody.Forms{Form: []byte(`{"n":1,"f":[{"filename":"é\"\\.txt","text":"é"},{"base64":"AP8=","filename":"","content_type":"image/png"}],"g":{"base64":""}}`)},
			sent: "--B\r\nContent-Disposition: form-data; name=\"n\"\r\n\r\n1\r\n" +
				"--B\r\nContent-Disposition: form-data; name=\"f\"; filename=\"é\\\"\\\\.txt\"\r\nContent-Type: text/plain; charset=utf-8\r\n\r\né\r\n" +
				"--B\r\nContent-Disposition: form-data; name=\"f\"; filename=\"\"\r\nContent-Type: image/png\r\n\r\n\x00\xff\r\n" +
				"--B\r\nContent-Disposition: form-data; name=\"g\"\r\nContent-Type: application/octet-stream\r\n\r\n\r\n--B--\r\n",
			media: parts,
		},
	}, func(t *testing.T, tt testCase) {
		var c schemas.HTTPCall
		if tt.own != "" {
			c.Headers = []schemas.Header{{Name: "content-TYPE", Value: tt.own}}
		}
		require.NoError(t, tt.forms.Put(&c))
		sent, err := c.Sent()
		require.NoError(t, err)
		require.Equal(t, len(sent), c.SentSize())
		media, params, _ := mime.ParseMediaType(c.ContentType)
		if boundary := params["boundary"]; boundary != "" {
			require.NotContains(t, tt.sent, boundary)
			sent, c.ContentType = []byte(strings.ReplaceAll(string(sent), boundary, "B")), media
		}
		require.Equal(t, tt.sent, string(sent))
		require.Equal(t, tt.media, c.ContentType)
		kept := ""
		for _, h := range c.Headers {
			kept = h.Value
		}
		require.Equal(t, tt.kept, kept)
	})
}

func TestBadForms(t *testing.T) {
	t.Parallel()
	type testCase struct {
		forms       callbody.Forms
		own         string
		member, why string
	}
	form := func(s string) callbody.Forms { return callbody.Forms{Form: []byte(s)} }
	table.Run(t, map[string]testCase{
		"two forms":             {callbody.Forms{Body: []byte(`1`), Form: []byte(`{}`)}, "", "form", "beside 'body'"},
		"two others":            {callbody.Forms{Text: []byte(`""`), Base64: []byte(`""`)}, "", "body_base64", "beside 'body_text'"},
		"a text that is none":   {callbody.Forms{Text: []byte(`1`)}, "", "body_text", "must be a string"},
		"a lone surrogate":      {callbody.Forms{Text: []byte(`"\ud800"`)}, "", "body_text", "must be a string"},
		"bytes that are none":   {callbody.Forms{Base64: []byte(`{}`)}, "", "body_base64", "must be a string"},
		"the URL's alphabet":    {callbody.Forms{Base64: []byte(`"_-8="`)}, "", "body_base64", "standard base64"},
		"no padding":            {callbody.Forms{Base64: []byte(`"AP8"`)}, "", "body_base64", "with its padding"},
		"bits behind the end":   {callbody.Forms{Base64: []byte(`"AP9="`)}, "", "body_base64", "standard base64"},
		"a line break":          {callbody.Forms{Base64: []byte(`"AP8=\n"`)}, "", "body_base64", "without line breaks"},
		"a form that is none":   {form(`[]`), "", "form", "must be an object"},
		"a null":                {form(`{"a":null}`), "", "form", `field "a" that is wrong: it must be a string`},
		"a list in a list":      {form(`{"a":[[1]]}`), "", "form", "must be a string"},
		"an empty part":         {form(`{"a":{}}`), "", "form", "give one of text and base64"},
		"a part in two forms":   {form(`{"a":{"text":"","base64":""}}`), "", "form", "give one of text and base64"},
		"an unknown member":     {form(`{"a":{"text":"","file":"x"}}`), "", "form", "no other member"},
		"another spelling":      {form(`{"a":{"Text":""}}`), "", "form", "no other member"},
		"a number as text":      {form(`{"a":{"text":1}}`), "", "form", "all are strings"},
		"a part of bad base64":  {form(`{"a":{"base64":"="}}`), "", "form", "standard base64"},
		"no media type":         {form(`{"a":{"text":"","content_type":"png"}}`), "", "form", "image/png"},
		"a header in a type":    {form(`{"a":{"text":"","content_type":"a/b; c=\"\r\nX: y\""}}`), "", "form", "no media type"},
		"a header in a name":    {form(`{"a\r\nX: y":{"text":""}}`), "", "form", `"a\r\nX: y" that is wrong: it has a control character in its name`},
		"a header in a file":    {form(`{"a":{"text":"","filename":"\r\n"}}`), "", "form", "control character in its filename"},
		"another type":          {form(`{"a":"1"}`), "application/json", "headers", "leave it out; for multipart/form-data, write a field as"},
		"the other form's type": {form(`{"a":"1"}`), "multipart/form-data", "headers", `{"text": …}`},
		"a type that is none":   {form(`{"a":"1"}`), "=", "headers", "application/x-www-form-urlencoded"},
		"fields for parts":      {form(`{"a":{"text":"1"}}`), "application/x-www-form-urlencoded", "headers", "multipart/form-data"},
		"a boundary":            {form(`{"a":{"text":"1"}}`), "multipart/form-data; boundary=b", "headers", "with a boundary"},
		"a name for many":       {form(`{"` + strings.Repeat("n", 4000) + `":[` + strings.Repeat(`"",`, 1000) + `""]}`), "", "form", "shorter names"},
		"parts for many":        {form(`{"` + strings.Repeat("n", 4000) + `":[{"text":""}` + strings.Repeat(`,""`, 1000) + `]}`), "", "form", "shorter names"},
	}, func(t *testing.T, tt testCase) {
		var c schemas.HTTPCall
		if tt.own != "" {
			c.Headers = []schemas.Header{{Name: "Content-Type", Value: tt.own}}
		}
		var wrong *callbody.Error
		require.ErrorAs(t, tt.forms.Put(&c), &wrong)
		assert.Equal(t, tt.member, wrong.Member)
		assert.Contains(t, wrong.Reason, tt.why)
	})
}
