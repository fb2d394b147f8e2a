//go:build e2e

package integration_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tmaxmax/go-sse"

	"weir/internal/weirtest/llm"
	"weir/internal/weirtest/program"
	"weir/schemas"
)

// asked is what clients/chat.mjs is told to do.
func asked(op, model string, more map[string]any) map[string]any {
	body := map[string]any{"model": model, "messages": []map[string]any{{"role": "user", "content": "Say it."}}}
	maps.Copy(body, more)
	return map[string]any{"op": op, "body": body}
}

// TestOpenAIClient asks with the npm package that most programs ask with, under every
// base that it may be given.
func TestOpenAIClient(t *testing.T) {
	t.Parallel()
	tools := llm.Act{Tools: []llm.Tool{{ID: "call-1", Name: "weather", Arguments: []string{`{"city":`, `"Oslo"}`}}}}
	provider := llm.New(t, llm.Config{Key: providerKey, Models: map[string]llm.Act{"sim/tools": tools}, Listed: []string{"sim/plain", "sim/tools"}})
	w := serveChat(t, t.TempDir(), chatConfig(t, provider, "budgets:\n  poor: {per: [model], models: [sim/poor], requests: 1}\n"))
	const hello = "Hello, world"
	t.Run("create", func(t *testing.T) {
		t.Parallel()
		for _, base := range []string{"", "/v1", "/api", "/api/v1", "/api/"} {
			got := npm(t, w.URL+base, asked("create", "sim/plain", nil))
			require.NotNil(t, got[0].Completion, "%+v", got[0].Error)
			require.Equal(t, hello, got[0].Completion.Choices[0].Message.Content)
			require.Equal(t, "stop", got[0].Completion.Choices[0].Finish)
			require.NotNil(t, got[0].Completion.Usage)
			require.NotEmpty(t, got[0].Generation)
		}
	})
	t.Run("stream", func(t *testing.T) {
		t.Parallel()
		got := npm(t, w.URL+"/v1", asked("stream", "sim/plain", nil))
		var text strings.Builder
		for _, l := range got {
			if l.Chunk != nil {
				require.Nil(t, l.Chunk.Usage, "nobody asked for it")
				for _, c := range l.Chunk.Choices {
					text.WriteString(c.Delta.Content)
				}
			}
		}
		require.Equal(t, hello, text.String())
		require.Positive(t, got[len(got)-1].End)
	})
	t.Run("assembled, with usage", func(t *testing.T) {
		t.Parallel()
		got := npm(t, w.URL+"/v1", asked("assemble", "sim/plain", map[string]any{"stream_options": map[string]any{"include_usage": true}}))
		require.NotNil(t, got[0].Completion, "%+v", got[0].Error)
		require.Equal(t, hello, got[0].Completion.Choices[0].Message.Content)
		require.NotNil(t, got[0].Completion.Usage)
		require.Positive(t, got[0].Completion.Usage.Total)
	})
	t.Run("tools", func(t *testing.T) {
		t.Parallel()
		parameters := map[string]any{"type": "object", "properties": map[string]any{"city": map[string]any{"type": "string"}}}
		more := map[string]any{"tools": []any{map[string]any{"type": "function", "function": map[string]any{"name": "weather", "parameters": parameters}}}}
		for _, op := range []string{"create", "assemble"} {
			got := npm(t, w.URL+"/v1", asked(op, "sim/tools", more))
			require.NotNil(t, got[0].Completion, "%s: %+v", op, got[0].Error)
			calls := got[0].Completion.Choices[0].Message.ToolCalls
			require.Len(t, calls, 1, op)
			require.Equal(t, "weather", calls[0].Function.Name)
			require.JSONEq(t, `{"city":"Oslo"}`, calls[0].Function.Arguments)
		}
	})
	t.Run("models", func(t *testing.T) {
		t.Parallel()
		require.Equal(t, []string{"sim/plain", "sim/tools"}, npm(t, w.URL+"/v1", map[string]any{"op": "models"})[0].Models)
	})
}

