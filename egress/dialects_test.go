package egress_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"weir/egress"
	"weir/egress/chat"
	"weir/internal/fault"
	"weir/internal/ledger"
	"weir/internal/models"
	"weir/internal/task"
	"weir/internal/weirtest/llm"
	"weir/internal/weirtest/table"
	"weir/schemas"
)

// completing has models, and so serves responses.
func completing(c *config) { c.Models = func() *models.Set { return nil } }

// told is the answer of a dialect, as a worker stores it.
type told struct {
	chunks []string
	doc    string
}

// tale is an answer in a dialect with n texts.
func tale(d schemas.Dialect, n int) (t told) {
	texts := make([]string, n)
	for i := range texts {
		texts[i] = fmt.Sprintf("%d\n\n", i)
	}
	said := llm.Say(d, texts...)
	for _, chunk := range slices.Concat(said.Begin, said.Pieces, said.End) {
		t.chunks = append(t.chunks, strings.Replace(chunk, "resp_theirs", "resp_a", 1))
	}
	t.doc = cmp.Or(strings.Replace(said.Document, "resp_theirs", "resp_a", 1), answer)
	return t
}

// order is what made the answers of tale.
func order(d schemas.Dialect) schemas.ChatOrder {
	return schemas.ChatOrder{Dialect: d, Model: "m", Body: json.RawMessage(`{"secret":"in the body"}`), Stream: true}
}

// ordered claims an action of kind chat for an order.
func (h *env) ordered(id string, o schemas.ChatOrder, principal string) *ledger.State {
	h.t.Helper()
	payload, err := json.Marshal(o)
	require.NoError(h.t, err)
	return h.accept(schemas.Action{
		ID: id, Kind: schemas.KindChat, Class: schemas.ClassOnce, Principal: principal, Task: o.TaskID, AcceptedAt: time.Unix(1_700_000_000, 0).UTC(), Payload: payload,
	})
}

// result is the end of a tale.
func (t told) result(d schemas.Dialect) schemas.Settled {
	doc, _ := json.Marshal(schemas.ChatResult{Completion: json.RawMessage(t.doc), Dialect: d, Model: "m"}) //nolint:errchkjson // cannot fail
	return schemas.Settled{Outcome: schemas.OutcomeSucceeded, Attempts: 1, Result: doc}
}

// fails is the end of an answer that broke off after a part of it.
func fails(d schemas.Dialect, partial string) schemas.Settled {
	res := schemas.ChatResult{
		Dialect: d, Model: "m", Completion: json.RawMessage(partial), Partial: partial != "",
		Error: &schemas.ChatError{Status: http.StatusTooManyRequests, Message: "slow down", RetryAfterMS: 7000},
	}
	doc, _ := json.Marshal(res) //nolint:errchkjson // cannot fail
	return schemas.Settled{Outcome: schemas.OutcomeFailed, Code: schemas.ModelFailed, Attempts: 1, Result: doc}
}

// deltas stores chunks, with several in some events.
func (h *env) deltas(st *ledger.State, chunks []string) {
	h.t.Helper()
	for n := 1; len(chunks) > 0; n = n%4 + 1 {
		n = min(n, len(chunks))
		h.delta(st, chunks[:n]...)
		chunks = chunks[n:]
	}
}

// frame is a server-sent event as a client reads it.
type frame struct{ name, id, data string }

func framesOf(t *testing.T, wire string) (all []frame) {
	t.Helper()
	for text := range strings.SplitSeq(strings.TrimSuffix(strings.TrimPrefix(wire, ":\n\n"), "\n\n"), "\n\n") {
		if text == "" {
			continue
		}
		var f frame
		for line := range strings.SplitSeq(text, "\n") {
			name, value, ok := strings.Cut(line, ": ")
			require.True(t, ok, "%q", line)
			switch name {
			case "event":
				f.name = value
			case "id":
				f.id = value
			case "data":
				f.data = value
			default:
				t.Errorf("%q", line)
			}
		}
		all = append(all, f)
	}
	return all
}

