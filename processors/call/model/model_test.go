package model_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"weir/internal/completion"
	"weir/internal/fault"
	"weir/internal/outbound"
	"weir/internal/policy"
	"weir/internal/policy/evaluate"
	"weir/internal/secrets"
	"weir/internal/weirtest/harness"
	"weir/internal/weirtest/llm"
	"weir/internal/weirtest/rulebook"
	"weir/internal/weirtest/table"
	"weir/processors/call"
	"weir/processors/call/model"
	"weir/processors/guard"
	"weir/schemas"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	secret = "zq-CANARY-MODEL-KEY-0123456789"
	id     = "act-1"
)

// line is an adapter over the real client, with the entry of one upstream.
type line struct {
	adapter *model.Adapter
	guard   *guard.Guard
	url     string
}

func newLine(t *testing.T, base string, change ...func(*outbound.Config, *model.Config)) *line {
	t.Helper()
	return newLineUnder(t, base, nil, change...)
}

// newLineUnder is newLine with traffic rules.
func newLineUnder(t *testing.T, base string, rules guard.Rules, change ...func(*outbound.Config, *model.Config)) *line {
	t.Helper()
	p, err := policy.Compile(policy.Config{Entries: []policy.Entry{{
		Name: schemas.ModelEntry("up"), URLPrefix: base + schemas.RouteChat, Methods: []string{"POST"},
		Network: policy.NetworkLoopback, Agent: true, Headers: map[string]string{"Authorization": "Bearer ${secret:KEY}"},
	}}})
	require.NoError(t, err)
	limits, all := outbound.Config{}, model.Config{Event: 64 << 10, Stream: 256 << 10} // small, so that what is endless ends
	for _, c := range change {
		c(&limits, &all)
	}
	client := outbound.New(limits)
	t.Cleanup(client.Close)
	store := secrets.New(secrets.Config{LookupEnv: func(name string) (string, bool) { return secret, name == "WEIR_SECRET_KEY" }})
	return &line{adapter: model.New(client, store, all), guard: guard.New(func() *policy.Policy { return p }, rules), url: base}
}

// heard is all that came of a call.
type heard struct {
	chunks   []string
	output   int64
	done     int
	status   int
	reply    *call.Reply
	response model.Response
	err      error
}

// code is that of the failed call; empty: it did not fail.
func (h heard) code() schemas.Code {
	if failed, ok := errors.AsType[*fault.Call](h.err); ok {
		return failed.Code
	}
	return ""
}

// text is the content that the reader of the chunks has.
func (h heard) text(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	for _, raw := range h.chunks {
		var c struct {
			Choices []struct {
				Delta struct {
					Content string `json:"content"`
				} `json:"delta"`
			} `json:"choices"`
		}
		require.NoError(t, json.Unmarshal([]byte(raw), &c), raw)
		require.NotContains(t, raw, "\n")
		for _, choice := range c.Choices {
			b.WriteString(choice.Delta.Content)
		}
	}
	return b.String()
}

func (l *line) pass(t *testing.T, body string) guard.Pass {
	t.Helper()
	pass, d := l.guard.Check(schemas.HTTPCall{
		Method: "POST", URL: l.url + schemas.RouteChat, AllowlistKey: schemas.ModelEntry("up"), Body: json.RawMessage(body),
	}, evaluate.Scope{KeyRequired: true, Agent: true})
	require.True(t, pass.Valid(), "%+v", d)
	return pass
}

// call makes one call. What the options lack is filled in.
func (l *line) call(ctx context.Context, t *testing.T, body string, options model.CallOptions) heard {
	t.Helper()
	var h heard
	options.ID = id
	given := options.Chunk
	options.Chunk = func(ctx context.Context, p model.Piece) error {
		assert.GreaterOrEqual(t, p.Output, h.output, "it never shrinks")
		h.output = p.Output
		if p.Raw != nil {
			h.chunks = append(h.chunks, string(p.Raw))
		}
		if given != nil {
			return given(ctx, p)
		}
		return nil
	}
	options.Done = func(context.Context) error { h.done++; return nil }
	pass := l.pass(t, body)
	ex, err := l.adapter.For(options).Open(ctx, pass)
	if err != nil {
		h.err = err
		return h
	}
	defer ex.Close()
	h.reply, h.err = ex.Do(ctx, pass, nil)
	if h.reply == nil {
		h.reply = &call.Reply{}
	}
	if h.err == nil {
		h.status = h.reply.Answer.Status
		require.NoError(t, json.Unmarshal(h.reply.Answer.Body, &h.response), string(h.reply.Answer.Body))
		assert.Empty(t, h.reply.Answer.Headers, "nothing that a provider says in headers is kept")
	}
	all := string(h.reply.Answer.Body) + strings.Join(h.chunks, "")
	for n := 0; n+8 <= len(secret); n++ {
		assert.NotContains(t, all, secret[n:n+8], "no part of the secret comes back")
	}
	return h
}

