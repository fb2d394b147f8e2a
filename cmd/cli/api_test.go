package cli

import (
	"bytes"
	"cmp"
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
	sse "github.com/tmaxmax/go-sse"

	"weir/client"
	"weir/internal/weirtest/fixture"
	"weir/internal/weirtest/llm"
	"weir/internal/weirtest/table"
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
	empty := fixture.Write(t, "empty", "\n")
	big := fixture.Write(t, "big", string(make([]byte, 1<<20+1)))
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

// served is the URL of a Weir.
func served(t *testing.T, handler http.HandlerFunc) (url string) {
	t.Helper()
	return newServer(t, handler).URL
}

// newServer is a Weir: each of its answers has an id.
func newServer(t *testing.T, handler http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Request-Id", "r-1")
		handler(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

// always is a server that answers every request alike.
func always(t *testing.T, status int, kind, body string, header ...string) (url string) {
	t.Helper()
	return served(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		setAll(w.Header(), header...)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	})
}

// desk is a server that answers with documents. run runs the program against it, and expects an exit code.
func desk(t *testing.T, answer func(r *http.Request) any) (run func(want int, args ...string) (out, said string)) {
	t.Helper()
	url := served(t, func(w http.ResponseWriter, r *http.Request) { assert.NoError(t, json.NewEncoder(w).Encode(answer(r))) })
	return func(want int, args ...string) (string, string) {
		t.Helper()
		code, out, said := weir(t, "", []string{"WEIR_URL=" + url}, args...)
		require.Equal(t, want, code, said)
		return out, said
	}
}

// example is a run of the program against a server that gives every request one answer.
type example struct {
	args   string // with spaces between
	status int    // of the answer; 0: 200
	kind   string // its media type; empty: JSON
	answer string
	code   int
	out    string // all of standard output
	errs   string // parts of standard error, with | between; empty: there is none
}

// examples runs them, and the arguments before each. The answers have more headers.
func examples(t *testing.T, before string, cases map[string]example, header ...string) {
	t.Helper()
	table.Run(t, cases, func(t *testing.T, x example) {
		server := always(t, cmp.Or(x.status, http.StatusOK), cmp.Or(x.kind, "application/json"), x.answer, header...)
		code, out, errs := command(t, append(strings.Fields(before+" "+x.args), "--server", server)...)
		assert.Equal(t, x.code, code, errs)
		assert.Equal(t, x.out, out)
		assert.Equal(t, x.errs == "", errs == "", errs)
		for part := range strings.SplitSeq(x.errs, "|") {
			assert.Contains(t, errs, part)
		}
		assert.NotContains(t, errs, "\x1b")
	})
}

// unsafeText has one character of each sort that a terminal obeys or does not show, and others
// that it shows.
const unsafeText = "a\u009b31m\u202eb\u2066c\u200fd\u061ce\u2028f\U000e0041g é 語 👩\u200d💻"

// TestABodyGoesToAPipeAsItIs: a pipe gets the body without escapes.
func TestABodyGoesToAPipeAsItIs(t *testing.T) {
	t.Parallel()
	_, server := provider(t, llm.Config{Default: llm.Act{Texts: []string{unsafeText}}})
	code, out, errs := saying(t, "", "chat", "m", "Hi", server)
	require.Equal(t, ExitOK, code, errs)
	assert.Equal(t, unsafeText+"\n", out)
	code, out, errs = saying(t, "", "chat", "m", "Hi", server, "--json")
	require.Equal(t, ExitOK, code, errs)
	assert.Contains(t, out, `\u009b`)
}

func TestPrinter(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                   "",
		"a\n\tb":             "a\n\tb",
		"a\r\x1b[2J\x00\x7f": `a\u000d\u001b[2J\u0000\u007f`,
		"\x9b é":             "\ufffd é",
		"\U0001f600\ufeff":   "\U0001f600" + `\ufeff`,
	} {
		var out bytes.Buffer
		n, err := printer{to: &out}.Write([]byte(text))
		require.NoError(t, err)
		assert.Equal(t, len(text), n)
		assert.Equal(t, want, out.String())
	}
	assert.Equal(t, `a\u000a\u0009b`, oneLine("a\n\tb"))
}

// FuzzTail reads whatever a server says as `weir tail` does, and shows it.
func FuzzTail(f *testing.F) {
	for _, s := range []string{
		"id: 1\nevent: settled\ndata: {\"settled\":{\"outcome\":\"succeeded\"},\"time\":\"t\"}\n\n", "data: []\n\n", "data: {\"settled\":1}\nevent: settled\n\n", "event: \ndata: {\"\":{\"a\":\"" + strings.Repeat("é", 300) + "\"}}\n\n",
		"data: {\ndata: }\n\n", "data: null\n\n", "data: {\"time\":{},\"code\":null}\n\n", ":\n\n", "\x00", "data: \xff\n\n",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, wire []byte) {
		for e, err := range sse.Read(bytes.NewReader(wire), &sse.ReadConfig{MaxEventSize: 1 << 20}) {
			if err != nil {
				return
			}
			var plain, raw bytes.Buffer
			_ = (&api{Streams: Streams{Out: &plain}}).showEvent(e)
			require.NoError(t, (&api{Streams: Streams{Out: &raw}, asJSON: true}).showEvent(e))
			require.Equal(t, e.Data+"\n", raw.String(), "a program gets what was sent")
		}
	})
}

// TestTellReload has a line for each node, and says where they differ.
func TestTellReload(t *testing.T) {
	t.Parallel()
	for want, done := range map[string]schemas.Reload{
		"policy v2 is in force, in place of v1\n": {Version: "v2", Previous: "v1", Changed: true},
		"nothing changed: policy v1 is in force\nthat is node n: the others have files of their own, and --all asks each\n": {Version: "v1", Previous: "v1", Node: "n"},
		"egress a: nothing changed: policy v2 is in force\nworker b: policy v2 is in force, in place of v1\n": {Nodes: []schemas.NodeReport{
			{Node: "a", Role: "egress", Version: "v2", Previous: "v2"}, {Node: "b", Role: "worker", Version: "v2", Previous: "v1", Changed: true},
		}},
		"egress a: nothing changed: policy v2 is in force\nworker b: policy v1 is in force as before: nothing was changed: it is wrong\nthe 2 nodes do not have the same policy\n": {Nodes: []schemas.NodeReport{
			{Node: "a", Role: "egress", Version: "v2", Previous: "v2"}, {Node: "b", Role: "worker", Version: "v1", Error: "nothing was changed: it is wrong"},
		}},
		"worker b: it has not reported its result in time\nthe 1 nodes do not have the same policy\n": {Nodes: []schemas.NodeReport{
			{Node: "b", Role: "worker", Error: "it has not reported its result in time"},
		}},
	} {
		require.Equal(t, want, reloadText(done))
	}
}