// TestOpenAIClientErrors holds the errors of Weir against the classes that the npm
// package has for them.
func TestOpenAIClientErrors(t *testing.T) {
	t.Parallel()
	provider := llm.New(t, llm.Config{Key: providerKey})
	w := serveChat(t, t.TempDir(), chatConfig(t, provider,
		"budgets:\n  poor: {per: [model], models: [sim/poor], tokens: 1}\n  busy: {per: [model], models: [sim/busy], window: 8760h, requests: 1}\n"))
	require.NotNil(t, npm(t, w.URL, asked("create", "sim/busy", nil))[0].Completion, "the first one has room")
	for name, want := range map[string]struct {
		model  string
		more   map[string]any
		class  string
		status int
		code   schemas.Code
		word   string
	}{
		"refused":       {"sim/plain", map[string]any{"api_base": "http://evil.test"}, "BadRequestError", http.StatusBadRequest, schemas.ValidationError, "validation_error"},
		"spent":         {"sim/poor", nil, "APIError", http.StatusPaymentRequired, schemas.BudgetExhausted, "insufficient_quota"},
		"unknown":       {"nobody/has-it", nil, "NotFoundError", http.StatusNotFound, schemas.ModelNotFound, "model_not_found"},
		"full":          {"sim/busy", nil, "RateLimitError", http.StatusTooManyRequests, schemas.RateLimited, "rate_limit_exceeded"},
		"provider full": {"sim/status-429", nil, "RateLimitError", http.StatusTooManyRequests, schemas.ModelFailed, "rate_limit_exceeded"},
		"provider":      {"sim/status-500", nil, "InternalServerError", http.StatusBadGateway, schemas.ModelFailed, "model_failed"},
		"page":          {"sim/html-502", nil, "InternalServerError", http.StatusBadGateway, schemas.ModelFailed, "model_failed"},
		"credential":    {"sim/status-401", nil, "InternalServerError", http.StatusBadGateway, schemas.ModelFailed, "model_failed"},
		"unprocessable": {"sim/status-422", nil, "UnprocessableEntityError", http.StatusUnprocessableEntity, schemas.ModelFailed, "model_failed"},
		"reset":         {"sim/reset", nil, "InternalServerError", http.StatusBadGateway, schemas.UpstreamReset, "upstream_reset"},
		"first event":   {"sim/error-first", nil, "RateLimitError", http.StatusTooManyRequests, schemas.ModelFailed, "rate_limit_exceeded"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, op := range []string{"create", "stream"} {
				if op == "create" && name == "first event" {
					continue // it is an event of a stream
				}
				got := npm(t, w.URL+"/v1", asked(op, want.model, want.more))[0].Error
				require.NotNil(t, got, op)
				require.Equal(t, want.status, got.Status, "%s: %+v", op, got)
				require.Equal(t, want.class, got.Name, op)
				require.Equal(t, want.status, got.Body.Metadata.Status, op)
				require.Equal(t, want.word, got.Body.Code, op)
				require.Equal(t, want.code, got.Body.Metadata.Code, "%s: %+v", op, got)
				require.NotEmpty(t, got.Body.Message)
			}
		})
	}
}

// TestOpenAIClientAborts leaves in the middle of a stream: the call goes on, unless
// its request asked for it to end.
func TestOpenAIClientAborts(t *testing.T) {
	t.Parallel()
	for _, word := range []string{"", schemas.DisconnectCancel} {
		t.Run("on disconnect "+word, func(t *testing.T) {
			t.Parallel()
			hold := make(chan struct{})
			provider := llm.New(t, llm.Config{Key: providerKey, Default: llm.Act{Texts: []string{"One", " two"}, Hold: hold}})
			w := serveChat(t, t.TempDir(), chatConfig(t, provider, ""))
			order := asked("stream", "sim/plain", nil)
			order["abortAfter"] = 2
			headers := map[string]string{"Idempotency-Key": "k"}
			if word != "" {
				headers[schemas.HeaderOnDisconnect] = word
			}
			order["headers"] = headers
			got := npm(t, w.URL+"/v1", order)
			require.Equal(t, 2, got[len(got)-1].Aborted)
			if word == "" {
				close(hold)
			} else {
				defer close(hold)
			}
			r := provider.WaitRequest(1)
			<-r.Closed()
			require.Equal(t, word != "", r.Cut())

			resp, text := w.request(t, http.MethodGet, "/v1/actions?kind=chat", "")
			require.Equal(t, http.StatusOK, resp.StatusCode, text)
			end := settled(t, w, decode[schemas.Page[schemas.ActionEntry]](t, text).Items[0].ID)
			if word == "" {
				require.Equal(t, schemas.OutcomeSucceeded, end.Outcome)
				return
			}
			require.Equal(t, schemas.OutcomeCanceled, end.Outcome)
			res := decode[schemas.ChatResult](t, string(end.Result))
			require.True(t, res.Partial)
			require.NotNil(t, res.Usage)
			require.True(t, res.Usage.Estimated, "the provider could not tell")
			require.Positive(t, res.Usage.Completion)
		})
	}
}