// TestMemoryOfALargeCompletion is reserved while it is read, and until the call is closed; a small one needs none.
func TestMemoryOfALargeCompletion(t *testing.T) {
	t.Parallel()
	for size, reserved := range map[int]int{200 << 10: 0, 400 << 10: 1} {
		content := strings.Repeat("x", size)
		up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = fmt.Fprintf(w, `{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":%q},"finish_reason":"stop"}]}`, content)
		}))
		t.Cleanup(up.Close)
		var asked, released atomic.Int64
		l := newLine(t, up.URL, func(o *outbound.Config, m *model.Config) {
			m.Event, m.Stream = 1<<20, 1<<20
			o.Quota = func(string) outbound.Quota {
				return outbound.Quota{Bytes: 1 << 20, Reserve: func(_ context.Context, n int64) (int64, func(), error) {
					asked.Add(1)
					return n, func() { released.Add(1) }, nil
				}}
			}
		})
		pass := l.pass(t, request("m", false))
		ex, err := l.adapter.For(model.CallOptions{Options: completion.Options{ID: id}}).Open(t.Context(), pass)
		require.NoError(t, err)
		reply, err := ex.Do(t.Context(), pass, nil)
		require.NoError(t, err)
		require.Contains(t, string(reply.Answer.Body), content)
		require.EqualValues(t, reserved, asked.Load())
		require.Zero(t, released.Load(), "it is not stored yet")
		ex.Close()
		require.EqualValues(t, reserved, released.Load())
	}
}

func request(name string, stream bool) string {
	body := `{"model":"` + name + `","messages":[{"role":"user","content":"hé"}],"x_unknown":1.50`
	if stream {
		body += `,"stream":true,"stream_options":{"include_usage":true}`
	}
	return body + "}"
}

func TestStream(t *testing.T) {
	t.Parallel()
	s := llm.New(t, llm.Config{Key: secret})
	l := newLine(t, s.URL())
	h := l.call(t.Context(), t, request("m", true), model.CallOptions{Stream: true})
	require.NoError(t, h.err)
	assert.Equal(t, 200, h.status)
	assert.Equal(t, "Hello, world", h.text(t))
	assert.Len(t, h.chunks, 5, "role, three words, the end; without usage nothing is left of the last")
	assert.Equal(t, 1, h.done)
	assert.Equal(t, &schemas.ChatUsage{Prompt: 7, Completion: 3, Total: 10}, h.response.Usage)
	assert.Equal(t, []string{"stop"}, h.response.Reasons)
	assert.Positive(t, h.response.First)
	assert.Positive(t, h.response.Output)
	assert.Len(t, h.reply.Answer.Hash, 64)
	assert.JSONEq(t, `{"id":"chatcmpl-1","object":"chat.completion","created":1700000000,"model":"m","choices":[{"index":0,`+
		`"message":{"role":"assistant","content":"Hello, world"},"finish_reason":"stop"}],"usage":{"prompt_tokens":7,"completion_tokens":3,"total_tokens":10}}`,
		string(h.response.Completion))
	got := s.WaitRequest(1)
	assert.Empty(t, strings.Replace(string(got.Body), request("m", true), "", 1), "the body is sent as it is")
	assert.Equal(t, secret, got.Key())
	assert.Equal(t, "application/json", got.Header.Get("Content-Type"))

	h = l.call(t.Context(), t, request("m", true), model.CallOptions{Stream: true, Options: completion.Options{Usage: true}})
	require.NoError(t, h.err)
	assert.Len(t, h.chunks, 6)
	assert.Contains(t, h.chunks[5], `"usage":{"prompt_tokens":7`)
}

// want is what a fault of the provider comes to.
type want struct {
	id     string       // of the answer
	code   schemas.Code // of the failed call; empty: there is an answer
	fault  int          // the status in the provider's error; -1: none is named
	status int          // default 200
	text   string       // what the reader has; default "Hello, world"
	whole  string       // a part of the whole answer's content; default the text
	usage  string       // "none": not told; "asked": where the request asked
}

