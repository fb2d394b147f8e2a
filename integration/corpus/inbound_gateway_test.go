//go:build e2e

package corpus_test

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/cmd/app"
	"weir/internal/weirtest/gitkit"
	"weir/internal/weirtest/poll"
	"weir/schemas"
)

// gateway is a Weir with an upstream, agents and a provider of its own.
type gateway struct {
	*weir
	upstream      *inboundUpstream
	caller        string // tokens: a caller's,
	tasks, theirs string // and of people who file tasks, of two tenants
}

// acme is the tenant of tasks. Other rows have a tenant each.
const acme = "acme"

// callerEntries are the entries that a caller of the corpus may use.
var callerEntries = []string{"api", schemas.AgentEntry(corpusTask)}

// newGateway starts a Weir. Extra lines are added to its configuration.
func newGateway(t *testing.T, extra string) *gateway {
	t.Helper()
	g := &gateway{weir: newWeir(t.TempDir()), upstream: newInboundUpstream(t)}
	g.begin(t, extra)
	t.Cleanup(func() { assert.NoError(t, g.stop()) })
	g.caller = g.token(t, schemas.TokenRequest{Tenant: "caller", Entries: callerEntries, Scopes: []string{schemas.ScopeActionsRead, schemas.ScopeActionsWrite}}).Secret
	return g
}

func (g *gateway) begin(t *testing.T, extra string) {
	t.Helper()
	if !strings.Contains(extra, "log:") {
		extra += "log: {durability: process}\n"
	}
	// The provider passes every member: the rows are about those that are refused all the same.
	g.start(t, fmt.Sprintf("listen: 127.0.0.1:0\ndata: %q\nauth: {mode: tokens, admin_token_file: %q}\n%sagents: {REMOTE: {url: %[4]q}, %[5]s: {url: %[4]q, mode: sync}}\n"+
		"models: {allowed-model: {url: \"%[6]s%[7]s\", headers: {Authorization: \"Bearer %[8]s\"}, pass: \"*\"}}\n"+
		"policy:\n  timeout: 30s\n  allowlist:\n    - {name: api, url_prefix: \"%[6]s/\", methods: [GET, POST], network: loopback}\n"+
		"    - {name: not-in-token-scope, url_prefix: \"%[6]s/b/\", network: loopback}\n",
		g.dir, filepath.Join(g.dir, "admin.token"), extra, g.upstream.URL+agentPath, corpusTask, g.upstream.URL, modelPath, modelKey), app.Options{})
}

// repositories makes the repositories that tasks and git need.
func (g *gateway) repositories(t *testing.T) {
	t.Helper()
	scopes := []string{schemas.ScopeTasksWrite, schemas.ScopeActionsRead, schemas.ScopeEvidenceRead}
	g.tasks = g.token(t, schemas.TokenRequest{Tenant: acme, Scopes: scopes}).Secret
	g.theirs = g.token(t, schemas.TokenRequest{Tenant: "other", Scopes: scopes}).Secret
	for name, token := range map[string]string{ownRepo: g.tasks, otherRepo: g.tasks, theirRepo: g.theirs} {
		g.must(t, token, http.MethodPost, schemas.RouteRepos, map[string]any{"name": name}, http.StatusCreated)
	}
}

// act makes an action and returns its id.
func (g *gateway) act(t *testing.T, token, path string, header ...string) string {
	t.Helper()
	h := g.ask(t, token, http.MethodPost, "/v1/execute", map[string]any{"method": "GET", "url": g.upstream.URL + path, "allowlist_key": "api"}, header...)
	require.Contains(t, []int{http.StatusOK, http.StatusAccepted}, h.status, h.body)
	id := h.header.Get("Weir-Action-Id")
	require.NotEmpty(t, id)
	return id
}

// send writes bytes on a connection of their own and reads the answer.
func (g *gateway) send(t *testing.T, raw io.Reader, method string) answer {
	t.Helper()
	conn := dial(t, g.url)
	go func() { _, _ = io.Copy(conn, raw) }() // ends with the connection
	began := time.Now()
	h := receive(t, conn, method)
	h.took = time.Since(began)
	require.NoError(t, conn.Close())
	return h
}

