package egress_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"weir/egress/runs"
	"weir/internal/fault"
	"weir/internal/ledger"
	"weir/internal/problem"
	"weir/schemas"
)

func runRef(id string) schemas.Ref {
	return schemas.Ref{Tenant: "acme", Kind: schemas.KindRun, ID: id}
}

// run writes a life with every kind of record in it, and n progress events.
func (h *env) run(id string, n int) *ledger.State {
	st := h.claim(runRef(id))
	h.attempt(st)
	for i := range n {
		h.progress(st, fmt.Sprintf(`{"name":"token","data":{"i":%d}}`, i))
	}
	h.append(st, schemas.Event{Type: schemas.EventAttempted, Attempted: &schemas.Attempted{Number: 1, Sent: true, Status: 200}})
	h.settle(st, schemas.Settled{Outcome: schemas.OutcomeSucceeded, Result: json.RawMessage(`{"outputs":{"n":1.0}}`), Attempts: 1})
	return st
}

func (h *env) progress(st *ledger.State, data string) {
	h.append(st, schemas.Event{Type: schemas.EventProgress, Data: json.RawMessage(data)})
}

// stream answers as ingress would have it.
func (h *env) stream(ctx context.Context, w http.ResponseWriter, id string, header ...string) {
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, schemas.RouteRunStream, http.NoBody)
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	behind, err := runs.Resume(r)
	if err != nil {
		problem.WriteRun(w, id, err)
		return
	}
	runs.NewAnswerer(h.server).Stream(w, r, runRef(id), "LIT", behind.Seq)
}

func (h *env) streamed(id string, header ...string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.stream(context.Background(), w, id, header...)
	return w
}

// frames cuts a stream into whole events; what is no event stays out.
func frames(body string) (all []string) {
	for part := range strings.SplitAfterSeq(body, "\n\n") {
		if strings.HasPrefix(part, "id: ") && strings.HasSuffix(part, "\n\n") {
			all = append(all, part)
		}
	}
	return all
}

func idOf(frame string) string {
	line, _, _ := strings.Cut(frame, "\n")
	return strings.TrimPrefix(line, "id: ")
}

// TestARunIsResumedAnywhere, also where the other route was cut: the ids of events are the same.
func TestARunIsResumedAnywhere(t *testing.T) {
	t.Parallel()
	h := build(t)
	h.run("a", 5)
	whole := frames(h.streamed("a").Body.String())
	views := frames(h.get("/v1/actions/a/events", "Accept", "text/event-stream").Body.String())
	require.Greater(t, len(views), len(whole), "the log has more than the run's stream shows")
	shown := map[string]string{}
	for _, f := range whole {
		shown[idOf(f)] = f
	}
	for at, view := range views {
		var want []string
		for _, later := range views[at+1:] {
			if f, ok := shown[idOf(later)]; ok {
				want = append(want, f)
			}
		}
		w := h.streamed("a", "Last-Event-ID", idOf(view))
		require.Equal(t, want, frames(w.Body.String()), "after %s", idOf(view))
		require.Equal(t, want == nil, w.Code == http.StatusNoContent, "everything was given")
	}
}

func TestAResolutionIsNoEventOfARun(t *testing.T) {
	t.Parallel()
	h := build(t)
	st := h.claim(runRef("a"))
	h.settle(st, schemas.Settled{Outcome: schemas.OutcomeUnknown, Code: schemas.OutcomeUnknownCode})
	last := strconv.FormatUint(st.Seq, 10)
	h.append(st, schemas.Event{Type: schemas.EventResolution, Resolution: &schemas.Resolution{Effect: "applied"}})
	all := frames(h.streamed("a").Body.String())
	require.Len(t, all, 2)
	require.Contains(t, all[1], schemas.UnknownText)
	require.Equal(t, http.StatusNoContent, h.streamed("a", "Last-Event-ID", last).Code)
}