// again reads a stream with the key of its request, after an event.
func (h *env) again(d schemas.Dialect, after string) *httptest.ResponseRecorder {
	h.t.Helper()
	r := httptest.NewRequestWithContext(h.t.Context(), http.MethodPost, d.Route(), http.NoBody)
	if after != "" {
		r.Header.Set("Last-Event-ID", after)
	}
	place, err := chat.Resume(r)
	require.NoError(h.t, err)
	w := httptest.NewRecorder()
	h.chat.Answer(w, r, chatRef("a"), receipt("a", true), &schemas.ChatOrder{Dialect: d, Model: "m", Stream: true}, place, -1, nil)
	return w
}

// TestEveryDialectResumes: a stream that is cut after any of its frames continues to the same bytes,
// however its chunks were stored and however it ended.
func TestEveryDialectResumes(t *testing.T) {
	t.Parallel()
	type testCase struct {
		dialect schemas.Dialect
		fails   bool
	}
	cases := map[string]testCase{}
	for _, d := range []schemas.Dialect{schemas.DialectChat, schemas.DialectResponses, schemas.DialectMessages} {
		cases[string(d)] = testCase{d, false}
		cases[string(d)+" that fails"] = testCase{d, true}
	}
	table.Run(t, cases, func(t *testing.T, tc testCase) {
		h := build(t, completing)
		tale := tale(tc.dialect, 20)
		st := h.ordered("a", order(tc.dialect), "")
		h.attempt(st)
		end := tale.result(tc.dialect)
		if tc.fails {
			tale.chunks, end = tale.chunks[:11], fails(tc.dialect, strings.Replace(tale.doc, "completed", "in_progress", 1))
		}
		h.deltas(st, tale.chunks)
		h.settle(st, end)
		w := h.again(tc.dialect, "")
		require.Equal(t, http.StatusOK, w.Code, w.Body)
		require.Equal(t, []string{"text/event-stream", "no", "a", "a"}, []string{
			w.Header().Get("Content-Type"), w.Header().Get("X-Accel-Buffering"), w.Header().Get("X-Generation-Id"), w.Header().Get("Weir-Action-Id"),
		})
		views := h.get("/v1/actions/a/events", "Accept", "text/event-stream").Body.String()
		require.Contains(t, views, `"type":"delta"`)
		require.Contains(t, views, `"data":{"chunks":[`+tale.chunks[0]+`]}`)
		require.Contains(t, views, `"result":`+string(end.Result), "what was used stands there, too")
		require.Contains(t, h.get("/v1/actions/a").Body.String(), `"result":`+string(end.Result))
		whole := w.Body.String()
		all := framesOf(t, whole)
		require.GreaterOrEqual(t, len(all), len(tale.chunks))
		for i, chunk := range tale.chunks {
			require.Equal(t, chunk, all[i].data)
			if tc.dialect != schemas.DialectChat {
				require.Equal(t, gjson.Get(chunk, "type").Str, all[i].name)
			}
		}
		require.Equal(t, tc.dialect == schemas.DialectChat, strings.HasSuffix(whole, "data: [DONE]\n\n"))
		for i, f := range all[:len(all)-1] {
			if f.id == "" {
				continue
			}
			rest := h.again(tc.dialect, f.id)
			require.Equal(t, http.StatusOK, rest.Code, rest.Body)
			require.Equal(t, whole, upTo(whole, i+1)+rest.Body.String(), "cut after frame %d", i)
		}
		rest := h.again(tc.dialect, all[len(all)-1].id)
		require.Equal(t, http.StatusOK, rest.Code)
		want := ":\n\n" // no 204: clients of the dialects expect a stream
		if tc.dialect == schemas.DialectChat {
			want = "data: [DONE]\n\n"
		}
		require.Equal(t, want, rest.Body.String())
		if tc.dialect != schemas.DialectResponses {
			return
		}
		for i, f := range all {
			w := h.get(fmt.Sprintf("/v1/responses/resp_a?stream=true&starting_after=%d", i))
			require.Equal(t, http.StatusOK, w.Code)
			require.Equal(t, whole, upTo(whole, i+1)+strings.TrimPrefix(w.Body.String(), ":\n\n"), "cut after event %d", i)
			require.EqualValues(t, i, gjson.Get(f.data, "sequence_number").Int())
		}
		require.Equal(t, whole, strings.TrimPrefix(h.get("/responses/resp_a?stream=true").Body.String(), ":\n\n"))
	})
}

