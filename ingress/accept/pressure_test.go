package accept_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"weir/ingress/accept"
	"weir/internal/limits"
	"weir/internal/problem"
	"weir/schemas"
)

type queue struct {
	all, one uint64
	err      error
	asked    int // for a tenant
}

func (q *queue) Waiting(context.Context) (uint64, error) { return q.all, q.err }

func (q *queue) WaitingOf(context.Context, string) (uint64, error) {
	q.asked++
	return q.one, q.err
}

// refusal is what a new action gets once counts have been made.
func refusal(p *accept.Pressure, tenant string) (code schemas.Code) {
	for range 2 { // the first has all counted, the second the tenant
		_ = p.Refusal(tenant, schemas.KindHTTP)
		synctest.Wait()
	}
	if own, ok := errors.AsType[*problem.Error](p.Refusal(tenant, schemas.KindHTTP)); ok {
		return own.Code
	}
	return ""
}

func TestPressure(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := &queue{all: 9}
		p := accept.NewPressure(q, accept.PressureConfig{Queued: 100, QueuedPerTenant: 10})
		require.Empty(t, refusal(p, "a"))
		require.Zero(t, q.asked, "while all together are fewer than one may have, nobody is counted")

		time.Sleep(2 * time.Second)
		q.all, q.one = 50, 10
		require.Equal(t, schemas.RateLimited, refusal(p, "a"))
		require.NoError(t, p.Refusal("a", schemas.KindRule), "a rule may be what ends it")

		time.Sleep(2 * time.Second)
		q.one = 8
		require.Empty(t, refusal(p, "a"))
		p.Took("a")
		p.Took("a")
		require.Error(t, p.Refusal("a", schemas.KindHTTP), "what was accepted here since is added")

		time.Sleep(2 * time.Second)
		q.all = 99
		require.Empty(t, refusal(p, "b"))
		p.Took("b")
		require.Equal(t, schemas.QueueFull, refusal(p, "b"))

		time.Sleep(2 * time.Second)
		q.all, q.err = 0, errors.New("away")
		require.Equal(t, schemas.QueueFull, refusal(p, "b"), "a count that fails leaves the old one")
		time.Sleep(20 * time.Second)
		q.err = nil
		require.Empty(t, refusal(p, "b"))
	})
	require.NoError(t, accept.NewPressure(nil, accept.PressureConfig{}).Refusal("a", schemas.KindHTTP), "nothing is bounded")
	require.NoError(t, (*accept.Pressure)(nil).Refusal("a", schemas.KindHTTP))
	(*accept.Pressure)(nil).Took("a")
}

// TestStoredShare: a tenant over its share of the log begins nothing, and hears of what it has and may have.
func TestStoredShare(t *testing.T) {
	t.Parallel()
	now := time.Now()
	p := accept.NewPressure(nil, accept.PressureConfig{Now: func() time.Time { return now }, Stored: func(tenant string) limits.Room {
		return map[string]limits.Room{
			"over": {Used: 3 << 20, Limit: 3 << 20, Frees: now.Add(time.Hour)}, "below": {Used: 1, Limit: 2}, "free": {Used: 1 << 40},
		}[tenant]
	}})
	for _, kind := range []schemas.Kind{schemas.KindHTTP, schemas.KindRule} {
		var refused *problem.Error
		require.ErrorAs(t, p.Refusal("over", kind), &refused)
		require.Equal(t, schemas.RateLimited, refused.Code)
		require.Equal(t, time.Hour, refused.RetryAfter)
		require.Contains(t, refused.Detail, "has 3.0 MiB on the log and may have 3.0 MiB")
		require.NoError(t, p.Refusal("below", kind))
		require.NoError(t, p.Refusal("free", kind))
	}
}
