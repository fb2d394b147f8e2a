package egress_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/ledger"
	"weir/internal/problem"
	"weir/schemas"
)

var passed = schemas.Ref{Tenant: "acme", Kind: schemas.KindPassthrough, ID: "p"}

// part writes the next part of an answer; the first one if it has a status.
func (h *env) part(st *ledger.State, status int, text string) {
	h.t.Helper()
	p := schemas.AnswerPart{Status: status, Text: text}
	if status != 0 {
		p.Headers = []schemas.Header{{Name: "content-length", Value: "3"}, {Name: "set-cookie", Value: "REDACTED"}, {Name: "x-request-id", Value: "theirs"}}
		p.Hidden = []schemas.Header{{Name: "set-cookie", Value: "sid=1"}}
	}
	data, err := ledger.Encode(p)
	require.NoError(h.t, err)
	h.append(st, schemas.Event{Type: schemas.EventDelta, First: status != 0, Data: data})
}

// tried writes an attempt.
func (h *env) tried(st *ledger.State, number int) {
	h.t.Helper()
	h.append(st, schemas.Event{Type: schemas.EventAttempt, Attempt: &schemas.Attempt{Number: number, Class: schemas.ClassSafe, Worker: "w"}})
}

// passedOn ends an action with a streamed answer.
func (h *env) passedOn(st *ledger.State, size int64) {
	h.t.Helper()
	a := &schemas.Answer{Status: 200, Headers: []schemas.Header{}, Body: []byte("null"), Streamed: true, Size: size}
	doc, err := ledger.Encode(schemas.HTTPResult{Answer: a})
	require.NoError(h.t, err)
	h.append(st, schemas.Event{
		Type: schemas.EventSettled, Attempted: &schemas.Attempted{Number: len(st.Attempts), Status: 200, Sent: true},
		Settled: &schemas.Settled{Outcome: schemas.OutcomeSucceeded, Result: doc},
	})
}

// reader is a client that reads an answer as it comes.
type reader struct {
	w     *httptest.ResponseRecorder
	leave context.CancelFunc
	done  chan bool // whether the connection was cut
	left  int
}

func (r *reader) end() (cut bool) { return <-r.done }

// joins has a client wait for the answer, as the one that has made the action or as another.
func (h *env) joins(another bool) *reader {
	ctx, leave := context.WithCancel(h.t.Context())
	r := &reader{w: httptest.NewRecorder(), leave: leave, done: make(chan bool, 1)}
	release := h.server.Expect(passed)
	go func() {
		defer release()
		defer func() {
			err, _ := recover().(error)
			r.done <- errors.Is(err, http.ErrAbortHandler)
		}()
		req := httptest.NewRequestWithContext(problem.WithRequestID(ctx, "r"), http.MethodGet, "/via/e/x", http.NoBody)
		report := problem.ReportOf(req.Context())
		report.Entry, report.Called = "e", "http://h.example/x"
		h.server.ReplyOr(r.w, req, passed, schemas.Receipt{Duplicate: another}, -1, func() { r.left++ })
	}()
	return r
}

// begins has a client get the beginning of an answer.
func (h *env) begins() (*ledger.State, *reader) {
	h.t.Helper()
	st := h.claim(passed)
	first := h.joins(false)
	h.tried(st, 1)
	h.part(st, 200, "ab")
	synctest.Wait()
	return st, first
}

// TestPassedAnswerIsCutAndRead: wherever a client leaves, and whenever another joins, that one has all.
func TestPassedAnswerIsCutAndRead(t *testing.T) {
	t.Parallel()
	for at := range 6 {
		synctest.Test(t, func(t *testing.T) {
			h := build(t)
			st := h.claim(passed)
			first := h.joins(false)
			synctest.Wait()
			var late *reader
			for i, write := range []func(){
				func() { h.tried(st, 1) }, func() { h.part(st, 201, "") }, func() { h.part(st, 0, "a") }, func() { h.part(st, 0, "b") }, func() { h.passedOn(st, 2) },
			} {
				if i == at {
					first.leave()
					assert.False(t, first.end())
					assert.Equal(t, []any{"ab"[:max(0, i-2)], 1}, []any{first.w.Body.String(), first.left}, i)
					late = h.joins(true)
				}
				write()
				synctest.Wait()
			}
			if late == nil {
				late = first
			}
			require.False(t, late.end())
			assert.Equal(t, []any{201, "ab", 0}, []any{late.w.Code, late.w.Body.String(), late.left}, at)
			assert.Equal(t, http.Header{
				"Date": nil, "Content-Type": nil, "Set-Cookie": {"sid=1; Path=/via/e"}, "X-Request-Id": {"theirs"}, "Weir-Action-Id": {"p"}, "Content-Security-Policy": {"sandbox"},
			}, late.w.Header())
			again := h.get("/v1/actions/p/response")
			assert.Equal(t, []any{201, "ab", "sid=1"}, []any{again.Code, again.Body.String(), again.Header().Get("Set-Cookie")})
			assert.Equal(t, "sandbox", again.Header().Get("Content-Security-Policy"))
			assert.NotContains(t, h.get("/v1/actions/p/events", "Accept", "application/json").Body.String(), "sid")
			assert.Contains(t, h.get("/v1/actions/p").Body.String(), `"body":null,"body_size":2`)
		})
	}
}

