package activetasks

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"weir/internal/fault"
	"weir/internal/weirtest/memlog"
	"weir/schemas"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var layout = schemas.Layout{Partitions: 3}

// paper is a log in memory, whose feed may be cut and whose reads may fail.
type paper struct {
	*memlog.Log
	tb testing.TB

	mu    sync.Mutex
	deaf  func(schemas.Record) bool // what the feed loses
	down  error                     // of reads
	walks []uint64                  // where Next was asked from
	// silent is a partition's stream that has no leader.
	silent string
	behind uint64 // how much less than there is the leaders have
	files  map[schemas.Ref]*file
}

// file is where an action's log stands.
type file struct {
	last uint64
	n    int
}

func newPaper(tb testing.TB) *paper {
	tb.Helper()
	p := &paper{tb: tb, files: map[schemas.Ref]*file{}}
	p.Log = memlog.New(layout, time.Now, memlog.Hooks{Read: func() error {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.down
	}})
	return p
}

func (p *paper) set(change func(*paper)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change(p)
}

func (p *paper) Live(subject string, fn func(schemas.Record), lost func()) (func(), error) {
	return p.Log.Live(subject, func(r schemas.Record) {
		p.mu.Lock()
		lose := p.deaf != nil && p.deaf(r)
		p.mu.Unlock()
		if !lose {
			fn(r)
		}
	}, lost)
}

func (p *paper) Bounds(ctx context.Context, stream string) (first, last uint64, err error) {
	p.mu.Lock()
	silent, behind := p.silent == stream, p.behind
	p.mu.Unlock()
	if silent {
		return 0, 0, fault.ErrUnavailable
	}
	first, last, err = p.Log.Bounds(ctx, stream)
	return first, last - min(last, behind), err
}

// Next has the last word on what there is.
func (p *paper) Next(ctx context.Context, stream, filter string, from uint64) (schemas.Record, error) {
	p.set(func(p *paper) { p.walks = append(p.walks, from) })
	return p.Log.Next(ctx, stream, filter, from)
}

func ref(id string) schemas.Ref {
	tenant, id, ok := strings.Cut(id, "/")
	if !ok {
		tenant, id = "t", tenant
	}
	return schemas.Ref{Tenant: tenant, Kind: schemas.KindTask, ID: id}
}

// write appends an event. Names are "id", or "tenant/id".
func (p *paper) write(id string, ev schemas.Event) {
	p.tb.Helper()
	p.append(id, schemas.SectionOf(ev.Type), func(n int) []byte {
		ev.V, ev.N, ev.Time = schemas.EventVersion, n, time.Now().UTC()
		data, err := json.Marshal(ev)
		require.NoError(p.tb, err)
		return data
	})
}

// broken is half of an end.
const broken = `{"v":1,"n":9,"type":"settled",`

// spoilt appends a record that cannot be read.
func (p *paper) spoilt(id string, s schemas.Section, data string) {
	p.tb.Helper()
	p.append(id, s, func(int) []byte { return []byte(data) })
}

func (p *paper) append(id string, s schemas.Section, data func(n int) []byte) {
	p.tb.Helper()
	r := ref(id)
	p.mu.Lock()
	if p.files[r] == nil {
		p.files[r] = &file{}
	}
	f := p.files[r]
	f.n++
	n, last := f.n, f.last
	p.mu.Unlock()
	seq, err := p.Append(p.tb.Context(), schemas.Append{Subject: layout.Subject(r, s), Data: data(n), Guarded: true, Guard: layout.All(r), Last: last})
	require.NoError(p.tb, err)
	p.set(func(*paper) { f.last = seq })
}

// file has a task accepted.
func (p *paper) file(id, pool string) {
	p.tb.Helper()
	p.order(id, schemas.TaskOrder{Description: "d", Repo: "r", Pool: pool})
}

func (p *paper) order(id string, o schemas.TaskOrder) {
	p.tb.Helper()
	payload, err := json.Marshal(o)
	require.NoError(p.tb, err)
	p.accept(id, schemas.Action{Payload: payload})
}

func (p *paper) accept(id string, a schemas.Action) {
	p.tb.Helper()
	r := ref(id)
	a.ID, a.Tenant, a.Kind, a.AcceptedAt = r.ID, r.Tenant, r.Kind, time.Now().UTC()
	if a.Deadline.IsZero() {
		a.Deadline = a.AcceptedAt.Add(8 * time.Hour)
	}
	p.write(id, schemas.Event{Type: schemas.EventAccepted, Action: &a})
}

func (p *paper) tell(id string, e schemas.TaskEvent) {
	p.tb.Helper()
	kind := schemas.EventSignal
	switch e.What {
	case schemas.TaskOpened, schemas.TaskLost, schemas.TaskPushed:
		kind = schemas.EventStatus
	default:
	}
	p.write(id, schemas.Event{Type: kind, Task: &e})
}

// open files a task that can be leased.
func (p *paper) open(ids ...string) {
	p.tb.Helper()
	for _, id := range ids {
		p.file(id, schemas.PoolDefault)
		p.opened(id)
	}
}

func (p *paper) opened(id string) {
	p.tb.Helper()
	p.write(id, schemas.Event{Type: schemas.EventStarted, Started: &schemas.Started{Worker: "w"}})
	p.tell(id, schemas.TaskEvent{What: schemas.TaskOpened, Base: "b"})
}

func (p *paper) lease(id string, n int, holder string) {
	p.tb.Helper()
	p.tell(id, schemas.TaskEvent{What: schemas.TaskClaimed, Lease: n, Holder: holder, TokenHash: "x"})
}

func (p *paper) lose(id string, n int) {
	p.tb.Helper()
	p.tell(id, schemas.TaskEvent{What: schemas.TaskLost, Lease: n})
}

func (p *paper) report(id string) {
	p.tb.Helper()
	p.tell(id, schemas.TaskEvent{What: schemas.TaskReported, Report: &schemas.TaskReport{Completed: true, Description: "long"}})
}

func (p *paper) settle(id string) {
	p.tb.Helper()
	p.write(id, schemas.Event{Type: schemas.EventSettled, Settled: &schemas.Settled{Outcome: schemas.OutcomeSucceeded}})
}

// start follows the log until the test's end; in a bubble it is stopped before that.
func (p *paper) start(cfg Config) *Cache {
	p.tb.Helper()
	cfg.Layout = layout
	b := New(p, cfg)
	require.NoError(p.tb, b.Start(p.tb.Context()))
	p.tb.Cleanup(b.Stop)
	return b
}

func (b *Cache) queue(tenant string, pools ...string) []string {
	ids := []string{}
	for _, e := range b.Leasable(tenant, of(pools...), 1_000_000) {
		ids = append(ids, e.Ref.ID)
	}
	return ids
}

// of has an agent lease of some pools, or of all.
func of(pools ...string) func(Entry) bool {
	return func(e Entry) bool { return len(pools) == 0 || slices.Contains(pools, e.Pool) }
}

func (b *Cache) caughtUp(tb testing.TB) *Cache {
	tb.Helper()
	require.NoError(tb, b.CatchUp(tb.Context()))
	return b
}

func shut(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
