package app

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/schemas"
)

func TestBudgetsCommand(t *testing.T) {
	t.Parallel()
	all := []schemas.BudgetView{
		{Budget: "pair", Token: "k1", Model: "openai/m", Tokens: &schemas.BudgetCount{Limit: 2_000_000, Used: 1234}},
		{Budget: "team", Requests: &schemas.BudgetCount{Limit: 10, Used: 3, Held: 2}, USD: &schemas.BudgetCount{Limit: 12.5, Used: 0.000001, Held: 0.25}, Open: 2},
	}
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		assert.Equal(t, schemas.RouteBudgets, r.URL.Path)
		asked = append(asked, r.URL.RawQuery)
		page := schemas.Page[schemas.BudgetView]{Items: all[:1], Next: "n"}
		switch r.URL.Query().Get("cursor") {
		case "n":
			page = schemas.Page[schemas.BudgetView]{Items: all[1:]}
		default:
			if r.URL.Query().Get("budget") == "none" {
				page = schemas.Page[schemas.BudgetView]{Items: []schemas.BudgetView{}}
			}
		}
		assert.NoError(t, json.NewEncoder(w).Encode(page))
	}))
	t.Cleanup(server.Close)
	ended := func(want int, args ...string) (out, errs string) {
		t.Helper()
		var o, e bytes.Buffer
		code := Main(t.Context(), append([]string{"budgets", "--server", server.URL}, args...), nil, Streams{Out: &o, Err: &e})
		require.Equal(t, want, code, e.String())
		return o.String(), e.String()
	}
	run := func(args ...string) (out, errs string) { t.Helper(); return ended(exitOK, args...) }
	out, _ := run()
	require.Equal(t, `BUDGET  OF                        REQUESTS  TOKENS        USD                   OPEN  BEGINS ANEW
pair    token k1, model openai/m  -         1234/2000000  -                     0     never
team    all                       3/10 (2)  -             0.000001/12.5 (0.25)  2     never
`, out)
	out, _ = run("--json", "--budget", "pair")
	lines := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
	require.Len(t, lines, 2)
	require.JSONEq(t, `{"budget":"pair","token":"k1","model":"openai/m","tokens":{"limit":2000000,"used":1234,"held":0},"open":0}`, lines[0])
	require.JSONEq(t, `{"budget":"team","requests":{"limit":10,"used":3,"held":2},"usd":{"limit":12.5,"used":0.000001,"held":0.25},"open":2}`, lines[1])
	for _, args := range [][]string{{"--budget", "none"}, {"--budget", "none", "--json"}} {
		out, errs := ended(exitFailed, args...)
		require.Empty(t, out)
		require.Contains(t, errs, "there is no budget none, or nothing was used of it yet; used were: pair, team\n")
	}
	require.Equal(t, []string{"", "cursor=n", "budget=pair", "budget=pair&cursor=n", "budget=none", "", "cursor=n", "budget=none", "", "cursor=n"}, asked)

	empty := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		assert.NoError(t, json.NewEncoder(w).Encode(schemas.Page[schemas.BudgetView]{Items: []schemas.BudgetView{}}))
	}))
	t.Cleanup(empty.Close)
	out, errs := run("--server", empty.URL)
	require.Empty(t, out)
	require.Contains(t, errs, "no budget was used yet")
	_, errs = ended(exitFailed, "--server", empty.URL, "--budget", "team")
	require.Contains(t, errs, "there is no budget team, or nothing was used of it yet; nothing was used of any")
}
