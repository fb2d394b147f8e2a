package schemas

import "encoding/json"

// ChatBases are the accepted prefixes of RouteModels and of the dialects' routes: clients are
// configured with base URLs that end in any of them.
func ChatBases() []string { return []string{"", "/v1", RouteAPI, RouteAPI + "/v1"} }

// ChatRefusal is the body of every answer of the chat surface that is no success.
type ChatRefusal struct {
	Error ChatRefused `json:"error"`
}

// ChatRefused is an error in the form of the chat completions protocol. In a started stream it is
// in the last chunk.
type ChatRefused struct {
	Message string `json:"message"`
	// Type is the class of the error, such as invalid_request_error or rate_limit_error.
	Type string `json:"type"`
	// Param is the member of the request that is wrong, such as messages[0].role; null where
	// the error is about none.
	Param *string `json:"param" jsonschema:"nullable"`
	// Code is the protocol's code, such as rate_limit_exceeded or model_not_found. Clients
	// read a text only, and decide by it whether to retry.
	Code string `json:"code"`
	// Metadata is an object: status is the HTTP status, code Weir's code, request_id the id
	// of the request. The rest depends on the error.
	Metadata json.RawMessage `json:"metadata" jsonschema:"type=object"`
}

// ChatRequest is the body of POST /chat/completions as far as Weir reads it. Further
// members of the protocol and those that the model's upstream passes go on as they are;
// others are refused.
type ChatRequest struct {
	// Model is the name of a model, see GET /models.
	Model string `json:"model" jsonschema:"minLength=1,maxLength=256"`
	// Models are further ones that are asked in their order where it cannot answer.
	Models []string `json:"models,omitempty" jsonschema:"maxItems=8"`
	// Messages are the conversation.
	Messages []ChatMessage `json:"messages" jsonschema:"minItems=1"`
	// Stream asks for the answer as it comes.
	Stream        bool               `json:"stream,omitempty"`
	StreamOptions *ChatStreamOptions `json:"stream_options,omitempty"`
	// N is how many answers are wanted; default 1.
	N int64 `json:"n,omitempty" jsonschema:"minimum=1"`
	// MaxTokens and MaxCompletionTokens bound each answer; of both the larger one is
	// what is held of a budget.
	MaxTokens           int64 `json:"max_tokens,omitempty" jsonschema:"minimum=1"`
	MaxCompletionTokens int64 `json:"max_completion_tokens,omitempty" jsonschema:"minimum=1"`
}

// ChatMessage is one message of a conversation. Its content is the model's to read.
type ChatMessage struct {
	// Role is who speaks, such as user.
	Role string `json:"role" jsonschema:"minLength=1"`
}

// ChatStreamOptions are the options of a stream.
type ChatStreamOptions struct {
	// IncludeUsage asks for a last chunk that tells what was used.
	IncludeUsage bool `json:"include_usage,omitempty"`
}

// ChatCompletion is a whole answer as far as Weir promises it. The rest of it is the model's
// provider's.
type ChatCompletion struct {
	// ID is the provider's, or where it has none the action's.
	ID      string       `json:"id"`
	Object  string       `json:"object" jsonschema:"enum=chat.completion"`
	Created int64        `json:"created,omitempty"`
	Model   string       `json:"model,omitempty"`
	Choices []ChatChoice `json:"choices"`
	// Usage is what was used by the provider's word.
	Usage json.RawMessage `json:"usage,omitempty" jsonschema:"type=object"`
}

// ChatChoice is one answer.
type ChatChoice struct {
	Index        int             `json:"index"`
	Message      json.RawMessage `json:"message" jsonschema:"type=object"`
	FinishReason string          `json:"finish_reason,omitempty"`
}
