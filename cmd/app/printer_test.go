package app

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	sse "github.com/tmaxmax/go-sse"

	"weir/internal/weirtest/llm"
)

// unsafeText has one character of each sort that a terminal obeys or does not show, and others
// that it shows.
const unsafeText = "a\u009b31m\u202eb\u2066c\u200fd\u061ce\u2028f\U000e0041g é 語 👩\u200d💻"

// TestNoCommandPrintsUnsafeCharacters has a target answer with characters that steer a terminal,
// and a rule hold them: every command shows them escaped, and JSON keeps its meaning.
func TestNoCommandPrintsUnsafeCharacters(t *testing.T) {
	t.Parallel()
	quoted := `"` + unsafeText + `"` // as it is: nothing is escaped
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"said":`+quoted+`}`)
	}))
	t.Cleanup(target.Close)
	c := tenant(t, "prints")
	status, body, h := c.do(t, http.MethodPost, "/v1/execute", fmt.Sprintf(`{"method":"GET","url":%q}`, target.URL))
	require.Equal(t, http.StatusOK, status, body)
	require.Contains(t, body, "\u009b", "the API sends characters as they are")
	id, rule := h.Get("Weir-Action-Id"), fmt.Sprintf(`{"id":"r","type":"mock","match":{"url_pattern":"http://nobody.example/*"},"action":{"body_mode":"json","body":%s}}`, quoted)
	for _, tt := range []struct {
		args  []string
		shows bool // the text is part of what the command prints
	}{
		{[]string{"exec", "GET", target.URL}, true},
		{[]string{"exec", "GET", target.URL, "--json"}, true},
		{[]string{"exec", "GET", target.URL, "-H", unsafeText + ": x"}, false},
		{[]string{"tail", "actions", id, "--json"}, true},
		{[]string{"tail", "actions", id}, false},
		{[]string{"actions", "show", id}, false},
		{[]string{"actions", "show", id, "--json"}, true},
		{[]string{"rules", "create", rule, "--json"}, true},
		{[]string{"rules", "get", "r"}, true},
		{[]string{"rules", "list", "--json"}, true},
		{[]string{"rules", "list", "--group", unsafeText}, true},
		{[]string{unsafeText}, false},
	} {
		args := tt.args
		_, out, errs := c.command(t, args...)
		shown := out + errs
		assert.NotContains(t, strings.ToValidUTF8(shown, "\x00"), "\x00", args)
		assert.Equal(t, -1, strings.IndexFunc(shown, func(r rune) bool { return unicode.Is(unsafeRunes, r) && r != '\n' && r != '\t' }), "%v: %q", args, shown)
		if tt.shows {
			assert.Contains(t, shown, `\u009b31m\u202eb\u2066c\u200fd\u061ce\u2028f\udb40\udc41g é 語 👩`+"\u200d💻", args)
		}
		if out != "" && args[len(args)-1] == "--json" {
			var doc any
			for dec := json.NewDecoder(strings.NewReader(out)); dec.More(); {
				require.NoError(t, dec.Decode(&doc), args)
			}
			again, err := json.Marshal(doc)
			require.NoError(t, err)
			assert.Contains(t, string(again), "\u009b31m\u202eb", args)
		}
	}
}

// TestABodyGoesToAPipeAsItIs: what a program reads is not escaped.
func TestABodyGoesToAPipeAsItIs(t *testing.T) {
	t.Parallel()
	_, server := provider(t, llm.Config{Default: llm.Act{Texts: []string{unsafeText}}})
	code, out, errs := saying(t, "", "chat", "m", "Hi", server)
	require.Equal(t, exitOK, code, errs)
	assert.Equal(t, unsafeText+"\n", out)
	code, out, errs = saying(t, "", "chat", "m", "Hi", server, "--json")
	require.Equal(t, exitOK, code, errs)
	assert.Contains(t, out, `\u009b`)
}

func TestPrinter(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                   "",
		"a\n\tb":             "a\n\tb",
		"a\r\x1b[2J\x00\x7f": `a\u000d\u001b[2J\u0000\u007f`,
		"\x9b é":             "\ufffd é",
		"\U0001f600\ufeff":   "\U0001f600" + `\ufeff`,
	} {
		var out bytes.Buffer
		n, err := printer{&out}.Write([]byte(text))
		require.NoError(t, err)
		assert.Equal(t, len(text), n)
		assert.Equal(t, want, out.String())
	}
	assert.Equal(t, `a\u000a\u0009b`, oneLine("a\n\tb"))
}

// FuzzTail reads whatever a server says as `weir tail` does, and shows it.
func FuzzTail(f *testing.F) {
	for _, s := range []string{
		"id: 1\nevent: settled\ndata: {\"settled\":{\"outcome\":\"succeeded\"},\"time\":\"t\"}\n\n", "data: []\n\n", "data: {\"settled\":1}\nevent: settled\n\n", "event: \ndata: {\"\":{\"a\":\"" + strings.Repeat("é", 300) + "\"}}\n\n",
		"data: {\ndata: }\n\n", "data: null\n\n", "data: {\"time\":{},\"code\":null}\n\n", ":\n\n", "\x00", "data: \xff\n\n",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, wire []byte) {
		for e, err := range sse.Read(bytes.NewReader(wire), &sse.ReadConfig{MaxEventSize: 1 << 20}) {
			if err != nil {
				return
			}
			var plain, raw bytes.Buffer
			_ = showEvent(&environment{Streams: Streams{Out: &plain}}, &clientFlags{}, e)
			require.NoError(t, showEvent(&environment{Streams: Streams{Out: &raw}}, &clientFlags{asJSON: true}, e))
			require.Equal(t, e.Data+"\n", raw.String(), "a program gets what was sent")
		}
	})
}