// upTo is the beginning of a stream: so many of its frames.
func upTo(wire string, n int) string {
	return strings.Join(strings.SplitAfterN(wire, "\n\n", n+1)[:n], "")
}

// TestARunningResponseContinues to its reader who resumes, event by event, whatever it has read.
func TestARunningResponseContinues(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := build(t, completing)
		tale := tale(schemas.DialectResponses, 6)
		st := h.ordered("a", order(schemas.DialectResponses), "")
		h.attempt(st)
		h.delta(st, tale.chunks[:4]...)
		got := map[int]*flushRecorder{}
		for _, after := range []int{-1, 0, 2, 3, 5} {
			w := &flushRecorder{header: http.Header{}, got: make(chan string, 100)}
			got[after] = w
			target := "/v1/responses/resp_a?stream=true"
			if after >= 0 {
				target += "&starting_after=" + strconv.Itoa(after)
			}
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, target, http.NoBody)
			r.Header.Set("Authorization", "Bearer acme")
			go func() {
				defer close(w.got)
				h.engine.ServeHTTP(w, r)
			}()
		}
		synctest.Wait()
		for _, chunk := range tale.chunks[4:] {
			h.delta(st, chunk)
			synctest.Wait()
		}
		h.settle(st, tale.result(schemas.DialectResponses))
		for after, w := range got {
			var b strings.Builder
			for part := range w.got {
				b.WriteString(strings.TrimPrefix(part, ":\n\n"))
			}
			var data []string
			for _, f := range framesOf(t, b.String()) {
				data = append(data, f.data)
			}
			require.Equal(t, tale.chunks[after+1:], data, after)
		}
	})
}

// TestFailuresHaveTheFormOfTheirDialect: with a status before the first chunk, and in the stream after it.
func TestFailuresHaveTheFormOfTheirDialect(t *testing.T) {
	t.Parallel()
	type testCase struct {
		body, in string
	}
	openAI := `{"error":{"message":"slow down","type":"rate_limit_error","param":null,"code":"rate_limit_exceeded","metadata":{"code":"MODEL_FAILED","status":429}}}`
	messages := `{"type":"error","error":{"type":"rate_limit_error","message":"slow down","metadata":{"code":"MODEL_FAILED","status":429}}}`
	table.RunNamed(t, map[string]testCase{
		"responses": {openAI, "event: response.failed\nid: %d\ndata: " +
			`{"type":"response.failed","sequence_number":3,"response":{"id":"resp_mid","object":"response","created_at":1764000000,"status":"failed","background":false,` +
			`"error":{"code":"rate_limit_exceeded","message":"slow down"},"incomplete_details":null,"model":"real","output":[],"previous_response_id":"resp_before","usage":null}}`},
		"chat":         {openAI, errorEnd + "\n\nid: %d\ndata: [DONE]"},
		"messages":     {messages, "event: error\nid: %d\ndata: " + messages},
		"count_tokens": {messages, ""},
		"embeddings":   {openAI, ""},
	}, func(t *testing.T, name string, tc testCase) {
		h := build(t, completing)
		d := schemas.Dialect(name)
		st := h.ordered("first", order(d), "")
		h.settle(st, fails(d, ""))
		for _, whole := range []bool{true, false} {
			w := h.talked(talk{id: "first", whole: whole, wait: -1, duplicate: true, order: order(d)})
			require.Equal(t, http.StatusTooManyRequests, w.Code)
			require.Equal(t, "7", w.Header().Get("Retry-After"))
			require.Equal(t, "application/json", w.Header().Get("Content-Type"))
			require.Equal(t, "first", w.Header().Get("X-Generation-Id"))
			require.Equal(t, tc.body, w.Body.String())
		}
		if tc.in == "" {
			return
		}
		o := order(d)
		o.Previous = "before"
		tale := tale(d, 3)
		st = h.ordered("mid", o, "")
		h.deltas(st, tale.chunks[:3])
		h.settle(st, fails(d, strings.Replace(tale.doc, "completed", "in_progress", 1)))
		got := h.talked(talk{id: "mid", duplicate: true, order: o}).Body.String()
		received := strings.NewReplacer(`"output":[]`, `"output":`+gjson.Get(tale.doc, "output").Raw, `"usage":null`, `"usage":`+gjson.Get(tale.doc, "usage").Raw)
		require.Equal(t, received.Replace(fmt.Sprintf(tc.in, st.Seq))+"\n\n", strings.Join(strings.SplitAfter(got, "\n\n")[3:], ""))
	})
}

