//go:build e2e

package integration_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/internal/weirtest/llm"
	"weir/internal/weirtest/program"
	"weir/schemas"
)

// providerKey is the credential of the providers here: nobody else may ever see it.
const providerKey = "AGWCANARY-provider-key-2f61"

// chatConfig writes a configuration whose models are all the provider's, and more.
func chatConfig(tb testing.TB, provider *llm.Server, more string) string {
	tb.Helper()
	path := filepath.Join(tb.TempDir(), "weir.yaml")
	text := fmt.Sprintf("models:\n  \"sim/*\": {url: %q, headers: {Authorization: \"Bearer ${secret:PROVIDER}\"}}\n", provider.URL()) + more
	require.NoError(tb, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// serveChat starts the program with the secret of the provider.
func serveChat(tb testing.TB, dir, config string, args ...string) *weir {
	tb.Helper()
	w, err := tryServe(program.How{Environ: []string{"WEIR_SECRET_PROVIDER=" + providerKey}}, dir, append([]string{"--config", config}, args...)...)
	require.NoError(tb, err)
	tb.Cleanup(func() {
		w.Kill()
		if tb.Failed() {
			tb.Logf("weir's stderr:\n%s", w.Said())
		}
	})
	return w
}

// chatBody asks a model a question; more are further members.
func chatBody(model string, stream bool, more string) string {
	return fmt.Sprintf(`{"model":%q,"stream":%t,"messages":[{"role":"user","content":"Say it."}]%s}`, model, stream, more)
}

// chatChunk is one event of a stream, as far as the tests read it.
type chatChunk struct {
	ID      string `json:"id"`
	Choices []struct {
		Delta struct {
			Content   string `json:"content"`
			Reasoning string `json:"reasoning_content"`
		} `json:"delta"`
		Finish string `json:"finish_reason"`
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
		Source string       `json:"limit_source"`
		What   string       `json:"limit_what"`
	} `json:"metadata"`
}

// chatStream is what a stream came to.
type chatStream struct {
	text, id string // of the content; the last event's position
	chunks   int
	finish   string
	usage    *schemas.ChatUsage
	fault    *chatFault
	done     int // how often it said so
}

// readChat reads a stream until it ends, or stop says so behind an event.
func readChat(tb testing.TB, body io.Reader, stop func(chatStream) bool) (s chatStream) {
	tb.Helper()
	scan := bufio.NewScanner(body)
	scan.Buffer(nil, 4<<20)
	for scan.Scan() {
		name, value, _ := strings.Cut(scan.Text(), ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case name == "id":
			s.id = value
		case name == "" && stop != nil && stop(s):
			return s
		case name != "data":
		case value == "[DONE]":
			s.done++
		default:
			s.add(tb, value)
		}
	}
	return s
}

func (s *chatStream) add(tb testing.TB, data string) {
	tb.Helper()
	var c chatChunk
	require.NoError(tb, json.Unmarshal([]byte(data), &c), data)
	s.chunks++
	for _, choice := range c.Choices {
		s.text += choice.Delta.Content
		if choice.Finish != "" {
			s.finish = choice.Finish
		}
	}
	if c.Usage != nil {
		s.usage = c.Usage
	}
	if c.Error != nil {
		s.fault = c.Error
	}
}

// openChat begins a stream. Its body is closed with the test.
func openChat(ctx context.Context, tb testing.TB, base, body string, header ...string) *http.Response {
	tb.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+schemas.RouteChat, strings.NewReader(body))
	require.NoError(tb, err)
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	require.NoError(tb, err)
	tb.Cleanup(func() { _ = resp.Body.Close() })
	return resp
}

// settledChat waits until a completion has ended and returns its end.
func settledChat(t *testing.T, w *weir, id string) (schemas.Settled, []schemas.Event) {
	t.Helper()
	events := allEvents(t, w, id)
	last := events[len(events)-1]
	require.Equal(t, schemas.EventSettled, last.Type)
	return *last.Settled, events
}

const needsNPM = "this test asks with an npm package that is not installed: run `make clients`"

// npm runs the openai package and returns the lines that it printed.
func npm(t *testing.T, base string, asked any) []npmLine {
	t.Helper()
	program.Needs(t, filepath.Join("clients", "node_modules", "openai"), needsNPM)
	text, err := json.Marshal(asked)
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), "node", "chat.mjs", base, string(text))
	cmd.Dir, cmd.Stderr = "clients", os.Stderr
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
		ID      string `json:"id"`
		Choices []struct {
			Message struct {
				Content   string `json:"content"`
				ToolCalls []struct {
					ID       string `json:"id"`
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
