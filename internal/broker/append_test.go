package broker

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"weir/internal/broker/embedded"
	"weir/internal/fault"
	"weir/internal/ledger"
	"weir/internal/weirtest/poll"
	"weir/schemas"
)

var _ ledger.Log = (*Broker)(nil)

// TestOneNode starts one node for what needs none of its own: each writes under names of its own.
func TestOneNode(t *testing.T) {
	t.Parallel()
	n := open(t, embedded.Config{Durability: schemas.DurabilityProcess}, Config{})
	for name, test := range map[string]func(*testing.T, *node){
		"claims": claimsOnce, "fences": fencesEvents, "forged headers": readsNoForgedHeaders, "fenced buckets": fencesBuckets, "forgotten keys": forgetsKeys,
		"history": keepsHistory, "topics": refusesTopics, "published once": publishesOnce,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, n)
		})
	}
}

func claimsOnce(t *testing.T, n *node) {
	t.Helper()
	first := n.put(t, claim("a", "one"))

	_, err := n.Append(t.Context(), claim("a", "two"))
	require.ErrorIs(t, err, fault.ErrFenced)
	// An id is taken in all kinds.
	other := claim("a", "three")
	other.Subject = layout.Subject(schemas.Ref{Tenant: "t", Kind: schemas.KindPlan, ID: "a"}, schemas.SectionAccepted)
	_, err = n.Append(t.Context(), other)
	require.ErrorIs(t, err, fault.ErrFenced)
	// Another id that begins with it, and the same id of another tenant, are free.
	n.put(t, claim("ab", "four"))
	n.put(t, claimOf(schemas.Ref{Tenant: "u", Kind: schemas.KindHTTP, ID: "a"}, "five"))

	got := n.records(t, schemas.LogStream(0), layout.AnyKind("t", "a"), 0, 10)
	require.Len(t, got, 1)
	require.Equal(t, first, got[0].Seq)
	require.Equal(t, "one", string(got[0].Data))
}

func fencesEvents(t *testing.T, n *node) {
	t.Helper()
	a := n.put(t, claim("fence", "accepted"))
	b := n.put(t, event("fence", "next", a))
	for _, stale := range []uint64{0, a, b + 1} {
		_, err := n.Append(t.Context(), event("fence", "late", stale))
		require.ErrorIs(t, err, fault.ErrFenced, stale)
	}
	n.put(t, event("fence", "after", b))
	n.put(t, schemas.Append{Subject: layout.Subject(ref("fence"), schemas.SectionEvent), Data: []byte("unguarded")})
}

func TestAppendTooLarge(t *testing.T) {
	t.Parallel()
	n := open(t, embedded.Config{MaxPayload: 4 << 10}, Config{})
	for _, size := range []int{4<<10 - 10, 8 << 10} { // with its headers; without
		_, err := n.Append(t.Context(), claim("a", string(bytes.Repeat([]byte("x"), size))))
		require.ErrorIs(t, err, fault.ErrTooLarge, size)
	}
	n.put(t, claim("a", "small"))
}

func TestAppendUnavailable(t *testing.T) {
	t.Parallel()
	n := open(t, embedded.Config{}, Config{})
	_, err := n.Append(t.Context(), schemas.Append{Subject: "nobody.takes.this"})
	require.ErrorIs(t, err, fault.ErrUnavailable)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = n.Append(ctx, claim("a", "x"))
	require.ErrorIs(t, err, fault.ErrUnavailable)
	require.ErrorIs(t, err, context.Canceled)
	n.put(t, claim("a", "x")) // nothing was sent

	require.NoError(t, n.Ready(t.Context()))
	require.NoError(t, n.server.Stop())
	_, err = n.Append(t.Context(), claim("b", "x"))
	require.ErrorIs(t, err, fault.ErrUnavailable)
	_, _, err = n.Page(t.Context(), schemas.LogStream(0), "weir.log.>", 0, 1, 1)
	require.ErrorIs(t, err, fault.ErrUnavailable)
	require.ErrorIs(t, n.Ready(t.Context()), fault.ErrUnavailable)

	n = open(t, embedded.Config{}, Config{})
	n.Close(t.Context())
	n.Close(t.Context())
	_, err = n.Append(t.Context(), claim("b", "x"))
	require.ErrorIs(t, err, fault.ErrUnavailable)
	require.ErrorIs(t, n.Ready(t.Context()), fault.ErrUnavailable)
}

