package schemas

import (
	"encoding/json"
	"strings"
)

// The routes of the chat surface, each also under /v1, RouteAPI and both together.
const (
	RouteChat   = "/chat/completions"
	RouteModels = "/models"
)

// The headers of the chat surface.
const (
	// HeaderGeneration names the action behind a completion in its answer.
	HeaderGeneration = "X-Generation-Id"
	// HeaderOnDisconnect selects whether a completion continues after its client leaves:
	// DisconnectCancel stops it; without the header it continues.
	HeaderOnDisconnect = "X-Weir-On-Disconnect"
	DisconnectCancel   = "cancel"
	DisconnectContinue = "continue"
)

// ChatCanceled is the status of a completion that was canceled. The protocol's clients
// send what was answered with 408 or 409 again by themselves, and this not.
const ChatCanceled = 499

// ChatReason is the finish reason of a choice, in a form without content: a value of the protocol,
// or "other". Providers may send any text.
func ChatReason(word string) string {
	switch word {
	case "stop", "length", "tool_calls", "content_filter", "function_call", "error":
		return word
	default:
		return "other"
	}
}

// ChatModel is the model that an answer names, in a form without content: the requested one,
// possibly with a version after it; otherwise empty.
func ChatModel(sent, told string) string {
	told = told[strings.LastIndexByte(told, '/')+1:]
	version, same := strings.CutPrefix(told, sent[strings.LastIndexByte(sent, '/')+1:])
	if !same || len(version) > len("-2006-01-02.150405") || strings.Trim(version, "0123456789-.:@") != "" || !ValidModel(told) {
		return ""
	}
	return told
}

// ChatOrder is the payload of kind chat.
type ChatOrder struct {
	// Dialect is the protocol of the request; empty: DialectChat.
	Dialect Dialect `json:"dialect,omitempty"`
	// Headers are the caller's headers for the upstream, such as anthropic-version.
	Headers []Header `json:"headers,omitempty"`
	// Previous is the action whose answer the request continues, for previous_response_id of
	// DialectResponses. PreviousID is the provider's own id of that answer, and PreviousUpstream the
	// upstream that made it: no other knows it. PreviousBy is the principal that may continue it; a
	// redrive of the order may be another's.
	Previous         string `json:"previous,omitempty"`
	PreviousID       string `json:"previous_id,omitempty"`
	PreviousUpstream string `json:"previous_upstream,omitempty"`
	PreviousBy       string `json:"previous_by,omitempty"`
	// Background: the caller reads the answer later, by its id.
	Background bool `json:"background,omitempty"`
	// Model is the model as it was asked for, and Models are further ones, in their
	// order, that are asked where it cannot answer. Neither is an address.
	Model  string   `json:"model"`
	Models []string `json:"models,omitempty"`
	// Body is the request as it came, but for models.
	Body json.RawMessage `json:"body"`
	// Further are the members in it, and the types of tools, that only upstreams get
	// which pass them all.
	Further []string `json:"further,omitempty"`
	// Stream: the caller reads the answer as it comes. Usage: it wants to read what
	// was used at the end of that.
	Stream bool `json:"stream,omitempty"`
	Usage  bool `json:"usage,omitempty"`
	// TaskID is the task whose token asked; empty: none.
	TaskID string `json:"task_id,omitempty"`
	// Budget is what that task may use of models in all; nil: as much as it likes.
	Budget *TaskBudget `json:"budget,omitempty"`
	// Subtokens are the budgets of the subtoken that asked, and of those that it was made from.
	Subtokens []SubtokenBudget `json:"subtoken_budgets,omitempty"`
	// Prompt is how many tokens the text of the request may have at most, by its bytes.
	// Images is how many images there are with it, and Media how many tokens its other
	// files count. Output is how many the answer may have in all its choices by the
	// request's own word; 0: it does not say. Choices is how many answers it asks for, at
	// least 1.
	Prompt  int64 `json:"prompt"`
	Images  int64 `json:"images,omitempty"`
	Media   int64 `json:"media,omitempty"`
	Output  int64 `json:"output,omitempty"`
	Choices int64 `json:"choices"`
}

// ChatDelta is the data of a delta event of kind chat: chunks of the answer, in
// order, as the caller reads them. Under load there are several, and neighbours that
// differ in nothing but their text are one.
type ChatDelta struct {
	Chunks []json.RawMessage `json:"chunks"`
}

// ChatUsage is what a completion has used.
type ChatUsage struct {
	Prompt     int64 `json:"prompt_tokens"`
	Completion int64 `json:"completion_tokens"`
	Total      int64 `json:"total_tokens"`
	// Cached are the prompt tokens from the provider's cache, and Reasoning the hidden completion
	// tokens.
	Cached    int64 `json:"cached_tokens,omitempty"`
	Reasoning int64 `json:"reasoning_tokens,omitempty"`
	// CacheWrites are the prompt tokens that the provider stored in its cache.
	CacheWrites int64 `json:"cache_write_tokens,omitempty"`
	// Estimated: the provider did not tell, and Weir counted what it saw.
	Estimated bool `json:"estimated,omitempty"`
	// Nanos is what it cost by the price of the configuration, in billionths of a US
	// dollar, and Priced whether there is one.
	Nanos  int64 `json:"cost_nanousd,omitempty"`
	Priced bool  `json:"priced,omitempty"`
}

