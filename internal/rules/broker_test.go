package rules_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/internal/broker"
	"weir/internal/broker/embedded"
	"weir/internal/fault"
	"weir/internal/rules"
	"weir/schemas"
)

var layout = schemas.Layout{Partitions: 1}

// start is a keeper on a node of its own.
func start(t *testing.T, server *embedded.Server, cfg rules.Config) *rules.Keeper {
	t.Helper()
	b, err := broker.Open(t.Context(), broker.Config{Server: server, Layout: layout, AttemptTimeout: 5 * time.Second})
	require.NoError(t, err)
	t.Cleanup(func() { b.Close(context.Background()) })
	k := rules.New(b.Bucket(schemas.RuleBucket), cfg)
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