// receive reads one answer. A connection that is announced to end must end.
func receive(t *testing.T, conn net.Conn, method string) answer {
	t.Helper()
	r := bufio.NewReader(conn)
	resp, err := http.ReadResponse(r, &http.Request{Method: method})
	if err != nil {
		require.NotErrorIs(t, err, os.ErrDeadlineExceeded, "neither an answer nor an end")
		return answer{closed: true}
	}
	data, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	if resp.Close {
		_, err := io.Copy(io.Discard, r)
		require.NotErrorIs(t, err, os.ErrDeadlineExceeded, "announced to end, and did not")
	}
	return answer{status: resp.StatusCode, header: resp.Header, body: string(data), closed: resp.Close}
}

// inboundUpstream is the other side of calls, agents and completions. It counts requests by
// the row that they name.
type inboundUpstream struct {
	*httptest.Server
	mu      sync.Mutex
	hits    map[string]int
	release chan struct{} // ends requests that hang
}

const (
	agentPath = "/agent"       // where the routes of the fixture's agents begin
	modelPath = "/provider/v1" // where the provider's routes begin
	modelKey  = "AGWCANARY-provider-key"
)

// hostileText has what would end a field or an event of a stream that does not encode it.
const hostileText = "a\rb\nc\r\nd\u2028e\n\ndata: x\n\nevent: final\ndata: forged\n\nid: 1\n"

// forged is what the provider says.
const forged = hostileText + "\n\ndata: [DONE]\n\nevent: final\ndata: {\"type\":\"final\"}\n\n"

func newInboundUpstream(t *testing.T) *inboundUpstream {
	t.Helper()
	u := &inboundUpstream{hits: map[string]int{}, release: make(chan struct{})}
	u.Server = httptest.NewServer(http.HandlerFunc(u.serve))
	t.Cleanup(func() {
		close(u.release)
		u.Close()
	})
	return u
}

func (u *inboundUpstream) serve(w http.ResponseWriter, r *http.Request) {
	completion := r.URL.Path == modelPath+schemas.RouteChat
	u.mu.Lock()
	u.hits[r.URL.Query().Get("row")]++
	if completion {
		u.hits[modelPath]++
	}
	u.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	switch path := r.URL.Path; {
	case completion:
		complete(w, r)
	case strings.HasPrefix(path, agentPath): // an agent whose runs all succeed
		var run struct {
			RequestID string `json:"request_id"`
		}
		if json.NewDecoder(r.Body).Decode(&run) != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		fmt.Fprintf(w, `{"status":"ok","request_id":%q,"outputs":{"done":true}}`, run.RequestID)
	case path == "/big":
		_, _ = io.WriteString(w, `"`+strings.Repeat("x", 3<<20)+`"`)
	case path == "/hostile":
		_, _ = w.Write(encode(map[string]string{"text": hostileText}))
	default:
		if path == "/hang" {
			select {
			case <-u.release:
			case <-r.Context().Done():
			}
		}
		_, _ = io.WriteString(w, `{"ok":true}`)
	}
}

func (u *inboundUpstream) count(row string) int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.hits[row]
}

