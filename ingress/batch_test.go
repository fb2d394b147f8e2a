package ingress_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/ingress/accept"
	"weir/internal/fault"
	"weir/internal/weirtest/poll"
	"weir/internal/weirtest/table"
	"weir/schemas"
)

// batched is what the responder gets of a batch, which it answers as it is.
func (r *responder) Batch(w http.ResponseWriter, _ *http.Request, tenant string, items []schemas.BatchItem, wait func(i int) time.Duration, _ func(i int)) {
	for i, item := range items {
		if item.Receipt == nil {
			continue
		}
		ref := schemas.Ref{Tenant: tenant, Kind: schemas.KindHTTP, ID: item.ActionID}
		r.mu.Lock()
		r.calls = append(r.calls, call{ref: ref, receipt: *item.Receipt, wait: wait(i), held: r.held[ref] > 0})
		r.mu.Unlock()
	}
	respond(w, http.StatusOK, schemas.BatchAnswer{Items: items})
}

// itemsOf are the items of the answer to a batch.
func itemsOf(t *testing.T, a answer) []schemas.BatchItem {
	t.Helper()
	require.Equal(t, http.StatusOK, a.Code, a.Body)
	var doc schemas.BatchAnswer
	require.NoError(t, json.Unmarshal(a.Body.Bytes(), &doc))
	return doc.Items
}

func batchOf(requests ...string) string { return `{"requests":[` + strings.Join(requests, ",") + `]}` }

func named(id, body string) string { return `{"request_id":"` + id + `",` + body[1:] }

// TestABadBatchIsRefusedWhole, and nothing of it is stored.
func TestABadBatchIsRefusedWhole(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for name, tc := range map[string]struct {
		body    string
		headers []string
		status  int
		code    schemas.Code
		says    string
	}{
		"no document":  {"", nil, 400, schemas.InvalidRequest, "empty"},
		"no requests":  {"{}", nil, 400, schemas.ValidationError, "must be a list"},
		"null":         {`{"requests":null}`, nil, 400, schemas.ValidationError, "must be a list"},
		"an object":    {`{"requests":{}}`, nil, 400, schemas.ValidationError, "must be a list"},
		"a list":       {"[" + okGet + "]", nil, 400, schemas.InvalidRequest, "must be a JSON object"},
		"empty":        {batchOf(), nil, 400, schemas.ValidationError, "has 0"},
		"too many":     {batchOf(strings.Repeat("{},", schemas.MaxBatch) + "{}"), nil, 400, schemas.ValidationError, "has 1001"},
		"unknown":      {`{"requests":[` + okGet + `],"atomic":true}`, nil, 400, schemas.ValidationError, "atomic"},
		"twice":        {batchOf(`{"method":"GET","method":"GET"}`), nil, 400, schemas.InvalidRequest, "twice"},
		"too large":    {batchOf(`"` + strings.Repeat("x", 1<<20) + `"`), nil, 413, schemas.PayloadTooLarge, ""},
		"a bad key":    {batchOf(okGet), []string{"Idempotency-Key", "a b"}, 400, schemas.InvalidRequest, "Idempotency-Key"},
		"a bad delay":  {batchOf(okGet), []string{"Weir-Delay", "soon"}, 400, schemas.InvalidRequest, "Weir-Delay"},
		"a bad coding": {batchOf(okGet), []string{"Content-Encoding", "gzip"}, 415, schemas.UnsupportedEncoding, ""},
	} {
		a := w.do(t, post("/v1/batch", tc.body, tc.headers...)).refused(t, tc.status, tc.code)
		require.Contains(t, a.Body.String(), tc.says, name)
		require.Zero(t, w.records(t), name)
		require.Empty(t, w.responder.calls, name)
	}
}

// TestABadItemIsRefusedInItsPlace, as /v1/execute would have refused it, and the others go on.
func TestABadItemIsRefusedInItsPlace(t *testing.T) {
	t.Parallel()
	bodies := []string{
		okGet, `{"method":"GET"}`, okPost, `17`, `{"method":"GET","url":"http://ok.example/","x":1}`, `{"type":"Shell","args":{}}`,
		`{"method":"GET","url":"http://ok.example/","timeout_ms":0}`, named("idk-1", okGet), denied,
		`{"method":"POST","url":"http://ok.example/","body":` + strings.Repeat("[", 65) + strings.Repeat("]", 65) + `}`,
	}
	w := setup(t)
	a := w.do(t, post("/v1/batch", batchOf(bodies...)))
	require.Equal(t, http.StatusOK, a.Code, a.Body)
	items, _ := a.body["items"].([]any)
	require.Len(t, items, len(bodies))
	stored := 0
	for i, body := range bodies {
		item, _ := items[i].(map[string]any)
		require.EqualValues(t, i, item["index"])
		single := w.do(t, post("/v1/execute", body))
		if single.Code < http.StatusBadRequest {
			stored++
			require.NotEmpty(t, item["action_id"], body)
			require.NotEmpty(t, item["receipt"], body)
			continue
		}
		require.EqualValues(t, single.Code, item["status"], body)
		want, _ := single.body["error"].(map[string]any)
		got, _ := item["error"].(map[string]any)
		require.NotEmpty(t, got, body)
		delete(want, "request_id")
		require.Equal(t, a.Header().Get("X-Request-ID"), got["request_id"])
		delete(got, "request_id")
		require.Equal(t, want, got, body)
	}
	require.Equal(t, 3, stored, "the denied one is stored too")
	require.Equal(t, 2*3, w.metrics.refused[schemas.InvalidRequest], "refusals in the batch count as single ones")
	require.Equal(t, 2*stored, w.metrics.accepted[schemas.KindHTTP])
	require.EqualValues(t, 2*stored, w.records(t))
}

