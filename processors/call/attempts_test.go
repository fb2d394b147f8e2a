package call_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/destination"
	"weir/internal/fault"
	"weir/internal/ledger"
	"weir/internal/policy"
	"weir/internal/weirtest/memlog"
	"weir/internal/weirtest/rulebook"
	"weir/internal/weirtest/shelf"
	"weir/internal/weirtest/table"
	"weir/processors/call"
	"weir/processors/guard"
	"weir/schemas"
)

// end is what the fake target does with one attempt.
type end struct {
	openErr error  // before anything is sent
	opening func() // runs while it is dialled
	sendErr error
	// renewErr is the refusal of a fresh pass
	renewErr error
	status   int
	wish     time.Duration
	location string // of a redirect
	during   func() // runs while the request is out
	endless  bool   // no whole answer comes; the request ends with its context
}

// target is an Adapter that follows a script and counts what it was sent.
type target struct {
	script []end
	opened int
	sent   int
	urls   []string // of what was sent
	mocked int      // answers of traffic rules
	// mocking runs while one is read, and its error is what becomes of it
	mocking func() error
}

func (t *target) Open(_ context.Context, p guard.Pass) (call.Exchange, error) {
	if p.Mocked() {
		return &exchange{target: t, pass: p, begun: make(chan struct{})}, nil
	}
	e := t.script[min(t.opened, len(t.script)-1)]
	t.opened++
	if e.opening != nil {
		e.opening()
	}
	if e.openErr != nil {
		return nil, e.openErr
	}
	return &exchange{target: t, pass: p, end: e, begun: make(chan struct{})}, nil
}

type exchange struct {
	target *target
	pass   guard.Pass
	end    end
	begun  chan struct{}
	once   sync.Once
}

func (x *exchange) Close() { x.once.Do(func() { close(x.begun) }) }

func (x *exchange) Begun() <-chan struct{} { return x.begun }

func (x *exchange) Renew(p guard.Pass) error {
	x.pass = p
	return x.end.renewErr
}

func (x *exchange) Do(ctx context.Context) (call.Reply, error) {
	if err := ctx.Err(); err != nil {
		return call.Reply{}, &fault.Call{Code: schemas.UpstreamTimeout, Cause: err}
	}
	if x.pass.Mocked() {
		x.target.mocked++
		if x.target.mocking != nil {
			if err := x.target.mocking(); err != nil {
				return call.Reply{}, err
			}
		}
		return call.Reply{Answer: schemas.Answer{Status: x.pass.Answer().Status, Body: x.pass.Answer().Body}}, nil
	}
	x.target.sent++
	x.target.urls = append(x.target.urls, x.pass.Permit().URL())
	if x.end.during != nil {
		x.end.during()
	}
	if x.end.endless {
		<-ctx.Done()
		code := schemas.Canceled
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			code = schemas.UpstreamTimeout
		}
		return call.Reply{}, &fault.Call{Code: code, Sent: true, Status: x.end.status, Cause: ctx.Err()}
	}
	if x.end.sendErr != nil {
		return call.Reply{}, x.end.sendErr
	}
	return call.Reply{
		Answer:   schemas.Answer{Status: x.end.status, Body: []byte("null"), RetryAfter: x.end.wish},
		Location: x.end.location,
	}, nil
}

// stopper is a call.Stop that a test can pull.
type stopper struct {
	ctx  context.Context
	pull context.CancelFunc
}

func newStopper(t *testing.T) *stopper {
	t.Helper()
	ctx, pull := context.WithCancel(context.Background())
	t.Cleanup(pull)
	return &stopper{ctx, pull}
}

func (s *stopper) Requested() bool                { return s.ctx.Err() != nil }
func (s *stopper) Done() <-chan struct{}          { return s.ctx.Done() }
func (s *stopper) AfterFunc(f func()) func() bool { return context.AfterFunc(s.ctx, f) }

// bench is one action with a call on an in-memory log.
type bench struct {
	t      *testing.T
	ledger *ledger.Ledger
	caller *call.Caller
	task   *call.Task
	target *target
	stop   *stopper
	left   []ledger.Try // evidence, in order
	rules  atomic.Pointer[policy.Policy]
	guard  *guard.Guard
	book   *rulebook.Book
	start  time.Time
	// actions counts those that calls were made for
	actions  int
	deadline time.Duration
	// destinations are those that every call goes by
	destinations *destination.Book
	// counted are the metrics, where a test asks for them
	counted map[string]int
	// barrier runs in the caller's, where a test asks for it
	barrier func()
}