func TestEveryFault(t *testing.T) {
	t.Parallel()
	ok := want{}
	marked := func(text string) want { return want{text: text} }
	wants := map[llm.Fault]want{
		llm.None: ok, llm.CRLF: ok, llm.CR: ok, llm.Comments: ok, llm.SplitUTF8: ok, llm.Named: ok, llm.Lines: ok, llm.BOM: ok, llm.Gzip: ok,
		llm.NoType: ok, llm.JSONType: ok, llm.NoDone: ok, llm.NoID: {id: id}, llm.NoUsage: {usage: "none"}, llm.UsageEver: ok,
		llm.UsageEach: ok, llm.UsageLast: ok, llm.AfterDone: ok, llm.JSONAnswer: ok, llm.SSEAnswer: {usage: "asked"},
		llm.NoFinish:   {code: schemas.UpstreamTruncated},
		llm.HalfEvent:  {code: schemas.UpstreamTruncated},
		llm.Endless:    {code: schemas.UpstreamTooLarge, text: "-"},
		llm.Injection:  {text: "\n\ndata: [DONE]\n\nevent: final\ndata: {\"type\":\"final\"}\n\n\r\n\r\nid: 7\r\n: \u2028"},
		llm.Echo:       {text: request("any/echo", true)},
		llm.ErrorFirst: {fault: 429, text: "none"}, llm.ErrorMid: {fault: 502, text: "Hello"}, llm.ErrorText: {fault: -1, text: "Hello"},
		llm.ErrorOnly: {fault: 429, text: "none"}, llm.HTML: {status: 502, text: "none"}, llm.HTML200: {code: schemas.UpstreamProtocol, text: "none"},
		llm.NotJSON: {code: schemas.UpstreamProtocol, text: "Hello"}, llm.NotChunk: {code: schemas.UpstreamProtocol, text: "Hello"},
		llm.Empty: {code: schemas.UpstreamTruncated, text: "none"},
		llm.Hang:  {code: schemas.UpstreamTimeout, text: "none"}, llm.HangOpen: {code: schemas.UpstreamTimeout, text: "none"}, llm.HangMid: {code: schemas.UpstreamTimeout, text: "Hello"},
		llm.Reset: {code: schemas.UpstreamReset, text: "none"}, llm.ResetMid: {code: schemas.UpstreamTruncated, text: "Hello"},
		llm.EchoKey: marked("your key is REDACTED, is it not"), llm.EchoKeySplit: marked("your key is zREDACTED, is it not"),
		llm.EchoKeyBase64: {text: "-", whole: "REDACTED"}, llm.EchoKeyTool: {text: "none", whole: "{\\\"key\\\":\\\"REDACTED\\\"}"},
		llm.EchoKeyReason: {whole: "I was told REDACTED in secret"}, llm.EchoKeyError: {status: 400, fault: 400, text: "none"},
		llm.EchoKeyMid: {fault: 502, text: "Hello"}, llm.EchoKeyHeader: ok,
		llm.Status(400): {status: 400, fault: 400, text: "none"}, llm.Status(401): {status: 401, fault: 401, text: "none"}, llm.Status(402): {status: 402, fault: 402, text: "none"},
		llm.Status(404): {status: 404, fault: 404, text: "none"}, llm.Status(429): {status: 429, fault: 429, text: "none"},
		llm.Status(500): {status: 500, fault: 500, text: "none"}, llm.Status(503): {status: 503, fault: 503, text: "none"},
	}
	for _, f := range append(llm.Faults(), llm.None) {
		require.Contains(t, wants, f)
	}
	for f, w := range wants {
		t.Run("fault "+string(f), func(t *testing.T) {
			t.Parallel()
			s := llm.New(t, llm.Config{Key: secret})
			name := "any/" + string(f)
			if f == llm.None {
				name = "m"
			}
			for _, options := range []model.CallOptions{{Stream: true, Options: completion.Options{Usage: true}}, {Stream: true}, {}} {
				options.FirstByte, options.Idle = 10*time.Second, 10*time.Second
				switch f {
				case llm.HangMid: // long enough for what comes before
					options.Idle = 4 * time.Second
				case llm.Hang, llm.HangOpen:
					options.FirstByte = 50 * time.Millisecond
				default:
				}
				if !options.Stream && (strings.HasSuffix(string(f), "-mid") || f == llm.ErrorText || f == llm.NotJSON || f == llm.NotChunk ||
					f == llm.ErrorFirst || f == llm.NoFinish || f == llm.HalfEvent || f == llm.HangOpen || f == llm.Endless || f == llm.Empty) {
					continue // there is no such thing in an answer that is no stream
				}
				h := newLine(t, s.URL()).call(t.Context(), t, request(name, options.Stream), options)
				w.check(t, h, options)
				s.WaitIdle()
			}
		})
	}
}

