package egress_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/egress/chat"
	"weir/egress/runs"
	"weir/egress/stream"
	"weir/internal/fault"
	"weir/internal/ledger"
	"weir/internal/task"
	"weir/schemas"
)

func chatRef(id string) schemas.Ref {
	return schemas.Ref{Tenant: "acme", Kind: schemas.KindChat, ID: id}
}

const answer = `{"id":"gen-1","object":"chat.completion","created":1,"model":"m","choices":[]}`

var said = schemas.Settled{Outcome: schemas.OutcomeSucceeded, Attempts: 1, Result: json.RawMessage(`{"completion":` + answer + `,"model":"m","usage":{"prompt_tokens":1,"completion_tokens":2,"total_tokens":3}}`)}

var broken = schemas.Settled{
	Outcome: schemas.OutcomeFailed, Code: schemas.ModelFailed, Attempts: 1,
	Result: json.RawMessage(`{"completion":` + answer + `,"partial":true,"error":{"status":429,"message":"slow down","retry_after_ms":7000}}`),
}

// errorEnd is the end of a stream that broke off by broken.
const errorEnd = `data: {"error":{"message":"slow down","type":"rate_limit_error","param":null,"code":"rate_limit_exceeded","metadata":{"code":"MODEL_FAILED","status":429}}}`

func (h *env) delta(st *ledger.State, chunks ...string) {
	h.t.Helper()
	raw := make([]json.RawMessage, len(chunks))
	for i, c := range chunks {
		raw[i] = json.RawMessage(c)
	}
	doc, err := json.Marshal(schemas.ChatDelta{Chunks: raw})
	require.NoError(h.t, err)
	h.append(st, schemas.Event{Type: schemas.EventDelta, Data: doc})
}

// talk is one request of a completion as ingress would have it answered.
type talk struct {
	ctx       context.Context
	id        string
	whole     bool // no stream
	duplicate bool
	after     uint64
	chunk     int // of the event at after
	wait      time.Duration
	token     string
	order     schemas.ChatOrder
	left      func()
}

func (h *env) talk(w http.ResponseWriter, k talk) {
	if k.ctx == nil {
		k.ctx = context.Background()
	}
	r := httptest.NewRequestWithContext(k.ctx, http.MethodPost, schemas.RouteChat, http.NoBody)
	if k.token != "" {
		r.Header.Set("Authorization", "Bearer "+k.token)
	}
	k.order.Stream = !k.whole
	h.chat.Answer(w, r, chatRef(k.id), receipt(k.id, k.duplicate), &k.order, schemas.ChatPosition{Seq: k.after, Chunk: k.chunk}, k.wait, k.left)
}

func (h *env) talked(k talk) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.talk(w, k)
	return w
}

// TestWhoResumesHasAStream already, and is told in it; who asks first has seen nothing, whatever place it names.
func TestWhoResumesHasAStream(t *testing.T) {
	t.Parallel()
	h := build(t)
	st := h.claim(chatRef("a"))
	h.attempt(st)
	h.settle(st, broken)
	require.Equal(t, http.StatusTooManyRequests, h.talked(talk{id: "a", after: 2}).Code)
	w := h.talked(talk{id: "a", duplicate: true, after: 2})
	require.Equal(t, http.StatusOK, w.Code)
	require.Equal(t, fmt.Sprintf("%s\n\nid: %d\ndata: [DONE]\n\n", errorEnd, st.Seq), w.Body.String())
}

