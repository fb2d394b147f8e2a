package models_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

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

func set(list ...schemas.Model) *models.Set { return models.New(list) }

func zoo() *models.Set {
	return set(
		alias("fast", "openai/gpt-4o-mini"), alias("deep", "openai/o3"), alias("old/*", "solo"), model("*", up("any")), model("openai/*", up("openai-any")),
		model("openai/gpt-4o", up("gpt")), model("openai/ft/*", up("ft")), model("solo", up("solo")),
	)
}

func TestFind(t *testing.T) {
	t.Parallel()
	s := zoo()
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
	_, _, ok = set(model("a/*", up("a"))).Find("b/c")
	require.False(t, ok)
}

func TestValidPattern(t *testing.T) {
	t.Parallel()
	for _, good := range []string{"*", "a", "a/*", "a/b:free/*", "a.b-c_d@1+2", "a*", "claude-*", "a/b-*", strings.Repeat("a", schemas.MaxModel-2) + "/*"} {
		require.True(t, models.ValidPattern(good), good)
	}
	for _, bad := range []string{"", "/*", "**", "a/*/b", "*/a", "a//*", "../*", "a /*", "a/**", strings.Repeat("a", schemas.MaxModel-1) + "/*"} {
		require.False(t, models.ValidPattern(bad), bad)
	}
}

// A token that may use an alias may use what it stands for by it, and one that may use
// a model may use it by every alias; nothing else lets anybody pass.
func TestUsable(t *testing.T) {
	t.Parallel()
	s := zoo()
	may := func(patterns ...string) func(string) bool {
		return func(name string) bool { return models.May(patterns, name) }
	}
	require.True(t, s.Usable("fast", may("fast")))
	require.False(t, s.Usable("openai/gpt-4o-mini", may("fast")))
	require.True(t, s.Usable("fast", may("openai/*")))
	require.False(t, s.Usable("fast", may("solo")))
	require.True(t, s.Usable("anything", nil))
	require.True(t, s.Usable("solo", may()) && s.Usable("solo", may("x", "*")) && !s.Usable("solo", may("x", "y/*")))
	require.False(t, s.Usable("no model", nil))
}

// FuzzPattern: a pattern fits what begins with its prefix and is longer, an exact name
// itself, and no text is both a name in a request and a pattern with a star.
func FuzzPattern(f *testing.F) {
	for _, seed := range [][2]string{{"a/*", "a/b"}, {"a/*", "ab/c"}, {"a/*", "A/b"}, {"a/b/*", "a/c"}, {"*", "a"}, {"a", "a"}, {"a", "ab"}, {"a//*", "a//b"}, {"../*", "../x"}} {
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
		s := set(model(pattern, up("u")))
		_, found, ok := s.Find(name)
		require.Equal(t, want, ok)
		if ok {
			require.Equal(t, name, found)
		}
	})
}

// told is a list of candidates in a line each: what was asked, what for, where, and as what.
func told(list []models.Candidate) []string {
	lines := []string{}
	for _, c := range list {
		lines = append(lines, strings.Join([]string{c.Asked, c.Name, c.Model.Name, c.Upstream.Name, c.Send}, " "))
	}
	return lines
}

