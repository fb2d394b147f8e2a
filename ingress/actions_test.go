package ingress_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/schemas"
)

func submit(id string) *http.Request {
	return post("/v1/execute", `{"method":"POST","url":"http://ok.example/x","request_id":"`+id+`"}`)
}

func bare(path string) *http.Request { return httptest.NewRequest(http.MethodPost, path, http.NoBody) }

func (w *world) start(t *testing.T, id string) {
	t.Helper()
	st, err := w.ledger.Find(t.Context(), "default", id)
	require.NoError(t, err)
	require.NoError(t, w.ledger.Append(t.Context(), st, schemas.Event{Type: schemas.EventStarted, Started: &schemas.Started{Worker: "w"}}))
}

func TestCancelRoute(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.do(t, submit("new"))
	a := w.do(t, bare("/v1/actions/new/cancel"))
	require.Equal(t, http.StatusOK, a.Code)
	require.JSONEq(t, `{"id":"new","status":"canceled"}`, a.Body.String())
	require.Equal(t, "new", a.Header().Get("Weir-Action-Id"))

	w.do(t, submit("running"))
	w.start(t, "running")
	a = w.do(t, post("/v1/actions/running/cancel", `{}`))
	require.Equal(t, http.StatusAccepted, a.Code)
	require.JSONEq(t, `{"id":"running","status":"started","cancel_requested":true}`, a.Body.String())
	require.Equal(t, "running", (<-w.nudged).ID)

	a = w.do(t, bare("/v1/actions/new/cancel"))
	require.Equal(t, http.StatusConflict, a.Code)
	require.Contains(t, a.body["detail"], "canceled")
	require.Equal(t, "new", a.Header().Get("Weir-Action-Id"))

	require.Equal(t, http.StatusNotFound, w.do(t, bare("/v1/actions/nope/cancel")).Code)
	require.Equal(t, http.StatusUnprocessableEntity, w.do(t, post("/v1/actions/new/cancel", `{"force":true}`)).Code)
	r := post("/v1/actions/new/cancel", `x`)
	r.Header.Del("Content-Type")
	require.Equal(t, http.StatusBadRequest, w.do(t, r).Code)
}

func TestResolveRoute(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.do(t, submit("x"))
	path := "/v1/actions/x/resolve"
	require.Equal(t, http.StatusConflict, w.do(t, post(path, `{"effect":"applied"}`)).Code)
	w.settle(t, "x", schemas.OutcomeUnknown)
	a := w.do(t, post(path, `{"effect":"applied","note":"seen"}`))
	require.Equal(t, http.StatusOK, a.Code)
	require.JSONEq(t, `{"id":"x","status":"outcome_unknown","resolution":"applied"}`, a.Body.String())
	require.Equal(t, http.StatusOK, w.do(t, post(path, `{"effect":"applied"}`)).Code)
	require.Equal(t, http.StatusConflict, w.do(t, post(path, `{"effect":"not_applied"}`)).Code)
	require.Equal(t, http.StatusUnprocessableEntity, w.do(t, post(path, `{"effect":"AGWCANARY"}`)).Code)
	require.Equal(t, http.StatusUnsupportedMediaType, w.do(t, bare(path)).Code)
	require.Equal(t, http.StatusNotFound, w.do(t, post("/v1/actions/y/resolve", `{"effect":"applied"}`)).Code)
}

func TestRedriveRoute(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.do(t, submit("x"))
	w.settle(t, "x", schemas.OutcomeFailed)
	w.bury(t, schemas.DeadLetter{Tenant: "default", Kind: schemas.KindHTTP, ActionID: "x", Code: schemas.Poison})
	a := w.do(t, post("/v1/dead-letters/redrive", `{"sequence":1}`))
	require.Equal(t, http.StatusAccepted, a.Code)
	id := a.Header().Get("Weir-Action-Id")
	require.Equal(t, "/v1/actions/"+id, a.Header().Get("Location"))
	require.Equal(t, "x", w.action(t, "default", id).Supersedes)
	again := w.do(t, post("/v1/dead-letters/redrive", `{"sequence":1}`))
	require.Equal(t, id, again.Header().Get("Weir-Action-Id"))
	require.Equal(t, true, again.body["duplicate"])
	require.Equal(t, http.StatusUnprocessableEntity, w.do(t, post("/v1/dead-letters/redrive", `{}`)).Code)
	require.Equal(t, http.StatusNotFound, w.do(t, post("/v1/dead-letters/redrive", `{"sequence":9}`)).Code)
}