// Whoever waits when the broker closes is told at once.
func TestCloseEndsWaits(t *testing.T) {
	t.Parallel()
	n := open(t, embedded.Config{}, Config{AttemptTimeout: time.Hour})
	silent, err := n.nc.Subscribe("silent", func(*nats.Msg) {}) // takes, and never answers
	require.NoError(t, err)
	require.NoError(t, silent.SetPendingLimits(-1, -1))
	require.NoError(t, n.flush())
	done := make(chan error, 1)
	go func() {
		_, err := n.Append(context.Background(), schemas.Append{Subject: "silent"})
		done <- err
	}()
	poll.Until(t, func() bool {
		n.acks.mu.Lock()
		defer n.acks.mu.Unlock()
		return len(n.acks.calls) == 1
	})
	n.Close(t.Context())
	require.ErrorIs(t, <-done, fault.ErrUnavailable)
	require.Empty(t, n.acks.calls)
}

// The wall refuses everything, stores nothing of it, and gives way when it is raised.
func TestServerWall(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const wall = 64 << 10
	n := open(t, embedded.Config{Dir: dir, MaxBytes: wall}, Config{MaxBytes: 1 << 40})
	var stored int
	var err error
	for ; err == nil && stored < 1000; stored++ {
		_, err = n.Append(t.Context(), claim(strconv.Itoa(stored), string(make([]byte, 1000))))
	}
	require.ErrorIs(t, err, fault.ErrFull)
	stored--
	require.Positive(t, stored)
	_, last, err := n.Bounds(t.Context(), schemas.LogStream(0))
	require.NoError(t, err)
	require.EqualValues(t, stored, last)
	_, err = n.Append(t.Context(), event("0", "settled", 1))
	require.ErrorIs(t, err, fault.ErrFull)
	require.ErrorIs(t, n.Wake(t.Context(), ref("0"), time.Now()), fault.ErrFull)

	n.shut()
	require.NoError(t, n.server.Stop())
	n = open(t, embedded.Config{Dir: dir, MaxBytes: 4 * wall}, Config{})
	n.put(t, event("0", "settled", 1))
}

// The broker's own limit refuses new actions only, and gives way when records are gone.
func TestBrokerLimit(t *testing.T) {
	t.Parallel()
	var lacks atomic.Int64 // on the disk
	n := open(t, embedded.Config{Free: func() (int64, error) { return 1<<40 - lacks.Load(), nil }}, Config{MaxBytes: 64 << 10})
	accepting := func() bool { return n.Accepting() == nil }
	lacks.Store(1 << 40)
	poll.Until(t, func() bool { return !accepting() })
	lacks.Store(0)
	poll.Until(t, accepting)
	var err error
	var stored, newest uint64
	for ; err == nil && stored < 1000; stored++ {
		var seq uint64
		if seq, err = n.Append(t.Context(), claim(strconv.FormatUint(stored, 10), string(make([]byte, 1000)))); err == nil {
			newest = seq
		}
	}
	require.ErrorIs(t, err, fault.ErrFull)
	require.ErrorIs(t, n.Accepting(), fault.ErrFull)
	require.NoError(t, n.Ready(t.Context()), "a full log still answers")
	_, err = n.PutBlob(t.Context(), "t", []byte("x"))
	require.NoError(t, err, "the answers of accepted actions are still kept")
	_, last, err := n.Bounds(t.Context(), schemas.LogStream(0))
	require.NoError(t, err)
	require.Equal(t, newest, last, "nothing of the refused claim is stored")
	n.put(t, event(strconv.FormatUint(stored-2, 10), "settled", newest))

	log := must(n.js.Stream(t.Context(), schemas.LogStream(0)))(t)
	require.NoError(t, log.Purge(t.Context()))
	poll.Until(t, func() bool {
		_, err := n.Append(t.Context(), claim("again", "x"))
		return err == nil
	})
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		code jetstream.ErrorCode
		text string
		want error
	}{
		{10071, "wrong last sequence: 4", fault.ErrFenced},
		{10164, "wrong last sequence", fault.ErrFenced},
		{10002, "", fault.ErrFull},
		{10023, "", fault.ErrFull},
		{10047, "", fault.ErrFull},
		{10077, "maximum bytes exceeded", fault.ErrFull},
		{10077, "maximum messages exceeded", fault.ErrFull},
		{10077, "store is closed", fault.ErrUnavailable},
		{10054, "", fault.ErrTooLarge},
		{10167, "too many requests", fault.ErrUnavailable},
		{10008, "", fault.ErrUnavailable},
		{10005, "", fault.ErrUnavailable},
		{10074, "", errAlone},
	} {
		require.ErrorIs(t, refused(tc.code, tc.text), tc.want, tc.code)
	}
}

