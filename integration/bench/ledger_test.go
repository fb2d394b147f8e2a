//go:build nightly

package bench_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// paced is a target that takes a while over each call, and keeps a ledger of them.
type paced struct {
	server *httptest.Server

	mu   sync.Mutex
	lots map[string]*lot
}

// lot is the actions of one measurement, each called by a path of its own.
type lot struct {
	name, url string
	takes     time.Duration
	hits      []atomic.Int32

	mu   sync.Mutex
	gate chan struct{} // nobody is answered before it is closed

	asked    atomic.Int64 // how many were asked for
	waiting  atomic.Int64 // how many calls have come
	answered atomic.Int64
	marks    atomic.Pointer[marks]
}

// marks are the times at which parts of a lot have been answered.
type marks struct {
	from, part int64
	at         chan time.Time
}

func newPaced(tb testing.TB) *paced {
	tb.Helper()
	p := &paced{lots: make(map[string]*lot)}
	p.server = httptest.NewServer(p)
	tb.Cleanup(func() {
		p.server.CloseClientConnections()
		p.server.Close()
	})
	return p
}

// lot is a new one of so many actions. Its calls are held until it is opened.
func (p *paced) lot(n int, takes time.Duration) *lot {
	p.mu.Lock()
	defer p.mu.Unlock()
	name := strconv.Itoa(len(p.lots))
	l := &lot{name: name, url: p.server.URL + "/" + name, takes: takes, gate: make(chan struct{}), hits: make([]atomic.Int32, n)}
	p.lots[name] = l
	return l
}

// ServeHTTP is one call, of /LOT/ACTION.
func (p *paced) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	name, number, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	p.mu.Lock()
	l := p.lots[name]
	p.mu.Unlock()
	i, err := strconv.Atoi(number)
	if l == nil || err != nil || i < 0 || i >= len(l.hits) {
		http.NotFound(w, r)
		return
	}
	l.hits[i].Add(1)
	l.mu.Lock()
	gate := l.gate
	l.mu.Unlock()
	l.waiting.Add(1)
	select {
	case <-gate:
	case <-r.Context().Done():
		return
	}
	if l.takes > 0 {
		select {
		case <-time.After(l.takes):
		case <-r.Context().Done():
			return
		}
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write([]byte(`{"ok":true}`))
	l.answer()
}

// next is the id of the next action, and its URL.
func (l *lot) next() (id, url string) {
	i := strconv.FormatInt(l.asked.Add(1)-1, 10)
	return "lot-" + l.name + "-" + i, l.url + "/" + i
}

// open has its calls answered, once for each hold.
func (l *lot) open() {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.gate)
}

// hold has those wait that come from now on.
func (l *lot) hold() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.gate = make(chan struct{})
}

// mark has the times noted at which each of so many parts has been answered, from now on.
func (l *lot) mark(part, parts int) *marks {
	m := &marks{from: l.answered.Load(), part: int64(part), at: make(chan time.Time, parts)}
	l.marks.Store(m)
	return m
}

func (l *lot) answer() {
	n := l.answered.Add(1)
	m := l.marks.Load()
	if m == nil || (n-m.from)%m.part != 0 {
		return
	}
	select {
	case m.at <- time.Now():
	default: // what comes behind the last part
	}
}

// stall is how long nothing may be answered while a part is waited for.
const stall = 2 * time.Minute

// reached is when the next part has been answered. A long wait tells how far it is.
func (l *lot) reached(t *testing.T, m *marks) time.Time {
	t.Helper()
	const often = 10 * time.Second
	tick := time.NewTicker(often)
	defer tick.Stop()
	before, last := l.answered.Load(), time.Now()
	for {
		select {
		case at := <-m.at:
			return at
		case <-tick.C:
		}
		now := l.answered.Load()
		say("%d done, %.0f/s", now, float64(now-before)/often.Seconds())
		if now != before {
			before, last = now, time.Now()
		}
		require.Less(t, time.Since(last), stall, "nothing is answered any more: %d of %d were", now, len(l.hits))
	}
}

// once holds the ledger to it that no action was performed twice, and that so many were.
func (l *lot) once(t *testing.T, want int) {
	t.Helper()
	done, again := 0, 0
	for i := range l.hits {
		switch n := l.hits[i].Load(); {
		case n == 1:
			done++
		case n > 1:
			again++
		}
	}
	require.Zero(t, again, "actions were performed more than once")
	require.Equal(t, want, done, "actions were performed")
}

// whole holds it to that each was performed once.
func (l *lot) whole(t *testing.T) {
	t.Helper()
	l.once(t, len(l.hits))
}

// inTurn is the name of a part of several.
func inTurn(i, of int) string { return fmt.Sprintf("%d of %d", i+1, of) }
