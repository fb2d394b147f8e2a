package embedded

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"weir/schemas"
)

// watched is a server with a port, the streams that observers have to do with,
// and a TCP connection of an observer.
type watched struct {
	*Server
	own      jetstream.JetStream
	ownConn  *nats.Conn
	observer *nats.Conn
	denied   chan error
}

func watch(t *testing.T) watched {
	t.Helper()
	w := watched{Server: start(t, Config{Listen: "127.0.0.1:0"}), denied: make(chan error, 16)}
	w.ownConn, w.own = connect(t, w.Server)
	for name, subjects := range map[string]string{schemas.EvidenceStream: "weir.evidence.>", schemas.LogStream(0): "weir.log.0.>"} {
		cfg := jetstream.StreamConfig{Name: name, Subjects: []string{subjects}, AllowDirect: true}
		if name == schemas.EvidenceStream {
			cfg.RePublish = &jetstream.RePublish{Source: "weir.evidence.>", Destination: "weir.live.evidence.>"}
		}
		_, err := w.own.CreateStream(t.Context(), cfg)
		require.NoError(t, err)
	}
	_, err := w.own.Publish(t.Context(), "weir.log.0.0.t.http.id.accepted", []byte("secret"))
	require.NoError(t, err)

	c := credentials(t, w.Server)
	w.observer, err = nats.Connect(c.URL, nats.UserInfo(c.User, c.Password),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { w.denied <- err }))
	require.NoError(t, err)
	t.Cleanup(w.observer.Close)
	return w
}

func credentials(t *testing.T, s *Server) Credentials {
	t.Helper()
	path := filepath.Join(s.cfg.Dir, credentialsName)
	st, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), st.Mode().Perm())
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	var c Credentials
	require.NoError(t, json.Unmarshal(raw, &c))
	require.Equal(t, "observer", c.User)
	require.NotContains(t, string(raw), s.access.owner.Password)
	return c
}

// logged is how many messages the log holds: observers must never add one.
func (w watched) logged(t *testing.T) uint64 {
	t.Helper()
	s, err := w.own.Stream(t.Context(), schemas.LogStream(0))
	require.NoError(t, err)
	return s.CachedInfo().State.Msgs
}

func (w watched) record(t *testing.T, entry string, n int) {
	t.Helper()
	for i := range n {
		e := schemas.Evidence{Tenant: "t", Kind: schemas.EvidenceAttempt, Entry: entry, ActionID: strconv.Itoa(i)}
		_, err := w.own.Publish(t.Context(), schemas.EvidenceSubject(e), []byte(entry))
		require.NoError(t, err)
	}
}

func TestObserverConsumesEachRecordOnce(t *testing.T) {
	t.Parallel()
	w := watch(t)
	w.record(t, "github", 5)
	w.record(t, "other", 5)
	js, err := jetstream.New(w.observer)
	require.NoError(t, err)
	cfg := jetstream.ConsumerConfig{
		Durable: "audit", AckPolicy: jetstream.AckExplicitPolicy,
		FilterSubject: schemas.EvidenceFilter("t", schemas.EvidenceAttempt, "github", "", false),
	}
	c, err := js.CreateOrUpdateConsumer(t.Context(), schemas.EvidenceStream, cfg)
	require.NoError(t, err)

	seen := map[string]int{}
	read := func(want int) {
		batch, err := c.Fetch(want, jetstream.FetchMaxWait(5*time.Second))
		require.NoError(t, err)
		for m := range batch.Messages() {
			seen[m.Subject()]++
			require.Equal(t, "github", string(m.Data()))
			require.NoError(t, m.DoubleAck(t.Context()))
		}
		require.NoError(t, batch.Error())
	}
	read(3)
	// A durable is found again by its name.
	c, err = js.Consumer(t.Context(), schemas.EvidenceStream, "audit")
	require.NoError(t, err)
	read(2)
	require.Len(t, seen, 5)
	for subject, n := range seen {
		require.Equal(t, 1, n, subject)
	}
	info, err := c.Info(t.Context())
	require.NoError(t, err)
	require.Zero(t, info.NumPending)
	require.Zero(t, info.NumAckPending)
}

func TestObserverConsumesContinuously(t *testing.T) {
	t.Parallel()
	w := watch(t)
	js, err := jetstream.New(w.observer)
	require.NoError(t, err)
	c, err := js.CreateOrUpdateConsumer(t.Context(), schemas.EvidenceStream,
		jetstream.ConsumerConfig{Durable: "tail", AckPolicy: jetstream.AckExplicitPolicy})
	require.NoError(t, err)
	got := make(chan string, 64)
	cc, err := c.Consume(func(m jetstream.Msg) {
		got <- m.Subject()
		_ = m.Ack()
	})
	require.NoError(t, err)
	defer cc.Stop()
	for range 3 { // several pulls' worth of a stream that is still growing
		w.record(t, "e", 10)
		for range 10 {
			<-got
		}
	}
}

