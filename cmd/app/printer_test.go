package app

import (
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
)

// unsafeText has one character of each sort that a terminal obeys or does not show, and others
// that it shows.
const unsafeText = "a\u009b31m\u202eb\u2066c\u200fd\u061ce\u2028f\U000e0041g é 語 👩\u200d💻"

// unsafe reports whether a terminal obeys a character or does not show it. Emoji need U+200D.
func unsafe(r rune) bool {
	return r != '\n' && r != '\t' && r != '\u200d' && (unicode.In(r, unicode.Cc, unicode.Cf) || r == '\u2028')
}

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
	body, h := c.does(t, http.StatusOK, http.MethodPost, "/v1/execute", fmt.Sprintf(`{"method":"GET","url":%q}`, target.URL))
	require.Contains(t, body, "\u009b", "the API sends characters as they are")
	id, rule := h.Get("Weir-Action-Id"), fmt.Sprintf(`{"id":"r","type":"mock","match":{"url_pattern":"http://nobody.example/*"},"action":{"body_mode":"json","body":%s}}`, quoted)
	for _, tt := range []struct {
		args  []string
		shows bool // the text is part of what the command prints
	}{
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
		assert.Equal(t, -1, strings.IndexFunc(shown, unsafe), "%v: %q", args, shown)
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
