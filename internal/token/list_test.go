package token

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"weir/internal/weirtest/bucket"
	"weir/schemas"
)

// TestListInPages shows every token once and in order, whatever becomes of them between the
// pages. Those of one moment have an order too.
func TestListInPages(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k := node(t, bucket.New(), Config{})
		const apart, together = 16, 9
		var want []string
		for i := range apart + together {
			want = append(want, "n"+strconv.Itoa(i))
			k.make(t, schemas.TokenRequest{Name: want[i]})
			if i < apart {
				pass(time.Millisecond)
			}
		}
		k.make(t, schemas.TokenRequest{Tenant: "acme"})
		require.Empty(t, k.Name("nobody"))
		for _, limit := range []int{1, 7, 24, 25, 1000} {
			var got []string
			cursor := ""
			for {
				page, err := k.List(schemas.Operator, cursor, limit)
				require.NoError(t, err)
				require.LessOrEqual(t, len(page.Items), limit)
				for _, token := range page.Items {
					got = append(got, token.Name)
					require.Equal(t, token.Name, k.Name(token.ID))
				}
				if cursor = page.Next; cursor == "" {
					break
				}
				k.revoke(t, page.Items[len(page.Items)-1].ID)
			}
			require.Equal(t, want[:apart], got[:apart], limit)
			require.ElementsMatch(t, want[apart:], got[apart:], limit)
		}
		empty, err := k.List("nobody", "", 1)
		require.NoError(t, err)
		require.Equal(t, schemas.Page[schemas.Token]{Items: []schemas.Token{}}, empty)
		k.Stop()
	})
}

func FuzzCursor(f *testing.F) {
	for _, s := range []string{"", "k7m2q9x4v8cgb6n3-mk3x2o00", "k7m2q9x4v8cgb6n3--1", "41"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if p, ok := parsePosition(text); ok && p.String() != text {
			t.Fatalf("%q reads as %q", text, p)
		}
	})
}

// TestLastUse is known on every node within minutes, costs a write at most every five, and never undoes a revocation.
func TestLastUse(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := bucket.New()
		cfg := slow()
		here := node(t, s, cfg)
		cfg.Reads = true
		there := node(t, s, cfg)
		used, idle := here.make(t, schemas.TokenRequest{}), here.make(t, schemas.TokenRequest{})
		last := func(k *Keeper, id string) time.Time {
			for _, one := range k.list(t, schemas.Operator) {
				if one.ID == id {
					return one.LastUsedAt
				}
			}
			return time.Time{}
		}
		puts := s.Puts
		pass(time.Minute)
		begun := time.Now().UTC().Truncate(time.Second)
		for range 20 {
			here.verifies(t, used.Secret)
		}
		require.Equal(t, begun, last(here, used.ID), "this node knows at once")
		require.Zero(t, last(there, used.ID))
		pass(usedEvery)
		require.Equal(t, begun, last(there, used.ID))
		require.Equal(t, puts+1, s.Puts)
		require.Zero(t, last(here, idle.ID))
		there.verifies(t, used.Secret)
		pass(3 * usedEvery)
		require.Equal(t, puts+1, s.Puts, "nothing new here, and the other node only reads")

		s.Hook(func() (error, bool) { // another node revokes it between the look and the write
			s.Hook(nil)
			there.revoke(t, used.ID)
			return nil, true
		})
		here.verifies(t, used.Secret)
		pass(usedEvery)
		here.refuses(t, schemas.Unauthorized, used.Secret)
		there.refuses(t, schemas.Unauthorized, used.Secret)
	})
}