func (w want) check(t *testing.T, h heard, options model.CallOptions) {
	t.Helper()
	text := cmp.Or(w.text, "Hello, world")
	if options.Stream && text != "-" {
		assert.Equal(t, strings.TrimPrefix(text, "none"), h.text(t))
	}
	assert.LessOrEqual(t, min(1, len(h.chunks)+int(h.output)), h.done)
	assert.LessOrEqual(t, h.done, 1)
	require.Equal(t, w.code, h.code(), "%v", h.err)
	if w.code != "" {
		assert.ErrorAs(t, h.err, new(*fault.Call))
		return
	}
	require.NoError(t, h.err)
	assert.Equal(t, max(200, w.status), h.status)
	if w.status == 429 {
		assert.Equal(t, 7*time.Second, h.reply.Answer.RetryAfter)
	}
	if w.fault != 0 || w.status != 0 {
		assert.Nil(t, h.response.Completion)
		if w.status != 502 { // a page tells nothing
			require.NotNil(t, h.response.Fault)
			assert.Equal(t, max(0, w.fault), h.response.Fault.Status)
			assert.NotEmpty(t, h.response.Fault.Message)
		}
		return
	}
	assert.Nil(t, h.response.Fault)
	unasked := w.usage == "asked" && !options.Stream // a stream tells it only to who asks
	assert.Equal(t, w.usage == "none" || unasked, h.response.Usage == nil)
	var doc struct {
		ID      string `json:"id"`
		Object  string `json:"object"`
		Choices []struct {
			Message struct {
				Content string `json:"content"`
			} `json:"message"`
		} `json:"choices"`
	}
	require.NoError(t, json.Unmarshal(h.response.Completion, &doc))
	assert.NotEmpty(t, doc.ID)
	assert.Equal(t, cmp.Or(w.id, doc.ID), doc.ID)
	assert.Equal(t, "chat.completion", doc.Object)
	switch {
	case w.whole != "":
		assert.Contains(t, string(h.response.Completion), w.whole)
	case options.Stream:
		assert.Equal(t, text, doc.Choices[0].Message.Content)
	}
	for _, raw := range h.chunks {
		assert.Contains(t, raw, `"id":"`+doc.ID+`"`)
		if !options.Usage {
			assert.NotContains(t, raw, `"usage"`)
		}
	}
}

// TestChunksComeAtOnce: each is handed on before the next is sent.
func TestChunksComeAtOnce(t *testing.T) {
	t.Parallel()
	step := make(chan struct{})
	s := llm.New(t, llm.Config{Default: llm.Act{Texts: []string{"a", "b", "z", "-", "c"}, Step: step}})
	n := 0
	h := newLine(t, s.URL()).call(t.Context(), t, request("m", true), model.CallOptions{Stream: true, Chunk: func(context.Context, model.Piece) error {
		if n++; n <= 5 {
			step <- struct{}{} // role, and then each text but the last
		}
		return nil
	}})
	require.NoError(t, h.err)
	assert.Equal(t, "abz-c", h.text(t))
}

// TestEndOfTheCaller: an error of Chunk ends the call and is what it returns, and so
// does the end of its context.
func TestEndOfTheCaller(t *testing.T) {
	t.Parallel()
	s := llm.New(t, llm.Config{Default: llm.Act{Fault: llm.Endless}})
	refused := errors.New("enough")
	h := newLine(t, s.URL()).call(t.Context(), t, request("m", true), model.CallOptions{Stream: true, Chunk: func(context.Context, model.Piece) error { return refused }})
	require.ErrorIs(t, h.err, refused)
	assert.Equal(t, 1, h.done)
	<-s.WaitRequest(1).Closed()
	assert.True(t, s.WaitRequest(1).Cut())

	ctx, cancel := context.WithCancel(t.Context())
	h = newLine(t, s.URL()).call(ctx, t, request("m", true), model.CallOptions{Stream: true, Chunk: func(context.Context, model.Piece) error { cancel(); return nil }})
	assert.Equal(t, schemas.Canceled, h.code())
	<-s.WaitRequest(2).Closed()
	assert.True(t, s.WaitRequest(2).Cut())
}

