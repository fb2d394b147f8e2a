package token

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"weir/internal/weirtest/bucket"
	"weir/schemas"
)

// slow asks the store seldom, so that a bubble's days pass quickly.
func slow() Config { return Config{check: time.Hour, stale: 3 * time.Hour} }

// TestEndedTokensAreForgotten thirty days after their end, whichever came first,
// on every node and in the store.
func TestEndedTokensAreForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := bucket.New()
		here, there := node(t, s, slow()), node(t, s, slow())
		lasting := here.make(t, schemas.TokenRequest{})
		expiring := here.make(t, schemas.TokenRequest{ExpiresIn: "24h"})
		revoked := here.make(t, schemas.TokenRequest{ExpiresIn: "87600h"})
		both := here.make(t, schemas.TokenRequest{ExpiresIn: "1h"})
		here.revoke(t, revoked.ID)
		pass(2 * time.Hour)
		here.revoke(t, both.ID)

		pass(keep - 2*time.Hour - time.Millisecond)
		require.Len(t, here.list(t, schemas.Operator), 4)
		pass(time.Millisecond)
		for _, k := range []*Keeper{here, there} {
			require.Len(t, k.list(t, schemas.Operator), 3, "at once, whether it was dropped yet or not")
			_, err := k.Revoke(t.Context(), root(), revoked.ID)
			require.Equal(t, schemas.NotFound, code(t, err))
		}
		pass(25 * time.Hour)
		for _, k := range []*Keeper{here, there, node(t, s, slow())} {
			all := k.list(t, schemas.Operator)
			require.Len(t, all, 1)
			require.Equal(t, lasting.ID, all[0].ID)
			require.Len(t, k.held, 1)
			k.verifies(t, lasting.Secret)
			_, _, err := k.Verify(bearing(expiring.Secret))
			require.Equal(t, errUnauthorized(), err)
			k.Stop()
		}
		require.Len(t, s.Records, 1)
	})
}

// TestATenantHasSoManyTokens in force: those that ended do not count, nor those
// of others, and the first admin is made however many there are.
func TestATenantHasSoManyTokens(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := bucket.New()
		k := node(t, s, Config{active: 2})
		req := schemas.TokenRequest{Name: "n", Tenant: "acme", Scopes: []string{schemas.ScopeActionsRead}}
		k.make(t, schemas.TokenRequest{})
		one := k.make(t, req)
		expiring := req
		expiring.ExpiresIn = "1m"
		k.make(t, expiring)
		refused := func() {
			t.Helper()
			_, err := k.Create(t.Context(), root(), req)
			require.Equal(t, schemas.Conflict, code(t, err))
			require.ErrorContains(t, err, "acme has 2 tokens in force")
		}
		refused()
		require.EqualValues(t, 3, s.Last, "nothing was stored")
		k.make(t, schemas.TokenRequest{})
		k.first(t, true, t.TempDir()+"/admin.token")
		pass(time.Minute)
		k.make(t, req)
		refused()
		k.revoke(t, one.ID)
		k.make(t, req)
		refused()
		k.Stop()
	})
}
