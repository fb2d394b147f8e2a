package config_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/internal/config"
	"weir/schemas"
)

// Every way to get a budget wrong, with the very words an operator reads.
func TestBadBudgets(t *testing.T) {
	t.Parallel()
	const (
		head = "budgets:\n  b: {requests: 1,\n    "
		at   = "weir.yaml:3: budgets.b."
		name = "is not the name of a budget; write at most 64 letters, digits, dots, underscores, colons and hyphens"
	)
	long := strings.Repeat("b", 65)
	var many strings.Builder
	many.WriteString("budgets:\n")
	for i := range 101 {
		fmt.Fprintf(&many, "  b%d: {requests: 1}\n", i)
	}
	for _, tt := range []struct{ text, want string }{
		{"budgets: [a]", "weir.yaml:1: budgets: is a list; write keys and values below it"},
		{"budgets: {b: 5}", "weir.yaml:1: budgets.b: is a whole number; write keys and values below it"},
		{"budgets:\n  b: {usd: 1}\n  b: {}", "weir.yaml:3: budgets.b: the key is here twice, first at weir.yaml:2; remove one"},
		{many.String(), "weir.yaml:1: budgets: has 101 budgets; every completion is counted in each that is about it, so write at most 100"},
		{head + "request: 1}", at + "request: unknown key; did you mean requests?"},
		{"budgets:\n  task: {usd: 1}", "weir.yaml:2: budgets.task: is what the budget is called that a task brings itself; give this one another name"},
		{"budgets:\n  a b: {usd: 1}", `weir.yaml:2: budgets."a b": ` + name},
		{"budgets:\n  a/b: {usd: 1}", `weir.yaml:2: budgets."a/b": ` + name},
		{"budgets:\n  " + long + ": {usd: 1}", "weir.yaml:2: budgets.\"" + long[:64] + `": ` + name},
		{"budgets:\n  \"\": {usd: 1}", `weir.yaml:2: budgets."": ` + name},

		{head + "per: token}", at + `per: is text; write a list: [a, b], or one "- " a line`},
		{head + "per: [user]}", at + "per[0]: is none of its words; use tenant, token, task or model"},
		{head + "per: [token, model, token]}", at + "per[2]: is there twice; remove one"},
		{head + "models: ['openai*']}", at + "models[0]: is neither the name of a model nor a pattern, such as openai/* or *"},
		{head + "models: [a, 'a b']}", at + "models[1]: is neither the name of a model nor a pattern, such as openai/* or *"},
		{head + "tenants: [a/b]}", at + "tenants[0]: is not the name of a tenant; write at most 128 letters, digits, dots, underscores, colons and hyphens"},
		{head + "window: 1d}", at + "window: is not a duration; write a number with ms, s, m or h behind it, such as 30s or 168h"},
		{head + "window: 999ms}", at + "window: is 999ms; use 1s to 8760h"},
		{head + "window: 8761h}", at + "window: is 8761h; use 1s to 8760h"},
		{head + "window: -1h}", at + "window: is -1h; use 1s to 8760h"},
		{head + "tokens: -1}", at + "tokens: is -1; use 1 to 1000000000000000"},
		{head + "tokens: 1.5}", at + "tokens: is a number with a fraction; write a whole number"},
		{head + "tokens: 1000000000000001}", at + "tokens: is 1000000000000001; use 1 to 1000000000000000"},
		{head + "tokens: 0}", at + "tokens: is 0; leave it out where it is not bounded, and name other models for a token that may not use these"},
		{head + "usd: 0.0}", at + "usd: is 0; leave it out where it is not bounded, and name other models for a token that may not use these"},
		{head + "usd: -5}", at + "usd: is not an amount of US dollars; write a number such as 12 or 2.5, with at most nine digits behind the point"},
		{head + "usd: 5 USD}", at + "usd: is not an amount of US dollars; write a number such as 12 or 2.5, with at most nine digits behind the point"},
		{"budgets:\n  b: {window: 1h}", "weir.yaml:2: budgets.b: bounds nothing; give it requests, tokens or usd"},
		{"budgets:\n  b:", "weir.yaml:2: budgets.b: bounds nothing; give it requests, tokens or usd"},
	} {
		t.Run(tt.text, func(t *testing.T) {
			t.Parallel()
			_, err := config.Parse("weir.yaml", []byte(tt.text), nil, nil)
			require.EqualError(t, err, tt.want)
		})
	}
}

func TestBudgets(t *testing.T) {
	t.Parallel()
	c := parse(t, `
budgets:
  team: {window: 24h, usd: 200}
  each-agent:
    per: [token, model]
    models: ["openai/*", llama]
    tenants: [acme]
    window: 0s
    requests: 600
    tokens: 2000000
    usd: 0.000000001
`)
	want := []schemas.Budget{
		{
			Name: "each-agent", Per: []string{"token", "model"}, Models: []string{"openai/*", "llama"}, Tenants: []string{"acme"},
			Requests: 600, Tokens: 2_000_000, Nanos: 1,
		},
		{Name: "team", Per: []string{"tenant"}, Window: 24 * time.Hour, Nanos: 200_000_000_000},
	}
	require.Equal(t, want, c.ModelBudgets())
	require.Empty(t, c.Warnings())
	require.Contains(t, c.String(), "budgets:\n  each-agent:\n    per:\n    - token\n")
	require.Empty(t, config.Defaults().ModelBudgets())
	require.Empty(t, parse(t, "budgets:").ModelBudgets())

	other := parse(t, "budgets: {team: {window: 24h, usd: 201}}")
	require.NotEqual(t, other.PolicyHash(), parse(t, "budgets: {team: {window: 24h, usd: 200}}").PolicyHash())
	require.Equal(t, other.PolicyHash(), parse(t, "budgets: {team: {per: [tenant], usd: 201.0, window: 1440m}}").PolicyHash())
}

// TestDoubtfulBudgets: what looks like a mistake is told and stops nothing.
func TestDoubtfulBudgets(t *testing.T) {
	t.Parallel()
	const models = `
models:
  fast: {alias: openai/mini}
  openai/*: {url: "https://a.example", price: {input: 1, output: 1}}
  llama: {url: "https://b.example"}
  x/*: {url: "https://c.example"}
budgets:
  b: `
	for text, want := range map[string][]string{
		"{usd: 1}":                                 {"budgets.b.usd: refuses every request for llama, x/*, without a price; give one, if it is 0"},
		"{usd: 1, models: [x/*, openai/*]}":        {"budgets.b.usd: refuses every request for x/*, without a price; give one, if it is 0"},
		"{usd: 1, models: [openai/*]}":             nil,
		"{tokens: 1}":                              nil,
		"{tokens: 1, models: [llama, fast, gone]}": {"budgets.b.models[1]: is another name for openai/mini, which is what is counted; write that", "budgets.b.models[2]: fits no model that is configured, so that nothing is counted by it"},
		"{tokens: 1, models: [openai, fas/*, lla]}": {
			"budgets.b.models[0]: fits no model that is configured, so that nothing is counted by it",
			"budgets.b.models[1]: fits no model that is configured, so that nothing is counted by it",
			"budgets.b.models[2]: fits no model that is configured, so that nothing is counted by it",
		},
		"{tokens: 1, models: ['*', x/y, x/y/*, openai/*, llama]}": nil,
	} {
		require.Equal(t, want, parse(t, models+text).Warnings(), text)
	}
}
