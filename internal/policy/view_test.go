package policy_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/policy"
)

// TestOrigin: an entry has an origin if it is enforced, has one exact host and may be used.
func TestOrigin(t *testing.T) {
	t.Parallel()
	p, err := policy.Compile(policy.Config{
		Entries: []policy.Entry{
			{Name: "path", URLPrefix: "https://API.example/v1/"},
			{Name: "port", URLPrefix: "http://api.example:8080"},
			{Name: "v6", URLPrefix: "http://[::1]:8080/", Network: policy.NetworkLoopback},
			{Name: "any", URLPrefix: policy.AnyHost},
			{Name: "shadow", URLPrefix: "https://api.example/", Mode: policy.ModeShadow},
			{Name: "agent:X", URLPrefix: "https://agent.example/", Agent: true},
		},
		AllowedHosts: []string{"allowed.example", ".example.org"},
	})
	require.NoError(t, err)
	for name, want := range map[string]string{
		"path": "https://api.example", "port": "http://api.example:8080", "v6": "http://[::1]:8080",
		"any": "", "shadow": "", "agent:X": "", "host:allowed.example": "", "none": "", "": "",
	} {
		origin, ok := p.Origin(name, nil)
		assert.Equal(t, want, origin, name)
		assert.Equal(t, want != "", ok, name)
	}
	assert.Equal(t, []string{"path", "port", "v6", "any", "host:allowed.example", "host:.example.org", "agent:X"}, p.EntryNames())
	assert.Equal(t, []string{"api.example", "::1", "allowed.example", "agent.example"}, p.Hosts())
	assert.Equal(t, []string{"path", "port", "v6"}, p.WithOrigin(nil))
	assert.Equal(t, []string{"port"}, p.WithOrigin([]string{"port", "any"}))
	_, ok := p.Origin("path", []string{"port"})
	assert.False(t, ok)
	var none *policy.Policy
	_, ok = none.Origin("path", nil)
	assert.False(t, ok)
	assert.Empty(t, none.WithOrigin(nil))
	assert.Empty(t, none.EntryNames())
}
