package document

import (
	"maps"
	"net/http"
	"strconv"

	"weir/schemas"
)

// The action of all examples.
const (
	actionID = "0199f0c2-8a44-7b6e-8f3d-5c1a9e7d2b40"
	planID   = "0199f0c2-9b51-7d2f-a1c8-6e0f4b3a8d17"
	moment   = "2026-11-21T12:00:00Z"
	later    = "2026-11-21T12:02:00Z"
)

// doors are the problems of every route that writes.
func doors(more ...string) []string {
	return append([]string{"BadRequest", "Unauthorized", "Forbidden", "TooLarge", "MediaType", "Unprocessable", "RateLimited", "Internal", "Unavailable"}, more...)
}

func execute() object {
	return object{
		"operationId": "execute",
		"summary":     "Make one HTTP request",
		"description": "The request is stored, judged by policy, made, and its answer checked against the schema and the postconditions that came with it. " +
			"GET, HEAD, PUT, DELETE and OPTIONS are retried up to three attempts; POST and PATCH only with an idempotency key that the target is known to honour.",
		"tags":       []any{"write"},
		"parameters": []any{parameter("IdempotencyKey"), parameter("Prefer"), parameter("Delay"), parameter("NotBefore"), parameter("Priority")},
		"requestBody": object{"required": true, "content": content(
			object{"anyOf": []any{schema("ExecuteRequest"), schema("ExecuteBare")}},
			object{
				"primitive": example("A primitive with a postcondition", object{
					"type": "Http",
					"args": object{
						"method": "POST", "url": "https://api.example.com/v1/orders", "body": object{"amount": 10},
						"headers": object{"Accept": "application/json"}, "allowlist_key": "orders", "timeout_ms": 5000,
					},
					"postcondition":   []any{object{"type": "http_status", "equals": 201}, object{"type": "json_path", "path": "$.status", "equals": "open"}},
					"idempotency_key": "order-4711",
				}),
				"bare": example("The arguments alone", object{
					"method": "GET", "url": "http://localhost:9000/health", "response_schema": object{"type": "object", "required": []any{"ok"}},
				}),
			})},
		"responses": executeResponses(),
	}
}