type benchConfig struct {
	draining <-chan struct{}
	method   string
	key      string // declared idempotency key
	declared bool   // the entry declares that its target honours keys
	deadline time.Duration
	barrier  func(context.Context) error
	plan     bool
	hold     time.Duration // call.Config's; zero: the default
	limits   policy.Limits
	// redirects are those of the entry
	redirects int
	script    []end
}

// counter is metrics in a map.
type counter map[string]int

func (c counter) AttemptDone(string, string, schemas.Code, time.Duration) { c["attempts"]++ }
func (c counter) Retry(string, string, int, string, string)               { c["retries"]++ }
func (c counter) RuleApplied(ruleType string)                             { c[ruleType]++ }

func newBench(t *testing.T, cfg benchConfig) *bench {
	t.Helper()
	layout := schemas.Layout{Partitions: 1, Lanes: 8}
	log := memlog.New(layout, time.Now, memlog.Hooks{})
	l := ledger.New(log, layout, time.Now)
	entry := policy.Entry{
		Name: "up", URLPrefix: "http://up.example/", Network: "public", Limits: cfg.limits, Redirects: cfg.redirects,
		Methods: []string{"GET", "PUT", "POST", "PATCH", "DELETE", "HEAD", "OPTIONS"},
	}
	if cfg.declared {
		entry.UpstreamIdempotency = &policy.Idempotency{TTL: time.Hour}
	}
	p, err := policy.Compile(policy.Config{Entries: []policy.Entry{entry}})
	require.NoError(t, err)
	b := &bench{t: t, ledger: l, target: &target{script: cfg.script}, stop: newStopper(t), book: &rulebook.Book{}, start: time.Now(), counted: map[string]int{}}
	if cfg.barrier == nil {
		cfg.barrier = func(context.Context) error { return nil }
	}
	b.rules.Store(p)
	b.guard = guard.New(b.rules.Load, b.book)
	b.destinations = destination.New(shelf.New(), nil, destination.Config{Worker: "w1"})
	b.caller = call.New(l, b.guard, b.target, call.Config{
		Destinations: b.destinations,
		Worker:       "w1", Barrier: cfg.barrier, Rand: func() float64 { return 0 }, Draining: cfg.draining, Hold: cfg.hold, Metrics: counter(b.counted),
	})
	if cfg.deadline == 0 {
		cfg.deadline = 2 * time.Minute
	}
	b.deadline = cfg.deadline
	b.task = &call.Task{
		JudgeStatus: !cfg.plan, Stop: b.stop,
		Call: schemas.HTTPCall{Method: cfg.method, URL: "http://up.example/x", AllowlistKey: "up", IdempotencyKey: cfg.key},
		Record: func(_ context.Context, t ledger.Try) error {
			b.left = append(b.left, t)
			return nil
		},
	}
	b.anew(t)
	return b
}

// anew has the bench make the call of another action.
func (b *bench) anew(t *testing.T) {
	t.Helper()
	b.actions++
	st, duplicate, err := b.ledger.Claim(t.Context(), schemas.Action{
		ID: strings.Repeat("a", b.actions), Tenant: "default", Kind: schemas.KindHTTP, Fingerprint: "f",
		AcceptedAt: time.Now().UTC(), Deadline: time.Now().Add(b.deadline).UTC(), Payload: []byte("{}"),
	})
	require.NoError(t, err)
	require.False(t, duplicate)
	b.task.State = st
}

func status(codes ...int) []end {
	var ends []end
	for _, c := range codes {
		ends = append(ends, end{status: c})
	}
	return ends
}

var (
	refused = end{openErr: &fault.Call{Code: schemas.UpstreamConnect}}
	reset   = end{sendErr: &fault.Call{Code: schemas.UpstreamReset, Sent: true}}
	slow    = end{sendErr: &fault.Call{Code: schemas.UpstreamTimeout, Sent: true}}
	unread  = end{sendErr: &fault.Call{Code: schemas.UpstreamTimeout, Sent: true, Status: 200, NoMemory: true}, during: func() { time.Sleep(time.Minute) }}
	unsent  = end{sendErr: &fault.Call{Code: schemas.UpstreamReset}}
	huge    = end{sendErr: &fault.Call{Code: schemas.UpstreamTooLarge, Sent: true, Status: 200}}
	cutOff  = end{sendErr: &fault.Call{Code: schemas.UpstreamTruncated, Sent: true, Status: 200}}
)

