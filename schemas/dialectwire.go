package schemas

import "encoding/json"

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
	case 503:
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