// executeResponses are the executor's answers: errors have an envelope of its own.
func executeResponses() object {
	out := object{
		"200": object{
			"description": "The call succeeded.",
			"headers":     withHeaders("Weir-Action-Id", "Idempotency-Replayed", "Preference-Applied"),
			"content": content(schema("ExecuteOutcome"), object{"outcome": example("An answer and its report", object{
				"status": 201, "headers": []any{object{"name": "content-type", "value": "application/json"}, object{"name": "set-cookie", "value": "REDACTED"}},
				"body":          object{"id": "o-1", "status": "open"},
				"postcondition": object{"passed": true, "assertions": []any{object{"kind": "http_status", "status": "passed", "detail": object{"status": 201}}}},
			})}),
		},
		"202": receipt("http"),
	}
	for _, f := range []struct {
		status      int
		description string
		fault       object
	}{
		{400, "An argument is missing or wrong.", fault(schemas.VariantMissingArgument, schemas.ValidationError, "missing required argument 'url'", nil)},
		{401, "A token is needed.", fault(schemas.VariantRequest, schemas.Unauthorized, "a bearer token is needed", nil)},
		{403, "Policy refuses the call: nothing was sent.", fault(schemas.VariantDisallowedHost, schemas.DenyHost, "disallowed host 'h'", object{"rule": "orders", "reason": "the host is not the entry's"})},
		{409, "The id or the key belongs to another action, or to a running one; or the action was canceled.", fault(schemas.VariantRequest, schemas.InFlight, "the first request with this key is still running", object{"retryable": true})},
		{413, "The body is too large.", fault(schemas.VariantRequest, schemas.PayloadTooLarge, "the body is larger than is allowed", nil)},
		{415, "The body is not JSON.", fault(schemas.VariantRequest, schemas.UnsupportedMediaType, "the body must be application/json", nil)},
		{422, "A schema or postcondition cannot be used or does not hold; or the key was used with another body.", fault(schemas.VariantSchemaValidationFailed, schemas.ResponseSchemaInvalid, "/ok: must be true", nil)},
		{424, "It is unknown whether the call took effect. It must not be sent again.", fault(schemas.VariantOutcomeUnknown, schemas.OutcomeUnknownCode,
			schemas.UnknownText, object{"attempts": 1, "action_url": "/v1/actions/" + actionID, "resolve_url": "/v1/actions/" + actionID + "/resolve"})},
		{429, "Too many requests.", fault(schemas.VariantRequest, schemas.RateLimited, "too many requests", object{"retryable": true})},
		{500, "A fault of this node's own.", fault(schemas.VariantRequest, schemas.Internal, "the request could not be completed", nil)},
		{502, "The target failed, was not reached, or answered with a status other than 2xx.", fault(schemas.VariantRetriesExhausted, schemas.RetriesExhausted,
			"every attempt failed, 3 in all; the last: the target answered with status 503 Service Unavailable",
			object{"retryable": true, "attempts": 3, "last_error": "the target answered with status 503 Service Unavailable", "history": []any{
				object{"attempt": 1, "outcome": "timeout"}, object{"attempt": 2, "outcome": "connect"}, object{"attempt": 3, "outcome": object{"status": 503}},
			}, "status": 503, "headers": []any{object{"name": "retry-after", "value": "5"}}, "body": object{"busy": true}})},
		{503, "The log cannot store the action now.", fault(schemas.VariantRequest, schemas.Unavailable, "the log did not answer; try again", object{"retryable": true})},
		{504, "The deadline passed, or the target did not answer in time.", fault(schemas.VariantExpired, schemas.DeadlineExceeded, "the action's deadline passed", nil)},
	} {
		headers := withHeaders("Weir-Action-Id")
		if f.status == http.StatusTooManyRequests || f.status == http.StatusServiceUnavailable || f.status == http.StatusConflict {
			headers = withHeaders("Weir-Action-Id", "Retry-After")
		}
		out[strconv.Itoa(f.status)] = object{
			"description": f.description, "headers": headers,
			"content": content(schema("ExecuteError"), object{"error": example("An error", object{"error": f.fault})}),
		}
	}
	return out
}

func fault(variant schemas.Variant, code schemas.Code, message string, more object) object {
	f := object{"variant": string(variant), "message": message, "code": string(code), "retryable": false}
	maps.Copy(f, more)
	return f
}

// receipt is a 202.
func receipt(kind string) object {
	r := object{"id": actionID, "status": "accepted", "duplicate": false, "durability": "disk"}
	if kind == "http" {
		r["class"] = "keyed"
	}
	return object{
		"description": "The action is stored, and will be carried out. Prefer asked not to wait for its end, or the time to wait is over.",
		"headers":     withHeaders("Weir-Action-Id", "Location", "Preference-Applied"),
		"content":     content(schema("Receipt"), object{"receipt": example("A receipt", r)}),
	}
}