// TestDoneFails: what is not on the log was not said.
func TestDoneFails(t *testing.T) {
	t.Parallel()
	s := llm.New(t, llm.Config{})
	l := newLine(t, s.URL())
	lost, pass := &fault.Call{Code: schemas.Interrupted, Sent: true}, l.pass(t, request("m", true))
	ex, err := l.adapter.For(model.CallOptions{
		Stream: true, Chunk: func(context.Context, model.Piece) error { return nil }, Done: func(context.Context) error { return lost },
	}).Open(t.Context(), pass)
	require.NoError(t, err)
	defer ex.Close()
	_, err = ex.Do(t.Context(), pass, nil)
	assert.Equal(t, error(lost), err)
}

func TestConnect(t *testing.T) {
	t.Parallel()
	s := llm.New(t, llm.Config{})
	l := newLine(t, s.URL())
	s.Close()
	h := l.call(t.Context(), t, request("m", true), model.CallOptions{Stream: true, Connect: 30 * time.Second})
	failed := harness.As[*fault.Call](t, h.err)
	assert.Equal(t, schemas.UpstreamConnect, failed.Code)
	assert.False(t, failed.Sent)
	h = l.call(t.Context(), t, request("m", true), model.CallOptions{Stream: true, Connect: time.Nanosecond})
	failed = harness.As[*fault.Call](t, h.err)
	assert.Equal(t, schemas.UpstreamTimeout, failed.Code)
	assert.False(t, failed.Sent)
}

// TestMock: a rule's answer is read as a provider's would be, and the provider hears
// nothing.
func TestMock(t *testing.T) {
	t.Parallel()
	const whole = `{"choices":[{"index":0,"message":{"role":"assistant","content":"mocked"},"finish_reason":"stop"}]}`
	const events = `data: {"choices":[{"index":0,"delta":{"content":"mo"}}]}` + "\n\n" +
		`data: {"choices":[{"index":0,"delta":{"content":"cked"},"finish_reason":"stop"}]}` + "\n\ndata: [DONE]\n\n"
	type testCase struct {
		rule   schemas.Rule
		status int // default 200
		fault  string
		code   schemas.Code
	}
	table.Run(t, map[string]testCase{
		"a document":       {rule: rulebook.Mock("m", "*", 200, whole)},
		"a stream":         {rule: rulebook.MockText("m", "*", 200, "text/event-stream", events)},
		"a refusal":        {rule: rulebook.Mock("m", "*", 429, `{"error":{"message":"later"}}`), status: 429, fault: "later"},
		"no success":       {rule: rulebook.Mock("m", "*", 503, ""), status: 503},
		"an error":         {rule: rulebook.Mock("m", "*", 200, `{"error":{"code":429,"message":"later"}}`), fault: "later"},
		"nothing":          {rule: rulebook.Mock("m", "*", 200, ""), code: schemas.UpstreamTruncated},
		"no choice":        {rule: rulebook.MockText("m", "*", 200, "", "data: {}\n\ndata: [DONE]\n\n"), code: schemas.UpstreamProtocol},
		"an error event":   {rule: rulebook.MockText("m", "*", 200, "", "event: error\ndata: {\"type\":\"x\",\"message\":\"later\"}\n\n"), fault: "later"},
		"an error in text": {rule: rulebook.MockText("m", "*", 200, "", "event: error\ndata: later\n\n"), fault: "later"},
		"another's events": {rule: rulebook.MockText("m", "*", 200, "", "event: ping\ndata: pong\n\n"+events)},
		"too large":        {rule: rulebook.MockText("m", "*", 200, "", "data: "+strings.Repeat("x", 70<<10)+"\n\n"), code: schemas.UpstreamTooLarge},
	}, func(t *testing.T, tt testCase) {
		s := llm.New(t, llm.Config{})
		var book rulebook.Book
		book.Put(t, tt.rule)
		l := newLineUnder(t, s.URL(), &book)
		for _, stream := range []bool{true, false} {
			h := l.call(t.Context(), t, request("m", stream), model.CallOptions{Stream: stream})
			require.Equal(t, tt.code, h.code(), "%v", h.err)
			if tt.code != "" {
				continue
			}
			assert.Equal(t, max(200, tt.status), h.status)
			if tt.fault != "" {
				assert.Equal(t, tt.fault, h.response.Fault.Message)
			} else if tt.status == 0 {
				assert.Contains(t, string(h.response.Completion), `"content":"mocked"`)
				assert.Equal(t, stream, h.text(t) == "mocked")
			}
		}
		assert.Zero(t, s.Hits())
	})
}
