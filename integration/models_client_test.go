//go:build e2e

package integration_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"weir/internal/weirtest/fixture"
	"weir/internal/weirtest/llm"
	"weir/internal/weirtest/program"
	"weir/schemas"
)

// The clients of models in clients/models.mjs.
var openAIClients = []string{"openai", "openai7"}

const (
	anthropicClient = "anthropic"
	chatClient      = "chat"
)

const providerText = "Hello, world. It is said in pieces."

var providerTexts = []string{"Hello, ", "world. ", "It is said ", "in pieces."}

// providerConfig is a configuration whose models are all the provider's, with budgets that show
// how often each dialect is charged.
func providerConfig(t *testing.T, p *llm.Server, more string) string {
	t.Helper()
	return configFile(t, fmt.Sprintf(`models:
  "sim/*": {url: %q, headers: {Authorization: "Bearer ${secret:PROVIDER}"}, price: {input: 1, output: 2}, max_output: 1000}
budgets:
  each: {per: [model], models: ["sim/*"], requests: 1000}
  poor: {per: [model], models: [sim/poor], usd: 0.000001}
%s`, p.URL(), more))
}

// providerKey is the credential of the providers here: nobody else may ever see it.
const providerKey = "AGWCANARY-provider-key-2f61"

const needsNPM = "this test asks with an npm package that is not installed: run `make clients`"

// serveChat starts the program with the secret of the provider.
func serveChat(tb testing.TB, config string) *weir {
	tb.Helper()
	return serveWith(tb, []string{"WEIR_SECRET_PROVIDER=" + providerKey}, tb.TempDir(), "--config", config)
}

// newProvider is a provider that says providerText, but for the models with acts of their own.
func newProvider(t *testing.T, own map[string]llm.Act) *llm.Server {
	t.Helper()
	return llm.New(t, llm.Config{Key: providerKey, Models: own, Listed: []string{"sim/one"}, Default: llm.Act{Texts: providerTexts}})
}

// askedOf are the requests that a provider has received at a path; "" are all.
func askedOf(p *llm.Server, path string) []*llm.Request {
	return slices.DeleteFunc(p.Ledger(), func(r *llm.Request) bool { return path != "" && r.Path != path })
}

// modelOrder is what clients/models.mjs does.
type modelOrder struct {
	Client  string            `json:"client"`
	Base    string            `json:"base"`
	Key     string            `json:"key,omitempty"`
	Op      string            `json:"op"`
	Body    map[string]any    `json:"body,omitempty"`
	Headers map[string]string `json:"headers,omitempty"`
	Cut     bool              `json:"cut,omitempty"`
	ID      string            `json:"id,omitempty"`
	After   int               `json:"after"`
}

// request is what its client asks a model, and base where that client finds Weir.
func (o modelOrder) asking(w *weir, model string, more map[string]any) modelOrder {
	o.Base = w.URL + "/v1"
	o.Body = map[string]any{"model": model, "input": "Say it."}
	if o.Client == anthropicClient || o.Client == chatClient {
		o.Body = map[string]any{"model": model, "messages": []any{map[string]any{"role": "user", "content": "Say it."}}}
	}
	if o.Client == anthropicClient {
		o.Base = w.URL // the package adds /v1
		if o.Op != "count" {
			o.Body["max_tokens"] = 100
		}
	}
	maps.Copy(o.Body, more)
	return o
}

// modelAnswer is the line that clients/models.mjs prints of an order.
type modelAnswer struct {
	events    []string
	frames    []string
	final     gjson.Result
	requestID string
	failure   *modelFailure
}

// modelFailure is what a package throws.
type modelFailure struct {
	Name      string `json:"name"`
	Kind      string `json:"kind"`
	Status    int    `json:"status"`
	Code      string `json:"code"`
	Type      string `json:"type"`
	Message   string `json:"message"`
	RequestID string `json:"requestID"`
}

