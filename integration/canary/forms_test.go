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

// encodings are the forms that a text can take on its way.
func encodings() map[string]func(s string) string {
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
	all := map[string]func(string) string{
		"plain":                func(s string) string { return s },
		"lower case":           strings.ToLower,
		"upper case":           strings.ToUpper,
		"URL":                  percent,
		"URL in a URL":         func(s string) string { return url.QueryEscape(percent(s)) },
		"HTML":                 each("&#%d;"),
		"HTML by name":         func(s string) string { return html.EscapeString("<" + s + ">") },
		"JSON":                 json,
		"JSON in JSON":         func(s string) string { return strings.ReplaceAll(json(s), `\`, `\\`) },
		"JSON in a URL":        func(s string) string { return url.QueryEscape(json(s)) },
		"Go":                   each(`\x%02x`),
		"hex":                  each("%02x"),
		"HEX":                  each("%02X"),
		"UTF-16, low first":    wide(0, 8),
		"UTF-16, high first":   wide(8, 0),
		"gzip":                 zipped,
		"gzip in gzip":         func(s string) string { return zipped(zipped(s)) },
		"its beginning":        func(s string) string { return s[:shortest] },
		"its end":              func(s string) string { return s[max(0, len(s)-tail):] },
		"over lines":           wrapped,
		"base64 over lines":    func(s string) string { return wrapped(b64("xx" + s + "yy")) },
		"sha256 of its JSON":   func(s string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(`"`+s+`"`))) },
		"sha256 as its base64": func(s string) string { h := sha256.Sum256([]byte(s)); return b64(string(h[:])) },
		"sha256 in bytes":      func(s string) string { h := sha256.Sum256([]byte(s)); return string(h[:]) },
		"md5":                  func(s string) string { h := md5.Sum([]byte(s)); return hex.EncodeToString(h[:]) },
		"sha1":                 func(s string) string { h := sha1.Sum([]byte(s)); return hex.EncodeToString(h[:]) },
	}
	for i := range 9 { // every alignment
		around := func(s string) []byte { return []byte(strings.Repeat("b", i/3) + s + strings.Repeat("a", i%3)) }
		all[fmt.Sprintf("base64 %d", i)] = func(s string) string { return base64.StdEncoding.EncodeToString(around(s)) }
		all[fmt.Sprintf("base64url %d", i)] = func(s string) string { return base64.RawURLEncoding.EncodeToString(around(s)) }
	}
	return all
}

// TestScan: the scanner finds every form, nothing where there is nothing, and of what an
// owner reads only the secrets. A sink without data is an error.
func TestScan(t *testing.T) {
	t.Parallel()
	leaks := func(g *planted, s output) []leak {
		found, err := scan(g.list(), []output{s})
		require.NoError(t, err)
		return found
	}
	g := &planted{}
	text, key := g.plant("place"), g.secret("key")
	g.plant("elsewhere")
	for form, e := range encodings() {
		for _, text := range []string{text, key} {
			require.NotEmpty(t, leaks(g, output{data: []byte("some text before " + e(text) + " and some after")}), form)
		}
		require.Empty(t, leaks(g, output{data: []byte(e("ordinary-text-" + random(8)))}), form)
	}
	require.Empty(t, leaks(g, output{data: []byte(text), owner: true}))
	require.NotEmpty(t, leaks(g, output{data: []byte(text + key), owner: true}))

	for range 200 {
		g.plant("place")
	}
	noise := strings.Repeat(random(512)+" \x1f\x8b\x08 %zz \\u12 \\"+base64.StdEncoding.EncodeToString([]byte(random(256))), 20)
	require.Empty(t, leaks(g, output{data: []byte(noise)}))
	_, err := scan(nil, []output{{name: "log", data: []byte("x")}, {name: "metrics", data: []byte(" \n")}})
	require.ErrorContains(t, err, "metrics")
}
