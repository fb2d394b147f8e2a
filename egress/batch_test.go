package egress_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/egress/executor"
	"weir/schemas"
)

// batch is what ingress gives to be answered.
type batch struct {
	items    []schemas.BatchItem
	waits    []time.Duration
	releases []func()
}

func (b *batch) add(h *env, id string, duplicate bool, wait time.Duration) {
	rc := receipt(id, duplicate)
	release := func() {}
	if wait != 0 {
		release = h.server.Expect(httpRef(id))
	}
	b.items = append(b.items, schemas.BatchItem{Index: len(b.items), ActionID: id, Receipt: &rc})
	b.waits, b.releases = append(b.waits, wait), append(b.releases, release)
}

func (b *batch) refused() {
	b.items = append(b.items, schemas.BatchItem{Index: len(b.items), Status: 429, RetryAfter: 5, Error: &schemas.ExecuteFault{Code: schemas.RateLimited}})
	b.waits, b.releases = append(b.waits, 0), append(b.releases, func() {})
}

func (b *batch) answer(ctx context.Context, h *env, w http.ResponseWriter, header ...string) {
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/v1/batch", http.NoBody)
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	executor.NewBatcher(h.server).Answer(w, r, "acme", b.items, func(i int) time.Duration { return b.waits[i] }, func(i int) { b.releases[i]() })
}

// TestABatchIsAnsweredInTheOrderOfItsRequests, each item as /v1/execute answers: also one that was
// joined after its end, one that is refused, and results that are not kept in memory meanwhile.
func TestABatchIsAnsweredInTheOrderOfItsRequests(t *testing.T) {
	t.Parallel()
	var held, most atomic.Int64
	h := build(t, func(cfg *config) {
		cfg.Reserve = func(_ context.Context, tenant string, blobs ...string) (func(), error) {
			assert.Equal(t, "acme", tenant)
			if strings.Join(blobs, "") == "" {
				return func() {}, nil
			}
			most.Store(max(most.Load(), held.Add(1)))
			return func() { held.Add(-1) }, nil
		}
	})
	long := strings.Repeat("x", 20<<10)
	document := func(body string) json.RawMessage {
		return json.RawMessage(`{"answer":{"status":200,"headers":[],"body":"` + body + `"}}`)
	}
	_, blob, err := h.ledger.PutBlob(t.Context(), "acme", json.RawMessage(`{"status":200,"headers":[],"body":"`+strings.Repeat("y", schemas.InlineLimit)+`"}`))
	require.NoError(t, err)
	ends := map[string]schemas.Settled{
		"short":  {Outcome: schemas.OutcomeSucceeded, Result: document("x")},
		"long":   {Outcome: schemas.OutcomeSucceeded, Result: document(long)},
		"blob":   {Outcome: schemas.OutcomeSucceeded, Result: json.RawMessage("{}"), AnswerBlob: blob},
		"blob2":  {Outcome: schemas.OutcomeSucceeded, Result: json.RawMessage("{}"), AnswerBlob: blob},
		"failed": {Outcome: schemas.OutcomeFailed, Code: schemas.UpstreamConnect, Message: "no"},
		"denied": {Outcome: schemas.OutcomeDenied, Code: schemas.DenyHost},
		"doubt":  {Outcome: schemas.OutcomeUnknown, Code: schemas.OutcomeUnknownCode},
		"gone":   {Outcome: schemas.OutcomeSucceeded, Result: json.RawMessage("{}"), AnswerBlob: "nowhere"},
	}
	h.settle(h.claim(httpRef("joined")), schemas.Settled{Outcome: schemas.OutcomeSucceeded, Result: document("j")})
	b := &batch{}
	b.add(h, "joined", true, -1)
	b.refused()
	order := []string{"doubt", "gone", "short", "long", "blob2", "failed", "denied", "blob"}
	var settling sync.WaitGroup
	for _, id := range order {
		b.add(h, id, false, -1)
		st := h.claim(httpRef(id))
		settling.Go(func() { h.settle(st, ends[id]) })
	}
	w := httptest.NewRecorder()
	b.answer(t.Context(), h, w)
	settling.Wait()
	require.Equal(t, http.StatusOK, w.Code)
	require.Equal(t, "application/json", w.Header().Get("Content-Type"))
	doc := decode[struct{ Items []map[string]json.RawMessage }](t, w.Body)
	require.Len(t, doc.Items, len(order)+2)
	for i, item := range doc.Items {
		require.JSONEq(t, strconv.Itoa(i), string(item["index"]))
		if i == 1 {
			require.JSONEq(t, "429", string(item["status"]))
			require.JSONEq(t, "5", string(item["retry_after"]))
			continue
		}
		id := b.items[i].ActionID
		require.JSONEq(t, `"`+id+`"`, string(item["action_id"]))
		single := h.respond(t.Context(), httpRef(id), receipt(id, true), -1)
		require.JSONEq(t, strconv.Itoa(single.Code), string(item["status"]), id)
		if id == "gone" {
			require.Contains(t, string(item["error"]), schemas.StreamGone)
			continue
		}
		if single.Code == http.StatusOK {
			require.Equal(t, single.Body.String(), string(item["result"]), id)
			continue
		}
		require.Equal(t, single.Body.String(), `{"error":`+string(item["error"])+"}", id)
	}
	require.EqualValues(t, 1, most.Load(), "one large document at a time")
	require.Zero(t, held.Load())
}

