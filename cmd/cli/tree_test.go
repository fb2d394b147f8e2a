package cli

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tmaxmax/go-sse"

	"weir/internal/weirtest/fixture"
	"weir/internal/weirtest/table"
	"weir/schemas"
)

// TestMistypedWordsGetTheNearest command, flag or value.
func TestMistypedWordsGetTheNearest(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"taks":                          "`weir` has no command \"taks\"; did you mean tasks?",
		"frobnicate":                    "`weir` has no command \"frobnicate\"; `weir --help` lists them",
		"tasks lst":                     "`weir tasks` has no command \"lst\"; did you mean ls?",
		"help tsks":                     "did you mean tasks?",
		"help tasks crate":              "did you mean create?",
		"pin opne github":               "did you mean open?",
		"tail evidnce":                  "did you mean evidence?",
		"schema opnapi":                 "did you mean openapi?",
		"completion bsh":                "did you mean bash?",
		"actions ls --method get":       `there is no "get"; did you mean GET?`,
		"tasks frobnicate":              "`weir tasks --help` lists them",
		"budgets lx":                    "did you mean ls?",
		"dead redrive 17":               "use `weir actions redrive ID…`",
		"top --once":                    "this command was removed; use `weir tail actions`",
		"actions ls --statsu failed":    "unknown flag: --statsu; did you mean --status?",
		"actions ls --frobnicate":       "unknown flag: --frobnicate; `weir actions ls --help` shows its flags",
		"actions ls -x":                 "`weir actions ls --help` shows its flags",
		"actions ls --status faild":     `there is no "faild"; did you mean failed?`,
		"actions ls --kind run,tea":     `there is no "tea"; choose from http, plan, run`,
		"tasks list --status completed": `there is no "completed"; did you mean Completed?`,
		"token create --name a --scope actions:wrote": "did you mean actions:write?",
		"pause --kind plam":                           "did you mean plan?",
		"chat m Hi --key k":                           "unknown flag: --key; it is now --idempotency-key",
		"rules record a --replace":                    "unknown flag: --replace; it is now `weir rules patch`",
	} {
		code, out, errs := command(t, strings.Fields(line)...)
		assert.Equal(t, ExitUsage, code, line)
		assert.Contains(t, errs, want, line)
		assert.Empty(t, out, line)
	}
}

func TestRootFlags(t *testing.T) {
	t.Parallel()
	_, want, _ := command(t, "version")
	_, out, _ := command(t, "--version")
	require.Equal(t, want, out)
	require.Contains(t, out, "weir "+Version)
	_, out, _ = command(t, "--help")
	for _, part := range []string{"Start:\n", "Call and watch:\n", "Policy:\n", "Agents:\n", "Operate:\n", "  2  a mistake on the command line"} {
		require.Contains(t, out, part)
	}
	require.NotContains(t, out, "Additional Commands")
}

// TestListsWorkByAllTheirNames.
func TestListsWorkByAllTheirNames(t *testing.T) {
	t.Parallel()
	run := desk(t, func(*http.Request) any { return map[string]any{"items": []any{}, "data": []any{}} })
	for _, group := range []string{"actions", "action", "tasks", "task", "repos", "repo", "tokens", "token", "budgets", "budget", "models", "model", "operations", "operation", "dead"} {
		for _, ls := range []string{"ls", "list"} {
			_, said := run(ExitOK, group, ls)
			require.NotContains(t, said, "Usage", group)
			require.Regexp(t, `\b(no|nothing)\b`, said, "%s: an empty list says that it is", group)
		}
	}
}

