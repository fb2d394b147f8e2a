package embedded_test

import (
	"context"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"weir/internal/broker"
	"weir/internal/broker/embedded"
	"weir/internal/weirtest/cluster"
	"weir/schemas"
)

// outside is a node with a port, and what came to the agent API.
type outside struct {
	*broker.Broker
	server *embedded.Server
	dir    string
	asked  chan string // subjects
}

func (o *outside) dial(t *testing.T, file string) (nc *nats.Conn, denied chan error) {
	t.Helper()
	st := must(os.Stat(file))(t)
	require.Equal(t, os.FileMode(0o600), st.Mode().Perm())
	raw := must(os.ReadFile(file))(t)
	var c embedded.Credentials
	require.NoError(t, json.Unmarshal(raw, &c))
	denied = make(chan error, 64)
	nc, err := nats.Connect(c.URL, nats.UserInfo(c.User, c.Password),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { denied <- err }))
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	return nc, denied
}

func expose(t *testing.T) *outside {
	t.Helper()
	o := &outside{dir: t.TempDir(), asked: make(chan string, 64)}
	o.server = must(embedded.Start(embedded.Config{Dir: o.dir, Layout: layout, Listen: "127.0.0.1:0", Durability: schemas.DurabilityProcess}))(t)
	t.Cleanup(func() { require.NoError(t, o.server.Stop()) })
	o.Broker = must(broker.Open(t.Context(), broker.Config{Server: o.server, Layout: layout, AttemptTimeout: 5 * time.Second}))(t)
	t.Cleanup(func() { o.Close(context.Background()) })
	t.Cleanup(must(o.Serve(schemas.AgentAPIRoot+".*", "q", func(_ context.Context, subject string, data []byte) []byte {
		o.asked <- subject
		return append([]byte("answer to "), data...)
	}))(t))
	return o
}

// held is how many messages lie in a stream.
func (o *outside) held(t *testing.T, stream string) uint64 {
	t.Helper()
	first, last, err := o.Bounds(t.Context(), stream)
	require.NoError(t, err)
	if last == 0 {
		return 0
	}
	return last + 1 - first
}

// TestAgentAsks the agent API, which no observer can, nor hear who does.
func TestAgentAsks(t *testing.T) {
	t.Parallel()
	o := expose(t)
	nc, denied := o.dial(t, embedded.AgentCredentialsFile(o.dir))
	observer, refused := o.dial(t, embedded.CredentialsFile(o.dir))
	heard := make(chan *nats.Msg, 64)
	must(observer.ChanSubscribe("_INBOX.>", heard))(t)
	cluster.Denies(t, observer, refused, []string{schemas.AgentAPISubject(schemas.Operator)}, []string{"weir.rpc.>"})
	for range 2 { // the way back is open for each
		m := must(nc.Request(schemas.AgentAPISubject(schemas.Operator), []byte("ping"), 5*time.Second))(t)
		require.Equal(t, "answer to ping", string(m.Data))
		require.Equal(t, "weir.rpc.agent-api.default", <-o.asked)
	}
	require.Empty(t, denied)
	// It could receive the answers to another tenant's agents, so it serves one tenant.
	cluster.Denies(t, nc, denied, []string{schemas.AgentAPISubject("acme.inc"), schemas.AgentAPISubject(schemas.Operator) + ".more"}, nil)
	require.NoError(t, observer.Flush())
	require.Empty(t, heard)
	require.Empty(t, o.asked)
}

// TestAgentIsDeniedTheRest: it reads no evidence, no log and no bucket, writes none, and has no
// API.
func TestAgentIsDeniedTheRest(t *testing.T) {
	t.Parallel()
	o := expose(t)
	nc, denied := o.dial(t, embedded.AgentCredentialsFile(o.dir))
	cluster.Denies(t, nc, denied, []string{
		"weir.log.0.accepted.t.rule.id", "weir.evidence.t.k.e.id", "weir.cancel.t.http.x", "weir.sched.0.x", "weir.rpc", "weir.rpc.other.t", "anything",
		"weir.live.rules.t", "_INBOX.x", "_WEIR.x", "_R_.x",
		"weir.status.t.task.id", "$KV.WEIR_REPOS.t.r", "$KV.WEIR_LEASES.t.id", "$KV.WEIR_RULES.t", "$KV.WEIR_TOKENS.t", "$KV.WEIR_KEYS.evidence",
		"$JS.API.INFO", "$JS.API.STREAM.NAMES", "$JS.API.STREAM.CREATE.X", "$JS.API.STREAM.INFO.WEIR_EVIDENCE",
		"$JS.API.STREAM.MSG.GET.KV_WEIR_RULES", "$JS.API.DIRECT.GET.WEIR_EVIDENCE", "$JS.API.STREAM.PURGE.KV_WEIR_RULES",
		"$JS.API.CONSUMER.CREATE.WEIR_EVIDENCE.x", "$JS.API.CONSUMER.MSG.NEXT.WEIR_EVIDENCE.x", "$JS.ACK.WEIR_EVIDENCE.x.1.1.1.1.0",
		"$SYS.REQ.SERVER.PING", "$SYS.REQ.USER.INFO",
	}, []string{
		">", "weir.>", "weir.evidence.>", "weir.live.evidence.>", "weir.live.>", "weir.log.>", "weir.status.>", "$KV.>", "$JS.>", "$SYS.>", "_WEIR.>", "_R_.>", "*.>",
		"weir.rpc.agent-api.>", // else it could answer in Weir's place
	})
	must(o.Bucket(schemas.RuleBucket).Put(t.Context(), "t", []byte("rules"), 0))(t)
	require.NoError(t, o.Notify("weir.status.t.task.id", []byte("Running")))
	must(nc.Request(schemas.AgentAPISubject(schemas.Operator), nil, 5*time.Second))(t)
	require.EqualValues(t, 1, o.held(t, "KV_"+schemas.RuleBucket))
	for _, stream := range []string{schemas.LogStream(0), schemas.EvidenceStream, "KV_" + schemas.TokenBucket} {
		require.Zero(t, o.held(t, stream), stream)
	}
}

