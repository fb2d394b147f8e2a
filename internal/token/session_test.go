package token

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"weir/internal/weirtest/bucket"
	"weir/internal/weirtest/table"
	"weir/schemas"
)

func (k *Keeper) signIn(t *testing.T, secret string) string {
	t.Helper()
	value, _, err := k.SignIn(t.Context(), secret)
	require.NoError(t, err)
	return value
}

func TestASessionStandsForItsToken(t *testing.T) {
	t.Parallel()
	shared := bucket.New()
	k := node(t, shared, Config{})
	made := k.make(t, schemas.TokenRequest{Tenant: "acme", Entries: []string{"one"}})
	value := k.signIn(t, made.Secret)
	require.NotContains(t, value, made.Secret[len(made.Secret)-secretText:])
	for _, at := range []*Keeper{k, node(t, shared, Config{Reads: true})} { // another node, or this one after a restart
		got, until, err := at.Verify(Session(value))
		require.NoError(t, err)
		require.Equal(t, made.ID, got.ID)
		require.Equal(t, []string{"one"}, got.Entries)
		require.True(t, got.ExpiresAt.IsZero())
		require.WithinDuration(t, time.Now().Add(12*time.Hour), until, time.Minute)
	}
	// A session is no token, and a token no session.
	_, _, err := k.Verify(bearing(value))
	require.Equal(t, errUnauthorized(), err)
	_, _, err = k.Verify(bearing(prefix + strings.TrimPrefix(value, ofSession)))
	require.Equal(t, errUnauthorized(), err)
	for _, other := range []string{"", made.Secret, ofSession + strings.TrimPrefix(made.Secret, prefix), value[:len(value)-1], value + "A"} {
		_, _, err = k.Verify(Session(other))
		require.Equal(t, errUnauthorized(), err, other)
		_, _, err = k.Stream(t.Context(), Session(other))
		require.Equal(t, errUnauthorized(), err, other)
		require.NoError(t, k.SignOut(t.Context(), other))
	}
	_, _, err = k.SignIn(t.Context(), value)
	require.Equal(t, errUnauthorized(), err)
	// Nobody sees it, and nobody revokes it by its id.
	require.Len(t, k.list(t, "acme"), 1)
	_, err = k.Revoke(t.Context(), root(), value[len(ofSession):len(ofSession)+idLength])
	require.Equal(t, schemas.NotFound, code(t, err))
	_, _, err = k.Verify(Session(value))
	require.NoError(t, err)
}

func TestASessionEnds(t *testing.T) {
	t.Parallel()
	type testCase struct {
		expires string
		end     func(t *testing.T, k *Keeper, made schemas.NewToken, value string)
	}
	table.Bubble(t, map[string]testCase{
		"signed out": {end: func(t *testing.T, k *Keeper, _ schemas.NewToken, value string) {
			t.Helper()
			require.NoError(t, k.SignOut(t.Context(), value))
		}},
		"token revoked": {end: func(t *testing.T, k *Keeper, made schemas.NewToken, _ string) {
			t.Helper()
			k.revoke(t, made.ID)
		}},
		"token expired": {expires: "1h", end: func(*testing.T, *Keeper, schemas.NewToken, string) { pass(time.Hour) }},
		"in time":       {end: func(*testing.T, *Keeper, schemas.NewToken, string) { pass(12 * time.Hour) }},
	}, func(t *testing.T, tc testCase) {
		shared := bucket.New()
		k := node(t, shared, Config{})
		defer k.Stop()
		made := k.make(t, schemas.TokenRequest{ExpiresIn: tc.expires})
		value := k.signIn(t, made.Secret)
		ctx, release, err := k.Stream(t.Context(), Session(value))
		require.NoError(t, err)
		defer release()
		tc.end(t, k, made, value)
		synctest.Wait()
		require.ErrorIs(t, ctx.Err(), context.Canceled, "its streams end with it")
		_, _, err = k.Verify(Session(value))
		require.Equal(t, errUnauthorized(), err)
		_, _, err = k.Stream(t.Context(), Session(value))
		require.Equal(t, errUnauthorized(), err)
		require.NoError(t, k.SignOut(t.Context(), value), "again changes nothing")
	})
}

// TestEndedSessionsAreForgotten: unlike tokens they are shown to nobody, so nothing keeps them.
func TestEndedSessionsAreForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		shared := bucket.New()
		k := node(t, shared, Config{})
		defer k.Stop()
		made := k.make(t, schemas.TokenRequest{})
		reads := node(t, shared, Config{Reads: true})
		defer reads.Stop()
		for range 3 {
			k.signIn(t, made.Secret)
		}
		pass(time.Second)
		require.Equal(t, 4, reads.count(func(*held) bool { return true }))
		pass(12*time.Hour + tidyEvery)
		shared.Set(func(s *bucket.Bucket) { require.Len(t, s.Records, 1) })
		require.Len(t, k.held, 1)
		require.Len(t, reads.held, 1, "on a node that only reads as well")
	})
}

func TestSessionsAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k := node(t, bucket.New(), Config{sessions: 2, active: 1})
		defer k.Stop()
		synctest.Wait() // what is dropped at the start has been
		made := k.make(t, schemas.TokenRequest{})
		first := k.signIn(t, made.Secret)
		k.signIn(t, made.Secret)
		_, _, err := k.SignIn(t.Context(), made.Secret)
		require.Equal(t, schemas.Conflict, code(t, err))
		require.NoError(t, k.SignOut(t.Context(), first))
		value := k.signIn(t, made.Secret)
		for range forgotten*2 - 3 { // in and out: what has ended is still held
			require.NoError(t, k.SignOut(t.Context(), value))
			value = k.signIn(t, made.Secret)
		}
		require.NoError(t, k.SignOut(t.Context(), value))
		_, _, err = k.SignIn(t.Context(), made.Secret)
		require.Equal(t, schemas.Conflict, code(t, err))
		require.NoError(t, k.forget(t.Context()))
		k.signIn(t, made.Secret)
	})
}

// TestASessionIsItsTokensUse: neither rates nor streams are got around by signing in.
func TestASessionIsItsTokensUse(t *testing.T) {
	t.Parallel()
	k := node(t, bucket.New(), Config{Streams: 1})
	made := k.make(t, schemas.TokenRequest{Rate: "3/h"})
	value := k.signIn(t, made.Secret) // one
	_, _, err := k.Verify(Session(value))
	require.NoError(t, err)
	_, release, err := k.Stream(t.Context(), bearing(made.Secret))
	require.NoError(t, err)
	_, _, err = k.Stream(t.Context(), Session(value))
	require.Equal(t, schemas.RateLimited, code(t, err))
	release()
	_, release, err = k.Stream(t.Context(), Session(value))
	require.NoError(t, err)
	defer release()
	_, _, err = k.Verify(bearing(made.Secret)) // three
	require.NoError(t, err)
	_, _, err = k.Verify(Session(value))
	require.Equal(t, schemas.RateLimited, code(t, err))
	_, _, err = k.SignIn(t.Context(), made.Secret)
	require.Equal(t, schemas.RateLimited, code(t, err))
}