func TestCandidates(t *testing.T) {
	t.Parallel()
	named := func(name, model string) schemas.ModelUpstream {
		return schemas.ModelUpstream{Name: name, URL: "https://h", Model: model}
	}
	s := set(
		alias("fast", "b/x"), model("a", up("a1"), named("a2", "vendor/a")), model("b/*", up("b1"), named("b2", "v-*"), named("b3", "one")),
		model("*", named("all", "p/*")),
	)
	require.Equal(t, []string{"a a a a1 a", "a a a a2 vendor/a"}, told(s.Candidates([]string{"a"}, nil, nil, "s")))
	require.Equal(
		t, []string{"fast b/x b/* b1 b/x", "fast b/x b/* b2 v-x", "fast b/x b/* b3 one", "q/r q/r * all p/q/r"},
		told(s.Candidates([]string{"fast", "q/r", "b/x", "q/r"}, nil, nil, "s")), "nothing is asked twice",
	)
	require.Equal(
		t, []string{"b/x b/x b/* b1 b/x", "b/x b/x b/* b2 v-x", "b/x b/x b/* b3 one", "b/y b/y b/* b1 b/y", "b/y b/y b/* b2 v-y"},
		told(s.Candidates([]string{"b/x", "b/y"}, nil, nil, "s")), "another model at the same place is not the same",
	)
	may := func(name string) bool { return models.May([]string{"a", "fast"}, name) }
	require.Equal(t, []string{"fast b/x b/* b1 b/x"}, told(s.Candidates(
		[]string{"b/x", "nobody knows", "q", "fast"}, may, func(e string) bool { return e == "model:b1" }, "s",
	)))
	require.Empty(t, s.Candidates(nil, nil, nil, "s"))
}

// The load is shared by weight, among neighbours alone, and the same action always
// draws the same.
func TestWeights(t *testing.T) {
	t.Parallel()
	weighted := func(name string, weight int) schemas.ModelUpstream {
		return schemas.ModelUpstream{Name: name, URL: "https://h", Weight: weight}
	}
	s := set(model("m", up("first"), weighted("x", 7), weighted("y", 2), weighted("z", 1), up("mid"), weighted("p", 5), up("q"), weighted("r", 1)))
	second, third := map[string]int{}, map[string]int{}
	const n = 4000
	for i := range n {
		seed := fmt.Sprintf("act_%d", i)
		list := s.Candidates([]string{"m"}, nil, nil, seed)
		require.Equal(t, list, s.Candidates([]string{"m"}, nil, nil, seed))
		names := make([]string, 0, len(list))
		for _, c := range list {
			names = append(names, c.Upstream.Name)
		}
		require.Equal(t, []string{"mid", "p", "q", "r"}, names[4:])
		require.Equal(t, "first", names[0])
		require.ElementsMatch(t, []string{"x", "y", "z"}, names[1:4])
		second[names[1]]++
		third[names[2]]++

		without := s.Candidates([]string{"m"}, nil, func(e string) bool { return e != schemas.ModelEntry(names[1]) }, seed)
		require.Equal(t, names[2], without[1].Upstream.Name, "one that is taken away moves no other")
	}
	require.InDelta(t, 0.7*n, second["x"], 0.04*n)
	require.InDelta(t, 0.2*n, second["y"], 0.04*n)
	require.InDelta(t, 0.1*n, second["z"], 0.04*n)
	require.InDelta(t, (0.2*7/8+0.1*7/9)*n, third["x"], 0.04*n)
}

// TestImage: what the configuration says is held and charged; else more is held than any
// model is known to count, and not nearly so much is charged.
func TestImage(t *testing.T) {
	t.Parallel()
	most, usual := models.Image(&schemas.Model{ImageTokens: 1105})
	require.Equal(t, []int64{1105, 1105}, []int64{most, usual})
	for _, m := range []*schemas.Model{nil, {}} {
		most, usual = models.Image(m)
		require.Equal(t, []int64{49_152, 2048}, []int64{most, usual})
	}
}