// TestAgentCannotWriteThroughReplies: answers go to subjects that it names.
func TestAgentCannotWriteThroughReplies(t *testing.T) {
	t.Parallel()
	o := expose(t)
	observer, _ := o.dial(t, embedded.CredentialsFile(o.dir))
	js := must(jetstream.New(observer))(t)
	must(o.Append(t.Context(), schemas.Append{Subject: "weir.evidence.t.k.e.id", Data: []byte("e")}))(t)
	c, err := js.CreateOrUpdateConsumer(t.Context(), schemas.EvidenceStream,
		jetstream.ConsumerConfig{Durable: "audit", AckPolicy: jetstream.AckExplicitPolicy})
	require.NoError(t, err)
	m := must(c.Next())(t)
	ack := m.Reply()
	require.True(t, strings.HasPrefix(ack, "$JS.ACK.WEIR_EVIDENCE.audit."))

	heard := make(chan *nats.Msg, 64)
	must(observer.ChanSubscribe("_INBOX.>", heard))(t)
	require.NoError(t, observer.Flush())
	agent, denied := o.dial(t, embedded.AgentCredentialsFile(o.dir))
	require.NoError(t, agent.PublishRequest(schemas.AgentAPISubject(schemas.Operator), ack, nil))
	require.NoError(t, agent.Flush())
	require.ErrorIs(t, <-denied, nats.ErrPermissionViolation)
	targets := []string{
		"weir.log.0.accepted.t.http.forged", "weir.evidence.t.k.e.forged", "$KV.WEIR_RULES.t", "$KV.WEIR_TOKENS.x", "weir.cancel.t.http.x",
		"$JS.API.STREAM.PURGE.KV_WEIR_RULES", "$JS.API.CONSUMER.CREATE.WEIR_EVIDENCE.forged", "$JS.API.STREAM.CREATE.MINE", "_INBOX.observer",
		schemas.AgentAPISubject(schemas.Operator), // a circle
	}
	for _, to := range targets {
		require.NoError(t, agent.PublishRequest(schemas.AgentAPISubject(schemas.Operator), to, []byte(`{"durable_name":"forged"}`)))
		<-o.asked
	}
	last, err := agent.Request(schemas.AgentAPISubject(schemas.Operator), []byte("last"), 5*time.Second)
	require.NoError(t, err, "what was answered before has arrived wherever it goes")
	require.Equal(t, "answer to last", string(last.Data))
	<-o.asked
	require.Empty(t, denied)
	require.NoError(t, o.Ready(t.Context()))
	require.NoError(t, observer.Flush())
	require.Empty(t, heard, "nothing is sent to observers")

	_, err = js.Consumer(t.Context(), schemas.EvidenceStream, "forged")
	require.ErrorIs(t, err, jetstream.ErrConsumerNotFound)
	info := must(c.Info(t.Context()))(t)
	require.Equal(t, 1, info.NumAckPending, "nor acknowledged in their place")
	require.Empty(t, o.asked, "an answer is no request")
	require.EqualValues(t, 1, o.held(t, schemas.EvidenceStream))
	for _, stream := range []string{schemas.LogStream(0), "KV_" + schemas.RuleBucket, "KV_" + schemas.TokenBucket} {
		require.Zero(t, o.held(t, stream), stream)
	}
}

// TestPasswordsSurviveARestart: who deletes a file gets a new one, and what cannot be read is told.
func TestPasswordsSurviveARestart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cfg := embedded.Config{Dir: dir, Layout: layout, Listen: "127.0.0.1:0"}
	files := map[string]string{"agent": embedded.AgentCredentialsFile(dir), "observer": embedded.CredentialsFile(dir)}
	read := func() map[string]string {
		s := must(embedded.Start(cfg))(t)
		all := map[string]string{}
		for user, file := range files {
			raw := must(os.ReadFile(file))(t)
			var c embedded.Credentials
			require.NoError(t, json.Unmarshal(raw, &c))
			require.Equal(t, user, c.User)
			all[user] = c.Password
		}
		require.NoError(t, s.Stop())
		return all
	}
	before := read()
	require.NotEqual(t, before["observer"], before["agent"])
	require.Equal(t, before, read())
	require.NoError(t, os.Remove(files["agent"]))
	fresh := read()
	require.NotEqual(t, before["agent"], fresh["agent"])
	require.Equal(t, before["observer"], fresh["observer"])
	for user, text := range map[string]string{"agent": `{"user":"observer","password":"x"}`, "observer": "{"} {
		good := must(os.ReadFile(files[user]))(t)
		require.NoError(t, os.WriteFile(files[user], []byte(text), 0o600))
		_, err := embedded.Start(cfg)
		require.ErrorIs(t, err, embedded.ErrDataDir)
		require.ErrorContains(t, err, "delete it for a new password")
		require.NoError(t, os.WriteFile(files[user], good, 0o600))
	}
}
