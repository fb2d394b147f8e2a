package policy_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/internal/policy"
	"weir/schemas"
)

// menagerie is a fleet with the upstreams of two models beside it.
func menagerie() policy.Config {
	c := fleet()
	c.Entries = append(c.Entries,
		policy.Entry{
			Name: "model:far", Agent: true, URLPrefix: "https://models.test/v1/chat/completions", Methods: []string{"POST"},
			Headers: map[string]string{"Authorization": "Bearer s3cret"},
		},
		policy.Entry{Name: "model:B", Agent: true, URLPrefix: "http://localhost:9002/chat/completions", Methods: []string{"POST"}, Network: policy.NetworkLoopback})
	return c
}

// The entry of a model's upstream is for the completions that it is asked for.
func TestModelsHaveEntriesOfTheirOwn(t *testing.T) {
	t.Parallel()
	p := compile(t, menagerie())
	const far = "https://models.test/v1/chat/completions"
	for _, c := range []struct {
		what, key string
		agent     bool
		method    string
		url       string
		only      []string
		code      schemas.Code
	}{
		{"a completion", "model:far", true, "POST", far, nil, allowed},
		{"a token that has it", "model:far", true, "POST", far, []string{"model:far"}, allowed},
		{"a token that has another", "model:far", true, "POST", far, []string{"model:B", "far"}, schemas.DenyKeyUnknown},
		{"another upstream's URL", "model:B", true, "POST", far, nil, schemas.DenyScheme},
		{"another method", "model:far", true, "GET", far, nil, schemas.DenyMethod},
		{"another route", "model:far", true, "POST", "https://models.test/v1/models", nil, schemas.DenyPath},
		{"an agent of the same name", "agent:far", true, "POST", far, nil, schemas.DenyKeyUnknown},
		{"no key", "", true, "POST", far, nil, schemas.DenyKeyUnknown},
		{"a call that names it", "model:far", false, "POST", far, nil, schemas.DenyKeyUnknown},
		{"a call that names none", "", false, "POST", far, nil, schemas.DenyHost},
	} {
		d := p.Decide(policy.Request{Agent: c.agent, Key: c.key, Method: c.method, URL: c.url, Only: c.only})
		require.Equal(t, c.code, d.Code, c.what)
		permit, ok := d.Permit()
		require.Equal(t, c.code == allowed, ok, c.what)
		require.Equal(t, ok, len(permit.Headers()) > 0, c.what)
	}
	named := p.Decide(policy.Request{Key: "model:far", Method: "POST", URL: far})
	require.Equal(t, "entries of models serve completions alone; ask the model for one, or use an entry whose name does not begin with model:", named.Reason)
	require.Equal(t, named, p.Decide(policy.Request{Key: "model:none", Method: "POST", URL: far}), "whether there is such a model or not")

	text, err := json.Marshal(p.View(time.Time{}, nil, true))
	require.NoError(t, err)
	require.Contains(t, string(text), `"model:far"`)
	require.NotContains(t, string(text), "s3cret")
	require.True(t, p.AgentReaches("POST", "https://agents.test/agents/run/", false))
	require.False(t, p.AgentReaches("POST", far, true), "no run leads to a model")
	require.False(t, p.Reaches("POST", far, true))
}

func TestNamesOfModels(t *testing.T) {
	t.Parallel()
	for want, e := range map[string]policy.Entry{
		`entry 1: name: "model:" is kept for models`:          {Name: "model:x", URLPrefix: "https://a.test/"},
		`entry 1: name: a model's is "model:" and its`:        {Name: "model:", Agent: true, URLPrefix: "https://a.test/"},
		`entry 1: name: must be at most 128 letters, digits,`: {Name: "model:a/b", Agent: true, URLPrefix: "https://a.test/"},
		`entry "model:x": mode: an agent's entry is never`:    {Name: "model:x", Agent: true, URLPrefix: "https://a.test/", Mode: policy.ModeShadow},
	} {
		_, err := policy.Compile(policy.Config{Entries: []policy.Entry{e}})
		require.ErrorContains(t, err, want)
	}
	compile(t, policy.Config{Entries: []policy.Entry{{Name: "models:x", URLPrefix: "https://a.test/"}, {Name: "model", URLPrefix: "https://a.test/"}}})
}

// TestOwnEntriesTakeLargeBodies: what a model is asked has come through the door, which
// bounds it; other calls have the smaller bound.
func TestOwnEntriesTakeLargeBodies(t *testing.T) {
	t.Parallel()
	p, err := policy.Compile(policy.Config{Entries: []policy.Entry{
		{Name: "model:m", Agent: true, URLPrefix: "https://m.example.com/v1/chat/completions", Methods: []string{"POST"}},
		{Name: "other", URLPrefix: "https://m.example.com/", Methods: []string{"POST"}},
	}})
	require.NoError(t, err)
	for size, want := range map[int]schemas.Code{1 << 20: "", 1<<20 + 1: "", 64 << 20: "", 66 << 20: schemas.DenyBody} {
		d := p.Decide(policy.Request{Agent: true, Key: "model:m", Method: "POST", URL: "https://m.example.com/v1/chat/completions", HasBody: true, BodySize: size})
		require.Equal(t, want, d.Code, size)
	}
	d := p.Decide(policy.Request{Key: "other", Method: "POST", URL: "https://m.example.com/x", HasBody: true, BodySize: 1<<20 + 1})
	require.Equal(t, schemas.DenyBody, d.Code)
}
