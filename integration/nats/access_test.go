//go:build e2e

package nats_test

import (
	"context"
	"crypto/tls"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"weir/internal/broker"
	"weir/internal/broker/access"
	"weir/internal/broker/natsconf"
	"weir/internal/fault"
	"weir/internal/weirtest/cluster"
	"weir/internal/weirtest/poll"
	"weir/schemas"
)

// TestCluster starts servers once, for all that can be seen on them.
func TestCluster(t *testing.T) { //nolint:tparallel // one after the other, on the same servers
	t.Parallel()
	s := start(t, 3, "acme", "a.b")
	made := s.provision(t, "acme", "a.b")
	require.Equal(t, broker.ResourceMade, made[0].Did)
	t.Run("provisioned again", s.provisionedAgain)        //nolint:paralleltest // one after the other, on the same servers
	t.Run("roles work", s.rolesWork)                      //nolint:paralleltest // one after the other, on the same servers
	t.Run("roles are bounded", s.rolesAreBounded)         //nolint:paralleltest // one after the other, on the same servers
	t.Run("tenants are apart", s.tenantsAreApart)         //nolint:paralleltest // one after the other, on the same servers
	t.Run("only by TLS and with credentials", s.entrance) //nolint:paralleltest // one after the other, on the same servers
	t.Run("what is missing is named", s.missing)          //nolint:paralleltest // one after the other, on the same servers
	t.Run("programs", s.programs)                         //nolint:paralleltest // one after the other, on the same servers
	t.Run("the first admin", s.firstAdmin)                //nolint:paralleltest // one after the other, on the same servers
	t.Run("a tenant is removed", s.tenantIsRemoved)       //nolint:paralleltest // one after the other, on the same servers
}

// TestOneServer: a log without replicas is read by requests that not all roles may make.
func TestOneServer(t *testing.T) {
	t.Parallel()
	s := start(t, 1)
	cfg := s.config(access.Provisioner)
	cfg.Replicas = 1
	poll.Until(t, func() bool {
		_, err := broker.Provision(t.Context(), cfg, nil)
		if err != nil {
			t.Log(err)
		}
		return err == nil
	})
}

func (s *site) provisionedAgain(t *testing.T) {
	for _, r := range s.provision(t, "acme") {
		require.Equal(t, broker.ResourceKept, r.Did, "%s: %s", r.Name, r.Was)
	}
	cfg := s.config(access.Provisioner)
	cfg.History = 48 * time.Hour
	changed := map[string]string{}
	did := must(broker.Provision(t.Context(), cfg, nil))(t)
	for _, r := range did {
		if r.Did != broker.ResourceKept {
			changed[r.Name] = r.Did + ": " + r.Was
		}
	}
	want := map[string]string{
		"bucket WEIR_BLOBS":  "changed: has MaxAge 336h0m0s and not 96h0m0s",
		"bucket WEIR_LEASES": "changed: has MaxAge 168h0m0s and not 48h0m0s",
	}
	for p := range layout.Partitions {
		want["stream "+schemas.LogStream(p)] = "changed: has MaxAge 168h0m0s and not 48h0m0s"
	}
	require.Equal(t, want, changed)
	s.provision(t) // as it was
}

func ref(id string) schemas.Ref { return schemas.Ref{Tenant: "acme", Kind: schemas.KindHTTP, ID: id} }

func claim(id string) schemas.Append {
	return schemas.Append{
		Subject: layout.Subject(ref(id), schemas.SectionAccepted), Data: []byte(`"` + id + `"`),
		Guarded: true, Guard: layout.AnyKind("acme", id),
	}
}