func batch() object {
	asked := object{"method": "GET", "url": "https://api.example.com/v1/orders/1"}
	outcome := object{"status": 200, "headers": []any{}, "body": object{"id": "o-1"}}
	items := []any{
		object{"index": 0, "action_id": actionID, "status": 200, "result": outcome},
		object{"index": 1, "status": 400, "error": fault(schemas.VariantMissingArgument, schemas.ValidationError, "missing required argument 'url'", nil)},
	}
	answers := func(description string) object {
		return object{
			"description": description,
			"headers":     withHeaders("Preference-Applied"),
			"content": object{
				"application/json": object{"schema": schema("BatchAnswer"), "examples": object{"answer": example("An answer and an error", object{"items": items})}},
				schemas.MediaNDJSON: object{
					"schema":   object{"type": "string", "description": "A BatchItem on each line."},
					"examples": object{"lines": example("One line", "{\"index\":0,\"status\":200}\n")},
				},
			},
		}
	}
	out := executeResponses()
	for _, status := range []string{"409", "422", "424", "502", "504"} { // only an item can have these
		delete(out, status)
	}
	out["403"] = object{
		"description": "The token may not send actions.", "headers": withHeaders(),
		"content": content(schema("ExecuteError"), object{"error": example("An error", object{
			"error": fault(schemas.VariantRequest, schemas.Forbidden, "the token lacks the scope actions:write", nil),
		})}),
	}
	out["200"] = answers("Each item has the status and the document that POST /v1/execute would have answered with. The status of the whole says nothing of them.")
	out["202"] = answers("As 200; but some actions have not ended, and their items have a receipt.")
	return object{
		"operationId": "batch",
		"summary":     "Make many HTTP requests",
		"description": "Each request becomes an action of its own, with its own id, decision, limits and evidence. A bad request is refused in its place, and the others are made. " +
			"Items are in the order of the requests. With Accept: application/x-ndjson they are lines, each sent as its action ends. " +
			"A request without a request_id is named by the batch's Idempotency-Key and its index, so that a repeat of the batch joins its actions.",
		"tags":       []any{"write"},
		"parameters": []any{parameter("IdempotencyKey"), parameter("Prefer"), parameter("Delay"), parameter("NotBefore"), parameter("Priority")},
		"requestBody": object{"required": true, "content": content(
			object{"type": "object", "required": []any{"requests"}, "additionalProperties": false, "properties": object{
				"requests": object{
					"type": "array", "minItems": 1, "maxItems": schemas.MaxBatch,
					"items": object{"anyOf": []any{schema("ExecuteRequest"), schema("ExecuteBare")}},
				},
			}},
			object{"two": example("Two requests", object{"requests": []any{asked, object{"type": "Http", "args": asked}}})})},
		"responses": out,
	}
}

func plans() object {
	refs := object{
		"orders/1": object{
			"status": "applied", "url": "https://api.example.com/v1/orders?dry=False", "method": "POST",
			"fingerprint": "POST https://api.example.com/v1/orders?dry", "response_snippet": `{"id":"o-1"}`,
			"response_hash": "5f8d1bbd1b0d4b7b1cb1f0c9a3a3e7a16a0f4b3bd8c9d1d4c5e6f708192a3b4c",
		},
		"orders/2": object{"status": "failed", "error": "unknown allowlist key 'x'"},
	}
	report := object{
		"artifact:execution.report": object{
			"report_id": "p-1", "artifact_refs": refs, "status": "partial",
			"policy_decisions": []any{
				object{"effect_ref": "orders/1", "allowed": true, "reason": "allowlist", "idempotency_key": "d-1"},
				object{"effect_ref": "orders/2", "allowed": false, "reason": "unknown allowlist key 'x'", "idempotency_key": ""},
			},
			"errors":         []any{"unknown allowlist key 'x'"},
			"artifacts":      object{"HttpConnectorAgent": object{"snapshot_id": "s-1", "requests": refs}},
			"execution_hash": "0f5a0b7c6d8e9fa1b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f6071829",
		},
		"state:act.result": object{"artifact_refs": refs, "status": "partial"},
	}
	return object{
		"operationId": "plan",
		"summary":     "Carry out a plan",
		"description": "Each decision is one call, made in order; one that fails does not keep the others from being made. Any answer counts as applied, whatever its status.",
		"tags":        []any{"write"},
		"parameters":  []any{parameter("IdempotencyKey"), parameter("Prefer"), parameter("Delay"), parameter("NotBefore"), parameter("Priority")},
		"requestBody": object{"required": true, "content": content(schema("PlanRequest"), object{"plan": example("Two decisions", object{
			"state:env.snapshot": object{"snapshot_id": "s-1"},
			"artifact:proposed.plan": object{"plan_id": "p-1", "decisions": []any{
				object{"effect_ref": "orders/1", "idempotency_key": "d-1", "target_state": object{
					"method": "POST", "url": "https://api.example.com/v1/orders", "allowlist_key": "orders",
					"params": object{"dry": false}, "body": object{"amount": 10}, "idempotency_key": "order-4711",
				}},
				object{"effect_ref": "orders/2", "target_state": object{"url": "https://api.example.com/v1/orders/2", "allowlist_key": "x"}},
			}},
		})})},
		"responses": responses(object{
			"200": object{
				"description": "The plan has ended; the report lists the result of each decision.",
				"headers":     withHeaders("Weir-Action-Id", "Idempotency-Replayed", "Preference-Applied"),
				"content":     content(schema("PlanResult"), object{"report": example("A report", report)}),
			},
			"202": receipt("plan"),
		}, doors("InFlight", "OutcomeUnknown", "Expired")...),
	}
}