// TestIdsInABatch: the first of several requests with one id has it, and an action is named by its
// request_id, by the batch's key and its index, or by Weir.
func TestIdsInABatch(t *testing.T) {
	t.Parallel()
	w := setup(t)
	ids := func(a answer) (ids []string, statuses []int) {
		t.Helper()
		for _, item := range itemsOf(t, a) {
			ids, statuses = append(ids, item.ActionID), append(statuses, item.Status)
		}
		return ids, statuses
	}
	got, statuses := ids(w.do(t, post("/v1/batch", batchOf(named("a", okGet), named("a", okPost), named("a", okGet), okGet))))
	require.Equal(t, []string{"a", "", "a"}, got[:3])
	require.Equal(t, []int{0, 409, 0, 0}, statuses)
	require.NotContains(t, []string{"", "a"}, got[3])
	require.Equal(t, []bool{false, true}, []bool{w.responder.calls[0].receipt.Duplicate, w.responder.calls[1].receipt.Duplicate})

	body := batchOf(okGet, okGet, named("b", okGet))
	first, _ := ids(w.do(t, post("/v1/batch", body, "Idempotency-Key", "k")))
	again, _ := ids(w.do(t, post("/v1/batch", body, "Idempotency-Key", "k")))
	require.Equal(t, first, again, "a repeat joins its actions before they have ended")
	require.NotEqual(t, first[0], first[1])
	require.Equal(t, "b", first[2])
	w.settle(t, first[1], schemas.OutcomeSucceeded)
	a := w.do(t, post("/v1/batch", body, "Idempotency-Key", "k"))
	require.True(t, itemsOf(t, a)[1].Replayed)
	_, statuses = ids(w.do(t, post("/v1/batch", batchOf(okGet, okPost), "Idempotency-Key", "k")))
	require.Equal(t, []int{0, 422}, statuses, "the key's second request was another one")
	require.EqualValues(t, 2+3+2, w.records(t))
}

// TestABatchWaitsAsItsCallerPrefers: a denied request is waited for in any case, like a single call.
func TestABatchWaitsAsItsCallerPrefers(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		headers       []string
		allowed, deny time.Duration
		applied       string
	}{
		{nil, -1, -1, ""},
		{[]string{"Prefer", "respond-async"}, 0, 10 * time.Second, "respond-async"},
		{[]string{"Prefer", "wait=3"}, 3 * time.Second, 10 * time.Second, "wait=3"},
		{[]string{"Weir-Delay", "1h"}, 0, 0, ""},
	} {
		w := setup(t)
		a := w.do(t, post("/v1/batch", batchOf(okGet, denied), tc.headers...))
		require.Equal(t, tc.applied, a.Header().Get("Preference-Applied"))
		require.Len(t, w.responder.calls, 2)
		for i, want := range []time.Duration{tc.allowed, tc.deny} {
			require.Equal(t, want, w.responder.calls[i].wait, tc.headers)
			require.Equal(t, want != 0, w.responder.calls[i].held, "an end that is waited for is expected")
		}
	}
}

// longQueue is a log on which so many actions wait, all of one tenant.
type longQueue uint64

func (q longQueue) Waiting(context.Context, string) (uint64, error) { return uint64(q), nil }

// TestFullRefusesItemsOneByOne with the status and the delay of a single call, and stores nothing of
// them: a tenant's queue, that of all, or the log. A request whose action exists joins it.
func TestFullRefusesItemsOneByOne(t *testing.T) {
	t.Parallel()
	type testCase struct {
		limits accept.PressureConfig
		status int
		code   schemas.Code
		after  int
	}
	table.Run(t, map[string]testCase{
		"the queue of a tenant": {accept.PressureConfig{QueuedPerTenant: 7}, http.StatusTooManyRequests, schemas.RateLimited, 5},
		"the queue of all":      {accept.PressureConfig{Queued: 7}, http.StatusServiceUnavailable, schemas.QueueFull, 5},
		"the log":               {accept.PressureConfig{}, http.StatusServiceUnavailable, schemas.LogFull, 60},
	}, func(t *testing.T, tc testCase) {
		w := setup(t, func(cfg *config) { cfg.Accept.Pressure = accept.NewPressure(longQueue(7), tc.limits) })
		require.Equal(t, http.StatusAccepted, w.do(t, post("/v1/execute", named("a", okGet))).Code, "nothing is counted yet")
		if tc.code == schemas.LogFull {
			w.plant(fault.ErrFull, nil)
		}
		poll.Until(t, func() bool { return w.do(t, post("/v1/execute", okGet)).Code == tc.status })
		before := w.records(t)
		items := itemsOf(t, w.do(t, post("/v1/batch", batchOf(named("b", okGet), named("a", okGet), okGet))))
		require.Equal(t, "a", items[1].ActionID)
		require.True(t, items[1].Receipt.Duplicate)
		for _, i := range []int{0, 2} {
			want := schemas.BatchItem{Index: i, Status: tc.status, RetryAfter: tc.after, Error: items[i].Error}
			require.Equal(t, want, items[i])
			require.Equal(t, tc.code, items[i].Error.Code)
			require.True(t, items[i].Error.Retryable)
		}
		require.Equal(t, before, w.records(t))
	})
}