// providerKey is the credential of the providers here: nobody else may ever see it.
const providerKey = "AGWCANARY-provider-key-2f61"

// chatConfig writes a configuration whose models are all the provider's, and more.
func chatConfig(tb testing.TB, provider *llm.Server, more string) string {
	tb.Helper()
	return configFile(tb, fmt.Sprintf("models:\n  \"sim/*\": {url: %q, headers: {Authorization: \"Bearer ${secret:PROVIDER}\"}}\n", provider.URL())+more)
}

// serveChat starts the program with the secret of the provider.
func serveChat(tb testing.TB, dir, config string, args ...string) *weir {
	tb.Helper()
	w, err := tryServe(program.How{Environ: []string{"WEIR_SECRET_PROVIDER=" + providerKey}}, dir, append([]string{"--config", config}, args...)...)
	require.NoError(tb, err)
	endWith(tb, w)
	return w
}

// chatBody asks a model a question; more are further members.
func chatBody(model string, stream bool, more string) string {
	return fmt.Sprintf(`{"model":%q,"stream":%t,"messages":[{"role":"user","content":"Say it."}]%s}`, model, stream, more)
}

// chatChunk is one event of a stream, as far as the tests read it.
type chatChunk struct {
	Choices []struct {
		Delta struct {
			Content string `json:"content"`
		} `json:"delta"`
	} `json:"choices"`
	Usage *schemas.ChatUsage `json:"usage"`
	Error *chatFault         `json:"error"`
}

// chatFault is an error in the words of the protocol.
type chatFault struct {
	Code     string `json:"code"`
	Message  string `json:"message"`
	Metadata struct {
		Status int          `json:"status"`
		Code   schemas.Code `json:"code"`
	} `json:"metadata"`
}

// chatStream is what a stream came to.
type chatStream struct {
	text  string
	fault *chatFault
	done  int // how often it said so
}

// readChat reads a stream until its text is all there, or with "" until it ends.
func readChat(tb testing.TB, body io.Reader, all string) (s chatStream) {
	tb.Helper()
	for e, err := range sse.Read(body, nil) {
		require.NoError(tb, err)
		if e.Data == "[DONE]" {
			s.done++
			continue
		}
		c := decode[chatChunk](tb, e.Data)
		for _, choice := range c.Choices {
			s.text += choice.Delta.Content
		}
		s.fault = cmp.Or(s.fault, c.Error)
		if all != "" && s.text == all {
			break
		}
	}
	return s
}

const needsNPM = "this test asks with an npm package that is not installed: run `make clients`"

// npm runs the openai package and returns the lines that it printed.
func npm(t *testing.T, base string, asked any) []npmLine {
	t.Helper()
	program.Needs(t, filepath.Join("clients", "node_modules", "openai"), needsNPM)
	text, err := json.Marshal(asked)
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), "node", "chat.mjs", base, string(text))
	cmd.Dir, cmd.Stderr = "clients", t.Output()
	out, err := cmd.Output()
	require.NoError(t, err)
	var lines []npmLine
	for line := range strings.Lines(string(out)) {
		lines = append(lines, decode[npmLine](t, line))
	}
	require.NotEmpty(t, lines)
	return lines
}

// npmLine is one line of clients/chat.mjs.
type npmLine struct {
	Completion *struct {
		Choices []struct {
			Message struct {
				Content   string `json:"content"`
				ToolCalls []struct {
					Function struct {
						Name      string `json:"name"`
						Arguments string `json:"arguments"`
					} `json:"function"`
				} `json:"tool_calls"`
			} `json:"message"`
			Finish string `json:"finish_reason"`
		} `json:"choices"`
		Usage *schemas.ChatUsage `json:"usage"`
	} `json:"completion"`
	Generation string     `json:"generation"`
	Chunk      *chatChunk `json:"chunk"`
	End        int        `json:"end"`
	Aborted    int        `json:"aborted"`
	Models     []string   `json:"models"`
	Error      *struct {
		Name    string    `json:"name"`
		Status  int       `json:"status"`
		Message string    `json:"message"`
		Body    chatFault `json:"body"`
	} `json:"error"`
}