func TestObserverFollowsLive(t *testing.T) {
	t.Parallel()
	w := watch(t)
	stored, err := w.observer.SubscribeSync("weir.evidence.>")
	require.NoError(t, err)
	live, err := w.observer.SubscribeSync("weir.live.evidence.>")
	require.NoError(t, err)
	require.NoError(t, w.observer.Flush())
	w.record(t, "e", 1)
	for _, s := range []*nats.Subscription{stored, live} {
		m, err := s.NextMsg(5 * time.Second)
		require.NoError(t, err)
		require.Equal(t, "e", string(m.Data))
	}
}

// TestObserverHearsStates of tasks as they are told, and nobody else's messages.
func TestObserverHearsStates(t *testing.T) {
	t.Parallel()
	w := watch(t)
	all, err := w.observer.SubscribeSync(schemas.StatusRoot + ".>")
	require.NoError(t, err)
	ref := schemas.Ref{Tenant: "acme.inc", Kind: schemas.KindTask, ID: "a"}
	one, err := w.observer.SubscribeSync(schemas.StatusSubject(ref))
	require.NoError(t, err)
	require.NoError(t, w.observer.Flush())
	require.NoError(t, w.ownConn.Publish("weir.cancel.acme%2Einc.task.a", nil))
	other := ref
	other.ID = "b"
	require.NoError(t, w.ownConn.Publish(schemas.StatusSubject(other), []byte("Queued")))
	require.NoError(t, w.ownConn.Publish(schemas.StatusSubject(ref), []byte("Running")))
	for _, want := range []struct {
		s             *nats.Subscription
		subject, data string
	}{
		{all, "weir.status.acme%2Einc.task.b", "Queued"}, {all, "weir.status.acme%2Einc.task.a", "Running"}, {one, "weir.status.acme%2Einc.task.a", "Running"},
	} {
		m, err := want.s.NextMsg(5 * time.Second)
		require.NoError(t, err)
		require.Equal(t, want.subject, m.Subject)
		require.Equal(t, want.data, string(m.Data))
	}
	require.Empty(t, w.denied)
}

func TestObserverIsDeniedTheRest(t *testing.T) {
	t.Parallel()
	w := watch(t)
	w.record(t, "e", 1)
	for _, subject := range []string{
		"weir.log.0.0.t.http.id.event", "weir.evidence.t.k.e.id", "weir.cancel.t", "weir.sched.0.x", "anything",
		"weir.status.t.task.id", "$KV.WEIR_REPOS.t.r", "$KV.WEIR_LEASES.t.id", "$JS.API.DIRECT.GET.KV_WEIR_REPOS",
		"$JS.API.STREAM.INFO.WEIR_LOG_0", "$JS.API.STREAM.MSG.GET.WEIR_LOG_0", "$JS.API.DIRECT.GET.WEIR_LOG_0",
		"$JS.API.STREAM.DELETE.WEIR_EVIDENCE", "$JS.API.STREAM.PURGE.WEIR_EVIDENCE", "$JS.API.STREAM.MSG.DELETE.WEIR_EVIDENCE",
		"$JS.API.STREAM.UPDATE.WEIR_EVIDENCE", "$JS.API.STREAM.CREATE.X", "$JS.API.STREAM.NAMES", "$JS.API.INFO",
		"$JS.API.CONSUMER.CREATE.WEIR_LOG_0.x", "$JS.API.CONSUMER.MSG.NEXT.WEIR_LOG_0.http",
		"$JS.API.CONSUMER.DELETE.WEIR_LOG_0.http", "$JS.ACK.WEIR_LOG_0.http.1.1.1.1.0", "$SYS.REQ.SERVER.PING",
	} {
		require.NoError(t, w.observer.Publish(subject, []byte("{}")))
		require.NoError(t, w.observer.Flush())
		require.ErrorIs(t, <-w.denied, nats.ErrPermissionViolation, subject)
	}
	for _, subject := range []string{">", "weir.>", "weir.log.>", "weir.live.>", "weir.cancel.>", "$KV.>", "_WEIR.>", "$JS.>", "$SYS.>", "*.log.>"} {
		_, err := w.observer.SubscribeSync(subject)
		require.NoError(t, err)
		require.NoError(t, w.observer.Flush())
		require.ErrorIs(t, <-w.denied, nats.ErrPermissionViolation, subject)
	}
	require.EqualValues(t, 1, w.logged(t))
}

// The server answers to whatever subject a request names, with its own rights.
func TestObserverCannotWriteThroughReplies(t *testing.T) {
	t.Parallel()
	w := watch(t)
	w.record(t, "e", 3)
	js, err := jetstream.New(w.observer)
	require.NoError(t, err)
	_, err = js.CreateOrUpdateConsumer(t.Context(), schemas.EvidenceStream,
		jetstream.ConsumerConfig{Durable: "c", AckPolicy: jetstream.AckExplicitPolicy})
	require.NoError(t, err)
	target := "weir.log.0.0.t.http.forged.accepted"
	for subject, body := range map[string]string{
		apiStreamInfo: "", "$JS.API.CONSUMER.INFO.WEIR_EVIDENCE.c": "", "$JS.API.CONSUMER.MSG.NEXT.WEIR_EVIDENCE.c": `{"batch":2}`,
		"$JS.API.CONSUMER.CREATE.WEIR_EVIDENCE.d": `{"stream_name":"WEIR_EVIDENCE","config":{"durable_name":"d"}}`,
		"$JS.API.CONSUMER.CREATE.WEIR_EVIDENCE.e": `{`,
	} {
		require.NoError(t, w.observer.PublishRequest(subject, target, []byte(body)))
	}
	// Something that is answered later proves that those were answered before.
	_, err = js.CreateOrUpdateConsumer(t.Context(), schemas.EvidenceStream, jetstream.ConsumerConfig{Durable: "after"})
	require.NoError(t, err)
	require.NoError(t, w.ownConn.Flush())
	require.EqualValues(t, 1, w.logged(t))
}

