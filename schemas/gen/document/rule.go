package document

import (
	"net/http"
	"strconv"

	"weir/schemas"
)

// The rule set of all examples, and the agent's own name for its requests.
const (
	rulesEtag = "etag-7-3f9a2c4e5b6d7081"
	agentID   = "req-2026-01-01-0001"
)

func agentRequest(operation string, args object) object {
	return object{"type": schemas.AgentAPIType, "request": object{"request_id": agentID, "operation": operation, "args": args}}
}

func agentAnswer(operation string, data object) object {
	return object{"ok": true, "request_id": agentID, "operation": operation, "data": data}
}

// delayRule is a rule as it is shown.
func delayRule() object {
	return object{
		"id": "checkout-delay-01", "name": "Delay checkout API", "group": "checkout", "type": schemas.RuleDelay, "enabled": true, "priority": 100,
		"match":  object{"url_pattern": "https://api.example.com/checkout/*", "method": "POST", "resource_type": "xmlhttprequest", "include_query": true},
		"action": object{"delay_ms": 1200},
	}
}

// mockRule is one that gives a recorded answer.
func mockRule() object {
	return object{
		"id": "rec-1f2e3d4c-0", "name": "step 0 of " + actionID, "group": "rehearsal", "type": schemas.RuleMock, "enabled": true, "priority": 0,
		"match":  object{"url_pattern": "https://api.example.com/v1/orders", "method": "POST", "include_query": false},
		"action": object{"status": 201, "headers": object{"content-type": "application/json"}, "body_mode": "json", "body": object{"id": "o-1"}},
		"scope":  object{"request_id": "rehearsal-1"}, "expires_at": later,
	}
}

// agentReceipt is the answer to a write without a wait.
func agentReceipt(operation string) object {
	r := receipt("rule")
	r["content"] = content(schema("AgentResponse"), object{"receipt": example("A receipt", agentAnswer(operation, object{
		"id": actionID, "status": "accepted", "duplicate": false, "durability": "disk",
	}))})
	return r
}

func agentAPI() object {
	return object{
		"operationId": "agentAPI",
		"summary":     "Read or change the traffic rules",
		"description": "ping gives {pong}, status {global_active, rule_count, rules_etag}, rules.list {rules, rules_etag}, rules.get and every write {rule?, rules_etag}. " +
			"A write needs the rules_etag that it was made for as if_match, and becomes an action of kind rule: the same request again joins it. Nothing deletes a rule. " +
			"Unknown members are ignored. The request may also come alone, without its envelope, and with its token as auth_token.",
		"tags":       []any{"rules"},
		"parameters": []any{parameter("Prefer")},
		"requestBody": object{"required": true, "content": content(
			object{"anyOf": []any{schema("AgentEnvelope"), schema("AgentRequest")}},
			object{
				"status": example("Status of the rules", agentRequest(schemas.OpStatus, object{})),
				"alone":  example("Without the envelope", object{"request_id": agentID, "operation": schemas.OpRulesList, "args": object{"group": "checkout"}}),
				"get":    example("One rule", agentRequest(schemas.OpRulesGet, object{"id": "checkout-delay-01"})),
				"create": example("A first rule of a group", agentRequest(schemas.OpRulesCreate, object{
					"group": "checkout", "create_group_if_missing": true, "rule": delayRule(), "if_match": rulesEtag,
				})),
				"patch":   example("A partial change", agentRequest(schemas.OpRulesPatch, object{"id": "checkout-delay-01", "patch": object{"action": object{"delay_ms": 300}}, "if_match": rulesEtag})),
				"disable": example("One rule off", agentRequest(schemas.OpRulesDisable, object{"id": "checkout-delay-01", "if_match": rulesEtag})),
				"off":     example("All rules off", agentRequest(schemas.OpGlobalOff, object{"if_match": rulesEtag})),
			})},
		"responses": agentRefusals(object{
			"200": object{
				"description": "It was done.",
				"headers":     withHeaders("Weir-Action-Id", "Preference-Applied"),
				"content": content(schema("AgentResponse"), object{
					"status": example("A status", agentAnswer(schemas.OpStatus, object{"global_active": true, "rule_count": 1, "rules_etag": rulesEtag})),
					"write":  example("A rule that was written", agentAnswer(schemas.OpRulesCreate, object{"rule": delayRule(), "rules_etag": rulesEtag})),
				}),
			},
			"202": agentReceipt(schemas.OpGlobalOff),
		}, agentAPIRefusals()),
	}
}

// agentRefusal is one answer of the agent API where it did not do what was asked.
type agentRefusal struct {
	status          int
	operation       string
	code            schemas.Code
	message, detail string
}

