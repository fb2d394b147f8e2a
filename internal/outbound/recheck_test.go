package outbound_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/fault"
	"weir/internal/outbound"
	"weir/internal/policy"
	"weir/internal/weirtest/upstream"
	"weir/schemas"
)

// permitOf decides about a GET under one entry.
func permitOf(t *testing.T, e policy.Entry, url string) policy.Permit {
	t.Helper()
	p, err := policy.Compile(policy.Config{Entries: []policy.Entry{e}})
	require.NoError(t, err)
	permit, ok := p.Decide(policy.Request{Method: "GET", URL: url}).Permit()
	require.True(t, ok)
	return permit
}

// TestRecheck: a connection that was made under one policy carries a request
// under another only if that one lets every address pass, and the same target.
func TestRecheck(t *testing.T) {
	t.Parallel()
	const url = "http://up.example/a"
	entry := policy.Entry{Name: "up", URLPrefix: "http://up.example/"}
	private := entry
	private.Network, private.CIDRs = policy.NetworkPrivate, []string{"10.0.0.0/8"}
	other := entry
	other.Name = "other"
	for name, tt := range map[string]struct {
		permit policy.Permit
		ok     bool
	}{
		"another policy":  {permitOf(t, other, url), true},
		"another network": {permitOf(t, private, url), false},
		"another target":  {permitOf(t, entry, "http://up.example/b"), false},
		"no permit":       {policy.Permit{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := upstream.New(t)
			names := upstream.NewNetwork(server.Addr(), map[string][][]string{"up.example": upstream.Answers("93.184.216.34", "93.184.216.35")})
			client := outbound.New(outbound.Config{Resolver: names, Dial: names.Dial})
			t.Cleanup(client.Close)
			conn, err := client.Open(t.Context(), permitOf(t, entry, url))
			require.NoError(t, err)
			defer conn.Close()
			err = conn.Recheck(tt.permit)
			if !tt.ok {
				var failed *fault.Call
				require.ErrorAs(t, err, &failed)
				assert.Equal(t, schemas.DenyAddress, failed.Code)
				assert.False(t, failed.Sent)
				return
			}
			require.NoError(t, err)
			select {
			case <-conn.Begun():
				t.Fatal("nothing has begun")
			default:
			}
			resp, err := conn.Do(t.Context(), outbound.Request{})
			require.NoError(t, err)
			assert.Equal(t, 200, resp.Status)
			<-conn.Begun()
			assert.Equal(t, 1, server.Hits())
		})
	}
}

// TestBegunEndsWithTheConnection: who waits for the first byte is let go when it
// will never leave.
func TestBegunEndsWithTheConnection(t *testing.T) {
	t.Parallel()
	server := upstream.New(t)
	names := upstream.NewNetwork(server.Addr(), map[string][][]string{"*": upstream.Answers("93.184.216.34")})
	client := outbound.New(outbound.Config{Resolver: names, Dial: names.Dial})
	t.Cleanup(client.Close)
	conn, err := client.Open(t.Context(), permitOf(t, policy.Entry{Name: "up", URLPrefix: "http://up.example/"}, "http://up.example/a"))
	require.NoError(t, err)
	conn.Close()
	<-conn.Begun()
	server.WaitIdle()
	assert.Zero(t, server.Hits())
}
