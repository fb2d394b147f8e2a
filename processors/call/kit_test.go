package call_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/fault"
	"weir/internal/ledger"
	"weir/internal/limits/destination"
	"weir/internal/policy"
	"weir/internal/telemetry"
	"weir/internal/weirtest/bucket"
	"weir/internal/weirtest/harness"
	"weir/internal/weirtest/memlog"
	"weir/internal/weirtest/rulebook"
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
	body     string // of the answer; empty: none
	wish     time.Duration
	headers  []schemas.Header
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
	keys   []string // the idempotency keys of what was sent
	mocked int      // answers of traffic rules
	// mocking runs while one is read, and its error is what becomes of it
	mocking func() error
}

func (t *target) Open(_ context.Context, p guard.Pass) (call.Exchange, error) {
	if p.Mocked() {
		return &exchange{target: t, pass: p}, nil
	}
	e := t.script[min(t.opened, len(t.script)-1)]
	t.opened++
	if e.opening != nil {
		e.opening()
	}
	if e.openErr != nil {
		return nil, e.openErr
	}
	return &exchange{target: t, pass: p, end: e}, nil
}

type exchange struct {
	target *target
	pass   guard.Pass
	end    end
}

func (x *exchange) Close() {}

func (x *exchange) Do(ctx context.Context, p guard.Pass, _ func()) (*call.Reply, error) {
	if p != x.pass && x.end.renewErr != nil {
		return nil, x.end.renewErr
	}
	x.pass = p
	if err := ctx.Err(); err != nil {
		return nil, &fault.Call{Code: schemas.UpstreamTimeout, Cause: err}
	}
	if x.pass.Mocked() {
		x.target.mocked++
		if x.target.mocking != nil {
			if err := x.target.mocking(); err != nil {
				return nil, err
			}
		}
		mock := x.pass.Effect().Answer
		return &call.Reply{Answer: schemas.Answer{Status: mock.Status, Body: mock.Body}}, nil
	}
	x.target.sent++
	x.target.urls = append(x.target.urls, x.pass.Permit().URL())
	x.target.keys = append(x.target.keys, x.pass.Call().IdempotencyKey)
	if x.end.during != nil {
		x.end.during()
	}
	if x.end.endless {
		<-ctx.Done()
		code := schemas.Canceled
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			code = schemas.UpstreamTimeout
		}
		return nil, &fault.Call{Code: code, Sent: true, Status: x.end.status, Cause: ctx.Err()}
	}
	if x.end.sendErr != nil {
		return nil, x.end.sendErr
	}
	answer := schemas.Answer{Status: x.end.status, Body: []byte("null"), RetryAfter: x.end.wish, Headers: x.end.headers}
	if b := x.end.body; b != "" {
		answer.Body, answer.JSON, answer.Hash, answer.Snippet = []byte(b), json.Valid([]byte(b)), "h", b
		if !answer.JSON {
			answer.Body = []byte(strconv.Quote(b))
		}
	}
	return &call.Reply{Answer: answer, Location: x.end.location}, nil
}

// env is one action with a call on an in-memory log.
type env struct {
	t      *testing.T
	ledger *ledger.Ledger
	caller *call.Caller
	task   *call.Task
	target *target
	stop   *harness.Stop
	left   []ledger.Attempt // evidence, in order
	rules  harness.Policy
	guard  *guard.Guard
	book   *rulebook.Book
	start  time.Time
	// again is when the last run's next attempt is due; zero: it came to a result
	again time.Time
	// actions counts those that calls were made for
	actions  int
	deadline time.Duration
	kind     schemas.Kind
	// destinations are those that every call goes by
	destinations *destination.Limiter
	// counted are the metrics, where a test asks for them
	counted map[string]int
	// barrier runs in the caller's, where a test asks for it
	barrier func()
}

type envConfig struct {
	draining <-chan struct{}
	method   string
	key      string // declared idempotency key
	declared bool   // the entry declares that its target honours keys
	derive   bool   // and has Weir derive them
	contract policy.Contract
	deadline time.Duration
	barrier  func(context.Context) error
	plan     bool
	kind     schemas.Kind  // default http
	hold     time.Duration // call.Config's; zero: the default
	limits   policy.Limits
	// redirects are those of the entry
	redirects int
	attempts  int // the task's own
	script    []end
}

// counter is metrics in a map.
type counter map[string]int

func (c counter) AttemptDone(string, string, schemas.Code, time.Duration) { c["attempts"]++ }
func (c counter) Retry(string, string, int, string, string)               { c["retries"]++ }
func (c counter) SchemaViolated(entry, mode string)                       { c[entry+" "+mode]++ }
func (c counter) RuleApplied(ruleType string)                             { c[ruleType]++ }

