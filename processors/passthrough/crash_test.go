package passthrough_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"weir/internal/fault"
	"weir/internal/ledger"
	"weir/internal/outbound"
	"weir/internal/policy"
	"weir/internal/redact"
	"weir/internal/secrets"
	"weir/internal/weirtest/fixture"
	"weir/internal/weirtest/harness"
	"weir/internal/weirtest/table"
	"weir/internal/weirtest/upstream"
	"weir/processors"
	"weir/processors/call"
	"weir/processors/call/direct"
	"weir/processors/executor"
	"weir/processors/guard"
	"weir/processors/passthrough"
	"weir/processors/settle"
	"weir/schemas"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var ref = schemas.Ref{Tenant: "default", Kind: schemas.KindPassthrough, ID: "a"}

// hidden is a secret of the entry, which the target says in two of its pieces.
const hidden = "AGWCANARY-0123456789"

// target answers over pipes, in a bubble.
type target struct {
	pieces []string
	every  time.Duration
	cut    bool // it breaks off after the pieces
	asked  atomic.Int32
	mu     sync.Mutex
	heard  []string // what came of each request's body; guarded by mu
}

func (s *target) dial(context.Context, string, string) (net.Conn, error) {
	near, far := net.Pipe()
	go func() {
		defer far.Close()
		req, err := http.ReadRequest(bufio.NewReader(far))
		if err != nil {
			return
		}
		body, err := io.ReadAll(req.Body)
		s.mu.Lock()
		s.heard = append(s.heard, fmt.Sprint(req.ContentLength, " ", string(body), " ", err))
		s.mu.Unlock()
		if s.asked.Add(1); err != nil {
			return
		}
		fmt.Fprint(far, "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nSet-Cookie: own\r\nTransfer-Encoding: chunked\r\n\r\n")
		for _, p := range s.pieces {
			time.Sleep(s.every)
			if _, err := fmt.Fprintf(far, "%x\r\n%s\r\n", len(p), p); err != nil {
				return
			}
		}
		if !s.cut {
			fmt.Fprint(far, "0\r\n\r\n")
		}
	}()
	return near, nil
}

// env is a worker between a log and a target.
type env struct {
	*harness.Bench
	*target

	policy harness.Policy
	client *outbound.Client
	body   func(ctx context.Context, name string) (io.ReadCloser, int64, error)
}

func newEnv(t *testing.T, s *target) *env {
	t.Helper()
	h := &env{Bench: harness.New(t, schemas.KindPassthrough, nil), target: s}
	h.policy.Enforce(t, policy.Entry{
		Name: "up", URLPrefix: "http://up.example/", Methods: []string{"GET", "POST", "PUT"}, Headers: map[string]string{"X-Key": "${secret:KEY}"},
	})
	names := upstream.NewNetwork(netip.AddrPort{}, map[string][][]string{"*": upstream.Answers("93.184.216.34")})
	h.client, h.body = outbound.New(outbound.Config{Resolver: names, Dial: s.dial}), h.Log.OpenBlob
	t.Cleanup(h.client.Close)
	h.Employ(h.hire)
	return h
}

func (h *env) hire(name string) harness.Handler {
	l := ledger.New(h.Log, harness.Layout(), time.Now)
	store := secrets.New(secrets.Config{LookupEnv: func(string) (string, bool) { return hidden, true }})
	adapter := direct.New(h.client, store, redact.New(nil))
	caller := call.New(l, guard.New(h.policy.InForce, nil), adapter, call.Config{Worker: name, Barrier: h.Barrier})
	return harness.Worker{
		Name: name, Alone: true, Log: h.Log, Ledger: l, Barrier: h.Barrier, Caller: caller,
		Kinds: func(r *settle.Recorder) map[schemas.Kind]processors.Kind {
			calls := executor.New(caller, r, call.Answers{Blobs: l})
			return map[schemas.Kind]processors.Kind{schemas.KindPassthrough: {Executor: passthrough.New(calls, adapter, l, direct.PassOptions{
				Idle: 30 * time.Second, Whole: 1 << 20, Stream: 1 << 20, Body: func(ctx context.Context, name string) (io.ReadCloser, int64, error) { return h.body(ctx, name) },
			})}}
		},
	}.Pipeline()
}

// end is how an action ended, by the log.
type end struct {
	schemas.Settled
	result   schemas.HTTPResult
	attempts []ledger.Attempt
	bodies   []string // of the answers that were shown, in order
}

