package redact_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"html"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"weir/internal/redact"
)

const layered = `pa"ss/w\ord-42!xyz`

// layer is one way in which a text is quoted, and the way back.
type layer struct {
	name string
	put  func(string) string
	take func(string) (string, error)
}

func unquoteJSON(s string) (text string, err error) {
	err = json.Unmarshal([]byte(`"`+s+`"`), &text)
	return text, err
}

// plainJSON escapes no more than JSON has to.
func plainJSON(s string) string {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(s) //nolint:errchkjson // a string
	return b.String()[1 : b.Len()-2]
}

func unescapeHTML(s string) (string, error) { return html.UnescapeString(s), nil }

var namedReferences = strings.NewReplacer("&", "&amp;", "/", "&sol;", "+", "&plus;", `"`, "&quot;", ":", "&colon;", "=", "&equals;", `\`, "&bsol;", "!", "&excl;", "%", "&percnt;", "é", "&eacute", "\n", "&NewLine;")

var layersKnown = []layer{
	{"json", jsonText, unquoteJSON},
	{"json, plain", plainJSON, unquoteJSON},
	{"json, slashes", func(s string) string { return strings.ReplaceAll(plainJSON(s), "/", `\/`) }, unquoteJSON},
	{"json, long", unicodeText, unquoteJSON},
	{"path", url.PathEscape, url.PathUnescape},
	{"query", url.QueryEscape, url.QueryUnescape},
	{"percent", escapeAll, url.PathUnescape},
	{"html", html.EscapeString, unescapeHTML},
	{"html, names", namedReferences.Replace, unescapeHTML},
	{"html, digits", func(s string) string { return entities(s, "&#%d;") }, unescapeHTML},
	{"html, hex without semicolons", func(s string) string { return entities(s, "&#x%x") }, unescapeHTML},
}

func TestLayersAreTakenOff(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ text, want string }{
		"json in json":              {`{"b":"{\"token\":\"pa\\\"ss/w\\\\ord-42!xyz\"}"}`, `{"b":"{\"token\":\"REDACTED\"}"}`},
		"php in json":               {`{"b":"{\"token\":\"pa\\\"ss\\\/w\\\\ord-42!xyz\"}"}`, `{"b":"{\"token\":\"REDACTED\"}"}`},
		"php in php":                {`"a\\\/b pa\\\"ss\\\/w\\\\ord-42!xyz c\\\/d"`, `"a\\\/b REDACTED c\\\/d"`},
		"thrice":                    {`"\\\" pa\\\\\\\"ss/w\\\\\\\\ord-42!xyz\\\""`, `"\\\" REDACTED\\\""`},
		"unicode in json":           {`"\\u0070a\\u0022ss/w\\u005cord-42!xyz\\n"`, `"REDACTED\\n"`},
		"unicode twice in json":     {`"\\\\u0070a\\\\u0022ss/w\\\\u005Cord-42!xyz\\n"`, `"REDACTED\\n"`},
		"percent sign in json":      {`"\u002570a\u002522ss\u00252Fw\u00255Cord-42!xyz\u0025"`, `"REDACTED\u0025"`},
		"unicode in percent":        {`x=%5Cu0070a%5Cu0022ss/w%5C%5Cord-42!xyz%5Cn&y`, `x=REDACTED%5Cn&y`},
		"unicode in percent, twice": {`x=%255Cu0070a%255Cu0022ss/w%255C%255Cord-42!xyz%25&y`, `x=REDACTED%25&y`},
		"html in html":              {`&amp;#112;a&amp;quot;ss/w\ord-42!xyz&amp;`, `REDACTED&amp;`},
		"html in html in html":      {`&amp;amp;#112;a&amp;amp;quot;ss/w\ord-42!xyz&amp;amp;`, `REDACTED&amp;amp;`},
		"names":                     {`<b>pa&quot;ss&sol;w&bsol;ord-42&excl;xyz&nbsp;</b>`, `<b>REDACTED&nbsp;</b>`},
		"names in capitals":         {`&AMP;pa&QUOT;ss/w\ord-42!xyz&QUOT`, `&AMP;REDACTED&QUOT`},
		"names without semicolons":  {`pa&quotss/w\ord-42!xyz&quot`, `REDACTED&quot`},
		"numbers, no semicolons":    {`&#112a&#34ss&#x2Fw&#x5cord-42!xyz&#10`, `REDACTED&#10`},
		"zeros":                     {`pa&#000000000000000000000000034;ss/w\ord-42!xyz`, `REDACTED`},
		"html, json, percent":       {`pa%26%2392%3B%26quot%3Bss/w\ord-42!xyz`, `REDACTED`},
		"percent of base64":         {`a%255Cu0063GEic3Mvd1xvcmQtNDIheHl6`, `aREDACTED`},
		"overlapping layers":        {`pa\"ss/w\ord-42!xyzpa\\\"ss/w\\\\ord-42!xyz`, `REDACTEDREDACTED`},
		"members of JSON":           {`{"pa\\\"ss/w\\\\ord-42!xyz":[1.50],"b":"pa\\u0022ss/w\\\\ord-42!xyz"}`, `{"REDACTED":[1.50],"b":"REDACTED"}`},
		"half of an escape":         {`\\\"pa\\\"ss/w\\\\ord-42!xy\\u007a\\u0022`, `\\\"REDACTED\\u0022`},
	} {
		scrub := redact.Values([]string{layered})
		require.Equal(t, c.want, scrub.String(c.text), name)
		require.Equal(t, c.want, string(scrub.Bytes([]byte(c.text))), name)
		if json.Valid([]byte(c.text)) {
			require.Equal(t, c.want, string(scrub.JSON([]byte(c.text))), name)
		}
	}
}

