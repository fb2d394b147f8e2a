//go:build e2e

package canary_test

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/weirtest/agent"
	"weir/internal/weirtest/fixture"
	"weir/internal/weirtest/gitkit"
	"weir/internal/weirtest/llm"
	"weir/internal/weirtest/poll"
	"weir/schemas"
)

// sensitiveRun begins the ids of runs of a sensitive tier: their evidence holds no content.
const sensitiveRun = "sensitive."

// taskTypes are those of agents.
func taskTypes() []string {
	return strings.Fields("RUN.ECHO RUN.FULL RUN.JSON RUN.WIRE RUN.FAILED RUN.REFUSED RUN.ERROR RUN.CUT RUN.GARBAGE RUN.LOST RUN.HELD RUN.LATE RUN.FORGED RUN.MISSING")
}

func jsonText(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err) // it is made of texts
	}
	return string(raw)
}

// answer is a canned answer of testdata to a request with a body and some headers: its status,
// its media type and its body.
func (w *world) answer(name, id string, asked []byte, header http.Header) (status int, media, body string) {
	bearer, basic := strings.TrimPrefix(header.Get("Authorization"), "Bearer "), strings.TrimPrefix(header.Get("X-Beside"), "Basic ")
	head, body, _ := strings.Cut(w.expand(name+" ", w.section("answers.txtar", name), map[string]string{
		"request_id": id, "key": bearer, "key 1": bearer[:len(bearer)/2], "key 2": bearer[len(bearer)/2:], "beside": basic, "coded": base64.StdEncoding.EncodeToString([]byte("k=" + bearer + " " + basic)), "body": strings.Trim(jsonText(string(asked)), `"`),
	}), "\n")
	_, err := fmt.Sscan(head, &status)
	assert.NoError(w.t, err)
	return status, head[4:], body
}

// answerRun answers a run as its task type says.
func (w *world) answerRun(x *agent.Exchange) {
	switch x.Run.TaskType {
	case "RUN.HELD", "RUN.LATE": // a test waits for the former
		x.Stream()
		x.Event("progress", jsonText(object{"text": w.g.plant("agent while held")}))
		if x.Run.TaskType == "RUN.HELD" {
			w.held["agent"] <- struct{}{}
		}
		x.Await()
	case "RUN.LOST":
		x.Die()
	default:
		status, media, body := w.answer("agent "+x.Run.TaskType, x.Run.RequestID, x.Body, x.Header)
		x.Begin(status, media)
		x.Write(body)
	}
}

// run is a run of a task in a tier, with canaries in its members. No tier counts as sensitive.
func (w *world) run(task, tier, inputs string) string {
	id, class := "run."+random(4), "run "
	if tier != schemas.RiskNonSensitive {
		id, class = sensitiveRun+id, "sensitive run "
	}
	if tier != "" {
		tier = `"risk_tier":"` + tier + `",`
	}
	run := fmt.Sprintf(`{"request_id":%q,"task_type":%q,%s"user_id":"<~user>","workflow_id":"<~workflow>","inputs":%s}`, id, task, tier, inputs)
	return w.expand(class, run, map[string]string{"plain": w.plain.URL()})
}

// runs are runs of every task type, in every tier and on both routes, to every end.
func (w *world) runs() {
	var all []func()
	for line := range strings.Lines(w.section("requests.txtar", "runs")) {
		m, first := strings.SplitN(strings.TrimSpace(line), " ", 3), len(all)
		all = append(all, func() {
			for i, tier := range append(schemas.RiskTiers(), "") {
				run, route := w.run(m[0], tier, m[2]), []string{schemas.RouteRunSync, schemas.RouteRunStream}[(first+i)%2]
				if m[0] == "RUN.LATE" {
					run = strings.Replace(run, "{", `{"budgets":{"timeout_ms":1200},`, 1)
				}
				_, answer := w.owner.ask(http.MethodPost, route, run)
				contains(w.t, answer, strings.TrimPrefix(m[1], "-"), m[0]+" "+route)
			}
		})
	}
	parallel(all...)
	w.cancel(w.begin("agent", schemas.RouteRunSync, w.run("RUN.HELD", schemas.RiskPHI, "{}")))
}

// cancel stops an action that is under way.
func (w *world) cancel(id string) {
	w.owner.ask(http.MethodPost, "/v1/actions/"+id+"/cancel", "")
	w.settled(id)
	w.owner.ask(http.MethodGet, "/v1/actions/"+id, "")
	w.owner.ask(http.MethodGet, "/v1/actions/"+id+"/events", "", "Accept", "text/event-stream")
}