// TestCompletion completes ids and names from the running Weir, and says nothing where it does not answer.
func TestCompletion(t *testing.T) {
	t.Parallel()
	answers := map[string]any{
		"/v1/actions":      schemas.ActionPage{Items: []schemas.ActionEntry{{ID: "a-1", Kind: "http", Status: "failed"}}},
		"/v1/tasks":        schemas.TaskPage{Items: []schemas.TaskView{{ID: "t-1", Status: "Running", Description: "Fix\tthe \x1b[31mtotals\nand more"}}},
		"/v1/repos":        schemas.Page[schemas.Repo]{Items: []schemas.Repo{{Name: "shop"}}},
		"/v1/tokens":       schemas.Page[schemas.Token]{Items: []schemas.Token{{ID: "k-1", Name: "ci"}}},
		"/v1/policy":       schemas.PolicyView{Entries: []schemas.EntryView{{Name: "github"}, {Name: "agent:T"}}},
		"/v1/models":       schemas.ModelList{Data: []schemas.ModelView{{ID: "openai/gpt"}}},
		"/v1/budgets":      schemas.Page[schemas.BudgetView]{Items: []schemas.BudgetView{{Budget: "daily"}}},
		"/v1/dead-letters": schemas.Page[schemas.DeadLetterView]{Items: []schemas.DeadLetterView{{Seq: 17, ActionID: "a-9", Code: "POISON", Kind: "run", Agent: "FETCH"}}},
	}
	run := desk(t, func(r *http.Request) any { return answers[r.URL.Path] })
	for line, want := range map[string]string{
		"actions show ":               "a-1\thttp failed",
		"actions cancel a-0 ":         "a-1\thttp failed",
		"actions redrive ":            "a-9\trun FETCH POISON",
		"tasks follow ":               "t-1\tRunning: Fix\\u0009the \\u001b[31mtotals",
		"task show ":                  "t-1\t",
		"tasks logs ":                 "t-1\t",
		"tokens revoke ":              "k-1\tci",
		"pause ":                      "github",
		"pin ":                        "closed",
		"pin closed ":                 "github",
		"chat ":                       "openai/gpt",
		"tasks create --repo ":        "shop\n",
		"exec --key ":                 "github",
		"budgets --budget ":           "daily\tall",
		"tasks ls --status ":          "Completed",
		"actions ls --status failed,": "failed,denied",
		"tokens create --scope ":      "actions:write",
	} {
		args := append([]string{cobraComplete}, strings.Split(line, " ")...)
		out, _ := run(ExitOK, args...)
		assert.Contains(t, out, want, line)
		assert.NotContains(t, out, "\x1b", line)
	}
	out, _ := run(ExitOK, cobraComplete, "actions", "show", "a-1", "")
	assert.Equal(t, ":4\n", out, "there is one argument")

	out, _ = run(ExitOK, cobraComplete, "exec", "--key", "")
	assert.Equal(t, "github\n:4\n", out, "the entries of agents are for runs")

	for _, server := range []string{"http://127.0.0.1:1", always(t, http.StatusUnauthorized, "application/json", `{}`), "no url"} {
		began := time.Now()
		code, out, errs := weir(t, "", nil, cobraComplete, "tasks", "show", "--server", server, "")
		assert.Equal(t, ExitOK, code)
		assert.Equal(t, ":4\n", out, server)
		assert.NotContains(t, errs, "weir:", server)
		assert.Less(t, time.Since(began), 2*completionWait)
	}
}

// cobraComplete is the hidden command that a shell's completion calls.
const cobraComplete = "__complete"

// TestTokenFiles: a token goes to a new file that only its owner may read, and nothing is asked for where there is one.
func TestTokenFiles(t *testing.T) {
	t.Parallel()
	asked := 0
	run := desk(t, func(*http.Request) any {
		asked++
		return schemas.NewToken{Token: schemas.Token{ID: "k1", Name: "ci"}, Secret: "weir1_k1_s"}
	})
	file := filepath.Join(t.TempDir(), "ci.token")
	out, said := run(ExitOK, "tokens", "create", "--name", "ci", "--scope", "actions:read", "--out", file)
	require.Empty(t, out)
	require.Contains(t, said, "token k1 of ci")
	text := fixture.Read(t, file)
	require.Equal(t, "weir1_k1_s\n", string(text))
	info, err := os.Stat(file)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	require.Equal(t, 1, asked)

	_, said = run(ExitUsage, "tokens", "create", "--name", "ci", "--scope", "actions:read", "--out", file)
	require.Contains(t, said, "exists, and no token was created")
	require.Equal(t, 1, asked)
	_, said = run(ExitFailed, "tokens", "create", "--name", "ci", "--scope", "actions:read", "--out", filepath.Join(file, "below"))
	require.Contains(t, said, "revoke it with `weir tokens revoke k1`")
	require.NotContains(t, said, "weir1_")
	out, _ = run(ExitOK, "tokens", "create", "--name", "ci", "--scope", "actions:read")
	require.Equal(t, "weir1_k1_s\n", out)
}

// TestFollowShowsEachEventAlone: no line has a member of an earlier event.
func TestFollowShowsEachEventAlone(t *testing.T) {
	t.Parallel()
	var stream strings.Builder
	for _, data := range []string{
		`{"task_id":"t","status":"Queued","what":"accepted","time":"2026-11-01T12:00:00Z","n":1}`,
		`{"task_id":"t","status":"Running","what":"claimed","time":"2026-11-01T12:00:01.25Z","n":2,"lease":1}`,
		`{"task_id":"t","status":"Running","what":"asked","time":"2026-11-01T12:01:30Z","n":3,"inquiry":1}`,
		`{"task_id":"t","status":"Running","what":"pushed","time":"2026-11-01T12:02:00Z","n":4,"head":"abc\u001b[31m"}`,
		`{"task_id":"t","status":"Queued","what":"lost","time":"2026-11-01T13:02:00Z","n":5}`,
		`{"task_id":"t","status":"Failed","what":"settled","time":"2026-11-01T13:02:00Z","n":6,"code":"LEASES","reason":"too many"}`,
	} {
		stream.WriteString("data: " + data + "\n\n")
	}
	server := httpStream(t, stream.String())
	code, out, errs := command(t, "tasks", "follow", "t", "--server", server)
	require.Equal(t, ExitFailed, code, errs)
	lines := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
	require.Len(t, lines, 6)
	for i, want := range []string{
		"        +0s  Queued     accepted",
		"      +1.3s  Running    claimed lease 1",
		"     +1m30s  Running    asked question 1; answer it with: weir tasks answer t --inquiry 1 TEXT",
		`      +2m0s  Running    pushed abc\u001b[31m`,
		"    +1h2m0s  Queued     lost",
		"    +1h2m0s  Failed     settled too many LEASES",
	} {
		require.Equal(t, want, lines[i][len("15:04:05"):])
	}
}

