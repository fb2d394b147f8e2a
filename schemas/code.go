package schemas

import "strings"

// Code is a reason in the closed vocabulary. It is the same in the
// answer, the evidence, the metric and the log.
type Code string

// Denied reports whether policy, a rule or a stop refused.
func (c Code) Denied() bool { return strings.HasPrefix(string(c), "DENY_") }

// What policy refuses.
const (
	DenyKeyUnknown Code = "DENY_KEY_UNKNOWN"
	DenyURLInvalid Code = "DENY_URL_INVALID"
	DenyScheme     Code = "DENY_SCHEME"
	DenyUserinfo   Code = "DENY_USERINFO"
	DenyHost       Code = "DENY_HOST"
	DenyPort       Code = "DENY_PORT"
	DenyMethod     Code = "DENY_METHOD"
	DenyPath       Code = "DENY_PATH"
	DenyHeader     Code = "DENY_HEADER"
	DenyBody       Code = "DENY_BODY"
	DenySchema     Code = "DENY_SCHEMA"
	DenyAddress    Code = "DENY_ADDRESS"
	DenyRedirect   Code = "DENY_REDIRECT"
	DenyRule       Code = "DENY_RULE"
	DenyApproval   Code = "DENY_APPROVAL"
	DenyBudget     Code = "DENY_BUDGET"
	DenyKilled     Code = "DENY_KILLED"
)

// What an upstream did.
const (
	UpstreamDNS             Code = "UPSTREAM_DNS"
	UpstreamConnect         Code = "UPSTREAM_CONNECT"
	UpstreamTLS             Code = "UPSTREAM_TLS"
	UpstreamTimeout         Code = "UPSTREAM_TIMEOUT"
	UpstreamReset           Code = "UPSTREAM_RESET"
	UpstreamProtocol        Code = "UPSTREAM_PROTOCOL"
	UpstreamTruncated       Code = "UPSTREAM_TRUNCATED"
	UpstreamTooLarge        Code = "UPSTREAM_TOO_LARGE"
	UpstreamHeadersTooLarge Code = "UPSTREAM_HEADERS_TOO_LARGE"
	UpstreamEncoding        Code = "UPSTREAM_ENCODING"
)

// Failures of a permitted action.
const (
	HTTPFailure           Code = "HTTP_FAILURE"
	RetriesExhausted      Code = "RETRIES_EXHAUSTED"
	ResponseNotJSON       Code = "RESPONSE_NOT_JSON"
	ResponseSchemaInvalid Code = "RESPONSE_SCHEMA_INVALID"
	PostconditionFailed   Code = "POSTCONDITION_FAILED"
	OutcomeUnknownCode    Code = "OUTCOME_UNKNOWN"
	Canceled              Code = "CANCELED"
	DeadlineExceeded      Code = "DEADLINE_EXCEEDED"
	Poison                Code = "POISON"             // the record cannot be understood
	Interrupted           Code = "INTERRUPTED"        // the node that made an attempt is gone
	SecretUnavailable     Code = "SECRET_UNAVAILABLE" // the entry's secret could not be read; nothing was sent
)

// Failures of a run.
const (
	AgentUnavailable Code = "AGENT_UNAVAILABLE" // the agent could not be asked; nothing was begun
	TaskFailed       Code = "TASK_FAILED"       // the agent says so, or did not say how it ended
)

// Failures of a push, or of another request of git's.
const (
	GitRefDenied        Code = "GIT_REF_DENIED"        // the token may not update this ref, or not like this
	GitRejected         Code = "GIT_REJECTED"          // git, or the upstream, did not take it
	GitIncomplete       Code = "GIT_INCOMPLETE"        // the pack broke off, or is none
	GitPackTooLarge     Code = "GIT_PACK_TOO_LARGE"    // the pack, or what it unpacks to
	GitProtocolRequired Code = "GIT_PROTOCOL_REQUIRED" // a version of the protocol that is not served
)

// Failures of a completion.
const (
	BudgetExhausted Code = "BUDGET_EXHAUSTED" // what may be spent for it is spent, or is less than its worst case
	ModelFailed     Code = "MODEL_FAILED"     // the model's provider refused the request, or broke the answer off with an error
	ModelNotFound   Code = "MODEL_NOT_FOUND"  // no such model is configured, or the token may not use it
)

// TaskNotRunning says that the task has ended, or has no holder.
const TaskNotRunning Code = "TASK_NOT_RUNNING"

