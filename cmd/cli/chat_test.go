package cli

import (
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/weirtest/capture"
	"weir/internal/weirtest/fixture"
	"weir/internal/weirtest/llm"
	"weir/internal/weirtest/table"
	"weir/schemas"
)

// provider is a double of a provider, which speaks the protocol that Weir does and names its
// requests as Weir does, and the flag that has a command talk to it.
func provider(t *testing.T, cfg llm.Config) (s *llm.Server, flag string) {
	t.Helper()
	header := map[string]string{"X-Request-Id": "r-1"}
	maps.Copy(header, cfg.Default.Header)
	cfg.Default.Header = header
	s = llm.New(t, cfg)
	return s, "--server=http://" + s.Addr()
}

// saying runs the program with something on standard input.
func saying(t *testing.T, in string, args ...string) (code int, out, errs string) {
	t.Helper()
	return weir(t, in, []string{"WEIR_TOKEN=wt"}, args...)
}

func TestChatPrintsTheAnswer(t *testing.T) {
	t.Parallel()
	type testCase struct {
		act       llm.Act
		args      []string
		out, errs string
	}
	table.Run(t, map[string]testCase{
		"a stream":                {llm.Act{}, nil, "Hello, world\n", "7 tokens in, 3 out\n"},
		"the whole":               {llm.Act{}, []string{"--no-stream"}, "Hello, world\n", "7 tokens in, 3 out\n"},
		"the whole, though asked": {llm.Act{Fault: llm.JSONAnswer}, nil, "Hello, world\n", "tokens in"},
		"a stream, though not":    {llm.Act{Fault: llm.SSEAnswer}, []string{"--no-stream"}, "Hello, world\n", ""},
		"lines of its own":        {llm.Act{Texts: []string{"one\n", "two\n"}}, nil, "one\ntwo\n", ""},
		"an early end":            {llm.Act{Finish: "length"}, nil, "Hello, world\n", "ended by length, 7 tokens in, 3 out\n"},
		"no usage":                {llm.Act{Fault: llm.NoUsage}, nil, "Hello, world\n", ""},
		"comments":                {llm.Act{Fault: llm.Comments}, nil, "Hello, world\n", ""},
		"like events":             {llm.Act{Fault: llm.Injection}, nil, "data: [DONE]\n", ""},
		"the action":              {llm.Act{Header: map[string]string{schemas.HeaderGeneration: "a-1"}}, nil, "Hello, world\n", "3 out, action a-1\n"},
	}, func(t *testing.T, tt testCase) {
		_, server := provider(t, llm.Config{Default: tt.act})
		code, out, errs := saying(t, "", append([]string{"chat", "openai/gpt", "Hi", server}, tt.args...)...)
		require.Equal(t, ExitOK, code, errs)
		assert.Contains(t, out, tt.out)
		if tt.errs == "" {
			assert.NotContains(t, errs, "weir:")
		}
		assert.Contains(t, errs, tt.errs)
	})
}

// TestChatPrintsWhatProvidersSend: what an answer cost, other choices, content in parts, a choice without an index, and
// a cost that is a string.
func TestChatPrintsWhatProvidersSend(t *testing.T) {
	t.Parallel()
	examples(t, "chat m Hi", map[string]example{
		"a stream": {kind: "text/event-stream", answer: `data: {"choices":[{"index":0,"delta":{"content":"a"}},{"index":1,"delta":{"content":"b"}}]}

data: {"choices":[{"index":0,"delta":{"content":null,"refusal":"no"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":2,"cost":0.000125}}

data: [DONE]

`, out: "ano\n", errs: "1 tokens in, 2 out, $0.000125\n"},
		"a document": {answer: `{"choices":[{"message":{"content":[{"type":"text","text":"one, "},{"type":"image"},7,{"type":"text","text":"two"}]},"finish_reason":"stop"}],` +
			`"usage":{"prompt_tokens":1,"completion_tokens":2,"cost":"0.5"}}`, out: "one, two\n", errs: "1 tokens in, 2 out, $0.5\n"},
	})
}