func TestObserverHasPullConsumersOnEvidenceOnly(t *testing.T) {
	t.Parallel()
	w := watch(t)
	w.record(t, "e", 3)
	ask := func(subject, body string) string {
		m, err := w.observer.Request(subject, []byte(body), 5*time.Second)
		require.NoError(t, err)
		return string(m.Data)
	}
	const create = "$JS.API.CONSUMER.CREATE.WEIR_EVIDENCE.x"
	for name, body := range map[string]string{
		"push":             `{"stream_name":"WEIR_EVIDENCE","config":{"durable_name":"x","deliver_subject":"weir.log.0.0.t.http.x.accepted"}}`,
		"push, other case": `{"stream_name":"WEIR_EVIDENCE","config":{"durable_name":"x","Deliver_Subject":"weir.log.0.0.t.http.x.accepted"}}`,
		"push, twice":      `{"stream_name":"WEIR_EVIDENCE","config":{"durable_name":"x","deliver_subject":""},"config":{"deliver_subject":"weir.log.0.0.a.b.c.d"}}`,
		"another stream":   `{"stream_name":"WEIR_LOG_0","config":{"durable_name":"x"}}`,
		"foreign filter":   `{"stream_name":"WEIR_EVIDENCE","config":{"durable_name":"x","filter_subject":"weir.log.>"}}`,
		"not json":         `x`,
	} {
		require.Contains(t, ask(create, body), `"error"`, name)
	}
	require.Contains(t, ask(create, `{"stream_name":"WEIR_EVIDENCE","config":{"durable_name":"x","name":"x"}}`), `"created"`)
	require.Contains(t, ask(apiEphemeralCreate, `{"stream_name":"WEIR_EVIDENCE","config":{}}`), `"created"`)
	require.EqualValues(t, 1, w.logged(t))
}

// TestObserverConsumersAreBounded: observers have so many consumers and no more, with little metadata, can remove them
// again, and one that is not used goes by itself.
func TestObserverConsumersAreBounded(t *testing.T) {
	t.Parallel()
	w := watch(t)
	js, err := jetstream.New(w.observer)
	require.NoError(t, err)
	create := func(name, metadata string) error {
		cfg := jetstream.ConsumerConfig{Durable: name}
		if metadata != "" {
			cfg.Metadata = map[string]string{"m": metadata}
		}
		_, err := js.CreateOrUpdateConsumer(t.Context(), schemas.EvidenceStream, cfg)
		return err
	}
	for i := range mostConsumers {
		require.NoError(t, create("c"+strconv.Itoa(i), ""))
	}
	require.ErrorContains(t, create("more", ""), "observers have 32 consumers and may have 32")
	require.NoError(t, create("c0", strings.Repeat("x", 1000)), "one that is there may be changed")
	require.ErrorContains(t, create("c0", strings.Repeat("x", 2000)), "the metadata has 2008 bytes and may have 1024")
	require.NoError(t, js.DeleteConsumer(t.Context(), schemas.EvidenceStream, "c1"))
	require.NoError(t, create("more", ""))
	c, err := js.Consumer(t.Context(), schemas.EvidenceStream, "more")
	require.NoError(t, err)
	require.Equal(t, consumerForgotten, c.CachedInfo().Config.InactiveThreshold)
}

func TestNobodyEntersWithoutAPassword(t *testing.T) {
	t.Parallel()
	w := watch(t)
	for _, o := range [][]nats.Option{nil, {nats.UserInfo("weir", "")}, {nats.UserInfo("observer", "x")}} {
		_, err := nats.Connect("nats://"+w.Addr(), o...)
		require.ErrorIs(t, err, nats.ErrAuthorization)
	}
}

func TestObserverPasswordSurvivesARestart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := start(t, Config{Dir: dir, Listen: "127.0.0.1:0"})
	before := credentials(t, s)
	require.NoError(t, s.Stop())
	s = start(t, Config{Dir: dir, Listen: "127.0.0.1:0"})
	require.Equal(t, before.Password, credentials(t, s).Password)
	require.NoError(t, s.Stop())

	require.NoError(t, os.WriteFile(filepath.Join(dir, credentialsName), []byte("{"), 0o600))
	_, err := Start(Config{Dir: dir, Layout: layout, Listen: "127.0.0.1:0"})
	require.ErrorIs(t, err, ErrDataDir)
	require.ErrorContains(t, err, "delete it for a new password")
}