// provider answers with canaries in every place, echoes its keys, or fails.
func (w *world) provider() llm.Config {
	of := func(place string) string { return w.g.plant("model " + place) }
	cfg := llm.Config{Key: w.g.secret("model"), Models: map[string]llm.Act{"held": {Answer: w.holdsModel}}, Default: llm.Act{
		Texts: []string{of("text"), " ", of("more text")}, Reasoning: []string{of("reasoning")}, Message: of("message"),
		Header: map[string]string{"Openai-Organization": of("organization"), "Set-Cookie": of("cookie"), "Retry-After": of("Retry-After"), "X-Request-Id": of("request id"), of("header name"): "v"},
	}}
	for _, name := range append(refusals(), "full", "tells", "breaks") {
		cfg.Models[name] = llm.Act{Answer: func(x *llm.Exchange) {
			section, answers := "model "+name, !strings.HasPrefix(name, "refuses")
			if answers && x.Dialect != schemas.DialectChat {
				section += " " + string(x.Dialect)
			}
			if answers && x.Asked.Stream {
				section += " stream"
			}
			status, media, body := w.answer(section, "", x.Body, x.Header)
			x.Begin(status, media)
			x.Write(body)
		}}
	}
	return cfg
}

// refusals are the models whose provider refuses every request.
func refusals() []string { return []string{"refuses-400", "refuses-401", "refuses-429", "refuses-500"} }

func (w *world) holdsModel(x *llm.Exchange) {
	if x.Asked.Stream {
		begun := w.g.plant("model while held")
		x.Stream()
		x.Data(jsonText(map[schemas.Dialect]object{
			schemas.DialectChat:      {"object": "chat.completion.chunk", "choices": []any{object{"index": 0, "delta": object{"content": begun}}}},
			schemas.DialectResponses: {"type": "response.output_text.delta", "delta": begun},
			schemas.DialectMessages:  {"type": "content_block_delta", "index": 0, "delta": object{"type": "text_delta", "text": begun}},
		}[x.Dialect]))
	}
	w.held["llm"] <- struct{}{}
	x.Await()
}

// ask is a request of a dialect with a canary in everything that it can have.
func (w *world) ask(d schemas.Dialect, model string, stream bool) string {
	_, doc, _ := strings.Cut(w.section("answers.txtar", string(d)), "\n")
	return w.expand(string(d)+" ", doc, map[string]string{"model": model, "stream": strconv.FormatBool(stream)})
}

// chat is a conversation with a canary in everything that a request can have.
func (w *world) chat(model string, stream bool) string {
	return w.ask(schemas.DialectChat, model, stream)
}

// asked are the models that are asked in a dialect.
func (w *world) asked(d schemas.Dialect) []string {
	models := []string{"any/full", "any/tells", "wire", "forged", "gone", "keyless", "unknown/model", "spent/full", "spent/full", "any/" + w.g.word("model's name")}
	for _, name := range refusals() {
		models = append(models, "any/"+name)
	}
	switch d {
	case schemas.DialectResponses, schemas.DialectMessages:
		return append(models, "any/breaks")
	case schemas.DialectChat:
		models = append(models, "any/fine")
		for _, f := range llm.Faults() {
			if f != llm.Endless {
				models = append(models, "any/"+string(f))
			}
		}
	case schemas.DialectCount, schemas.DialectEmbeddings:
	}
	return models
}

// chats are answers of every model in every dialect, whole and as streams.
func (w *world) chats() {
	var all []func()
	for _, d := range schemas.AllDialects() {
		for _, model := range w.asked(d) {
			all = append(all, func() {
				for i, stream := range []bool{false, true} {
					base := schemas.ChatBases()[(len(model)+i)%len(schemas.ChatBases())]
					of := func(place string) string { return w.g.plant(string(d) + " " + place) }
					_, text := w.owner.ask(http.MethodPost, base+d.Route(), w.ask(d, model, stream), "Idempotency-Key", of("key"), "User-Agent", of("user agent"), "X-Title", of("title"),
						"Anthropic-Beta", of("beta"), "Openai-Beta", of("beta"))
					if model == "any/tells" || model == "any/echo-key" {
						contains(w.t, text, "REDACTED", string(d)+" "+model)
					}
					if d == schemas.DialectResponses && model == "any/full" {
						w.response(responseID.FindString(text))
					}
				}
			})
		}
	}
	parallel(all...)
	for _, path := range []string{schemas.RouteModels, schemas.RouteModels + "/any/" + w.g.word("model in a path"), schemas.RouteBudgets + "?limit=1000"} {
		w.owner.ask(http.MethodGet, path, "")
	}
	w.owner.ask(http.MethodPost, schemas.RouteChat, w.chat("any/fine", false), "Idempotency-Key", "shared-chat")
	w.cancel(w.begin("llm", schemas.RouteChat, w.chat("held", false)))
}

var responseID = regexp.MustCompile(`resp_[A-Za-z0-9._~-]+`)