// TestASuccessorAnswers under its caller's id. Its positions name it, and each of the two
// actions names the other.
func TestASuccessorAnswers(t *testing.T) {
	t.Parallel()
	h := build(t)
	first := h.claim(runRef("a"))
	h.settle(first, schemas.Settled{Outcome: schemas.OutcomeFailed, Code: schemas.AgentUnavailable})
	end := first.Seq
	h.append(first, schemas.Event{Type: schemas.EventSuperseded, Superseded: &schemas.Superseded{By: "a~2"}})
	h.run("a~2", 1)
	w := h.streamed("a~2")
	require.Equal(t, "a~2", w.Header().Get("Weir-Action-Id"))
	got := frames(w.Body.String())
	require.Len(t, got, 3)
	for _, f := range got {
		require.True(t, strings.HasSuffix(idOf(f), "~2"), f)
		require.Contains(t, f, `"request_id":"a"`)
	}
	require.Equal(t, got[1:], frames(h.streamed("a~2", "Last-Event-ID", idOf(got[0])).Body.String()))
	require.Equal(t, http.StatusNoContent, h.streamed("a~2", "Last-Event-ID", idOf(got[2])).Code)
	require.Equal(t, http.StatusNoContent, h.streamed("a", "Last-Event-ID", strconv.FormatUint(end, 10)).Code)
	for _, odd := range []string{"5~1", "5~", "~2", "5~2~2", "5~101", "5 ~2"} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, schemas.RouteRunStream, http.NoBody)
		r.Header.Set("Last-Event-ID", odd)
		_, err := runs.Resume(r)
		require.ErrorContains(t, err, "INVALID_REQUEST", odd)
	}

	var view schemas.ActionView
	require.NoError(t, json.Unmarshal(h.get("/v1/actions/a").Body.Bytes(), &view))
	require.Equal(t, "a~2", view.SupersededBy)
	require.Equal(t, schemas.Status("failed"), view.Status)
	events := h.get("/v1/actions/a/events")
	require.Contains(t, events.Body.String(), `"type":"superseded"`)
	require.Contains(t, events.Body.String(), `"superseded":{"by":"a~2"}`)
	require.Equal(t, http.StatusOK, h.get("/v1/actions/a~2").Code)
	require.Equal(t, http.StatusOK, h.get("/v1/actions/a~2/events").Code)
	require.Contains(t, h.get("/v1/actions/a~2/payload").Body.String(), `"id":"a~2"`)
	for _, odd := range []string{"a~1", "a~02", "a~101"} {
		require.Equal(t, http.StatusNotFound, h.get("/v1/actions/"+odd).Code)
	}
}

func TestALargeResultIsInTheTerminalEvent(t *testing.T) {
	t.Parallel()
	h := build(t)
	doc := `{"outputs":{"text":"` + strings.Repeat("x", schemas.InlineLimit) + `"}}`
	_, blob, err := h.ledger.PutBlob(t.Context(), "t", json.RawMessage(doc))
	require.NoError(t, err)
	st := h.claim(runRef("big"))
	h.settle(st, schemas.Settled{Outcome: schemas.OutcomeSucceeded, ResultBlob: blob, Attempts: 1})
	all := frames(h.streamed("big").Body.String())
	require.Len(t, all, 2)
	require.Contains(t, all[1], `"outputs":{"text":"xxx`)
	require.Greater(t, len(all[1]), schemas.InlineLimit)
	require.NotContains(t, all[1], blob)
	body := h.respond(t.Context(), runRef("big"), receipt("big", true), -1)
	require.Equal(t, http.StatusOK, body.Code)
	require.Contains(t, body.Body.String(), `"outputs":{"text":"xxx`)
	require.Contains(t, h.get("/v1/actions/big/events", "Accept", "application/json").Body.String(), `"result_url":"/v1/actions/big"`)

	gone := h.claim(runRef("gone"))
	h.settle(gone, schemas.Settled{Outcome: schemas.OutcomeSucceeded, ResultBlob: "0000", Attempts: 1})
	all = frames(h.streamed("gone").Body.String())
	require.Contains(t, all[1], `"details":{"code":"STREAM_GONE"}`, "a stream has an end even so")
	w := h.respond(t.Context(), runRef("gone"), receipt("gone", true), -1)
	require.Equal(t, http.StatusGone, w.Code)
	require.Equal(t, schemas.StreamGone, decode[schemas.RunRefusal](t, w.Body).Code)
}

