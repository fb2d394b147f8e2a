package ingress_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/ingress"
	"weir/ingress/chat"
	"weir/schemas"
)

const okResponse = `{"model":"fast","input":"hi"}`

// responds settles a response with a result.
func (w *world) responds(t *testing.T, id string, usage *schemas.ChatUsage) {
	t.Helper()
	doc, err := json.Marshal(schemas.ChatResult{Dialect: w.order(t, id).Dialect, ProviderID: "resp_theirs", Upstream: "one", Usage: usage})
	require.NoError(t, err)
	st, err := w.ledger.Find(t.Context(), "default", id)
	require.NoError(t, err)
	require.NoError(t, w.ledger.Append(t.Context(), st, schemas.Event{Type: schemas.EventStarted, Started: &schemas.Started{Worker: "w"}}))
	require.NoError(t, w.ledger.Append(t.Context(), st, schemas.Event{Type: schemas.EventSettled, Settled: &schemas.Settled{Outcome: schemas.OutcomeSucceeded, Result: doc}}))
}

func continuing(id string) string {
	return `{"model":"fast","input":"go on","previous_response_id":"` + id + `"}`
}

func TestAResponseIsContinued(t *testing.T) {
	t.Parallel()
	who := &ingress.Identity{Token: schemas.Token{Tenant: "default", ID: "tok", Scopes: []string{schemas.ScopeActionsWrite}}}
	w := setup(t, desk(), func(c *config) {
		c.Authenticate = func(*http.Request) (ingress.Identity, error) { return *who, nil }
	})
	made := func(path, body string) string {
		a := w.do(t, post(path, body))
		require.Equal(t, http.StatusAccepted, a.Code, a.Body)
		return a.Header().Get(schemas.HeaderGeneration)
	}
	refused := func(id, why string) {
		t.Helper()
		before := w.records(t)
		a := w.do(t, post("/v1/responses", continuing(id)))
		require.Equal(t, http.StatusBadRequest, a.Code, a.Body)
		require.Equal(t, "previous_response_not_found", a.field("error", "code"))
		require.Equal(t, "invalid_request_error", a.field("error", "type"))
		require.Equal(t, "previous_response_id", a.field("error", "param"))
		require.Equal(t, "VALIDATION_ERROR", a.field("error", "metadata", "code"))
		require.Contains(t, a.field("error", "message"), why)
		require.Equal(t, before, w.records(t))
	}
	first := made("/v1/responses", okResponse)
	refused(schemas.ResponseID(first), "has not ended")
	w.responds(t, first, &schemas.ChatUsage{Prompt: 100, Completion: 20})
	second := made("/responses", continuing(schemas.ResponseID(first)))
	order := w.order(t, second)
	require.Equal(t, []string{first, "resp_theirs", "one", "tok"}, []string{order.Previous, order.PreviousID, order.PreviousUpstream, order.PreviousBy})
	require.EqualValues(t, 120, order.Media, "what the upstream adds to the prompt")
	require.JSONEq(t, continuing(schemas.ResponseID(first)), string(order.Body), "the worker changes it")

	failed, unnamed := made("/responses", okResponse), made("/responses", okResponse)
	w.settle(t, failed, schemas.OutcomeFailed)
	refused(schemas.ResponseID(failed), "did not succeed")
	w.settle(t, unnamed, schemas.OutcomeSucceeded)
	refused(schemas.ResponseID(unnamed), "cannot be read")
	other := made("/chat/completions", okChat)
	w.responds(t, other, nil)
	for _, id := range []string{"resp_0", "resp_" + other, first, "chatcmpl-1"} {
		refused(id, "")
	}
	who.ID = "another"
	refused(schemas.ResponseID(first), "has no such response")
	who.ID, who.Tenant = "tok", "other"
	refused(schemas.ResponseID(first), "has no such response")
}

// A long response is continued by what the log has of it: neither its request nor its answer is read. To
// cancel it, its request takes memory of the tenant.
func TestALongResponseIsContinued(t *testing.T) {
	t.Parallel()
	var reserved, released []string
	w := setup(t, desk(func(c *chat.Config) {
		c.Reserve = func(_ context.Context, _ string, blobs ...string) (func(), error) {
			reserved = append(reserved, blobs...)
			return func() { released = append(released, blobs...) }, nil
		}
	}))
	long := `{"model":"fast","input":"` + strings.Repeat("a", schemas.InlineLimit) + `"}`
	id := w.do(t, post("/v1/responses", long)).Header().Get(schemas.HeaderGeneration)
	doc, err := json.Marshal(schemas.ChatResult{Dialect: schemas.DialectResponses, ProviderID: "resp_theirs", Usage: &schemas.ChatUsage{Prompt: 100, Completion: 20}})
	require.NoError(t, err)
	st, err := w.ledger.Find(t.Context(), "default", id)
	require.NoError(t, err)
	require.NotEmpty(t, st.Action.PayloadBlob)
	require.NoError(t, w.ledger.Append(t.Context(), st, schemas.Event{Type: schemas.EventStarted, Started: &schemas.Started{Worker: "w"}}))
	require.NoError(t, w.ledger.Append(t.Context(), st, schemas.Event{Type: schemas.EventSettled, Settled: &schemas.Settled{
		Outcome: schemas.OutcomeSucceeded, Result: doc, ResultBlob: "nowhere",
	}}))
	a := w.do(t, post("/v1/responses", continuing(schemas.ResponseID(id))))
	require.Equal(t, http.StatusAccepted, a.Code, a.Body)
	require.EqualValues(t, 120, w.order(t, a.Header().Get(schemas.HeaderGeneration)).Media)
	require.Empty(t, reserved)
	w.do(t, post("/v1/responses/"+schemas.ResponseID(id)+"/cancel", ""))
	require.Equal(t, []string{st.Action.PayloadBlob}, reserved)
	require.Equal(t, reserved, released)
}