func TestEveryLayerInEveryOther(t *testing.T) {
	t.Parallel()
	for _, secret := range append([]string{layered, "AGWC-SECRET: 0123456789/=", "50%25&amp;\\u0041%41x\"\\n", "clé/à&eacute;=\"%C3%A9"}, secrets...) {
		scrub := redact.Values([]string{secret})
		for _, inner := range layersKnown {
			for _, outer := range layersKnown {
				text := outer.put(inner.put(`{"t":"`) + inner.put(secret) + inner.put(`","n":1.50}`))
				want := outer.put(inner.put(`{"t":"`)) + redact.Mark + outer.put(inner.put(`","n":1.50}`))
				require.Equal(t, want, scrub.String(text), "%q as %s in %s: %s", secret, inner.name, outer.name, text)
			}
		}
	}
}

// TestAnyLayersOfAnySecret: whoever undoes what was done to a text finds all of
// it again but the secret, however far they go.
func TestAnyLayersOfAnySecret(t *testing.T) {
	t.Parallel()
	const before, after = `{"user":"someone <a@b.test>","n":[1.50],"t":"`, `","url":"https://a.test/x?y=1&z=2"}`
	piece := rapid.OneOf(
		rapid.StringMatching(`[!-~]`), rapid.StringMatching(`[a-zA-Z0-9]{2}`),
		rapid.SampledFrom([]string{`\`, `%`, `&`, `"`, `/`, ` `, "\n", "é", "€", "\U0001F511", "%41", "%25", "&amp;", "&#115;", "&lt", `\n`, `\u0041`, `\\`, `\"`}),
	)
	rapid.Check(t, func(t *rapid.T) {
		secret := strings.Join(rapid.SliceOfN(piece, 8, 24).Draw(t, "secret"), "")
		if strings.TrimSpace(secret) != secret || len(secret) < 8 {
			t.Skip("space around a secret is not its own")
		}
		done := rapid.SliceOfN(rapid.SampledFrom(layersKnown), 0, 3).Draw(t, "layers")
		text := before + secret + after
		for _, l := range done {
			text = l.put(text)
		}
		scrub := redact.Values([]string{secret})
		got := scrub.String(text)
		if again := scrub.String(got); again != got {
			t.Fatalf("%q in %q: %q is found again in %q", secret, text, got, again)
		}
		view := got
		for _, l := range slices.Backward(done) {
			if strings.Contains(view, secret) {
				t.Fatalf("%q in %q: stayed in %q", secret, got, view)
			}
			var err error
			if view, err = l.take(view); err != nil {
				if strings.HasSuffix(secret, `\`) { // it may have gone with one that escapes what stands behind
					return
				}
				t.Fatalf("%q in %q: %q is %s no longer", secret, text, view, l.name)
			}
		}
		if strings.Contains(view, secret) || !strings.HasPrefix(view, before[:len(before)-24]) || !strings.HasSuffix(view, after[24:]) {
			t.Fatalf("%q in %q: %q", secret, text, view)
		}
	})
}

func TestTextWithEscapesStays(t *testing.T) {
	t.Parallel()
	scrub := redact.Values([]string{layered, "hunter2-hunter2"})
	for _, text := range []string{
		`{"b":"{\"token\":\"pa\\\"ss/w\\\\ord-42!xy\"}"}`, `hunter2&hyphen;hunter2`, `hunter2&#45;&#45;hunter2`, `\\u0068\\u0075nter2`, `%2568unter2-hunter`,
		`&`, `&#`, `&#x`, `&#;`, `&#xg;`, `&#99999999999999;`, `&#xD800;`, `&#1114112;`, `&unknown;`, `&a=b&copy=c`, `&nGt;&nLt;&fjlig;&notit;&`, `\`, `\u`, `\u00`, `\ud83d\u`, `\ud83dude00`, `%`, `%%`, `%4`, `%zz`, "\xff%ff&yuml;",
		strings.Repeat("&", 99) + strings.Repeat(`\`, 99) + strings.Repeat("%", 99), "100 % sure & done \\o/",
		"", "hunter", "hunter2-hunter", "%6", "100%25 \\n \\u0068 hunter2", "hunter2 hunter2", strings.Repeat("hunter2-hunte", 50),
	} {
		require.Equal(t, text, scrub.String(text))
		b := []byte(text)
		got := scrub.Bytes(b)
		require.Equal(t, text, string(got))
		if text != "" {
			require.Same(t, &b[0], &got[0], "nothing is copied")
		}
	}
}

// TestEscapesWithoutEnd: what is beneath is no larger than the text by much, what nests or repeats is
// read in one frame, and nothing is read again from each of its bytes.
func TestEscapesWithoutEnd(t *testing.T) {
	t.Parallel()
	scrub := redact.Values([]string{layered})
	first := base64.StdEncoding.EncodeToString([]byte(layered))[:2]
	for _, unit := range []string{
		`\`, `\\\\\"`, `\u005c`, "%25", "&amp;", "&amp", "&nGt;", "&#0000", "&#65;", "&unknownunknownunknownunknownunknown", "&#x26;#x26;", `pa\\\"`, `%5Cu0025`,
		"A\x00", "\n", `\n`, first + "\r\n", "&", "&#65%" + strings.Repeat("25", 1000),
	} {
		text := first + strings.Repeat(unit, 1<<18/len(unit))
		require.Equal(t, text, scrub.String(text), unit)
		require.Equal(t, text+" "+redact.Mark+" "+text, scrub.String(text+" "+layered+" "+text), unit)
	}
}

func TestNothingIsAllocatedWithoutEscapes(t *testing.T) { //nolint:paralleltest // counts allocations
	scrub := redact.Values([]string{layered, "AGWC-SECRET-0123456789abcdef"})
	plain := bytes.Repeat([]byte(`{"id":12345,"name":"an ordinary record, 100 % of it & no more"},`), 64)
	require.Zero(t, testing.AllocsPerRun(20, func() { scrub.Bytes(plain) }))
	escaped := bytes.Repeat([]byte(`{"a":"line\nline","b":"x%20y","c":"a&amp;b&#99;&eacute;?x=1&page=2"},`), 64)
	require.LessOrEqual(t, testing.AllocsPerRun(20, func() { scrub.Bytes(escaped) }), 20.0, "a few for each layer and name, not for each escape")
}
