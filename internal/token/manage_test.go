package token

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"weir/internal/fault"
	"weir/internal/weirtest/bucket"
	"weir/schemas"
)

func TestCreateSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	s := bucket.New()
	k := node(t, s, Config{})
	many := make([]string, maxNames+1)
	for i := range many {
		many[i] = "e" + strconv.Itoa(i)
	}
	good := schemas.TokenRequest{Name: "n", Scopes: []string{schemas.ScopeActionsRead}}
	for at, spoil := range map[string]func(*schemas.TokenRequest){
		"/name":       func(r *schemas.TokenRequest) { r.Name = "" },
		"/name ":      func(r *schemas.TokenRequest) { r.Name = "a b" },
		"/tenant":     func(r *schemas.TokenRequest) { r.Tenant = "a/b" },
		"/scopes":     func(r *schemas.TokenRequest) { r.Scopes = nil },
		"/scopes/0":   func(r *schemas.TokenRequest) { r.Scopes = []string{"root"} },
		"/scopes/1":   func(r *schemas.TokenRequest) { r.Scopes = []string{"admin", "admin"} },
		"/expires_in": func(r *schemas.TokenRequest) { r.ExpiresIn = "tomorrow" },
		"/expires_in ": func(r *schemas.TokenRequest) {
			r.ExpiresIn = "0s"
		},
		"/expires_in   ": func(r *schemas.TokenRequest) { r.ExpiresIn = "87601h" },
		"/entries":       func(r *schemas.TokenRequest) { r.Entries = many },
		"/entries/0":     func(r *schemas.TokenRequest) { r.Entries = []string{""} },
		"/entries/1":     func(r *schemas.TokenRequest) { r.Entries = []string{"a", "a"} },
		"/pools":         func(r *schemas.TokenRequest) { r.Pools = []string{"ci"} },
		"/pools/0":       func(r *schemas.TokenRequest) { r.Pools, r.Scopes = []string{"a b"}, []string{schemas.ScopeTasksWork} },
		"/pools/1 ": func(r *schemas.TokenRequest) {
			r.Pools, r.Scopes = []string{"a", "none"}, []string{schemas.ScopeTasksWork}
		},
		"/models/0": func(r *schemas.TokenRequest) { r.Models = []string{"a*b"} },
		"/rate":     func(r *schemas.TokenRequest) { r.Rate = "0/s" },
		"/rate ":    func(r *schemas.TokenRequest) { r.Rate = "fast" },
	} {
		req := good
		spoil(&req)
		_, err := k.Create(t.Context(), root(), req)
		require.Equal(t, schemas.ValidationError, code(t, err), at)
		require.Contains(t, err.Error(), "at "+strings.TrimSpace(at)+":")
	}
	require.Zero(t, s.Last)
	_, err := k.Create(t.Context(), root(), good)
	require.NoError(t, err)
}

// What a token makes ends no later than it does.
func TestNoTokenOutlivesItsMaker(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k := node(t, bucket.New(), Config{})
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
		s := bucket.New()
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
		require.Equal(t, 1, s.Barriers, "it is durable before it is given out")
		require.Equal(t, []schemas.Token{want}, k.list(t, "acme"))
		got := k.verifies(t, made.Secret)
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
	k := node(t, bucket.New(), Config{})
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
	k.verifies(t, made.Secret)
	require.Len(t, k.list(t, "umbra"), 1)
	k.revoke(t, made.ID, "the operator may")
}