// rolesWork: an action's whole way over three processes that may do no more than they must.
func (s *site) rolesWork(t *testing.T) {
	ctx := t.Context()
	ingress, worker, egress := s.open(t, access.Ingress), s.open(t, access.Worker), s.open(t, access.Egress)
	shown := make(chan string, 64)
	stop, err := egress.Live(schemas.LiveLog+".>", func(r schemas.Record) { shown <- r.Subject }, nil)
	require.NoError(t, err)
	defer stop()
	stopped := make(chan string, 1)
	unlisten, err := worker.Listen(schemas.CancelRoot+".>", func(subject string, _ []byte) { stopped <- subject })
	require.NoError(t, err)
	defer unlisten()

	work := broker.NewSubscriber(worker, broker.SubscriberConfig{})
	defer func() { require.NoError(t, work.Close()) }()
	topics := broker.Topics(layout.Partition("acme", "a"))
	queue := must(work.Subscribe(ctx, topics[0]))(t)
	wakes := must(work.Subscribe(ctx, topics[1]))(t)

	body := []byte(strings.Repeat("x", schemas.InlineLimit+1))
	blob := must(ingress.PutBlob(ctx, "t", body))(t)
	seq := must(ingress.Append(ctx, claim("a")))(t)
	m := <-queue
	require.JSONEq(t, `"a"`, string(m.Payload))
	all := layout.All(ref("a"))
	for range 2 {
		seq, err = worker.Append(ctx, schemas.Append{Subject: layout.Subject(ref("a"), schemas.SectionEvent), Data: []byte("x"), Guarded: true, Guard: all, Last: seq})
		require.NoError(t, err)
	}
	evidence := schemas.Evidence{Tenant: "acme", Kind: "http", Entry: "e", ActionID: "a"}
	_, err = worker.Append(ctx, schemas.Append{Subject: schemas.EvidenceSubject(evidence), Data: []byte("{}")})
	require.NoError(t, err)
	_, err = worker.Append(ctx, schemas.Append{Subject: "weir.dead.acme.http.a", Data: []byte("{}")})
	require.NoError(t, err)
	require.NoError(t, worker.Wake(ctx, ref("a"), time.Now()))
	m.Ack()
	(<-wakes).Ack()
	must(worker.PutBlob(ctx, "t", []byte("answer")))(t)
	require.NoError(t, ingress.Notify(schemas.CancelSubject(ref("a")), nil))
	require.Equal(t, schemas.CancelSubject(ref("a")), <-stopped)

	require.Equal(t, claim("a").Subject, <-shown)
	got := must(egress.GetBlob(ctx, blob))(t)
	require.Equal(t, body, got)
	last := must(egress.Newest(ctx, schemas.LogStream(layout.Partition("acme", "a")), layout.Subject(ref("a"), schemas.SectionEvent)))(t)
	require.Equal(t, seq, last.Seq)
	poll.Until(t, func() bool { // the copy that is read may be behind
		records, _, err := egress.Page(ctx, schemas.EvidenceStream, "weir.evidence.acme.>", 0, 10, 1<<20)
		return err == nil && len(records) > 0
	})
	_, _, err = egress.Bounds(ctx, schemas.DeadStream)
	require.NoError(t, err)

	changed := make(chan string, 8)
	unwatch, err := egress.Bucket(schemas.TokenBucket).Watch(func(r schemas.Record) { changed <- r.Subject }, nil)
	require.NoError(t, err)
	defer unwatch()
	_, err = ingress.Bucket(schemas.TokenBucket).Put(ctx, "id", []byte("{}"), 0)
	require.NoError(t, err)
	require.Equal(t, "id", <-changed)
	_, err = worker.Bucket(schemas.RuleBucket).Put(ctx, "acme", []byte("{}"), 0)
	require.NoError(t, err)
	must(ingress.Bucket(schemas.LeaseBucket).Set(ctx, "k", []byte("1")))(t)
	key := must(worker.SealKey(ctx))(t)
	require.Len(t, key, broker.SealKeyLen)
}

