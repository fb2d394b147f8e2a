package schemas

import (
	"encoding/json"
	"time"
)

// The types of a traffic rule.
const (
	RuleMock     = "mock"     // answers in the target's place; nothing is sent
	RuleDelay    = "delay"    // holds a call back
	RuleRedirect = "redirect" // sends a call somewhere else
	RuleHeaders  = "headers"  // changes headers of the call, of the answer, or of both
)

// RuleTypes lists them.
func RuleTypes() []string { return []string{RuleMock, RuleDelay, RuleRedirect, RuleHeaders} }

// Limits of one rule and of a tenant's rule set.
const (
	MaxRuleDelay     = 60_000    // delay_ms
	MaxRulePattern   = 2 << 10   // bytes of a pattern, and of a redirect's to_url
	MaxRuleWildcards = 16        // wildcards of a pattern
	MaxRuleHeaders   = 32        // changes of headers, and headers of a mock
	MaxMockBody      = 256 << 10 // bytes of a mock's body as it is answered
	MaxRules         = 1000      // rules of a tenant, unless the node says otherwise
	MaxRuleSet       = 960 << 10 // bytes of a tenant's rules, as they are stored: fits the messages of any NATS server
	MaxRulePriority  = 1_000_000 // to both sides of 0
)

// DefaultGroup is where a rule goes that names no group. It is always there.
const DefaultGroup = "default"

// Rule changes the calls that match it, while it is enabled and global_active
// holds. Matching is against the call as the action asks for it: rules do not see
// what other rules made of it.
type Rule struct {
	// ID is unique in the tenant, and is never changed.
	ID string `json:"id" jsonschema:"pattern=^[A-Za-z0-9._:-]{1\\,128}$"`
	// Name is for people.
	Name string `json:"name,omitempty" jsonschema:"maxLength=256"`
	// Group is where the rule was made; default "default".
	Group   string `json:"group" jsonschema:"pattern=^[A-Za-z0-9._:-]{1\\,128}$"`
	Type    string `json:"type" jsonschema:"enum=mock,enum=delay,enum=redirect,enum=headers"`
	Enabled bool   `json:"enabled"`
	// Priority orders the rules that match one call, the greatest first; then
	// comes the more specific, then the smaller id. Default 0.
	Priority int        `json:"priority" jsonschema:"minimum=-1000000,maximum=1000000"`
	Match    RuleMatch  `json:"match"`
	Action   RuleAction `json:"action"`
	// Scope narrows the rule to some actions; absent: all of the tenant's.
	Scope *RuleScope `json:"scope,omitempty"`
	// ExpiresAt is when the rule stops to have any effect; absent: never.
	ExpiresAt time.Time `json:"expires_at,omitzero"`
}

// RuleMatch says which calls a rule is for.
type RuleMatch struct {
	// URLPattern is scheme://host[:port]/path. A * stands for any characters, none
	// as well: in the scheme, in the host and the port up to the next slash, in the
	// path over slashes too.
	URLPattern string `json:"url_pattern" jsonschema:"maxLength=2048"`
	// Method is an HTTP method or ANY; default ANY.
	Method string `json:"method" jsonschema:"enum=GET,enum=HEAD,enum=POST,enum=PUT,enum=PATCH,enum=DELETE,enum=OPTIONS,enum=ANY"`
	// ResourceType is kept for other programs and matches nothing.
	ResourceType string `json:"resource_type,omitempty" jsonschema:"maxLength=64"`
	// IncludeQuery: the pattern is held against path and query together. Without
	// it the query is not looked at.
	IncludeQuery bool `json:"include_query"`
}

// RuleAction is what a rule does. Which members it has is its type's.
type RuleAction struct {
	// ToURL of a redirect. $1 and so on stand for what the pattern's wildcards
	// matched. The call's query goes along where it was not matched and ToURL has
	// none of its own.
	ToURL string `json:"to_url,omitempty" jsonschema:"maxLength=2048"`
	// DelayMS of a delay, in milliseconds.
	DelayMS *int64 `json:"delay_ms,omitempty" jsonschema:"minimum=0,maximum=60000"`
	// BodyMode of a mock says what Body is: json (any value, answered as JSON; a string that
	// holds a JSON document is answered as that document), text (a string, answered as plain
	// text), raw (a string, answered as it is) or base64 (a string of standard base64, answered as
	// its bytes).
	BodyMode string `json:"body_mode,omitempty" jsonschema:"enum=json,enum=text,enum=raw,enum=base64"`
	// Body of a mock; absent: the answer has none.
	Body json.RawMessage `json:"body,omitempty"`
	// Status of a mock, 200 to 599; default 200.
	Status int `json:"status,omitempty" jsonschema:"minimum=200,maximum=599"`
	// Headers of a mock, by their names.
	Headers map[string]string `json:"headers,omitempty"`
	// RequestHeaders and ResponseHeaders of a headers rule, in their order.
	RequestHeaders  []HeaderChange `json:"request_headers,omitempty"`
	ResponseHeaders []HeaderChange `json:"response_headers,omitempty"`
}

// The operations of a header change.
const (
	HeaderSet    = "set"    // the header has this value and no other
	HeaderAppend = "append" // the value is added, behind a comma where there is one
	HeaderRemove = "remove"
)

// HeaderChange is one change of a header.
type HeaderChange struct {
	Op    string `json:"op" jsonschema:"enum=set,enum=append,enum=remove"`
	Name  string `json:"name"`
	Value string `json:"value,omitempty"` // not with remove
}

