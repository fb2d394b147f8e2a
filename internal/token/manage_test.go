package token

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"weir/internal/fault"
	"weir/schemas"
)

func TestCreateSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	s := newShelf()
	k := node(t, s, Config{})
	many := make([]string, maxEntries+1)
	for i := range many {
		many[i] = "e" + strconv.Itoa(i)
	}
	good := schemas.TokenRequest{Name: "n", Scopes: []string{schemas.ScopeActionsRead}}
	for at, spoil := range map[string]func(*schemas.TokenRequest){
		"/name":       func(r *schemas.TokenRequest) { r.Name = "" },
		"/name ":      func(r *schemas.TokenRequest) { r.Name = "a b" },
		"/name  ":     func(r *schemas.TokenRequest) { r.Name = strings.Repeat("a", 129) },
		"/tenant":     func(r *schemas.TokenRequest) { r.Tenant = "a/b" },
		"/scopes":     func(r *schemas.TokenRequest) { r.Scopes = nil },
		"/scopes/0":   func(r *schemas.TokenRequest) { r.Scopes = []string{"root"} },
		"/scopes/1":   func(r *schemas.TokenRequest) { r.Scopes = []string{"admin", "admin"} },
		"/expires_in": func(r *schemas.TokenRequest) { r.ExpiresIn = "tomorrow" },
		"/expires_in ": func(r *schemas.TokenRequest) {
			r.ExpiresIn = "0s"
		},
		"/expires_in  ":  func(r *schemas.TokenRequest) { r.ExpiresIn = "-1h" },
		"/expires_in   ": func(r *schemas.TokenRequest) { r.ExpiresIn = "87601h" },
		"/entries":       func(r *schemas.TokenRequest) { r.Entries = many },
		"/entries/0":     func(r *schemas.TokenRequest) { r.Entries = []string{""} },
		"/entries/1":     func(r *schemas.TokenRequest) { r.Entries = []string{"a", "a"} },
		"/pools":         func(r *schemas.TokenRequest) { r.Pools = []string{"ci"} },
		"/pools ":        func(r *schemas.TokenRequest) { r.Pools, r.Scopes = many, []string{schemas.ScopeTasksWork} },
		"/pools/0":       func(r *schemas.TokenRequest) { r.Pools, r.Scopes = []string{"a b"}, []string{schemas.ScopeTasksWork} },
		"/pools/1": func(r *schemas.TokenRequest) {
			r.Pools, r.Scopes = []string{"a", "a"}, []string{schemas.ScopeTasksWork}
		},
		"/pools/1 ": func(r *schemas.TokenRequest) {
			r.Pools, r.Scopes = []string{"a", "none"}, []string{schemas.ScopeTasksWork}
		},
		"/models":     func(r *schemas.TokenRequest) { r.Models = many },
		"/models/0":   func(r *schemas.TokenRequest) { r.Models = []string{"a*"} },
		"/models/0 ":  func(r *schemas.TokenRequest) { r.Models = []string{""} },
		"/models/0  ": func(r *schemas.TokenRequest) { r.Models = []string{"a/../b"} },
		"/models/1":   func(r *schemas.TokenRequest) { r.Models = []string{"a/*", "a/*"} },
		"/rate":       func(r *schemas.TokenRequest) { r.Rate = "0/s" },
		"/rate ":      func(r *schemas.TokenRequest) { r.Rate = "fast" },
	} {
		req := good
		spoil(&req)
		_, err := k.Create(t.Context(), root(), req)
		require.Equal(t, schemas.ValidationError, code(t, err), at)
		require.Contains(t, err.Error(), "at "+strings.TrimSpace(at)+":")
	}
	require.Empty(t, s.puts)
	_, err := k.Create(t.Context(), root(), good)
	require.NoError(t, err)
}

// What a token makes ends no later than it does.
func TestNoTokenOutlivesItsMaker(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k := node(t, newShelf(), Config{})
		admin := root()
		admin.ExpiresAt = time.Now().Add(time.Hour)
		req := schemas.TokenRequest{Name: "a", Scopes: []string{schemas.ScopeActionsRead}}
		made, err := k.Create(t.Context(), admin, req)
		require.NoError(t, err)
		require.Equal(t, admin.ExpiresAt, made.ExpiresAt)
		req.ExpiresIn = "59m"
		_, err = k.Create(t.Context(), admin, req)
		require.NoError(t, err)
		req.ExpiresIn = "61m"
		_, err = k.Create(t.Context(), admin, req)
		require.ErrorContains(t, err, "may not outlive")
	})
}

func TestCreate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newShelf()
		k := node(t, s, Config{})
		made := k.make(t, schemas.TokenRequest{
			Name: "ci", Tenant: "acme", Scopes: []string{schemas.ScopeActionsWrite}, ExpiresIn: "2m", Entries: []string{"orders"}, Rate: "10/s",
		})
		now := time.Now().UTC()
		want := schemas.Token{
			ID: made.ID, Name: "ci", Tenant: "acme", Scopes: []string{schemas.ScopeActionsWrite}, Entries: []string{"orders"}, Rate: "10/s",
			CreatedAt: now, CreatedBy: root().ID, ExpiresAt: now.Add(2 * time.Minute), Status: "active",
		}
		require.Equal(t, want, made.Token)
		require.Equal(t, 1, s.barriers, "it is durable before it is given out")
		require.Equal(t, []schemas.Token{want}, k.list(t, "acme"))
		got, err := k.Verify(bearing(made.Secret))
		require.NoError(t, err)
		want.Status = ""
		require.Equal(t, want, got)
		pass(2 * time.Minute)
		require.Equal(t, "expired", k.list(t, "acme")[0].Status)
		k.Stop()
	})
}

