package schemas

import "encoding/json"

// Primitive is the only type of primitive that is served.
const Primitive = "Http"

// ExecuteRequest is the body of POST /v1/execute as a primitive. The bare form
// is ExecuteArgs, with request_id beside the arguments. In either, null stands
// for an optional member that is left out.
type ExecuteRequest struct {
	// Type names the primitive. Only Http is served.
	Type string      `json:"type" jsonschema:"enum=Http"`
	Args ExecuteArgs `json:"args"`
	// Postcondition is what must be true of the answer: a list of assertions, an
	// object with assertions, or a single assertion of the type http_status,
	// json_path or dom_contains.
	Postcondition json.RawMessage `json:"postcondition,omitempty"`
	// IdempotencyKey goes out as the Idempotency-Key header. An entry that says
	// that its target honours it makes POST and PATCH safe to retry.
	IdempotencyKey string `json:"idempotency_key,omitempty" jsonschema:"minLength=1,maxLength=255"`
	RequestID
}

// ExecuteBare is the body of POST /v1/execute as bare arguments.
type ExecuteBare struct {
	ExecuteArgs
	RequestID
}

// ExecuteArgs is one HTTP request to make.
type ExecuteArgs struct {
	// Method is GET, POST, PUT, PATCH, DELETE, HEAD or OPTIONS, in any case.
	Method string `json:"method" jsonschema:"pattern=^[A-Za-z]+$"`
	// URL is absolute. Policy decides whether it may be called.
	URL     string            `json:"url" jsonschema:"maxLength=8192"`
	Headers map[string]string `json:"headers,omitempty"`
	// Body is the JSON value to send, byte for byte. Of body, body_text, body_base64 and form, at most
	// one is given. A Content-Type in headers replaces the default of text and bytes.
	Body json.RawMessage `json:"body,omitempty"`
	// BodyText is a text to send as UTF-8, by default as text/plain.
	BodyText json.RawMessage `json:"body_text,omitempty" jsonschema:"type=string"`
	// BodyBase64 is bytes to send, in standard base64 with padding, by default as
	// application/octet-stream.
	BodyBase64 json.RawMessage `json:"body_base64,omitempty" jsonschema:"type=string"`
	// Form is names and values to send as application/x-www-form-urlencoded, in their order. A value is
	// a string, a number, a boolean, a part or a list of these. A part is an object with text or base64,
	// and maybe filename and content_type; one part makes the whole multipart/form-data.
	Form json.RawMessage `json:"form,omitempty" jsonschema:"type=object"`
	// ResponseSchema is a JSON Schema of draft 2020-12 for the answer's body. It
	// may refer to nothing outside of itself; its patterns are RE2.
	ResponseSchema json.RawMessage `json:"response_schema,omitempty"`
	// TimeoutMS bounds one attempt, in milliseconds.
	TimeoutMS int64 `json:"timeout_ms,omitempty" jsonschema:"minimum=1"`
	// AllowlistKey names the one entry of the policy that is to decide.
	AllowlistKey string `json:"allowlist_key,omitempty" jsonschema:"minLength=1"`
}

// RequestID is the caller's own id for an action. The same id with the same
// body joins the action that exists; with another body it is a conflict.
type RequestID struct {
	// RequestID becomes the action's id.
	RequestID string `json:"request_id,omitempty" jsonschema:"pattern=^[A-Za-z0-9._:-]{1\\,128}$"`
}

// ExecuteOutcome answers a call that succeeded.
type ExecuteOutcome struct {
	Status int `json:"status"`
	// Headers are sorted by name; the values of sensitive ones are REDACTED.
	Headers []Header `json:"headers"`
	// Body is the JSON of the answer, a string with its text or with its bytes in base64, or null.
	Body json.RawMessage `json:"body"`
	// BodyEncoding is base64 where body is a string of standard base64: the answer is neither JSON
	// nor UTF-8 text by its media type.
	BodyEncoding string `json:"body_encoding,omitempty" jsonschema:"enum=base64"`
	// BodySize is the number of bytes of a body that was stored while it arrived. Body is null then;
	// GET /v1/actions/{id}/response returns it.
	BodySize      int64   `json:"body_size,omitempty"`
	Postcondition *Report `json:"postcondition,omitempty"`
	// Reconciled: the call was applied, but its own answer was lost. Status, headers and body come
	// from the probe that its entry names; response_schema and postcondition were not evaluated.
	Reconciled bool `json:"reconciled,omitempty"`
	// Warnings are the violations of the entry's response schema, if that only warns.
	Warnings []string `json:"warnings,omitempty"`
}

// Report is how the assertions of a postcondition came out. No string of the
// answer, or of what was expected, shows in it.
type Report struct {
	Passed     bool              `json:"passed"`
	Assertions []AssertionResult `json:"assertions"`
	// Metadata is the member next to the assertions, as received.
	Metadata json.RawMessage `json:"metadata,omitempty"`
}