// TestAResponseThatFailsBeforeItsFirstEvent is a whole stream to a client whose stream has begun.
func TestAResponseThatFailsBeforeItsFirstEvent(t *testing.T) {
	t.Parallel()
	h := build(t, completing)
	st := h.ordered("a", order(schemas.DialectResponses), "")
	h.settle(st, fails(schemas.DialectResponses, ""))
	got := framesOf(t, h.get("/v1/responses/resp_a?stream=true").Body.String())
	require.Len(t, got, 2)
	require.Equal(t, []string{"response.created", "response.failed"}, []string{got[0].name, got[1].name})
	require.Equal(t, []int64{0, 1}, []int64{gjson.Get(got[0].data, "sequence_number").Int(), gjson.Get(got[1].data, "sequence_number").Int()})
	require.Contains(t, got[0].data, `"status":"in_progress"`)
	require.Equal(t, []string{"", strconv.FormatUint(st.Seq, 10)}, []string{got[0].id, got[1].id})
	require.Equal(t, got[1:], framesOf(t, h.get("/v1/responses/resp_a?stream=true&starting_after=0").Body.String()))
}

// TestAStreamOnANodeThatStops ends with an error that a client does not take for the answer's, and by
// which it resumes.
func TestAStreamOnANodeThatStops(t *testing.T) {
	t.Parallel()
	table.Bubble(t, map[string]schemas.Dialect{
		"responses": schemas.DialectResponses, "messages": schemas.DialectMessages,
	}, func(t *testing.T, d schemas.Dialect) {
		h := build(t, completing)
		st := h.ordered("a", order(d), "")
		h.delta(st, tale(d, 1).chunks[0])
		w := &flushRecorder{header: http.Header{}, got: make(chan string, 10)}
		go func() {
			defer close(w.got)
			h.talk(w, talk{id: "a", order: order(d)})
		}()
		<-w.got
		h.feed.EndWaits()
		last := framesOf(t, <-w.got)
		require.Len(t, last, 1)
		require.Equal(t, []string{"error", ""}, []string{last[0].name, last[0].id})
		for _, word := range map[schemas.Dialect][]string{
			schemas.DialectMessages:  {`{"type":"error","error":{"type":"overloaded_error"`, "Last-Event-ID"},
			schemas.DialectResponses: {`"type":"error"`, `"code":"unavailable"`, `"message":"the stream ends here before`, "GET /v1/responses/resp_a?stream=true", "starting_after=N"},
		}[d] {
			require.Contains(t, last[0].data, word)
		}
		require.Contains(t, last[0].data, "the stream ends here before the answer does")
		_, more := <-w.got
		require.False(t, more)
	})
}

// TestWholeAnswers are the documents of their dialects, as they were stored.
func TestWholeAnswers(t *testing.T) {
	t.Parallel()
	for d, doc := range map[schemas.Dialect]string{
		schemas.DialectResponses: tale(schemas.DialectResponses, 1).doc, schemas.DialectMessages: `{"type":"message"}`,
		schemas.DialectChat: answer, schemas.DialectCount: `{"input_tokens":12}`, schemas.DialectEmbeddings: `{"object":"list","data":[{"embedding":[0.10]}]}`,
	} {
		h := build(t, completing)
		st := h.ordered("a", order(d), "")
		h.settle(st, told{doc: doc}.result(d))
		w := h.talked(talk{id: "a", whole: true, wait: -1, duplicate: true, order: order(d)})
		require.Equal(t, http.StatusOK, w.Code)
		require.Equal(t, doc, w.Body.String(), d)
	}
}