// TestAdminsStayInTheirTenant: all but the operator's.
func TestAdminsStayInTheirTenant(t *testing.T) {
	t.Parallel()
	k := node(t, newShelf(), Config{})
	admin := func(tenant string) schemas.Token {
		return k.make(t, schemas.TokenRequest{Tenant: tenant, Scopes: []string{schemas.ScopeAdmin}}).Token
	}
	acme, umbra := admin("acme"), admin("umbra")
	req := schemas.TokenRequest{Name: "n", Scopes: []string{schemas.ScopeActionsRead}}
	made, err := k.Create(t.Context(), acme, req)
	require.NoError(t, err)
	require.Equal(t, "acme", made.Tenant, "the maker's own, unless it says so")
	req.Tenant = "umbra"
	_, err = k.Create(t.Context(), acme, req)
	require.Equal(t, schemas.Forbidden, code(t, err))
	req.Tenant = schemas.Operator
	_, err = k.Create(t.Context(), acme, req)
	require.Equal(t, schemas.Forbidden, code(t, err))

	_, unknown := k.Revoke(t.Context(), umbra, strings.Repeat("a", idLength))
	_, foreign := k.Revoke(t.Context(), umbra, made.ID)
	require.Equal(t, schemas.NotFound, code(t, foreign))
	require.Equal(t, unknown, foreign, "whether it is there is not said")
	_, err = k.Verify(bearing(made.Secret))
	require.NoError(t, err)
	require.Len(t, k.list(t, "umbra"), 1)
	_, err = k.Revoke(t.Context(), root(), made.ID)
	require.NoError(t, err, "the operator may")
}

// TestLimitedAdminsGiveAwayWhatTheyHave and no more.
func TestLimitedAdminsGiveAwayWhatTheyHave(t *testing.T) {
	t.Parallel()
	k := node(t, newShelf(), Config{})
	admin := k.make(t, schemas.TokenRequest{Scopes: []string{schemas.ScopeAdmin}, Entries: []string{"a", "b"}}).Token
	req := schemas.TokenRequest{Name: "n", Scopes: []string{schemas.ScopeAdmin}}
	made, err := k.Create(t.Context(), admin, req)
	require.NoError(t, err)
	require.Equal(t, []string{"a", "b"}, made.Entries)
	req.Entries = []string{"b"}
	made, err = k.Create(t.Context(), admin, req)
	require.NoError(t, err)
	require.Equal(t, []string{"b"}, made.Entries)
	req.Entries = []string{"b", "c"}
	_, err = k.Create(t.Context(), admin, req)
	require.Equal(t, schemas.Forbidden, code(t, err))
}

// TestPools are those of a token that leases, or that could give a token which does.
func TestPools(t *testing.T) {
	t.Parallel()
	s := newShelf()
	k := node(t, s, Config{})
	made := k.make(t, schemas.TokenRequest{Scopes: []string{schemas.ScopeTasksWork}, Pools: []string{"ci", "default"}})
	require.Equal(t, []string{"ci", "default"}, made.Pools)
	other := node(t, s, Config{}) // as it is stored
	who, err := other.Verify(bearing(made.Secret))
	require.NoError(t, err)
	require.Equal(t, []string{"ci", "default"}, who.Pools)
	require.Empty(t, k.make(t, schemas.TokenRequest{Scopes: []string{schemas.ScopeTasksWork}}).Pools, "all of them")

	admin := k.make(t, schemas.TokenRequest{Scopes: []string{schemas.ScopeAdmin}, Pools: []string{"ci", "lab"}}).Token
	req := schemas.TokenRequest{Name: "n", Scopes: []string{schemas.ScopeAdmin}}
	for _, scope := range []string{schemas.ScopeAdmin, schemas.ScopeTasksWork} {
		req.Scopes = []string{scope}
		made, err = k.Create(t.Context(), admin, req)
		require.NoError(t, err)
		require.Equal(t, []string{"ci", "lab"}, made.Pools, "what is limited gives no more than it has")
	}
	req.Pools = []string{"lab", "default"}
	_, err = k.Create(t.Context(), admin, req)
	require.Equal(t, schemas.Forbidden, code(t, err))
	req.Pools = []string{"lab"}
	_, err = k.Create(t.Context(), admin, req)
	require.NoError(t, err)
	req.Pools, req.Scopes = nil, []string{schemas.ScopeActionsRead}
	made, err = k.Create(t.Context(), admin, req)
	require.NoError(t, err)
	require.Empty(t, made.Pools, "it leases nothing")
}

