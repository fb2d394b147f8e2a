//go:build e2e

package canary_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/weirtest/agent"
	"weir/internal/weirtest/gitkit"
	"weir/internal/weirtest/llm"
	"weir/schemas"
)

// sensitiveRun begins the ids of runs of a sensitive tier: their evidence holds no content.
const sensitiveRun = "sensitive."

// runEnds are the task types of agents, and what the answer to a run of each has.
func runEnds() map[string]string {
	return map[string]string{
		"RUN.ECHO": `"status":"ok"`, "RUN.FULL": `"status":"ok"`, "RUN.JSON": `"status":"ok"`, "RUN.WIRE": `"status":"ok"`,
		"RUN.FAILED": `"status":"error"`, "RUN.REFUSED": `"status":"error"`, "RUN.ERROR": string(schemas.TaskFailed), "RUN.CUT": string(schemas.TaskFailed), "RUN.GARBAGE": string(schemas.TaskFailed),
		"RUN.LOST": string(schemas.OutcomeUnknownCode), "RUN.HELD": string(schemas.DeadlineExceeded), "RUN.FORGED": string(schemas.AgentUnavailable), "RUN.MISSING": string(schemas.SecretUnavailable),
	}
}

func taskTypes() []string { return slices.Sorted(maps.Keys(runEnds())) }

func jsonText(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err) // it is made of texts
	}
	return string(raw)
}

// answer is a canned answer of testdata: its status, its media type and its body.
func (w *world) answer(name string, names map[string]string) (status int, media, body string) {
	head, body, _ := strings.Cut(w.expand(name+" ", w.section("answers.txtar", name), names), "\n")
	_, err := fmt.Sscan(head, &status)
	assert.NoError(w.t, err)
	return status, head[4:], body
}

// answerRun answers a run as its task type says.
func (w *world) answerRun(x *agent.Exchange) {
	switch x.Run.TaskType {
	case "RUN.ECHO":
		var headers bytes.Buffer
		_ = x.Header.Write(&headers) // to memory: cannot fail
		secret := x.Header.Get("Authorization")
		told := object{"headers": headers.String(), "authorization": secret, "coded": base64.StdEncoding.EncodeToString([]byte(secret)), "body": string(x.Body)}
		x.Stream()
		x.Event("token "+secret, jsonText(told))
		x.Event("progress", jsonText(object{"type": strings.Repeat("n", 100) + secret}))
		x.Event("complete", jsonText(object{"request_id": x.Run.RequestID, "status": "ok", "outputs": told, "warnings": []any{secret}}))
	case "RUN.HELD":
		x.Stream()
		x.Event("progress", jsonText(object{"text": w.g.plant("agent while held")}))
		w.held["agent"] <- struct{}{}
		x.Await()
	case "RUN.LOST":
		x.Die()
	default:
		status, media, body := w.answer("agent "+x.Run.TaskType, map[string]string{"request_id": x.Run.RequestID})
		x.Begin(status, media)
		x.Write(body)
	}
}

// run is a run of a task, sensitive or not, with canaries in its members.
func (w *world) run(task string, sensitive bool, inputs object) object {
	of, id := func(place string) string { return w.g.plant("run " + place) }, "run."+random(4)
	tier := schemas.RiskNonSensitive
	if sensitive {
		id, tier = sensitiveRun+id, schemas.RiskPHI
	}
	return object{"request_id": id, "task_type": task, "risk_tier": tier, "user_id": of("user"), "workflow_id": of("workflow"), "inputs": inputs}
}