// TestTheStatesOfAResponse: its object is built from its order until it has succeeded.
func TestTheStatesOfAResponse(t *testing.T) {
	t.Parallel()
	h := build(t, completing)
	background := order(schemas.DialectResponses)
	background.Background, background.Stream, background.Previous = true, false, "before"
	object := func(status, changes string) string {
		doc := map[string]json.RawMessage{}
		require.NoError(t, json.Unmarshal([]byte(`{"id":"resp_a","object":"response","created_at":1700000000,"background":true,"error":null,"incomplete_details":null,
			"model":"m","output":[],"previous_response_id":"resp_before","usage":null,"status":"`+status+`"}`), &doc))
		require.NoError(t, json.Unmarshal([]byte(changes), &doc))
		text, err := json.Marshal(doc)
		require.NoError(t, err)
		return string(text)
	}
	st := h.ordered("a", background, "")
	check := func(want string) {
		t.Helper()
		for _, w := range []*httptest.ResponseRecorder{
			h.talked(talk{id: "a", whole: true, order: background, wait: -1, duplicate: true}),
			h.get("/v1/responses/resp_a"), h.get("/api/responses/resp_a?include[]=reasoning.encrypted_content&stream=false"),
		} {
			require.Equal(t, http.StatusOK, w.Code, w.Body)
			require.Equal(t, "a", w.Header().Get("X-Generation-Id"))
			require.Equal(t, "a", w.Header().Get("Weir-Action-Id"))
			require.JSONEq(t, want, w.Body.String())
			require.NotContains(t, w.Body.String(), "in the body")
		}
	}
	check(object("queued", `{}`))
	h.attempt(st)
	check(object("in_progress", `{}`))
	fork := func(end schemas.Settled, want string) {
		t.Helper()
		h = build(t, completing)
		h.settle(h.ordered("a", background, ""), end)
		check(want)
		w := httptest.NewRecorder()
		h.chat.Respond(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/responses/resp_a/cancel", http.NoBody), chatRef("a"))
		require.JSONEq(t, want, w.Body.String(), "the answer of a cancel, too")
	}
	incomplete := told{doc: `{"id":"resp_a","status":"incomplete"}`}
	fork(incomplete.result(schemas.DialectResponses), incomplete.doc)
	partial := `{"id":"resp_a","created_at":7,"model":"m-1","output":[{"type":"message"}],"usage":{"total_tokens":3}}`
	fork(fails(schemas.DialectResponses, partial), object("failed",
		`{"error":{"code":"rate_limit_exceeded","message":"slow down"},"created_at":7,"model":"m-1","output":[{"type":"message"}],"usage":{"total_tokens":3}}`))
	fork(schemas.Settled{Outcome: schemas.OutcomeCanceled, Code: schemas.Canceled}, object("cancelled", `{"error":{"code":"canceled","message":"the completion was canceled"}}`))
	fork(schemas.Settled{Outcome: schemas.OutcomeDenied, Code: schemas.BudgetExhausted},
		object("failed", `{"error":{"code":"insufficient_quota","message":"a budget does not bear the completion"}}`))
}

// TestABackgroundResponseGoesOn: its client may leave, whatever it has said of that.
func TestABackgroundResponseGoesOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := build(t, completing)
		o := order(schemas.DialectResponses)
		o.Background = true
		st := h.ordered("a", o, "")
		w := &stuck{httptest.NewRecorder(), 1}
		over := make(chan struct{})
		go func() {
			defer close(over)
			h.talk(w, talk{id: "a", order: o, left: func() { t.Error("it does not stop") }})
		}()
		for range 4 {
			synctest.Wait()
			h.delta(st, `{}`)
		}
		<-over
	})
}

