//go:build nightly

package bench_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/internal/weirtest/poll"
	"weir/internal/weirtest/program"
)

// load is how calls are made: by so many callers, each one after the other, or at a rate,
// whatever becomes of those before.
type load struct{ callers, rate int }

func (l load) String() string {
	if l.rate > 0 {
		return fmt.Sprintf("%d/s", l.rate)
	}
	return strconv.Itoa(l.callers)
}

// limit ends a load: after a time, or after a number of calls where the time is zero.
type limit struct {
	span  time.Duration
	calls int
}

// usual is the limit of a load, and tiny that of its tiny form.
func usual() limit { return sized(limit{span: *span}, limit{calls: tiny}) }

const tiny = 4

// sample is what one load measured.
type sample struct {
	elapsed time.Duration
	took    []time.Duration // by length
	cpu     time.Duration   // of the program's process
}

func (s sample) rate() float64 { return float64(len(s.took)) / s.elapsed.Seconds() }

func (s sample) percentile(p int) time.Duration {
	return s.took[min(len(s.took)*p/100, len(s.took)-1)]
}

// work is the processor's time of the program for each call.
func (s sample) work() time.Duration { return s.cpu / time.Duration(len(s.took)) }

// run makes calls until the limit, and fails with the first that fails. How long a call at a
// rate took counts from when it was planned, so that one which others held up does not look quick.
func (l load) run(ctx context.Context, of *process, do func(context.Context) error, until limit) (s sample, err error) {
	var mu sync.Mutex
	one := func(planned time.Time) bool {
		failed := do(ctx)
		mu.Lock()
		defer mu.Unlock()
		err = errors.Join(err, failed)
		s.took = append(s.took, time.Since(planned))
		return failed == nil
	}
	var group sync.WaitGroup
	before, begun := of.cpu(), time.Now()
	if l.rate > 0 {
		for i := range max(until.calls, int(until.span.Seconds()*float64(l.rate))) {
			planned := begun.Add(time.Duration(i) * time.Second / time.Duration(l.rate))
			_ = poll.Rest(context.Background(), time.Until(planned))
			group.Go(func() { one(planned) })
		}
	}
	var left atomic.Int64
	left.Store(int64(until.calls))
	more := func() bool {
		if until.span > 0 {
			return time.Since(begun) < until.span
		}
		return left.Add(-1) >= 0
	}
	for range l.callers {
		group.Go(func() {
			for more() {
				if !one(time.Now()) {
					return
				}
			}
		})
	}
	group.Wait()
	s.elapsed, s.cpu = time.Since(begun), of.cpu()-before
	slices.Sort(s.took)
	if len(s.took) == 0 {
		err = errors.New("no call was made")
	}
	return s, err
}

// target is what a load is put on: a program, or the upstream itself.
type target struct {
	name    string
	process *process // nil: the upstream, which is this process
	method  string
	url     string
	header  http.Header
	body    func() string // of each call
	status  int           // of the answer that is expected
}

// same is one body for all calls.
func same(body string) func() string { return func() string { return body } }

// put puts a load on a target until a limit.
func (t target) put(tb testing.TB, l load, until limit) sample {
	tb.Helper()
	s, err := l.run(tb.Context(), t.process, t.call, until)
	require.NoError(tb, err, t.name)
	return s
}

// client keeps its connections, as callers do.
var client = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 4096}}

// call makes one call, and repeats it later if the answer says so.
func (t target) call(ctx context.Context) error {
	const pause, tries = 100 * time.Millisecond, 600
	body := t.body()
	for range tries {
		req, err := http.NewRequestWithContext(ctx, t.method, t.url, strings.NewReader(body))
		if err != nil {
			return err
		}
		req.Header = t.header.Clone()
		resp, err := client.Do(req)
		if err != nil {
			return err
		}
		text, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil || resp.StatusCode == t.status {
			return err
		}
		if t.status != http.StatusAccepted || resp.StatusCode != http.StatusServiceUnavailable {
			return fmt.Errorf("%s: %s: %s", t.name, resp.Status, text)
		}
		if err := poll.Rest(ctx, pause); err != nil {
			return err
		}
	}
	return fmt.Errorf("%s: not now, for too long", t.name)
}

// execute is a call of Weir, or of the floor, that asks for an action and waits for its end;
// async does not wait.
func execute(p *process, body func() string) target {
	return target{
		name: "Weir", process: p, method: http.MethodPost, url: p.URL + "/v1/execute", body: body, status: http.StatusOK,
		header: http.Header{"Content-Type": {"application/json"}},
	}
}

func (t target) async() target {
	t.status, t.header = http.StatusAccepted, t.header.Clone()
	t.header.Set("Prefer", "respond-async")
	return t
}

// callOf asks for a call of a URL.
func callOf(method, url, body string) string {
	if body != "" {
		body = `,"body":` + body
	}
	return fmt.Sprintf(`{"method":%q,"url":%q,"allowlist_key":"up"%s}`, method, url, body)
}

// upstream is a target of calls. Each path that no lot has is answered at once.
type upstream struct {
	url  string
	mux  *http.ServeMux
	lots int
}

