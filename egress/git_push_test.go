package egress_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/internal/fault"
	"weir/internal/githttp"
	"weir/schemas"
)

// pushed is an answer to a push whose body was not read.
func pushed(t *testing.T, asked githttp.Asked) (*githttp.Answer, *httptest.ResponseRecorder, *http.Request) {
	t.Helper()
	rec := httptest.NewRecorder()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/git/own/git-receive-pack", strings.NewReader("PACK"))
	r.Header.Set("User-Agent", "git/2.39.5")
	body, err := githttp.NewBody(rec, r, githttp.Limits{Bytes: 100, Total: time.Minute})
	require.NoError(t, err)
	a := githttp.NewAnswer(rec, asked, body, 100, func() {})
	a.Open()
	return a, rec, r
}

func TestRespondToAPush(t *testing.T) {
	t.Parallel()
	h := build(t)
	ref := schemas.Ref{Tenant: "acme", Kind: schemas.KindPush, ID: "p-1"}
	release := h.room.Expect(ref)
	defer release()
	st := h.claim(ref)
	h.settle(st, schemas.Settled{
		Outcome: schemas.OutcomeSucceeded, Result: []byte(`{"repo":"own","ref":"refs/heads/work","old":"` + strings.Repeat("a", 40) + `","new":"` + strings.Repeat("b", 40) + `","task_id":"t-1","bytes":4,"report":true,"side_band":true}`),
	})
	a, rec, r := pushed(t, githttp.Asked{Ref: "refs/heads/work", Report: true, SideBand: true})
	h.room.Respond(a, r, ref, schemas.Receipt{ID: "p-1"}, -1)
	require.Equal(t, http.StatusOK, rec.Code)
	require.Equal(t, "application/x-git-receive-pack-result", rec.Header().Get("Content-Type"))
	require.Contains(t, rec.Body.String(), "unpack ok")
	require.Contains(t, rec.Body.String(), "ok refs/heads/work")

	shown := h.get("/v1/actions/p-1")
	require.Equal(t, http.StatusOK, shown.Code)
	require.Contains(t, shown.Body.String(), `"refs/heads/work"`)
	require.NotContains(t, shown.Body.String(), "side_band")
}

func TestAPushIsNotLeftBehind(t *testing.T) {
	t.Parallel()
	h := build(t)
	ref := schemas.Ref{Tenant: "acme", Kind: schemas.KindPush, ID: "p-2"}
	h.claim(ref)
	h.feed.EndWaits()
	a, rec, r := pushed(t, githttp.Asked{SideBand: true})
	h.room.Respond(a, r, ref, schemas.Receipt{ID: "p-2"}, -1)
	require.Equal(t, http.StatusServiceUnavailable, rec.Code, "git takes no receipt")
	require.NotEmpty(t, rec.Header().Get("Retry-After"))
	require.Equal(t, "text/plain; charset=utf-8", rec.Header().Get("Content-Type"))

	h = build(t)
	ref.ID = "p-3"
	h.claim(ref)
	h.failing(func() error { return errors.Join(fault.ErrUnavailable, errDown) })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	a, rec, r = pushed(t, githttp.Asked{SideBand: true})
	h.room.Respond(a, r.WithContext(ctx), ref, schemas.Receipt{ID: "p-3"}, -1)
	require.Empty(t, rec.Body.String(), "nobody is left to answer")
}