func agentAPIRefusals() []agentRefusal {
	return append(doorRefusals(), []agentRefusal{
		{400, schemas.OpGlobalOff, schemas.InvalidRequest, "at /args/if_match: must be the rules_etag that status or rules.list gave", schemas.DetailIfMatchRequired},
		{401, schemas.OpStatus, schemas.Unauthorized, "send a token that is in force, as request.auth_token or in one header, Authorization: Bearer", schemas.DetailAuthRequired},
		{403, schemas.OpStatus, schemas.Unauthorized, "the agent API is disabled on this node", schemas.DetailAPIDisabled},
		{404, schemas.OpRulesGet, schemas.NotFound, "there is no rule with this id", ""},
		{409, schemas.OpRulesCreate, schemas.RuleLimitExceeded, "there are as many rules as there may be", ""},
		{410, schemas.OpGlobalOff, schemas.InternalError, "the history of this record has been dropped", string(schemas.StreamGone)},
		{412, schemas.OpRulesPatch, schemas.EtagMismatch, "the rules have changed; read them again", ""},
		{422, schemas.OpRulesCreate, schemas.ValidationError, "there is a rule with this id already", schemas.DetailRuleExists},
		{424, schemas.OpRulesEnable, schemas.InternalError, "it is unknown whether the write was made: read the rules", string(schemas.OutcomeUnknownCode)},
		{429, schemas.OpRulesList, schemas.RateLimited, "too many requests", ""},
		{500, schemas.OpRulesList, schemas.InternalError, "the stored rules cannot be read here", schemas.DetailRulesUnreadable},
		{503, schemas.OpGlobalOff, schemas.InternalError, "the log did not answer; try again", string(schemas.Unavailable)},
		{504, schemas.OpGlobalOff, schemas.InternalError, "the time for the write is over: read the rules", string(schemas.DeadlineExceeded)},
	}...)
}

func resetRefusals() []agentRefusal {
	return append(doorRefusals(), []agentRefusal{
		{400, schemas.OpRulesReset, schemas.InvalidRequest, "this route takes no body", ""},
		{401, schemas.OpRulesReset, schemas.Unauthorized, "send one header, Authorization: Bearer and a token that is in force", schemas.DetailAuthRequired},
		{403, schemas.OpRulesReset, schemas.Unauthorized, "the token lacks the scope admin", schemas.DetailScopeRequired},
		{409, schemas.OpRulesReset, schemas.InternalError, "the write was canceled", string(schemas.Canceled)},
		{410, schemas.OpRulesReset, schemas.InternalError, "the history of this record has been dropped", string(schemas.StreamGone)},
		{422, schemas.OpRulesReset, schemas.ValidationError, "the rules can be read; disable them instead", ""},
		{429, schemas.OpRulesReset, schemas.RateLimited, "too many requests", ""},
		{500, schemas.OpRulesReset, schemas.InternalError, "something went wrong on our side", ""},
		{503, schemas.OpRulesReset, schemas.InternalError, "the log did not answer; try again", string(schemas.Unavailable)},
		{504, schemas.OpRulesReset, schemas.InternalError, "the time for the write is over: read the rules", string(schemas.DeadlineExceeded)},
	}...)
}

// doorRefusals are made before a request is read.
func doorRefusals() []agentRefusal {
	return []agentRefusal{
		{405, "", schemas.InvalidRequest, "this path does not serve this method; Allow names those it does", string(schemas.MethodNotAllowed)},
		{408, "", schemas.InvalidRequest, "the body did not come in time; send the request again", string(schemas.RequestTimeout)},
		{413, "", schemas.InvalidRequest, "the body is larger than is allowed", string(schemas.PayloadTooLarge)},
		{415, "", schemas.InvalidRequest, "the body must be application/json", string(schemas.UnsupportedMediaType)},
	}
}

// agentRefusals adds refusals to what a route answers otherwise.
func agentRefusals(own object, refusals []agentRefusal) object {
	for _, r := range refusals {
		e := object{"code": string(r.code), "message": r.message}
		if r.detail != "" {
			e["detail"] = r.detail
		}
		answer := object{"ok": false, "request_id": agentID, "operation": r.operation, "error": e}
		if r.operation == "" {
			answer["request_id"] = ""
		}
		var headers []string
		switch r.status {
		case http.StatusTooManyRequests:
			headers = []string{"Retry-After"}
		case http.StatusServiceUnavailable:
			headers = []string{"Weir-Action-Id", "Location", "Retry-After"}
		case http.StatusConflict, http.StatusPreconditionFailed, http.StatusFailedDependency, http.StatusGatewayTimeout, http.StatusUnprocessableEntity:
			headers = []string{"Weir-Action-Id"}
		}
		own[strconv.Itoa(r.status)] = object{
			"description": "It was not done: " + r.message,
			"headers":     withHeaders(headers...),
			"content":     content(schema("AgentResponse"), object{"refusal": example("A refusal", answer)}),
		}
	}
	return own
}