// AssertionResult is one line of a Report. What follows status depends on it.
type AssertionResult struct {
	Kind     string          `json:"kind" jsonschema:"enum=http_status,enum=json_path_equals,enum=dom_contains"`
	Status   string          `json:"status" jsonschema:"enum=passed,enum=failed"`
	Detail   json.RawMessage `json:"detail,omitempty"`
	Code     string          `json:"code,omitempty" jsonschema:"enum=http_status_mismatch,enum=json_path_missing,enum=json_path_predicate_failed,enum=dom_text_missing"`
	Message  string          `json:"message,omitempty"`
	Expected json.RawMessage `json:"expected,omitempty"`
	Observed json.RawMessage `json:"observed,omitempty"`
}

// ExecuteError answers a call that did not succeed, or could not be accepted.
type ExecuteError struct {
	Error ExecuteFault `json:"error"`
}

// ExecuteFault says what went wrong. The members after request_id are those of
// its variant.
type ExecuteFault struct {
	Variant   Variant `json:"variant"`
	Message   string  `json:"message"`
	Code      Code    `json:"code,omitempty"`
	Retryable bool    `json:"retryable"`
	RequestID string  `json:"request_id,omitempty"`

	// Rule and Reason are set for DisallowedHost: the entry, and what it refuses.
	Rule   string `json:"rule,omitempty"`
	Reason string `json:"reason,omitempty"`
	// Status, Headers, Body, BodyEncoding and BodySize are the target's answer, for HttpFailure; and its
	// last answer, if one came, for RetriesExhausted, SchemaValidationFailed, PostconditionFailed
	// and Request.
	Status       int             `json:"status,omitempty"`
	Headers      []Header        `json:"headers,omitempty"`
	Body         json.RawMessage `json:"body,omitempty"`
	BodyEncoding string          `json:"body_encoding,omitempty" jsonschema:"enum=base64"`
	BodySize     int64           `json:"body_size,omitempty"`
	// Attempts, History and LastError are set for RetriesExhausted.
	Attempts  int           `json:"attempts,omitempty"`
	History   []RetryRecord `json:"history,omitempty"`
	LastError string        `json:"last_error,omitempty"`
	// Report is set for PostconditionFailed.
	Report *Report `json:"report,omitempty"`
	// ActionURL and ResolveURL are set for OutcomeUnknown: where to look up the action, and where a
	// person resolves it.
	ActionURL  string `json:"action_url,omitempty"`
	ResolveURL string `json:"resolve_url,omitempty"`
	// Resolution is the person's word, once there is one.
	Resolution *Resolution `json:"resolution,omitempty"`
}

// Variant names an error of the executor.
type Variant string

// Variants lists every variant.
func Variants() []Variant {
	return []Variant{
		VariantUnsupportedPrimitive, VariantMissingArgument, VariantInvalidArgumentValue, VariantInvalidMethod,
		VariantInvalidURL, VariantInvalidHeaderName, VariantInvalidHeaderValue, VariantDisallowedHost, VariantRequest,
		VariantInvalidSchema, VariantSchemaValidationFailed, VariantHTTPFailure, VariantRetriesExhausted,
		VariantInvalidPostcondition, VariantUnsupportedPostcondition, VariantPostconditionFailed,
		VariantOutcomeUnknown, VariantCanceled, VariantExpired,
	}
}

// MaxBatch is the number of requests that a batch may have.
const MaxBatch = 1000

// MediaNDJSON is the media type of an answer to a batch with one line for each item.
const MediaNDJSON = "application/x-ndjson"

// BatchAnswer is the answer to a batch.
type BatchAnswer struct {
	// Items are in the order of the requests.
	Items []BatchItem `json:"items"`
}

// BatchItem is the answer to one request of a batch, as POST /v1/execute would have given it: its
// status, and one of result, error and receipt.
type BatchItem struct {
	// Index is the position of the request in the batch, from 0.
	Index int `json:"index"`
	// ActionID is absent if nothing was stored.
	ActionID string `json:"action_id,omitempty"`
	// Status is the status of this answer, and not of the target's: 202 comes with a receipt.
	Status int `json:"status"`
	// Replayed: an earlier batch with the same Idempotency-Key made the action.
	Replayed bool            `json:"replayed,omitempty"`
	Result   *ExecuteOutcome `json:"result,omitempty"`
	Error    *ExecuteFault   `json:"error,omitempty"`
	Receipt  *Receipt        `json:"receipt,omitempty"`
	// RetryAfter is after how many seconds a repeat of a refused request may succeed.
	RetryAfter int `json:"retry_after,omitempty"`
}