// The holder of a task continues the responses of that task alone.
func TestAResponseOfATaskIsContinued(t *testing.T) {
	t.Parallel()
	h := lobby(t, desk(), scoped(ingress.Identity{Token: schemas.Token{Tenant: "default", ID: "filer", Scopes: []string{schemas.ScopeAdmin}}}))
	one, two := h.file(t, "one"), h.file(t, "two")
	h.open(t, "one")
	h.open(t, "two")
	made := func(r *http.Request) string {
		a := h.do(t, r)
		require.Equal(t, http.StatusAccepted, a.Code, a.Body)
		id := a.Header().Get(schemas.HeaderGeneration)
		h.responds(t, id, nil)
		return schemas.ResponseID(id)
	}
	filed, own := made(post("/v1/responses", okResponse)), made(holding(one, post("/v1/responses", okResponse)))
	made(holding(one, post("/v1/responses", continuing(own))))
	made(post("/v1/responses", continuing(own)))
	for _, r := range []*http.Request{
		holding(two, post("/v1/responses", continuing(own))), holding(one, post("/v1/responses", continuing(filed))),
	} {
		a := h.do(t, r)
		require.Equal(t, "previous_response_not_found", a.field("error", "code"), a.Body)
	}
	for token, status := range map[string]int{two: http.StatusNotFound, one: http.StatusOK} {
		require.Equal(t, status, h.do(t, holding(token, post("/v1/responses/"+own+"/cancel", ""))).Code)
	}
}

// A response in the background needs no end to be answered, and is answered as a response.
func TestAResponseInTheBackground(t *testing.T) {
	t.Parallel()
	w := setup(t, desk())
	background := strings.Replace(okResponse, "{", `{"background":true,`, 1)
	a := w.do(t, post("/v1/responses", background, "Prefer", "wait=7"))
	require.Equal(t, http.StatusAccepted, a.Code)
	c := w.responder.last(t)
	require.True(t, c.order.Background)
	require.False(t, c.held, "nothing waits for its end")
	require.Empty(t, a.Header().Get("Preference-Applied"))
	w.send(post("/v1/responses", strings.Replace(background, "{", `{"stream":true,`, 1)))
	c = w.responder.last(t)
	require.True(t, c.stream)
	require.True(t, c.held)
	require.False(t, w.responder.calls[0].order.Stream)
}

func TestAResponseIsCanceled(t *testing.T) {
	t.Parallel()
	who := &ingress.Identity{Token: schemas.Token{Tenant: "default", ID: "tok", Scopes: []string{schemas.ScopeActionsWrite}}}
	w := setup(t, desk(), func(c *config) {
		c.Authenticate = func(*http.Request) (ingress.Identity, error) { return *who, nil }
	})
	id := w.do(t, post("/v1/responses", okResponse)).Header().Get(schemas.HeaderGeneration)
	for _, base := range schemas.ChatBases() {
		a := w.do(t, post(base+"/responses/"+schemas.ResponseID(id)+"/cancel", ""))
		require.Equal(t, http.StatusOK, a.Code, a.Body)
		require.Equal(t, schemas.ResponseID(id), a.field("id"))
		require.Equal(t, string(schemas.OutcomeCanceled), a.field("outcome"), "once canceled, it stays so")
	}
	st, err := w.ledger.Find(t.Context(), "default", id)
	require.NoError(t, err)
	var result schemas.ChatResult
	require.NoError(t, json.Unmarshal(st.Settled.Result, &result))
	require.Equal(t, schemas.DialectResponses, result.Dialect)
	require.Equal(t, schemas.ChatCanceled, result.Error.Status)

	ended := w.do(t, post("/v1/responses", okResponse)).Header().Get(schemas.HeaderGeneration)
	w.responds(t, ended, nil)
	a := w.do(t, post("/v1/responses/"+schemas.ResponseID(ended)+"/cancel", ""))
	require.Equal(t, string(schemas.OutcomeSucceeded), a.field("outcome"), "it stays as it ended")

	completion := w.do(t, post("/chat/completions", okChat)).Header().Get(schemas.HeaderGeneration)
	records := w.records(t)
	for _, other := range []string{"x", "resp_x", id, schemas.ResponseID(completion), "resp_%2e%2e"} {
		w.do(t, post("/v1/responses/"+other+"/cancel", "")).refused(t, http.StatusNotFound, schemas.NotFound)
	}
	who.ID = "another"
	w.do(t, post("/v1/responses/"+schemas.ResponseID(ended)+"/cancel", "")).refused(t, http.StatusNotFound, schemas.NotFound)
	who.ID, who.Scopes = "tok", []string{schemas.ScopeActionsRead}
	w.do(t, post("/v1/responses/"+schemas.ResponseID(ended)+"/cancel", "")).refused(t, http.StatusForbidden, schemas.Forbidden)
	require.Equal(t, records, w.records(t))
}