// runs are runs of every task type, in both tiers and on both routes, to every end.
func (w *world) runs() {
	var all []func()
	of := func(place string) string { return w.g.plant("run " + place) }
	do := func(task, want string, inputs func() object) {
		for _, sensitive := range []bool{true, false} {
			for _, route := range []string{schemas.RouteRunSync, schemas.RouteRunStream} {
				run := w.run(task, sensitive, inputs())
				if task == "RUN.HELD" {
					run["budgets"] = object{"timeout_ms": 1200}
				}
				_, answer := w.owner.ask(http.MethodPost, route, w.json(run))
				contains(w.t, answer, want, task+" "+route)
			}
		}
	}
	for task, want := range runEnds() {
		all = append(all, func() { do(task, want, func() object { return object{of("input key"): of("input")} }) })
	}
	for target, want := range map[string]string{"/ok": `"status":"ok"`, "/refused": `"status":"error"`, "/close": `"status":"error"`, "/echo": `"status":"ok"`} {
		state := func() object {
			return object{"method": "POST", "url": w.plain.URL() + target + "?q=" + of("query"), "allowlist_key": "plain", "headers": object{of("header name"): of("header")}, "body": object{of("body key"): of("body")}}
		}
		all = append(all, func() {
			do(schemas.TaskHTTPExecute, want, func() object {
				return object{"type": "Http", "idempotency_key": of("idempotency key"), "args": state()}
			})
			do(schemas.TaskHTTPPlan, "", func() object {
				return object{"state:env.snapshot": object{"snapshot_id": of("snapshot")}, "artifact:proposed.plan": object{"plan_id": of("plan id"), "decisions": []any{
					object{"effect_ref": of("effect"), "idempotency_key": of("decision key"), "target_state": with(state(), object{"idempotency_key": of("plan key")})},
					object{"effect_ref": of("effect"), "target_state": object{"url": "http://" + w.g.word("denied host of a run") + ".example/", "allowlist_key": "plain"}},
				}}}
			})
		})
	}
	all = append(all, func() { do(schemas.TaskEcho, `"status":"ok"`, func() object { return object{"steps": 2} }) })
	parallel(all...)
	id := w.begin("agent", schemas.RouteRunSync, w.run("RUN.HELD", true, object{}))
	w.owner.ask(http.MethodPost, "/v1/actions/"+id+"/cancel", "")
	w.settled(id)
	w.owner.ask(http.MethodGet, "/v1/actions/"+id+"/events", "", "Accept", "text/event-stream")
}

// provider says canaries, one in every place, echoes its keys, or fails.
func (w *world) provider() llm.Config {
	of := func(place string) string { return w.g.plant("model " + place) }
	cfg := llm.Config{Key: w.g.secret("model"), Models: map[string]llm.Act{"tells": {Answer: tells}, "held": {Answer: w.holdsChat}}, Default: llm.Act{
		Texts: []string{of("text"), " ", of("more text")}, Reasoning: []string{of("reasoning")}, Message: of("message"),
		Header: map[string]string{"Openai-Organization": of("organization"), "Set-Cookie": of("cookie"), "Retry-After": of("Retry-After"), "X-Request-Id": of("request id"), of("header name"): "v"},
	}}
	for _, name := range []string{"full", "refuses-400", "refuses-401", "refuses-429", "refuses-500"} {
		cfg.Models[name] = llm.Act{Answer: func(x *llm.Exchange) {
			section := "model " + name
			if name == "full" && x.Asked.Stream {
				section += " stream"
			}
			status, media, body := w.answer(section, nil)
			x.Begin(status, media)
			x.Write(body)
		}}
	}
	return cfg
}

// tells repeats all that it was sent, the keys too, in every place and in several encodings.
func tells(x *llm.Exchange) {
	var headers bytes.Buffer
	_ = x.Header.Write(&headers) // to memory: cannot fail
	key, beside := strings.TrimPrefix(x.Header.Get("Authorization"), "Bearer "), strings.TrimPrefix(x.Header.Get("X-Beside"), "Basic ")
	all := headers.String() + string(x.Body) + base64.StdEncoding.EncodeToString([]byte("k="+key)) + url.QueryEscape(key+"&"+beside) + `{"k":"` + key + `"}`
	part := object{"role": "assistant", "content": all, "refusal": key, "reasoning": beside, key: all, "tool_calls": []any{object{"index": 0, "id": key, "function": object{"name": key, "arguments": all}}}}
	if !x.Asked.Stream {
		x.Begin(http.StatusOK, "application/json; profile="+url.QueryEscape(key))
		x.Write(jsonText(object{"id": key, "model": key, "object": "chat.completion", "choices": []any{object{"index": 0, "message": part, "finish_reason": key}}}))
		return
	}
	x.Begin(http.StatusOK, "text/event-stream; name="+url.QueryEscape(key))
	x.Write(": " + key + "\nid: " + key + "\n" + key + ": " + key + "\n\nevent: " + key + "\ndata: " + key + "\n\n")
	chunk := func(delta object, finish any) {
		x.Data(jsonText(object{"id": key, "object": "chat.completion.chunk", "choices": []any{object{"index": 0, "delta": delta, "finish_reason": finish}}}))
	}
	chunk(part, nil)
	for at := 0; at < len(all); at += 3 {
		chunk(object{"content": all[at:min(at+3, len(all))]}, nil)
	}
	chunk(object{}, "stop")
	x.Done()
}