// response reads a response again, continues it, and has others made in the background.
func (w *world) response(id string) {
	at := schemas.RouteResponses + "/" + id
	w.owner.ask(http.MethodGet, at, "")
	w.owner.ask(http.MethodGet, at+"?stream=true&starting_after=0", "")
	for _, more := range []string{`"previous_response_id":"` + id + `",`, `"background":true,`} {
		for _, model := range []string{"any/full", "any/tells", "any/refuses-400"} {
			_, text := w.owner.ask(http.MethodPost, schemas.RouteResponses, strings.Replace(w.ask(schemas.DialectResponses, model, false), "{", "{"+more, 1))
			next := responseID.FindString(text)
			assert.True(w.t, next != "" || model == "any/refuses-400", "%s%s: %.300s", more, model, text)
			if next != "" {
				w.settled(strings.TrimPrefix(next, "resp_"))
				w.owner.ask(http.MethodGet, schemas.RouteResponses+"/"+next, "")
			}
		}
	}
	w.mu.Lock()
	w.responses = append(w.responses, strings.TrimPrefix(id, "resp_"))
	w.mu.Unlock()
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
	made := fixture.Decode[schemas.NewTask](w.t, text)
	h := held{&person{w: w, token: made.Token}, made.TaskView}
	poll.Until(w.t, func() bool {
		h.view = fixture.Decode[schemas.TaskView](w.t, w.owner.get(schemas.RouteTasks+"/"+made.ID))
		return h.view.Base != ""
	}, "a task's branch")
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
	all = append(all, func() { w.settled(w.task("task expired", object{"deadline": "6s"}).view.ID) })
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
	poll.Until(w.t, func() bool {
		return len(fixture.Decode[schemas.TaskView](w.t, w.owner.get(schemas.RouteTasks+"/"+h.view.ID)).Inquiries) > 0
	}, "a question")
	w.owner.ask(http.MethodGet, schemas.RouteTasks+"/"+h.view.ID, "")
	w.owner.ask(post, schemas.RouteTasks+"/"+h.view.ID+"/answer", w.json(object{"answer": w.g.plant("task answer")}))
	<-asked
	w.fetches(h)
	contains(w.t, h.push("denied push", "refs/heads/"+w.g.plant("denied ref"), nil), "GIT_REF_DENIED", "a push to another ref")
	contains(w.t, h.push("broken push", "", []byte(w.g.plant("no pack"))), "GIT_INCOMPLETE", "a push without a pack")
	contains(w.t, h.push("task push", "", nil), "unpack ok", "a push")
	h.ask(post, schemas.ChatBases()[1]+schemas.RouteChat, w.chat("any/fine", true))
	finish(h)
	w.settled(h.view.ID)
	h.push("late push", "", nil)
	for _, path := range []string{schemas.RouteTasks + "/" + h.view.ID, schemas.RouteTasks + "/" + h.view.ID + "/events", schemas.RouteTasks + "/" + h.view.ID + "/diff", "/v1/actions/" + h.view.ID} {
		w.owner.ask(http.MethodGet, path, "", "Accept", "application/json")
	}
	w.owner.saw(h.person)
}

// push pushes a commit with a canary in each text of it and of its tree to a ref, or to the
// task's branch; or other bytes in the place of its pack.
func (h held) push(class, ref string, pack []byte) string {
	h.w.t.Helper()
	of := func(place string) string { return h.w.g.plant(class + " " + place) }
	blob := gitkit.BlobOf(of("content"))
	tree := gitkit.TreeOf(gitkit.Entry{Mode: "100644", Name: of("file"), ID: blob.ID()})
	commit := gitkit.Object{Type: gitkit.Commit, Data: fmt.Appendf(nil, "tree %s\nparent %s\nauthor %s <%s@example.com> 1700000000 +0000\ncommitter %s <x@example.com> 1700000000 +0000\n\n%s\n",
		tree.ID(), h.view.Base, of("author"), of("mail"), of("committer"), of("message"))}
	if pack == nil {
		pack = gitkit.Pack(commit, tree, blob)
	}
	update := gitkit.Update{Old: h.view.Base, New: commit.ID(), Ref: cmp.Or(ref, schemas.RefOf(h.view.Branch))}
	body := gitkit.PushBodyWith([]gitkit.Update{update}, append(gitkit.Capabilities(), "agent=git/"+of("agent")), pack)
	_, text := h.ask(http.MethodPost, "/git/"+h.view.Repo+".git/git-receive-pack", string(body), "Content-Type", "application/x-git-receive-pack-request", "User-Agent", "git/"+of("user agent"))
	return text
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
}

// gitServer is a git server that needs a password, and reports canaries.
func (w *world) gitServer() (backend *gitkit.Backend, mirror string) {
	backend = gitkit.NewBackend(w.t)
	from, _ := gitkit.NewRepo(w.t)
	_, mirror = backend.Add(w.t, "mirror.git", from)
	backend.Add(w.t, "empty.git", "")
	for hook, script := range map[string]string{
		"post-receive": "echo '" + w.g.plant("said by the git server") + "' >&2\n",
		"update":       "case \"$1 $2\" in */refused\\ 0000*) ;; */refused\\ *) echo '" + w.g.plant("why the git server refuses") + "' >&2; exit 1;; esac\n",
	} {
		require.NoError(w.t, os.WriteFile(filepath.Join(mirror, "hooks", hook), []byte("#!/bin/sh\n"+script), 0o700))
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
		w.fetches(h)
		contains(w.t, h.push("push "+branch, "", nil), says, branch)
		w.owner.saw(h.person)
	}
}