// TestLinesComeAsActionsEnd, and not in the order of the requests.
func TestLinesComeAsActionsEnd(t *testing.T) {
	t.Parallel()
	h := build(t)
	b := &batch{}
	b.add(h, "late", false, -1)
	b.add(h, "early", false, -1)
	late, early := h.claim(httpRef("late")), h.claim(httpRef("early"))
	w := &flushRecorder{header: http.Header{}, got: make(chan string, 10)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		b.answer(context.Background(), h, w, "Accept", "application/json;q=0.1, application/x-ndjson")
	}()
	h.settle(early, schemas.Settled{Outcome: schemas.OutcomeSucceeded})
	require.Contains(t, <-w.got, `{"index":1,"action_id":"early","status":200,"result":{`)
	h.settle(late, schemas.Settled{Outcome: schemas.OutcomeCanceled})
	require.Contains(t, <-w.got, `{"index":0,"action_id":"late","status":409,"error":{`)
	<-done
	require.Equal(t, http.StatusOK, w.code)
	require.Equal(t, schemas.MediaNDJSON, w.Header().Get("Content-Type"))
}

// TestReceiptsOfABatch: actions that have not ended in time, or are not waited for, show their receipt.
func TestReceiptsOfABatch(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		wait   time.Duration
		accept string
		status int
	}{
		"not waited for":          {0, "", http.StatusAccepted},
		"not waited for, lines":   {0, schemas.MediaNDJSON, http.StatusAccepted},
		"not ended in time":       {time.Millisecond, "", http.StatusAccepted},
		"not ended in time, line": {time.Millisecond, schemas.MediaNDJSON, http.StatusOK},
	} {
		h := build(t)
		b := &batch{}
		b.add(h, "open", false, tc.wait)
		h.claim(httpRef("open"))
		w := httptest.NewRecorder()
		b.answer(t.Context(), h, w, "Accept", tc.accept)
		require.Equal(t, tc.status, w.Code, name)
		require.Contains(t, w.Body.String(), `{"index":0,"action_id":"open","status":202,"receipt":{"id":"open","status":"accepted"`, name)
	}
}

// TestABatchWhoseClientIsGone is not answered, and nothing waits on.
func TestABatchWhoseClientIsGone(t *testing.T) {
	t.Parallel()
	for _, accept := range []string{"", schemas.MediaNDJSON} {
		h := build(t)
		b := &batch{}
		b.add(h, "open", false, -1)
		h.claim(httpRef("open"))
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		w := httptest.NewRecorder()
		b.answer(ctx, h, w, "Accept", accept)
		require.Empty(t, w.Body.String())
	}
}
