package outbound

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestSystemKnowsLocalhost(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"localhost.", "localhost", "a.localhost."} {
		addrs, err := newSystem().LookupNetIP(t.Context(), "ip", name)
		require.NoError(t, err, name)
		assert.Equal(t, []netip.Addr{netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("::1")}, addrs, name)
	}
}
