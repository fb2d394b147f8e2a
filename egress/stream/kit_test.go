package stream_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	sse "github.com/tmaxmax/go-sse"
	"go.uber.org/goleak"

	"weir/egress/stream"
	"weir/internal/ledger"
	"weir/internal/weirtest/memlog"
	"weir/schemas"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var layout = schemas.Layout{Partitions: 3}

// node is a log in memory, a feed over it, and the faults between the two.
type node struct {
	t     testing.TB
	log   *memlog.Log
	led   *ledger.Ledger
	feed  *stream.Feed
	reads atomic.Int64
	// drop says which republished records never arrive.
	drop atomic.Pointer[func(schemas.Record) bool]
	fail atomic.Pointer[error] // what reads of the log answer
}

func newNode(tb testing.TB, cfg stream.Config) *node {
	tb.Helper()
	n := &node{t: tb}
	n.log = memlog.New(layout, time.Now, memlog.Hooks{Read: func() error {
		n.reads.Add(1)
		if err := n.fail.Load(); err != nil {
			return *err
		}
		return nil
	}})
	n.led = ledger.New(n.log, layout, nil)
	cfg.Layout = layout
	var err error
	n.feed, err = stream.Open(n.log, n, cfg)
	require.NoError(tb, err)
	tb.Cleanup(n.feed.Close)
	return n
}

// Live is the log's own, less what is dropped on the way.
func (n *node) Live(subject string, fn func(schemas.Record), lost func()) (func(), error) {
	return n.log.Live(subject, func(r schemas.Record) {
		if drop := n.drop.Load(); drop == nil || !(*drop)(r) {
			fn(r)
		}
	}, lost)
}

func (n *node) dropping(f func(schemas.Record) bool) { n.drop.Store(&f) }

func everything(schemas.Record) bool { return true }

// action is one action being written.
type action struct {
	n  *node
	st *ledger.State
}

func ref(id string) schemas.Ref { return schemas.Ref{Tenant: "acme", Kind: schemas.KindHTTP, ID: id} }

func (n *node) claim(id string) *action {
	n.t.Helper()
	r := ref(id)
	st, dup, err := n.led.Claim(context.Background(), schemas.Action{
		ID: id, Tenant: r.Tenant, Kind: r.Kind, Class: schemas.ClassSafe, IDSource: schemas.IDRequest,
		Fingerprint: "f", AcceptedAt: time.Now().UTC(), Deadline: time.Now().Add(time.Minute).UTC(),
		Payload: json.RawMessage(`{"method":"GET","url":"http://secret.example/"}`),
	})
	require.NoError(n.t, err)
	require.False(n.t, dup)
	return &action{n: n, st: st}
}

func (a *action) append(ev schemas.Event) {
	a.n.t.Helper()
	require.NoError(a.n.t, a.n.led.Append(context.Background(), a.st, ev))
}

func (a *action) start() {
	a.append(schemas.Event{Type: schemas.EventStarted, Started: &schemas.Started{Worker: "worker-7"}})
}

func (a *action) progress(data string) {
	a.append(schemas.Event{Type: schemas.EventProgress, Data: json.RawMessage(data)})
}

// delta is a part of an answer; first begins it.
func (a *action) delta(first bool) {
	a.append(schemas.Event{Type: schemas.EventDelta, First: first, Data: json.RawMessage(`{"chunks":[]}`)})
}

func (a *action) attempt() {
	a.append(schemas.Event{Type: schemas.EventAttempt, Attempt: &schemas.Attempt{
		Number: 1, Class: schemas.ClassSafe, Worker: "worker-7", ExpiresAt: time.Now().UTC(),
	}})
}

func (a *action) attempted() {
	a.append(schemas.Event{Type: schemas.EventAttempted, Attempted: &schemas.Attempted{
		Number: 1, Sent: true, Status: 200, Duration: 1500 * time.Microsecond, AnswerBlob: "blob-name",
	}})
}

func (a *action) settle(result string) {
	a.append(schemas.Event{Type: schemas.EventSettled, Settled: &schemas.Settled{
		Outcome: schemas.OutcomeSucceeded, Result: json.RawMessage(result), Attempts: 1,
	}})
}

func (a *action) wake() {
	a.n.t.Helper()
	_, err := a.n.log.Append(context.Background(), schemas.Append{Subject: layout.Subject(a.st.Ref, schemas.SectionWake)})
	require.NoError(a.n.t, err)
	a.st, err = a.n.led.Load(context.Background(), a.st.Ref)
	require.NoError(a.n.t, err)
}