func resetRules() object {
	return object{
		"operationId": "resetRules",
		"summary":     "Give up a rule set that cannot be read",
		"description": "Needs the scope admin. An empty set, with the rules on, replaces the unreadable one of the caller's own tenant, whose calls are all denied until then. " +
			"The stored rules are lost. A readable set is refused. The write becomes an action of kind rule; an Idempotency-Key names it.",
		"tags":       []any{"rules"},
		"parameters": []any{parameter("IdempotencyKey"), parameter("Prefer")},
		"responses": agentRefusals(object{
			"200": object{
				"description": "The set is empty now.",
				"headers":     withHeaders("Weir-Action-Id", "Preference-Applied"),
				"content": content(schema("AgentResponse"), object{
					"reset": example("A set that was given up", agentAnswer(schemas.OpRulesReset, object{"rules_etag": rulesEtag})),
				}),
			},
			"202": agentReceipt(schemas.OpRulesReset),
		}, resetRefusals()),
	}
}

func listRules() object {
	page := object{"items": []any{delayRule()}, "next": "checkout-delay-01", "global_active": true, "rules_etag": rulesEtag}
	return object{
		"operationId": "listRules",
		"summary":     "List the traffic rules, in the order they were made in",
		"tags":        []any{"rules"},
		"parameters":  []any{query("group", "Only rules of this group.", object{"type": "string"}), parameter("Limit"), parameter("Cursor")},
		"responses": responses(object{"200": object{
			"description": "A page. Without next, it is the last.",
			"headers":     withHeaders("ETag"),
			"content":     content(schema("RulePage"), object{"page": example("One rule, and more", page)}),
		}}, readers("RateLimited")...),
	}
}

func previewRules() object {
	preview := object{
		"global_active": true, "rules_etag": rulesEtag, "result": schemas.PreviewSent, "method": "POST",
		"url": "https://api.example.com/checkout/1", "delay_ms": 1200,
		"decision": object{"allowed": true, "entry": "checkout", "version": version},
		"rules": []any{
			object{"id": "checkout-delay-01", "type": schemas.RuleDelay, "applies": true},
			object{"id": "checkout-mock", "type": schemas.RuleMock, "applies": false, "reason": "it is disabled"},
		},
	}
	return object{
		"operationId": "previewRules",
		"summary":     "Preview the effect of the rules on a call",
		"description": "The rules first, and then the policy, which sees what they leave. A rule may be tried that is not there yet. Nothing is resolved, sent or stored.",
		"tags":        []any{"rules"},
		"requestBody": object{"required": true, "content": content(schema("PreviewRequest"), object{
			"call": example("A call", object{"method": "POST", "url": "https://api.example.com/checkout/1"}),
			"draft": example("A call of a run, and a rule that is not there yet", object{
				"url": "https://api.example.com/checkout/1", "scope": object{"action_kind": "run", "agent": "LIT_RETRIEVAL"}, "rule": delayRule(),
			}),
		})},
		"responses": responses(object{"200": object{
			"description": "What would happen.",
			"content":     content(schema("Preview"), object{"delayed": example("A call that is held back", preview)}),
		}}, doors()...),
	}
}

func recordRules() object {
	return object{
		"operationId": "recordRules",
		"summary":     "Make mock rules of what an action was answered",
		"description": "So that it can be rehearsed without an effect. Nothing is stored: create the rules. Values that were redacted, cookies, and what belongs to one message alone stay out. " +
			"Of a sensitive action only the token that asked for it may have them.",
		"tags": []any{"rules"},
		"requestBody": object{"required": true, "content": content(schema("RecordRequest"), object{
			"rehearsal": example("Rules for one other action, for some minutes", object{
				"action_id": actionID, "group": "rehearsal", "scope": object{"request_id": "rehearsal-1"}, "expires_at": later,
			}),
		})},
		"responses": responses(object{"200": object{
			"description": "A rule for each step that was answered, and the steps without one.",
			"content": content(schema("Recording"), object{"recording": example("One of two steps", object{
				"rules": []any{mockRule()}, "skipped": []any{object{"step": 1, "reason": "no answer came"}},
			})}),
		}}, doors("NotFound", "InFlight", "Gone")...),
	}
}
