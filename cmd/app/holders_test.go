package app

import (
	"context"
	"encoding/json"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	folding "weir/internal/task"
	"weir/internal/weirtest/fixture"
	"weir/internal/weirtest/poll"
	"weir/schemas"
)

// filed is a task with the caller who has its token.
type filed struct {
	caller
	id string
}

// files files a task in the repository shop, which it makes, with further members of the request.
func (c caller) files(t *testing.T, members string) filed {
	t.Helper()
	_, _, _ = c.do(t, http.MethodPost, schemas.RouteRepos, `{"name":"shop"}`)
	body, _ := c.does(t, http.StatusCreated, http.MethodPost, schemas.RouteTasks, `{"repo":"shop","description":"d"`+members+`}`)
	made := fixture.Decode[schemas.NewTask](t, body)
	return filed{caller{c.App, made.Token}, made.ID}
}

// holders are a token lead with the entries t and other, which beside third have one target that shows the headers it
// receives, and another token of the same tenant.
func holders(t *testing.T) (target string, lead, peer caller) {
	t.Helper()
	admin := tokenNode.node(t).admin(t)
	lead, _ = admin.grant(t, `{"name":"lead","scopes":["tasks:write","actions:write","actions:read"],"entries":["t","other"],"rate":"1000/s"}`)
	peer, _ = admin.grant(t, `{"name":"peer","scopes":["actions:write","actions:read"],"entries":["t","other"]}`)
	return switchboard().URL, lead, peer
}

// TestHoldersOfTasks: the token of a task makes calls by the entries that the task names, as single calls,
// in batches and passed through, and reads these actions alone, until the task ends.
func TestHoldersOfTasks(t *testing.T) {
	t.Parallel()
	target, lead, peer := holders(t)
	call := func(path string) string { return `{"method":"GET","url":"` + target + path + `"}` }
	holder, wide := lead.files(t, `,"entries":["t"]`), lead.files(t, ``)

	executed, head := holder.does(t, http.StatusOK, http.MethodPost, "/v1/execute", call("/t/x"))
	require.NotContains(t, executed, holder.token)
	id := head.Get("Weir-Action-Id")
	holder.does(t, http.StatusForbidden, http.MethodPost, "/v1/execute", call("/other/x"))
	holder.does(t, http.StatusForbidden, http.MethodPost, "/v1/execute", `{"method":"GET","url":"`+target+`/other/x","allowlist_key":"other"}`)
	wide.does(t, http.StatusOK, http.MethodPost, "/v1/execute", call("/other/x"))
	wide.does(t, http.StatusForbidden, http.MethodPost, "/v1/execute", call("/third/x"))
	batch, _ := holder.does(t, http.StatusOK, http.MethodPost, "/v1/batch", `{"requests":[`+call("/t/1")+`,`+call("/other/2")+`]}`)
	require.Contains(t, batch, `"DENY_PATH"`)
	holder.does(t, http.StatusOK, http.MethodGet, "/via/t/t/x", "")
	hidden, _ := holder.does(t, http.StatusNotFound, http.MethodGet, "/via/other/x", "")
	require.Contains(t, hidden, "use t, or send")
	require.NotContains(t, hidden, "third")

	view, _ := lead.does(t, http.StatusOK, http.MethodGet, "/v1/actions/"+id, "")
	require.Contains(t, view, `"task":"`+holder.id+`"`)
	require.Contains(t, view, `"caller":"lead"`)
	for _, part := range []string{"", "/events", "/payload", "/response"} {
		path := "/v1/actions/" + id + part
		holder.does(t, http.StatusOK, http.MethodGet, path, "", "Accept", "application/json")
		wide.does(t, http.StatusNotFound, http.MethodGet, path, "")
		peer.does(t, http.StatusOK, http.MethodGet, path, "", "Accept", "application/json")
	}
	for _, path := range []string{"/v1/actions", "/v1/evidence", "/v1/tasks", "/v1/dead-letters", "/v1/policy"} {
		body, _ := holder.does(t, http.StatusForbidden, http.MethodGet, path, "")
		require.Contains(t, body, "a task's token opens the routes of agents", "a dead one is answered alike")
	}
	for _, path := range []string{"/v1/plans", "/v1/agents/http.request/run", "/v1/actions/" + id + "/cancel", "/v1/actions/" + id + "/redrive", schemas.RouteTasks} {
		status, body, _ := holder.do(t, http.MethodPost, path, `{}`)
		require.Contains(t, []int{http.StatusForbidden, http.StatusNotFound}, status, "%s: %s", path, body)
	}
	poll.Until(t, func() bool {
		_, page, _ := lead.do(t, http.MethodGet, "/v1/actions?kind=http&task="+holder.id+"&count=true", "")
		list := fixture.Decode[schemas.ActionPage](t, page)
		return list.Count != nil && list.Count.Total == 4
	}, "the calls of the task")

	_, mine := holder.does(t, http.StatusOK, http.MethodPost, "/v1/execute", call("/t/k"), "Idempotency-Key", "k")
	_, again := holder.does(t, http.StatusOK, http.MethodPost, "/v1/execute", call("/t/k"), "Idempotency-Key", "k")
	_, theirs := lead.does(t, http.StatusOK, http.MethodPost, "/v1/execute", call("/t/k"), "Idempotency-Key", "k")
	require.Equal(t, mine.Get("Weir-Action-Id"), again.Get("Weir-Action-Id"))
	require.NotEqual(t, mine.Get("Weir-Action-Id"), theirs.Get("Weir-Action-Id"), "keys of tasks are their own")
	named := `{"request_id":"named",` + call("/t/n")[1:]
	lead.does(t, http.StatusOK, http.MethodPost, "/v1/execute", named)
	wide.does(t, http.StatusConflict, http.MethodPost, "/v1/execute", named)

	lead.does(t, http.StatusAccepted, http.MethodPost, schemas.RouteTasks+"/"+holder.id+"/cancel", "")
	holder.does(t, http.StatusUnauthorized, http.MethodPost, "/v1/execute", call("/t/x"))
	holder.does(t, http.StatusUnauthorized, http.MethodGet, "/v1/actions/"+id, "")
	holder.does(t, http.StatusUnauthorized, http.MethodGet, "/via/t/t/x", "", "X-Api-Key", holder.token)
}