// whole writes a life with every kind of record in it.
func (a *action) whole(progress int) {
	a.start()
	a.attempt()
	for i := range progress {
		a.progress(fmt.Sprintf(`{"i":%d}`, i))
	}
	a.wake()
	a.attempted()
	a.settle(`{"ok":true}`)
}

// seqs are the sequences of the action's events as the log has them.
func (a *action) seqs() []uint64 {
	a.n.t.Helper()
	out, err := seqsOf(context.Background(), a.n.log, a.st.Ref)
	require.NoError(a.n.t, err)
	return out
}

func seqsOf(ctx context.Context, log stream.Log, r schemas.Ref) ([]uint64, error) {
	records, _, err := log.Page(ctx, schemas.LogStream(layout.Partition(r.Tenant, r.ID)), layout.All(r), 1, 1<<20, 1<<30)
	var out []uint64
	for _, rec := range records {
		if !rec.Notifies() {
			out = append(out, rec.Seq)
		}
	}
	return out, err
}

func drain(ctx context.Context, r *stream.Reader) ([]uint64, error) {
	var out []uint64
	for it, err := range r.All(ctx) {
		if err != nil {
			return out, err
		}
		out = append(out, it.Seq)
	}
	return out, nil
}

func (n *node) follow(after uint64) *stream.Reader {
	n.t.Helper()
	r, err := n.feed.Follow(context.Background(), ref("a"), after)
	require.NoError(n.t, err)
	n.t.Cleanup(func() { r.Close() })
	return r
}

// gate is a barrier that a test opens.
type gate struct {
	calls atomic.Int64
	began chan struct{}
	open  chan struct{}
}

func newGate() *gate { return &gate{began: make(chan struct{}, 1000), open: make(chan struct{})} }

func (g *gate) pass(ctx context.Context) error {
	g.calls.Add(1)
	g.began <- struct{}{}
	select {
	case <-g.open:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// serve runs the events route on a real socket. cut may end a response early.
func (n *node) serve(t *testing.T, cfg stream.HTTP, cut func(http.ResponseWriter) http.ResponseWriter) *httptest.Server {
	t.Helper()
	n.feed.By(cfg)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if cut != nil {
			w = cut(w)
		}
		n.feed.Serve(w, r, "acme", strings.TrimPrefix(r.URL.Path, "/"))
	}))
	t.Cleanup(func() {
		n.feed.Close()
		srv.Close()
	})
	return srv
}

// answer is a response whose body the test's end closes.
type answer struct {
	StatusCode int
	Header     http.Header
	Body       io.ReadCloser
}

func get(t *testing.T, url string, header ...string) answer {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	require.NoError(t, err)
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Add(header[i], header[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	t.Cleanup(func() { _ = res.Body.Close() })
	return answer{res.StatusCode, res.Header, res.Body}
}

// watch follows an action with a real client until the server says that it is
// over, resuming after every cut.
func watch(ctx context.Context, url string) ([]sse.Event, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, err
	}
	client := &sse.Client{
		HTTPClient: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}},
		Backoff:    sse.Backoff{InitialInterval: time.Microsecond, Multiplier: 1, Jitter: -1},
	}
	var got []sse.Event
	conn := client.NewConnection(req)
	conn.Buffer(nil, 1<<20)
	conn.SubscribeToAll(func(ev sse.Event) { got = append(got, ev) })
	err = conn.Connect()
	if err != nil && strings.Contains(err.Error(), "received 204") {
		err = nil
	}
	return got, err
}

func ids(events []sse.Event) []string {
	out := make([]string, len(events))
	for i, ev := range events {
		out[i] = ev.LastEventID
	}
	return out
}

func (a *action) ids() []string {
	seqs := a.seqs()
	out := make([]string, len(seqs))
	for i, s := range seqs {
		out[i] = strconv.FormatUint(s, 10)
	}
	return out
}

// scissors ends a response after so many bytes, as a broken connection does.
type scissors struct {
	http.ResponseWriter
	left int
}

func (s *scissors) Unwrap() http.ResponseWriter { return s.ResponseWriter }

func (s *scissors) Write(p []byte) (int, error) {
	if len(p) < s.left {
		s.left -= len(p)
		return s.ResponseWriter.Write(p)
	}
	_, _ = s.ResponseWriter.Write(p[:s.left])
	_ = http.NewResponseController(s.ResponseWriter).Flush()
	panic(http.ErrAbortHandler)
}