func (w *world) holdsChat(x *llm.Exchange) {
	if x.Asked.Stream {
		x.Stream()
		x.Data(jsonText(object{"object": "chat.completion.chunk", "choices": []any{object{"index": 0, "delta": object{"content": w.g.plant("model while held")}}}}))
	}
	w.held["llm"] <- struct{}{}
	x.Await()
}

// chat is a conversation with a canary in everything that a request can have.
func (w *world) chat(model string, stream bool) string {
	_, doc, _ := strings.Cut(w.section("answers.txtar", "chat"), "\n")
	return w.expand("chat ", doc, map[string]string{"model": model, "stream": strconv.FormatBool(stream)})
}

// chats are completions of every model, whole and as streams.
func (w *world) chats() {
	models := []string{
		"any/fine", "any/full", "any/tells", "any/refuses-400", "any/refuses-401", "any/refuses-429", "any/refuses-500", "wire", "forged", "gone", "keyless", "unknown/model", "spent/fine", "spent/fine",
		"any/" + w.g.word("model's name"),
	}
	for _, f := range llm.Faults() {
		if f != llm.Endless {
			models = append(models, "any/"+string(f))
		}
	}
	var all []func()
	for _, model := range models {
		all = append(all, func() {
			for i, stream := range []bool{false, true} {
				base := schemas.ChatBases()[(len(model)+i)%len(schemas.ChatBases())]
				_, text := w.owner.ask(http.MethodPost, base+schemas.RouteChat, w.chat(model, stream), "Idempotency-Key", w.g.plant("chat key"), "User-Agent", w.g.plant("chat user agent"), "X-Title", w.g.plant("chat title"))
				if model == "any/tells" || model == "any/echo-key" {
					contains(w.t, text, "REDACTED", model)
				}
			}
		})
	}
	parallel(all...)
	for _, path := range []string{schemas.RouteModels, schemas.RouteModels + "/any/" + w.g.word("model in a path"), schemas.RouteBudgets + "?limit=1000"} {
		w.owner.ask(http.MethodGet, path, "")
	}
	w.owner.ask(http.MethodPost, schemas.RouteChat, w.chat("any/fine", false), "Idempotency-Key", "shared-chat")
	id := w.beginText("llm", schemas.RouteChat, w.chat("held", false))
	w.owner.ask(http.MethodPost, "/v1/actions/"+id+"/cancel", "")
	w.settled(id)
	w.owner.ask(http.MethodGet, "/v1/actions/"+id, "")
}

// held is a task, and the agent that has its token.
type held struct {
	*person
	view schemas.TaskView
}

// task files a task with canaries, and waits until its branch is made.
func (w *world) task(class string, more object) held {
	w.t.Helper()
	of := func(place string) string { return w.g.plant(class + " " + place) }
	status, text := w.owner.ask(http.MethodPost, schemas.RouteTasks, w.json(with(object{
		"repo": beacon, "pool": schemas.PoolNone, "description": of("description"), "model": of("model"), "metadata": object{of("metadata name"): of("metadata")},
	}, more)))
	require.Equal(w.t, http.StatusCreated, status, text)
	made := decode[schemas.NewTask](w.t, text)
	h := held{&person{w: w, token: made.Token}, made.TaskView}
	until(w.t, "a task's branch", func() bool {
		h.view = decode[schemas.TaskView](w.t, w.owner.get(schemas.RouteTasks+"/"+made.ID))
		return h.view.Base != ""
	})
	return h
}

// tasks are tasks with every end, each with a question, an answer and a push.
func (w *world) tasks() {
	post := http.MethodPost
	var all []func()
	for end, finish := range map[string]func(h held){
		"completed": func(h held) {
			h.ask(post, schemas.RouteAgentComplete, w.json(object{"description": w.g.plant("task result")}))
		},
		"failed": func(h held) {
			h.ask(post, schemas.RouteAgentFail, w.json(object{"reason": schemas.ReasonTaskIssues, "description": w.g.plant("task failure")}))
		},
		"canceled": func(h held) { w.owner.ask(post, schemas.RouteTasks+"/"+h.view.ID+"/cancel", "") },
	} {
		all = append(all, func() { w.ends(end, finish) })
	}
	all = append(all, func() { w.settled(w.task("task expired", object{"deadline": "3s"}).view.ID) })
	parallel(all...)
	w.owner.ask(http.MethodGet, schemas.RouteTasks, "")
}

