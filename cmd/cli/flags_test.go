package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/client"
	"weir/schemas"
)

// weir runs the program with something on standard input, and returns its exit code and what it printed.
func weir(t *testing.T, in string, environ []string, args ...string) (code int, out, errs string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code = program(t.Context(), args, environ, Streams{In: strings.NewReader(in), Out: &stdout, Err: &stderr})
	return code, stdout.String(), stderr.String()
}

// program is the program without the commands that need a node.
func program(ctx context.Context, args, environ []string, s Streams) int {
	return Run(ctx, args, &Env{Streams: s, Environ: environ}, func(*Env) []*cobra.Command { return nil })
}

// command runs the program with nothing but its arguments.
func command(t *testing.T, args ...string) (code int, out, errs string) {
	t.Helper()
	return weir(t, "", nil, args...)
}

// clientOf is a client without a token.
func clientOf(t *testing.T, url string) *api {
	t.Helper()
	c, err := client.New(url, "")
	require.NoError(t, err)
	return &api{Client: c}
}

// always is a server that answers every request alike.
func always(t *testing.T, status int, kind, body string, header ...string) (url string) {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		for i := 0; i+1 < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// TestTokensAreListedPageByPage, each page of the tenant that was named.
func TestTokensAreListedPageByPage(t *testing.T) {
	t.Parallel()
	next := map[string]string{"": "a", "a": "b&", "b&": ""}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		cursor := r.URL.Query().Get("cursor")
		assert.Equal(t, "acme", r.URL.Query().Get("tenant"))
		_ = json.NewEncoder(w).Encode(schemas.Page[schemas.Token]{Items: []schemas.Token{{ID: "after-" + cursor}}, Next: next[cursor]})
	}))
	t.Cleanup(server.Close)
	code, out, errs := command(t, "token", "ls", "--tenant", "acme", "--json", "--server", server.URL)
	require.Equal(t, ExitOK, code, errs)
	for _, id := range []string{`"after-"`, `"after-a"`, `"after-b\u0026"`} {
		assert.Contains(t, out, id)
	}
}

// TestRefusalsAreSaid in the words of the answer, or by its status.
func TestRefusalsAreSaid(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		status int
		body   string
		args   []string
		want   string
	}{
		"a problem":      {409, `{"title":"Conflict","detail":"there is one","code":"CONFLICT"}`, []string{"dead", "redrive", "1"}, "there is one (CONFLICT)"},
		"a title":        {409, `{"title":"Conflict","code":"CONFLICT"}`, []string{"policy", "reload"}, "Conflict (CONFLICT)"},
		"another server": {502, `<html>`, []string{"policy", "reload"}, "the server answered 502"},
		"no such token":  {404, `{"title":"Not Found","detail":"no such token","code":"NOT_FOUND"}`, []string{"token", "revoke", "x"}, "weir: no such token (NOT_FOUND)"},
		"no document":    {200, `[`, []string{"dead", "ls"}, "unexpected EOF"},
	} {
		code, _, errs := command(t, append(tt.args, "--server", always(t, tt.status, "application/problem+json", tt.body))...)
		assert.Equal(t, ExitFailed, code, name)
		assert.Contains(t, errs, tt.want, name)
	}
}