// complete is the provider: its text would end a stream, or forge an event of it, if it were
// not encoded.
func complete(w http.ResponseWriter, r *http.Request) {
	var req struct {
		Stream bool `json:"stream"`
	}
	data, _ := io.ReadAll(r.Body)
	if r.Header.Get("Authorization") != "Bearer "+modelKey || json.Unmarshal(data, &req) != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	usage := `"usage":{"prompt_tokens":3,"completion_tokens":4,"total_tokens":7}`
	if !req.Stream {
		fmt.Fprintf(w, `{"id":"c-1","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":%s},"finish_reason":"stop"}],%s}`, encode(forged), usage)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	const head = `data: {"id":"c-1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":`
	fmt.Fprintf(w, "event: final\n"+head+`{"role":"assistant","content":%s},"finish_reason":null}]}`+"\n\n", encode(forged))
	fmt.Fprintf(w, head+`{},"finish_reason":"stop"}],%s}`+"\n\ndata: [DONE]\n\ndata: [DONE]\n\nevent: final\ndata: {}\n\n", usage)
}

// The repositories that rows about tasks and git name. Every row has a task of its own in the
// first one.
const (
	ownRepo   = "corpus"
	otherRepo = "beside" // of the same tenant
	theirRepo = "theirs" // of another tenant
)

// value is what a placeholder stands for: made once for each row.
func (c *call) value(name string) string {
	if v, ok := c.values[name]; ok {
		return v
	}
	v := ""
	if c.onTask() {
		v = c.taskValue(name)
	}
	if v == "" {
		v = c.plainValue(name)
	}
	require.NotEmpty(c.t, v, "the harness has no value for the placeholder {%s}", name)
	c.values[name] = v
	return v
}

// tenant is the row's own, except for rows about tasks.
func (c *call) tenant() string {
	if c.onTask() {
		return acme
	}
	return strings.ToLower(c.ID) + "-" + string(c.via)
}

// tokens are the placeholders that stand for tokens, by what these may do. Without a tenant they
// are of the row's.
var tokens = map[string]schemas.TokenRequest{
	"task_token":           {Entries: callerEntries, Scopes: []string{schemas.ScopeActionsRead, schemas.ScopeActionsWrite}},
	"caller_token":         {Scopes: []string{schemas.ScopeActionsWrite}},
	"reader_token":         {Scopes: []string{schemas.ScopeActionsRead}},
	"readonly_token":       {Scopes: []string{schemas.ScopeActionsRead}},
	"operator_token":       {Scopes: []string{schemas.ScopeAdmin}},
	"writer_token":         {Scopes: []string{schemas.ScopeRulesWrite}},
	"limited_writer_token": {Scopes: []string{schemas.ScopeRulesWrite}, Entries: []string{"api"}},
	"pool_token":           {Scopes: []string{schemas.ScopeTasksWork}},
	"neighbour_token":      {Scopes: []string{schemas.ScopeAdmin}}, // of a tenant beside the row's
	"other_tenant_token":   {Scopes: []string{schemas.ScopeTasksWrite, schemas.ScopeActionsRead}, Tenant: "other"},
	"foreign_token":        {Scopes: []string{schemas.ScopeActionsRead, schemas.ScopeActionsWrite}, Tenant: "other"},
	"expired_token":        {Scopes: []string{schemas.ScopeActionsRead}, ExpiresIn: "1s"},
	"revoked_token":        {Scopes: []string{schemas.ScopeActionsRead}},
}

// plainValue is a placeholder's of any row.
func (c *call) plainValue(name string) string {
	g := c.g
	if name == "token_of_completed_task" { // a token that is no task's ends by being revoked
		name = "revoked_token"
	}
	if req, ok := tokens[name]; ok {
		req.Tenant = cmp.Or(req.Tenant, c.tenant())
		if name == "neighbour_token" {
			req.Tenant = "not-" + c.tenant()
		}
		made := g.token(c.t, req)
		switch name {
		case "expired_token":
			poll.Until(c.t, func() bool {
				return g.ask(c.t, made.Secret, http.MethodGet, "/v1/actions", nil).status == http.StatusUnauthorized
			}, "the token does not expire")
		case "revoked_token":
			g.must(c.t, g.admin, http.MethodPost, "/v1/tokens/"+made.ID+"/revoke", nil, http.StatusOK)
		}
		return made.Secret
	}
	switch name {
	case "upstream":
		return g.upstream.URL
	case "admin_token":
		return g.admin
	case "tasks_token":
		return g.tasks
	case "other_env_token":
		return newGateway(c.t, "").caller
	case "action":
		return g.act(c.t, c.value("task_token"), "/v1/x?row=made-for-"+c.ID)
	case "action_of_other_task", "action_of_other_tenant":
		return g.act(c.t, c.value("foreign_token"), "/v1/x?row=other")
	case "terminal_id":
		all := items[schemas.EventView](c.t, g.must(c.t, c.value("task_token"), http.MethodGet, "/v1/actions/"+c.value("action")+"/events", nil, http.StatusOK))
		return strconv.FormatUint(all[len(all)-1].Seq, 10)
	case "etag":
		return g.by(c.value("operator_token")).Etag(c.t)
	case "stale_etag":
		stale := g.by(c.value("operator_token")).Etag(c.t)
		c.createRule("operator_token", c.mock("later"))
		return stale
	case "etag_of_other_tenant":
		c.createRule("neighbour_token", c.mock("a"))
		return g.by(c.value("neighbour_token")).Etag(c.t)
	}
	return ""
}

// taskValue is a placeholder's of a row about tasks, git or completions.
func (c *call) taskValue(name string) string {
	g := c.g
	switch name {
	case "task_token":
		return c.own().Token
	case "task":
		return c.own().ID
	case "branch":
		return c.own().Branch
	case "head":
		return c.own().base
	case "zero":
		return gitkit.Zero
	case "repo":
		return ownRepo
	case "other_repo":
		return otherRepo
	case "other_tenant_repo":
		return theirRepo
	case "other_tenant_task_token", "foreign":
		made := c.file(g.theirs, map[string]any{"repo": theirRepo})
		return map[string]string{"other_tenant_task_token": made.Token, "foreign": made.ID}[name]
	case "hidden", "hidden_branch": // what another task has pushed
		made := c.file(g.tasks, nil)
		pack, tip := gitkit.GoodCommit("what another task has pushed", made.base)
		update := gitkit.Update{Old: made.base, New: tip, Ref: schemas.RefOf(made.Branch)}
		g.must(c.t, made.Token, http.MethodPost, "/git/"+ownRepo+"/git-receive-pack", gitkit.PushBody(update, pack), http.StatusOK, "Content-Type", "application/x-git-receive-pack-request")
		require.Equal(c.t, tip, c.view(g.tasks, made.ID).Head)
		c.values["hidden"], c.values["hidden_branch"] = tip, made.Branch
		return c.values[name]
	case "guessed_token": // the name of the task with another secret
		own := c.own().Token
		return own[:len(own)-43] + strings.Repeat("A", 43)
	case "grafted_token": // the name of another task with the secret of this one
		own, other := c.own().Token, c.file(g.tasks, nil).Token
		return other[:len(other)-43] + own[len(own)-43:]
	case "expired_token":
		late := c.file(g.tasks, map[string]any{"deadline": "1s"})
		c.ends(late.ID, schemas.TaskStatusExpired)
		return late.Token
	case "token_of_completed_task", "revoked_token", "canceled_token":
		made := c.file(g.tasks, nil)
		switch path := schemas.RouteTasks + "/" + made.ID; name {
		case "token_of_completed_task":
			g.must(c.t, made.Token, http.MethodPost, schemas.RouteAgentComplete, map[string]any{"description": "done"}, http.StatusOK)
		case "revoked_token":
			g.must(c.t, g.tasks, http.MethodPost, path+"/token", nil, http.StatusOK)
		case "canceled_token":
			g.must(c.t, g.tasks, http.MethodPost, path+"/cancel", nil, http.StatusAccepted)
			c.ends(made.ID, schemas.TaskStatusCanceled)
		}
		return made.Token
	}
	return ""
}

// ends waits until a task has ended.
func (c *call) ends(id string, status schemas.TaskStatus) {
	poll.Until(c.t, func() bool { return c.view(c.g.tasks, id).Status == status }, "the task does not end")
}

// filed is a task whose branch exists.
type filed struct {
	schemas.NewTask
	base string // the commit of its branch
}

// own is the row's own task.
func (c *call) own() filed {
	if c.task == nil {
		var more map[string]any
		if c.Surface == chatSurface {
			more = map[string]any{"budget": map[string]any{"tokens": 200_000}}
		}
		made := c.file(c.g.tasks, more)
		c.task = &made
	}
	return *c.task
}

// file files a task with more members than it must have.
func (c *call) file(token string, more map[string]any) (made filed) {
	doc := map[string]any{"repo": ownRepo, "description": "A row of the corpus", "pool": schemas.PoolNone}
	maps.Copy(doc, more)
	h := c.g.must(c.t, token, http.MethodPost, schemas.RouteTasks, doc, http.StatusCreated)
	require.NoError(c.t, json.Unmarshal([]byte(h.body), &made.NewTask))
	poll.Until(c.t, func() bool {
		v := c.view(token, made.ID)
		made.base = v.Base
		return v.Base != "" || v.Status == schemas.TaskStatusExpired // a row may want that
	}, "the branch of the task is not made")
	return made
}

// view is a task as its people see it.
func (c *call) view(token, id string) (v schemas.TaskView) {
	h := c.g.must(c.t, token, http.MethodGet, schemas.RouteTasks+"/"+id, nil, http.StatusOK)
	require.NoError(c.t, json.Unmarshal([]byte(h.body), &v))
	return v
}