// TestWhoReadsAResponse: readers of the tenant's actions, its principal, and the holder of its task.
func TestWhoReadsAResponse(t *testing.T) {
	t.Parallel()
	h := build(t, completing, func(c *config) {
		c.Reader = func(r *http.Request, _ string) (egress.Reader, error) {
			name := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
			who, ok := map[string]schemas.Token{
				"reader":    {Tenant: "acme", Scopes: []string{schemas.ScopeActionsRead}, ID: "tok-9"},
				"principal": {Tenant: "acme", Scopes: []string{schemas.ScopeActionsWrite}, ID: "tok-1"},
				"another":   {Tenant: "acme", Scopes: []string{schemas.ScopeActionsWrite}, ID: "tok-2"},
				"nameless":  {Tenant: "acme", Scopes: []string{schemas.ScopeActionsWrite}},
				"stranger":  {Tenant: "other", Scopes: []string{schemas.ScopeAdmin}, ID: "tok-1"},
			}[name]
			if !ok {
				return egress.Reader{}, fault.New(schemas.Unauthorized, "a token is needed")
			}
			return egress.Reader{Token: who}, nil
		}
		c.Holder = holderOf
	})
	of := func(task string) schemas.ChatOrder {
		o := order(schemas.DialectResponses)
		o.TaskID = task
		return o
	}
	h.ordered("own", of(""), "tok-1")
	h.ordered("task", of("t"), "tok-1")
	h.ordered("open", of(""), "")
	h.ordered("chat", order(schemas.DialectChat), "tok-1")
	h.claim(httpRef("http"))
	for token, reads := range map[string]string{
		"reader": "own task open", "principal": "own task", "another": "", "nameless": "", "stranger": "", agent(): "task", agentOf("other"): "",
	} {
		for _, id := range []string{"own", "task", "open", "chat", "http", "nothing", "a.b"} {
			for _, query := range []string{"", "?stream=false"} {
				w := h.ask(http.MethodGet, "/v1/responses/resp_"+id+query, token)
				want := http.StatusNotFound
				if strings.Contains(" "+reads+" ", " "+id+" ") {
					want = http.StatusOK
				}
				require.Equal(t, want, w.Code, "%s of %s: %s", id, token, w.Body)
				if want != http.StatusOK {
					require.Contains(t, w.Body.String(), `"code":"not_found"`)
					require.Contains(t, w.Body.String(), "resp_ and the action's")
				}
			}
		}
	}
	require.Equal(t, http.StatusNotFound, h.ask(http.MethodGet, "/v1/responses/own", "reader").Code)
	w := h.ask(http.MethodGet, "/v1/responses/resp_own", "")
	require.Equal(t, http.StatusUnauthorized, w.Code)
	require.Contains(t, w.Body.String(), `"code":"invalid_api_key"`)
}

// holderOf is the holder of a task by its token.
func holderOf(_ context.Context, token string) (egress.Reader, error) {
	of, _ := task.Parse(token)
	return egress.Reader{Token: schemas.Token{Tenant: of.Tenant}, Task: of.ID}, nil
}

func TestWhatAResponseIsNotAskedFor(t *testing.T) {
	t.Parallel()
	h := build(t, completing)
	h.ordered("a", order(schemas.DialectResponses), "")
	whole := order(schemas.DialectResponses)
	whole.Stream = false
	h.ordered("whole", whole, "")
	h.settle(h.ordered("lost", whole, ""), schemas.Settled{Outcome: schemas.OutcomeSucceeded, ResultBlob: "nowhere"})
	for target, want := range map[string]string{
		"a?starting_after=1":                               "add stream=true",
		"a?stream=false&starting_after=1":                  "add stream=true",
		"a?stream=yes":                                     "must be true or false",
		"a?stream=true&stream=true":                        "may be given once",
		"a?stream=true&starting_after=-1":                  "must be the sequence_number",
		"a?stream=true&starting_after=9223372036854775808": "must be the sequence_number",
		"a?stream=true&startingafter=1":                    "did you mean starting_after",
		"a?after=1":                                        "it can be stream",
		"whole?stream=true":                                "made without a stream",
	} {
		w := h.get("/v1/responses/resp_" + target)
		require.Equal(t, http.StatusBadRequest, w.Code, target)
		require.Contains(t, w.Body.String(), want, target)
		require.Contains(t, w.Body.String(), `"type":"invalid_request_error"`)
	}
	w := h.get("/v1/responses/resp_lost")
	require.Equal(t, http.StatusNotFound, w.Code)
	require.Contains(t, w.Body.String(), "dropped at the end of its retention")
	require.True(t, bytes.HasPrefix(w.Body.Bytes(), []byte(`{"error":{`)))
}