func newEnv(t *testing.T, cfg envConfig) *env {
	t.Helper()
	l := ledger.New(memlog.New(harness.Layout(), time.Now, memlog.Hooks{}), harness.Layout(), time.Now)
	entry := policy.Entry{
		Name: "up", URLPrefix: "http://up.example/", Network: "public", Limits: cfg.limits, Redirects: cfg.redirects,
		Methods: []string{"GET", "PUT", "POST", "PATCH", "DELETE", "HEAD", "OPTIONS"},
	}
	if cfg.declared {
		entry.UpstreamIdempotency = &policy.Idempotency{TTL: time.Hour, Derive: cfg.derive}
	}
	entry.Contract = cfg.contract
	b := &env{t: t, ledger: l, target: &target{script: cfg.script}, stop: harness.NewStop(t), book: &rulebook.Book{}, start: time.Now(), counted: map[string]int{}}
	if cfg.barrier == nil {
		cfg.barrier = harness.NoBarrier
	}
	b.rules.Enforce(t, entry)
	b.guard = guard.New(b.rules.InForce, b.book)
	b.destinations = destination.New(bucket.New(), nil, destination.Config{Worker: "w1", Metrics: telemetry.NewMetrics()})
	b.caller = call.New(l, b.guard, b.target, call.Config{
		Destinations: b.destinations,
		Worker:       "w1", Barrier: cfg.barrier, Rand: func() float64 { return 0 }, Draining: cfg.draining, Hold: cfg.hold, Metrics: counter(b.counted),
	})
	if cfg.deadline == 0 {
		cfg.deadline = 2 * time.Minute
	}
	b.deadline, b.kind = cfg.deadline, cfg.kind
	b.task = &call.Task{
		RetryStatus: !cfg.plan, Stop: b.stop.Stop, Attempts: cfg.attempts,
		Call: schemas.HTTPCall{Method: cfg.method, URL: "http://up.example/x", AllowlistKey: "up", IdempotencyKey: cfg.key},
		Record: func(_ context.Context, t ledger.Attempt) error {
			b.left = append(b.left, t)
			return nil
		},
	}
	b.anew(t)
	return b
}

// anew has the bench make the call of another action.
func (b *env) anew(t *testing.T) {
	t.Helper()
	b.actions++
	b.task.State = harness.Claim(t, b.ledger, schemas.Action{
		ID: strings.Repeat("a", b.actions), Kind: cmp.Or(b.kind, schemas.KindHTTP), Deadline: time.Now().Add(b.deadline), Payload: []byte("{}"),
	}, nil)
}

// run makes the call, which must come to a result, or to a retry that is due later: see again.
func (b *env) run() call.Result {
	b.t.Helper()
	r, err := b.caller.Run(b.t.Context(), b.task)
	b.again = time.Time{}
	if rest, later := errors.AsType[*call.Deferral](err); later && rest.Reason == schemas.WaitDelay {
		b.again = rest.Until
		return r
	}
	require.NoError(b.t, err)
	return r
}

// story is a call: what is done to it, what it comes to, the paths that its target is asked for,
// and how long that takes.
type story struct {
	envConfig
	rules []schemas.Rule
	act   func(b *env)
	want  func(call.Result) bool
	paths []string
	took  time.Duration
}

func (s story) play(t *testing.T) (*env, call.Result) {
	t.Helper()
	if s.script == nil {
		s.script = status(200)
	}
	b := newEnv(t, s.envConfig)
	b.book.Put(t, s.rules...)
	if s.act != nil {
		s.act(b)
	}
	r := b.run()
	assert.True(t, s.want(r), "result: %+v", r)
	b.asked(s.paths...)
	assert.Equal(t, s.took, b.elapsed())
	checkLog(t, b)
	return b, r
}

// asked asserts the paths that the target was asked for.
func (b *env) asked(paths ...string) {
	b.t.Helper()
	var urls []string
	for _, path := range paths {
		urls = append(urls, "http://up.example"+path)
	}
	assert.Equal(b.t, urls, b.target.urls)
}

// puts replaces the rules, after a while or at once.
func puts(after time.Duration, rules ...schemas.Rule) func(b *env) {
	return func(b *env) {
		if put := func() { b.book.Put(b.t, rules...) }; after > 0 {
			time.AfterFunc(after, put)
		} else {
			put()
		}
	}
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

// What a call may come to.
func answered(r call.Result) bool { return r.Answered && !r.Exhausted }
func spent(r call.Result) bool    { return r.Answered && r.Exhausted }
func failed(r call.Result) bool   { return r.Failed && !r.Exhausted }
func gaveUp(r call.Result) bool   { return r.Failed && r.Exhausted }
func unknown(r call.Result) bool  { return r.Unknown }
func canceled(r call.Result) bool { return r.Canceled }
func denied(r call.Result) bool   { return r.Denied }

// tries is p after so many attempts.
func tries(n int, p func(call.Result) bool) func(call.Result) bool {
	return func(r call.Result) bool { return p(r) && len(r.Tries) == n }
}

// refusedFor is a call that was not let pass.
func refusedFor(code schemas.Code) func(call.Result) bool {
	return func(r call.Result) bool { return r.Denied && r.Decision.Code == code }
}

// answers is an answer with a status.
func answers(status int) func(call.Result) bool {
	return func(r call.Result) bool { return r.Answered && r.Last.Result.Status == status }
}