// TestModels are those that a token may use, and then all that it can give away.
func TestModels(t *testing.T) {
	t.Parallel()
	s := newShelf()
	k := node(t, s, Config{})
	made := k.make(t, schemas.TokenRequest{Models: []string{"openai/*", "llama"}})
	require.Equal(t, []string{"openai/*", "llama"}, made.Models)
	other := node(t, s, Config{}) // as it is stored
	who, err := other.Verify(bearing(made.Secret))
	require.NoError(t, err)
	require.Equal(t, []string{"openai/*", "llama"}, who.Models)
	page, err := other.List(schemas.Operator, "", 10)
	require.NoError(t, err)
	require.Equal(t, []string{"openai/*", "llama"}, page.Items[0].Models)
	require.Empty(t, k.make(t, schemas.TokenRequest{}).Models, "all of them")

	admin := k.make(t, schemas.TokenRequest{Scopes: []string{schemas.ScopeAdmin}, Models: []string{"openai/*", "llama"}}).Token
	req := schemas.TokenRequest{Name: "n", Scopes: []string{schemas.ScopeActionsWrite}}
	made, err = k.Create(t.Context(), admin, req)
	require.NoError(t, err)
	require.Equal(t, []string{"openai/*", "llama"}, made.Models, "what is limited gives no more than it has")
	for _, given := range []string{"openai/*", "openai/gpt-4o", "openai/ft/*", "llama"} {
		req.Models = []string{given}
		_, err = k.Create(t.Context(), admin, req)
		require.NoError(t, err, given)
	}
	for _, kept := range []string{"*", "openai", "openaix/*", "llama/*", "anthropic/claude"} {
		req.Models = []string{"llama", kept}
		_, err = k.Create(t.Context(), admin, req)
		require.Equal(t, schemas.Forbidden, code(t, err), kept)
	}
}

func TestRevoke(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newShelf()
		k := node(t, s, Config{})
		made := k.make(t, schemas.TokenRequest{})
		got, err := k.Revoke(t.Context(), root(), made.ID)
		require.NoError(t, err)
		require.Equal(t, "revoked", got.Status)
		require.Equal(t, time.Now().UTC(), got.RevokedAt)
		pass(time.Minute)
		again, err := k.Revoke(t.Context(), root(), made.ID)
		require.NoError(t, err)
		require.Equal(t, got, again)
		require.Len(t, s.puts, 2, "the second changes nothing")
		require.Equal(t, 3, s.barriers, "and promises as much as the first")
		k.Stop()
	})
}

// TestTwoNodesRevokeAtOnce: one is first, and both are told that it is done.
func TestTwoNodesRevokeAtOnce(t *testing.T) {
	t.Parallel()
	s := newShelf()
	here, there := node(t, s, Config{}), node(t, s, Config{Check: time.Hour, Stale: 2 * time.Hour})
	made := here.make(t, schemas.TokenRequest{})
	s.set(func(s *shelf) { s.deaf = true })
	first, err := here.Revoke(t.Context(), root(), made.ID)
	require.NoError(t, err)
	second, err := there.Revoke(t.Context(), root(), made.ID)
	require.NoError(t, err)
	require.Equal(t, first, second)
	require.Len(t, s.puts, 2)
}

func TestWhatWasNotStoredIsNotAcknowledged(t *testing.T) {
	t.Parallel()
	s := newShelf()
	k := node(t, s, Config{})
	made := k.make(t, schemas.TokenRequest{})
	req := schemas.TokenRequest{Name: "n", Scopes: []string{schemas.ScopeAdmin}}
	for _, tc := range []struct {
		spoil func(*shelf)
		want  schemas.Code
	}{
		{func(s *shelf) { s.down = fault.ErrUnavailable }, schemas.Unavailable},
		{func(s *shelf) { s.down = fault.ErrFull }, schemas.LogFull},
		{func(s *shelf) { s.barrier = errDown }, schemas.Unavailable}, // last: this one is stored
	} {
		s.set(tc.spoil)
		got, err := k.Create(t.Context(), root(), req)
		require.Equal(t, tc.want, code(t, err))
		require.Zero(t, got)
		_, err = k.Revoke(t.Context(), root(), made.ID)
		require.Equal(t, tc.want, code(t, err))
		var public *fault.Error
		require.ErrorAs(t, err, &public)
		require.NotContains(t, public.Message, "10.0.0.1")
		s.set(func(s *shelf) { s.down, s.barrier = nil, nil })
	}
	_, err := k.Verify(bearing(made.Secret))
	require.Equal(t, schemas.Unauthorized, code(t, err), "the last one was stored: it holds, though it was not acknowledged")
	got, err := k.Revoke(t.Context(), root(), made.ID)
	require.NoError(t, err)
	require.Equal(t, "revoked", got.Status)
}

func TestAClientThatLeavesStopsNothing(t *testing.T) {
	t.Parallel()
	s := newShelf()
	k := node(t, s, Config{})
	made := k.make(t, schemas.TokenRequest{})
	ctx, cancel := context.WithCancel(t.Context())
	s.before = cancel
	_, err := k.Revoke(ctx, root(), made.ID)
	require.NoError(t, err)
}