// TestPassedAnswerOfAnotherAttempt: a client that has the beginning of an answer gets nothing of another
// one, and a client that comes later gets only that.
func TestPassedAnswerOfAnotherAttempt(t *testing.T) {
	t.Parallel()
	for _, abandoned := range []bool{true, false} { // by a worker that stops, or by one that died
		synctest.Test(t, func(t *testing.T) {
			h := build(t)
			st, first := h.begins()
			require.Equal(t, "ab", first.w.Body.String())
			if abandoned {
				h.append(st, schemas.Event{Type: schemas.EventAttempted, Attempted: &schemas.Attempted{Number: 1, Code: schemas.Interrupted, Sent: true, RetryAt: time.Now()}})
				require.True(t, first.end())
			}
			h.tried(st, 2)
			second := h.joins(true)
			synctest.Wait()
			h.part(st, 200, "x")
			h.part(st, 0, "yz")
			if !abandoned {
				require.True(t, first.end())
			}
			h.passedOn(st, 3)
			require.False(t, second.end())
			assert.Equal(t, []string{"ab", "xyz", "xyz"}, []string{first.w.Body.String(), second.w.Body.String(), h.get("/v1/actions/p/response").Body.String()})
		})
	}
}

// TestPassedAnswerAsAWhole: a client that joins after an answer has broken off gets the whole one that
// follows.
func TestPassedAnswerAsAWhole(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := build(t)
		st, first := h.begins()
		h.tried(st, 2)
		second := h.joins(true)
		synctest.Wait()
		h.settle(st, schemas.Settled{Outcome: schemas.OutcomeSucceeded, Result: []byte(`{"answer":{"status":200,"headers":[],"body":"\"whole\" "}}`)})
		require.True(t, first.end())
		require.False(t, second.end())
		assert.Equal(t, []any{200, `"whole" `}, []any{second.w.Code, second.w.Body.String()})
	})
}

// TestPassedAnswerOfAProbe says in a header that it is not the call's own.
func TestPassedAnswerOfAProbe(t *testing.T) {
	t.Parallel()
	h := build(t)
	h.settle(h.claim(passed), schemas.Settled{Outcome: schemas.OutcomeSucceeded, Result: []byte(`{"answer":{"status":200,"headers":[{"name":"weir-reconciled","value":"theirs"}],"body":"\"found\""},"reconciled":true}`)})
	joined := h.joins(true)
	require.False(t, joined.end())
	for _, w := range []*httptest.ResponseRecorder{joined.w, h.get("/v1/actions/p/response")} {
		assert.Equal(t, []any{200, `"found"`, []string{"true"}}, []any{w.Code, w.Body.String(), w.Header()[schemas.HeaderReconciled]})
	}
}

// TestPassedAnswerBreaksOff: the client sees that a part of an answer is not the whole.
func TestPassedAnswerBreaksOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := build(t)
		st, first := h.begins()
		h.append(st, schemas.Event{Type: schemas.EventSettled, Attempted: &schemas.Attempted{Number: 1, Code: schemas.UpstreamTruncated, Sent: true, Status: 200}, Settled: &schemas.Settled{Outcome: schemas.OutcomeFailed, Code: schemas.UpstreamTruncated}})
		require.True(t, first.end())
		require.PanicsWithError(t, http.ErrAbortHandler.Error(), func() { h.get("/v1/actions/p/response") })
		replay := h.joins(true)
		require.False(t, replay.end())
		assert.Equal(t, []any{502, "UPSTREAM_TRUNCATED"}, []any{replay.w.Code, replay.w.Header().Get(schemas.HeaderRefused)})
	})
}

// TestResponseWithoutOne: there is no answer yet, none at all, or none of this kind.
func TestResponseWithoutOne(t *testing.T) {
	t.Parallel()
	h := build(t)
	st := h.claim(httpRef("a"))
	w := h.get("/v1/actions/a/response")
	assert.Equal(t, http.StatusConflict, w.Code)
	assert.Contains(t, w.Body.String(), "its status is accepted; try again later")
	h.settle(st, schemas.Settled{Outcome: schemas.OutcomeDenied, Code: schemas.DenyPath})
	w = h.get("/v1/actions/a/response")
	assert.Equal(t, http.StatusNotFound, w.Code)
	assert.Contains(t, w.Body.String(), "ended without an answer, as denied (DENY_PATH)")
	h.claim(planRef("b"))
	for _, path := range []string{"b", "none", "x%20y"} {
		assert.Equal(t, http.StatusNotFound, h.get("/v1/actions/"+path+"/response").Code, path)
	}
	assert.Equal(t, http.StatusNotFound, h.ask(http.MethodGet, "/v1/actions/a/response", "other").Code)
}
