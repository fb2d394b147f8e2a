//go:build e2e

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

	"github.com/stretchr/testify/require"
)

// TestScanSeesEveryForm: what is not found in a form here would not be found
// anywhere.
func TestScanSeesEveryForm(t *testing.T) {
	t.Parallel()
	g := &garden{}
	text := g.plant("place")
	g.plant("elsewhere")
	percent := func(s string) string {
		var b strings.Builder
		for i := range len(s) {
			fmt.Fprintf(&b, "%%%02x", s[i])
		}
		return b.String()
	}
	escaped := func(s string) string {
		var b strings.Builder
		for _, r := range s {
			fmt.Fprintf(&b, `\u%04x`, r)
		}
		return b.String()
	}
	entities := func(s string) string {
		var b strings.Builder
		for _, r := range s {
			fmt.Fprintf(&b, "&#%d;", r)
		}
		return b.String()
	}
	zipped := func(s string) string {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		_, _ = w.Write([]byte(s))
		require.NoError(t, w.Close())
		return b.String()
	}
	wrapped := func(s string) string {
		var b strings.Builder
		for i := range len(s) {
			if i%7 == 6 {
				b.WriteString("\r\n ")
			}
			b.WriteByte(s[i])
		}
		return b.String()
	}
	m, s1, s2 := md5.Sum([]byte(text)), sha1.Sum([]byte(text)), sha256.Sum256([]byte(text))
	for form, hidden := range map[string]string{
		"as it is":               text,
		"in lower case":          strings.ToLower(text),
		"in upper case":          strings.ToUpper(text),
		"in a URL":               percent(text),
		"in a URL in a URL":      url.QueryEscape(percent(text)),
		"in HTML":                entities(text),
		"in HTML by name":        html.EscapeString("<" + text + ">"),
		"in JSON":                escaped(text),
		"in JSON in JSON":        strings.ReplaceAll(escaped(text), `\`, `\\`),
		"in Go":                  strings.ReplaceAll(escaped(text), `\u00`, `\x`),
		"in JSON in a URL":       url.QueryEscape(escaped(text)),
		"in hex":                 hex.EncodeToString([]byte(text)),
		"in HEX":                 strings.ToUpper(hex.EncodeToString([]byte(text))),
		"in UTF-16":              toUTF16(text, false),
		"in UTF-16 from the top": toUTF16(text, true),
		"compressed":             zipped("before " + text + " after"),
		"compressed twice":       zipped("before " + zipped(text) + " after"),
		"cut after 8":            text[:8],
		"over lines":             wrapped(text),
		"base64 over lines":      wrapped(base64.StdEncoding.EncodeToString([]byte("xx" + text + "yy"))),
		"md5":                    hex.EncodeToString(m[:]),
		"sha1":                   hex.EncodeToString(s1[:]),
		"sha256":                 hex.EncodeToString(s2[:]),
		"sha256 in base64":       base64.StdEncoding.EncodeToString(s2[:]),
		"sha256 in bytes":        string(s2[:]),
	} {
		requireLeak(t, g, form, "some text before "+hidden+" and some behind")
	}
	for before := range 3 {
		for after := range 3 {
			around := strings.Repeat("b", before) + text + strings.Repeat("a", after)
			requireLeak(t, g, fmt.Sprintf("base64 %d %d", before, after), "x "+base64.StdEncoding.EncodeToString([]byte(around)))
			requireLeak(t, g, fmt.Sprintf("base64url %d %d", before, after), "x "+base64.RawURLEncoding.EncodeToString([]byte(around)))
		}
	}
}

func requireLeak(t *testing.T, g *garden, form, data string) {
	t.Helper()
	leaks, err := scan(g.list(), []sink{{name: form, data: []byte(data)}})
	require.NoError(t, err)
	require.NotEmpty(t, leaks, form)
}

// TestScanSeesNothingWhereNothingIs: a scan that cries at anything proves nothing.
func TestScanSeesNothingWhereNothingIs(t *testing.T) {
	t.Parallel()
	g := &garden{}
	for i := range 200 {
		g.plant(fmt.Sprintf("place %d", i))
	}
	g.shapes()
	g.secret("key")
	other := (&garden{}).plant("place")
	data := strings.Repeat(random(512)+" \x1f\x8b\x08 %zz \\u12 "+base64.StdEncoding.EncodeToString([]byte(random(256))), 20)
	leaks, err := scan(g.list(), []sink{{name: "noise", data: []byte(data)}})
	require.NoError(t, err)
	require.Empty(t, leaks)
	leaks, err = scan(g.list()[200:], []sink{{name: "a stranger's", data: []byte(other)}})
	require.NoError(t, err)
	require.Empty(t, leaks)
}

// TestScanOfAnOwner: they see their own, and no secret.
func TestScanOfAnOwner(t *testing.T) {
	t.Parallel()
	g := &garden{}
	mine, key := g.plant("mine"), g.secret("key")
	leaks, err := scan(g.list(), []sink{{name: "answer", data: []byte(mine), owner: true}})
	require.NoError(t, err)
	require.Empty(t, leaks)
	leaks, err = scan(g.list(), []sink{{name: "answer", data: []byte(mine + key), owner: true}})
	require.NoError(t, err)
	require.NotEmpty(t, leaks)
}

// TestScanNeedsData: a sink that brought nothing is a failure, not a pass.
func TestScanNeedsData(t *testing.T) {
	t.Parallel()
	_, err := scan(nil, []sink{{name: "log", data: []byte("x")}, {name: "metrics", data: []byte(" \n")}})
	require.Equal(t, nothingError{"metrics"}, err)
}
