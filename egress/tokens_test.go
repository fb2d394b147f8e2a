package egress_test

import (
	"context"
	"encoding/base64"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/internal/fault"
	"weir/internal/problem"
	"weir/schemas"
)

func listing(c *config) {
	c.Tokens = func(string, string, int) (page schemas.Page[schemas.Token], err error) { return page, nil }
}

// TestStreamsAreWatched: one that may not be held open is refused, and one that
// may no longer be is ended, whoever writes meanwhile.
func TestStreamsAreWatched(t *testing.T) {
	t.Parallel()
	type key struct{}
	ends := make(chan context.CancelFunc, 1)
	released := make(chan struct{}, 1)
	h := build(t, func(c *config) {
		c.HTTP.Watch = func(r *http.Request) (context.Context, func(), error) {
			if r.Header.Get("X-Many") != "" {
				return nil, nil, &fault.Error{Code: schemas.RateLimited, Message: "too many streams", Cause: errors.New("private")}
			}
			ctx, cancel := context.WithCancel(context.WithValue(r.Context(), key{}, 1))
			ends <- cancel
			return ctx, func() { cancel(); released <- struct{}{} }, nil
		}
	})
	h.append(h.claim(httpRef("a")), schemas.Event{Type: schemas.EventStarted, Started: &schemas.Started{Worker: "w"}})
	h.evidence("acme", schemas.EvidenceAttempt, "e", "a")
	for _, path := range []string{"/v1/actions/a/events", "/v1/evidence"} {
		w := h.get(path, "Accept", "text/event-stream", "X-Many", "1")
		require.Equal(t, http.StatusTooManyRequests, w.Code, path)
		require.NotEmpty(t, w.Header().Get("Retry-After"))

		got := make(chan *httptest.ResponseRecorder)
		go func() { got <- h.get(path, "Accept", "text/event-stream") }()
		(<-ends)()
		w = <-got
		require.Equal(t, http.StatusOK, w.Code, path)
		require.True(t, strings.HasSuffix(w.Body.String(), "\n\n"), "the stream ends as a stream ends")
		<-released

		require.Equal(t, http.StatusOK, h.get(path, "Accept", "application/json").Code, "a page is no stream")
		require.Empty(t, ends)
	}
	w := h.ask(http.MethodHead, "/v1/evidence", "acme", "Accept", "text/event-stream")
	require.Equal(t, http.StatusOK, w.Code)
	require.Empty(t, ends, "neither is a HEAD")
}

type accounts map[string][]schemas.BudgetView

func (a accounts) List(_ context.Context, tenant string) ([]schemas.BudgetView, error) {
	if tenant == "down" {
		return nil, &fault.Error{Code: schemas.Unavailable, Message: "try again", Cause: errDown}
	}
	return a[tenant], nil
}

func TestBudgets(t *testing.T) {
	t.Parallel()
	count := &schemas.BudgetCount{Limit: 10, Used: 2.5, Held: 1}
	all := []schemas.BudgetView{
		{Budget: "a", Tokens: count, Resets: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)},
		{Budget: "b", Token: "k", Model: "openai.x", USD: count, Open: 1},
		{Budget: "b", Token: "k", Model: "openai/x", USD: count},
		{Budget: "b", Token: "k", Model: "openai:x", USD: count},
		{Budget: "b", Token: "k-2", Model: "m", USD: count},
		{Budget: "task", Task: "j.1", Requests: count},
	}
	h := build(t, func(c *config) { c.Budgets = accounts{"acme": all, "other": nil} })
	list := func(query string) schemas.Page[schemas.BudgetView] {
		t.Helper()
		w := h.ask(http.MethodGet, "/v1/budgets"+query, "acme")
		require.Equal(t, http.StatusOK, w.Code)
		require.Equal(t, http.StatusOK, h.ask(http.MethodHead, "/v1/budgets"+query, "acme").Code)
		return decode[schemas.Page[schemas.BudgetView]](t, w.Body)
	}
	require.Equal(t, schemas.Page[schemas.BudgetView]{Items: all}, list(""))
	require.Equal(t, all[1:5], list("?budget=b").Items)
	require.Equal(t, []schemas.BudgetView{}, list("?budget=c").Items)
	for limit := 1; limit <= len(all); limit++ {
		require.Equal(t, all, pages[schemas.BudgetView](h, "/v1/budgets", limit), limit)
	}
	require.Equal(t, all[5:], list("?cursor="+base64.RawURLEncoding.EncodeToString([]byte("c\x00\x00\x00"))).Items, "of one that is gone by now")
	require.JSONEq(t, `{"items":[{"budget":"a","tokens":{"limit":10,"used":2.5,"held":1},"open":0,"resets":"2026-01-02T03:04:05Z"}],"next":"YQAAAA"}`,
		h.ask(http.MethodGet, "/v1/budgets?limit=1", "acme").Body.String())
	require.JSONEq(t, `{"items":[]}`, h.ask(http.MethodGet, "/v1/budgets", "other").Body.String())
	for _, tc := range []struct {
		who, query string
		status     int
	}{
		{"acme", "?budget=", 400},
		{"acme", "?budget=a&budget=b", 400},
		{"acme", "?cursor=YQ", 400},
		{"acme", "?limit=0", 400},
		{"down", "", 503},
	} {
		w := h.ask(http.MethodGet, "/v1/budgets"+tc.query, tc.who)
		require.Equal(t, tc.status, w.Code, tc)
		require.Equal(t, problem.MediaType, w.Header().Get("Content-Type"))
		require.NotContains(t, w.Body.String(), "10.0.0.1")
	}
	require.Equal(t, http.StatusNotFound, build(t).ask(http.MethodGet, "/v1/budgets", "acme").Code)
}