// TestChatPrintsWhatWeirCounted: a provider that says no price leaves it to the action.
func TestChatPrintsWhatWeirCounted(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("X-Request-Id", "r-1")
		if r.Method == http.MethodGet {
			_, _ = io.WriteString(w, `{"id":"a-1","result":{"usage":{"cost_nanousd":142500}}}`)
			return
		}
		w.Header().Set(schemas.HeaderGeneration, "a-1")
		_, _ = io.WriteString(w, `{"choices":[{"message":{"content":"one"},"finish_reason":"stop"}],"usage":{"prompt_tokens":19,"completion_tokens":10}}`)
	}))
	t.Cleanup(s.Close)
	code, _, errs := saying(t, "", "chat", "m", "Hi", "--server="+s.URL)
	require.Equal(t, ExitOK, code, errs)
	assert.Contains(t, errs, "19 tokens in, 10 out, $0.0001425, action a-1\n")
}

func TestChatAsksWhatItIsTold(t *testing.T) {
	t.Parallel()
	file := fixture.Write(t, "system.md", "Be <brief>.")
	type testCase struct {
		args []string
		in   string
		body string
		key  string
	}
	table.Run(t, map[string]testCase{
		"a message":      {[]string{"Hi"}, "ignored", `{"model":"m","messages":[{"role":"user","content":"Hi"}],"stream":true,"stream_options":{"include_usage":true}}`, ""},
		"standard input": {nil, "a\nb\n", `{"model":"m","messages":[{"role":"user","content":"a\nb\n"}],"stream":true,"stream_options":{"include_usage":true}}`, ""},
		"a dash":         {[]string{"-"}, "a", `{"model":"m","messages":[{"role":"user","content":"a"}],"stream":true,"stream_options":{"include_usage":true}}`, ""},
		"every flag": {
			[]string{"Hi", "--system", "@" + file, "--no-stream", "--max-tokens", "5", "--idempotency-key", "k1"},
			"",
			`{"model":"m","messages":[{"role":"system","content":"Be <brief>."},{"role":"user","content":"Hi"}],"max_tokens":5}`, "k1",
		},
	}, func(t *testing.T, tt testCase) {
		s, server := provider(t, llm.Config{})
		code, _, errs := saying(t, tt.in, append([]string{"chat", "m", server}, tt.args...)...)
		require.Equal(t, ExitOK, code, errs)
		r := s.WaitRequest(1)
		assert.JSONEq(t, tt.body, string(r.Body))
		assert.NotContains(t, string(r.Body), `\u003c`)
		assert.Equal(t, "/v1/chat/completions", r.Path)
		assert.Equal(t, "wt", r.Key())
		assert.Equal(t, tt.key, r.Header.Get("Idempotency-Key"))
		assert.Equal(t, schemas.DisconnectCancel, r.Header.Get(schemas.HeaderOnDisconnect))
	})
}

func TestChatPrintsJSON(t *testing.T) {
	t.Parallel()
	_, server := provider(t, llm.Config{})
	for _, more := range [][]string{nil, {"--no-stream"}} {
		code, out, errs := saying(t, "", append([]string{"chat", "m", "Hi", "--json", server}, more...)...)
		require.Equal(t, ExitOK, code, errs)
		assert.Empty(t, errs)
		lines := strings.Split(strings.TrimSpace(out), "\n")
		assert.Equal(t, more == nil, len(lines) > 1)
		for _, line := range lines {
			assert.True(t, json.Valid([]byte(line)), line)
		}
	}
}

