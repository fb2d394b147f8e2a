package egress_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"weir/schemas"
)

// respond answers as ingress would have it.
func (h *house) respond(ctx context.Context, ref schemas.Ref, rc schemas.Receipt, wait time.Duration) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.room.Respond(w, httptest.NewRequestWithContext(ctx, http.MethodPost, "/v1/execute", http.NoBody), ref, rc, wait)
	return w
}

func receipt(id string, duplicate bool) schemas.Receipt {
	return schemas.Receipt{ID: id, Status: "accepted", Duplicate: duplicate, Durability: schemas.DurabilityDisk}
}

func TestRespondWithoutAWait(t *testing.T) {
	t.Parallel()
	h := build(t)
	w := h.respond(t.Context(), httpRef("a"), receipt("a", false), 0)
	require.Equal(t, http.StatusAccepted, w.Code)
	require.Equal(t, "/v1/actions/a", w.Header().Get("Location"))
	require.Equal(t, "a", w.Header().Get("Weir-Action-Id"))
	require.JSONEq(t, `{"id":"a","status":"accepted","duplicate":false,"durability":"disk"}`, w.Body.String())
}

func TestRespondInTheDialectOfTheKind(t *testing.T) {
	t.Parallel()
	h := build(t)
	plan := `{"artifact:execution.report":{"report_id":null},"state:act.result":{"status":"succeeded"}}`
	for _, tc := range []struct {
		ref  schemas.Ref
		doc  string
		want string
	}{
		{httpRef("x"), `{"answer":{"status":200,"headers":[],"body":1.0}}`, `{"status":200,"headers":[],"body":1.0}`},
		{planRef("p"), plan, plan},
	} {
		release := h.room.Expect(tc.ref)
		st := h.claim(tc.ref)
		before := h.reads.Load()
		got := make(chan *httptest.ResponseRecorder, 1)
		go func() { got <- h.respond(context.Background(), tc.ref, receipt(tc.ref.ID, false), -1) }()
		h.settle(st, schemas.Settled{Outcome: schemas.OutcomeSucceeded, Result: json.RawMessage(tc.doc), Attempts: 1})
		first := <-got
		release()
		require.Equal(t, http.StatusOK, first.Code)
		require.Equal(t, "application/json", first.Header().Get("Content-Type"))
		require.Equal(t, tc.ref.ID, first.Header().Get("Weir-Action-Id"))
		require.Equal(t, tc.want, first.Body.String())
		require.Equal(t, before, h.reads.Load(), "an answer that was waited for needs no read")

		replay := h.respond(t.Context(), tc.ref, receipt(tc.ref.ID, true), -1)
		require.Equal(t, first.Body.Bytes(), replay.Body.Bytes(), "a replay is byte for byte the same")
		require.Equal(t, first.Code, replay.Code)
	}
}

func TestRespondReadsALargeResultFromItsStore(t *testing.T) {
	t.Parallel()
	h := build(t)
	doc := `{"answer":{"status":200,"headers":[],"body":"` + strings.Repeat("x", schemas.InlineLimit) + `"}}`
	inline, blob, err := h.led.Stow(t.Context(), "t", json.RawMessage(doc))
	require.NoError(t, err)
	require.Nil(t, inline)
	st := h.claim(httpRef("big"))
	h.settle(st, schemas.Settled{Outcome: schemas.OutcomeSucceeded, ResultBlob: blob, Attempts: 1})
	w := h.respond(t.Context(), httpRef("big"), receipt("big", true), -1)
	require.Equal(t, http.StatusOK, w.Code)
	require.Contains(t, w.Body.String(), `"body":"xxx`)

	events := h.get("/v1/actions/big/events", "Accept", "application/json")
	require.NotContains(t, events.Body.String(), blob)
	require.Contains(t, events.Body.String(), `"result_url":"/v1/actions/big"`)
	require.Contains(t, h.get("/v1/actions/big").Body.String(), `"body":"xxx`)
}

func TestRespondWhenTheTimeIsUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := build(t)
		defer h.feed.Close()
		h.claim(httpRef("a"))
		begin := time.Now()
		w := h.respond(t.Context(), httpRef("a"), receipt("a", false), 7*time.Second)
		require.Equal(t, 7*time.Second, time.Since(begin))
		require.Equal(t, http.StatusAccepted, w.Code)
		require.Equal(t, "/v1/actions/a", w.Header().Get("Location"))
	})
}

func TestRespondToAClientThatIsGone(t *testing.T) {
	t.Parallel()
	h := build(t)
	h.claim(httpRef("a"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w := h.respond(ctx, httpRef("a"), receipt("a", false), -1)
	require.Zero(t, w.Body.Len())
}

func TestRespondWhileTheNodeShutsDown(t *testing.T) {
	t.Parallel()
	h := build(t)
	h.claim(httpRef("a"))
	h.feed.Close()
	require.Equal(t, http.StatusAccepted, h.respond(t.Context(), httpRef("a"), receipt("a", false), -1).Code)
	require.Equal(t, http.StatusServiceUnavailable, h.get("/readyz").Code)
	require.Equal(t, http.StatusServiceUnavailable, h.get("/v1/actions/a/events").Code)
}

func TestRespondToAnUnknownOutcome(t *testing.T) {
	t.Parallel()
	h := build(t)
	st := h.claim(httpRef("a"))
	h.settle(st, schemas.Settled{Outcome: schemas.OutcomeUnknown, Code: schemas.OutcomeUnknownCode, Attempts: 1})
	w := h.respond(t.Context(), httpRef("a"), receipt("a", true), -1)
	require.Equal(t, http.StatusFailedDependency, w.Code)
	require.Contains(t, w.Body.String(), `"resolve_url":"/v1/actions/a/resolve"`)
	require.Contains(t, w.Body.String(), schemas.UnknownText)
	require.Contains(t, w.Body.String(), `"retryable":false`)
}

func TestRespondToAPlanWithoutAReport(t *testing.T) {
	t.Parallel()
	h := build(t)
	st := h.claim(planRef("p"))
	h.settle(st, schemas.Settled{Outcome: schemas.OutcomeCanceled, Code: schemas.Canceled})
	w := h.respond(t.Context(), planRef("p"), receipt("p", true), -1)
	require.Equal(t, http.StatusConflict, w.Code)
	require.Equal(t, schemas.Canceled, decode[schemas.Problem](t, w.Body).Code)
}

func TestAResultThatIsGone(t *testing.T) {
	t.Parallel()
	h := build(t)
	st := h.claim(httpRef("a"))
	h.settle(st, schemas.Settled{Outcome: schemas.OutcomeSucceeded, ResultBlob: "0000", Attempts: 1})
	require.Equal(t, http.StatusGone, h.respond(t.Context(), httpRef("a"), receipt("a", true), -1).Code)
}
