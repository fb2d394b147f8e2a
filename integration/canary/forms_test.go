package canary_test

import (
	"bytes"
	"compress/gzip"
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"html"
	"net/url"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/stretchr/testify/require"
)

// encodings are the forms that a text can take on its way. Those that redact.Scrubber undoes
// are marked: it has to remove a secret in them.
func encodings() map[string]struct {
	of       func(s string) string
	scrubbed bool
} {
	type encoding = struct {
		of       func(s string) string
		scrubbed bool
	}
	each := func(format string) func(string) string {
		return func(s string) string {
			var b strings.Builder
			for i := range len(s) {
				fmt.Fprintf(&b, format, s[i])
			}
			return b.String()
		}
	}
	wide := func(order ...int) func(string) string {
		return func(s string) string {
			var b strings.Builder
			for _, u := range utf16.Encode([]rune(s)) {
				b.Write([]byte{byte(u >> order[0]), byte(u >> order[1])})
			}
			return b.String()
		}
	}
	zipped := func(s string) string {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		_, _ = w.Write([]byte("before " + s + " after")) // to memory: cannot fail
		_ = w.Close()
		return b.String()
	}
	wrapped := func(s string) string {
		var b strings.Builder
		for i := range len(s) {
			if i%7 == 6 {
				b.WriteString("\r\n")
			}
			b.WriteByte(s[i])
		}
		return b.String()
	}
	b64 := func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }
	json, percent := each(`\u%04x`), each("%%%02x")
	all := map[string]encoding{
		"plain":                {func(s string) string { return s }, true},
		"lower case":           {strings.ToLower, true},
		"upper case":           {strings.ToUpper, true},
		"URL":                  {percent, true},
		"URL in a URL":         {func(s string) string { return url.QueryEscape(percent(s)) }, true},
		"HTML":                 {each("&#%d;"), true},
		"HTML by name":         {func(s string) string { return html.EscapeString("<" + s + ">") }, true},
		"JSON":                 {json, true},
		"JSON in JSON":         {func(s string) string { return strings.ReplaceAll(json(s), `\`, `\\`) }, true},
		"JSON in a URL":        {func(s string) string { return url.QueryEscape(json(s)) }, true},
		"Go":                   {each(`\x%02x`), false},
		"hex":                  {each("%02x"), true},
		"HEX":                  {each("%02X"), true},
		"UTF-16, low first":    {wide(0, 8), true},
		"UTF-16, high first":   {wide(8, 0), true},
		"gzip":                 {zipped, false},
		"gzip in gzip":         {func(s string) string { return zipped(zipped(s)) }, false},
		"its beginning":        {func(s string) string { return s[:shortest] }, false},
		"its end":              {func(s string) string { return s[len(s)-shortest:] }, false},
		"over lines":           {wrapped, false},
		"base64 over lines":    {func(s string) string { return wrapped(b64("xx" + s + "yy")) }, true},
		"sha256 of its JSON":   {func(s string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(`"`+s+`"`))) }, false},
		"sha256 as its base64": {func(s string) string { h := sha256.Sum256([]byte(s)); return b64(string(h[:])) }, false},
		"sha256 in bytes":      {func(s string) string { h := sha256.Sum256([]byte(s)); return string(h[:]) }, false},
		"md5":                  {func(s string) string { h := md5.Sum([]byte(s)); return hex.EncodeToString(h[:]) }, false},
		"sha1":                 {func(s string) string { h := sha1.Sum([]byte(s)); return hex.EncodeToString(h[:]) }, false},
	}
	for i := range 9 { // every alignment
		around := func(s string) []byte { return []byte(strings.Repeat("b", i/3) + s + strings.Repeat("a", i%3)) }
		all[fmt.Sprintf("base64 %d", i)] = encoding{func(s string) string { return base64.StdEncoding.EncodeToString(around(s)) }, true}
		all[fmt.Sprintf("base64url %d", i)] = encoding{func(s string) string { return base64.RawURLEncoding.EncodeToString(around(s)) }, true}
	}
	return all
}

// TestScan: the scanner finds every form, nothing where there is nothing, and of what an
// owner reads only the secrets. A sink without data is an error.
func TestScan(t *testing.T) {
	t.Parallel()
	leaks := func(g *garden, s sink) []leak {
		found, err := scan(g.list(), []sink{s})
		require.NoError(t, err)
		return found
	}
	g := &garden{}
	text, key := g.plant("place"), g.secret("key")
	g.plant("elsewhere")
	for form, e := range encodings() {
		for _, text := range []string{text, key} {
			require.NotEmpty(t, leaks(g, sink{data: []byte("some text before " + e.of(text) + " and some after")}), form)
		}
		require.Empty(t, leaks(g, sink{data: []byte(e.of("ordinary-text-" + random(8)))}), form)
	}
	require.Empty(t, leaks(g, sink{data: []byte(text), owner: true}))
	require.NotEmpty(t, leaks(g, sink{data: []byte(text + key), owner: true}))

	for range 200 {
		g.plant("place")
	}
	noise := strings.Repeat(random(512)+" \x1f\x8b\x08 %zz \\u12 \\"+base64.StdEncoding.EncodeToString([]byte(random(256))), 20)
	require.Empty(t, leaks(g, sink{data: []byte(noise)}))
	_, err := scan(nil, []sink{{name: "log", data: []byte("x")}, {name: "metrics", data: []byte(" \n")}})
	require.ErrorContains(t, err, "metrics")
}