// GenAI are the tokens by the names of OpenTelemetry's conventions for generative AI. Input tokens
// include the provider's cached tokens, and output tokens the hidden ones.
func (u ChatUsage) GenAI() map[string]int64 {
	m := map[string]int64{"gen_ai.usage.input_tokens": u.Prompt, "gen_ai.usage.output_tokens": u.Completion}
	for name, n := range map[string]int64{
		"gen_ai.usage.cache_read.input_tokens": u.Cached, "gen_ai.usage.cache_creation.input_tokens": u.CacheWrites,
		"gen_ai.usage.reasoning.output_tokens": u.Reasoning,
	} {
		if n > 0 {
			m[name] = n
		}
	}
	return m
}

// ChatResult is the result document of kind chat, for every outcome.
type ChatResult struct {
	// Completion is the whole answer, a document of the request's dialect; for a broken answer, the
	// received part. Absent: nothing was received.
	Completion json.RawMessage `json:"completion,omitempty"`
	// Dialect is the order's dialect.
	Dialect Dialect `json:"dialect,omitempty"`
	// ProviderID is the provider's own id of a response, see ResponseID.
	ProviderID string `json:"provider_id,omitempty"`
	// Partial: it broke off.
	Partial bool `json:"partial,omitempty"`
	// Model is the configured model that answered, Sent the name that its provider
	// knows it by, and Upstream the entry that the call went by.
	Model    string `json:"model,omitempty"`
	Sent     string `json:"sent,omitempty"`
	Upstream string `json:"upstream,omitempty"`
	// Usage is that of all calls together.
	Usage *ChatUsage `json:"usage,omitempty"`
	// FirstMS is the time from the last call to the first of its answer, in milliseconds.
	FirstMS float64    `json:"first_ms,omitempty"`
	Error   *ChatError `json:"error,omitempty"`
}

// ChatError says why a completion failed, in the words of its protocol.
type ChatError struct {
	// Status is the HTTP status, and the code of the error.
	Status  int    `json:"status"`
	Message string `json:"message"`
	// Metadata is an object of further words; Weir's own word for the error is added to
	// it as code.
	Metadata json.RawMessage `json:"metadata,omitempty"`
	// RetryAfterMS is the wait before another request; 0: unknown.
	RetryAfterMS int64 `json:"retry_after_ms,omitempty"`
	// Limits are what its budgets leave, where one refused it.
	Limits []ChatLimit `json:"limits,omitempty"`
}

// ChatLimit is what one budget leaves of one thing, as the x-ratelimit headers tell it.
type ChatLimit struct {
	Source string `json:"source"` // the budget's name
	What   string `json:"what"`   // BudgetRequests, BudgetTokens or BudgetUSD
	// Limit and Remaining count requests, tokens or billionths of a US dollar.
	Limit     int64 `json:"limit"`
	Remaining int64 `json:"remaining"`
	// ResetMS is when the window ends, from now; 0: there is none.
	ResetMS int64 `json:"reset_ms,omitempty"`
}

// ChatAudit is the payload of the evidence of kind chat.completion: one call of a
// model, or with attempt 0 the refusal of a whole completion. It holds no content.
type ChatAudit struct {
	Asked   string  `json:"model_asked"`
	Dialect Dialect `json:"dialect,omitempty"`
	Model   string  `json:"model,omitempty"`
	// Sent is the model's name at its provider.
	Sent     string `json:"model_sent,omitempty"`
	Upstream string `json:"upstream,omitempty"`
	TaskID   string `json:"task_id,omitempty"`
	Attempt  int    `json:"attempt"`
	Stream   bool   `json:"stream"`
	Status   int    `json:"status,omitempty"`
	// SentOut is false only where provably nothing was sent.
	SentOut bool `json:"sent"`
	// Finish are the reasons for which the choices ended.
	Finish []string   `json:"finish_reasons,omitempty"`
	Usage  *ChatUsage `json:"usage,omitempty"`
	// FirstMS is how long it took until the first of the answer, and DurationMS in all.
	FirstMS    int64 `json:"first_ms,omitempty"`
	DurationMS int64 `json:"duration_ms"`
	// RequestHash and ResponseHash are keyed: they tell two contents apart, and nothing
	// of either.
	RequestHash  string `json:"request_hmac_sha256,omitempty"`
	ResponseHash string `json:"response_hmac_sha256,omitempty"`
	// LimitSource is the budget that refused it, or cut it off.
	LimitSource string `json:"limit_source,omitempty"`
	// GenAI are the attributes of OpenTelemetry's conventions for it.
	GenAI map[string]any `json:"gen_ai,omitempty"`
}

// ChatPosition is the position of a completion's reader: after the first Chunk chunks of the event at
// Seq, or after all of it if Chunk is 0. The zero place is the beginning.
type ChatPosition struct {
	Seq   uint64
	Chunk int
}
