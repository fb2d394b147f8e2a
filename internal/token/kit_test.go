package token

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"weir/internal/fault"
	"weir/schemas"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// root is an admin of the operator's tenant that lies in no store.
func root() schemas.Token {
	return schemas.Token{ID: "rootrootrootroot", Tenant: schemas.Operator, Scopes: []string{schemas.ScopeAdmin}}
}

// node starts a keeper. In a bubble it is stopped before the bubble's end.
func node(t *testing.T, s Store, cfg Config) *Keeper {
	t.Helper()
	k := New(s, cfg)
	require.NoError(t, k.Start(t.Context()))
	t.Cleanup(k.Stop)
	return k
}

func (k *Keeper) make(t *testing.T, req schemas.TokenRequest) schemas.NewToken {
	t.Helper()
	if req.Name == "" {
		req.Name = "n"
	}
	if req.Scopes == nil {
		req.Scopes = []string{schemas.ScopeActionsRead}
	}
	made, err := k.Create(t.Context(), root(), req)
	require.NoError(t, err)
	return made
}

// list is all that a tenant is shown on one page.
func (k *Keeper) list(t *testing.T, tenant string) []schemas.Token {
	t.Helper()
	page, err := k.List(tenant, "", 1000)
	require.NoError(t, err)
	require.Empty(t, page.Next)
	return page.Items
}

func bearing(text string) []string { return []string{"Bearer " + text} }

func code(t *testing.T, err error) schemas.Code {
	t.Helper()
	var public *fault.Error
	require.ErrorAs(t, err, &public)
	return public.Code
}

// pass lets a clock of a bubble run.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}