// TestARequestKeepsItsLease while it lasts, whatever it is for.
func TestARequestKeepsItsLease(t *testing.T) {
	t.Parallel()
	a := newApp(t, withTokens+"tasks: {lease: 10s}\n")
	task := a.admin(t).files(t, "")
	var leased schemas.LeasedTask
	poll.Until(t, func() bool {
		status, body, _ := a.admin(t).do(t, http.MethodPost, schemas.RouteTaskLease, `{"wait_ms":1000}`)
		return status == http.StatusOK && json.Unmarshal([]byte(body), &leased) == nil
	})
	ref := schemas.Ref{Tenant: schemas.Operator, Kind: schemas.KindTask, ID: task.id}
	for name, begin := range map[string]func(ctx context.Context) error{
		"a call": func(ctx context.Context) error { _, err := a.sender(ctx, leased.Token); return err },
		"a read": func(ctx context.Context) error { _, err := a.taskReader(ctx, leased.Token); return err },
	} {
		ctx, end := context.WithCancel(t.Context())
		require.NoError(t, begin(ctx), name)
		heard := func() uint64 {
			r, err := a.broker.Bucket(schemas.LeaseBucket).Get(t.Context(), folding.LeaseKey(ref, leased.Lease))
			require.NoError(t, err)
			return r.Seq
		}
		first := heard()
		poll.Until(t, func() bool { return heard() > first }, name)
		end()
	}
}

// subtoken makes a subtoken with a token.
func (f filed) subtoken(t *testing.T, request string) (filed, schemas.NewSubtoken) {
	t.Helper()
	body, _ := f.does(t, http.StatusCreated, http.MethodPost, schemas.RouteAgentSubtokens, request)
	made := fixture.Decode[schemas.NewSubtoken](t, body)
	return filed{caller{f.App, made.Token}, f.id}, made
}

