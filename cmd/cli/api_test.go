package cli

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/schemas"
)

// TestRefusalsAreSaid in the words of the answer, or by its status.
func TestRefusalsAreSaid(t *testing.T) {
	t.Parallel()
	const problem, invalid = "application/problem+json", `{"title":"Unprocessable","detail":"no rate","code":"VALIDATION_ERROR"}`
	examples(t, "", map[string]example{
		"a problem":      {args: "actions cancel a", status: 409, kind: problem, answer: `{"title":"Conflict","detail":"there is one","code":"CONFLICT"}`, code: ExitFailed, errs: "there is one (CONFLICT)"},
		"a title":        {args: "policy reload", status: 409, kind: problem, answer: `{"title":"Conflict","code":"CONFLICT"}`, code: ExitFailed, errs: "Conflict (CONFLICT)"},
		"another server": {args: "policy reload", status: 502, kind: problem, answer: `<html>`, code: ExitFailed, errs: "the server answered 502"},
		"no such token":  {args: "token revoke x", status: 404, kind: problem, answer: `{"title":"Not Found","detail":"no such token","code":"NOT_FOUND"}`, code: ExitFailed, errs: "weir: no such token (NOT_FOUND)"},
		"in words":       {args: "tokens ls --json", status: 422, kind: problem, answer: invalid, code: ExitUsage, errs: "weir: no rate (VALIDATION_ERROR)\n"},
		"no document":    {args: "dead ls", answer: `[`, code: ExitFailed, errs: "unexpected EOF"},
		"a parameter":    {args: "actions ls --since yesterday", status: 400, kind: problem, answer: `{"title":"Bad Request","detail":"since must be a time","code":"INVALID_REQUEST"}`, code: ExitUsage, errs: "since must be a time (INVALID_REQUEST)"},
		"a command":      {args: "tasks cancel x", status: 422, kind: problem, answer: `{"title":"Unprocessable","detail":"make it with POST /v1/repos","code":"VALIDATION_ERROR"}`, code: ExitUsage, errs: "make it with `weir repos create` (VALIDATION_ERROR)"},
		"no tokens":      {args: "tokens ls", answer: `{"items":[]}`, errs: "the server is open and needs none"},
		"of a tenant":    {args: "tokens ls --tenant acme", answer: `{"items":[]}`, errs: "the tenant acme has no tokens"},
		"a value":        {args: "actions ls --json", status: 422, kind: problem, answer: invalid, code: ExitUsage, errs: invalid + "\n"},
	})
}

// TestServerIsDown is an error at once.
func TestServerIsDown(t *testing.T) {
	t.Parallel()
	for args, says := range map[string]string{
		"runner --exec true --dir " + t.TempDir() + " --server http://127.0.0.1:1": "no server answers at http://127.0.0.1:1; `weir serve` starts one, or name another with --server",
		"check http://127.0.0.1:1=T": "connection refused",
	} {
		code, out, errs := command(t, strings.Fields(args)...)
		assert.Equal(t, ExitFailed, code, args)
		assert.Contains(t, out+errs, says, args)
	}
}

// TestTailShowsTheCall of an action beside its first event, and goes on where its result is gone.
func TestTailShowsTheCall(t *testing.T) {
	t.Parallel()
	for shown, status := range map[string]int{
		"1        accepted  \n         call        GET h.example/x\n2        settled   \n": http.StatusOK,
		"1        accepted  \n2        settled   \n":                                       http.StatusGone,
	} {
		url := served(t, func(w http.ResponseWriter, r *http.Request) {
			switch {
			case !strings.HasSuffix(r.URL.Path, "/events"):
				w.WriteHeader(status)
				assert.NoError(t, json.NewEncoder(w).Encode(schemas.ActionView{Kind: "http", Called: schemas.Called{Method: "GET", Host: "h.example", Path: "/x"}}))
			case r.Header.Get("Last-Event-Id") != "":
				w.WriteHeader(http.StatusNoContent)
			default:
				w.Header().Set("Content-Type", "text/event-stream")
				_, _ = io.WriteString(w, "id: 1\nevent: accepted\ndata: {}\n\nid: 2\nevent: settled\ndata: {}\n\n")
			}
		})
		code, out, errs := command(t, "tail", "actions", "a", "--server", url)
		require.Equal(t, ExitOK, code, errs)
		require.Equal(t, shown, out)
	}
}

// TestAnotherServerIsNoWeir: a web server that answers everything makes no command succeed.
func TestAnotherServerIsNoWeir(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "{}") }))
	t.Cleanup(s.Close)
	for _, args := range []string{
		"health", "exec GET http://a/", "actions ls", "actions cancel a", "tail actions a", "tail evidence", "rules ls", "pause ingress", "policy reload", "tokens revoke k", "runner --exec true --dir " + t.TempDir(),
	} {
		code, out, errs := command(t, append(strings.Fields(args), "--server", s.URL)...)
		assert.Equal(t, ExitFailed, code, args)
		assert.Empty(t, out, args)
		assert.Contains(t, errs, "the server at "+s.URL+" is no Weir: its answer 200 OK has no X-Request-Id; check --server or WEIR_URL", args)
	}
}

