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

// verifies has the keeper accept a token, and returns what it knows of it.
func (k *Keeper) verifies(t *testing.T, secret string, why ...any) schemas.Token {
	t.Helper()
	got, _, err := k.Verify(bearing(secret))
	require.NoError(t, err, why...)
	return got
}

// refuses has the keeper refuse a token with this code.
func (k *Keeper) refuses(t *testing.T, want schemas.Code, secret string, why ...any) {
	t.Helper()
	_, _, err := k.Verify(bearing(secret))
	require.Equal(t, want, code(t, err), why...)
}

func (k *Keeper) revoke(t *testing.T, id string, why ...any) schemas.Token {
	t.Helper()
	got, err := k.Revoke(t.Context(), root(), id)
	require.NoError(t, err, why...)
	return got
}

// first has the keeper make the first admin, or find that there is one.
func (k *Keeper) first(t *testing.T, made bool, file string, why ...any) {
	t.Helper()
	got, err := k.First(t.Context(), file, false)
	require.NoError(t, err)
	require.Equal(t, made, got, why...)
}

// list is all that a tenant is shown on one page.
func (k *Keeper) list(t *testing.T, tenant string) []schemas.Token {
	t.Helper()
	page, err := k.List(tenant, "", 1000)
	require.NoError(t, err)
	require.Empty(t, page.Next)
	return page.Items
}

func bearing(text string) Credential { return Bearer("Bearer " + text) }

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
