package broker

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/internal/broker/embedded"
	"weir/schemas"
)

// TestWhatATenantHasStored is counted by each process, known to the others, and forgotten once it has aged out.
func TestWhatATenantHasStored(t *testing.T) {
	t.Parallel()
	n := open(t, embedded.Config{Durability: schemas.DurabilityProcess}, Config{MaxBytes: 1 << 20, TenantShare: 25})
	other, err := Open(t.Context(), Config{Server: n.cfg.Server, Layout: n.cfg.Layout, MaxBytes: 1 << 20, TenantShare: 25})
	require.NoError(t, err)
	t.Cleanup(func() { other.Close(t.Context()) })
	require.Equal(t, TenantRoom{Limit: 3 << 18, Divided: true}, n.TenantRoom("acme.inc"), "a tenant that is alone may have all but a share")

	ref := schemas.Ref{Tenant: "acme.inc", Kind: schemas.KindHTTP, ID: "a"}
	_, err = n.Append(t.Context(), schemas.Append{Subject: n.cfg.Layout.Subject(ref, schemas.TailAccepted), Data: make([]byte, 1000)})
	require.NoError(t, err)
	used := n.TenantRoom("acme.inc").Used
	require.InDelta(t, 1200, used, 100)
	_, err = n.PutBlob(t.Context(), "acme.inc", make([]byte, 5000))
	require.NoError(t, err)
	_, err = n.PutBlob(t.Context(), "b", make([]byte, 5000))
	require.NoError(t, err)
	require.InDelta(t, used+5000, n.TenantRoom("acme.inc").Used, 300)
	require.Zero(t, n.TenantRoom("b").Used, "it lay there already")
	_, err = n.PutBlob(t.Context(), "b", []byte("another"))
	require.NoError(t, err)
	require.EqualValues(t, 1<<18, n.TenantRoom("acme.inc").Limit, "there is another")

	require.Zero(t, other.TenantRoom("acme.inc").Used)
	for range 2 { // a count that is stored again is not added again
		require.NoError(t, n.shareUsage(t.Context()))
		require.NoError(t, other.shareUsage(t.Context()))
		require.Equal(t, n.TenantRoom("acme.inc"), other.TenantRoom("acme.inc"))
		_, err = n.PutBlob(t.Context(), "acme.inc", []byte(time.Now().String()))
		require.NoError(t, err)
	}

	for _, u := range []*usage{&n.usage, &other.usage} {
		u.expire(time.Now().Add(n.cfg.History + 2*u.slot))
		require.InDelta(t, 5300, u.room("acme.inc").Used, 300, "the body is kept for longer")
		u.expire(time.Now().Add(blobAge(n.cfg.History) + 2*u.slot))
		require.Zero(t, u.room("acme.inc").Used)
	}
	require.NoError(t, n.shareUsage(t.Context()))
	tenants, share := other.StoredByTenant()
	require.Empty(t, tenants)
	require.EqualValues(t, 1<<18, share)
}