func TestChatThatGoesWrong(t *testing.T) {
	t.Parallel()
	type testCase struct {
		act  llm.Act
		out  string
		errs []string
	}
	table.Run(t, map[string]testCase{
		"an error in mid-stream": {llm.Act{Fault: llm.ErrorMid, Message: "over\x1b[2Jloaded", Header: map[string]string{schemas.HeaderGeneration: "a-1"}}, "Hello\n", []string{"weir: over\\u001b[2Jloaded", "action a-1"}},
		"an error first":         {llm.Act{Fault: llm.ErrorFirst, Message: "too many"}, "", []string{"weir: too many"}},
		"no end":                 {llm.Act{Fault: llm.NoDone}, "Hello, world\n", []string{"the answer broke off"}},
		"a cut":                  {llm.Act{Fault: llm.ResetMid, Header: map[string]string{schemas.HeaderGeneration: "a-1"}}, "Hello\n", []string{"the answer broke off; `weir tail actions a-1`"}},
		"no JSON":                {llm.Act{Fault: llm.NotJSON}, "Hello\n", []string{"is not JSON"}},
		"another server":         {llm.Act{Fault: llm.HTML}, "", []string{"502", "is it a Weir?"}},
		"another document":       {llm.Act{Fault: llm.HTML200}, "", []string{"200 OK", "is it a Weir?"}},
		"a receipt": {llm.Act{Answer: func(x *llm.Exchange) {
			x.Begin(http.StatusAccepted, "application/json")
			x.Write(`{"id":"a-1","status":"accepted"}`)
		}, Header: map[string]string{schemas.HeaderGeneration: "a-1"}}, "", []string{"the completion is under way", "`weir tail actions a-1`"}},
		"no choices": {llm.Act{Answer: func(x *llm.Exchange) {
			x.Begin(http.StatusOK, "application/json")
			x.Write(`{"id":"a-1","status":"accepted"}`)
		}}, "", []string{"it holds no choices"}},
		"a stream without choices": {llm.Act{Answer: func(x *llm.Exchange) {
			x.Stream()
			x.Done()
		}}, "", []string{"it holds no choices"}},
		"a list": {llm.Act{Answer: func(x *llm.Exchange) {
			x.Begin(http.StatusOK, "application/json")
			x.Write(`[1]`)
		}}, "", []string{"it holds no choices"}},
	}, func(t *testing.T, tt testCase) {
		_, server := provider(t, llm.Config{Default: tt.act})
		code, out, errs := saying(t, "", "chat", "m", "Hi", server)
		assert.Equal(t, ExitFailed, code)
		assert.Equal(t, tt.out, out)
		for _, want := range tt.errs {
			assert.Contains(t, errs, want)
		}
	})
}

func TestChatSaysWhyItIsRefused(t *testing.T) {
	t.Parallel()
	refusal := func(message, code string) string {
		return `{"error":{"message":"` + message + `","metadata":{"code":"` + code + `","limit_source":"daily"}}}`
	}
	noModel := refusal("there is no model m", "MODEL_NOT_FOUND")
	examples(t, "chat m Hi", map[string]example{
		"no such model": {status: 404, answer: noModel, code: ExitFailed, errs: "weir: there is no model m, by the budget daily (MODEL_NOT_FOUND)\n`weir models` lists the models there are\n"},
		"as JSON":       {args: "--json", status: 404, answer: noModel, code: ExitFailed, errs: noModel + "\n"},
		"a budget":      {status: 402, answer: refusal("nothing is left", "BUDGET_EXHAUSTED"), code: ExitFailed, errs: "weir: nothing is left, by the budget daily (BUDGET_EXHAUSTED)\n`weir budgets` shows what is left of each\n"},
		"a window":      {status: 429, answer: refusal("slow down", "RATE_LIMITED"), code: ExitFailed, errs: "(RATE_LIMITED)\ntry again in 12 s\n"},
		"a token":       {status: 401, answer: refusal("who are you", "UNAUTHORIZED"), code: ExitFailed, errs: "(UNAUTHORIZED)\nset $WEIR_TOKEN"},
		"only messages": {status: 400, answer: refusal("at /model: no upstream of this model answers POST /chat/completions; use POST /messages", "VALIDATION_ERROR"), code: ExitUsage, errs: "\n`weir chat` speaks chat completions only; ask another model\n"},
		"another model": {status: 403, answer: refusal("at /model: not yours", "FORBIDDEN"), code: ExitFailed, errs: "(FORBIDDEN)\n`weir models` lists the models that the token may use\n"},
		"a key":         {status: 422, answer: refusal("it was another", "IDEMPOTENCY_MISMATCH"), code: ExitFailed, errs: "(IDEMPOTENCY_MISMATCH)\ngive another question another --idempotency-key\n"},
		"no Weir":       {status: 400, answer: `{"error":{"message":"bad","type":"invalid_request_error","param":null,"code":"x"}}`, code: ExitFailed, errs: "weir: bad\n"},
	}, "Retry-After", "12")
	_, _, errs := saying(t, "", "chat", "m", "Hi", "--server", always(t, http.StatusUnauthorized, "application/json", refusal("no", "UNAUTHORIZED")))
	require.Contains(t, errs, "the token that was sent is unknown here")
	_, _, errs = saying(t, "", "chat", "m", "Hi", "--server", always(t, http.StatusForbidden, "application/json", refusal("the token lacks actions:write", "FORBIDDEN")))
	require.NotContains(t, errs, "weir models", "another model does not help")
}

