//go:build e2e

package corpus_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/internal/weirtest/gitkit"
	"weir/schemas"
)

// The repositories that rows about tasks and git name. Every row has a task of its
// own in the first one.
const (
	ownRepo    = "corpus"
	besideRepo = "beside" // of the same tenant
	theirRepo  = "theirs" // of another one
)

// repositories makes them, once.
func (g *gateway) repositories(t *testing.T) {
	t.Helper()
	if g.get("tasks_token") != "" {
		return
	}
	scopes := []string{schemas.ScopeTasksWrite, schemas.ScopeActionsRead, schemas.ScopeEvidenceRead}
	g.set("tasks_token", g.token(t, schemas.TokenRequest{Scopes: scopes}))
	g.set("their tasks_token", g.token(t, schemas.TokenRequest{Tenant: "other", Scopes: scopes}))
	for _, made := range [][2]string{{"tasks_token", ownRepo}, {"tasks_token", besideRepo}, {"their tasks_token", theirRepo}} {
		h := g.ask(t, made[0], http.MethodPost, schemas.RouteRepos, map[string]any{"name": made[1]})
		require.Equal(t, http.StatusCreated, h.status, h.body)
	}
}

// errand is a task that was filed, and whose branch is there.
type errand struct {
	schemas.NewTask
	head string // of its branch
}

// file files a task with more members than it must have.
func (g *gateway) file(t *testing.T, token string, more map[string]any) errand {
	t.Helper()
	g.repositories(t)
	doc := map[string]any{"repo": ownRepo, "description": "A row of the corpus", "pool": schemas.PoolNone}
	maps.Copy(doc, more)
	h := g.ask(t, token, http.MethodPost, schemas.RouteTasks, doc)
	require.Equal(t, http.StatusCreated, h.status, h.body)
	var made errand
	require.NoError(t, json.Unmarshal([]byte(h.body), &made.NewTask))
	require.NotEmpty(t, made.Token)
	require.Eventually(t, func() bool {
		v := g.view(t, token, made.ID)
		made.head = v.Base
		return v.Base != "" || v.Status == schemas.TaskStatusExpired // by one that is to
	}, 30*time.Second, 20*time.Millisecond, "the branch of the task is not made")
	return made
}

// view is a task as its people see it.
func (g *gateway) view(t *testing.T, token, id string) (v schemas.TaskView) {
	t.Helper()
	h := g.ask(t, token, http.MethodGet, schemas.RouteTasks+"/"+id, nil)
	require.Equal(t, http.StatusOK, h.status, h.body)
	require.NoError(t, json.Unmarshal([]byte(h.body), &v))
	return v
}

// errand is the row's own task.
func (r *inboundRow) errand(t *testing.T, g *gateway) errand {
	t.Helper()
	if r.own == nil {
		var more map[string]any
		if r.Surface == chatSurface {
			more = map[string]any{"budget": map[string]any{"tokens": chatBudget}}
		}
		made := g.file(t, "tasks_token", more)
		r.own = &made
	}
	return *r.own
}

// taskValue is what stands for a placeholder in a row that goes to the routes of
// tasks and of git.
func (g *gateway) taskValue(t *testing.T, r *inboundRow, name string) (string, bool) {
	t.Helper()
	g.repositories(t)
	switch name {
	case "task_token":
		return r.errand(t, g).Token, true
	case "task":
		return r.errand(t, g).ID, true
	case "branch":
		return r.errand(t, g).Branch, true
	case "head":
		return r.errand(t, g).head, true
	case "zero":
		return gitkit.Zero, true
	case "repo":
		return ownRepo, true
	case "other_repo":
		return besideRepo, true
	case "other_tenant_repo":
		return theirRepo, true
	case "readonly_token", "other_tenant_token", "pool_token", "writer_token", "other_tenant_task_token", "hidden", "hidden_branch", "foreign":
		g.strangers(t, name)
		return g.get(name), true
	}
	return g.endedToken(t, r, name)
}