// One letter is read by itself, however many lie behind it.
func TestDeadShowReadsOneLetter(t *testing.T) {
	t.Parallel()
	asked := make(chan string, 10)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.URL.RequestURI()
		_, _ = io.WriteString(w, `{"items":[{"seq":17,"action_id":"a","code":"POISON"}],"next":"17"}`)
	}))
	t.Cleanup(s.Close)
	show := func(seq string) (code int, out, said string) {
		return command(t, "dead", "show", seq, "--json", "--server", s.URL)
	}

	code, out, _ := show("17")
	require.Equal(t, ExitOK, code)
	require.Contains(t, out, `"seq":17`)
	require.Equal(t, "/v1/dead-letters?cursor=16&limit=1", <-asked)
	require.Empty(t, asked)

	code, out, said := show("16") // the first letter behind 15 is another
	require.Equal(t, ExitFailed, code)
	require.Empty(t, out)
	require.Equal(t, "weir: there is no dead letter 16; `weir dead ls` lists them\n", said)
}

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
		code, out, errs := command(t, append([]string{"budgets", "--server", server.URL}, args...)...)
		require.Equal(t, want, code, errs)
		return out, errs
	}
	run := func(args ...string) (out, errs string) { t.Helper(); return ended(ExitOK, args...) }
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
		out, errs := ended(ExitFailed, args...)
		require.Empty(t, out)
		require.Contains(t, errs, "there is no budget none, or nothing was used of it yet; used were: pair, team\n")
	}
	require.Equal(t, []string{"", "cursor=n", "budget=pair", "budget=pair&cursor=n", "budget=none", "", "cursor=n", "budget=none", "", "cursor=n"}, asked)

	empty := always(t, http.StatusOK, "application/json", `{"items":[]}`)
	out, errs := run("--server", empty)
	require.Empty(t, out)
	require.Contains(t, errs, "no budget was used yet")
	_, errs = ended(ExitFailed, "--server", empty, "--budget", "team")
	require.Contains(t, errs, "there is no budget team, or nothing was used of it yet; nothing was used of any")
}

func TestHealthCommand(t *testing.T) {
	t.Parallel()
	const good = `{"ready":true,"durability":"disk","partitions":1,"policy_version":"v","checks":{"log":"ok"}}`
	const bad = `{"ready":false,"durability":"disk","partitions":1,"policy_version":"v","checks":{"log":"failed"},"reasons":["log is not ready"]}`
	node := func(alive, ready int, body string) string {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			assert.Empty(t, r.Header.Get("Authorization"), "health needs no token")
			switch r.URL.Path {
			case "/healthz":
				w.WriteHeader(alive)
			case "/readyz":
				w.WriteHeader(ready)
				_, _ = w.Write([]byte(body))
			}
		}))
		t.Cleanup(server.Close)
		return server.URL
	}
	well, busy, other := node(200, 200, good), node(200, 503, bad), node(200, 200, "hello")
	const gone = "http://127.0.0.1:1"
	for _, c := range []struct {
		name string
		args []string
		code int
		out  string
		errs string
	}{
		{"alive", []string{well}, ExitOK, "alive\n", ""},
		{"ready", []string{"--ready", well}, ExitOK, "ready\n", ""},
		{"ready as JSON", []string{"--ready", "--json", well}, ExitOK, `{"url":"` + well + `","healthy":true,"status":200,"readiness":` + good + "}\n", ""},
		{"alive and not ready", []string{busy}, ExitOK, "alive\n", ""},
		{"not ready", []string{"--ready", busy}, ExitFailed, "", "log is not ready"},
		{"not ready as JSON", []string{"--ready", "--json", busy}, ExitFailed, `{"url":"` + busy + `","healthy":false,"status":503,"readiness":` + bad + `,"error":"log is not ready"}` + "\n", ""},
		{"another program", []string{"--ready", other}, ExitFailed, "", "what answers is no Weir"},
		{"nobody", []string{gone}, ExitFailed, "", "nobody answers at " + gone},
		{"no URL", []string{"127.0.0.1"}, ExitUsage, "", `"127.0.0.1" is not an http or https URL`},
		{"two", []string{well, well}, ExitUsage, "", "takes one URL at most"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			code, out, errs := weir(t, "", []string{"WEIR_TOKEN=weir1_x"}, append([]string{"health", "--timeout", "1m"}, c.args...)...)
			require.Equal(t, c.code, code, errs)
			require.Equal(t, c.out, out)
			if c.errs == "" {
				require.Empty(t, errs)
			}
			require.Contains(t, errs, c.errs)
		})
	}
}
