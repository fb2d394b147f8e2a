package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/schemas"
)

func TestActionsList(t *testing.T) {
	t.Parallel()
	asked := make(chan string, 20)
	ms := 12.34
	run := desk(t, func(r *http.Request) any {
		asked <- r.URL.RawQuery
		page := schemas.ActionPage{Items: []schemas.ActionEntry{{
			ID: "a-1", Kind: "http", Status: "denied", Code: schemas.DenyHost, Entry: "github", DurationMS: &ms, HTTPStatus: 302, Caller: "shop",
			Called: schemas.Called{Method: "GET", Host: "api.github.com", Path: "/zen"},
		}}, Next: "n"}
		if r.URL.Query().Get("cursor") == "n" {
			page = schemas.ActionPage{Items: []schemas.ActionEntry{{ID: "a-2", Kind: "run", Agent: "FETCH", Status: "started"}}, Freshness: schemas.Freshness{Behind: 7}}
		}
		if r.URL.Query().Get("count") == "true" {
			page.Count = &schemas.ActionCount{Total: 5, By: map[string]uint64{"open": 2, "denied": 3}}
		}
		if r.URL.Query().Get("code") == "NO" {
			page = schemas.ActionPage{Items: []schemas.ActionEntry{}}
		}
		return page
	})
	out, said := run(ExitOK, "actions", "ls", "--status", "denied,open", "--entry", "github", "--limit", "3")
	require.Equal(t, "entry=github&limit=3&status=denied%2Copen", <-asked)
	require.Equal(t, "cursor=n&entry=github&limit=2&status=denied%2Copen", <-asked)
	require.Regexp(t, `TIME +ID +CALL +HTTP +STATUS +CODE +DURATION +CALLER\n.* a-1 +GET api.github.com/zen +302 +denied +DENY_HOST +12.3ms +shop\n.* a-2 +run FETCH +- +started +- +- +-\n`, out)
	require.Equal(t, "weir: the index is 7 records behind the log, so the newest may be missing; try again\n", said)

	out, said = run(ExitOK, "actions", "ls", "--json", "--limit", "1")
	require.Equal(t, "weir: there may be more; --limit 1 ends the list here\n", said)
	require.Contains(t, out, `"id":"a-1"`)
	require.Equal(t, "limit=1", <-asked)
	run(ExitOK, "actions", "ls", "--limit", "1", "--search", "zen", "--host", "h", "--method", "GET,PUT", "--http-status", "5xx", "--agent", "FETCH", "--caller", "shop")
	require.Equal(t, "agent=FETCH&caller=shop&host=h&http_status=5xx&limit=1&method=GET%2CPUT&q=zen", <-asked)
	out, _ = run(ExitOK, "actions", "ls", "--count")
	require.Regexp(t, `open +2\ndenied +3\ntotal +5\n`, out)
	require.Equal(t, "count=true&limit=1", <-asked)
	out, said = run(ExitOK, "actions", "ls", "--code", "NO")
	require.Empty(t, out)
	require.Contains(t, said, "there are no such actions")
	for _, line := range []string{
		"ls --limit 0", "ls --q x", "ls --method FETCH", "ls --limit -1", "ls x", "ls --follow --count", "ls --follow --kind run", "cancel", "show", "redrive",
		"redrive a --all", "redrive a --code X", "redrive --all --rate fast", "redrive --all --kind tea", "redrive --host h", "redrive --all --host h", "redrive a --status failed",
		"redrive --status lost", "redrive --status failed --method FETCH",
	} {
		_, said := run(ExitUsage, append([]string{"actions"}, strings.Fields(line)...)...)
		require.NotEmpty(t, said)
	}
}