func TestRunsInListsAndStatus(t *testing.T) {
	t.Parallel()
	h := build(t)
	st := h.accept(schemas.Action{ID: "a", Kind: schemas.KindRun, TaskType: "LIT", Payload: json.RawMessage(`{}`)})
	h.settle(st, schemas.Settled{
		Outcome: schemas.OutcomeDenied, Code: schemas.DenyHost,
		Result: json.RawMessage(`{"http":{"variant":"DisallowedHost","decision":{"allowed":false,"code":"DENY_HOST","version":"v"}}}`),
	})
	page := decode[schemas.Page[schemas.ActionEntry]](t, h.get("/v1/actions?kind=run").Body)
	require.Len(t, page.Items, 1)
	require.Equal(t, "LIT", page.Items[0].TaskType)
	view := decode[schemas.ActionView](t, h.get("/v1/actions/a").Body)
	require.Equal(t, "LIT", view.TaskType)
	require.Equal(t, schemas.DenyHost, view.Decision.Code)
	require.Contains(t, string(view.Result), `"error":{"code":"TASK_FAILED"`)
	require.Contains(t, h.get("/v1/actions/a/events", "Accept", "application/json").Body.String(), `"task_type":"LIT"`)
}

func TestAStreamThatIsRefused(t *testing.T) {
	t.Parallel()
	h := build(t, func(c *config) {
		c.HTTP.Watch = func(r *http.Request) (context.Context, func(), error) {
			if r.Header.Get("X-Many") != "" {
				return nil, nil, fault.New(schemas.RateLimited, "too many streams")
			}
			return r.Context(), func() {}, nil
		}
	})
	gone := h.run("gone", 1)
	h.run("a", 1)
	h.log.Purge(schemas.LogStream(layout.Partition("acme", "gone")), gone.Events[1].Seq)
	for _, tc := range []struct {
		id, name, value string
		status          int
		code            schemas.Code
	}{
		{"a", "Last-Event-ID", "x", 422, schemas.InvalidRequest},
		{"a", "Last-Event-ID", "999999999", 422, schemas.InvalidRequest},
		{"a", "X-Many", "1", 429, schemas.RateLimited},
		{"gone", "", "", 410, schemas.StreamGone},
		{"nobody", "", "", 404, schemas.NotFound},
	} {
		w := h.streamed(tc.id, tc.name, tc.value)
		require.Equal(t, tc.status, w.Code, tc)
		require.Equal(t, "application/json", w.Header().Get("Content-Type"))
		require.NotContains(t, w.Body.String(), "null")
		body := decode[schemas.RunRefusal](t, w.Body)
		require.Equal(t, tc.code, body.Code)
		require.Equal(t, tc.id, body.RequestID)
		require.JSONEq(t, `{}`, string(body.Outputs))
		require.Equal(t, tc.status == http.StatusTooManyRequests, w.Header().Get("Retry-After") != "")
		require.Equal(t, tc.status == http.StatusGone, body.Error.Details != nil)
	}
	h.feed.Close()
	w := h.streamed("a")
	require.Equal(t, http.StatusServiceUnavailable, w.Code)
	require.True(t, decode[schemas.RunRefusal](t, w.Body).Retryable)
}

// TestALogThatIsAwayDelaysTheEnd: a result that cannot be fetched is asked for again.
func TestALogThatIsAwayDelaysTheEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var down atomic.Bool
		h := build(t, func(c *config) { c.HTTP.KeepAlive = time.Hour })
		h.failing(func() error {
			if down.Load() {
				return fault.ErrUnavailable
			}
			return nil
		})
		_, blob, err := h.ledger.PutBlob(t.Context(), "t", json.RawMessage(`{"outputs":{"text":"`+strings.Repeat("x", schemas.InlineLimit)+`"}}`))
		require.NoError(t, err)
		st := h.claim(runRef("a"))
		got := make(chan string, 1)
		go func() { got <- h.streamed("a").Body.String() }()
		synctest.Wait()
		down.Store(true)
		h.settle(st, schemas.Settled{Outcome: schemas.OutcomeSucceeded, ResultBlob: blob})
		synctest.Wait()
		require.Empty(t, got)
		down.Store(false)
		require.Contains(t, <-got, `"outputs":{"text":"xxx`)
	})
}