// TestRun holds every class against every way an attempt can end.
func TestRun(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		benchConfig
		want  func(call.Result) bool
		sent  int
		tries int
		took  time.Duration
	}{
		"a GET that is answered": {
			benchConfig{method: "GET", script: status(200)},
			func(r call.Result) bool { return r.Answered && !r.Exhausted }, 1, 1, 0,
		},
		"a GET is tried three times, 200 ms and 400 ms apart": {
			benchConfig{method: "GET", script: status(500, 429, 200)},
			func(r call.Result) bool { return r.Answered && !r.Exhausted }, 3, 3, 600 * time.Millisecond,
		},
		"the budget of a GET is spent": {
			benchConfig{method: "GET", script: status(503)},
			func(r call.Result) bool { return r.Answered && r.Exhausted }, 3, 3, 600 * time.Millisecond,
		},
		"a 404 is final": {
			benchConfig{method: "GET", script: status(404)},
			func(r call.Result) bool { return r.Answered && !r.Exhausted }, 1, 1, 0,
		},
		"a plan's 503 is an answer": {
			benchConfig{method: "GET", plan: true, script: status(503)},
			func(r call.Result) bool { return r.Answered && !r.Exhausted }, 1, 1, 0,
		},
		"a plan's GET is repeated when nothing came back": {
			benchConfig{method: "GET", plan: true, script: []end{reset, {status: 200}}},
			func(r call.Result) bool { return r.Answered }, 2, 2, 200 * time.Millisecond,
		},
		"a PUT is repeated after a reset": {
			benchConfig{method: "PUT", script: []end{reset, {status: 200}}},
			func(r call.Result) bool { return r.Answered }, 2, 2, 200 * time.Millisecond,
		},
		"a DELETE that nobody answers": {
			benchConfig{method: "DELETE", script: []end{slow}},
			func(r call.Result) bool { return r.Failed && r.Exhausted }, 3, 3, 600 * time.Millisecond,
		},
		"a POST that was sent is never repeated": {
			benchConfig{method: "POST", script: []end{reset}},
			func(r call.Result) bool { return r.Unknown }, 1, 1, 0,
		},
		"a POST that timed out is never repeated": {
			benchConfig{method: "POST", script: []end{slow}},
			func(r call.Result) bool { return r.Unknown }, 1, 1, 0,
		},
		"a POST's 500 is an outcome": {
			benchConfig{method: "POST", script: status(500)},
			func(r call.Result) bool { return r.Answered && !r.Exhausted }, 1, 1, 0,
		},
		"a POST's 429 is an outcome": {
			benchConfig{method: "POST", script: status(429)},
			func(r call.Result) bool { return r.Answered && !r.Exhausted }, 1, 1, 0,
		},
		"a status line ends the doubt about a POST": {
			benchConfig{method: "POST", script: []end{cutOff}},
			func(r call.Result) bool { return r.Failed && !r.Exhausted }, 1, 1, 0,
		},
		"a POST that could not connect may be tried again": {
			benchConfig{method: "POST", script: []end{refused, refused, {status: 201}}},
			func(r call.Result) bool { return r.Answered }, 1, 3, 600 * time.Millisecond,
		},
		"a POST that can never connect": {
			benchConfig{method: "POST", script: []end{refused}},
			func(r call.Result) bool { return r.Failed && r.Exhausted }, 0, 3, 600 * time.Millisecond,
		},
		"a POST of which no byte left may be tried again": {
			benchConfig{method: "POST", script: []end{unsent, {status: 200}}},
			func(r call.Result) bool { return r.Answered }, 2, 2, 200 * time.Millisecond,
		},
		"a key alone proves nothing": {
			benchConfig{method: "POST", key: "k", script: []end{reset}},
			func(r call.Result) bool { return r.Unknown }, 1, 1, 0,
		},
		"a declared key allows a repeat": {
			benchConfig{method: "POST", key: "k", declared: true, script: []end{reset, {status: 200}}},
			func(r call.Result) bool { return r.Answered }, 2, 2, 200 * time.Millisecond,
		},
		"a declared key's budget is spent, and nobody knows": {
			benchConfig{method: "PATCH", key: "k", declared: true, script: []end{reset}},
			func(r call.Result) bool { return r.Unknown }, 3, 3, 600 * time.Millisecond,
		},
		"a keyed call stays in doubt, though what followed never left": {
			benchConfig{method: "POST", key: "k", declared: true, script: []end{reset, refused}},
			func(r call.Result) bool { return r.Unknown }, 1, 3, 600 * time.Millisecond,
		},
		"an answer ends the doubt": {
			benchConfig{method: "POST", key: "k", declared: true, script: []end{reset, {status: 503}, refused}},
			func(r call.Result) bool { return r.Failed && r.Exhausted }, 2, 3, 600 * time.Millisecond,
		},
		"an answer that broke a limit would break it again": {
			benchConfig{method: "GET", script: []end{huge}},
			func(r call.Result) bool { return r.Failed && !r.Exhausted }, 1, 1, 0,
		},
		"the upstream's wish is granted": {
			benchConfig{method: "GET", script: []end{{status: 503, wish: 2 * time.Second}, {status: 200}}},
			func(r call.Result) bool { return r.Answered }, 2, 2, 2 * time.Second,
		},
		"a wish beyond the deadline is not": {
			benchConfig{method: "GET", script: []end{{status: 503, wish: time.Hour}, {status: 200}}},
			func(r call.Result) bool { return r.Answered }, 2, 2, 200 * time.Millisecond,
		},
		"no retry starts after the deadline": {
			benchConfig{method: "GET", deadline: 300 * time.Millisecond, script: status(503)},
			func(r call.Result) bool { return r.Answered && r.Exhausted }, 2, 2, 200 * time.Millisecond,
		},
		"a long wish gives the slot back": {
			benchConfig{method: "GET", script: []end{{status: 503, wish: 30 * time.Second}}},
			func(r call.Result) bool { return !r.Again.IsZero() }, 1, 1, 0,
		},
		"a method that no entry allows": {
			benchConfig{method: "TRACE", script: status(200)},
			func(r call.Result) bool { return r.Denied && r.Decision.Code == schemas.DenyMethod }, 0, 0, 0,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, tt.benchConfig)
				start := time.Now()
				r, err := b.caller.Run(t.Context(), b.task)
				require.NoError(t, err)
				assert.True(t, tt.want(r), "result: %+v", r)
				assert.Equal(t, tt.sent, b.target.sent, "requests that the target received")
				assert.Len(t, r.Tries, tt.tries)
				assert.Len(t, b.left, tt.tries, "every attempt leaves evidence")
				assert.Equal(t, tt.took, time.Since(start))
				checkLog(t, b)
			})
		})
	}
}