func TestActionsShow(t *testing.T) {
	t.Parallel()
	began := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	run := desk(t, func(r *http.Request) any {
		if strings.HasSuffix(r.URL.Path, "/events") {
			at := func(ms int) time.Time { return began.Add(time.Duration(ms) * time.Millisecond) }
			return schemas.Page[schemas.EventView]{Items: []schemas.EventView{
				{Type: schemas.EventAccepted, Time: at(0), Action: &schemas.EventViewAction{Kind: "http", Class: "safe"}},
				{Type: schemas.EventAttempt, Time: at(2), Attempt: &schemas.EventViewAttempt{Number: 1, Decision: schemas.Decision{Entry: "github"}}},
				{Type: schemas.EventProgress, Time: at(3)},
				{Type: schemas.EventProgress, Time: at(4)},
				{Type: schemas.EventAttempted, Time: at(9), Attempted: &schemas.EventViewAttempted{Number: 1, Sent: true, Status: 503, DurationMS: 7}},
				{Type: schemas.EventAttempted, Time: at(9), Attempted: &schemas.EventViewAttempted{Number: 2, Sent: true, Code: schemas.Interrupted}},
				{Type: schemas.EventSettled, Time: at(10), Settled: &schemas.EventViewSettled{Outcome: "failed", Code: "RETRIES_EXHAUSTED"}},
			}}
		}
		return schemas.ActionView{
			ID: "a", Kind: "http", Called: schemas.Called{Method: "GET", Host: "h.example", Path: "/\x1b[31m"}, Caller: "shop",
			Status: "failed", Created: began, Message: "bad \x1b[31m news",
		}
	})
	out, _ := run(ExitOK, "actions", "show", "a")
	require.Regexp(t, `^GET h.example/\\u001b\[31m\n\nid +a\nkind +http\ncaller +shop\nstatus +failed\n`, out)
	require.NotContains(t, out, "\x1b", "what a target said does not steer the terminal")
	require.Regexp(t, `\+2ms +attempt +attempt 1, allowed by github\n`, out)
	require.Regexp(t, `progress +2 of them\n`, out)
	require.Regexp(t, `\+9ms +attempted +attempt 1: 503 in 7ms\n`, out)
	require.Regexp(t, `attempt 2: INTERRUPTED\n`, out, "how long it took is unknown")
	require.Regexp(t, `\+10ms +settled +failed RETRIES_EXHAUSTED\n`, out)
	out, _ = run(ExitOK, "actions", "show", "a", "--json")
	require.Contains(t, out, `"status":"failed"`)
}

// TestActionsRedrive: actions are redriven by id, by the filters of the list, oldest first and only with --yes, or as
// dead letters, of each the newest. One that is refused does not end the others.
func TestActionsRedrive(t *testing.T) {
	t.Parallel()
	var sent []string
	url := served(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		body, err := io.ReadAll(r.Body)
		assert.NoError(t, err)
		id, _ := strings.CutSuffix(strings.TrimPrefix(r.URL.Path, "/v1/actions/"), "/redrive")
		var doc any
		switch {
		case r.Method == http.MethodGet && r.URL.Path == routeDead:
			doc = schemas.Page[schemas.DeadLetterView]{Items: []schemas.DeadLetterView{{Seq: 1, ActionID: "a", Kind: "http"}, {Seq: 2, ActionID: "b", Kind: "run"}, {Seq: 3, ActionID: "a", Kind: "http"}}}
		case r.Method == http.MethodGet:
			assert.Equal(t, "api.example failed", r.URL.Query().Get("host")+" "+r.URL.Query().Get("status"))
			doc = schemas.ActionPage{Items: []schemas.ActionEntry{{ID: "c", Status: "failed"}, {ID: "b", Status: "failed"}}}
		case id == "refused":
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(http.StatusConflict)
			doc = schemas.Problem{Title: "Conflict", Code: schemas.Conflict, Status: http.StatusConflict, Detail: "the target answered a call with status 201"}
		default:
			sent = append(sent, id+string(body))
			doc = schemas.Receipt{ID: "new", Status: "accepted", Duplicate: id == "a"}
		}
		assert.NoError(t, json.NewEncoder(w).Encode(doc))
	})
	for _, tt := range []struct {
		args      string
		code      int
		out, errs string
		sent      []string
	}{
		{"a refused b", ExitFailed, "a\tnew\nb\tnew\n", "weir: a was redriven before; the new action is: accepted\n" +
			"weir: refused: the target answered a call with status 201 (CONFLICT)\nweir: not redriven: 1 of 3\n", []string{"a", "b"}},
		{"--status failed --host api.example --yes", ExitOK, "b\tnew\nc\tnew\n", "", []string{"b", "c"}},
		{"--all", ExitOK, "a\tnew\nb\tnew\n", "", []string{`/v1/dead-letters{"sequence":3}`, `/v1/dead-letters{"sequence":2}`}},
		{"--all --kind run,push --json", ExitOK, `{"redrives":"b","id":"new","status":"accepted","duplicate":false,"durability":""}` + "\n", "", []string{`/v1/dead-letters{"sequence":2}`}},
		{"--all --code NONE", ExitOK, "", "weir: there are no such dead letters\n", nil},
	} {
		sent = nil
		code, out, errs := command(t, append(strings.Fields("actions redrive --rate 1000/s --server "+url), strings.Fields(tt.args)...)...)
		require.Equal(t, tt.code, code, errs)
		require.Equal(t, tt.out, out)
		require.Equal(t, tt.errs, errs, "and no bar where there is no terminal")
		require.Equal(t, tt.sent, sent)
	}
	sent = nil
	code, out, errs := command(t, "actions", "redrive", "--status", "failed", "--host", "api.example", "--server", url)
	require.Equal(t, ExitOK, code, errs)
	require.Contains(t, out, "failed")
	require.Contains(t, errs, "add --yes")
	require.Empty(t, sent, "without --yes nothing is sent")
}