func TestAcknowledgements(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]uint64{
		`{"stream":"S", "seq":17}`:                          17,
		`{"stream":"S","seq":9223372036854775807}`:          9223372036854775807,
		`{"stream":"S", "seq":3,"duplicate": true}`:         3,
		`{"stream":"S", "domain":"d", "seq":5}`:             5,
		`{"error":{"err_code":10071},"stream":"S","seq":7}`: 0,
		`{"stream":"S", "seq":0}`:                           0,
		`{"stream":"S", "seq":1`:                            0,
		`{"stream":"S", "seq":99999999999999999999}`:        0,
		``: 0,
	} {
		_, got, err := stored(&nats.Msg{Data: []byte(raw)})
		require.Equal(t, want, got, raw)
		require.Equal(t, want == 0, err != nil, raw)
	}
}

// TestCostOfAnAppend: what the client and the server allocate for one, all that is republished
// included.
func TestCostOfAnAppend(t *testing.T) { //nolint:paralleltest // AllocsPerRun counts the whole process
	n := open(t, embedded.Config{}, Config{})
	var id atomic.Int64
	cost := testing.AllocsPerRun(200, func() {
		if _, err := n.Append(context.Background(), claim(strconv.FormatInt(id.Add(1), 10), "x")); err != nil {
			t.Error(err)
		}
	})
	t.Log(cost, "allocations")
	require.LessOrEqual(t, cost, 90.0)
}

func publishesOnce(t *testing.T, n *node) {
	t.Helper()
	topic := schemas.EvidenceSubject(schemas.Evidence{Tenant: "t", Kind: schemas.EvidenceAttempt, Entry: "e", ActionID: "a"})
	for range 2 { // a repeat is not an error
		var waits []func() error
		for i := range 50 { // in flight together
			waits = append(waits, must(n.Send(t.Context(), topic, fmt.Sprint("id-", i), fmt.Append(nil, i)))(t))
		}
		for _, wait := range waits {
			require.NoError(t, wait())
		}
	}
	recs := n.records(t, schemas.EvidenceStream, topic, 0, 1000)
	require.Len(t, recs, 50)
	for i, r := range recs {
		require.Equal(t, fmt.Sprint("id-", i), r.ID)
		require.Equal(t, strconv.Itoa(i), string(r.Data))
		require.Equal(t, topic, r.Subject)
	}
}

// sent sends a message and waits for it, briefly.
func (n *node) sent(ctx context.Context, subject, id string, data []byte) error {
	ctx, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	wait, err := n.Send(ctx, subject, id, data)
	if err == nil {
		err = wait()
	}
	return err
}