// checkLog reads the action back: the fold of the log is the state in hand, and
// every request that was sent was written down before.
func checkLog(t *testing.T, b *bench) {
	t.Helper()
	st, err := b.ledger.Load(t.Context(), b.task.State.Ref)
	require.NoError(t, err)
	assert.Equal(t, b.task.State.Seq, st.Seq)
	assert.Equal(t, b.task.State.N, st.N)
	assert.Len(t, st.Attempts, len(b.task.State.Attempts))
	declared := 0
	for _, e := range st.Events {
		if e.Type == schemas.EventAttempt {
			declared++
		}
	}
	assert.GreaterOrEqual(t, declared, b.target.sent)
}

func TestNothingIsSentBeforeTheAttemptIsDurable(t *testing.T) {
	t.Parallel()
	broken := errors.New("the disk is gone")
	for method, sent := range map[string]int{"POST": 0, "PUT": 0, "GET": 1} {
		b := newBench(t, benchConfig{method: method, script: status(200), barrier: func(context.Context) error { return broken }})
		_, err := b.caller.Run(t.Context(), b.task)
		assert.Equal(t, sent, b.target.sent, method)
		if sent == 0 {
			require.ErrorIs(t, err, broken)
		}
	}
}

func TestFencedWorkerSendsNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t, benchConfig{method: "GET", script: status(200)})
	other, err := b.ledger.Load(t.Context(), b.task.State.Ref)
	require.NoError(t, err)
	require.NoError(t, b.ledger.Append(t.Context(), other, schemas.Event{Type: schemas.EventStarted, Started: &schemas.Started{Worker: "w2"}}))
	_, err = b.caller.Run(t.Context(), b.task)
	require.ErrorIs(t, err, fault.ErrFenced)
	assert.Zero(t, b.target.sent)
}