func newUpstream(tb testing.TB) *upstream {
	tb.Helper()
	u := &upstream{mux: http.NewServeMux()}
	u.mux.HandleFunc("/", succeed)
	s := httptest.NewServer(u.mux)
	u.url = s.URL
	tb.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return u
}

func succeed(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write([]byte(`{"ok":true}`))
}

// lot is the actions of one measurement, whose calls it counts: each has a path of its own.
type lot struct {
	name, url string
	takes     time.Duration
	hits      []atomic.Int32
	gate      chan struct{} // no call is answered before it is closed
	asked     atomic.Int64  // how many were asked for
	waiting   atomic.Int64  // how many calls have come
	answered  atomic.Int64
	part      atomic.Int64
	at        chan time.Time // when each part was answered
}

// lot is one of so many actions, which are answered, after a while, once it is open.
func (u *upstream) lot(n int, takes time.Duration) *lot {
	u.lots++
	name := fmt.Sprintf("lot-%d", u.lots)
	l := &lot{name: name, url: u.url + "/" + name + "/", takes: takes, gate: make(chan struct{}), hits: make([]atomic.Int32, n), at: make(chan time.Time, 64)}
	u.mux.Handle("/"+name+"/{action}", l)
	return l
}

func (l *lot) open() { close(l.gate) }

// next asks for the next action.
func (l *lot) next() string {
	i := l.asked.Add(1) - 1
	return fmt.Sprintf(`{"type":"Http","request_id":"%s-%d","args":%s}`, l.name, i, callOf(http.MethodPost, fmt.Sprint(l.url, i), smallBody))
}

// ServeHTTP is one call.
func (l *lot) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	i, err := strconv.Atoi(r.PathValue("action"))
	if err != nil || i >= len(l.hits) {
		http.NotFound(w, r)
		return
	}
	l.hits[i].Add(1)
	l.waiting.Add(1)
	select {
	case <-l.gate:
	case <-r.Context().Done():
		return
	}
	if l.takes > 0 && poll.Rest(r.Context(), l.takes) != nil {
		return
	}
	succeed(w, r)
	if n, part := l.answered.Add(1), l.part.Load(); part > 0 && n%part == 0 {
		l.at <- time.Now()
	}
}

// reached is when the next part has been answered.
func (l *lot) reached(tb testing.TB) time.Time {
	tb.Helper()
	select {
	case at := <-l.at:
		return at
	case <-time.After(10 * time.Minute):
		tb.Fatalf("%d of %d were answered, and no more are", l.answered.Load(), len(l.hits))
		return time.Time{}
	}
}

// once holds that no action was performed twice, and that so many were.
func (l *lot) once(tb testing.TB, want int) {
	tb.Helper()
	done := 0
	for i := range l.hits {
		n := int(l.hits[i].Load())
		require.LessOrEqual(tb, n, 1, "action %d was performed more than once", i)
		done += n
	}
	require.Equal(tb, want, done, "actions were performed")
}

// settled is how many actions processes say have succeeded.
func settled(tb testing.TB, all ...*process) (sum int) {
	tb.Helper()
	for _, p := range all {
		text := program.Client{Base: p.URL}.Ask(tb, http.MethodGet, "/metrics", "").Body
		http.DefaultClient.CloseIdleConnections()
		_, count, ok := strings.Cut(text, `weir_actions_settled_total{kind="http",outcome="succeeded"} `)
		require.True(tb, ok, "the count of settled actions is not among the metrics")
		var n float64
		_, err := fmt.Sscan(count, &n)
		require.NoError(tb, err)
		sum += int(n)
	}
	return sum
}

// settledBy waits until processes say that they have ended so many actions, and no more.
func settledBy(tb testing.TB, want int, all ...*process) {
	tb.Helper()
	poll.Until(tb, func() bool { return settled(tb, all...) >= want }, "each action ends")
	require.Equal(tb, want, settled(tb, all...), "each action ends once")
}

// deciles are the parts that a long queue is queued and worked off in.
const deciles = 10

// queueTable has a row for each part of a long queue: a queue that grows must not slow its own
// growing down, nor the work.
func queueTable(title string) table {
	return newTable(title+"; 64 callers queue the actions", "part", "a second", "largest process")
}

// queue has a lot's actions accepted. all are the processes whose memory is shown.
func (l *lot) queue(tb testing.TB, rows table, at target, all ...*process) {
	tb.Helper()
	for i := range deciles {
		s := at.async().put(tb, load{callers: 64}, limit{calls: len(l.hits) / deciles})
		rows.row(fmt.Sprintf("queued, %d of %d", i+1, deciles), s.rate(), heaviest(all...))
	}
}

// workOff opens the lot, whose calls have come, and measures how fast its first n are answered.
func (l *lot) workOff(tb testing.TB, rows table, n int, all ...*process) {
	tb.Helper()
	poll.Until(tb, func() bool { return l.waiting.Load() > 0 }, "the workers work")
	l.part.Store(int64(n / deciles))
	begun := time.Now()
	l.open()
	for i := range deciles {
		at := l.reached(tb)
		rows.row(fmt.Sprintf("done, %d of %d", i+1, deciles), float64(n/deciles)/at.Sub(begun).Seconds(), heaviest(all...))
		begun = at
	}
}
