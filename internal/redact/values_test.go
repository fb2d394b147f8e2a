package redact_test

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"html"
	"net/url"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"weir/internal/redact"
)

// escapeAll percent-encodes every byte.
func escapeAll(s string) string {
	var b strings.Builder
	for i := range len(s) {
		fmt.Fprintf(&b, "%%%02x", s[i])
	}
	return b.String()
}

func jsonText(s string) string {
	b, _ := json.Marshal(s) //nolint:errchkjson // a string
	return string(b[1 : len(b)-1])
}

// unicodeText escapes every ASCII byte the long way.
func unicodeText(s string) string {
	var b strings.Builder
	for _, r := range s {
		if r < 0x80 {
			fmt.Fprintf(&b, `\u%04X`, r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

func forms(s string) map[string]string {
	return map[string]string{
		"raw":          s,
		"path":         url.PathEscape(s),
		"query":        url.QueryEscape(s),
		"query lower":  lowerEscapes(url.QueryEscape(s)),
		"all escaped":  escapeAll(s),
		"twice":        url.QueryEscape(url.QueryEscape(s)),
		"thrice":       url.QueryEscape(url.PathEscape(url.PathEscape(s))),
		"json":         jsonText(s),
		"json slashes": strings.ReplaceAll(jsonText(s), "/", `\/`),
		"json long":    unicodeText(s),
		"base64":       base64.StdEncoding.EncodeToString([]byte(s)),
		"base64 url":   base64.RawURLEncoding.EncodeToString([]byte(s)),
		"base64 +1":    base64.StdEncoding.EncodeToString([]byte("u" + s + "?")),
		"base64 +2":    base64.URLEncoding.EncodeToString([]byte("u:" + s + "??")),
		"base64 basic": base64.StdEncoding.EncodeToString([]byte("user:" + s)),
		"base64 query": url.QueryEscape(base64.StdEncoding.EncodeToString([]byte("a" + s))),
		"base64 json":  strings.ReplaceAll(base64.StdEncoding.EncodeToString([]byte("ab"+s)), "/", `\/`),
		"upper case":   strings.Map(asciiUpper, s),
		"lower case":   strings.Map(asciiLower, s),
		"HTML":         html.EscapeString(s),
		"HTML digits":  entities(s, "&#%d;"),
		"HTML hex":     entities(s, "&#x%02X;"),
		"HTML in JSON": jsonText(html.EscapeString(s)),
		"base64 lines": wrapped(base64.StdEncoding.EncodeToString([]byte("ab"+s)), "\r\n"),
		"base64 line":  wrapped(base64.StdEncoding.EncodeToString([]byte("ab"+s)), `\n`),
		"hex":          hex.EncodeToString([]byte(s)),
		"HEX":          strings.ToUpper(hex.EncodeToString([]byte(s))),
	}
}

func asciiUpper(r rune) rune {
	if 'a' <= r && r <= 'z' {
		return r - 'a' + 'A'
	}
	return r
}

func asciiLower(r rune) rune {
	if 'A' <= r && r <= 'Z' {
		return r - 'A' + 'a'
	}
	return r
}

// entities writes every ASCII byte as a reference.
func entities(s, format string) string {
	var b strings.Builder
	for _, r := range s {
		if r < 0x80 {
			fmt.Fprintf(&b, format, r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// wrapped breaks a text into short lines.
func wrapped(s, lineBreak string) string {
	var b strings.Builder
	for i, r := range s {
		if i > 0 && i%7 == 0 {
			b.WriteString(lineBreak)
		}
		b.WriteRune(r)
	}
	return b.String()
}

func lowerEscapes(s string) string {
	b := []byte(s)
	for i := range b {
		if b[i] == '%' {
			copy(b[i:], bytes.ToLower(b[i:i+3]))
		}
	}
	return string(b)
}

var secrets = []string{
	"AGWC-SECRET-0123456789abcdef", "p@ss w0rd/+=&?#%25", `quo"te\back/slash`, "sk-live_51H8x.Yz~", "100%sure", "tok\u00e9n-\U0001F511-x", "abcd", "a%2541b", `a\\nb`, "line one\nline two",
}

func TestEveryFormIsTakenOut(t *testing.T) {
	t.Parallel()
	for _, secret := range secrets {
		scrub := redact.Values([]string{secret})
		for name, form := range forms(secret) {
			for _, around := range [][2]string{{"", ""}, {"x=", "&y"}, {`{"a":"`, `"}`}, {"<", ">"}} {
				got := scrub.String(around[0] + form + around[1])
				if strings.HasPrefix(name, "base64") {
					require.Contains(t, got, redact.Mark, "%s of %q", name, secret)
					require.Less(t, len(strings.TrimSuffix(strings.TrimPrefix(got, around[0]), around[1])), len(redact.Mark)+14, "%s of %q: %q", name, secret, got)
					continue
				}
				require.Equal(t, around[0]+redact.Mark+around[1], got, "%s of %q", name, secret)
			}
		}
	}
}

// Whatever stands around it, no run of base64 that the secret determines stays.
func TestBase64InAnySurroundings(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		secret := rapid.SliceOfN(rapid.ByteRange(0x21, 0x7e), redact.MinSecret, 40).Draw(t, "secret")
		before := rapid.SliceOfN(rapid.Byte(), 0, 9).Draw(t, "before")
		after := rapid.SliceOfN(rapid.Byte(), 0, 9).Draw(t, "after")
		enc := rapid.SampledFrom([]*base64.Encoding{base64.StdEncoding, base64.URLEncoding, base64.RawStdEncoding, base64.RawURLEncoding}).Draw(t, "encoding")
		whole := string(before) + string(secret) + string(after)
		got := redact.Values([]string{string(secret)}).String(enc.EncodeToString([]byte(whole)))
		left, right, found := strings.Cut(got, redact.Mark)
		if !found {
			t.Fatalf("%q of %q stayed", secret, whole)
		}
		if len(left)*6 > len(before)*8 {
			t.Fatalf("%q holds bits of the secret", left)
		}
		if right = strings.TrimRight(right, "="); len(right)*6 > len(after)*8+5 && !strings.Contains(right, redact.Mark) {
			t.Fatalf("%q holds bits of the secret", right)
		}
	})
}

func TestUTF16IsTakenOut(t *testing.T) {
	t.Parallel()
	scrub := redact.Values([]string{"AGWC-SECRET"})
	for _, order := range []binary.AppendByteOrder{binary.LittleEndian, binary.BigEndian} {
		var b []byte
		for _, unit := range utf16.Encode([]rune("<AGWC-SECRET>")) {
			b = order.AppendUint16(b, unit)
		}
		got := scrub.Bytes(b)
		require.Contains(t, string(got), redact.Mark)
		require.NotContains(t, string(got), "A\x00G")
	}
	doc, err := json.Marshal("A\x00G\x00W\x00C\x00-\x00S\x00E\x00C\x00R\x00E\x00T")
	require.NoError(t, err)
	require.Equal(t, `"REDACTED"`, scrub.String(string(doc)))
}

func TestOverlapsLeaveNothing(t *testing.T) {
	t.Parallel()
	scrub := redact.Values([]string{"abcdef", "defghi", "abcd"})
	require.Equal(t, "-REDACTED-", scrub.String("-abcdefghi-"))
	require.Equal(t, "-REDACTED-", scrub.String("-abcdef-"))
	require.Equal(t, "-REDACTEDz", scrub.String("-abcdz"))
	require.Equal(t, "REDACTEDREDACTED", scrub.String("abcddefghi"), "side by side")
	require.Equal(t, "REDACTED%20REDACTED", scrub.String("abcd%20abcdef"))
}

func TestShortSecrets(t *testing.T) {
	t.Parallel()
	scrub := redact.Values([]string{"", " ", "abc", " abc", "x", "four"})
	require.Equal(t, "abc x REDACTED", scrub.String("abc x four"))
	require.Equal(t, "[REDACTED]", redact.Values([]string{" s3cret\n"}).String("[s3cret]"), "space around a secret is not its own")

	none := redact.Values(nil)
	require.Equal(t, "text", none.String("text"))
	var missing *redact.Scrubber
	require.Equal(t, "text", missing.String("text"))
	require.Equal(t, []byte("text"), missing.Bytes([]byte("text")))
}

func BenchmarkScrub(b *testing.B) {
	scrub := redact.Values([]string{"AGWC-SECRET-0123456789abcdef", "sk-live_51H8xYz", "user-password"})
	text := bytes.Repeat([]byte(`{"id":12345,"name":"A perfectly ordinary record","url":"https://a.test/x%20y?z=1","note":"line\nline"},`), 8<<20/104)
	noise := []byte(base64.StdEncoding.EncodeToString(bytes.Repeat([]byte("\x17\xa2\x9c\x44\xfe\x01"), 1<<20)))
	for name, body := range map[string][]byte{"json": text, "base64": noise, "percent": bytes.Repeat([]byte("%25"), 2<<20)} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				scrub.Bytes(body)
			}
		})
	}
}

func TestJSONStaysJSON(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ secret, doc, want string }{
		{"hunter2-x", `{"a":"hunter2-x","n":1.50}`, `{"a":"REDACTED","n":1.50}`},
		{"hunter2-x", `{"hunter2-x":1}`, `{"REDACTED":1}`},
		{"12345678", `{"id":12345678,"n":1.50}`, `{"id":"REDACTED","n":1.50}`},
		{"12345678", `[0.12345678e5, 5 , "x12345678"]`, `["REDACTED", 5 , "xREDACTED"]`},
		{"true", ` [true,false]`, ` ["REDACTED",false]`},
		{"nabcd", `{"a":"\nabcd","b":"nabcd"}`, `{"a":"REDACTED","b":"REDACTED"}`},
		{`a","b`, `["a","b"]`, `["REDACTED"]`},
		{`":1,"`, `{"a":1,"b":2}`, `{"aREDACTEDb":2}`}, // across the structure: no JSON any more
		{"abcd", `12`, `12`},
		{"abcd", `{}`, `{}`},
	} {
		scrub := redact.Values([]string{c.secret})
		require.Equal(t, c.want, string(scrub.JSON([]byte(c.doc))), c.doc)
	}
	require.Equal(t, `{"a":1}`, string((*redact.Scrubber)(nil).JSON([]byte(`{"a":1}`))))
}

// FuzzJSON: JSON loses the secret, and stays JSON where the secret is a word.
func FuzzJSON(f *testing.F) {
	f.Add("12345678", `{"id":12345678}`)
	f.Add("nabcd", `["\nabcd"]`)
	f.Add(`a":"b`, `{"a":"b"}`)
	f.Fuzz(func(t *testing.T, secret, doc string) {
		if !json.Valid([]byte(doc)) || len(secret) < redact.MinSecret || strings.TrimSpace(secret) != secret || strings.Contains(strings.ToUpper(redact.Mark), strings.ToUpper(secret)) {
			return
		}
		out := redact.Values([]string{secret}).JSON([]byte(doc))
		if !strings.ContainsAny(strings.ToUpper(secret), redact.Mark) && bytes.Contains(out, []byte(secret)) {
			t.Fatalf("%q stayed in %q", secret, out)
		}
		if !strings.ContainsAny(secret, `{}[]:," \`+"\t\r\n") && !json.Valid(out) {
			t.Fatalf("%q became %q", doc, out)
		}
	})
}

// TestReadingsThatBranchEnd: each two backslashes are two, or one that is escaped,
// so that a run of them has more readings than could ever be tried. What is then
// not known to be no secret is taken out.
func TestReadingsThatBranchEnd(t *testing.T) {
	t.Parallel()
	scrub := redact.Values([]string{strings.Repeat(`\`, 60) + "-the-end"})
	require.Equal(t, "beforeREDACTED", scrub.String("before "+strings.Repeat(`\`, 120)+" after"))
	require.Equal(t, "before and after", scrub.String("before and after"), "each text has its own budget")
}

// TestShortRunsAreReadToTheEnd: the secrets that exist never spend the budget,
// whatever comes back.
func TestShortRunsAreReadToTheEnd(t *testing.T) {
	t.Parallel()
	for _, secret := range []string{`\pass`, `\\pass`, `p%s&\w`, `%%pass`, `&&pass`, `domain\user:p\\w`} {
		scrub := redact.Values([]string{secret})
		for _, unit := range []string{`\`, `\\`, `%25`, `&amp;`, `\u005c`, "%5C", secret[:len(secret)-1]} {
			text := strings.Repeat(unit, 1<<12)
			require.Equal(t, text, scrub.String(text), "%q, %q", secret, unit)
		}
		require.Equal(t, "a REDACTED b", scrub.String("a "+secret+" b"))
	}
}
