package schemas

import "encoding/json"

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