// ends is a task with a question, an answer, a push and a completion, and its end.
func (w *world) ends(end string, finish func(held)) {
	post := http.MethodPost
	h := w.task("task "+end, object{"request_id": "task-" + end})
	h.ask(http.MethodGet, schemas.RouteAgentTask, "")
	asked := make(chan struct{})
	go func() {
		defer close(asked)
		h.ask(post, schemas.RouteAgentInquiry, w.json(object{"inquiry": w.g.plant("task inquiry")}))
	}()
	until(w.t, "a question", func() bool {
		return len(decode[schemas.TaskView](w.t, w.owner.get(schemas.RouteTasks+"/"+h.view.ID)).Inquiries) > 0
	})
	w.owner.ask(http.MethodGet, schemas.RouteTasks+"/"+h.view.ID, "")
	w.owner.ask(post, schemas.RouteTasks+"/"+h.view.ID+"/answer", w.json(object{"answer": w.g.plant("task answer")}))
	<-asked
	contains(w.t, h.push(w.grown("task push", h.view.Base)), "unpack ok", "a push")
	h.ask(post, schemas.ChatBases()[1]+schemas.RouteChat, w.chat("any/fine", true))
	finish(h)
	w.settled(h.view.ID)
	h.push(w.grown("late push", h.view.Base))
	for _, path := range []string{schemas.RouteTasks + "/" + h.view.ID, schemas.RouteTasks + "/" + h.view.ID + "/events", "/v1/actions/" + h.view.ID} {
		w.owner.ask(http.MethodGet, path, "", "Accept", "application/json")
	}
	w.owner.saw(h.person)
}

// pushed is a commit and its pack.
type pushed struct {
	pack []byte
	tip  string
}

// grown has a canary in each text of a commit and of its tree.
func (w *world) grown(class, parent string) pushed {
	of := func(place string) string { return w.g.plant(class + " " + place) }
	blob := gitkit.BlobOf(of("content"))
	tree := gitkit.TreeOf(gitkit.Entry{Mode: "100644", Name: of("file"), ID: blob.ID()})
	head := "tree " + tree.ID() + "\n"
	if parent != "" {
		head += "parent " + parent + "\n"
	}
	c := gitkit.Object{Type: gitkit.Commit, Data: []byte(head + "author " + of("author") + " <" + of("mail") + "@example.com> 1700000000 +0000\ncommitter " + of("committer") + " <x@example.com> 1700000000 +0000\n\n" + of("message") + "\n")}
	return pushed{gitkit.Pack(c, tree, blob), c.ID()}
}

func (h held) push(p pushed) string {
	return h.pushBody(gitkit.PushBody(gitkit.Update{Old: h.view.Base, New: p.tip, Ref: schemas.RefOf(h.view.Branch)}, p.pack))
}

func (h held) pushBody(body []byte) string {
	h.w.t.Helper()
	_, text := h.ask(http.MethodPost, "/git/"+h.view.Repo+".git/git-receive-pack", string(body), "Content-Type", "application/x-git-receive-pack-request", "User-Agent", "git/"+h.w.g.plant("user agent of git"))
	return text
}

// pushes are refused and fail; and fetches.
func (w *world) pushes() {
	g, z := w.g, strings.Repeat("b", 40)
	for class, of := range map[string]func(base string) (gitkit.Update, []byte){
		"denied ref": func(base string) (gitkit.Update, []byte) {
			return gitkit.Update{New: base, Ref: "refs/heads/" + g.plant("denied ref")}, nil
		},
		"control ref": func(base string) (gitkit.Update, []byte) {
			return gitkit.Update{New: base, Ref: "refs/heads/\x01" + g.plant("control ref")}, nil
		},
		"no pack": func(base string) (gitkit.Update, []byte) { return gitkit.Update{New: base}, []byte(g.plant("no pack")) },
		"large": func(string) (gitkit.Update, []byte) {
			return gitkit.Update{New: z}, []byte(strings.Repeat(g.plant("large push"), 80000))
		},
		"damaged": func(base string) (gitkit.Update, []byte) {
			p := w.grown("damaged push", base)
			return gitkit.Update{New: p.tip}, append(p.pack, g.plant("more than a pack")...)
		},
		"not forward": func(string) (gitkit.Update, []byte) {
			p := w.grown("push that is not forward", "")
			return gitkit.Update{New: p.tip}, p.pack
		},
		"bad commit": func(base string) (gitkit.Update, []byte) {
			tree := gitkit.TreeOf(gitkit.Entry{Mode: "40000", Name: ".git", ID: gitkit.TreeOf().ID()})
			c := gitkit.Object{Type: gitkit.Commit, Data: []byte("tree " + tree.ID() + "\nparent " + base + "\nauthor " + g.plant("bad author") + "\n\n" + g.plant("bad message") + "\n")}
			return gitkit.Update{New: c.ID()}, gitkit.Pack(c, tree, gitkit.TreeOf())
		},
	} {
		h := w.task("push "+class, nil)
		u, pack := of(h.view.Base)
		u.Old = h.view.Base
		if u.Ref == "" {
			u.Ref = schemas.RefOf(h.view.Branch)
		}
		answer := h.pushBody(gitkit.PushBodyWith([]gitkit.Update{u}, append(gitkit.Capabilities(), "agent=git/"+g.plant("agent of git")), pack))
		assert.NotContains(w.t, answer, "\x01ok refs", class)
		w.owner.saw(h.person)
	}
	h := w.task("fetch", nil)
	w.fetches(h)
	w.owner.saw(h.person)
}