func TestActionsResolve(t *testing.T) {
	t.Parallel()
	sent := make(chan string, 2)
	var resolution *schemas.Resolution
	run := desk(t, func(r *http.Request) any {
		switch r.URL.Path {
		case "/v1/actions/a/resolve":
			if body, err := io.ReadAll(r.Body); assert.NoError(t, err) {
				sent <- string(body)
			}
			return schemas.ActionStatus{ID: "a", Status: "outcome_unknown", Resolution: "applied"}
		case "/v1/actions/a":
			return schemas.ActionView{ID: "a", Status: "outcome_unknown", ResolveURL: "/v1/actions/a/resolve", Resolution: resolution}
		default:
			return schemas.Page[schemas.EventView]{}
		}
	})
	out, _ := run(ExitOK, "actions", "resolve", "a", "--applied", "--note", "seen <1>")
	require.Equal(t, "a\toutcome_unknown, resolved as applied\n", out)
	require.JSONEq(t, `{"effect":"applied","note":"seen <1>"}`, <-sent)
	out, _ = run(ExitOK, "actions", "resolve", "a", "--not-applied", "--json")
	require.JSONEq(t, `{"id":"a","status":"outcome_unknown","resolution":"applied"}`, out)
	require.JSONEq(t, `{"effect":"not_applied"}`, <-sent)
	for _, args := range [][]string{{"a"}, {"a", "--applied", "--not-applied"}, {"--applied"}} {
		_, said := run(ExitUsage, append([]string{"actions", "resolve"}, args...)...)
		require.NotEmpty(t, said)
	}
	require.Empty(t, sent, "a mistake sends nothing")

	const hint = "weir actions resolve a --applied, or --not-applied\n"
	_, said := run(ExitOK, "actions", "show", "a")
	require.Contains(t, said, hint)
	resolution = &schemas.Resolution{Effect: "applied"}
	_, said = run(ExitOK, "actions", "show", "a")
	require.NotContains(t, said, hint)
}

func TestCallText(t *testing.T) {
	t.Parallel()
	called := schemas.Called{Method: "GET", Host: "h.example", Path: "/a"}
	plan := schemas.Called{Method: "PUT", Host: "h.example", Path: "/a", Calls: 3}
	for want, e := range map[string]schemas.ActionEntry{
		"GET h.example/a":      {Kind: schemas.KindRun, Agent: "HTTP_EXECUTE", Called: called},
		"PUT h.example/a (+2)": {Kind: schemas.KindPlan, Called: plan},
		"push r refs/heads/b":  {Kind: schemas.KindPush, Called: schemas.Called{Path: "r refs/heads/b"}},
		"run FETCH":            {Kind: schemas.KindRun, Agent: "FETCH"},
		"chat openai/gpt-5":    {Kind: schemas.KindChat, ModelUse: schemas.ModelUse{Model: "openai/gpt-5"}},
		"task coder":           {Kind: schemas.KindTask, Agent: "coder"},
		"push":                 {Kind: schemas.KindPush},
	} {
		require.Equal(t, want, entryCall(e))
	}
	require.Equal(t, "chat m", viewCall(schemas.ActionView{Kind: schemas.KindChat, Result: []byte(`{"model":"m"}`)}))
	require.Equal(t, "chat responses m", viewCall(schemas.ActionView{Kind: schemas.KindChat, Result: []byte(`{"dialect":"responses","model":"m"}`)}))
	require.Equal(t, "chat", viewCall(schemas.ActionView{Kind: schemas.KindChat, Result: []byte(`[]`)}))
}

func TestEvidenceText(t *testing.T) {
	t.Parallel()
	for payload, want := range map[string]string{
		`{"method":"GET","request_fingerprint":"GET https://h.example/a?key,b","status":404,"duration_ms":12}`: "GET h.example/a  404  12ms",
		`{"method":"POST","target":"POST https://h.example/a?","reason":"no entry"}`:                           "POST h.example/a  no entry",
		`{"effect_ref":"e","method":"PUT","url":"http://h.example/a?b=c#d","status":200}`:                      "PUT h.example/a  200",
		`{"method":"GET","request_fingerprint":"hmac-sha256:00","status":200,"duration_ms":3}`:                 "GET  200  3ms",
		`{"model_asked":"fast","model":"openai/gpt-5","status":200,"duration_ms":1500}`:                        "openai/gpt-5  200  1.5s",
		`{"repo":"shop","ref":"refs/heads/a","result":"ok","duration_ms":5}`:                                   "shop refs/heads/a  5ms",
		`{"status":"succeeded","artifact_refs":{}}`:                                                            "succeeded",
		`[]`: "", `null`: "", `{"method":1}`: "",
	} {
		require.Equal(t, want, evidenceText([]byte(payload)), payload)
	}
}