func (h *env) end(msg string) (e end) {
	h.T.Helper()
	ends := 0
	require.NoError(h.T, h.Ingress.Replay(h.T.Context(), ref, func(ev schemas.Event) error {
		switch ev.Type {
		case schemas.EventDelta:
			p := fixture.Decode[schemas.AnswerPart](h.T, ev.Data)
			if ev.First {
				require.Equal(h.T, 200, p.Status, msg)
				e.bodies = append(e.bodies, "")
			}
			require.NotContains(h.T, string(ev.Data), hidden[:8], msg)
			require.Equal(h.T, ev.First, p.Headers != nil, msg)
			e.bodies[len(e.bodies)-1] += string(p.Piece())
		case schemas.EventSettled:
			ends++
			e.Settled = *ev.Settled
		default:
		}
		return nil
	}))
	require.Equal(h.T, 1, ends, "%s: terminal events", msg)
	if len(e.Result) > 0 {
		e.result = fixture.Decode[schemas.HTTPResult](h.T, e.Result)
	}
	e.attempts = harness.Load(h.T, h.Ingress, ref).Attempts
	ids := map[string]bool{}
	for _, ev := range harness.Evidence(h.T, h.Log, ref.ID) {
		require.False(h.T, ids[ev.ID], "%s: %s was left twice", msg, ev.ID)
		ids[ev.ID] = true
	}
	for _, t := range e.attempts {
		require.True(h.T, ids[settle.AttemptID(ref.ID, t.Attempt)], "%s: no evidence of attempt %d", msg, t.Number)
	}
	return e
}

func (h *env) run(method string) {
	h.T.Helper()
	class := policy.Class(method, false, policy.Permit{})
	harness.Claim(h.T, h.Ingress, schemas.Action{Kind: schemas.KindPassthrough, Class: class}, schemas.HTTPCall{Method: method, URL: "http://up.example/x", AllowlistKey: "up"})
	h.Advance(5 * time.Minute)
}

// slowly is an answer that is shown while it arrives.
func slowly(cut bool) *target {
	return &target{pieces: []string{"one ", hidden[:7], hidden[7:] + " two ", strings.Repeat("x", 100<<10), " three"}, every: time.Second, cut: cut}
}

var whole = "one " + redact.Mark + " two " + strings.Repeat("x", 100<<10) + " three"

// TestCrashAtEveryStep kills the worker at each thing it writes: there is one end, a call that may not be
// repeated is made once, and what was shown of an answer that ended is that answer.
func TestCrashAtEveryStep(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"GET", "PUT", "POST"} {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			harness.EachStep(t, 6, func(t *testing.T, n int, done bool, msg string) bool { //nolint:thelper // it is the test
				h := newEnv(t, slowly(false))
				h.DieAt(n, done)
				h.run(method)
				e := h.end(msg)
				asked := h.asked.Load()
				require.LessOrEqual(t, asked, int32(2), msg)
				switch e.Outcome {
				case schemas.OutcomeSucceeded:
					require.Equal(t, whole, e.bodies[len(e.bodies)-1], msg)
					require.True(t, e.result.Answer.Streamed, msg)
					require.EqualValues(t, len(whole)-len(redact.Mark)+len(hidden), e.result.Answer.Size, msg)
				case schemas.OutcomeUnknown:
					require.Equal(t, "POST", method, msg)
				default:
					require.Fail(t, "another end", "%s: %+v", msg, e.Settled)
				}
				if method == "POST" {
					require.LessOrEqual(t, asked, int32(1), msg)
					require.LessOrEqual(t, len(e.bodies), 1, msg)
				}
				return h.Crashes > 0
			})
		})
	}
}

// TestEndsEarly: readers of an answer that breaks off get no other one in its place, and a request to stop ends a safe
// call in the middle, and no other.
func TestEndsEarly(t *testing.T) {
	t.Parallel()
	type testCase struct {
		method    string
		cut, stop bool
		outcome   schemas.Outcome
		code      schemas.Code
		shown     string // at least
	}
	const failed, succeeded = schemas.OutcomeFailed, schemas.OutcomeSucceeded
	table.Bubble(t, map[string]testCase{
		"safe, cut":           {"GET", true, false, failed, schemas.UpstreamTruncated, whole},
		"idempotent, cut":     {"PUT", true, false, failed, schemas.UpstreamTruncated, whole},
		"once, cut":           {"POST", true, false, failed, schemas.UpstreamTruncated, whole},
		"safe, stopped":       {"GET", false, true, schemas.OutcomeCanceled, schemas.Canceled, "one "},
		"idempotent, stopped": {"PUT", false, true, succeeded, "", whole},
		"once, stopped":       {"POST", false, true, succeeded, "", whole},
	}, func(t *testing.T, tt testCase) {
		h := newEnv(t, slowly(tt.cut))
		if tt.stop {
			time.AfterFunc(2500*time.Millisecond, func() { h.Cancel(ref) })
		}
		h.run(tt.method)
		e := h.end("")
		require.Equal(t, []any{tt.outcome, tt.code}, []any{e.Outcome, e.Code})
		require.Equal(t, tt.cut, e.result.Variant == schemas.VariantRequest)
		require.Len(t, e.attempts, 1)
		require.EqualValues(t, 1, h.asked.Load())
		require.Len(t, e.bodies, 1)
		require.True(t, strings.HasPrefix(e.bodies[0], tt.shown))
	})
}