// TestSubtokens: a subtoken makes calls by a part of the holder's entries, reads its own actions alone, does
// nothing that only the holder may do, and ends with the holder's token.
func TestSubtokens(t *testing.T) {
	t.Parallel()
	target, lead, _ := holders(t)
	call := func(path string) string { return `{"method":"GET","url":"` + target + path + `"}` }
	holder := lead.files(t, ``)
	body, _ := holder.does(t, http.StatusForbidden, http.MethodPost, schemas.RouteAgentSubtokens, `{"entries":["third"]}`)
	require.Contains(t, body, "at /entries: the token may not use third; it may use t, other")
	child, made := holder.subtoken(t, `{"entries":["t"],"ttl":"30m","budget":{"requests":5}}`)
	require.Equal(t, []string{"t"}, made.Entries)
	grandchild, _ := child.subtoken(t, `{}`)
	child.does(t, http.StatusForbidden, http.MethodPost, schemas.RouteAgentSubtokens, `{"entries":["other"]}`)
	_, parents := holder.does(t, http.StatusOK, http.MethodPost, "/v1/execute", call("/other/secret"))
	for _, c := range []filed{child, grandchild} {
		_, head := c.does(t, http.StatusOK, http.MethodPost, "/v1/execute", call("/t/x"))
		c.does(t, http.StatusOK, http.MethodGet, "/via/t/t/x", "")
		c.does(t, http.StatusForbidden, http.MethodPost, "/v1/execute", call("/other/x"))
		c.does(t, http.StatusNotFound, http.MethodGet, "/via/other/x", "")
		path := "/v1/actions/" + head.Get("Weir-Action-Id")
		c.does(t, http.StatusOK, http.MethodGet, path, "")
		holder.does(t, http.StatusOK, http.MethodGet, path, "")
		frames, _ := c.does(t, http.StatusOK, http.MethodGet, path+"/events", "", "Accept", "text/event-stream")
		require.Contains(t, frames, "event: settled\n")
		c.does(t, http.StatusNotFound, http.MethodGet, "/v1/actions/"+parents.Get("Weir-Action-Id"), "")
		c.does(t, http.StatusNotFound, http.MethodGet, "/v1/actions/"+parents.Get("Weir-Action-Id")+"/events", "", "Accept", "text/event-stream")
		body, _ := c.does(t, http.StatusForbidden, http.MethodPost, schemas.RouteAgentComplete, `{}`)
		require.Contains(t, body, "only the holder")
		c.does(t, http.StatusForbidden, http.MethodGet, "/git/shop.git/info/refs?service=git-upload-pack", "", "Git-Protocol", "version=2")
	}
	reader, _ := holder.subtoken(t, `{"repo":"read"}`)
	reader.does(t, http.StatusOK, http.MethodGet, "/git/shop.git/info/refs?service=git-upload-pack", "", "Git-Protocol", "version=2")
	reader.does(t, http.StatusForbidden, http.MethodGet, "/git/shop.git/info/refs?service=git-receive-pack", "")
	writer, _ := holder.subtoken(t, `{"repo":"write"}`)
	writer.does(t, http.StatusOK, http.MethodGet, "/git/shop.git/info/refs?service=git-receive-pack", "")

	events, _ := lead.does(t, http.StatusOK, http.MethodGet, "/v1/actions/"+holder.id+"/events", "", "Accept", "application/json")
	require.NotContains(t, events, child.token)
	body, _ = lead.does(t, http.StatusOK, http.MethodPost, schemas.RouteTasks+"/"+holder.id+"/token", "")
	holder.does(t, http.StatusUnauthorized, http.MethodPost, "/v1/execute", call("/t/x"))
	for _, c := range []filed{child, grandchild, reader} {
		c.does(t, http.StatusUnauthorized, http.MethodPost, "/v1/execute", call("/t/x"))
		c.does(t, http.StatusUnauthorized, http.MethodPost, schemas.RouteAgentSubtokens, `{}`)
	}
	require.NotContains(t, body, child.token)
}

