package app

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"weir/internal/weirtest/table"
	"weir/schemas"
)

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