func TestTailLine(t *testing.T) {
	t.Parallel()
	at, ms := time.Date(2026, 11, 1, 12, 0, 0, 5e6, time.Local), 3.0
	e := schemas.ActionEntry{ID: "a-1", Kind: "http", Called: schemas.Called{Method: "GET", Host: "h.example", Path: "/a"}, Created: at, Status: "accepted"}
	line := func(colour bool) string {
		var out strings.Builder
		require.NoError(t, printCells(printer{to: &out, colour: colour}, "  ", tailCells(e)))
		return out.String()
	}
	require.Equal(t, "12:00:00.005  a-1  accepted   GET h.example/a\n", line(false))
	e.Status, e.HTTPStatus, e.Code, e.DurationMS, e.Caller = "failed", 503, schemas.HTTPFailure, &ms, "shop"
	require.Equal(t, "12:00:00.005  a-1  failed     GET h.example/a  503  HTTP_FAILURE  3ms  shop\n", line(false))
	require.Contains(t, line(true), "a-1  \x1b[31mfailed   \x1b[0m  GET")
	require.Equal(t, "12:00:00", listTime(at, at.Add(time.Hour)))
	require.Equal(t, "2026-11-01 12:00:00", listTime(at, at.Add(24*time.Hour)))
}

// copying answers as a server that copies a repository: 202 at once, 202 again, as a
// node does that stops, and then the repository.
func copying(t *testing.T, ends bool) (url string, ids chan string) {
	t.Helper()
	ids = make(chan string, 3)
	var posts atomic.Int64
	url = served(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			fmt.Fprintf(w, `{"id":"a-1","status":"waiting","waiting":{"for":%q}}`, schemas.WaitNode)
			return
		}
		var req schemas.RepoRequest
		if err := json.NewDecoder(r.Body).Decode(&req); err != nil || req.RequestID == "" {
			http.Error(w, "no id", http.StatusBadRequest)
			return
		}
		ids <- req.RequestID
		if n := posts.Add(1); n == 2 || r.Header.Get("Prefer") == "wait=1" {
			w.WriteHeader(http.StatusAccepted)
			fmt.Fprint(w, `{"id":"a-1","status":"accepted","duplicate":false,"durability":"disk"}`)
			return
		}
		if !ends {
			<-r.Context().Done()
			return
		}
		w.WriteHeader(http.StatusCreated)
		fmt.Fprint(w, `{"name":"shop","mode":"hosted","default_branch":"main","url":"http://127.0.0.1/git/shop.git"}`)
	})
	return url, ids
}

func TestCopyARepository(t *testing.T) {
	t.Parallel()
	url, ids := copying(t, true)
	code, out, said := command(t, "repos", "create", "shop", "--import", "https://up.example.com/shop.git", "--server", url)
	require.Equal(t, ExitOK, code, said)
	require.Equal(t, "repository shop, hosted, branch main: http://127.0.0.1/git/shop.git\n", out)
	require.Equal(t, "waiting for a node with a place for repositories (git.dir); `weir tail actions a-1` shows the progress\n", said)
	close(ids)
	id := <-ids
	require.NotEmpty(t, id)
	for again := range ids {
		require.Equal(t, id, again, "a repeat joins the same action")
	}
}

// TestACopyIsRefused: nothing is said to be under way that never began.
func TestACopyIsRefused(t *testing.T) {
	t.Parallel()
	url := always(t, http.StatusConflict, "application/problem+json", `{"title":"Conflict","status":409,"detail":"there is one","code":"CONFLICT"}`)
	code, out, said := command(t, "repos", "create", "shop", "--import", "https://up.example.com/shop.git", "--server", url)
	require.Equal(t, 1, code)
	require.Empty(t, out)
	require.Equal(t, "weir: there is one (CONFLICT)\n", said)
}

// TestACopyGoesOn: a command that stops waiting says that the server goes on.
func TestACopyGoesOn(t *testing.T) {
	t.Parallel()
	url, ids := copying(t, false)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var said bytes.Buffer
	c := clientOf(t, url)
	c.Out, c.Err = &said, &said
	failed := make(chan error, 1)
	go func() {
		_, err := c.createRepo(ctx, schemas.RepoRequest{Name: "shop", ImportURL: "https://up.example.com/shop.git", RequestID: "mine"})
		failed <- err
	}()
	for range 3 {
		require.Equal(t, "mine", <-ids)
	}
	cancel()
	require.EqualError(t, <-failed, "the action goes on: `weir tail actions a-1` follows it, `weir actions cancel a-1` ends it")
}