// TestSubtokensOfModels: the models of a task and of a subtoken bound completions, a budget of a subtoken is
// spent for its children too, and a holder reads the actions that it has sent, whatever models it may use.
func TestSubtokensOfModels(t *testing.T) {
	t.Parallel()
	a := tokenNode.node(t)
	lead, _ := a.admin(t).grant(t, `{"name":"lead","scopes":["tasks:write","actions:write","actions:read"],"models":["sim/*"]}`)
	complete := func(c caller, want int, model string) http.Header {
		t.Helper()
		_, head := c.does(t, want, http.MethodPost, schemas.RouteChat, `{"model":"`+model+`","messages":[{"role":"user","content":"hi"}]}`)
		return head
	}
	_, _, _ = a.admin(t).do(t, http.MethodPost, schemas.RouteRepos, `{"name":"shop"}`)
	body, _ := lead.does(t, http.StatusForbidden, http.MethodPost, schemas.RouteTasks, `{"repo":"shop","description":"d","models":["other/*"]}`)
	require.Contains(t, body, "at /models: the token may not use other/*; it may use sim/*")
	holder := lead.files(t, `,"models":["sim/a","sim/b"],"model":"sim/c"`)
	for model, want := range map[string]int{"sim/a": 200, "sim/b": 200, "sim/c": 200, "sim/d": 403} {
		complete(holder.caller, want, model)
	}
	list, _ := holder.does(t, http.StatusOK, http.MethodGet, schemas.RouteModels, "")
	require.NotEmpty(t, list)
	child, _ := holder.subtoken(t, `{"models":["sim/a"],"budget":{"requests":2}}`)
	grandchild, _ := child.subtoken(t, `{}`)
	complete(child.caller, http.StatusForbidden, "sim/b")
	head := complete(child.caller, http.StatusOK, "sim/a")
	complete(grandchild.caller, http.StatusOK, "sim/a")
	status, text, _ := child.do(t, http.MethodPost, schemas.RouteChat, `{"model":"sim/a","messages":[{"role":"user","content":"more"}]}`)
	require.GreaterOrEqual(t, status, 400, text)
	require.Contains(t, text, "BUDGET")
	complete(holder.caller, http.StatusOK, "sim/a")
	for _, reader := range []filed{child, grandchild, holder} {
		view, _ := reader.does(t, http.StatusOK, http.MethodGet, "/v1/actions/"+head.Get("Weir-Action-Id"), "")
		require.Contains(t, view, `"task":"`+holder.id+`"`)
	}
	only := lead.files(t, `,"model":"sim/a"`)
	complete(only.caller, http.StatusForbidden, "sim/b")
	own := complete(only.caller, http.StatusOK, "sim/a")
	only.does(t, http.StatusOK, http.MethodGet, "/v1/actions/"+own.Get("Weir-Action-Id"), "")
	holder.does(t, http.StatusNotFound, http.MethodGet, "/v1/actions/"+own.Get("Weir-Action-Id"), "")
	accounts, _ := lead.does(t, http.StatusOK, http.MethodGet, schemas.RouteBudgets, "")
	require.Contains(t, accounts, `"task":"`+holder.id+`/1"`)
}

// TestASubtokenHasItsOwnResponses: it neither reads, continues nor cancels those that were made with wider
// limits than its own.
func TestASubtokenHasItsOwnResponses(t *testing.T) {
	t.Parallel()
	admin := tokenNode.node(t).admin(t)
	holder := admin.files(t, `,"models":["m/fine","m/hangs"]`)
	child, _ := holder.subtoken(t, `{"models":["m/fine"]}`)
	body := func(more string) string { return `{"model":"m/fine","input":"hi"` + more + `}` }
	makes := func(c filed) (id string) {
		t.Helper()
		made, _ := c.does(t, http.StatusOK, http.MethodPost, "/v1/responses", body(""))
		return gjson.Get(made, "id").Str
	}
	for _, c := range []struct {
		by, maker filed
		shown     int // the status of a read and of a cancel
		continued int
	}{
		{child, holder, http.StatusNotFound, http.StatusBadRequest},
		{child, child, http.StatusOK, http.StatusOK},
		{holder, child, http.StatusOK, http.StatusOK},
	} {
		id := makes(c.maker)
		path := "/v1/responses/" + id
		c.by.does(t, c.shown, http.MethodGet, path, "")
		c.by.asks(t, c.shown, http.MethodGet, path, "", "X-Api-Key", c.by.token)
		c.by.does(t, c.shown, http.MethodPost, path+"/cancel", "")
		c.by.does(t, c.continued, http.MethodPost, "/v1/responses", body(`,"previous_response_id":"`+id+`"`))
	}
}
