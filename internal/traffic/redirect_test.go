package traffic_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"weir/internal/traffic"
	"weir/schemas"
)

// A call is redirected once at most, and not by a redirect to where it is going.
func TestRedirectsAreMadeOnce(t *testing.T) {
	t.Parallel()
	const x, y = "https://a.example/x", "https://a.example/y"
	for name, c := range map[string]struct {
		rules []schemas.Rule
		to    string
	}{
		"back and forth":  {[]schemas.Rule{redirect("r1", x, y), redirect("r2", y, x)}, y},
		"to itself":       {[]schemas.Rule{redirect("r", x, x)}, ""},
		"in another form": {[]schemas.Rule{redirect("r", x, "HTTPS://A.example:443/x")}, ""},
		"by a wildcard":   {[]schemas.Rule{redirect("r", "https://a.example/*", "https://a.example/$1")}, ""},
		"with a query":    {[]schemas.Rule{redirect("r", x, x+"?dry=1")}, x + "?dry=1"},
		"to itself first": {[]schemas.Rule{priority(redirect("r1", "*", x), 1), redirect("r2", x, y)}, y},
	} {
		e := setOf(t, c.rules...).Shape(get(x), noon())
		require.Equal(t, c.to, e.URL, name)
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
