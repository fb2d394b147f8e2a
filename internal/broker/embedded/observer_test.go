package embedded_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"weir/internal/broker/embedded"
	"weir/internal/weirtest/cluster"
	"weir/schemas"
)

// watched is a node with a port, a connection of its own, and one of an observer.
type watched struct {
	*outside
	ownConn  *nats.Conn
	observer *nats.Conn
	denied   chan error
}

func watch(t *testing.T) watched {
	t.Helper()
	w := watched{outside: expose(t)}
	w.ownConn = must(w.server.Connect())(t)
	t.Cleanup(w.ownConn.Close)
	must(w.Append(t.Context(), schemas.Append{Subject: "weir.log.0.accepted.t.http.id", Data: []byte("secret")}))(t)
	w.observer, w.denied = w.dial(t, embedded.CredentialsFile(w.dir))
	return w
}

// logged is how many messages the log holds: observers must never add one.
func (w watched) logged(t *testing.T) uint64 {
	t.Helper()
	return w.held(t, schemas.LogStream(0))
}

func (w watched) record(t *testing.T, entry string, n int) {
	t.Helper()
	for i := range n {
		e := schemas.Evidence{Tenant: "t", Kind: schemas.EvidenceAttempt, Entry: entry, ActionID: strconv.Itoa(i)}
		must(w.Append(t.Context(), schemas.Append{Subject: schemas.EvidenceSubject(e), Data: []byte(entry)}))(t)
	}
}

// TestObserverHears evidence as it is stored, and states of tasks as they are told, and nobody
// else's messages.
func TestObserverHears(t *testing.T) {
	t.Parallel()
	w := watch(t)
	hear := func(subject string) *nats.Subscription {
		s := must(w.observer.SubscribeSync(subject))(t)
		return s
	}
	ref := schemas.Ref{Tenant: "acme.inc", Kind: schemas.KindTask, ID: "a"}
	other := ref
	other.ID = "b"
	stored, live, all, one := hear("weir.evidence.>"), hear("weir.live.evidence.>"), hear(schemas.StatusRoot+".>"), hear(schemas.StatusSubject(ref))
	require.NoError(t, w.observer.Flush())
	w.record(t, "e", 1)
	require.NoError(t, w.ownConn.Publish("weir.cancel.acme%2Einc.task.a", nil))
	require.NoError(t, w.ownConn.Publish(schemas.StatusSubject(other), []byte("Queued")))
	require.NoError(t, w.ownConn.Publish(schemas.StatusSubject(ref), []byte("Running")))
	for _, want := range []struct {
		s             *nats.Subscription
		subject, data string
	}{
		{stored, "weir.evidence.t.http%2Eattempt.e.0", "e"},
		{live, "weir.live.evidence.t.http%2Eattempt.e.0", "e"},
		{all, "weir.status.acme%2Einc.task.b", "Queued"},
		{all, "weir.status.acme%2Einc.task.a", "Running"},
		{one, "weir.status.acme%2Einc.task.a", "Running"},
	} {
		m := must(want.s.NextMsg(5 * time.Second))(t)
		require.Equal(t, want.subject, m.Subject)
		require.Equal(t, want.data, string(m.Data))
	}
	require.Empty(t, w.denied)
}

// TestObserver starts one node for all that observers may not do: none of it adds to the log.
func TestObserver(t *testing.T) {
	t.Parallel()
	w := watch(t)
	w.record(t, "e", 3)
	w.isDeniedTheRest(t)
	w.cannotWriteThroughReplies(t)
	w.hasPullConsumersOnEvidenceOnly(t)
	require.EqualValues(t, 1, w.logged(t))
	for _, o := range [][]nats.Option{nil, {nats.UserInfo("weir", "")}, {nats.UserInfo("observer", "x")}} {
		_, err := nats.Connect("nats://"+w.server.Addr(), o...)
		require.ErrorIs(t, err, nats.ErrAuthorization)
	}
}

func (w watched) isDeniedTheRest(t *testing.T) {
	t.Helper()
	cluster.Denies(t, w.observer, w.denied, []string{
		"weir.log.0.event.t.http.id", "weir.evidence.t.k.e.id", "weir.cancel.t", "weir.sched.0.x", "anything",
		"weir.status.t.task.id", "$KV.WEIR_REPOS.t.r", "$KV.WEIR_LEASES.t.id", "$JS.API.DIRECT.GET.KV_WEIR_REPOS",
		"$JS.API.STREAM.INFO.WEIR_LOG_0", "$JS.API.STREAM.MSG.GET.WEIR_LOG_0", "$JS.API.DIRECT.GET.WEIR_LOG_0",
		"$JS.API.STREAM.DELETE.WEIR_EVIDENCE", "$JS.API.STREAM.PURGE.WEIR_EVIDENCE", "$JS.API.STREAM.MSG.DELETE.WEIR_EVIDENCE",
		"$JS.API.STREAM.UPDATE.WEIR_EVIDENCE", "$JS.API.STREAM.CREATE.X", "$JS.API.STREAM.NAMES",
		"$JS.API.CONSUMER.CREATE.WEIR_LOG_0.x", "$JS.API.CONSUMER.MSG.NEXT.WEIR_LOG_0.http",
		"$JS.API.CONSUMER.DELETE.WEIR_LOG_0.http", "$JS.ACK.WEIR_LOG_0.http.1.1.1.1.0", "$SYS.REQ.SERVER.PING",
		"$KV.WEIR_KEYS.evidence", "$JS.API.STREAM.MSG.GET.KV_WEIR_KEYS", "$JS.API.DIRECT.GET.KV_WEIR_KEYS.$KV.WEIR_KEYS.evidence", "$JS.API.STREAM.INFO.KV_WEIR_KEYS",
		"$JS.API.CONSUMER.CREATE.KV_WEIR_KEYS.x", "$JS.API.STREAM.PURGE.KV_WEIR_KEYS",
	}, []string{">", "weir.>", "weir.log.>", "weir.live.>", "weir.cancel.>", "$KV.>", "_WEIR.>", "$JS.>", "$SYS.>", "*.log.>"})
}