func TestCost(t *testing.T) {
	t.Parallel()
	const million, dollar = 1_000_000, 1_000_000_000
	// 2.50, 10 and 1.25 dollars for a million tokens.
	p := &schemas.ModelPrice{Input: 2_500_000, Output: 10_000_000, Cached: 1_250_000, Request: dollar / 100}
	for _, tt := range []struct {
		name     string
		p        *schemas.ModelPrice
		u        schemas.ChatUsage
		requests int64
		want     int64
	}{
		{"no price", nil, schemas.ChatUsage{Prompt: million}, 1, 0},
		{"nothing", p, schemas.ChatUsage{}, 0, 0},
		{"a request", p, schemas.ChatUsage{}, 1, dollar / 100},
		{"a million of each", p, schemas.ChatUsage{Prompt: million, Completion: million}, 0, 12*dollar + dollar/2},
		{"half cached", p, schemas.ChatUsage{Prompt: million, Cached: million / 2}, 0, 1_875_000_000},
		{"more cached than there is", p, schemas.ChatUsage{Prompt: 1000, Cached: math.MaxInt64}, 0, 1_250_000},
		{"cached without a price", &schemas.ModelPrice{Input: 1000}, schemas.ChatUsage{Prompt: 1000, Cached: 500}, 0, 1000},
		{"a third written", &schemas.ModelPrice{Input: 2000, Cached: 200, CacheWrite: 2500}, schemas.ChatUsage{Prompt: 3000, Cached: 1000, CacheWrites: 1000}, 0, 4700},
		{"written without a price", &schemas.ModelPrice{Input: 1000}, schemas.ChatUsage{Prompt: 1000, CacheWrites: 500}, 0, 1000},
		{"more read and written than there is", &schemas.ModelPrice{Input: 1, Cached: 1000, CacheWrite: 5000}, schemas.ChatUsage{Prompt: 1000, Cached: 900, CacheWrites: 900}, 0, 1400},
		{"rounded up", &schemas.ModelPrice{Input: 1}, schemas.ChatUsage{Prompt: 1}, 0, 1},
		{"rounded once", &schemas.ModelPrice{Input: 1, Output: 1}, schemas.ChatUsage{Prompt: 1, Completion: 1}, 0, 1},
		{"below zero", p, schemas.ChatUsage{Prompt: -5, Completion: math.MinInt64, Cached: -1}, -1, 0},
		{"too much", p, schemas.ChatUsage{Prompt: math.MaxInt64, Completion: math.MaxInt64}, math.MaxInt64, math.MaxInt64},
		{
			"the most", &schemas.ModelPrice{Input: math.MaxInt64, Output: math.MaxInt64, Cached: math.MaxInt64, Request: math.MaxInt64},
			schemas.ChatUsage{Prompt: math.MaxInt64, Completion: math.MaxInt64, Cached: math.MaxInt64 / 2},
			math.MaxInt64, math.MaxInt64,
		},
		{"the sum is too much", &schemas.ModelPrice{Input: 1000, Request: 1}, schemas.ChatUsage{Prompt: math.MaxInt64}, 1, math.MaxInt64},
	} {
		require.Equal(t, tt.want, models.Cost(tt.p, tt.u, tt.requests), tt.name)
	}
}

// TestSum: too much is the most there is, and never less.
func TestSum(t *testing.T) {
	t.Parallel()
	a := schemas.ChatUsage{Prompt: 1, Completion: 2, Total: 3, Cached: 4, Reasoning: 5, CacheWrites: 7, Nanos: 6, Priced: true}
	require.Equal(t, schemas.ChatUsage{Prompt: 2, Completion: 4, Total: 6, Cached: 8, Reasoning: 10, CacheWrites: 14, Nanos: 12, Priced: true}, models.Sum(a, a))
	b := schemas.ChatUsage{
		Prompt: math.MaxInt64, Completion: math.MaxInt64, Total: math.MaxInt64, Cached: math.MaxInt64,
		Reasoning: math.MaxInt64, CacheWrites: math.MaxInt64, Nanos: math.MaxInt64, Estimated: true,
	}
	require.Equal(t, b, models.Sum(a, b))
	require.EqualValues(t, 3, models.Plus(5, -2))
	require.EqualValues(t, math.MaxInt64, models.Plus(math.MaxInt64, 1))
}

func ids(list []schemas.ModelView) []string {
	names := []string{}
	for _, v := range list {
		names = append(names, v.ID)
	}
	return names
}

// shown is a view of a model of whom its provider says nothing.
func shown(id, owner string) schemas.ModelView {
	return schemas.ModelView{ID: id, Object: "model", Type: "model", CreatedAt: time.Unix(0, 0).UTC(), OwnedBy: owner, DisplayName: id}
}