func TestCancelCutsOffASafeCallOnly(t *testing.T) {
	t.Parallel()
	for method, want := range map[string]func(call.Result) bool{
		"GET": func(r call.Result) bool { return r.Canceled },
		"PUT": func(r call.Result) bool { return r.Answered },
	} {
		synctest.Test(t, func(t *testing.T) {
			cfg := benchConfig{method: method, script: []end{{status: 200}}}
			b := newBench(t, cfg)
			cut := end{sendErr: &fault.Call{Code: schemas.UpstreamReset, Sent: true}, during: b.stop.pull}
			whole := end{status: 200, during: b.stop.pull}
			b.target.script = []end{whole}
			if method == "GET" {
				b.target.script = []end{cut}
			}
			r, err := b.caller.Run(t.Context(), b.task)
			require.NoError(t, err)
			assert.True(t, want(r), "%s: %+v", method, r)
			assert.Equal(t, 1, b.target.sent)
		})
	}
}

func TestCancelBeforeTheFirstAttempt(t *testing.T) {
	t.Parallel()
	b := newBench(t, benchConfig{method: "POST", script: status(200)})
	b.stop.pull()
	r, err := b.caller.Run(t.Context(), b.task)
	require.NoError(t, err)
	assert.True(t, r.Canceled)
	assert.Zero(t, b.target.opened)
}

// TestAbandon is the crash between an attempt and its result, for each class.
func TestAbandon(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		benchConfig
		want func(call.Result) bool
		sent int // by the worker that takes over
	}{
		"safe":       {benchConfig{method: "GET", script: status(200)}, func(r call.Result) bool { return r.Answered }, 1},
		"idempotent": {benchConfig{method: "PUT", script: status(200)}, func(r call.Result) bool { return r.Answered }, 1},
		"keyed":      {benchConfig{method: "POST", key: "k", declared: true, script: status(200)}, func(r call.Result) bool { return r.Answered }, 1},
		"once":       {benchConfig{method: "POST", script: status(200)}, func(r call.Result) bool { return r.Unknown }, 0},
		"once, key":  {benchConfig{method: "POST", key: "k", script: status(200)}, func(r call.Result) bool { return r.Unknown }, 0},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, tt.benchConfig)
				p, _ := guardOf(t, b, tt.benchConfig)
				attempt := schemas.Attempt{
					Number: 1, Class: p.Class(), Worker: "w0", Decision: p.Decision(), Digest: call.Digest(p.Call()), ExpiresAt: time.Now(),
				}
				if attempt.Class == schemas.ClassKeyed {
					attempt.KeyExpiresAt = time.Now().Add(time.Hour)
				}
				require.NoError(t, b.ledger.Append(t.Context(), b.task.State, schemas.Event{Type: schemas.EventAttempt, Attempt: &attempt}))
				require.NoError(t, b.caller.Abandon(t.Context(), b.task.State))
				r, err := b.caller.Run(t.Context(), b.task)
				require.NoError(t, err)
				assert.True(t, tt.want(r), "result: %+v", r)
				assert.Equal(t, tt.sent, b.target.sent)
				assert.Equal(t, schemas.Interrupted, r.Tries[0].Result.Code)
				checkLog(t, b)
			})
		})
	}
}

func guardOf(t *testing.T, b *bench, cfg benchConfig) (guard.Pass, schemas.Decision) {
	t.Helper()
	entry := policy.Entry{Name: "up", URLPrefix: "http://up.example/", Methods: []string{cfg.method}}
	if cfg.declared {
		entry.UpstreamIdempotency = &policy.Idempotency{TTL: time.Hour}
	}
	p, err := policy.Compile(policy.Config{Entries: []policy.Entry{entry}})
	require.NoError(t, err)
	return guard.New(func() *policy.Policy { return p }, nil).Check(b.task.Call, guard.Scope{})
}

func TestKeyOutlived(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, benchConfig{method: "POST", key: "k", declared: true, script: []end{reset}})
		b.task.State.Action.Deadline = time.Now().Add(3 * time.Hour)
		attempt := schemas.Attempt{Number: 1, Class: schemas.ClassKeyed, KeyExpiresAt: time.Now().Add(100 * time.Millisecond)}
		require.NoError(t, b.ledger.Append(t.Context(), b.task.State, schemas.Event{Type: schemas.EventAttempt, Attempt: &attempt}))
		require.NoError(t, b.caller.Abandon(t.Context(), b.task.State))
		r, err := b.caller.Run(t.Context(), b.task)
		require.NoError(t, err)
		assert.True(t, r.Unknown, "a repeat with a key that has run out is a blind one")
		assert.Zero(t, b.target.sent)
	})
}

// TestDrain: a worker that drains begins nothing, and gives the message back.
func TestDrain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		draining := make(chan struct{})
		b := newBench(t, benchConfig{method: "PUT", draining: draining, script: []end{{status: 503, during: func() { close(draining) }}}})
		_, err := b.caller.Run(t.Context(), b.task)
		var later *fault.Later
		require.ErrorAs(t, err, &later)
		assert.Equal(t, 1, b.target.sent, "the attempt under way is finished, and none follows")
		checkLog(t, b)
	})
}