// The server answers to whatever subject a request names, with its own rights.
func (w watched) cannotWriteThroughReplies(t *testing.T) {
	t.Helper()
	js := must(jetstream.New(w.observer))(t)
	_, err := js.CreateOrUpdateConsumer(t.Context(), schemas.EvidenceStream,
		jetstream.ConsumerConfig{Durable: "c", AckPolicy: jetstream.AckExplicitPolicy})
	require.NoError(t, err)
	target := "weir.log.0.accepted.t.http.forged"
	for subject, body := range map[string]string{
		"$JS.API.INFO": "", "$JS.API.STREAM.INFO.WEIR_EVIDENCE": "", "$JS.API.CONSUMER.INFO.WEIR_EVIDENCE.c": "", "$JS.API.CONSUMER.MSG.NEXT.WEIR_EVIDENCE.c": `{"batch":2}`,
		"$JS.API.CONSUMER.CREATE.WEIR_EVIDENCE.d": `{"stream_name":"WEIR_EVIDENCE","config":{"durable_name":"d"}}`,
		"$JS.API.CONSUMER.CREATE.WEIR_EVIDENCE.e": `{`,
	} {
		require.NoError(t, w.observer.PublishRequest(subject, target, []byte(body)))
	}
	// Something that is answered later proves that those were answered before.
	must(js.CreateOrUpdateConsumer(t.Context(), schemas.EvidenceStream, jetstream.ConsumerConfig{Durable: "after"}))(t)
	require.NoError(t, w.ownConn.Flush())
}

func (w watched) hasPullConsumersOnEvidenceOnly(t *testing.T) {
	t.Helper()
	ask := func(subject, body string) string {
		m := must(w.observer.Request(subject, []byte(body), 5*time.Second))(t)
		return string(m.Data)
	}
	const create = "$JS.API.CONSUMER.CREATE.WEIR_EVIDENCE.x"
	for name, body := range map[string]string{
		"push":             `{"stream_name":"WEIR_EVIDENCE","config":{"durable_name":"x","deliver_subject":"weir.log.0.accepted.t.http.x"}}`,
		"push, other case": `{"stream_name":"WEIR_EVIDENCE","config":{"durable_name":"x","Deliver_Subject":"weir.log.0.accepted.t.http.x"}}`,
		"push, twice":      `{"stream_name":"WEIR_EVIDENCE","config":{"durable_name":"x","deliver_subject":""},"config":{"deliver_subject":"weir.log.0.a.b.c.d"}}`,
		"another stream":   `{"stream_name":"WEIR_LOG_0","config":{"durable_name":"x"}}`,
		"foreign filter":   `{"stream_name":"WEIR_EVIDENCE","config":{"durable_name":"x","filter_subject":"weir.log.>"}}`,
		"not json":         `x`,
	} {
		require.Contains(t, ask(create, body), `"error"`, name)
	}
	require.Contains(t, ask(create, `{"stream_name":"WEIR_EVIDENCE","config":{"durable_name":"x","name":"x"}}`), `"created"`)
	require.Contains(t, ask("$JS.API.CONSUMER.CREATE.WEIR_EVIDENCE", `{"stream_name":"WEIR_EVIDENCE","config":{}}`), `"created"`)
}

// TestObserverConsumersAreBounded: observers have so many consumers and no more, with little
// metadata, can remove them again, and one that is not used goes by itself.
func TestObserverConsumersAreBounded(t *testing.T) {
	t.Parallel()
	w := watch(t)
	js := must(jetstream.New(w.observer))(t)
	create := func(name, metadata string) error {
		cfg := jetstream.ConsumerConfig{Durable: name}
		if metadata != "" {
			cfg.Metadata = map[string]string{"m": metadata}
		}
		_, err := js.CreateOrUpdateConsumer(t.Context(), schemas.EvidenceStream, cfg)
		return err
	}
	for i := range 32 {
		require.NoError(t, create("c"+strconv.Itoa(i), ""))
	}
	require.ErrorContains(t, create("more", ""), "observers have 32 consumers and may have 32")
	require.NoError(t, create("c0", strings.Repeat("x", 1000)), "one that is there may be changed")
	require.ErrorContains(t, create("c0", strings.Repeat("x", 2000)), "the metadata has 2008 bytes and may have 1024")
	require.NoError(t, js.DeleteConsumer(t.Context(), schemas.EvidenceStream, "c1"))
	require.NoError(t, create("more", ""))
	c := must(js.Consumer(t.Context(), schemas.EvidenceStream, "more"))(t)
	require.Equal(t, 30*24*time.Hour, c.CachedInfo().Config.InactiveThreshold)
}