// fetches are requests of a git client, good and bad.
func (w *world) fetches(h held) {
	of, at := func(place string) string { return w.g.plant("git " + place) }, "/git/"+h.view.Repo
	for _, args := range [][]string{
		{"ls-refs", "ref-prefix refs/heads/" + of("prefix")},
		{"ls-refs", of("argument")},
		{"fetch", "want " + h.view.Base, "filter " + of("filter"), "done"},
		{"fetch", "want-ref refs/heads/" + of("wanted"), "done"},
		{"fetch", "want " + h.view.Base, "done"},
		{"fetch", "want " + strings.Repeat("ab", 20), "done"},
		{of("command")},
	} {
		h.ask(http.MethodPost, at+"/git-upload-pack", string(gitkit.FetchV2(args[0], args[1:]...)), "Content-Type", "application/x-git-upload-pack-request", "Git-Protocol", "version=2:"+of("protocol"))
	}
	for _, path := range []string{at + "/info/refs?service=" + of("service"), at + "/info/refs?service=git-upload-pack&x=" + of("query"), at + "/objects/" + of("file"), "/git/" + w.g.word("repository") + "/info/refs?service=git-upload-pack"} {
		h.ask(http.MethodGet, path, "", "User-Agent", "git/2.39.5 "+of("client"))
	}
}

// gitServer is a git server elsewhere that needs a password, and says canaries.
func (w *world) gitServer() (backend *gitkit.Backend, mirror string) {
	backend = gitkit.NewBackend(w.t)
	from, _ := gitkit.NewRepo(w.t)
	_, mirror = backend.Add(w.t, "mirror.git", from)
	_, closed := backend.Add(w.t, "empty.git", "")
	require.NoError(w.t, os.RemoveAll(filepath.Join(closed, "HEAD")))
	for hook, script := range map[string]string{
		"post-receive": "echo '" + w.g.plant("said by the git server") + "' >&2\n",
		"update":       "case \"$1 $2\" in */refused\\ 0000*) ;; */refused\\ *) echo '" + w.g.plant("why the git server refuses") + "' >&2; exit 1;; esac\n",
	} {
		require.NoError(w.t, os.WriteFile(filepath.Join(mirror, "hooks", hook), []byte("#!/bin/sh\n"+script), 0o700)) //nolint:gosec // it is a program
	}
	backend.Require(w.g.secret("git"))
	return backend, mirror
}

// upstreamRepos are repositories that come from the git server, or stay there.
func (w *world) upstreamRepos() {
	at := w.git.URL + "/mirror.git"
	for name, doc := range map[string]object{"imported": {"import_url": at}, "proxied": {"upstream_url": at, "allowlist_key": "mirror"}} {
		status, text := w.owner.ask(http.MethodPost, schemas.RouteRepos, w.json(with(doc, object{"name": name})))
		assert.Equal(w.t, http.StatusCreated, status, text)
	}
	for branch, says := range map[string]string{"upstream": "ok refs/heads/", "up/refused": "ng refs/heads/"} {
		h := w.task("task "+branch, object{"repo": "proxied", "branch": branch})
		h.ask(http.MethodGet, schemas.RouteAgentTask, "")
		contains(w.t, h.push(w.grown("push "+branch, h.view.Base)), says, branch)
		w.fetches(h)
		w.owner.saw(h.person)
	}
}