func TestList(t *testing.T) {
	t.Parallel()
	priced := model("openai/gpt-4o", up("gpt"))
	priced.Context = 128000
	priced.Price = &schemas.ModelPrice{Input: 2_500_000, Output: 10_000_000, Request: 1}
	s := set(priced, model("solo", up("local")), alias("fast", "openai/gpt-4o"), alias("old/*", "solo"), model("z/*", up("z")))
	gpt, solo, z := shown("openai/gpt-4o", "openai"), shown("solo", "local"), shown("z/any", "z")
	gpt.ContextLength, gpt.Pricing = 128000, &schemas.ModelPricing{Prompt: "0.0000025", Completion: "0.00001", Request: "0.000000001"}
	fast, old := gpt, solo
	fast.ID, fast.DisplayName, fast.AliasOf = "fast", "fast", "openai/gpt-4o"
	old.ID, old.DisplayName, old.AliasOf = "old/x", "old/x", "solo"
	require.Equal(t, []schemas.ModelView{fast, gpt, solo}, s.List(models.Scope{}), "no pattern is a model")

	for asked, want := range map[string]schemas.ModelView{"z/any": z, "fast": fast, "old/x": old} {
		v, ok := s.View(asked, models.Scope{})
		require.True(t, ok, asked)
		require.Equal(t, want, v)
	}
	for _, gone := range []string{"y", "y/*", "*", "", "z/", "z/*", "old/*"} {
		_, ok := s.View(gone, models.Scope{})
		require.False(t, ok, gone)
	}
	_, ok := s.View("solo", models.Scope{Patterns: []string{"fast"}})
	require.False(t, ok)

	of := func(patterns ...string) models.Scope { return models.Scope{Patterns: patterns} }
	require.Equal(t, []string{"fast", "openai/gpt-4o"}, ids(s.List(of("openai/*"))))
	require.Equal(t, []string{"fast", "z/one"}, ids(s.List(of("z/one", "fast", "none"))))
	require.Equal(t, []string{"z/one"}, ids(s.List(of("z/one", "z/*"))))

	only := func(entries ...string) func(string) bool {
		return func(e string) bool { return slices.Contains(entries, e) }
	}
	require.Equal(t, []string{"fast", "openai/gpt-4o"}, ids(s.List(models.Scope{Entry: only("model:gpt", "other")})), "of the others no upstream may be asked")
	require.Equal(t, []string{"z/one"}, ids(s.List(models.Scope{Patterns: []string{"z/one", "z/*", "solo"}, Entry: only("model:z")})))
	require.Empty(t, s.List(models.Scope{Entry: only("model:none")}))
	for name, want := range map[string]bool{"z/any": true, "solo": false, "fast": false} {
		_, ok = s.View(name, models.Scope{Entry: only("model:z")})
		require.Equal(t, want, ok, name)
	}

	zero := set(schemas.Model{Name: "free", Upstreams: []schemas.ModelUpstream{up("f")}, Price: &schemas.ModelPrice{}})
	require.Equal(t, &schemas.ModelPricing{Prompt: "0", Completion: "0", Request: "0"}, zero.List(of("free"))[0].Pricing)
	var none *models.Set
	require.NotNil(t, none.List(models.Scope{}), "an empty list is one in JSON too")
	require.Empty(t, none.Listing())
}

