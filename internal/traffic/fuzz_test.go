package traffic_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/txtar"

	"weir/internal/policy"
	"weir/internal/traffic"
	"weir/schemas"
)

// FuzzPattern: whatever the pattern, the target and the call, nothing panics; a
// redirect is made only of calls that policy could read, and what it makes of one
// has no raw control byte; the order of the rules does not matter.
func FuzzPattern(f *testing.F) {
	for _, s := range [][3]string{
		{"https://a.example/*", "https://b.example/$1", "https://a.example/x?y=1"},
		{"*://*.a.example:*/*", "$1://$2.b.example:$3/$4", "http://eu.a.example:81/x"},
		{"*", "https://b.example/?u=$1", "HTTPS://[::1]:444?x"},
		{"<all_urls>", "https://b.example/$x", "https://a.example/"},
		{"http://*a*a*/*a*a*b", "http://$1$2$3$4$5$6/", "http://aaaaaaaa.a:8080/aaaaaaaaaa?b"},
		{"https://a.example/*/*", "https://a.example/$2/$1", "https://a.example/1/2"},
		{"https://[::1]:8080/?*", "https://b.example/$01", "https://[::1]:8080?"},
		{"https://a.example?*", "https://b.example:$1/", "https://a.example?99999"},
		{"https://u@a.example/#", "https://u@b.example/#", "https://u@a.example/#"},
	} {
		f.Add(s[0], s[1], s[2], true)
		f.Add(s[0], s[1], s[2], false)
	}
	f.Fuzz(func(t *testing.T, pattern, to, url string, query bool) {
		r := redirect("r", pattern, to)
		r.Match.IncludeQuery = query
		slow := delay("d", 1)
		slow.Match = r.Match
		_, err := traffic.Compile(schemas.RuleSet{Rules: []schemas.Rule{slow}}, "e")
		if err != nil {
			require.Equal(t, "/match/url_pattern", asRefusal(t, err).Pointer)
			return
		}
		rules := []schemas.Rule{slow}
		doc := schemas.RuleSet{GlobalActive: true, Rules: append(rules, r)}
		s, err := traffic.Compile(doc, "e")
		if err != nil {
			require.Equal(t, "/action/to_url", asRefusal(t, err).Pointer)
			s, err = traffic.Compile(schemas.RuleSet{GlobalActive: true, Rules: rules}, "e")
			require.NoError(t, err)
		} else {
			prefix := traffic.TargetPrefix(r)
			require.True(t, strings.HasPrefix(to, prefix))
			_, readable := policy.Read(to, false)
			require.True(t, prefix != to || readable, to)
		}
		c := get(url)
		e := s.Shape(c, noon())
		_, readable := policy.Split(url, false)
		require.True(t, readable || len(e.Rules) == 0)
		for i := range len(e.URL) {
			require.True(t, e.URL[i] > ' ' && e.URL[i] < 0x7f, "%q", e.URL)
		}
		if err == nil && e.URL != "" {
			require.Equal(t, []string{"r", "d"}, e.Rules)
			slices.Reverse(doc.Rules)
			require.True(t, e.Same(compile(t, doc).Shape(c, noon())))
		}
	})
}

func seeds(f *testing.F, kinds ...string) [][]byte {
	f.Helper()
	var out [][]byte
	for _, kind := range kinds {
		files, err := filepath.Glob(filepath.Join(fixtures, kind, "*.txtar"))
		require.NoError(f, err)
		for _, file := range files {
			text, err := os.ReadFile(file)
			require.NoError(f, err)
			out = append(out, txtar.Parse(text).Files[0].Data)
		}
	}
	return out
}

// FuzzRead: nothing panics; what is accepted compiles, survives being stored, and
// shapes a call without a panic; what is refused says where.
func FuzzRead(f *testing.F) {
	for _, seed := range seeds(f, "valid", "invalid") {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		before := slices.Clone(raw)
		r, err := traffic.Read(raw, noon())
		require.Equal(t, before, raw)
		if err != nil {
			bad, ok := errors.AsType[*traffic.Invalid](err)
			require.True(t, ok, "%v", err)
			require.NotEmpty(t, bad.Message)
			return
		}
		survives(t, r)
		s := setOf(t, r)
		for _, url := range []string{here, "http://localhost:8080/?x", ""} {
			e := s.Shape(get(url), noon())
			require.True(t, e.Same(s.Shape(get(url), noon())))
			require.Subset(t, []string{r.ID}, e.Rules)
			require.LessOrEqual(t, len(e.Rules), 1)
		}
	})
}
