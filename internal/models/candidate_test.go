package models_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/internal/models"
	"weir/schemas"
)

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
	s := compile(
		t, alias("fast", "b/x"), model("a", up("a1"), named("a2", "vendor/a")), model("b/*", up("b1"), named("b2", "v-*"), named("b3", "one")),
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
	s := compile(t, model("m", up("first"), weighted("x", 7), weighted("y", 2), weighted("z", 1), up("mid"), weighted("p", 5), up("q"), weighted("r", 1)))
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
