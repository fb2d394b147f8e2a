package llm_test

import (
	"context"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"weir/internal/completion"
	"weir/internal/weirtest/llm"
	"weir/schemas"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	key    = "sk-test-0123456789"
	whole  = `{"model":"m","messages":[{"role":"user","content":"hé"}]}`
	stream = `{"model":"m","messages":[{"role":"user","content":"hé"}],"stream":true,"stream_options":{"include_usage":true}}`
)

// most is how much is read of an answer; who sends more sees the caller leave.
const most = 64 << 10

// answer is the head of an answer.
type answer struct {
	status int
	kind   string
}

// send asks for a completion and reads the answer.
func send(ctx context.Context, s *llm.Server, body string) (answer, string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL()+"/chat/completions", strings.NewReader(body))
	if err != nil {
		return answer{}, "", err
	}
	req.Header.Set("Authorization", "Bearer "+key)
	resp, err := (&http.Transport{DisableKeepAlives: true, DisableCompression: true}).RoundTrip(req)
	if err != nil {
		return answer{}, "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, most))
	return answer{resp.StatusCode, resp.Header.Get("Content-Type")}, string(text), err
}

func TestCorrect(t *testing.T) {
	t.Parallel()
	s := llm.New(t, llm.Config{Key: key})
	got, text, err := send(t.Context(), s, whole)
	require.NoError(t, err)
	assert.Equal(t, 200, got.status)
	assert.Equal(t, //nolint:testifylint // byte by byte
		`{"id":"chatcmpl-1","object":"chat.completion","created":1700000000,"model":"m","choices":[{"index":0,`+
			`"message":{"role":"assistant","content":"Hello, world"},"finish_reason":"stop"}],"usage":{"prompt_tokens":7,"completion_tokens":3,"total_tokens":10}}`, text)

	got, text, err = send(t.Context(), s, stream)
	require.NoError(t, err)
	assert.Equal(t, "text/event-stream", got.kind)
	const head = `data: {"id":"chatcmpl-2","object":"chat.completion.chunk","created":1700000000,"model":"m","choices":[`
	assert.Equal(t, head+`{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}

`+head+`{"index":0,"delta":{"content":"Hello"},"finish_reason":null}]}

`+head+`{"index":0,"delta":{"content":", "},"finish_reason":null}]}

`+head+`{"index":0,"delta":{"content":"world"},"finish_reason":null}]}

`+head+`{"index":0,"delta":{},"finish_reason":"stop"}]}

`+head+`],"usage":{"prompt_tokens":7,"completion_tokens":3,"total_tokens":10}}

data: [DONE]

`, text)
	list := s.Ledger()
	require.Len(t, list, 2)
	assert.Empty(t, strings.Replace(string(list[1].Body), stream, "", 1), "byte by byte")
	assert.Equal(t, key, list[1].Key())
	assert.Equal(t, "/v1/chat/completions", list[1].Path)
	<-list[1].Closed()
	assert.True(t, list[1].Done())
	assert.Equal(t, 7, list[1].Sent())
}

// TestSay: the events of an answer make its document.
func TestSay(t *testing.T) {
	t.Parallel()
	for _, d := range schemas.AllDialects() {
		s, p := llm.Say(d, "a\"", "b"), completion.For(d)
		answer := p.Answer(completion.Options{})
		for _, raw := range slices.Concat(s.Begin, s.Pieces, s.End) {
			c, err := p.Read("", []byte(raw))
			require.NoError(t, err)
			answer.Add(c)
		}
		require.True(t, answer.Finished(), d)
		if s.Document != "" {
			require.JSONEq(t, s.Document, string(answer.Document()))
		}
	}
}

// TestFaults: each of them can be asked for by the name of a model, and comes to an
// end; what the caller has to leave is cut.
func TestFaults(t *testing.T) {
	t.Parallel()
	faults := append(llm.Faults(), llm.Status(402), llm.Status(500))
	texts := map[llm.Fault]string{
		llm.CRLF: "data: [DONE]\r\n\r\n", llm.Comments: ": PROCESSING\n", llm.Injection: `"content":"\n\ndata: [DONE]\n\n"`,
		llm.HTML: "<html>", llm.ErrorFirst: `"error":{"code":429`, llm.EchoKey: "your key is " + key,
		llm.EchoKeyError: key, llm.EchoKeyMid: key, llm.JSONAnswer: `"object":"chat.completion","`, llm.Echo: `"content":"{\"model\":\"any/echo\"`,
		llm.EchoKeyTool: `"arguments":"{\"key\":\"sk-test-0"`, llm.Status(402): `"code":402`, llm.ErrorText: `data: {"error":"the double`,
	}
	for _, f := range faults {
		t.Run(string(f), func(t *testing.T) {
			t.Parallel()
			s := llm.New(t, llm.Config{Key: key})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			hangs := f == llm.Hang || f == llm.HangOpen || f == llm.HangMid
			var text string
			var err error
			over := make(chan struct{})
			go func() {
				defer close(over)
				_, text, err = send(ctx, s, strings.Replace(stream, `"m"`, `"any/`+string(f)+`"`, 1))
			}()
			r := s.WaitRequest(1)
			if hangs {
				cancel()
			}
			<-over
			broken := hangs || f == llm.Reset || f == llm.ResetMid
			assert.Equal(t, broken, err != nil, "%v", err)
			assert.Contains(t, text, texts[f])
			<-r.Closed()
			assert.Equal(t, broken || f == llm.Endless, r.Cut())
			s.WaitIdle()
		})
	}
}
