package egress_test

import (
	"context"
	"encoding/base64"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/egress"
	"weir/internal/fault"
	"weir/internal/problem"
	"weir/schemas"
)

// accounts are those of one tenant.
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
	h := build(t, func(c *egress.Config) { c.Budgets = accounts{"acme": all, "other": nil} })
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
		var got []schemas.BudgetView
		for cursor := ""; len(got) < len(all); {
			p := list("?limit=" + strconv.Itoa(limit) + cursor)
			require.LessOrEqual(t, len(p.Items), limit)
			if got = append(got, p.Items...); p.Next == "" {
				break
			}
			cursor = "&cursor=" + p.Next
		}
		require.Equal(t, all, got, limit)
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
		{"acme", "?budget=a/b", 400},
		{"acme", "?budget=a&budget=b", 400},
		{"acme", "?cursor=", 400},
		{"acme", "?cursor=a", 400},
		{"acme", "?cursor=YQ", 400},
		{"acme", "?cursor=YQAAAAA", 400},
		{"acme", "?limit=0", 400},
		{"down", "", 503},
		{"weak", "", 403},
		{"", "", 401},
	} {
		w := h.ask(http.MethodGet, "/v1/budgets"+tc.query, tc.who)
		require.Equal(t, tc.status, w.Code, tc)
		require.Equal(t, problem.MediaType, w.Header().Get("Content-Type"))
		require.NotContains(t, w.Body.String(), "10.0.0.1")
	}
	require.Equal(t, http.StatusNotFound, build(t).ask(http.MethodGet, "/v1/budgets", "acme").Code)
}
