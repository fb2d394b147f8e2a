package rules

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"weir/internal/fault"
	"weir/schemas"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// shelf is a store in memory that several nodes share. It keeps the values of each
// key up to a number.
type shelf struct {
	mu       sync.Mutex
	last     uint64
	records  []schemas.Record
	keeps    int
	watchers map[int]watcher
	down     error // every call fails
	barrier  error
	deaf     bool // watchers hear nothing
	barriers int
	reads    int
	pages    int    // how many pages may be read before down; 0: all
	read     uint64 // the newest record that was read
	most     int    // records that were asked for at once
	mute     bool   // the leader gives no answer
	// asked is called behind each Get, without the lock, before it returns.
	asked func()
}

type watcher struct {
	fn   func(schemas.Record)
	lost func()
}

func newShelf() *shelf { return &shelf{keeps: 64, watchers: map[int]watcher{}} }

func (s *shelf) set(change func(*shelf)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s)
}

func (s *shelf) of(key string) (all []schemas.Record) {
	for _, r := range s.records {
		if r.Subject == key {
			all = append(all, r)
		}
	}
	return all
}

func (s *shelf) Put(ctx context.Context, key string, value []byte, last uint64) (uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var newest uint64
	if all := s.of(key); len(all) > 0 {
		newest = all[len(all)-1].Seq
	}
	switch {
	case s.down != nil:
		return 0, s.down
	case ctx.Err() != nil:
		return 0, ctx.Err()
	case newest != last:
		return 0, fault.ErrFenced
	}
	return s.store(key, value), nil
}

// store needs the lock.
func (s *shelf) store(key string, value []byte) uint64 {
	s.last++
	r := schemas.Record{Subject: key, Seq: s.last, Data: slices.Clone(value)}
	s.records = append(s.records, r)
	if all := s.of(key); len(all) > s.keeps {
		s.records = slices.DeleteFunc(s.records, func(r schemas.Record) bool { return r.Seq == all[0].Seq })
	}
	if !s.deaf {
		for _, w := range s.watchers {
			w.fn(r)
		}
	}
	return s.last
}

func (s *shelf) Get(_ context.Context, key string) (schemas.Record, error) {
	r, asked, err := s.newest(key)
	if asked != nil {
		asked()
	}
	return r, err
}

func (s *shelf) newest(key string) (schemas.Record, func(), error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down != nil || s.mute {
		return schemas.Record{}, s.asked, cmp.Or(s.down, fault.ErrUnavailable)
	}
	all := s.of(key)
	if len(all) == 0 {
		return schemas.Record{}, s.asked, fault.ErrNotFound
	}
	return all[len(all)-1], s.asked, nil
}

func (s *shelf) Next(_ context.Context, key string, after uint64) (schemas.Record, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down != nil {
		return schemas.Record{}, s.down
	}
	for _, r := range s.of(key) {
		if r.Seq > after {
			return r, nil
		}
	}
	return schemas.Record{}, fault.ErrNotFound
}

func (s *shelf) Read(ctx context.Context, after uint64, limit int) ([]schemas.Record, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down != nil || ctx.Err() != nil {
		return nil, s.down
	}
	s.most = max(s.most, limit)
	if s.reads++; s.pages > 0 && s.reads > s.pages {
		return nil, fault.ErrUnavailable
	}
	var all []schemas.Record
	for _, r := range s.records {
		if r.Seq > after {
			all = append(all, r)
		}
	}
	all = all[:min(len(all), limit)]
	if len(all) > 0 {
		s.read = max(s.read, all[len(all)-1].Seq)
	}
	return all, nil
}

func (s *shelf) Watch(fn func(schemas.Record), lost func()) (func(), error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down != nil {
		return nil, s.down
	}
	n := len(s.watchers)
	s.watchers[n] = watcher{fn, lost}
	return func() { s.mu.Lock(); defer s.mu.Unlock(); delete(s.watchers, n) }, nil
}

func (s *shelf) Barrier(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.barriers++
	return s.barrier
}

// node starts a keeper that the test's end stops.
func node(t *testing.T, s Store, cfg Config) *Keeper {
	t.Helper()
	k := New(s, cfg)
	require.NoError(t, k.Start(t.Context()))
	t.Cleanup(k.Stop)
	return k
}

// rule is a mock that is good.
func rule(id string) schemas.Rule {
	return schemas.Rule{
		ID: id, Group: schemas.DefaultGroup, Type: schemas.RuleMock, Enabled: true,
		Match:  schemas.RuleMatch{URLPattern: "https://api.example.com/" + id, Method: "ANY"},
		Action: schemas.RuleAction{BodyMode: "json", Body: json.RawMessage(`{"n":1.50,"s":"<&>"}`), Status: 200},
	}
}

func doc(rules ...schemas.Rule) schemas.RuleSet {
	return schemas.RuleSet{GlobalActive: true, Rules: rules, By: "action", At: time.Unix(1, 0).UTC()}
}

func (k *Keeper) put(t *testing.T, tenant string, d schemas.RuleSet, revision uint64) Snapshot {
	t.Helper()
	s, err := k.Put(t.Context(), tenant, d, revision)
	require.NoError(t, err)
	return s
}

// force is the etag of the set that is in force, empty for none.
func (k *Keeper) force(t *testing.T, tenant string) string {
	t.Helper()
	set, _, err := k.InForce(tenant)
	require.NoError(t, err)
	return set.Etag()
}

// opens counts the sets of each tenant that a keeper opens from now on.
func (k *Keeper) opens() (of func(tenant string) int) {
	var mu sync.Mutex
	n := map[string]int{}
	k.open = func(tenant string, r schemas.Record) (Snapshot, error) {
		mu.Lock()
		n[tenant]++
		mu.Unlock()
		return open(tenant, r)
	}
	return func(tenant string) int { mu.Lock(); defer mu.Unlock(); return n[tenant] }
}

func many(n int) (all []schemas.Rule) {
	for i := range n {
		all = append(all, rule("r"+strconv.Itoa(i)))
	}
	return all
}

// pass lets a clock of a bubble run.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// lines is a logger and what it wrote.
func lines() (*slog.Logger, func() string) {
	var mu sync.Mutex
	var b bytes.Buffer
	w := writer(func(p []byte) (int, error) { mu.Lock(); defer mu.Unlock(); return b.Write(p) })
	return slog.New(slog.NewTextHandler(w, nil)), func() string { mu.Lock(); defer mu.Unlock(); return b.String() }
}

type writer func([]byte) (int, error)

func (w writer) Write(p []byte) (int, error) { return w(p) }