// callModels runs packages, one order after the other, and returns what each printed.
func callModels(t *testing.T, orders ...modelOrder) (all []modelAnswer) {
	t.Helper()
	program.Needs(t, filepath.Join("clients", "node_modules", "openai7"), needsNPM)
	text, err := json.Marshal(orders)
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), "node", "models.mjs", string(text))
	cmd.Dir, cmd.Stderr = "clients", t.Output()
	out, err := cmd.Output()
	require.NoError(t, err)
	for line := range strings.Lines(string(out)) {
		said := gjson.Parse(line)
		a := modelAnswer{final: said.Get("final"), requestID: said.Get("requestID").Str}
		for _, e := range said.Get("events").Array() {
			a.events = append(a.events, e.Raw)
		}
		for _, f := range said.Get("frames").Array() {
			a.frames = append(a.frames, f.Str)
		}
		if e := said.Get("error"); e.Exists() {
			failure := fixture.Decode[modelFailure](t, e.Raw)
			a.failure = &failure
		}
		all = append(all, a)
	}
	require.Len(t, all, len(orders))
	return all
}

// callModel is callModels for one order, in which the package throws nothing.
func callModel(t *testing.T, o modelOrder) modelAnswer {
	t.Helper()
	a := callModels(t, o)[0]
	require.Nil(t, a.failure)
	return a
}

// charged is how many requests the budget of a model has counted.
func charged(t *testing.T, w *weir, model string) float64 {
	t.Helper()
	for _, b := range program.Items[schemas.BudgetView](t, w.Client, schemas.RouteBudgets) {
		if b.Budget == "each" && b.Model == model {
			assert.Zero(t, b.Open)
			return b.Requests.Used
		}
	}
	return 0
}

// TestModelClients uses the packages of both providers for whole answers, embeddings, counts, lists
// and responses in the background.
func TestModelClients(t *testing.T) {
	t.Parallel()
	p := newProvider(t, nil)
	w := serveChat(t, providerConfig(t, p, ""))
	for _, client := range openAIClients {
		t.Run(client, func(t *testing.T) {
			t.Parallel()
			model := "sim/" + client
			got := callModel(t, modelOrder{Client: client, Op: "create"}.asking(w, model, nil))
			require.Equal(t, providerText, got.final.Get("output_text").Str)
			require.Equal(t, "completed", got.final.Get("status").Str)
			id := got.final.Get("id").Str
			require.Regexp(t, "^resp_", id)
			require.NotEqual(t, "resp_theirs", id)
			require.NotEmpty(t, got.requestID)

			got = callModel(t, modelOrder{Client: client, Op: "create"}.asking(w, model, map[string]any{"previous_response_id": id}))
			require.Equal(t, id, got.final.Get("previous_response_id").Str)
			require.True(t, slices.ContainsFunc(askedOf(p, "/v1/responses"), func(r *llm.Request) bool {
				return gjson.GetBytes(r.Body, "previous_response_id").Str == "resp_theirs"
			}), "the upstream receives its own id")

			got = callModel(t, modelOrder{Client: client, Op: "create"}.asking(w, model, map[string]any{"background": true}))
			require.Contains(t, []string{"queued", "in_progress", "completed"}, got.final.Get("status").Str)
			id = got.final.Get("id").Str
			settled(t, w, strings.TrimPrefix(id, "resp_"))
			got = callModel(t, modelOrder{Client: client, Op: "retrieve", ID: id, Base: w.URL + "/v1"})
			require.Equal(t, []string{id, "completed", providerText}, []string{got.final.Get("id").Str, got.final.Get("status").Str, got.final.Get("output_text").Str})
			require.InEpsilon(t, 3, charged(t, w, model), 1e-9, "three requests")

			for _, format := range []string{"", "float"} { // the package asks for base64 and decodes it
				body := map[string]any{}
				if format != "" {
					body["encoding_format"] = format
				}
				got = callModel(t, modelOrder{Client: client, Op: "embeddings"}.asking(w, "sim/embed", body))
				require.JSONEq(t, `[0.5]`, got.final.Get("data.0.embedding").Raw, "%s", got.final)
			}
			got = callModel(t, modelOrder{Client: client, Op: "models", Base: w.URL + "/v1"})
			require.JSONEq(t, `["sim/one"]`, got.final.Raw)
		})
	}
	t.Run(anthropicClient, func(t *testing.T) {
		t.Parallel()
		got := callModel(t, modelOrder{Client: anthropicClient, Op: "create"}.asking(w, "sim/claude", nil))
		require.Equal(t, providerText, got.final.Get("content.0.text").Str)
		require.NotEmpty(t, got.requestID)
		got = callModel(t, modelOrder{Client: anthropicClient, Op: "count"}.asking(w, "sim/claude", nil))
		require.Equal(t, int64(9), got.final.Get("input_tokens").Int())
		require.InEpsilon(t, 1, charged(t, w, "sim/claude"), 1e-9, "a count costs nothing")
		got = callModel(t, modelOrder{Client: anthropicClient, Op: "models", Base: w.URL})
		require.JSONEq(t, `["sim/one"]`, got.final.Raw)
		for _, r := range askedOf(p, "/v1/messages") {
			require.Equal(t, "2026-10-21", r.Header.Get("Anthropic-Version"), "the version is the package's")
		}
	})
}

