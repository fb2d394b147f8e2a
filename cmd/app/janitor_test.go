package app

import (
	"context"
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/internal/broker"
	"weir/internal/broker/embedded"
	"weir/internal/config"
	"weir/internal/ledger"
	"weir/internal/weirtest/poll"
	"weir/processors/janitor"
	"weir/schemas"
)

// TestWhoseMessageIsLostExpires: an action whose message somebody acknowledged without doing
// anything for it, and that has no wake-up, ends by its deadline all the same.
func TestWhoseMessageIsLostExpires(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	defaults := config.Defaults().Log
	strand(t, dir, schemas.Layout{Partitions: defaults.Partitions, Lanes: defaults.Lanes}, "stranded")
	a, err := begin(t.Context(), dir, "", func(o *Options) { o.Janitor = janitor.Config{Every: 20 * time.Millisecond, Grace: time.Millisecond} })
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, a.Stop(context.WithoutCancel(t.Context()))) })
	status, body, _ := a.ask(t, http.MethodGet, "/v1/actions/stranded/events", "", "Accept", "text/event-stream") // until its end
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, body, `"outcome":"expired"`)
	poll.Until(t, func() bool { return caller{App: a}.metric(t, `weir_actions_overdue_total{kind="http"}`) != "0" })
}

// strand leaves an action on a log that no worker is told of any more.
func strand(t *testing.T, dir string, layout schemas.Layout, id string) {
	t.Helper()
	server, err := embedded.Start(embedded.Config{Dir: dir, Layout: layout})
	require.NoError(t, err)
	defer func() { require.NoError(t, server.Stop()) }()
	b, err := broker.Open(t.Context(), broker.Config{Server: server, Layout: layout})
	require.NoError(t, err)
	defer b.Close(t.Context())
	_, _, err = ledger.New(b, layout, nil).Claim(t.Context(), schemas.Action{
		ID: id, Tenant: "default", Kind: schemas.KindHTTP, Class: schemas.ClassOnce, IDSource: schemas.IDRequest, Fingerprint: "f",
		AcceptedAt: time.Now().UTC(), Deadline: time.Now().Add(50 * time.Millisecond).UTC(),
		Payload: json.RawMessage(`{"method":"POST","url":"http://127.0.0.1:1/"}`),
	})
	require.NoError(t, err)
	sub := broker.NewSubscriber(b, broker.SubscriberConfig{})
	messages, err := sub.Subscribe(t.Context(), broker.WorkTopics(0, schemas.KindHTTP)[0])
	require.NoError(t, err)
	require.True(t, (<-messages).Ack())
	require.NoError(t, sub.Close())
}