// RuleScope narrows a rule to actions for which all of it holds.
type RuleScope struct {
	ActionKind Kind `json:"action_kind,omitempty"`
	// Agent is the task type of a run, or the id of the token that asked for the
	// action.
	Agent     string `json:"agent,omitempty"`
	TaskID    string `json:"task_id,omitempty"`
	RequestID string `json:"request_id,omitempty"` // the action's id
}

// RuleSet is all rules of a tenant, as they are stored: one value, replaced as a
// whole.
type RuleSet struct {
	V            int      `json:"v"`
	Tenant       string   `json:"tenant"`
	GlobalActive bool     `json:"global_active"`
	Groups       []string `json:"groups"` // without the default one, in order
	Rules        []Rule   `json:"rules"`  // in the order they were made in
	// By is the action that wrote this, and Previous the revision it replaced. They show the result
	// of a write whose worker died.
	By       string    `json:"by"`
	Previous uint64    `json:"previous"`
	At       time.Time `json:"at"`
}

// RuleSetVersion is the version of the sets that this program writes. Any change of
// their members makes another one: a node that does not know a member would apply a
// rule more widely than it was meant.
const RuleSetVersion = 1

// Traffic is what the rules made of one call.
type Traffic struct {
	// RulesEtag is the version of the rule set that was asked.
	RulesEtag string `json:"rules_etag"`
	// Rules are the ids of those that had an effect, in the order of their effects.
	Rules []string `json:"rules,omitempty"`
	// Redirected and Mocked are the ids of the rule that redirected or mocked the call. A mocked
	// call was never sent.
	Redirected string `json:"redirected,omitempty"`
	Mocked     string `json:"mocked,omitempty"`
	// Target is where a redirected call went, without its values.
	Target  string `json:"target,omitempty"`
	DelayMS int64  `json:"delay_ms,omitempty"`
}

// RulePage answers GET /v1/rules.
type RulePage struct {
	Items        []Rule `json:"items"`
	Next         string `json:"next,omitempty"`
	GlobalActive bool   `json:"global_active"`
	RulesEtag    string `json:"rules_etag"`
}

// PreviewRequest is the body of POST /v1/rules/preview: a call that is not made.
type PreviewRequest struct {
	ExplainRequest
	// Scope is the action that would make the call; absent: one of kind http.
	Scope *RuleScope `json:"scope,omitempty"`
	// Rule is looked at as if it were in the set, enabled, in the place of the one
	// with its id.
	Rule json.RawMessage `json:"rule,omitempty"`
}

// Preview is what would happen to a call, and why.
type Preview struct {
	GlobalActive bool   `json:"global_active"`
	RulesEtag    string `json:"rules_etag"`
	// Result is one of sent, mocked and denied.
	Result string `json:"result"`
	// Method, URL and Headers are the call as policy would see it.
	Method  string            `json:"method"`
	URL     string            `json:"url"`
	Headers map[string]string `json:"headers,omitempty"`
	DelayMS int64             `json:"delay_ms,omitempty"`
	// Mock is the answer that would be given.
	Mock *PreviewAnswer `json:"mock,omitempty"`
	// ResponseHeaders are the changes that the answer's headers would undergo.
	ResponseHeaders []HeaderChange `json:"response_headers,omitempty"`
	// Decision is what policy would say of the call as the rules leave it.
	Decision Decision `json:"decision"`
	// Rules are the rules that match the call's URL and method, with the verdict of each.
	Rules []RuleVerdict `json:"rules"`
}

// The results of a preview.
const (
	PreviewSent   = "sent"
	PreviewMocked = "mocked"
	PreviewDenied = "denied"
)

// PreviewAnswer is what a mock would answer.
type PreviewAnswer struct {
	Status  int               `json:"status"`
	Headers map[string]string `json:"headers,omitempty"`
	Body    json.RawMessage   `json:"body,omitempty"`
	// BodyEncoding is base64 where body is a string of standard base64: the bytes are no UTF-8.
	BodyEncoding string `json:"body_encoding,omitempty" jsonschema:"enum=base64"`
}

// RuleVerdict is the effect of one rule on one call.
type RuleVerdict struct {
	ID      string `json:"id"`
	Type    string `json:"type"`
	Applies bool   `json:"applies"`
	// Reason says why it does not, in a sentence.
	Reason string `json:"reason,omitempty"`
}

// RecordRequest is the body of POST /v1/rules/record.
type RecordRequest struct {
	ActionID string `json:"action_id"`
	// Group is the group of the rules; default "default".
	Group string `json:"group,omitempty"`
	// Scope and ExpiresAt are given to each rule.
	Scope     *RuleScope `json:"scope,omitempty"`
	ExpiresAt time.Time  `json:"expires_at,omitzero"`
}

// Recording answers POST /v1/rules/record: mock rules that give the answers again
// that the action got. They are not stored: create them.
type Recording struct {
	Rules []Rule `json:"rules"`
	// Skipped are the steps without a rule of their own, and why.
	Skipped []Unrecorded `json:"skipped"`
}

// Unrecorded is a step without a rule of its own.
type Unrecorded struct {
	Step   int    `json:"step"`
	Reason string `json:"reason"`
	// Rule is the one of another step that answers its call as well. Without it the
	// call goes out in a rehearsal.
	Rule string `json:"rule,omitempty"`
}