// TestChatClient asks with the npm package that most programs ask with, under every base that it may be
// given: for whole answers, for streams, with tools, and for the list of models.
func TestChatClient(t *testing.T) {
	t.Parallel()
	tools := llm.Act{Tools: []llm.Tool{{ID: "call-1", Name: "weather", Arguments: []string{`{"city":`, `"Oslo"}`}}}}
	provider := llm.New(t, llm.Config{Key: providerKey, Models: map[string]llm.Act{"sim/tools": tools}, Listed: []string{"sim/plain", "sim/tools"}})
	w := serveChat(t, providerConfig(t, provider, ""))
	parameters := map[string]any{"type": "object", "properties": map[string]any{"city": map[string]any{"type": "string"}}}
	withTools := map[string]any{"tools": []any{map[string]any{"type": "function", "function": map[string]any{"name": "weather", "parameters": parameters}}}}
	withUsage := map[string]any{"stream_options": map[string]any{"include_usage": true}}
	text := map[string]any{"choices.0.message.content": "Hello, world", "choices.0.finish_reason": "stop"}
	called := map[string]any{"choices.0.message.tool_calls.#": 1.0, "choices.0.message.tool_calls.0.function.name": "weather", "choices.0.message.tool_calls.0.function.arguments": `{"city":"Oslo"}`}
	var orders []modelOrder
	var wants []map[string]any
	add := func(base, op, model string, more, want map[string]any) {
		o := modelOrder{Client: chatClient, Op: op}.asking(w, model, more)
		o.Base = w.URL + base
		orders, wants = append(orders, o), append(wants, want)
	}
	for _, base := range []string{"", "/v1", "/api", "/api/v1", "/api/"} {
		add(base, "create", "sim/plain", nil, text)
	}
	add("/v1", "stream", "sim/plain", nil, text)
	add("/v1", "stream", "sim/plain", withUsage, text)
	add("/v1", "create", "sim/tools", withTools, called)
	add("/v1", "stream", "sim/tools", withTools, called)
	add("/v1", "models", "", nil, map[string]any{"@this": []any{"sim/plain", "sim/tools"}})
	for i, got := range callModels(t, orders...) {
		what := fmt.Sprintf("%s %s: %+v", orders[i].Op, orders[i].Base, got)
		require.Nil(t, got.failure, what)
		for path, want := range wants[i] {
			require.Equal(t, want, got.final.Get(path).Value(), "%s %s", path, what)
		}
		_, usage := orders[i].Body["stream_options"]
		for _, chunk := range got.events {
			require.True(t, usage || !gjson.Get(chunk, "usage").IsObject(), "nobody asked for it: %s", chunk)
		}
		require.Equal(t, orders[i].Op == "create" || usage, got.final.Get("usage.total_tokens").Int() > 0, what)
	}
}