func TestSendErrors(t *testing.T) {
	t.Parallel()
	n := open(t, embedded.Config{MaxPayload: 4 << 10}, Config{AttemptTimeout: 200 * time.Millisecond})
	const dead = "weir.dead.t.http.a"
	_, err := n.Send(t.Context(), dead, "big", make([]byte, 5<<10))
	require.ErrorIs(t, err, fault.ErrTooLarge)
	require.ErrorIs(t, n.sent(t.Context(), "nobody.takes.this", "x", nil), fault.ErrUnavailable)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, n.sent(ctx, "nobody.takes.this", "gone", nil), fault.ErrUnavailable)

	_, last, err := n.Bounds(t.Context(), schemas.DeadStream)
	require.NoError(t, err)
	require.Zero(t, last)

	// A send that fails at once is an error of the wait: too large with its id, or no connection.
	most := int(n.writes.MaxPayload())
	require.ErrorIs(t, n.sent(t.Context(), dead, "id", make([]byte, most)), fault.ErrTooLarge)
	n.writes.Close()
	require.ErrorIs(t, n.sent(t.Context(), dead, "closed", nil), fault.ErrUnavailable)
}

// TestEvidenceCannotBeRemoved, and what an embedded server remembers of records it reads back at
// each start; on a cluster a worker that was given up may write for longer.
func TestEvidenceCannotBeRemoved(t *testing.T) {
	t.Parallel()
	n := open(t, embedded.Config{}, Config{})
	require.NoError(t, must(n.Send(t.Context(), "weir.evidence.t.k.e.a", "1", nil))(t)())
	s := must(n.js.Stream(t.Context(), schemas.EvidenceStream))(t)
	require.Error(t, s.DeleteMsg(t.Context(), 1))
	require.Error(t, s.Purge(t.Context()))
	require.Equal(t, time.Minute, s.CachedInfo().Config.Duplicates)
	require.Equal(t, 10*time.Minute, (&Broker{}).evidenceStream().Duplicates)
	_, last, err := n.Bounds(t.Context(), schemas.EvidenceStream)
	require.NoError(t, err)
	require.EqualValues(t, 1, last)
}

// wakes subscribes to the http wake-ups of partition 0 until the test ends.
func (n *node) wakes(t *testing.T) <-chan *message.Message {
	t.Helper()
	s, _ := n.subscribe(t, SubscriberConfig{})
	out := must(s.Subscribe(t.Context(), Topics(0)[1]))(t)
	return out
}

// woken waits for the action's wake, acking everything.
func woken(t *testing.T, out <-chan *message.Message, id string) schemas.Record {
	t.Helper()
	for {
		m := next(t, out)
		rec, _ := RecordOf(m)
		m.Ack()
		if rec.Subject == layout.Subject(ref(id), schemas.SectionWake) {
			return rec
		}
	}
}

func TestLaterWakeReplacesTheEarlier(t *testing.T) {
	t.Parallel()
	n := open(t, embedded.Config{}, Config{})
	out := n.wakes(t)
	late := time.Now().Add(6500 * time.Millisecond)
	require.NoError(t, n.Wake(t.Context(), ref("a"), time.Now().Add(5*time.Second)))
	require.NoError(t, n.Wake(t.Context(), ref("a"), late))
	require.NoError(t, n.Wake(t.Context(), ref("other"), time.Now().Add(6*time.Second)))
	rec := woken(t, out, "a")
	require.False(t, rec.Time.Before(late))
	// That was the only one, and its schedule is used up.
	all := n.records(t, schemas.LogStream(0), layout.All(ref("a")), 0, 10)
	require.Len(t, all, 1)
	_, err := n.Last(t.Context(), schemas.LogStream(0), layout.Schedule(ref("a")))
	require.ErrorIs(t, err, fault.ErrNotFound)

	// The other way round: an earlier one replaces a later.
	require.NoError(t, n.Wake(t.Context(), ref("b"), time.Now().Add(time.Hour)))
	require.NoError(t, n.Wake(t.Context(), ref("b"), time.Now().Add(300*time.Millisecond)))
	woken(t, out, "b")
}