func TestWhatFailsInTheMiddleIsToldInTheStream(t *testing.T) {
	t.Parallel()
	h := build(t)
	for id, outcome := range map[string]schemas.Settled{"inline": broken, "blob": broken, "gone": {Outcome: schemas.OutcomeFailed, Code: schemas.ModelFailed, ResultBlob: "nowhere"}} {
		st := h.claim(chatRef(id))
		h.delta(st, `{"c":1}`)
		before := st.Seq
		want := errorEnd
		switch id {
		case "blob":
			big := json.RawMessage(strings.Replace(string(broken.Result), "slow down", "slow down"+strings.Repeat(" ", schemas.InlineLimit), 1))
			var err error
			_, outcome.ResultBlob, err = h.ledger.PutBlob(t.Context(), "t", big)
			require.NoError(t, err)
			outcome.Result = nil
			want = strings.Replace(want, "slow down", "slow down"+strings.Repeat(" ", schemas.InlineLimit), 1)
		case "gone":
			want = `data: {"error":{"message":"the completion could not be made","type":"server_error","param":null,"code":"model_failed","metadata":{"code":"MODEL_FAILED","status":502}}}`
		}
		h.settle(st, outcome)
		got := h.talked(talk{id: id, duplicate: true}).Body.String()
		require.Equal(t, fmt.Sprintf("id: %d\ndata: {\"c\":1}\n\n", before)+want+fmt.Sprintf("\n\nid: %d\ndata: [DONE]\n\n", st.Seq), got, id)
	}
}

func TestWhoMayListen(t *testing.T) {
	t.Parallel()
	h := build(t, func(c *config) {
		c.HTTP = stream.HTTP{Watch: func(*http.Request) (context.Context, func(), error) {
			return nil, nil, fault.New(schemas.RateLimited, "too many")
		}}
	})
	st := h.claim(chatRef("a"))
	h.settle(st, said)
	w := h.talked(talk{id: "a", duplicate: true, token: "wk_1"})
	require.Equal(t, http.StatusTooManyRequests, w.Code)
	require.JSONEq(t, `{"error":{"message":"too many","type":"rate_limit_error","param":null,"code":"rate_limit_exceeded","metadata":{"code":"RATE_LIMITED","status":429}}}`, w.Body.String())
	w = h.talked(talk{id: "a", duplicate: true, token: agent()})
	require.Equal(t, http.StatusOK, w.Code)
	require.Equal(t, fmt.Sprintf("id: %d\ndata: [DONE]\n\n", st.Seq), w.Body.String())
}

// TestATaskHasSoManyStreams, whichever of its tokens they came with, and gives each back.
func TestATaskHasSoManyStreams(t *testing.T) {
	t.Parallel()
	h := build(t, func(c *config) { c.TaskStreams = 2 })
	st := h.claim(chatRef("a"))
	h.settle(st, said)
	seat := func(token string) (*http.Request, func(), error) {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, schemas.RouteChat, http.NoBody)
		r.Header.Set("Authorization", "Bearer "+token)
		return h.server.AcquireSlot(r)
	}
	one, leaveOne, err := seat(agent())
	require.NoError(t, err)
	_, leaveTwo, err := seat(task.New("acme", "t", 3, [32]byte{1}).Text())
	require.NoError(t, err)
	_, _, err = seat(agent())
	require.ErrorContains(t, err, "RATE_LIMITED")
	require.Equal(t, http.StatusTooManyRequests, h.talked(talk{id: "a", duplicate: true, token: agent()}).Code)
	_, leaveOther, err := seat(agentOf("other"))
	require.NoError(t, err)
	leaveOther()

	leaveTwo()
	require.Equal(t, http.StatusOK, h.talked(talk{id: "a", duplicate: true, token: agent()}).Code)
	_, leaveTwo, err = seat(agent())
	require.NoError(t, err, "the stream before has given its place back")
	body := httptest.NewRecorder()
	h.chat.Answer(body, one, chatRef("a"), receipt("a", true), &schemas.ChatOrder{Stream: true}, schemas.ChatPosition{}, 0, nil)
	require.Equal(t, http.StatusOK, body.Code, "it has a place already")
	leaveOne() // which the stream has given back
	_, leaveOne, err = seat(agent())
	require.NoError(t, err)
	_, _, err = seat(agent())
	require.Error(t, err)
	leaveOne()
	leaveTwo()
}