// rolesAreBounded: what a role may not do is refused at once, by name, and nothing is stored.
func (s *site) rolesAreBounded(t *testing.T) {
	ctx := t.Context()
	roles := map[access.Role]*broker.Broker{}
	for _, r := range []access.Role{access.Ingress, access.Worker, access.Egress} {
		roles[r] = s.open(t, r)
	}
	bounds := func() (n uint64) {
		for p := range layout.Partitions {
			_, last, err := roles[access.Egress].Bounds(ctx, schemas.LogStream(p))
			require.NoError(t, err)
			n += last
		}
		_, last, err := roles[access.Egress].Bounds(ctx, schemas.EvidenceStream)
		require.NoError(t, err)
		return n + last
	}
	before := bounds()
	log := func(s schemas.Section) string { return layout.Subject(ref("forged"), s) }
	for r, subjects := range map[access.Role][]string{
		access.Ingress: {log(schemas.SectionEvent), log(schemas.SectionOverflow), "weir.evidence.acme.http.e.a", "weir.dead.acme.http.a", layout.Schedule(ref("forged")), "$KV.WEIR_RULES.acme", "$KV.WEIR_KEYS.evidence"},
		access.Worker:  {log(schemas.SectionAccepted), "$KV.WEIR_TOKENS.id", "$KV.WEIR_KEYS.evidence"},
		access.Egress: {
			log(schemas.SectionAccepted), log(schemas.SectionEvent), log(schemas.SectionWake), layout.Schedule(ref("forged")),
			"weir.evidence.acme.http.e.a", "$KV.WEIR_TOKENS.id", "$KV.WEIR_RULES.acme", "$O.WEIR_BLOBS.C.x",
		},
	} {
		for _, subject := range subjects {
			begun := time.Now()
			_, err := roles[r].Append(ctx, schemas.Append{Subject: subject, Data: []byte("x")})
			denied, ok := errors.AsType[*broker.DeniedError](err)
			require.True(t, ok, "%s to %s: %v", r, subject, err)
			require.ErrorIs(t, err, fault.ErrUnavailable)
			require.Equal(t, r, denied.Role)
			require.NotContains(t, denied.Error(), "forged")
			require.Less(t, time.Since(begun), 15*time.Second, "the caller does not wait for an answer that cannot come")
		}
	}
	require.Equal(t, before, bounds())

	for _, r := range []access.Role{access.Ingress, access.Worker, access.Egress, access.Provisioner} {
		nc, denied := s.dial(t, natsconf.CredentialsFile(s.dir, string(r)), nats.CustomInboxPrefix(r.Inbox()))
		cluster.Denies(t, nc, denied, []string{
			"$JS.API.STREAM.DELETE.WEIR_LOG_0", "$JS.API.STREAM.PURGE.WEIR_LOG_0", "$JS.API.STREAM.MSG.DELETE.WEIR_LOG_0", "$JS.API.STREAM.PURGE.WEIR_EVIDENCE",
			"$JS.API.STREAM.CREATE.OTHER", "$JS.API.STREAM.SNAPSHOT.WEIR_LOG_0", "$JS.API.CONSUMER.DELETE.WEIR_LOG_0.http", "$JS.API.STREAM.NAMES",
			"$JS.API.CONSUMER.MSG.NEXT.WEIR_EVIDENCE." + access.ObserverQueue("acme"), "$SYS.REQ.SERVER.PING", "anything", "_INBOX.serve.x",
		}, []string{">", "_INBOX.>", "_INBOX.serve.>", "weir.log.>", "weir.evidence.>", "$KV.>", "$JS.>", "$SYS.>"})
	}
}