// TestRestEndsWithACancel: an action that rests until a retry is due does not
// wait for it any more, and a call in doubt stays in doubt.
func TestRestEndsWithACancel(t *testing.T) {
	t.Parallel()
	type testCase struct {
		benchConfig
		want func(call.Result) bool
	}
	table.Bubble(t, map[string]testCase{
		"answered": {benchConfig{method: "GET", script: []end{{status: 503, wish: time.Minute}}}, func(r call.Result) bool { return r.Canceled }},
		"in doubt": {benchConfig{method: "POST", key: "k", declared: true, script: []end{reset}}, func(r call.Result) bool { return r.Unknown }},
		"not sent": {benchConfig{method: "POST", script: []end{refused}}, func(r call.Result) bool { return r.Canceled }},
		"harmless": {benchConfig{method: "PUT", script: []end{reset}}, func(r call.Result) bool { return r.Canceled }},
	}, func(t *testing.T, tt testCase) {
		b := newBench(t, tt.benchConfig)
		start := time.Now()
		time.AfterFunc(50*time.Millisecond, b.stop.pull)
		r, err := b.caller.Run(t.Context(), b.task)
		require.NoError(t, err)
		if !r.Again.IsZero() {
			synctest.Wait()
			<-b.stop.Done()
			r, err = b.caller.Run(t.Context(), b.task)
			require.NoError(t, err)
		}
		assert.True(t, tt.want(r), "%+v", r)
		assert.Less(t, time.Since(start), time.Second)
	})
}

// TestPlannedRetryIsAskedAboutAgain: what was planned under one policy is not
// done under another that does not allow it.
func TestPlannedRetryIsAskedAboutAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, benchConfig{method: "POST", key: "k", script: status(200)}) // the entry declares nothing any more
		now := time.Now()
		attempt := schemas.Attempt{Number: 1, Class: schemas.ClassKeyed, KeyExpiresAt: now.Add(time.Hour)}
		done := schemas.Attempted{Number: 1, Code: schemas.UpstreamReset, Sent: true, RetryAt: now}
		require.NoError(t, b.ledger.Append(t.Context(), b.task.State, schemas.Event{Type: schemas.EventAttempt, Attempt: &attempt}))
		require.NoError(t, b.ledger.Append(t.Context(), b.task.State, schemas.Event{Type: schemas.EventAttempted, Attempted: &done}))
		r, err := b.caller.Run(t.Context(), b.task)
		require.NoError(t, err)
		assert.True(t, r.Unknown)
		assert.Zero(t, b.target.sent)

		b = newBench(t, benchConfig{method: "POST", key: "k", declared: true, script: status(200)}) // the key ran out while it waited
		attempt.KeyExpiresAt = now
		require.NoError(t, b.ledger.Append(t.Context(), b.task.State, schemas.Event{Type: schemas.EventAttempt, Attempt: &attempt}))
		require.NoError(t, b.ledger.Append(t.Context(), b.task.State, schemas.Event{Type: schemas.EventAttempted, Attempted: &done}))
		r, err = b.caller.Run(t.Context(), b.task)
		require.NoError(t, err)
		assert.True(t, r.Unknown)
		assert.Zero(t, b.target.sent)
	})
}

func TestZeroPassIsRefused(t *testing.T) {
	t.Parallel()
	assert.False(t, guard.Pass{}.Valid())
}

// TestAttempts: a task may have fewer attempts than the schedule, or more. What a model is
// asked by tells nobody where it stands.
func TestAttempts(t *testing.T) {
	t.Parallel()
	for most, want := range map[int]int{0: 3, 1: 1, 2: 2, 5: 4} {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t, benchConfig{method: "GET", script: status(503, 503, 503, 200)})
			b.task.Attempts = most
			r, err := b.caller.Run(t.Context(), b.task)
			require.NoError(t, err)
			assert.Len(t, r.Tries, want, most)
			assert.Equal(t, want < 4, r.Exhausted)
			checkLog(t, b)
		})
	}
}

func TestRoute(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"http://10.0.0.1/v1/chat/completions": "/chat/completions", "http://a.example/agents/run/stream": "/agents/run/stream", "http://a.example/secret": "",
	} {
		assert.Equal(t, want, call.Route(url))
	}
}