// TestQuickAnswers are one record, whatever their parts are.
func TestQuickAnswers(t *testing.T) {
	t.Parallel()
	type testCase struct {
		*target
		body string
	}
	table.Bubble(t, map[string]testCase{
		"one part":  {&target{pieces: []string{"[1, 2]\n"}}, `"[1, 2]\n"`},
		"two parts": {&target{pieces: []string{"a ", hidden[:9], hidden[9:]}, every: 10 * time.Millisecond}, `"a REDACTED"`},
		"none":      {&target{}, `null`},
		"bytes":     {&target{pieces: []string{"\xff"}}, `"/w=="`},
	}, func(t *testing.T, tt testCase) {
		h := newEnv(t, tt.target)
		h.run("GET")
		e := h.end("")
		require.Empty(t, e.bodies)
		require.Equal(t, tt.body, string(e.result.Answer.Body))
		require.False(t, e.result.Answer.Streamed)
		require.Equal(t, []schemas.Header{{Name: "set-cookie", Value: "own"}}, e.result.Answer.Hidden)
		require.Len(t, harness.Load(t, h.Ingress, ref).Events, 3, "accepted, attempt, settled")
	})
}

const (
	largeName = "00"
	largeBody = "the first half, and the second one"
)

// TestLargeBodies: a body that is stored apart is sent from there by each attempt. Of a damaged one, the
// target never gets the end.
func TestLargeBodies(t *testing.T) {
	t.Parallel()
	type testCase struct {
		method  string
		broken  int // attempts that find it damaged
		missing bool
		outcome schemas.Outcome
		code    schemas.Code
		heard   []string
	}
	const (
		whole = "34 " + largeBody + " <nil>"
		part  = "34  unexpected EOF" // the beginning is still in a buffer
	)
	table.Bubble(t, map[string]testCase{
		"whole":               {"POST", 0, false, schemas.OutcomeSucceeded, "", []string{whole}},
		"damaged, once":       {"POST", 9, false, schemas.OutcomeUnknown, schemas.OutcomeUnknownCode, []string{part}},
		"damaged":             {"PUT", 9, false, schemas.OutcomeFailed, schemas.RetriesExhausted, []string{part, part, part}},
		"damaged for a while": {"PUT", 1, false, schemas.OutcomeSucceeded, "", []string{part, whole}},
		"missing":             {"PUT", 0, true, schemas.OutcomeFailed, schemas.Poison, nil},
	}, func(t *testing.T, tt testCase) {
		h, opened := newEnv(t, &target{pieces: []string{"ok"}}), 0
		h.body = func(context.Context, string) (io.ReadCloser, int64, error) {
			if opened++; tt.missing {
				return nil, 0, fault.ErrNotFound
			}
			in := io.Reader(strings.NewReader(largeBody))
			if opened <= tt.broken+1 && tt.broken > 0 { // the first one is to see that it is there
				in = io.MultiReader(strings.NewReader("the first half"), iotest.ErrReader(errors.New("damaged")))
			}
			return io.NopCloser(in), int64(len(largeBody)), nil
		}
		harness.Claim(t, h.Ingress, schemas.Action{Kind: schemas.KindPassthrough, Class: policy.Class(tt.method, false, policy.Permit{})}, schemas.HTTPCall{
			Method: tt.method, URL: "http://up.example/x", AllowlistKey: "up", BodyBlob: largeName, BodyBytes: len(largeBody),
		})
		h.Advance(5 * time.Minute)
		e := harness.Load(t, h.Ingress, ref).Settled
		require.Equal(t, []any{tt.outcome, tt.code}, []any{e.Outcome, e.Code})
		h.mu.Lock()
		defer h.mu.Unlock()
		require.Equal(t, tt.heard, h.heard)
	})
}
