package models_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/internal/models"
	"weir/schemas"
)

func up(name string) schemas.ModelUpstream {
	return schemas.ModelUpstream{Name: name, URL: "https://h"}
}

func model(name string, ups ...schemas.ModelUpstream) schemas.Model {
	return schemas.Model{Name: name, Upstreams: ups}
}

func alias(name, of string) schemas.Model { return schemas.Model{Name: name, Alias: of} }

func compile(t *testing.T, list ...schemas.Model) *models.Set {
	t.Helper()
	s, err := models.Compile(list)
	require.NoError(t, err)
	return s
}

func zoo(t *testing.T) *models.Set {
	t.Helper()
	return compile(
		t, alias("fast", "openai/gpt-4o-mini"), alias("deep", "openai/o3"), alias("old/*", "solo"), model("*", up("any")), model("openai/*", up("openai-any")),
		model("openai/gpt-4o", up("gpt")), model("openai/ft/*", up("ft")), model("solo", up("solo")),
	)
}

func TestFind(t *testing.T) {
	t.Parallel()
	s := zoo(t)
	for asked, want := range map[string][2]string{
		"openai/gpt-4o":      {"openai/gpt-4o", "openai/gpt-4o"},
		"openai/gpt-4o-mini": {"openai/*", "openai/gpt-4o-mini"},
		"openai/ft/a/b":      {"openai/ft/*", "openai/ft/a/b"},
		"openai/ft":          {"openai/*", "openai/ft"},
		"openai":             {"*", "openai"},
		"OpenAI/gpt-4o":      {"*", "OpenAI/gpt-4o"},
		"openaix/gpt":        {"*", "openaix/gpt"},
		"solo":               {"solo", "solo"},
		"fast":               {"openai/*", "openai/gpt-4o-mini"},
		"old/model":          {"solo", "solo"},
	} {
		m, name, ok := s.Find(asked)
		require.True(t, ok, asked)
		require.Equal(t, want, [2]string{m.Name, name}, asked)
	}
	for _, asked := range []string{"", "*", "openai/*", "openai/", "/", "a//b", "../x", "a/../b", "a b", "a\nb", strings.Repeat("a", schemas.MaxModel+1)} {
		_, _, ok := s.Find(asked)
		require.False(t, ok, "%q", asked)
	}
	var none *models.Set
	_, _, ok := none.Find("a")
	require.False(t, ok)
	require.Empty(t, none.Candidates([]string{"a"}, nil, nil, "x"))
	require.NotNil(t, none.Views(nil, nil), "an empty list is one in JSON too")
	_, _, ok = compile(t, model("a/*", up("a"))).Find("b/c")
	require.False(t, ok)
}

func TestCompileRefuses(t *testing.T) {
	t.Parallel()
	for want, list := range map[string][]schemas.Model{
		`model "a" is there twice`:                                    {model("a", up("x")), model("a", up("y"))},
		`model "a b" has no name that a model or a pattern can have`:  {model("a b", up("x"))},
		`model "a*" has no name that a model or a pattern can have`:   {model("a*", up("x"))},
		`model "a" is an alias and has upstreams`:                     {{Name: "a", Alias: "b", Upstreams: []schemas.ModelUpstream{up("x")}}, model("b", up("y"))},
		`model "a" has no upstream`:                                   {model("a")},
		`upstream "x" is one of model "a" and of "b"`:                 {model("b", up("x")), model("a", up("x"))},
		`upstream "x" is one of model "a" and of "a"`:                 {model("a", up("x"), up("x"))},
		`model "a" is an alias of "b", which is no model`:             {alias("a", "b"), model("c/*", up("x"))},
		`model "a" is an alias of "b", which is an alias itself`:      {alias("a", "b"), alias("b", "c"), model("c", up("x"))},
		`model "a" is an alias of "a", which is an alias itself`:      {alias("a", "a")},
		`model "*" is an alias of "gone", which is an alias itself`:   {alias("*", "gone")},
		`model "a" is an alias of "canary", which is an alias itself`: {alias("a", "canary"), alias("*", "b"), model("b", up("x"))},
		`model "a" is an alias of "b/*", which is no model`:           {alias("a", "b/*"), model("c", up("x"))},
	} {
		_, err := models.Compile(list)
		require.EqualError(t, err, want)
	}
}

func TestMay(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		patterns []string
		name     string
		want     bool
	}{
		{nil, "a", true},
		{[]string{"a"}, "a", true},
		{[]string{"a"}, "ab", false},
		{[]string{"a"}, "a/b", false},
		{[]string{"a/*"}, "a/b", true},
		{[]string{"a/*"}, "a/b/c", true},
		{[]string{"a/*"}, "a", false},
		{[]string{"a/*"}, "a/", false},
		{[]string{"a/*"}, "ab/c", false},
		{[]string{"a/*"}, "A/b", false},
		{[]string{"a/*"}, "a/*", true},
		{[]string{"a/b/*"}, "a/*", false},
		{[]string{"x", "*"}, "a/b", true},
		{[]string{"x", "y/*"}, "z", false},
	} {
		require.Equal(t, tt.want, models.May(tt.patterns, tt.name), "%v %s", tt.patterns, tt.name)
	}
}

func TestValidPattern(t *testing.T) {
	t.Parallel()
	for _, good := range []string{"*", "a", "a/*", "a/b:free/*", "a.b-c_d@1+2", strings.Repeat("a", schemas.MaxModel-2) + "/*"} {
		require.True(t, models.ValidPattern(good), good)
	}
	for _, bad := range []string{"", "/*", "a*", "**", "a/*/b", "*/a", "a//*", "../*", "a /*", "a/**", strings.Repeat("a", schemas.MaxModel-1) + "/*"} {
		require.False(t, models.ValidPattern(bad), bad)
	}
}

// A token that may use an alias may use what it stands for by it, and one that may use
// a model may use it by every alias; nothing else lets anybody pass.
func TestUsable(t *testing.T) {
	t.Parallel()
	s := zoo(t)
	may := func(patterns ...string) func(string) bool {
		return func(name string) bool { return models.May(patterns, name) }
	}
	require.True(t, s.Usable("fast", may("fast")))
	require.False(t, s.Usable("openai/gpt-4o-mini", may("fast")))
	require.True(t, s.Usable("fast", may("openai/*")))
	require.False(t, s.Usable("fast", may("solo")))
	require.True(t, s.Usable("anything", nil))
	require.False(t, s.Usable("no model", nil))
}

// FuzzPattern: a pattern fits what begins with its prefix and is longer, an exact name
// itself, and no text is both a name in a request and a pattern with a star.
func FuzzPattern(f *testing.F) {
	for _, seed := range [][2]string{{"a/*", "a/b"}, {"*", "a"}, {"a", "a"}, {"a//*", "a//b"}, {"../*", "../x"}} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, pattern, name string) {
		if !models.ValidPattern(pattern) || !schemas.ValidModel(name) {
			return
		}
		prefix, star := strings.CutSuffix(pattern, "*")
		require.Equal(t, !star, schemas.ValidModel(pattern))
		want := name == pattern || star && strings.HasPrefix(name, prefix) && name != prefix
		require.Equal(t, want, models.May([]string{pattern}, name))
		s, err := models.Compile([]schemas.Model{{Name: pattern, Upstreams: []schemas.ModelUpstream{{Name: "u", Model: ""}}}})
		require.NoError(t, err)
		_, found, ok := s.Find(name)
		require.Equal(t, want, ok)
		if ok {
			require.Equal(t, name, found)
		}
	})
}