// listing is a set of patterns, and the lists of their upstreams by name.
func listing() (*models.Set, func(schemas.ModelUpstream) []schemas.ListedModel) {
	named := func(name, model string) schemas.ModelUpstream {
		return schemas.ModelUpstream{Name: name, URL: "https://h", Model: model}
	}
	s := set(
		alias("fast", "openai/gpt-4o-mini"), model("openai/gpt-4o", up("exact")), model("openai/*", named("o1", "*"), named("o2", "vendor/*:free")),
		model("openai/ft/*", named("ft", "*")), model("fixed/*", named("fixed", "one")), model("*", up("any")),
	)
	lists := map[string][]schemas.ListedModel{
		"o1":    {{ID: "gpt-4o", Context: 5}, {ID: "gpt-4o-mini", Context: 9, Created: 86400, DisplayName: "GPT-4o mini"}, {ID: "ft/a"}, {ID: "a b"}},
		"o2":    {{ID: "vendor/llama:free"}, {ID: "vendor/:free"}, {ID: "vendor/gpt-4o-mini:free", Context: 1}, {ID: "llama"}},
		"ft":    {{ID: "mine"}},
		"fixed": {{ID: "one"}},
		"any":   {{ID: "openai/gpt-5"}, {ID: "meta/llama"}, {ID: "plain"}, {ID: "fast"}},
		"exact": {{ID: "not/asked"}},
	}
	return s, func(up schemas.ModelUpstream) []schemas.ListedModel { return lists[up.Name] }
}

// TestListOfProviders: a pattern adds the names that lead to its own upstreams, each once, and what
// the first upstream says of them.
func TestListOfProviders(t *testing.T) {
	t.Parallel()
	s, lists := listing()
	var names []string
	for _, up := range s.Listing() {
		names = append(names, up.Name)
	}
	require.Equal(t, []string{"any", "o1", "o2", "ft"}, names)

	all := models.Scope{Lists: lists}
	list := s.List(all)
	require.Equal(t, []string{"fast", "meta/llama", "openai/ft/mine", "openai/gpt-4o", "openai/gpt-4o-mini", "openai/llama", "plain"}, ids(list))
	for _, v := range list {
		m, _, ok := s.Find(v.ID)
		require.True(t, ok)
		require.NotEmpty(t, m.Upstreams)
		same, ok := s.View(v.ID, all)
		require.True(t, ok)
		require.Equal(t, v, same, "the list and the model agree")
	}
	mini := shown("openai/gpt-4o-mini", "openai")
	mini.ContextLength, mini.Created, mini.CreatedAt, mini.DisplayName = 9, 86400, time.Unix(86400, 0).UTC(), "GPT-4o mini"
	require.Equal(t, mini, list[4])
	fast := mini
	fast.ID, fast.AliasOf = "fast", "openai/gpt-4o-mini"
	require.Equal(t, fast, list[0])
	require.Zero(t, list[3].ContextLength, "an exact name is the configuration's")

	o2 := models.Scope{Lists: lists, Entry: func(e string) bool { return e == "model:o2" }}
	require.Equal(t, []string{"fast", "openai/gpt-4o-mini", "openai/llama"}, ids(s.List(o2)))
	v, _ := s.View("openai/gpt-4o-mini", o2)
	require.EqualValues(t, 1, v.ContextLength)
	require.Equal(t, []string{"meta/llama", "plain"}, ids(s.List(models.Scope{Lists: lists, Patterns: []string{"meta/*", "plain"}})))
}

// FuzzListed: every name that a list adds is found by its pattern, and is sent as the id that was listed.
func FuzzListed(f *testing.F) {
	for _, seed := range [][3]string{{"openai/*", "*", "gpt"}, {"*", "", "a/b"}, {"a/*", "x/*:free", "x/y:free"}, {"a/*", "ab*ba", "aba"}} {
		f.Add(seed[0], seed[1], seed[2])
	}
	f.Fuzz(func(t *testing.T, pattern, sends, id string) {
		if !strings.HasSuffix(pattern, "*") || !models.ValidPattern(pattern) || strings.Count(sends, "*") > 1 {
			return
		}
		s := set(model(pattern, schemas.ModelUpstream{Name: "u", URL: "https://h", Model: sends}))
		for _, v := range s.List(models.Scope{Lists: func(schemas.ModelUpstream) []schemas.ListedModel { return []schemas.ListedModel{{ID: id}} }}) {
			list := s.Candidates([]string{v.ID}, nil, nil, "x")
			require.Len(t, list, 1)
			require.Equal(t, id, list[0].Send)
		}
	})
}
