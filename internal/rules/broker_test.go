package rules_test

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/internal/broker"
	"weir/internal/broker/embedded"
	"weir/internal/fault"
	"weir/internal/rules"
	"weir/schemas"
)

var layout = schemas.Layout{Partitions: 1, Lanes: 8}

// start is a keeper on a node of its own.
func start(t *testing.T, server *embedded.Server, cfg rules.Config) *rules.Keeper {
	t.Helper()
	b, err := broker.Open(t.Context(), broker.Config{Server: server, Layout: layout, AttemptTimeout: 5 * time.Second})
	require.NoError(t, err)
	t.Cleanup(func() { b.Close(context.Background()) })
	k := rules.New(b.Rules(), cfg)
	require.NoError(t, k.Start(t.Context()))
	t.Cleanup(k.Stop)
	return k
}

func serve(t *testing.T, dir string) *embedded.Server {
	t.Helper()
	s, err := embedded.Start(embedded.Config{Dir: dir, Layout: layout})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Stop()) })
	return s
}

func set(by string, ids ...string) schemas.RuleSet {
	d := schemas.RuleSet{GlobalActive: true, By: by}
	for _, id := range ids {
		ms := int64(10)
		d.Rules = append(d.Rules, schemas.Rule{
			ID: id, Group: schemas.DefaultGroup, Type: schemas.RuleDelay, Enabled: true,
			Match: schemas.RuleMatch{URLPattern: "https://api.example.com/*", Method: "ANY"}, Action: schemas.RuleAction{DelayMS: &ms},
		})
	}
	return d
}

// TestKeepersShareABroker: what one writes is in force there when Put returns, and on
// the other as soon as it is heard.
func TestKeepersShareABroker(t *testing.T) {
	t.Parallel()
	const tenant = "acme.inc:1"
	server := serve(t, t.TempDir())
	changed := make(chan string, 100)
	here := start(t, server, rules.Config{})
	there := start(t, server, rules.Config{Check: time.Hour, Changed: func(tenant string) { changed <- tenant }})
	one, err := here.Put(t.Context(), tenant, set("1", "a"), 0)
	require.NoError(t, err)
	got, _, err := here.InForce(tenant)
	require.NoError(t, err)
	require.Equal(t, one.Etag, got.Etag())
	require.Equal(t, tenant, <-changed)
	got, replaced, err := there.InForce(tenant)
	require.NoError(t, err)
	require.Equal(t, one.Etag, got.Etag())

	off := set("2", "a")
	off.GlobalActive = false
	two, err := here.Put(t.Context(), tenant, off, one.Revision)
	require.NoError(t, err)
	<-replaced
	newest, err := there.Newest(t.Context(), tenant)
	require.NoError(t, err)
	require.Equal(t, two, newest)
	next, err := there.After(t.Context(), tenant, one.Revision)
	require.NoError(t, err)
	require.Equal(t, two, next)
	_, err = there.Put(t.Context(), tenant, set("3"), one.Revision)
	require.ErrorIs(t, err, fault.ErrFenced)
	_, err = there.After(t.Context(), tenant, two.Revision)
	require.ErrorIs(t, err, fault.ErrNotFound)
}

func TestSetsOutliveARestart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, err := embedded.Start(embedded.Config{Dir: dir, Layout: layout})
	require.NoError(t, err)
	b, err := broker.Open(t.Context(), broker.Config{Server: s, Layout: layout, AttemptTimeout: 5 * time.Second})
	require.NoError(t, err)
	k := rules.New(b.Rules(), rules.Config{})
	require.NoError(t, k.Start(t.Context()))
	var last rules.Snapshot
	for i := range 68 {
		last, err = k.Put(t.Context(), "t", set(strconv.Itoa(i), "a"), last.Revision)
		require.NoError(t, err)
	}
	k.Stop()
	b.Close(t.Context())
	require.NoError(t, s.Stop())

	k = start(t, serve(t, dir), rules.Config{})
	got, _, err := k.InForce("t")
	require.NoError(t, err)
	require.Equal(t, last.Etag, got.Etag())
	oldest, err := k.After(t.Context(), "t", 0)
	require.NoError(t, err)
	require.Equal(t, "4", oldest.Doc.By, "sixty-four are kept")
	next, err := k.Put(t.Context(), "t", set("68"), last.Revision)
	require.NoError(t, err)
	require.Greater(t, next.Revision, last.Revision)
}

// TestOneWriterOfManyWins on the real store.
func TestOneWriterOfManyWins(t *testing.T) {
	t.Parallel()
	server := serve(t, t.TempDir())
	nodes := []*rules.Keeper{start(t, server, rules.Config{}), start(t, server, rules.Config{})}
	var all sync.WaitGroup
	won := make(chan string, 100)
	for i := range 100 {
		all.Go(func() {
			by := strconv.Itoa(i)
			_, err := nodes[i%2].Put(t.Context(), "t", set(by, "r"), 0)
			if err == nil {
				won <- by
			} else if !errors.Is(err, fault.ErrFenced) {
				t.Error(err)
			}
		})
	}
	all.Wait()
	require.Len(t, won, 1)
	by := <-won
	for _, k := range nodes {
		s, err := k.Newest(t.Context(), "t")
		require.NoError(t, err)
		require.Equal(t, by, s.Doc.By)
	}
}
