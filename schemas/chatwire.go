package schemas

import "encoding/json"

// ChatBases are the accepted prefixes of RouteModels and of the dialects' routes: clients are
// configured with base URLs that end in any of them.
func ChatBases() []string { return []string{"", "/v1", RouteAPI, RouteAPI + "/v1"} }

// ChatRefusal is the body of every answer of the chat surface that is no success.
type ChatRefusal struct {
	Error ChatRefused `json:"error"`
}

// ChatRefused is an error in the form of the chat completions protocol. In a started stream the data
// of the last event but [DONE] is a ChatRefusal.
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

// MessagesRefusal is the body of every answer of POST /messages and POST /messages/count_tokens that is no
// success, and the data of the event error in a stream.
type MessagesRefusal struct {
	Type  string          `json:"type" jsonschema:"enum=error"`
	Error MessagesRefused `json:"error"`
	// RequestID is the id of the request; absent in a stream.
	RequestID string `json:"request_id,omitempty"`
}

// MessagesRefused is an error in the form of the Messages protocol.
type MessagesRefused struct {
	// Type is the class of the error. Clients decide by it and by the status whether to retry.
	Type    string `json:"type"`
	Message string `json:"message"`
	// Metadata is an object: status is the HTTP status, code Weir's code. The rest depends on the
	// error.
	Metadata json.RawMessage `json:"metadata" jsonschema:"type=object"`
}

// MessagesErrors lists the classes of errors of the Messages protocol.
func MessagesErrors() []string {
	return []string{
		"invalid_request_error", "authentication_error", "billing_error", "permission_error", "not_found_error", "request_too_large",
		"rate_limit_error", "api_error", "overloaded_error", "timeout_error",
	}
}

// MessagesError is the class of an error with an HTTP status in the Messages protocol.
func MessagesError(status int) string {
	switch status {
	case 401:
		return "authentication_error"
	case 402:
		return "billing_error"
	case 403:
		return "permission_error"
	case 404:
		return "not_found_error"
	case 408, 504:
		return "timeout_error"
	case 413:
		return "request_too_large"
	case 429:
		return "rate_limit_error"
	case 503, 529:
		return "overloaded_error"
	}
	if status >= 500 {
		return "api_error"
	}
	return "invalid_request_error"
}

// ResponsesRequest is the body of POST /responses as far as Weir reads it. Further members of the protocol
// and those that the model's upstream passes are sent as they are; others are refused.
type ResponsesRequest struct {
	// Model is the name of a model, see GET /models.
	Model string `json:"model" jsonschema:"minLength=1,maxLength=256"`
	// Models are further ones that are asked in their order where it cannot answer.
	Models []string `json:"models,omitempty" jsonschema:"maxItems=8"`
	// Input is a text, or a list of messages, calls of tools and their results. It may be absent
	// where the request continues a response.
	Input json.RawMessage `json:"input,omitempty"`
	// PreviousResponseID is the id of a response that succeeded. The request continues it, at the
	// upstream that made it.
	PreviousResponseID string `json:"previous_response_id,omitempty"`
	// Background: the answer is the response as it is now. The caller reads it by its id later.
	Background bool `json:"background,omitempty"`
	// Stream asks for the answer as it comes.
	Stream bool `json:"stream,omitempty"`
	// MaxOutputTokens bounds the answer.
	MaxOutputTokens int64 `json:"max_output_tokens,omitempty" jsonschema:"minimum=1"`
}

// MessagesRequest is the body of POST /messages as far as Weir reads it. Further members of the protocol
// and those that the model's upstream passes are sent as they are; others are refused.
type MessagesRequest struct {
	// Model is the name of a model, see GET /models.
	Model string `json:"model" jsonschema:"minLength=1,maxLength=256"`
	// Models are further ones that are asked in their order where it cannot answer.
	Models []string `json:"models,omitempty" jsonschema:"maxItems=8"`
	// Messages are the conversation.
	Messages []ChatMessage `json:"messages" jsonschema:"minItems=1"`
	// MaxTokens bounds the answer. With 0 the request only fills the provider's cache.
	MaxTokens int64 `json:"max_tokens" jsonschema:"minimum=0"`
	// Stream asks for the answer as it comes.
	Stream bool `json:"stream,omitempty"`
}

// CountRequest is the body of POST /messages/count_tokens as far as Weir reads it.
type CountRequest struct {
	Model    string        `json:"model" jsonschema:"minLength=1,maxLength=256"`
	Models   []string      `json:"models,omitempty" jsonschema:"maxItems=8"`
	Messages []ChatMessage `json:"messages" jsonschema:"minItems=1"`
}

// EmbeddingsRequest is the body of POST /embeddings as far as Weir reads it. Further members of the protocol
// and those that the model's upstream passes are sent as they are; others are refused.
type EmbeddingsRequest struct {
	// Model is the name of a model, see GET /models.
	Model string `json:"model" jsonschema:"minLength=1,maxLength=256"`
	// Models are further ones that are asked in their order where it cannot answer.
	Models []string `json:"models,omitempty" jsonschema:"maxItems=8"`
	// Input is a text, or a list of texts or of tokens.
	Input json.RawMessage `json:"input"`
}

// The states of a Response.
const (
	ResponseQueued     = "queued"
	ResponseInProgress = "in_progress"
	ResponseFailed     = "failed"
	ResponseCancelled  = "cancelled"
)

// Response is a response that has not succeeded, as far as Weir promises it. One that has is the
// model's provider's, with the status completed or incomplete.
type Response struct {
	// ID is resp_ and the id of the action.
	ID        string `json:"id"`
	Object    string `json:"object" jsonschema:"enum=response"`
	CreatedAt int64  `json:"created_at"`
	Status    string `json:"status" jsonschema:"enum=queued,enum=in_progress,enum=completed,enum=incomplete,enum=failed,enum=cancelled"`
	// Background: the caller reads the response later, by its id.
	Background bool `json:"background"`
	// Error is why it failed; null where it did not.
	Error             *ResponseError  `json:"error" jsonschema:"nullable"`
	IncompleteDetails json.RawMessage `json:"incomplete_details" jsonschema:"nullable,type=object"`
	Model             string          `json:"model"`
	// Output are the items of the answer, as far as they arrived.
	Output json.RawMessage `json:"output" jsonschema:"type=array"`
	// PreviousResponseID is the response that this one continues; null: none.
	PreviousResponseID *string `json:"previous_response_id" jsonschema:"nullable"`
	// Usage is the provider's report; null before there is one.
	Usage json.RawMessage `json:"usage" jsonschema:"nullable,type=object"`
}

// ResponseError is why a response failed.
type ResponseError struct {
	// Code is as in the errors of completions.
	Code    string `json:"code"`
	Message string `json:"message"`
}
