package guard

import (
	"context"
	"sync"

	"weir/schemas"
)

// Begin is Renew at the last moment: a permitted call must begin at once. Call leave when its first
// byte is sent or the call is given up; repeated calls are allowed. A call reads a secret and waits
// for the scheduler between the last policy check and its first byte: see Settle.
func (g *Guard) Begin(p Pass) (fresh Pass, d schemas.Decision, leave func()) {
	left := make(chan struct{})
	g.starting.Store(left, nil) // before the policy is read
	fresh, d = g.Renew(p)
	return fresh, d, sync.OnceFunc(func() {
		g.starting.Delete(left)
		close(left)
	})
}

// Settle returns when every call that Begin permitted under a former policy has started or was
// given up. Call it after the policy was exchanged: from then on no call starts that the new one
// denies. New calls do not wait for it.
func (g *Guard) Settle(ctx context.Context) error {
	var earlier []chan struct{}
	g.starting.Range(func(key, _ any) bool {
		left, ok := key.(chan struct{})
		earlier = append(earlier, left)
		return ok
	})
	for _, left := range earlier {
		select {
		case <-left:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}
