package traffic_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/internal/traffic"
	"weir/schemas"
)

// circleOf are n redirects, each to the path of the next, and of the last to that of the first.
func circleOf(n int) (out []schemas.Rule) {
	for i := range n {
		out = append(out, redirect(fmt.Sprintf("r%d", i), fmt.Sprintf("https://a.example/%d", i), fmt.Sprintf("https://a.example/%d", (i+1)%n)))
	}
	return out
}

// A redirect to where this call is going already has no effect, and one of each call is denied. A circle
// is found within five redirects.
func TestCircles(t *testing.T) {
	t.Parallel()
	const x, y, z = "https://a.example/0", "https://a.example/y", "https://a.example/z"
	for name, c := range map[string]struct {
		rules []schemas.Rule
		to    string
		loop  bool
	}{
		"back and forth":  {[]schemas.Rule{redirect("r1", x, y), redirect("r2", y, x)}, y, true},
		"one way":         {[]schemas.Rule{redirect("r1", x, y), redirect("r2", y, z)}, y, false},
		"to a mock":       {[]schemas.Rule{redirect("r1", x, y), priority(mock("m", y, `1`), 1), redirect("r2", y, x)}, y, false},
		"disabled":        {[]schemas.Rule{redirect("r1", x, y), with(redirect("r2", y, x), func(r *schemas.Rule) { r.Enabled = false })}, y, false},
		"into a circle":   {[]schemas.Rule{redirect("r1", x, y), redirect("r2", y, z), redirect("r3", z, y)}, y, false},
		"of five":         {circleOf(5), "https://a.example/1", true},
		"of six":          {circleOf(6), "https://a.example/1", false},
		"to itself":       {[]schemas.Rule{redirect("r", x, x)}, x, true},
		"in another form": {[]schemas.Rule{redirect("r", x, "HTTPS://A.example:443/0")}, "", false},
		"by a wildcard":   {[]schemas.Rule{redirect("r", "https://a.example/*", "https://a.example/$1")}, x, true},
		"with a query":    {[]schemas.Rule{redirect("r", x, x+"?dry=1")}, x + "?dry=1", false},
		"to itself first": {[]schemas.Rule{priority(redirect("r1", "*", z), 1), redirect("r2", z, y)}, z, false},
	} {
		e := setOf(t, c.rules...).Shape(get(x), noon())
		require.Equal(t, c.to, e.URL, name)
		require.Equal(t, c.loop, e.Loop, name)
	}
}

func TestTargetPrefix(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ from, to, prefix string }{
		{"https://a.example/*", "https://b.example/v1", "https://b.example/v1"},
		{"https://a.example/*", "https://b.example/v1/$1", "https://b.example/v1/"},
		{"https://a.example/*", "https://$1/", "https://"},
		{"https://a.example/*", "https://b.example:$1/", "https://b.example:"},
		{"*://*.a.example:*/*", "$1://$2.b.example:$3/", ""},
		{"*", "https://b.example/?u=$1", "https://b.example/?u="},
	} {
		r := redirect("r", c.from, c.to)
		require.Equal(t, c.prefix, traffic.TargetPrefix(r), c.to)
		compile(t, schemas.RuleSet{Rules: []schemas.Rule{r}})
	}
	for _, r := range []schemas.Rule{mock("m", "*", `1`), redirect("r", "*", "nowhere")} {
		require.Empty(t, traffic.TargetPrefix(r))
	}
}
