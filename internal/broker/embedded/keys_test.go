package embedded_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"weir/internal/broker"
	"weir/internal/broker/embedded"
	"weir/schemas"
)

// replicatedKey: nodes that start at once, each on a replica of its own, have one key.
func replicatedKey(t *testing.T, nodes []*server.Server) {
	t.Helper()
	keys, errs := make([]string, len(nodes)), make([]error, len(nodes))
	brokers := make([]*broker.Broker, len(nodes))
	for i, s := range nodes {
		brokers[i] = dial(t, s.ClientURL(), 3)
	}
	var all sync.WaitGroup
	for i, b := range brokers {
		all.Go(func() {
			key, err := b.SealKey(t.Context())
			keys[i], errs[i] = string(key), err
		})
	}
	all.Wait()
	require.NoError(t, errors.Join(errs...))
	require.Len(t, keys[0], broker.SealKeyLen)
	for _, key := range keys {
		require.Equal(t, keys[0], key)
	}
}

// TestObserverCannotReadTheKey by any of the ways in which a client of the server
// reads a value, nor hear of it when it is made.
func TestObserverCannotReadTheKey(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	server, err := embedded.Start(embedded.Config{Dir: dir, Layout: layout, Listen: "127.0.0.1:0", Durability: schemas.DurabilityProcess})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Stop()) })
	b, err := broker.Open(t.Context(), broker.Config{Server: server, Layout: layout, AttemptTimeout: 5 * time.Second})
	require.NoError(t, err)
	t.Cleanup(func() { b.Close(context.Background()) })

	raw, err := os.ReadFile(embedded.CredentialsFile(dir))
	require.NoError(t, err)
	var c embedded.Credentials
	require.NoError(t, json.Unmarshal(raw, &c))
	denied, heard := make(chan error, 16), make(chan *nats.Msg, 16)
	nc, err := nats.Connect(c.URL, nats.UserInfo(c.User, c.Password),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { denied <- err }))
	require.NoError(t, err)
	t.Cleanup(nc.Close)

	const stream, subject = "KV_" + schemas.KeyBucket, "$KV." + schemas.KeyBucket + ".evidence"
	for _, to := range []string{"$KV.>", subject, "$JS.>", ">"} {
		_, err := nc.ChanSubscribe(to, heard)
		require.NoError(t, err)
		require.NoError(t, nc.Flush())
		require.ErrorIs(t, <-denied, nats.ErrPermissionViolation, to)
	}
	key, err := b.SealKey(t.Context())
	require.NoError(t, err)
	for _, to := range []string{
		"$JS.API.STREAM.MSG.GET." + stream, "$JS.API.DIRECT.GET." + stream, "$JS.API.DIRECT.GET." + stream + "." + subject,
		"$JS.API.STREAM.INFO." + stream, "$JS.API.CONSUMER.CREATE." + stream, "$JS.API.CONSUMER.CREATE." + stream + ".x",
		"$JS.API.STREAM.CREATE.mine", "$JS.API.STREAM.PURGE." + stream, "$JS.API.STREAM.DELETE." + stream, subject,
	} {
		_, err := nc.Request(to, []byte(`{"last_by_subj":"`+subject+`"}`), 100*time.Millisecond)
		require.Error(t, err, to)
		require.ErrorIs(t, <-denied, nats.ErrPermissionViolation, to)
	}
	// Through what they may ask for: a consumer of the evidence that would bring it.
	for _, config := range []string{`{"filter_subject":"` + subject + `"}`, `{"filter_subject":">"}`, `{"filter_subjects":["$KV.>"]}`} {
		m, err := nc.Request("$JS.API.CONSUMER.CREATE."+schemas.EvidenceStream, []byte(`{"stream_name":"`+stream+`","config":`+config+`}`), 5*time.Second)
		require.NoError(t, err)
		require.Contains(t, string(m.Data), `"error"`)
	}
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	consumer, err := js.CreateOrUpdateConsumer(t.Context(), schemas.EvidenceStream, jetstream.ConsumerConfig{Durable: "audit"})
	require.NoError(t, err)
	info, err := consumer.Info(t.Context())
	require.NoError(t, err)
	require.Zero(t, info.NumPending, "nothing of it lies among the evidence")
	require.Empty(t, heard)
	again, err := b.SealKey(t.Context())
	require.NoError(t, err)
	require.Equal(t, key, again, "and nobody has replaced it")
}