// tenantsAreApart: an observer sees the evidence of its tenant, and an agent asks in the
// name of its own.
func (s *site) tenantsAreApart(t *testing.T) {
	ctx := t.Context()
	worker, ingress := s.open(t, access.Worker), s.open(t, access.Ingress)
	stop, err := ingress.Serve(schemas.AgentAPIRoot+".*", "q", func(_ context.Context, subject string, data []byte) []byte {
		return append([]byte(subject+" "), data...)
	})
	require.NoError(t, err)
	defer stop()

	acme, deniedAcme := s.dial(t, natsconf.ObserverFile(s.dir, "acme"))
	other, deniedOther := s.dial(t, natsconf.ObserverFile(s.dir, "a.b"))
	live := must(acme.SubscribeSync("weir.live.evidence.acme.>"))(t)
	states := must(acme.SubscribeSync("weir.status.acme.>"))(t)
	require.NoError(t, acme.Flush())
	for _, tenant := range []string{"a.b", "acme"} {
		record := schemas.Evidence{Tenant: tenant, Kind: "http", Entry: "e", ActionID: "of " + tenant}
		_, err := worker.Append(ctx, schemas.Append{Subject: schemas.EvidenceSubject(record), Data: []byte(tenant)})
		require.NoError(t, err)
		require.NoError(t, worker.Notify(schemas.StatusSubject(schemas.Ref{Tenant: tenant, Kind: schemas.KindTask, ID: "t"}), []byte(tenant)))
	}
	for _, sub := range []*nats.Subscription{live, states} {
		m := must(sub.NextMsg(10 * time.Second))(t)
		require.Equal(t, "acme", string(m.Data), "what came first was another tenant's")
	}

	// What is stored, through the place that was made for each.
	for _, o := range []struct {
		nc     *nats.Conn
		tenant string
	}{{acme, "acme"}, {other, "a.b"}} {
		js := must(jetstream.New(o.nc))(t)
		_, err = js.AccountInfo(ctx) // which other clients request before all else
		require.NoError(t, err)
		c := must(js.Consumer(ctx, schemas.EvidenceStream, access.ObserverQueue(o.tenant)))(t)
		for last := ""; last != o.tenant; { // what was stored just now may come to the queue's leader later
			m := must(c.Next(jetstream.FetchMaxWait(10 * time.Second)))(t)
			require.True(t, strings.HasPrefix(m.Subject(), "weir.evidence."+schemas.EscapeToken(o.tenant)+"."), m.Subject())
			require.NoError(t, m.DoubleAck(ctx))
			last = string(m.Data())
		}
		poll.Until(t, func() bool {
			info, err := c.Info(ctx)
			return err == nil && info.NumPending == 0 && info.NumAckPending == 0
		})
	}
	require.Empty(t, deniedAcme)
	require.Empty(t, deniedOther)

	cluster.Denies(t, acme, deniedAcme, []string{
		"$JS.API.CONSUMER.MSG.NEXT.WEIR_EVIDENCE." + access.ObserverQueue("a.b"), "$JS.API.CONSUMER.INFO.WEIR_EVIDENCE." + access.ObserverQueue("a.b"),
		"$JS.API.CONSUMER.CREATE.WEIR_EVIDENCE.mine", "$JS.API.STREAM.INFO.WEIR_EVIDENCE", "$JS.API.DIRECT.GET.WEIR_EVIDENCE", "$JS.API.STREAM.MSG.GET.WEIR_EVIDENCE",
		"$JS.ACK.WEIR_EVIDENCE." + access.ObserverQueue("a.b") + ".1.1.1.1.0", "weir.evidence.acme.http.e.a", "weir.log.0.accepted.acme.http.a",
		schemas.AgentAPISubject("acme"), "$KV.WEIR_TOKENS.id", "$SYS.REQ.SERVER.PING",
	}, []string{">", "weir.evidence.>", "weir.evidence.a%2Eb.>", "weir.live.evidence.a%2Eb.>", "weir.status.a%2Eb.>", "weir.live.>", "weir.log.>"})

	agent, denied := s.dial(t, natsconf.AgentFile(s.dir, "acme"))
	m := must(agent.Request(schemas.AgentAPISubject("acme"), []byte("ping"), 10*time.Second))(t)
	require.Equal(t, "weir.rpc.agent-api.acme ping", string(m.Data))
	require.Empty(t, denied)
	cluster.Denies(t, agent, denied, []string{schemas.AgentAPISubject("a.b"), "weir.evidence.acme.http.e.a", "$JS.API.CONSUMER.INFO.WEIR_EVIDENCE." + access.ObserverQueue("acme")}, nil)
}

