package app

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"weir/internal/weirtest/poll"
	"weir/internal/weirtest/table"
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
	var made schemas.NewTask
	require.NoError(t, json.Unmarshal([]byte(body), &made))
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
	holder.does(t, http.StatusNotFound, http.MethodGet, "/via/other/x", "")

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
		holder.does(t, http.StatusUnauthorized, http.MethodGet, path, "")
	}
	for _, path := range []string{"/v1/plans", "/v1/agents/http.request/run", "/v1/actions/" + id + "/cancel", "/v1/actions/" + id + "/redrive", schemas.RouteTasks} {
		status, body, _ := holder.do(t, http.MethodPost, path, `{}`)
		require.Contains(t, []int{http.StatusUnauthorized, http.StatusNotFound}, status, "%s: %s", path, body)
	}
	poll.Until(t, func() bool {
		_, page, _ := lead.do(t, http.MethodGet, "/v1/actions?kind=http&task="+holder.id+"&count=true", "")
		var list schemas.ActionPage
		require.NoError(t, json.Unmarshal([]byte(page), &list))
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

// subtoken makes a subtoken with a token.
func (f filed) subtoken(t *testing.T, request string) (filed, schemas.NewSubtoken) {
	t.Helper()
	body, _ := f.does(t, http.StatusCreated, http.MethodPost, schemas.RouteAgentSubtokens, request)
	var made schemas.NewSubtoken
	require.NoError(t, json.Unmarshal([]byte(body), &made))
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
		for method, path := range map[string]string{
			schemas.RouteAgentTask: http.MethodGet, schemas.RouteAgentComplete: http.MethodPost, schemas.RouteAgentFail: http.MethodPost,
			schemas.RouteAgentInquiry: http.MethodPost, schemas.RouteAgentOutput: http.MethodPost, schemas.RouteTaskRelease: http.MethodPost,
		} {
			body, _ := c.does(t, http.StatusForbidden, path, method, `{}`)
			require.Contains(t, body, "only the holder")
		}
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

// provide answers as a provider that speaks every dialect.
func provide(w http.ResponseWriter, r *http.Request) {
	raw, _ := io.ReadAll(r.Body)
	d, _ := schemas.DialectOf(r.URL.Path)
	s := scriptOf(d)
	if !gjson.GetBytes(raw, "stream").Bool() {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, s.document)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	for _, e := range s.events {
		fmt.Fprintf(w, "event: %s\ndata: %s\n\n", gjson.Get(e, "type").Str, e)
		_ = http.NewResponseController(w).Flush()
	}
}

// script is what the provider answers in a dialect.
type script struct {
	request, document string
	events            []string
}

func scriptOf(d schemas.Dialect) (s script) {
	switch d {
	case schemas.DialectResponses:
		response := func(status, output, usage string) string {
			return `{"id":"resp_theirs","object":"response","created_at":1790000000,"status":"` + status + `","model":"real-1","output":[` + output + `],"previous_response_id":null,"usage":` + usage + `}`
		}
		const item = `{"id":"msg_1","type":"message","role":"assistant","status":"completed","content":[{"type":"output_text","text":"Hello","annotations":[]}]}`
		s.request = `"input":"hi"`
		s.document = response("completed", item, `{"input_tokens":5,"output_tokens":2,"total_tokens":7}`)
		s.events = []string{
			`{"type":"response.created","sequence_number":0,"response":` + response("in_progress", "", "null") + `}`,
			`{"type":"response.output_item.added","sequence_number":1,"output_index":0,"item":{"id":"msg_1","type":"message","role":"assistant","status":"in_progress","content":[]}}`,
			`{"type":"response.content_part.added","sequence_number":2,"item_id":"msg_1","output_index":0,"content_index":0,"part":{"type":"output_text","text":"","annotations":[]}}`,
			`{"type":"response.output_text.delta","sequence_number":3,"item_id":"msg_1","output_index":0,"content_index":0,"delta":"Hel"}`,
			`{"type":"response.output_text.delta","sequence_number":4,"item_id":"msg_1","output_index":0,"content_index":0,"delta":"lo"}`,
			`{"type":"response.output_text.done","sequence_number":5,"item_id":"msg_1","output_index":0,"content_index":0,"text":"Hello"}`,
			`{"type":"response.output_item.done","sequence_number":6,"output_index":0,"item":` + item + `}`,
			`{"type":"response.completed","sequence_number":7,"response":` + s.document + `}`,
		}
	case schemas.DialectMessages:
		s.request = `"max_tokens":9,"messages":[{"role":"user","content":"hi"}]`
		s.document = `{"id":"msg_1","type":"message","role":"assistant","model":"real-1","content":[{"type":"text","text":"Hello"}],"stop_reason":"end_turn","stop_sequence":null,"usage":{"input_tokens":5,"output_tokens":2}}`
		s.events = []string{
			`{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"real-1","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":5,"output_tokens":1}}}`,
			`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hel"}}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"lo"}}`,
			`{"type":"content_block_stop","index":0}`,
			`{"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":2}}`,
			`{"type":"message_stop"}`,
		}
	case schemas.DialectCount:
		s.request, s.document = `"messages":[{"role":"user","content":"hi"}]`, `{"input_tokens":5}`
	case schemas.DialectEmbeddings:
		s.request = `"input":"hi"`
		s.document = `{"object":"list","data":[{"object":"embedding","index":0,"embedding":[0.10,-2e-7]}],"model":"real-1","usage":{"prompt_tokens":5,"total_tokens":5}}`
	case schemas.DialectChat:
		s.document = `{"id":"c","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"Hello"},"finish_reason":"stop"}],"usage":{"prompt_tokens":5,"completion_tokens":2}}`
	}
	return s
}

// body is a request of the dialect, with more members.
func (s script) body(more string) string { return `{"model":"m/fine",` + s.request + more + `}` }

// own is what a caller reads of the provider's bytes.
func own(text, action string) string {
	return strings.ReplaceAll(text, "resp_theirs", schemas.ResponseID(action))
}

// eventsOf are the frames of a stream: the name, the id and the data of each.
func eventsOf(t *testing.T, text string) (frames [][3]string) {
	t.Helper()
	for frame := range strings.SplitSeq(text, "\n\n") {
		var f [3]string
		for line := range strings.SplitSeq(frame, "\n") {
			name, value, _ := strings.Cut(line, ": ")
			switch name {
			case "event":
				f[0] = value
			case "id":
				f[1] = value
			case "data":
				f[2] = value
			}
		}
		if f[2] != "" {
			frames = append(frames, f)
		}
	}
	return frames
}

// TestADialectIsServedWhole: a document and a stream pass byte for byte but for the id of a response,
// and a repeat with the key continues from any frame.
func TestADialectIsServedWhole(t *testing.T) {
	t.Parallel()
	admin := tokenNode.node(t).admin(t)
	table.RunNamed(t, map[string]schemas.Dialect{
		"responses": schemas.DialectResponses, "messages": schemas.DialectMessages, "count_tokens": schemas.DialectCount, "embeddings": schemas.DialectEmbeddings,
	}, func(t *testing.T, name string, d schemas.Dialect) {
		s, route := scriptOf(d), "/v1"+d.Route()
		body, h := admin.does(t, http.StatusOK, http.MethodPost, route, s.body(""), "Idempotency-Key", name+"-whole")
		assert.Equal(t, own(s.document, h.Get("X-Generation-Id")), body)
		again, h := admin.does(t, http.StatusOK, http.MethodPost, route, s.body(""), "Idempotency-Key", name+"-whole")
		assert.Equal(t, body, again)
		if d == schemas.DialectResponses {
			again, _ = admin.does(t, http.StatusOK, http.MethodGet, route+"/"+schemas.ResponseID(h.Get("X-Generation-Id")), "")
			assert.Equal(t, body, again)
		}
		if s.events == nil {
			return
		}
		stream, h := admin.does(t, http.StatusOK, http.MethodPost, route, s.body(`,"stream":true`), "Idempotency-Key", name+"-stream")
		id := h.Get("X-Generation-Id")
		frames := eventsOf(t, stream)
		require.Len(t, frames, len(s.events), stream)
		for i, f := range frames {
			assert.JSONEq(t, own(s.events[i], id), f[2])
			assert.Equal(t, gjson.Get(f[2], "type").Str, f[0])
		}
		for i, f := range frames {
			rest, _ := admin.does(t, http.StatusOK, http.MethodPost, route, s.body(`,"stream":true`), "Idempotency-Key", name+"-stream", "Last-Event-ID", f[1])
			assert.Equal(t, frames[i+1:], append([][3]string{}, eventsOf(t, rest)...), i)
			if d == schemas.DialectResponses {
				rest, _ = admin.does(t, http.StatusOK, http.MethodGet, fmt.Sprintf("%s/%s?stream=true&starting_after=%d", route, schemas.ResponseID(id), i), "")
				assert.Equal(t, frames[i+1:], append([][3]string{}, eventsOf(t, rest)...), i)
			}
		}
		view, _ := admin.does(t, http.StatusOK, http.MethodGet, "/v1/actions/"+id, "")
		assert.Equal(t, name, gjson.Get(view, "result.dialect").Str)
		assert.EqualValues(t, 5, gjson.Get(view, "result.usage.prompt_tokens").Int())
		assert.EqualValues(t, 2, gjson.Get(view, "result.usage.completion_tokens").Int())
	})
}

// TestASubtokenHasItsOwnResponses: it neither reads, continues nor cancels those that were made with wider
// limits than its own.
func TestASubtokenHasItsOwnResponses(t *testing.T) {
	t.Parallel()
	admin := tokenNode.node(t).admin(t)
	holder := admin.files(t, `,"models":["m/fine","m/hangs"]`)
	child, _ := holder.subtoken(t, `{"models":["m/fine"]}`)
	s := scriptOf(schemas.DialectResponses)
	makes := func(c filed) (id string) {
		t.Helper()
		made, _ := c.does(t, http.StatusOK, http.MethodPost, "/v1/responses", s.body(""))
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
		c.by.does(t, c.continued, http.MethodPost, "/v1/responses", s.body(`,"previous_response_id":"`+id+`"`))
	}
}
