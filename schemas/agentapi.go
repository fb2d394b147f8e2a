package schemas

import (
	"encoding/json"
	"strings"
)

// RouteAgentAPI is the route of the agent API. It is part of the ids of its
// writes, and must never change.
const RouteAgentAPI = "/v1/agent-api"

// AgentAPIType is the type of an agent request's envelope.
const AgentAPIType = "AGENT_API_REQUEST"

// RouteRulesReset discards an unreadable rule set. It is part of the ids of its writes, and must
// never change.
const RouteRulesReset = "/v1/rules/reset"

// AgentAPISubject is where the agent API is served over NATS, for one tenant.
func AgentAPISubject(tenant string) string { return AgentAPIRoot + "." + EscapeToken(tenant) }

// ParseAgentAPI reads what AgentAPISubject wrote, and nothing else.
func ParseAgentAPI(subject string) (tenant string, ok bool) {
	word, found := strings.CutPrefix(subject, AgentAPIRoot+".")
	tenant, err := UnescapeToken(word)
	return tenant, found && err == nil
}

// The operations of the agent API. There is none that deletes.
const (
	OpPing         = "ping"
	OpStatus       = "status"
	OpRulesList    = "rules.list"
	OpRulesGet     = "rules.get"
	OpRulesCreate  = "rules.create"
	OpRulesPatch   = "rules.patch"
	OpRulesEnable  = "rules.enable"
	OpRulesDisable = "rules.disable"
	OpGlobalOn     = "global.on"
	OpGlobalOff    = "global.off"
)

// OpRulesReset is Weir's own and no operation of the agent API: it puts an empty
// set in the place of one that cannot be read.
const OpRulesReset = "rules.reset"

// AgentPong is the data of a ping.
const AgentPong = `{"pong":true}`

// AgentReads lists the operations that change nothing.
func AgentReads() []string { return []string{OpPing, OpStatus, OpRulesList, OpRulesGet} }

// AgentWrites lists those that need if_match and become actions of kind rule.
func AgentWrites() []string {
	return []string{OpRulesCreate, OpRulesPatch, OpRulesEnable, OpRulesDisable, OpGlobalOn, OpGlobalOff}
}

// AgentEnvelope is the body of POST /v1/agent-api. The request alone is taken as
// well.
type AgentEnvelope struct {
	Type    string       `json:"type,omitempty" jsonschema:"enum=AGENT_API_REQUEST"`
	Request AgentRequest `json:"request"`
}

// AgentRequest is one operation.
type AgentRequest struct {
	// RequestID is echoed. The same request under the same id is carried out once.
	RequestID string `json:"request_id" jsonschema:"minLength=1,maxLength=256"`
	Operation string `json:"operation" jsonschema:"minLength=1,maxLength=64"`
	// AuthToken is a token, where the Authorization header has none.
	AuthToken string          `json:"auth_token,omitempty"`
	Args      json.RawMessage `json:"args,omitempty" jsonschema:"type=object"`
}

// AgentResponse answers an AgentRequest.
type AgentResponse struct {
	OK        bool   `json:"ok"`
	RequestID string `json:"request_id"`
	Operation string `json:"operation"`
	// Data is set where OK holds, else Error.
	Data  json.RawMessage `json:"data,omitempty"`
	Error *AgentError     `json:"error,omitempty"`
}

// AgentError is what went wrong.
type AgentError struct {
	// Code is what programs branch by.
	Code    Code   `json:"code"`
	Message string `json:"message"`
	// Detail is a finer word, where there is one.
	Detail string `json:"detail,omitempty"`
}

// The finer words of an AgentError, beside the codes that policy denies with.
const (
	DetailAPIDisabled     = "AGENT_API_DISABLED"
	DetailAuthRequired    = "AUTH_REQUIRED"
	DetailScopeRequired   = "SCOPE_REQUIRED"
	DetailIfMatchRequired = "IF_MATCH_REQUIRED"
	DetailRuleExists      = "RULE_EXISTS"
	// DetailRulesUnreadable: this version cannot read the stored rule set.
	DetailRulesUnreadable = "RULES_UNREADABLE"
)

// RuleOrder is the payload of kind rule: one write of the rule set.
type RuleOrder struct {
	Operation string `json:"operation"`
	// RequestID is the agent's own; the action has another id.
	RequestID string `json:"request_id"`
	// Caller is the id of the token, or "open" where there are none.
	Caller  string `json:"caller"`
	IfMatch string `json:"if_match"`
	// Group, CreateGroup and Rule are those of rules.create.
	Group       string          `json:"group,omitempty"`
	CreateGroup bool            `json:"create_group_if_missing,omitempty"`
	Rule        json.RawMessage `json:"rule,omitempty"`
	// ID names the rule of the other operations on one; Patch is rules.patch's.
	ID    string          `json:"id,omitempty"`
	Patch json.RawMessage `json:"patch,omitempty"`
}

// RuleResult is the result document of kind rule, for every outcome.
type RuleResult struct {
	Operation string `json:"operation"`
	RequestID string `json:"request_id"`
	Rule      *Rule  `json:"rule,omitempty"`
	// RulesEtag is the set's after the write; where it was refused, as it was found.
	RulesEtag string      `json:"rules_etag,omitempty"`
	Error     *AgentError `json:"error,omitempty"`
}

// RuleWritten is the result of a write that was made.
const RuleWritten = "ok"

// RuleAudit is the payload of the evidence of a write.
type RuleAudit struct {
	Timestamp string `json:"timestamp"` // RFC 3339, UTC
	Caller    string `json:"caller"`
	RequestID string `json:"request_id"`
	Operation string `json:"operation"`
	// RuleID is the rule that was written, where it is one.
	RuleID string `json:"rule_id,omitempty"`
	// Result is RuleWritten, or the code of the error.
	Result          string `json:"result"`
	RulesEtagBefore string `json:"rules_etag_before"`
	RulesEtagAfter  string `json:"rules_etag_after"`
}