// strangers makes what rows share.
func (g *gateway) strangers(t *testing.T, name string) {
	t.Helper()
	if g.get(name) != "" {
		return
	}
	switch name {
	case "readonly_token":
		g.set(name, g.token(t, schemas.TokenRequest{Scopes: []string{schemas.ScopeActionsRead}}))
	case "other_tenant_token":
		g.set(name, g.token(t, schemas.TokenRequest{Tenant: "other", Scopes: []string{schemas.ScopeTasksWrite, schemas.ScopeActionsRead}}))
	case "pool_token":
		g.set(name, g.token(t, schemas.TokenRequest{Scopes: []string{schemas.ScopeTasksWork}}))
	case "writer_token":
		g.set(name, g.token(t, schemas.TokenRequest{Scopes: []string{schemas.ScopeActionsWrite}}))
	case "other_tenant_task_token", "foreign":
		made := g.file(t, "their tasks_token", map[string]any{"repo": theirRepo})
		g.set("other_tenant_task_token", made.Token)
		g.set("foreign", made.ID)
	case "hidden", "hidden_branch":
		made := g.file(t, "tasks_token", nil)
		pack, tip := gitkit.GoodCommit("what another task has pushed", made.head)
		h := g.push(t, made, gitkit.PushBody(gitkit.Update{Old: made.head, New: tip, Ref: schemas.RefOf(made.Branch)}, pack))
		require.Equal(t, http.StatusOK, h.status, h.body)
		require.Equal(t, tip, g.view(t, "tasks_token", made.ID).Head)
		g.set("hidden", tip)
		g.set("hidden_branch", made.Branch)
	}
}

// push sends the body of a push as the holder of a task.
func (g *gateway) push(t *testing.T, as errand, body []byte) heard {
	t.Helper()
	return g.send(t, fmt.Sprintf("POST /git/%s/git-receive-pack HTTP/1.1\r\nHost: gw\r\nAuthorization: Bearer %s\r\nContent-Type: application/x-git-receive-pack-request\r\nContent-Length: %d\r\n\r\n%s",
		as.Repo, as.Token, len(body), body))
}

// endedToken is a token of a task's that is nothing any more, or never was anything.
func (g *gateway) endedToken(t *testing.T, r *inboundRow, name string) (token string, ok bool) {
	t.Helper()
	if token, ok = r.tokens[name]; ok {
		return token, true
	}
	if token, ok = g.endToken(t, r, name); ok {
		if r.tokens == nil {
			r.tokens = map[string]string{}
		}
		r.tokens[name] = token
	}
	return token, ok
}

func (g *gateway) endToken(t *testing.T, r *inboundRow, name string) (token string, ok bool) {
	t.Helper()
	made := func(more map[string]any) errand { return g.file(t, "tasks_token", more) }
	switch name {
	case "token_of_completed_task":
		done := made(nil)
		g.set("of the completed", done.Token)
		h := g.ask(t, "of the completed", http.MethodPost, schemas.RouteAgentComplete, map[string]any{"description": "done"})
		require.Equal(t, http.StatusOK, h.status, h.body)
		return done.Token, true
	case "revoked_token":
		again := made(nil)
		h := g.ask(t, "tasks_token", http.MethodPost, schemas.RouteTasks+"/"+again.ID+"/token", nil)
		require.Equal(t, http.StatusOK, h.status, h.body)
		return again.Token, true
	case "expired_token":
		late := made(map[string]any{"deadline": "1s"})
		require.Eventually(t, func() bool {
			return g.view(t, "tasks_token", late.ID).Status == schemas.TaskStatusExpired
		}, 20*time.Second, 50*time.Millisecond)
		return late.Token, true
	case "canceled_token":
		stopped := made(nil)
		h := g.ask(t, "tasks_token", http.MethodPost, schemas.RouteTasks+"/"+stopped.ID+"/cancel", nil)
		require.Equal(t, http.StatusAccepted, h.status, h.body)
		require.Eventually(t, func() bool {
			return g.view(t, "tasks_token", stopped.ID).Status == schemas.TaskStatusCanceled
		}, 20*time.Second, 20*time.Millisecond)
		return stopped.Token, true
	case "guessed_token": // the task's name with another secret
		own := r.errand(t, g).Token
		at := strings.LastIndex(own[:len(own)-43], "_") + 1
		return own[:at] + strings.Repeat("A", 43), true
	case "grafted_token": // another task's name with the secret of this one
		own, other := r.errand(t, g).Token, made(nil).Token
		at := func(s string) int { return len(s) - 43 }
		return other[:at(other)] + own[at(own):], true
	}
	return "", false
}