// TestModelClientErrors compares the errors of Weir with the classes that the packages have for them.
func TestModelClientErrors(t *testing.T) {
	t.Parallel()
	p := newProvider(t, map[string]llm.Act{"sim/down": {Fault: llm.Status(http.StatusInternalServerError)}})
	w := serveChat(t, providerConfig(t, p, "  busy: {per: [model], models: [sim/busy], window: 8760h, requests: 1}\n"))
	require.Contains(t, w.Ask(t, http.MethodPost, "/v1/responses", `{"model":"sim/busy","input":"Say it."}`).Body, `"completed"`, "the first one has room")
	cases := []struct {
		name, model string
		more        map[string]any
		class       string // of both, but for 402
		status      int
		code, typ   string // of OpenAI, of Anthropic
	}{
		{"refused", "sim/plain", map[string]any{"api_base": "http://evil.test"}, "BadRequestError", http.StatusBadRequest, "validation_error", "invalid_request_error"},
		{"spent", "sim/poor", nil, "APIError", http.StatusPaymentRequired, "insufficient_quota", "billing_error"},
		{"unknown", "nobody/has-it", nil, "NotFoundError", http.StatusNotFound, "model_not_found", "not_found_error"},
		{"full", "sim/busy", nil, "RateLimitError", http.StatusTooManyRequests, "rate_limit_exceeded", "rate_limit_error"},
		{"provider", "sim/down", nil, "InternalServerError", http.StatusBadGateway, "model_failed", "api_error"},
	}
	for _, client := range append(slices.Clone(openAIClients), chatClient, anthropicClient) {
		t.Run(client, func(t *testing.T) {
			t.Parallel()
			var orders []modelOrder
			for _, c := range cases {
				for _, op := range []string{"create", "stream"} {
					orders = append(orders, modelOrder{Client: client, Op: op}.asking(w, c.model, c.more))
				}
			}
			for i, l := range callModels(t, orders...) {
				want, got := cases[i/2], l.failure
				require.NotNil(t, got, want.name)
				what := fmt.Sprintf("%s, %s: %+v", want.name, orders[i].Op, got)
				require.Equal(t, want.status, got.Status, what)
				require.NotEmpty(t, got.Message)
				if client != anthropicClient {
					require.Equal(t, []string{want.class, want.code}, []string{got.Name, got.Code}, what)
					continue
				}
				if want.status == http.StatusPaymentRequired {
					want.class = "PaymentRequiredError"
				}
				require.Equal(t, []string{want.class, want.typ}, []string{got.Kind, got.Type}, what)
				require.NotEmpty(t, got.RequestID, what)
			}
		})
	}
}

// TestModelStreamsCut cuts each stream after each event and resumes it. The client receives the
// frames of an uncut stream, byte for byte, and the budget is charged once.
func TestModelStreamsCut(t *testing.T) {
	t.Parallel()
	p := newProvider(t, nil)
	w := serveChat(t, providerConfig(t, p, ""))
	for _, client := range append(slices.Clone(openAIClients), anthropicClient) {
		t.Run(client, func(t *testing.T) {
			t.Parallel()
			model := "sim/" + client
			order := modelOrder{Client: client, Op: "stream", Cut: true, Headers: map[string]string{"Idempotency-Key": client}}.asking(w, model, nil)
			cut := callModel(t, order)
			order.Cut = false
			whole := callModel(t, order)
			require.Equal(t, whole.frames, cut.frames)
			require.Equal(t, whole.events, cut.events)
			require.JSONEq(t, whole.final.Raw, cut.final.Raw)
			require.InEpsilon(t, 1, charged(t, w, model), 1e-9)
			requireProviders(t, client, whole.frames)
			if client == anthropicClient {
				require.Equal(t, providerText, whole.final.Get("content.0.text").Str)
				return
			}
			require.Equal(t, providerText, whole.final.Get("output_text").Str)

			t.Log("the protocol's own resume: the response's id, and the number of the last event")
			order.Op, order.Headers = "cuts", map[string]string{"Idempotency-Key": client + "-2"}
			own := callModel(t, order)
			require.Len(t, own.events, len(whole.events))
			order.Op, order.ID, order.After = "resume", gjson.Get(own.events[0], "response.id").Str, -1
			again := callModel(t, order)
			require.Equal(t, again.events, own.events)
			require.InEpsilon(t, 2, charged(t, w, model), 1e-9)
		})
	}
}

// requireProviders compares the frames of a stream with the events of the provider: they are the same
// but for the id of a response, and pings.
func requireProviders(t *testing.T, client string, frames []string) {
	t.Helper()
	d := schemas.DialectResponses
	if client == anthropicClient {
		d = schemas.DialectMessages
	}
	said := llm.Say(d, providerTexts...)
	var want, got []string
	for _, e := range slices.Concat(said.Begin, said.Pieces, said.End) {
		want = append(want, fmt.Sprintf("event: %s\ndata: %s", gjson.Get(e, "type").Str, e))
	}
	for _, f := range frames {
		var lines []string
		for line := range strings.SplitSeq(strings.TrimSpace(f), "\n") {
			if !strings.HasPrefix(line, "id: ") {
				lines = append(lines, line)
			}
		}
		text := strings.Join(lines, "\n")
		_, data, _ := strings.Cut(text, "\ndata: ")
		if id := gjson.Get(data, "response.id").Str; id != "" {
			text = strings.ReplaceAll(text, id, "resp_theirs")
		}
		got = append(got, text)
	}
	require.Equal(t, want, got)
}