// TestLimitedTokensGiveAwayWhatTheyHave and no more: entries, pools and models are those of what they make too, as far as
// that can use them or give them on, and what is not limited has all of them.
func TestLimitedTokensGiveAwayWhatTheyHave(t *testing.T) {
	t.Parallel()
	s := bucket.New()
	k, other := node(t, s, Config{}), node(t, s, Config{})
	for name, c := range map[string]struct {
		of         func(*schemas.TokenRequest) *[]string
		got        func(schemas.Token) []string
		scope      string // of what has them
		has        []string
		given, not [][]string
		none       string // a scope for which they mean nothing; empty: there is none
	}{
		"entries": {
			func(r *schemas.TokenRequest) *[]string { return &r.Entries }, func(t schemas.Token) []string { return t.Entries },
			schemas.ScopeActionsRead,
			[]string{"a", "b"},
			[][]string{{"b"}},
			[][]string{{"b", "c"}},
			"",
		},
		"pools": {
			func(r *schemas.TokenRequest) *[]string { return &r.Pools }, func(t schemas.Token) []string { return t.Pools },
			schemas.ScopeTasksWork,
			[]string{"ci", "lab"},
			[][]string{{"lab"}},
			[][]string{{"lab", "default"}},
			schemas.ScopeActionsRead,
		},
		"models": {
			func(r *schemas.TokenRequest) *[]string { return &r.Models }, func(t schemas.Token) []string { return t.Models },
			schemas.ScopeActionsWrite,
			[]string{"openai/*", "llama"},
			[][]string{{"openai/*"}, {"openai/gpt-4o"}, {"openai/ft/*"}, {"llama"}},
			[][]string{{"llama", "*"}, {"llama", "openai"}, {"llama", "openaix/*"}, {"llama", "llama/*"}, {"llama", "anthropic/claude"}},
			"",
		},
	} {
		asking := func(scope string, list []string) schemas.TokenRequest {
			r := schemas.TokenRequest{Name: "n", Scopes: []string{scope}}
			*c.of(&r) = list
			return r
		}
		admin := k.make(t, asking(schemas.ScopeAdmin, c.has))
		who, _, err := other.Verify(bearing(admin.Secret)) // as it is stored
		require.NoError(t, err)
		require.Equal(t, c.has, c.got(who), name)
		require.True(t, slices.ContainsFunc(other.list(t, schemas.Operator), func(t schemas.Token) bool { return t.ID == admin.ID && slices.Equal(c.has, c.got(t)) }), name)
		require.Empty(t, c.got(k.make(t, asking(c.scope, nil)).Token), "all of them")
		for _, scope := range []string{schemas.ScopeAdmin, c.scope} {
			made, err := k.Create(t.Context(), admin.Token, asking(scope, nil))
			require.NoError(t, err)
			require.Equal(t, c.has, c.got(made.Token), "what is limited gives no more than it has")
		}
		for _, list := range c.given {
			made, err := k.Create(t.Context(), admin.Token, asking(c.scope, list))
			require.NoError(t, err, list)
			require.Equal(t, list, c.got(made.Token))
		}
		for _, list := range c.not {
			_, err := k.Create(t.Context(), admin.Token, asking(c.scope, list))
			require.Equal(t, schemas.Forbidden, code(t, err), list)
		}
		if c.none != "" {
			made, err := k.Create(t.Context(), admin.Token, asking(c.none, nil))
			require.NoError(t, err)
			require.Empty(t, c.got(made.Token), "it uses none")
		}
	}
}

// TestRevoke: a second time changes nothing, also on a node that has not heard of the first, and it outlives a restart.
func TestRevoke(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := bucket.New()
		k, there := node(t, s, Config{}), node(t, s, slow())
		made := k.make(t, schemas.TokenRequest{})
		s.Set(func(s *bucket.Bucket) { s.Deaf = true })
		got := k.revoke(t, made.ID)
		require.Equal(t, "revoked", got.Status)
		require.Equal(t, time.Now().UTC(), got.RevokedAt)
		pass(time.Minute)
		for _, node := range []*Keeper{k, there} {
			again := node.revoke(t, made.ID)
			require.Equal(t, got, again)
		}
		require.EqualValues(t, 2, s.Last, "the others change nothing")
		require.Equal(t, 4, s.Barriers, "and promise as much as the first")
		last := node(t, s, Config{})
		last.refuses(t, schemas.Unauthorized, made.Secret)
		for _, node := range []*Keeper{k, there, last} {
			node.Stop()
		}
	})
}

func TestWhatWasNotStoredIsNotAcknowledged(t *testing.T) {
	t.Parallel()
	s := bucket.New()
	k := node(t, s, Config{})
	made, signed := k.make(t, schemas.TokenRequest{}), k.make(t, schemas.TokenRequest{})
	value := k.signIn(t, signed.Secret)
	req := schemas.TokenRequest{Name: "n", Scopes: []string{schemas.ScopeAdmin}}
	for _, tc := range []struct {
		spoil func(*bucket.Bucket)
		want  schemas.Code
	}{
		{func(s *bucket.Bucket) { s.Down = fault.ErrUnavailable }, schemas.Unavailable},
		{func(s *bucket.Bucket) { s.Down = context.DeadlineExceeded }, schemas.Unavailable},
		{func(s *bucket.Bucket) { s.Down = fault.ErrFull }, schemas.LogFull},
		{func(s *bucket.Bucket) { s.Broken = errDown }, schemas.Unavailable}, // last: this one is stored
	} {
		s.Set(tc.spoil)
		got, err := k.Create(t.Context(), root(), req)
		require.Equal(t, tc.want, code(t, err))
		require.Zero(t, got)
		_, err = k.Revoke(t.Context(), root(), made.ID)
		require.Equal(t, tc.want, code(t, err))
		var public *fault.Error
		require.ErrorAs(t, err, &public)
		require.NotContains(t, public.Message, "10.0.0.1")
		_, _, err = k.SignIn(t.Context(), signed.Secret)
		require.Equal(t, tc.want, code(t, err))
		require.Equal(t, tc.want, code(t, k.SignOut(t.Context(), value)))
		s.Set(func(s *bucket.Bucket) { s.Down, s.Broken = nil, nil })
	}
	k.refuses(t, schemas.Unauthorized, made.Secret, "the last one was stored: it holds, though it was not acknowledged")
	got := k.revoke(t, made.ID)
	require.Equal(t, "revoked", got.Status)
	require.NoError(t, k.SignOut(t.Context(), value))
}
