package policy_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/policy"
	"weir/schemas"
)

// TestCarry holds headers that were changed behind a hop's decision against the
// same list as those of a call.
func TestCarry(t *testing.T) {
	t.Parallel()
	p, err := policy.Compile(policy.Config{Entries: []policy.Entry{{
		Name: "up", URLPrefix: "https://up.example/", Redirects: 1, Headers: map[string]string{"X-Own": "${secret:O}"}, CallerHeaders: []string{"X-Named"},
	}}})
	require.NoError(t, err)
	first, ok := p.Decide(policy.Request{Method: "GET", URL: "https://up.example/a"}).Permit()
	require.True(t, ok)
	hop, ok := first.Hop("/b", 302, 1).Permit()
	require.True(t, ok)
	for name, allowed := range map[string]bool{"X-Any": false, "X-Named": true, "Accept-Language": true, "x-own": false, "Authorization": false, "Host": false, "Range": false, "a b": false} {
		d := hop.Carry([]schemas.Header{{Name: name, Value: "v"}})
		assert.Equal(t, allowed, d.Allowed, name)
		permit, _ := d.Permit()
		assert.Equal(t, allowed, permit.Valid(), name)
		if allowed {
			assert.Equal(t, hop, permit)
		} else {
			assert.Equal(t, schemas.DenyHeader, d.Code, name)
			assert.Equal(t, "up", d.Entry)
		}
	}
	assert.False(t, policy.Permit{}.Carry(nil).Allowed)
}