func cancel() object {
	status := func(description string, s object) object {
		return object{"description": description, "headers": withHeaders("Weir-Action-Id"), "content": content(schema("ActionStatus"), object{"status": example("A status", s)})}
	}
	return object{
		"operationId": "cancel",
		"summary":     "Stop an action",
		"description": "A queued action ends at once. A running one is asked to stop, and may still succeed: a call that may have had its effect is not cut off.",
		"tags":        []any{"actions"},
		"responses": responses(object{
			"200": status("It has ended: nothing was sent.", object{"id": actionID, "status": "canceled"}),
			"202": status("It was asked to stop.", object{"id": actionID, "status": "started", "cancel_requested": true}),
		}, "BadRequest", "Unauthorized", "Forbidden", "NotFound", "Conflict", "Gone", "Unavailable"),
	}
}

func resolve() object {
	return object{
		"operationId": "resolve",
		"summary":     "Resolve an unknown outcome",
		"description": "A person's word counts once and changes no outcome: it is kept beside it.",
		"tags":        []any{"actions"},
		"requestBody": object{"required": true, "content": content(schema("ResolveRequest"), object{
			"applied": example("It had its effect", object{"effect": "applied", "note": "the order exists"}),
		})},
		"responses": responses(object{"200": object{
			"description": "The resolution is stored.", "headers": withHeaders("Weir-Action-Id"),
			"content": content(schema("ActionStatus"), object{"status": example("A status", object{"id": actionID, "status": "outcome_unknown", "resolution": "applied"})}),
		}}, doors("NotFound", "Conflict", "Gone")...),
	}
}

func redriveAction() object {
	return object{
		"operationId": "redriveAction",
		"summary":     "Make a new action of one that failed",
		"description": "The new action has the payload of the old one, and each names the other. An action has one redrive: a repeat returns it. " +
			"Refused are an action that has not ended, one that succeeded, and one of which a call may have taken effect and must not be repeated. " +
			"If the outcome is unknown, resolve it first: an action resolved as not_applied can be redriven. Runs and completions are repeated by their own requests.",
		"tags":      []any{"actions"},
		"responses": responses(object{"202": receipt("http")}, "BadRequest", "Unauthorized", "Forbidden", "NotFound", "Conflict", "Gone", "RateLimited", "Unavailable"),
	}
}

func redrive() object {
	return object{
		"operationId": "redrive",
		"summary":     "Make a new action of a parked one",
		"description": "The new action names the old one, as that of POST /v1/actions/{id}/redrive. Redriving an action twice, by whichever route, makes one action.",
		"tags":        []any{"actions"},
		"requestBody": object{"required": true, "content": content(schema("RedriveRequest"), object{"letter": example("The seq of a dead letter", object{"sequence": 7})})},
		"responses":   responses(object{"202": receipt("http")}, doors("NotFound", "Conflict", "Gone")...),
	}
}