// How a write of the rule set came to a bad end, beside VALIDATION_ERROR and
// NOT_FOUND.
const (
	EtagMismatch      Code = "ETAG_MISMATCH"       // the set is another one than the writer had read
	RuleLimitExceeded Code = "RULE_LIMIT_EXCEEDED" // the set would be too large
	InternalError     Code = "INTERNAL_ERROR"      // the agent API's word for what is not the caller's fault
)

// What ingress and egress answer. These are in problem bodies only.
const (
	InvalidRequest       Code = "INVALID_REQUEST"
	ValidationError      Code = "VALIDATION_ERROR"
	Unauthorized         Code = "UNAUTHORIZED"
	Forbidden            Code = "FORBIDDEN"
	NotFound             Code = "NOT_FOUND"
	MethodNotAllowed     Code = "METHOD_NOT_ALLOWED"
	NotAcceptable        Code = "NOT_ACCEPTABLE"
	UnsupportedMediaType Code = "UNSUPPORTED_MEDIA_TYPE"
	UnsupportedEncoding  Code = "UNSUPPORTED_ENCODING" // the body is compressed
	PayloadTooLarge      Code = "PAYLOAD_TOO_LARGE"
	URITooLong           Code = "URI_TOO_LONG" // the request target is over 8 KiB
	HeadersTooLarge      Code = "HEADERS_TOO_LARGE"
	RequestTimeout       Code = "REQUEST_TIMEOUT"
	Conflict             Code = "CONFLICT"
	IdempotencyMismatch  Code = "IDEMPOTENCY_MISMATCH" // the key was used with another payload
	InFlight             Code = "IN_FLIGHT"            // the action with this key has not settled yet
	StreamGone           Code = "STREAM_GONE"
	UnsupportedTaskType  Code = "UNSUPPORTED_TASK_TYPE" // no agent is known for it
	RateLimited          Code = "RATE_LIMITED"
	Misdirected          Code = "MISDIRECTED" // another role serves this route
	Unavailable          Code = "UNAVAILABLE"
	LogFull              Code = "LOG_FULL"
	QueueFull            Code = "QUEUE_FULL" // too many actions wait for a worker
	Internal             Code = "INTERNAL"
)

// DenyCodes lists what policy refuses.
func DenyCodes() []Code {
	return []Code{
		DenyKeyUnknown, DenyURLInvalid, DenyScheme, DenyUserinfo, DenyHost, DenyPort, DenyMethod, DenyPath,
		DenyHeader, DenyBody, DenySchema, DenyAddress, DenyRedirect, DenyRule, DenyApproval, DenyBudget, DenyKilled,
	}
}

// UpstreamCodes lists what an upstream did.
func UpstreamCodes() []Code {
	return []Code{
		UpstreamDNS, UpstreamConnect, UpstreamTLS, UpstreamTimeout, UpstreamReset, UpstreamProtocol,
		UpstreamTruncated, UpstreamTooLarge, UpstreamHeadersTooLarge, UpstreamEncoding,
	}
}

// SettleCodes lists every code that a settled event may carry.
func SettleCodes() []Code {
	codes := append(DenyCodes(), UpstreamCodes()...)
	return append(codes, HTTPFailure, RetriesExhausted, ResponseNotJSON, ResponseSchemaInvalid, PostconditionFailed,
		OutcomeUnknownCode, Canceled, DeadlineExceeded, Poison, Interrupted, SecretUnavailable,
		AgentUnavailable, TaskFailed, EtagMismatch, RuleLimitExceeded, ValidationError, NotFound, InternalError,
		Conflict, Unavailable, GitRefDenied, GitRejected, GitIncomplete, GitPackTooLarge,
		BudgetExhausted, RateLimited, ModelFailed, ModelNotFound)
}

// IngressCodes lists the codes of problem bodies.
func IngressCodes() []Code {
	return []Code{
		InvalidRequest, ValidationError, Unauthorized, Forbidden, NotFound, MethodNotAllowed, NotAcceptable,
		UnsupportedMediaType, UnsupportedEncoding, PayloadTooLarge, URITooLong, HeadersTooLarge, RequestTimeout, Conflict, IdempotencyMismatch, InFlight,
		StreamGone, RateLimited, Misdirected, Unavailable, LogFull, QueueFull, Internal, UnsupportedTaskType,
		GitPackTooLarge, GitProtocolRequired, TaskNotRunning, ModelNotFound,
	}
}