func TestWhereACompletionGoesOn(t *testing.T) {
	t.Parallel()
	h := build(t)
	for id, want := range map[string]schemas.ChatPosition{"": {}, "7": {Seq: 7}, "7.2": {Seq: 7, Chunk: 2}} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, schemas.RouteChat, http.NoBody)
		r.Header.Set("Last-Event-ID", id)
		got, err := chat.Resume(r)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	for _, ids := range [][]string{{"7.0"}, {"x"}, {"7", "8"}, {"7.1", "7.1"}} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, schemas.RouteChat, http.NoBody)
		r.Header["Last-Event-Id"] = ids
		_, err := chat.Resume(r)
		require.ErrorContains(t, err, "INVALID_REQUEST")
	}
	// No other surface knows such a place.
	h.claim(chatRef("a"))
	require.Equal(t, http.StatusBadRequest, h.get("/v1/actions/a/events", "Last-Event-ID", "7.1").Code)
	require.Equal(t, http.StatusBadRequest, h.get("/v1/actions/a/events?after=7.1").Code)
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, schemas.RouteRunStream, http.NoBody)
	r.Header.Set("Last-Event-ID", "7.1")
	_, err := runs.Resume(r)
	require.ErrorContains(t, err, "INVALID_REQUEST")
}

func TestAStreamThatCannotBegin(t *testing.T) {
	t.Parallel()
	h := build(t)
	st := h.claim(chatRef("a"))
	h.delta(st, `{"c":1}`, `{"c":2}`)
	first := st.Seq
	h.append(st, schemas.Event{Type: schemas.EventAttempted, Attempted: &schemas.Attempted{Number: 1}})
	over := h.claim(chatRef("over"))
	h.settle(over, broken)
	later := over.Seq
	for i := 0; later == over.Seq; i++ { // others go on in its part of the log
		if id := fmt.Sprint("other.", i); layout.Partition("acme", id) == layout.Partition("acme", "over") {
			later = h.claim(chatRef(id)).Seq
		}
	}
	for name, tc := range map[string]struct {
		talk
		status int
		code   string
	}{
		"no action":      {talk{id: "other", duplicate: true}, http.StatusNotFound, "NOT_FOUND"},
		"beyond":         {talk{id: "a", duplicate: true, after: st.Seq + 1000}, http.StatusBadRequest, "INVALID_REQUEST"},
		"no such chunk":  {talk{id: "a", duplicate: true, after: st.Seq, chunk: 2}, http.StatusBadRequest, "INVALID_REQUEST"},
		"the last chunk": {talk{id: "a", duplicate: true, after: first, chunk: 2}, http.StatusBadRequest, "INVALID_REQUEST"},
		"many chunks":    {talk{id: "a", duplicate: true, after: first, chunk: 1 << 30}, http.StatusBadRequest, "INVALID_REQUEST"},
		"no chunks":      {talk{id: "a", duplicate: true, after: first - 1, chunk: 1}, http.StatusBadRequest, "INVALID_REQUEST"},
		"to come":        {talk{id: "a", duplicate: true, after: st.Seq + 1, chunk: 1}, http.StatusBadRequest, "INVALID_REQUEST"},
		"in its end":     {talk{id: "over", duplicate: true, after: over.Seq, chunk: 1}, http.StatusBadRequest, "INVALID_REQUEST"},
		"past its end":   {talk{id: "over", duplicate: true, after: over.Seq + 1, chunk: 1}, http.StatusBadRequest, "INVALID_REQUEST"},
		"behind its end": {talk{id: "over", duplicate: true, after: later}, http.StatusBadRequest, "INVALID_REQUEST"},
	} {
		w := h.talked(tc.talk)
		require.Equal(t, tc.status, w.Code, name)
		require.Contains(t, w.Body.String(), `"status":`+strconv.Itoa(tc.status), name)
		require.Contains(t, w.Body.String(), `"code":"`+tc.code+`"`, name)
		if tc.after > 0 {
			require.Contains(t, w.Body.String(), "Last-Event-ID", name)
		}
	}
	require.Equal(t, "data: [DONE]\n\n", h.talked(talk{id: "over", duplicate: true, after: over.Seq}).Body.String())
}