func TestBudgets(t *testing.T) {
	t.Parallel()
	const pair = `{"budget":"pair","token":"k1","model":"openai/m","tokens":{"limit":2000000,"used":1234,"held":0},"open":0}`
	const team = `{"budget":"team","requests":{"limit":10,"used":3,"held":2},"usd":{"limit":12.5,"used":0.000001,"held":0.25},"open":2}`
	var asked []string
	run := desk(t, func(r *http.Request) any {
		asked = append(asked, r.URL.RawQuery)
		return json.RawMessage(map[string]string{
			"": `{"items":[` + pair + `],"next":"n"}`, "budget=pair": `{"items":[` + pair + `]}`, "cursor=n": `{"items":[` + team + `]}`,
		}[r.URL.RawQuery] + map[bool]string{true: `{"items":[]}`}[r.URL.Query().Get("budget") == "none"])
	})
	out, _ := run(ExitOK, "budgets")
	require.Equal(t, `BUDGET  OF                        REQUESTS  TOKENS        USD                   OPEN  RESETS
pair    token k1, model openai/m  -         1234/2000000  -                     0     never
team    all                       3/10 (2)  -             0.000001/12.5 (0.25)  2     never
`, out)
	out, _ = run(ExitOK, "budgets", "--json", "--budget", "pair")
	require.JSONEq(t, pair, out)
	out, said := run(ExitFailed, "budgets", "--budget", "none", "--json")
	require.Empty(t, out)
	require.Equal(t, "weir: there is no budget none, or nothing was used of it yet; `weir budgets` lists those in use\n", said)
	require.Equal(t, []string{"", "cursor=n", "budget=pair", "budget=none"}, asked)
	examples(t, "budgets", map[string]example{
		"none":       {answer: `{"items":[]}`, errs: "no budget was used yet"},
		"none named": {args: "--budget team", answer: `{"items":[]}`, code: ExitFailed, errs: "there is no budget team, or nothing was used of it yet"},
	})
}

func TestHealthCommand(t *testing.T) {
	t.Parallel()
	const good = `{"ready":true,"durability":"disk","partitions":1,"policy_version":"v","checks":{"log":"ok"}}`
	const bad = `{"ready":false,"durability":"disk","partitions":1,"policy_version":"v","checks":{"log":"failed"},"reasons":["log is not ready"]}`
	node := func(alive, ready int, body string) string {
		return served(t, func(w http.ResponseWriter, r *http.Request) {
			assert.Empty(t, r.Header.Get("Authorization"), "health needs no token")
			w.WriteHeader(map[string]int{"/healthz": alive, "/readyz": ready}[r.URL.Path])
			_, _ = io.WriteString(w, body)
		})
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
		{"nobody", []string{gone}, ExitFailed, "", "no server answers at " + gone},
		{"no URL", []string{"--server", "127.0.0.1:24000"}, ExitUsage, "", `"127.0.0.1:24000" is not an http or https URL; write http:// or https:// before the host`},
		{"a flag", []string{"--server", well}, ExitOK, "alive\n", ""},
		{"both", []string{well, "--server", well}, ExitUsage, "", "give one of them"},
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

// TestUsage: a mistake on the command line is said before anything is asked or printed.
func TestUsage(t *testing.T) {
	t.Parallel()
	empty := filepath.Join(t.TempDir(), "empty")
	require.NoError(t, os.WriteFile(empty, []byte("\n"), 0o600))
	big := filepath.Join(t.TempDir(), "big")
	require.NoError(t, os.WriteFile(big, make([]byte, 1<<20+1), 0o600))
	for command, mistakes := range map[string]map[string][]string{
		"check": {
			"takes a target":     {},
			"has no task type":   {"http://127.0.0.1:1"},
			"not an http or":     {"127.0.0.1:1=A"},
			"leave out /agents":  {"http://127.0.0.1:1/agents/run/stream=A"},
			"not a JSON object":  {"http://127.0.0.1:1=A", "--inputs", "[]"},
			"inputs is not JSON": {"http://127.0.0.1:1=A", "--inputs", "{"},
			"above zero":         {"http://127.0.0.1:1=A", "--timeout", "0s"},
			"--token-file":       {"http://127.0.0.1:1=A", "--token-file", empty + "x"},
			"--help":             {"http://127.0.0.1:1=A", "--no-such-flag"},
		},
		"rules preview": {
			"unknown flag: --config": {"GET", "http://127.0.0.1:1", "--config", "weir.yaml"}, // the rules are a server's
		},
		"chat": {
			"/big has more than 1 MiB":                              {"m", "@" + big},
			"chat takes a model and a message":                      {},
			"chat takes a model and a message; `weir models`":       {"m", "a", "b"},
			`"a b" is no name of a model`:                           {"a b", "Hi"},
			"there is nothing to ask":                               {"m"},
			"no-such-file":                                          {"m", "@no-such-file"},
			"open no-such-file":                                     {"m", "Hi", "--system", "@no-such-file"},
			"--max-tokens is below 1":                               {"m", "Hi", "--max-tokens", "-1"},
			"--max-tokens is below 1; leave it out for the model's": {"m", "Hi", "--max-tokens", "0"},
		},
	} {
		for want, args := range mistakes {
			code, out, errs := weir(t, "", nil, append(strings.Fields(command), args...)...)
			assert.Equal(t, ExitUsage, code, want)
			assert.Contains(t, errs, want)
			assert.Empty(t, out, want)
		}
	}
}
