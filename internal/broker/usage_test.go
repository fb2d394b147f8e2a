package broker

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/internal/broker/embedded"
	"weir/internal/limits"
	"weir/internal/weirtest/poll"
	"weir/schemas"
)

// TestWhatATenantHasStored is counted by each process, known to the others, and forgotten once it
// has aged out.
func TestWhatATenantHasStored(t *testing.T) {
	t.Parallel()
	n := open(t, embedded.Config{Durability: schemas.DurabilityProcess}, Config{MaxBytes: 1 << 20, TenantShare: 25})
	other := must(Open(t.Context(), Config{Server: n.cfg.Server, Layout: n.cfg.Layout, MaxBytes: 1 << 20, TenantShare: 25}))(t)
	t.Cleanup(func() { other.Close(t.Context()) })
	require.Equal(t, limits.Quota{Limit: 3 << 18}, n.TenantQuota("acme.inc"), "a tenant that is alone may have all but a share")

	ref := schemas.Ref{Tenant: "acme.inc", Kind: schemas.KindHTTP, ID: "a"}
	must(n.Append(t.Context(), schemas.Append{Subject: n.cfg.Layout.Subject(ref, schemas.SectionAccepted), Data: make([]byte, 1000)}))(t)
	used := n.TenantQuota("acme.inc").Used
	require.InDelta(t, 1200+Pending, used, 100)
	must(n.PutBlob(t.Context(), "acme.inc", make([]byte, 5000)))(t)
	must(n.PutBlob(t.Context(), "b", make([]byte, 5000)))(t)
	require.InDelta(t, used+5000, n.TenantQuota("acme.inc").Used, 300)
	require.Zero(t, n.TenantQuota("b").Used, "it lay there already")
	must(n.PutBlob(t.Context(), "b", []byte("another")))(t)
	require.Equal(t, 3<<18-n.TenantQuota("b").Used, n.TenantQuota("acme.inc").Limit, "one share stays free beside what another has")
	must(n.Append(t.Context(), schemas.Append{Subject: n.cfg.Layout.Subject(ref, schemas.SectionEvent), Data: append([]byte(`{"v":1,"n":3,"type":"settled",`), make([]byte, 970)...)}))(t)
	require.InDelta(t, 2*1200+5300, n.TenantQuota("acme.inc").Used, 300, "the action has ended")

	must(n.Bucket(schemas.RuleBucket).Put(t.Context(), schemas.EscapeToken("ruler"), make([]byte, 3000), 0))(t)
	must(n.Bucket(schemas.TokenBucket).Put(t.Context(), schemas.EscapeToken("holder"), make([]byte, 3000), 0))(t)
	require.InDelta(t, 3000, n.TenantQuota("ruler").Used, 300, "each rule set counts")
	require.Zero(t, n.TenantQuota("holder").Used)

	require.Zero(t, other.TenantQuota("acme.inc").Used)
	for range 2 { // a count that is stored again is not added again
		require.NoError(t, n.shareUsage(t.Context()))
		require.NoError(t, other.shareUsage(t.Context()))
		require.Equal(t, n.TenantQuota("acme.inc"), other.TenantQuota("acme.inc"))
		must(n.PutBlob(t.Context(), "acme.inc", []byte(time.Now().String())))(t)
	}

	for _, b := range []*Broker{n.Broker, other} {
		b.usage.expire(time.Now().Add(n.cfg.History * 10 / 8))
		require.InDelta(t, 5300, b.TenantQuota("acme.inc").Used, 300, "the body is kept for longer")
		b.usage.expire(time.Now().Add(blobAge(n.cfg.History) * 10 / 8))
		require.Zero(t, b.TenantQuota("acme.inc").Used)
	}
	require.NoError(t, n.shareUsage(t.Context()))
	require.Empty(t, other.StoredByTenant())
}

// TestReservedAnswers: answers that are received at a time get what the tenant has room for, all
// together.
func TestReservedAnswers(t *testing.T) {
	t.Parallel()
	n := open(t, embedded.Config{Durability: schemas.DurabilityProcess}, Config{MaxBytes: 1 << 20, TenantShare: 25})
	first, done := n.ReserveAnswer("a", 500<<10)
	require.EqualValues(t, 500<<10, first)
	second, _ := n.ReserveAnswer("a", 500<<10)
	require.EqualValues(t, 3<<18-500<<10, second, "all but one share is used")
	third, _ := n.ReserveAnswer("a", 500<<10)
	require.EqualValues(t, LeastAnswer, third)
	other, _ := n.ReserveAnswer("b", 500<<10)
	require.EqualValues(t, 1<<18, other, "the share of another")
	require.True(t, n.TenantQuota("a").Exhausted())
	done()
	require.False(t, n.TenantQuota("a").Exhausted())
}

// TestWaiting counts what no worker has, of all and of one tenant, also what was put behind others.
func TestWaiting(t *testing.T) {
	t.Parallel()
	n := open(t, embedded.Config{Durability: schemas.DurabilityProcess}, Config{})
	count := func(tenant string) uint64 {
		return must(n.Waiting(t.Context(), tenant))(t)
	}
	require.Zero(t, count(""))
	require.Zero(t, count("a"))
	for i := range 320 {
		tenant, id := "a", strconv.Itoa(i)
		if i >= 300 {
			tenant = "b"
		}
		n.put(t, claimOf(schemas.Ref{Tenant: tenant, Kind: schemas.KindHTTP, ID: id}, "x"))
	}
	poll.Until(t, func() bool { return count("") == 320 && count("a") == 300 && count("b") == 20 })
	require.Zero(t, count("c"))

	out := n.subscribeAll(t, SubscriberConfig{Slots: 2, Shared: true})
	// What is held here does not wait any more; what was put behind others does.
	const held = 2 + 2*2
	poll.Until(t, func() bool {
		a, b, all := count("a"), count("b"), count("")
		return a <= 300 && a >= 300-held && b <= 20 && b >= 20-held && all <= 320 && all >= 320-held
	})
	// What operators and the scaler see counts what is held too.
	lag := func() uint64 {
		all := must(n.Lag(t.Context()))(t)
		return all[schemas.QueueNew] + all[schemas.QueueOverflow]
	}
	poll.Until(t, func() bool { return lag() == 320 })
	for range 320 {
		next(t, out).Ack()
	}
	poll.Until(t, func() bool { return lag() == 0 && count("a") == 0 && count("b") == 0 })
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := n.Lag(ended)
	require.Error(t, err)
}
