package app

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"weir/internal/weirtest/poll"
	"weir/internal/weirtest/table"
	"weir/schemas"
)

// provider is an upstream that speaks every dialect. The name of the model says what it does.
type provider struct {
	url string

	mu   sync.Mutex
	body string
}

func newProvider(t *testing.T) *provider {
	t.Helper()
	p := &provider{}
	server := httptest.NewServer(p)
	t.Cleanup(server.Close)
	p.url = server.URL + "/v1"
	return p
}

// last is the body of the newest request.
func (p *provider) last() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.body
}

func (p *provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	raw, _ := io.ReadAll(r.Body)
	p.mu.Lock()
	p.body = string(raw)
	p.mu.Unlock()
	asked := gjson.ParseBytes(raw)
	d, _ := schemas.DialectOf(r.URL.Path)
	s := scriptOf(d)
	model := asked.Get("model").Str
	switch {
	case model == "hangs":
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
		return
	case model == "refuses":
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprint(w, s.refusal)
		return
	case !asked.Get("stream").Bool():
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, s.document)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	events := s.events
	switch model {
	case "breaks":
		events = events[:len(events)-1]
	case "stalls":
		events = events[:len(events)-1]
	case "fails":
		events = append(events[:len(events)-1:len(events)-1], s.failure)
	}
	for _, e := range events {
		fmt.Fprintf(w, "event: %s\ndata: %s\n\n", gjson.Get(e, "type").Str, e)
		_ = http.NewResponseController(w).Flush()
	}
	switch model {
	case "stalls":
		<-r.Context().Done()
	case "breaks":
		panic(http.ErrAbortHandler)
	}
}

// script is what the provider answers in a dialect.
type script struct {
	request, document string
	events            []string
	refusal, failure  string
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
		s.refusal = `{"error":{"message":"too long","type":"invalid_request_error","param":"input","code":"context_length_exceeded"}}`
		s.failure = `{"type":"response.failed","sequence_number":7,"response":` + strings.Replace(response("failed", "", "null"), `"previous_response_id"`, `"error":{"code":"server_error","message":"they failed"},"previous_response_id"`, 1) + `}`
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
		s.refusal = `{"type":"error","error":{"type":"invalid_request_error","message":"too long"},"request_id":"req_theirs"}`
		s.failure = `{"type":"error","error":{"type":"overloaded_error","message":"they failed"}}`
	case schemas.DialectCount:
		s.request, s.document = `"messages":[{"role":"user","content":"hi"}]`, `{"input_tokens":5}`
		s.refusal = scriptOf(schemas.DialectMessages).refusal
	case schemas.DialectEmbeddings:
		s.request = `"input":"hi"`
		s.document = `{"object":"list","data":[{"object":"embedding","index":0,"embedding":[0.10,-2e-7]}],"model":"real-1","usage":{"prompt_tokens":5,"total_tokens":5}}`
		s.refusal = scriptOf(schemas.DialectResponses).refusal
	case schemas.DialectChat:
	}
	return s
}

// body is a request of the dialect, with more members.
func (s script) body(model, more string) string {
	return fmt.Sprintf(`{"model":"m/%s",%s%s}`, model, s.request, more)
}

// own is what a caller reads of the provider's bytes.
func own(text, action string) string {
	return strings.ReplaceAll(text, "resp_theirs", schemas.ResponseID(action))
}

