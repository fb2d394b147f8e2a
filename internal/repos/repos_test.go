package repos

import (
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/internal/fault"
	"weir/internal/weirtest/bucket"
	"weir/internal/weirtest/table"
	"weir/schemas"
)

func repo(tenant, name, by string) schemas.Repo {
	return schemas.Repo{
		ID: "id-" + by, Name: name, Tenant: tenant, Mode: schemas.RepoHosted, DefaultBranch: "main",
		Created: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), By: by,
	}
}

func (t *Table) add(tb testing.TB, r schemas.Repo) schemas.Repo {
	tb.Helper()
	got, err := t.Add(tb.Context(), r)
	require.NoError(tb, err)
	return got
}

func TestAddAndGet(t *testing.T) {
	t.Parallel()
	table := New(bucket.New())
	want := repo("acme.inc:1", "web.app", "a1")
	given := want
	given.URL = "http://h/git/web.app.git"
	require.Equal(t, want, table.add(t, given), "where it is reached is not kept")
	got, err := table.Get(t.Context(), "acme.inc:1", "web.app")
	require.NoError(t, err)
	require.Equal(t, want, got)
	for _, at := range [][2]string{
		{"acme.inc", "web.app"},
		{"acme.inc:1", "web"},
		{"acme", "inc:1.web.app"},
		{"acme.inc:1", "../web.app"},
		{"acme.inc:1", "web.app.git"},
		{"acme.inc:1", "WEB.app"},
		{"acme.inc:1", ""},
		{"acme.inc:1", ">"},
		{"*", "web.app"},
		{"", "web.app"},
	} {
		_, err := table.Get(t.Context(), at[0], at[1])
		require.ErrorIs(t, err, fault.ErrNotFound, at)
	}
}

func TestARepeatFindsWhatStandsThere(t *testing.T) {
	t.Parallel()
	s := bucket.New()
	table := New(s)
	first := table.add(t, repo("t", "a", "one"))
	again := repo("t", "a", "one")
	again.ID = "another"
	require.Equal(t, first, table.add(t, again))
	_, err := table.Add(t.Context(), repo("t", "a", "two"))
	require.ErrorIs(t, err, ErrTaken)
	require.Equal(t, 1, s.Puts)
	require.Equal(t, "id-one", table.add(t, repo("u", "a", "one")).ID, "names are each tenant's own")

	s.Broken = errors.New("no disk")
	_, err = table.Add(t.Context(), again)
	require.ErrorIs(t, err, s.Broken, "a repeat promises as much as the first")
}

// TestNobodyKnowsWhetherItWasStored: the store is asked.
func TestNobodyKnowsWhetherItWasStored(t *testing.T) {
	t.Parallel()
	table.Run(t, map[string]bool{"it was": true, "it was not": false}, func(t *testing.T, stored bool) {
		s := bucket.New()
		calls := 0
		s.Before = func(string) (bool, error) {
			if calls++; calls == 1 {
				return stored, fault.ErrUnavailable
			}
			return true, nil
		}
		require.Equal(t, "id-one", New(s).add(t, repo("t", "a", "one")).ID)
		require.Len(t, s.Records, 1)
	})
	s := bucket.New()
	s.Before = func(string) (bool, error) { return false, fault.ErrUnavailable }
	_, err := New(s).Add(t.Context(), repo("t", "a", "one"))
	require.ErrorIs(t, err, fault.ErrUnavailable)
	require.Equal(t, 8, s.Puts)
	s.Down = errors.New("gone")
	for _, err := range []error{
		second(New(s).Add(t.Context(), repo("t", "a", "one"))), second(New(s).Get(t.Context(), "t", "a")), second(New(s).List(t.Context(), "t")),
	} {
		require.ErrorIs(t, err, s.Down)
	}
}

func second[T any](_ T, err error) error { return err }

func TestList(t *testing.T) {
	t.Parallel()
	s := bucket.New()
	table := New(s)
	empty, err := table.List(t.Context(), "t")
	require.NoError(t, err)
	require.Equal(t, []schemas.Repo{}, empty)
	for i := range 9 {
		table.add(t, repo("other", "r"+strconv.Itoa(i), "one"))
	}
	for _, name := range []string{"web", "api", "b.c", "gone"} {
		table.add(t, repo("t", name, "one"))
	}
	table.add(t, repo("t.x", "api", "one"))
	s.Store("t.gone", nil)
	s.Store("t.bad", []byte(`{"v":9}`))
	list, err := table.List(t.Context(), "t")
	require.NoError(t, err)
	require.Equal(t, []schemas.Repo{repo("t", "api", "one"), repo("t", "b.c", "one"), repo("t", "web", "one")}, list)
	list, err = table.List(t.Context(), "other")
	require.NoError(t, err)
	require.Len(t, list, 9)

	require.Equal(t, "two", table.add(t, repo("t", "gone", "two")).By, "a name that was given up with other tools is free")
}

func TestUnreadableEntriesStay(t *testing.T) {
	t.Parallel()
	for name, value := range map[string]string{
		"no JSON": "x", "another version": `{"v":2,"id":"i","name":"a","tenant":"t"}`, "another's": `{"v":1,"id":"i","name":"a","tenant":"u"}`,
		"another name": `{"v":1,"id":"i","name":"b","tenant":"t"}`, "no id": `{"v":1,"name":"a","tenant":"t"}`,
	} {
		s := bucket.New()
		s.Store("t.a", []byte(value))
		_, err := New(s).Get(t.Context(), "t", "a")
		require.ErrorIs(t, err, ErrUnreadable, name)
		_, err = New(s).Add(t.Context(), repo("t", "a", "one"))
		require.ErrorIs(t, err, ErrUnreadable, name)
		require.Zero(t, s.Puts)
	}
}