// entrance: nobody comes in without TLS, by another authority, or without credentials.
func (s *site) entrance(t *testing.T) {
	creds := natsconf.CredentialsFile(s.dir, "serve")
	seed := must(nats.NkeyOptionFromSeed(creds))(t)
	ca := nats.RootCAs(natsconf.CAFile(s.dir))
	_, err := nats.Connect(s.url, seed)
	require.ErrorContains(t, err, "certificate")
	_, err = nats.Connect(s.url, ca)
	require.ErrorIs(t, err, nats.ErrAuthorization)
	_, err = nats.Connect(s.url, ca, nats.UserInfo("serve", ""))
	require.ErrorIs(t, err, nats.ErrAuthorization)
	_, err = nats.Connect(s.url, seed, ca, nats.Secure(&tls.Config{MaxVersion: tls.VersionTLS12}))
	require.Error(t, err)
	_, err = broker.Open(t.Context(), broker.Config{URL: s.url, Creds: creds, Layout: layout})
	require.ErrorContains(t, err, "certificate")
}

// missing: what is not there, and what the user of a node may not do, is named with what
// to do about it.
func (s *site) missing(t *testing.T) {
	cfg := s.config(access.Worker)
	cfg.History = 48 * time.Hour
	_, err := broker.Open(t.Context(), cfg)
	require.ErrorContains(t, err, "stream WEIR_LOG_0: it has MaxAge 168h0m0s and not 48h0m0s, and this node's NATS user may not change that: run `weir nats provision`")

	cfg = s.config(access.Ingress)
	cfg.Creds = natsconf.CredentialsFile(s.dir, "egress")
	_, err = broker.Open(t.Context(), cfg)
	require.ErrorContains(t, err, "are these the credentials of another role?")

	cfg = s.config(access.Egress)
	cfg.Layout.Partitions = 3
	_, err = broker.Open(t.Context(), cfg)
	require.ErrorContains(t, err, "may not publish to $JS.API.STREAM.INFO.WEIR_LOG_2 (to find out whether the log is there): give it what the role egress needs")
}

// tenantIsRemoved: once the servers have read their files again, the programs of a removed
// tenant are cut off and cannot come back; those of another do not notice.
func (s *site) tenantIsRemoved(t *testing.T) {
	creds := filepath.Join(t.TempDir(), "kept.nk") // as the tenant has them
	seed := must(os.ReadFile(natsconf.ObserverFile(s.dir, "acme")))(t)
	require.NoError(t, os.WriteFile(creds, seed, 0o600))
	cut := make(chan struct{})
	_, _ = s.dial(t, creds, nats.NoReconnect(), nats.ClosedHandler(func(*nats.Conn) { close(cut) }))
	other, _ := s.dial(t, natsconf.ObserverFile(s.dir, "a.b"), nats.NoReconnect())

	must(natsconf.Remove(s.dir, "acme", time.Now()))(t)
	for _, server := range s.servers {
		require.NoError(t, server.Signal(syscall.SIGHUP))
	}
	select {
	case <-cut:
	case <-time.After(time.Minute):
		require.Fail(t, "who was removed is still connected")
	}
	option := must(nats.NkeyOptionFromSeed(creds))(t)
	poll.Until(t, func() bool { // each server reads by itself
		nc, err := nats.Connect(s.url, option, nats.RootCAs(natsconf.CAFile(s.dir)), nats.NoReconnect())
		if err == nil {
			nc.Close()
		}
		return errors.Is(err, nats.ErrAuthorization)
	})
	require.NoError(t, other.Flush())
}
