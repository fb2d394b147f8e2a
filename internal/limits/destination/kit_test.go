package destination

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"weir/internal/telemetry"
	"weir/internal/weirtest/bucket"
	"weir/schemas"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// node is one process: a Limiter and what it has woken.
type node struct {
	*Limiter

	mu    sync.Mutex
	woken []string
}

func (n *node) ids() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.woken)
}

// join makes a process on two stores, shared nil for one that is alone. Under synctest
// the clock is the bubble's.
func join(t *testing.T, name string, operations, shared *bucket.Bucket, cfg Config) *node {
	t.Helper()
	n := &node{}
	cfg.Worker, cfg.Metrics = name, telemetry.NewMetrics()
	cfg.Notify = func(_ context.Context, ref schemas.Ref) error {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.woken = append(n.woken, ref.ID)
		return nil
	}
	var s Store
	if shared != nil {
		s = shared
	}
	n.Limiter = New(operations, s, cfg)
	require.NoError(t, n.Start(t.Context()))
	t.Cleanup(n.Stop)
	return n
}

// call is one of an action, to the only destination that tests know.
func call(id string) Call {
	now := time.Now()
	return Call{
		Ref: schemas.Ref{Tenant: "acme", Kind: schemas.KindHTTP, ID: id}, Entry: "api", Destination: "https://api.example:443",
		Deadline: now.Add(10 * time.Minute), Gives: now.Add(30 * time.Second),
	}
}

func limited(c Call, l Limits) Call {
	c.Limits = l
	return c
}

// enters holds that a call is let through.
func (n *node) enters(t *testing.T, c Call) *Permit {
	t.Helper()
	turn, held, err := n.Acquire(t.Context(), c)
	require.NoError(t, err)
	require.Nil(t, held)
	return turn
}

// waits holds that a call is held back, and puts its action to rest.
func (n *node) waits(t *testing.T, c Call, why string) *Held {
	t.Helper()
	turn, held, err := n.Acquire(t.Context(), c)
	require.NoError(t, err)
	require.Nil(t, turn)
	require.NotNil(t, held)
	require.Equal(t, why, held.For)
	if held.Deferred != nil {
		held.Deferred()
	}
	return held
}

// of is a call of a tenant.
func of(tenant string) Call {
	c := call(tenant)
	c.Ref.Tenant = tenant
	return c
}

// asksFor ends a call whose destination asks to be left alone for so long, and fails one that has failed.
func asksFor(t *testing.T, turn *Permit, wish time.Duration) {
	t.Helper()
	turn.Asked(t.Context(), time.Now().Add(wish))
	turn.Release()
}

func fails(t *testing.T, n *node) {
	t.Helper()
	turn := n.enters(t, call("1"))
	turn.Failed(t.Context())
	turn.Release()
}
