package outbound

import (
	"bufio"
	"context"
	"net"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"weir/internal/policy"
)

// TestNoneWaitsForLong: a connection is idle for half a minute at most, is used for ninety seconds, and a
// spare is closed after three; of each there is a bounded number.
func TestNoneWaitsForLong(t *testing.T) {
	t.Parallel()
	permit := publicPermit(t)
	synctest.Test(t, func(t *testing.T) {
		dialled := func(addr string) *link {
			near, far := net.Pipe()
			t.Cleanup(func() { _ = far.Close() })
			s := &socket{Conn: near}
			return &link{Conn: s, socket: s, reader: bufio.NewReader(nil), addrs: []netip.Addr{netip.MustParseAddr(addr)}, born: time.Now()}
		}
		const public = "93.184.216.34"
		p := newPool(func(ctx context.Context, _ *policy.Permit) (*link, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		})
		used, spare := keyOf(permit, "t", true), keyOf(permit, "t", false)

		l := dialled(public)
		for range 5 { // 5 × 20 s
			p.put(l, used)
			time.Sleep(keepIdle * 2 / 3)
			if l = p.get(used, permit); l == nil {
				break
			}
		}
		assert.Nil(t, l, "it is older than ninety seconds")

		for key, wait := range map[poolKey]time.Duration{used: keepIdle, spare: spareIdle} {
			p.put(dialled(public), key)
			time.Sleep(wait + time.Second)
			assert.Nil(t, p.get(key, permit))
			p.put(dialled("127.0.0.1"), key)
			assert.Nil(t, p.get(key, permit), "its address does not pass")
			for range keepEach + 1 {
				p.put(dialled(public), key)
			}
			assert.Len(t, p.idle[key], map[bool]int{true: keepEach, false: spareEach}[key.used])
			p.drop(key)
			assert.Zero(t, p.count)
		}

		for range 2 * spareEach { // in one moment
			p.dialAhead(spare, permit)
		}
		assert.Equal(t, spareEach, p.coming[spare])
		p.clear(false)
		synctest.Wait()
		assert.Zero(t, p.coming[spare], "a dial of the policy before has ended")
		p.put(dialled(public), used)
		assert.Zero(t, p.count, "it was dialled before")
	})
}