func dialectNode(t *testing.T) (caller, *provider) {
	t.Helper()
	p := newProvider(t)
	a := newApp(t, withTokens+fmt.Sprintf("models:\n  m/*: {url: %q, model: \"*\"}\n  only/*: {url: %q, model: \"*\", dialects: [messages]}\n", p.url, p.url))
	return a.admin(t), p
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
	admin, _ := dialectNode(t)
	table.RunNamed(t, map[string]schemas.Dialect{
		"responses": schemas.DialectResponses, "messages": schemas.DialectMessages, "count_tokens": schemas.DialectCount, "embeddings": schemas.DialectEmbeddings,
	}, func(t *testing.T, name string, d schemas.Dialect) {
		s, route := scriptOf(d), "/v1"+d.Route()
		body, h := admin.does(t, http.StatusOK, http.MethodPost, route, s.body("fine", ""), "Idempotency-Key", name+"-whole")
		assert.Equal(t, own(s.document, h.Get("X-Generation-Id")), body)
		again, h := admin.does(t, http.StatusOK, http.MethodPost, route, s.body("fine", ""), "Idempotency-Key", name+"-whole")
		assert.Equal(t, body, again)
		if d == schemas.DialectResponses {
			again, _ = admin.does(t, http.StatusOK, http.MethodGet, route+"/"+schemas.ResponseID(h.Get("X-Generation-Id")), "")
			assert.Equal(t, body, again)
		}
		if s.events == nil {
			return
		}
		stream, h := admin.does(t, http.StatusOK, http.MethodPost, route, s.body("fine", `,"stream":true`), "Idempotency-Key", name+"-stream")
		id := h.Get("X-Generation-Id")
		frames := eventsOf(t, stream)
		require.Len(t, frames, len(s.events), stream)
		for i, f := range frames {
			assert.JSONEq(t, own(s.events[i], id), f[2])
			assert.Equal(t, gjson.Get(f[2], "type").Str, f[0])
		}
		for i, f := range frames {
			rest, _ := admin.does(t, http.StatusOK, http.MethodPost, route, s.body("fine", `,"stream":true`), "Idempotency-Key", name+"-stream", "Last-Event-ID", f[1])
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

// TestADialectFailsInItsForm, before the first event and in the middle of a stream.
func TestADialectFailsInItsForm(t *testing.T) {
	t.Parallel()
	admin, _ := dialectNode(t)
	for _, d := range []schemas.Dialect{schemas.DialectResponses, schemas.DialectMessages, schemas.DialectCount, schemas.DialectEmbeddings} {
		s, route := scriptOf(d), d.Route()
		messages := d.Family() == schemas.DialectMessages
		for model, want := range map[string]int{"m/refuses": http.StatusBadRequest, "nothing": http.StatusNotFound, "only/fine": http.StatusBadRequest} {
			if model == "only/fine" && messages {
				continue
			}
			body := strings.Replace(s.body("x", ""), "m/x", model, 1)
			text, h := admin.does(t, want, http.MethodPost, route, body)
			require.Equal(t, "application/json", h.Get("Content-Type"), text)
			assert.Equal(t, messages, gjson.Get(text, "type").Str == "error", text)
			assert.NotEmpty(t, gjson.Get(text, "error.message").Str, text)
			switch {
			case model == "m/refuses" && messages:
				assert.Equal(t, "invalid_request_error", gjson.Get(text, "error.type").Str)
			case model == "m/refuses":
				assert.Equal(t, "context_length_exceeded", gjson.Get(text, "error.code").Str)
			case model == "nothing" && messages:
				assert.Equal(t, "not_found_error", gjson.Get(text, "error.type").Str)
			case model == "nothing":
				assert.Equal(t, "model_not_found", gjson.Get(text, "error.code").Str)
			}
		}
		if s.events == nil {
			continue
		}
		for _, model := range []string{"breaks", "fails"} {
			stream, h := admin.does(t, http.StatusOK, http.MethodPost, route, s.body(model, `,"stream":true`))
			id := h.Get("X-Generation-Id")
			frames := eventsOf(t, stream)
			require.Len(t, frames, len(s.events), stream)
			last := frames[len(frames)-1]
			assert.NotContains(t, stream, "[DONE]")
			if messages {
				assert.Equal(t, "error", last[0])
				assert.NotEmpty(t, gjson.Get(last[2], "error.type").Str)
				continue
			}
			assert.Equal(t, "response.failed", last[0])
			assert.EqualValues(t, 7, gjson.Get(last[2], "sequence_number").Int())
			assert.Equal(t, "failed", gjson.Get(last[2], "response.status").Str)
			assert.Equal(t, schemas.ResponseID(id), gjson.Get(last[2], "response.id").Str)
			assert.EqualValues(t, 1790000000, gjson.Get(last[2], "response.created_at").Int())
			shown, _ := admin.does(t, http.StatusOK, http.MethodGet, "/responses/"+schemas.ResponseID(id), "")
			assert.Equal(t, "failed", gjson.Get(shown, "status").Str, shown)
			assert.Equal(t, gjson.Get(last[2], "response.error").Raw, gjson.Get(shown, "error").Raw)
		}
	}
}

// TestABackgroundResponse is answered at once, read by its id, continued and canceled.
func TestABackgroundResponse(t *testing.T) {
	t.Parallel()
	admin, upstream := dialectNode(t)
	s := scriptOf(schemas.DialectResponses)
	ask := func(model, more string) (response string) {
		t.Helper()
		text, h := admin.does(t, http.StatusOK, http.MethodPost, "/v1/responses", s.body(model, `,"background":true`+more))
		assert.Equal(t, schemas.ResponseID(h.Get("X-Generation-Id")), gjson.Get(text, "id").Str)
		return text
	}
	until := func(id, status string) (response string) {
		t.Helper()
		poll.Until(t, func() bool {
			response, _ = admin.does(t, http.StatusOK, http.MethodGet, "/v1/responses/"+id, "")
			return gjson.Get(response, "status").Str == status
		}, status)
		return response
	}
	first := ask("fine", "")
	assert.Contains(t, []string{"queued", "in_progress", "completed"}, gjson.Get(first, "status").Str)
	id := gjson.Get(first, "id").Str
	done := until(id, "completed")
	assert.Equal(t, "Hello", gjson.Get(done, "output.0.content.0.text").Str)
	body := upstream.last()
	assert.NotContains(t, body, "background")

	second := ask("fine", `,"previous_response_id":"`+id+`"`)
	assert.Equal(t, id, gjson.Get(second, "previous_response_id").Str)
	assert.Equal(t, id, gjson.Get(until(gjson.Get(second, "id").Str, "completed"), "previous_response_id").Str)
	body = upstream.last()
	assert.Equal(t, "resp_theirs", gjson.Get(body, "previous_response_id").Str)

	hangs := gjson.Get(ask("hangs", ""), "id").Str
	until(hangs, "in_progress")
	for range 2 { // the second changes nothing
		canceled, _ := admin.does(t, http.StatusOK, http.MethodPost, "/v1/responses/"+hangs+"/cancel", "")
		assert.Equal(t, "cancelled", gjson.Get(canceled, "status").Str, canceled)
		assert.Equal(t, hangs, gjson.Get(canceled, "id").Str)
	}
	until(hangs, "cancelled")

	// A client of Messages sends its token like this.
	text, _ := admin.asks(t, http.StatusOK, http.MethodGet, "/v1/responses/"+id, "", "X-Api-Key", admin.token)
	assert.Equal(t, done, text)
	admin.asks(t, http.StatusUnauthorized, http.MethodGet, "/v1/responses/"+id, "")

	for path, want := range map[string]int{"/v1/responses/" + id: http.StatusMethodNotAllowed, "/v1/responses/" + id + "/input_items": http.StatusNotFound} {
		method := http.MethodDelete
		if want == http.StatusNotFound {
			method = http.MethodGet
		}
		text, _ := admin.does(t, want, method, path, "")
		assert.NotEmpty(t, gjson.Get(text, "error.message").Str, text)
		assert.True(t, json.Valid([]byte(text)))
	}
}

// TestAStreamThatIsCanceled ends with the state of its response, for its first reader and for the one who
// resumes.
func TestAStreamThatIsCanceled(t *testing.T) {
	t.Parallel()
	admin, _ := dialectNode(t)
	s := scriptOf(schemas.DialectResponses)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, admin.URL()+"/v1/responses", strings.NewReader(s.body("stalls", `,"stream":true`)))
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer "+admin.token)
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	require.Equal(t, http.StatusOK, resp.StatusCode)
	action := resp.Header.Get("X-Generation-Id")
	id := schemas.ResponseID(action)
	poll.Until(t, func() bool {
		events, _ := admin.does(t, http.StatusOK, http.MethodGet, "/v1/actions/"+action+"/events", "", "Accept", "application/json")
		return strings.Contains(events, "response.output_item.done")
	}, "all that comes")
	shown, _ := admin.does(t, http.StatusOK, http.MethodPost, "/v1/responses/"+id+"/cancel", "")
	assert.Equal(t, "cancelled", gjson.Get(shown, "status").Str, shown)
	assert.Equal(t, "Hello", gjson.Get(shown, "output.0.content.0.text").Str, shown)
	stream, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	frames := eventsOf(t, string(stream))
	require.Len(t, frames, len(s.events))
	last := frames[len(frames)-1]
	assert.Equal(t, "response.failed", last[0])
	assert.Equal(t, "cancelled", gjson.Get(last[2], "response.status").Str)
	assert.EqualValues(t, len(s.events)-1, gjson.Get(last[2], "sequence_number").Int())
	rest, _ := admin.does(t, http.StatusOK, http.MethodGet, "/v1/responses/"+id+"?stream=true&starting_after=2", "")
	assert.Equal(t, frames[3:], eventsOf(t, rest))
}

// TestATaskReadsItsOwnResponses with the task's token alone, and none of another task.
func TestATaskReadsItsOwnResponses(t *testing.T) {
	t.Parallel()
	admin, _ := dialectNode(t)
	holder, other := admin.files(t, ""), admin.files(t, "")
	s := scriptOf(schemas.DialectResponses)
	made, _ := holder.does(t, http.StatusOK, http.MethodPost, "/v1/responses", s.body("fine", `,"background":true`))
	path := "/v1/responses/" + gjson.Get(made, "id").Str
	poll.Until(t, func() bool {
		shown, _ := holder.does(t, http.StatusOK, http.MethodGet, path, "")
		return gjson.Get(shown, "status").Str == "completed"
	}, "completed")
	admin.does(t, http.StatusOK, http.MethodGet, path, "")
	other.does(t, http.StatusNotFound, http.MethodGet, path, "")
	other.does(t, http.StatusNotFound, http.MethodPost, path+"/cancel", "")
	holder.does(t, http.StatusOK, http.MethodPost, path+"/cancel", "")
}

// TestASubtokenHasItsOwnResponses: it neither reads, continues nor cancels those that were made with wider
// limits than its own.
func TestASubtokenHasItsOwnResponses(t *testing.T) {
	t.Parallel()
	admin, _ := dialectNode(t)
	holder := admin.files(t, `,"models":["m/fine","m/hangs"]`)
	child, _ := holder.subtoken(t, `{"models":["m/fine"]}`)
	s := scriptOf(schemas.DialectResponses)
	makes := func(c filed) (id string) {
		t.Helper()
		made, _ := c.does(t, http.StatusOK, http.MethodPost, "/v1/responses", s.body("fine", ""))
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
		c.by.does(t, c.continued, http.MethodPost, "/v1/responses", s.body("fine", `,"previous_response_id":"`+id+`"`))
	}
}
