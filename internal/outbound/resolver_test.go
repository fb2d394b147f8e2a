package outbound

import (
	"net/netip"
	"os"
	"strings"
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

// TestSystemReadsTheHostsFile asks for a name that this host's file has.
func TestSystemReadsTheHostsFile(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("/etc/hosts")
	if err != nil {
		return // a system without a hosts file has nothing to read
	}
	for line := range strings.Lines(string(data)) {
		line, _, _ = strings.Cut(line, "#")
		fields := strings.Fields(line)
		if len(fields) < 2 || strings.Contains(fields[1], "localhost") {
			continue
		}
		want, err := netip.ParseAddr(fields[0])
		if err != nil {
			continue
		}
		addrs, err := newSystem().LookupNetIP(t.Context(), "ip", fields[1]+".")
		require.NoError(t, err)
		for i := range addrs {
			addrs[i] = addrs[i].Unmap()
		}
		assert.Contains(t, addrs, want)
		return
	}
}