// httpStream is a server that answers once with a stream of events, and then that it is over.
func httpStream(t *testing.T, events string) (url string) {
	t.Helper()
	first := true
	return served(t, func(w http.ResponseWriter, _ *http.Request) {
		if !first {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		first = false
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, events)
	})
}

// TestColours are on a terminal alone, and move no column.
func TestColours(t *testing.T) {
	t.Parallel()
	rows := []schemas.ActionEntry{{ID: "a\x1b[31m", Status: "denied"}, {ID: "bb", Status: "succeeded"}}
	list := func(colour bool) string {
		var text strings.Builder
		out := printer{to: &text, colour: colour}
		c := &api{Streams: Streams{Out: out, Err: out}}
		require.NoError(t, printList(c, read(rows, nil), "", "ID\tSTATUS\tEND", func(e schemas.ActionEntry) []any { return []any{e.ID, e.Status, "."} }))
		return text.String()
	}
	plain, coloured := list(false), list(true)
	require.Equal(t, "ID           STATUS     END\na\\u001b[31m  denied     .\nbb           succeeded  .\n", plain)
	require.Equal(t, plain, strings.NewReplacer("\x1b[39m", "", "\x1b[31m", "", "\x1b[32m", "", "\x1b[0m", "").Replace(coloured))
	require.Contains(t, coloured, "\x1b[31mdenied\x1b[0m")
	require.Contains(t, coloured, "\x1b[32msucceeded\x1b[0m")
	require.NotContains(t, coloured, "a\x1b")

	var b strings.Builder
	require.NoError(t, printFacts(printer{to: &b, colour: true}, "", [][2]string{{"status", "failed"}, {"result", "succeeded as told"}}))
	require.Equal(t, "status  \x1b[31mfailed\x1b[0m\nresult  succeeded as told\n", b.String())

	b.Reset()
	require.NoError(t, printOutcome(printer{to: &b, colour: true}, "denied: DENY\x1b_HOST\n"))
	require.Equal(t, "\x1b[31mdenied\x1b[0m: DENY\\u001b_HOST\n", b.String())

	b.Reset()
	c := &api{Streams: Streams{Out: printer{to: &b, colour: true}, Err: printer{to: &b, colour: true}}}
	c.sayOutcome(ExitUnknown, "weir:", " m\x1b")
	require.NoError(t, c.showEvent(sse.Event{LastEventID: "1", Type: "evidence", Data: `{"code":"DENY_HOST","time":"t"}`}))
	require.NoError(t, c.showEvent(sse.Event{LastEventID: "2", Type: "settled", Data: `{"settled":{"outcome":"succeeded"}}`}))
	require.Equal(t, "\x1b[33mweir:\x1b[0m m\\u001b\n1        \x1b[31mevidence  \x1b[0m  t  DENY_HOST\n"+
		"2        \x1b[32msettled   \x1b[0m  {\"outcome\":\"succeeded\"}\n", b.String())
	require.False(t, (&Env{}).printer(&b).colour, "a pipe has no colours")
}

func TestBuilt(t *testing.T) {
	t.Parallel()
	type testCase struct {
		main, vcs, release, revision string
		version, commit              string
	}
	table.Run(t, map[string]testCase{
		"a release":                  {"(devel)", "", "v1.2.3", "abc", "v1.2.3", "abc"},
		"a release in a checkout":    {"v0.0.0-2026-abc", "abc", "v1.2.3", "def", "v1.2.3", "def"},
		"a module":                   {"v1.2.3", "", "", "", "v1.2.3", ""},
		"a checkout":                 {"v0.0.0-2026-abc+dirty", "abc", "", "", "v0.0.0-2026-abc+dirty", "abc"},
		"a build without repository": {"(devel)", "", "", "", "unknown", ""},
		"no build information":       {"", "", "", "", "unknown", ""},
	}, func(t *testing.T, tt testCase) {
		info := &debug.BuildInfo{Main: debug.Module{Version: tt.main}}
		if tt.vcs != "" {
			info.Settings = []debug.BuildSetting{{Key: "vcs", Value: "git"}, {Key: "vcs.revision", Value: tt.vcs}}
		}
		b := built(info, tt.release, tt.revision)
		assert.Equal(t, tt.version, b.Version)
		assert.Equal(t, tt.commit, b.Revision)
	})
}