// firstWrite is an output that says when something has come.
type firstWrite struct {
	capture.Buffer
	once sync.Once
	came chan struct{}
}

func (w *firstWrite) Write(p []byte) (int, error) {
	defer w.once.Do(func() { close(w.came) })
	return w.Buffer.Write(p)
}

// TestChatIsStopped: the answer is shown as it comes, and the connection closes when the
// command is stopped.
func TestChatIsStopped(t *testing.T) {
	t.Parallel()
	hold := make(chan struct{})
	t.Cleanup(func() { close(hold) })
	s, server := provider(t, llm.Config{Default: llm.Act{Texts: []string{"first"}, Hold: hold}})
	ctx, cancel := context.WithCancel(t.Context())
	out := &firstWrite{came: make(chan struct{})}
	var errs capture.Buffer
	code := make(chan int, 1)
	go func() {
		code <- program(ctx, []string{"chat", "m", "Hi", server}, nil, Streams{In: strings.NewReader(""), Out: out, Err: &errs})
	}()
	<-out.came
	assert.Equal(t, "first", out.String())
	cancel()
	assert.Equal(t, ExitFailed, <-code)
	assert.Equal(t, "first\n", out.String())
	assert.Contains(t, errs.String(), "stopped; the completion is canceled")
	r := s.WaitRequest(1)
	<-r.Closed()
	assert.True(t, r.Cut())
}

// TestChatIsStoppedBeforeItAsks while it still reads the message.
func TestChatIsStoppedBeforeItAsks(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	in, typing := io.Pipe()
	t.Cleanup(func() { typing.Close() })
	var errs capture.Buffer
	code := make(chan int, 1)
	go func() {
		code <- program(ctx, []string{"chat", "m"}, nil, Streams{In: in, Out: io.Discard, Err: &errs})
	}()
	_, err := typing.Write([]byte("Hi")) // taken: the command reads
	require.NoError(t, err)
	cancel()
	assert.Equal(t, ExitFailed, <-code)
	assert.Contains(t, errs.String(), "stopped; nothing was asked")
}

// TestModels prints a line for each model, or a document.
func TestModels(t *testing.T) {
	t.Parallel()
	const fast = `{"id":"fast","object":"model","created":0,"owned_by":"m","alias_of":"m/x","context_length":128000,"pricing":{"prompt":"0.0000025","completion":"0.00001","request":"0"}}`
	const plain = `{"id":"m/x","object":"model","type":"model","created":0,"created_at":"1970-01-01T00:00:00Z","owned_by":"m","display_name":"X"}`
	examples(t, "models", map[string]example{
		"a table": {answer: `{"data":[` + fast + `,` + plain + `]}`, out: "MODEL  OWNER  CONTEXT  INPUT  OUTPUT  REQUEST  ALIAS OF\n" +
			"fast   m      128000   2.5    10      0        m/x\n" +
			"m/x    m      -        -      -       -        -\n"},
		"JSON":      {args: "--json", answer: `{"data":[` + plain + `]}`, out: plain + "\n"},
		"none":      {answer: `{"data":[]}`, errs: "there are no models"},
		"a refusal": {status: 401, answer: `{"error":{"message":"no such token","metadata":{"code":"UNAUTHORIZED"}}}`, code: ExitFailed, errs: "no such token|set $WEIR_TOKEN"},
		"a mistake": {args: "one", code: ExitUsage, errs: "has no command"},
	})
}
