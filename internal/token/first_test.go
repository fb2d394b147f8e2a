package token

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/internal/fault"
	"weir/internal/weirtest/bucket"
	"weir/internal/weirtest/table"
	"weir/schemas"
)

func TestFirstAdmin(t *testing.T) {
	t.Parallel()
	s := bucket.New()
	k := node(t, s, Config{})
	file := filepath.Join(t.TempDir(), "new", "admin.token")
	k.first(t, true, file)
	text := readToken(t, file)
	who := k.verifies(t, text)
	require.Equal(t, schemas.Operator, who.Tenant)
	require.Equal(t, []string{schemas.ScopeAdmin}, who.Scopes)
	require.Equal(t, 1, s.Barriers)

	k.first(t, false, file, "one is enough")
	require.Equal(t, text, readToken(t, file))

	k.make(t, schemas.TokenRequest{Tenant: "acme", Scopes: []string{schemas.ScopeAdmin}})
	k.make(t, schemas.TokenRequest{Scopes: []string{schemas.ScopeAdmin}, Entries: []string{"orders"}})
	k.make(t, schemas.TokenRequest{Scopes: []string{schemas.ScopeAdmin}, Pools: []string{"ci"}})
	k.make(t, schemas.TokenRequest{Scopes: []string{schemas.ScopeAdmin}, Models: []string{"*"}})
	k.make(t, schemas.TokenRequest{Scopes: []string{schemas.ScopeActionsWrite, schemas.ScopeRulesWrite}})
	k.revoke(t, who.ID)
	k.first(t, true, file, "another tenant's admin is no operator, and a limited one none that could make others")
	require.NotEqual(t, text, readToken(t, file))
	left, err := filepath.Glob(filepath.Join(filepath.Dir(file), "*"))
	require.NoError(t, err)
	require.Equal(t, []string{file}, left)
}

func readToken(t *testing.T, file string) string {
	t.Helper()
	info, err := os.Stat(file)
	require.NoError(t, err)
	require.EqualValues(t, 0o600, info.Mode().Perm())
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	return strings.TrimSuffix(string(data), "\n")
}

// TestFirstAdminThatNobodyCouldRead is not made.
func TestFirstAdminThatNobodyCouldRead(t *testing.T) {
	t.Parallel()
	s := bucket.New()
	k := node(t, s, Config{})
	dir := t.TempDir()
	blocked := filepath.Join(dir, "file")
	require.NoError(t, os.WriteFile(blocked, nil, 0o600))
	_, err := k.First(t.Context(), filepath.Join(blocked, "admin.token"), false)
	require.Error(t, err)
	require.NoError(t, os.Mkdir(filepath.Join(dir, "admin.token"), 0o700))
	_, err = k.First(t.Context(), filepath.Join(dir, "admin.token"), false)
	require.Error(t, err)
	require.Zero(t, s.Last)
	file := filepath.Join(dir, "good")
	s.Set(func(s *bucket.Bucket) { s.Broken = errDown })
	_, err = k.First(t.Context(), file, false)
	require.ErrorIs(t, err, errDown)
}

// TestTheTokenBeforeOutlivesAFailure: the file holds one that works until there
// is another that does.
func TestTheTokenBeforeOutlivesAFailure(t *testing.T) {
	t.Parallel()
	type testCase struct {
		spoil  func(*bucket.Bucket)
		stored bool
	}
	table.Run(t, map[string]testCase{
		"refused": {func(s *bucket.Bucket) { s.Down = fault.ErrFull }, false},
		"unknown": {func(s *bucket.Bucket) { s.Broken = errDown }, true},
	}, func(t *testing.T, tc testCase) {
		s := bucket.New()
		k := node(t, s, Config{})
		file := filepath.Join(t.TempDir(), "admin.token")
		_, err := k.First(t.Context(), file, false)
		require.NoError(t, err)
		before := readToken(t, file)
		s.Set(tc.spoil)
		made, err := k.First(t.Context(), file, true)
		require.Error(t, err)
		require.False(t, made)
		require.Equal(t, before, readToken(t, file))
		s.Set(func(s *bucket.Bucket) { s.Down, s.Broken = nil, nil })

		again := node(t, s, Config{}) // what was stored is found beside
		made, err = again.First(t.Context(), file, false)
		require.NoError(t, err)
		require.Equal(t, tc.stored, made)
		require.Equal(t, tc.stored, before != readToken(t, file))
		again.verifies(t, readToken(t, file))
		again.first(t, false, file)
	})
}

// TestWhatLiesBesideMustWork to take the place of a token.
func TestWhatLiesBesideMustWork(t *testing.T) {
	t.Parallel()
	k := node(t, bucket.New(), Config{})
	file := filepath.Join(t.TempDir(), "admin.token")
	_, err := k.First(t.Context(), file, false)
	require.NoError(t, err)
	before := readToken(t, file)
	_, _, unknown := mint(prefix)
	for name, text := range map[string]string{
		"nothing":        "",
		"unknown":        unknown,
		"no admin":       k.make(t, schemas.TokenRequest{}).Secret,
		"another tenant": k.make(t, schemas.TokenRequest{Tenant: "acme", Scopes: []string{schemas.ScopeAdmin}}).Secret,
		"limited":        k.make(t, schemas.TokenRequest{Scopes: []string{schemas.ScopeAdmin}, Entries: []string{"a"}}).Secret,
	} {
		require.NoError(t, os.WriteFile(file+".new", []byte(text+"\n"), 0o600))
		k.first(t, false, file, name)
		require.Equal(t, before, readToken(t, file), name)
	}
}
