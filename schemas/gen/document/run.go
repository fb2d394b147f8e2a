package document

import (
	"maps"
	"net/http"
	"strconv"

	"weir/schemas"
)

// runID is the caller's own name for the run of all examples.
const runID = "orchestrator-4711"

func runRequest() object {
	return object{"required": true, "content": content(schema("RunRequest"), object{
		"agent": example("A run of a remote agent", object{
			"request_id": runID, "task_type": "LIT_RETRIEVAL", "workflow_id": "w-1", "stage_id": "3", "user_id": "u-7", "mode": "LIVE",
			"risk_tier": schemas.RiskSensitive, "domain_id": "clinical", "inputs": object{"query": "statins"},
			"budgets": object{"max_output_tokens": 2000, "timeout_ms": 60000},
		}),
		"execute": example("One HTTP request, as POST /v1/execute makes it", object{
			"request_id": runID, "task_type": schemas.TaskHTTPExecute, "risk_tier": schemas.RiskNonSensitive,
			"inputs": object{"method": "GET", "url": "http://localhost:9000/health"},
		}),
		"plan": example("A plan, as POST /v1/plans carries it out", object{
			"request_id": runID, "task_type": schemas.TaskHTTPPlan,
			"inputs": object{"state:env.snapshot": object{"snapshot_id": "s-1"}, "artifact:proposed.plan": object{"plan_id": "p-1", "decisions": []any{}}},
		}),
		"echo": example("Three steps and the inputs again", object{
			"request_id": runID, "task_type": schemas.TaskEcho, "inputs": object{"steps": 3, "interval_ms": 100},
		}),
	})}
}

func runSync() object {
	ok := object{
		"status": schemas.RunOK, "request_id": runID, "outputs": object{"papers": []any{object{"title": "t"}}},
		"usage": object{"duration_ms": 1204}, "warnings": []any{"the agent answered degraded"},
	}
	failed := object{
		"status": schemas.RunFault, "request_id": runID, "outputs": object{},
		"error": object{"code": string(schemas.AgentUnavailable), "message": "the agent could not be reached; nothing was begun"},
	}
	return object{
		"operationId": "runSync",
		"summary":     "Have a run carried out",
		"description": "The run goes to the agent that its task type names, or is carried out here: HTTP_EXECUTE, HTTP_PLAN and ECHO. " +
			"Its request_id names it: the same body again joins it, on either route, and gets the stored answer. It ends by its budgets.timeout_ms.",
		"tags":        []any{"runs"},
		"parameters":  []any{parameter("Prefer"), parameter("Delay"), parameter("NotBefore"), parameter("Priority")},
		"requestBody": runRequest(),
		"responses": refusals(object{
			"200": object{
				"description": "The run has ended, well or not: status says which.",
				"headers":     withHeaders("Weir-Action-Id", "Preference-Applied"),
				"content":     content(schema("RunResponse"), object{"ok": example("It succeeded", ok), "failed": example("It did not", failed)}),
			},
			"202": receipt("run"),
		}),
	}
}

const runFrames = "id: 40\nevent: started\ndata: {\"type\":\"started\",\"request_id\":\"" + runID + "\",\"task_type\":\"ECHO\"}\n\n" +
	"id: 44\nevent: progress\ndata: {\"type\":\"progress\",\"request_id\":\"" + runID + "\",\"task_type\":\"ECHO\",\"step\":1}\n\n" +
	"id: 46\nevent: complete\ndata: {\"type\":\"final\",\"request_id\":\"" + runID + "\",\"task_type\":\"ECHO\",\"status\":\"ok\",\"success\":true,\"outputs\":{}}\n\n"

func runStream() object {
	return object{
		"operationId": "runStream",
		"summary":     "Have a run carried out, and follow it",
		"description": "As the other route, with the run's events for an answer. The stream may be cut: the same body with Last-Event-ID goes on after that event, on any node. " +
			"So does GET /v1/actions/{id}/events, whose ids are the same.",
		"tags":        []any{"runs"},
		"parameters":  []any{parameter("LastEventID"), parameter("Delay"), parameter("NotBefore"), parameter("Priority")},
		"requestBody": runRequest(),
		"responses": refusals(object{
			"200": object{
				"description": "The events: started, progress as often as there is some, and complete, once and last.",
				"headers":     withHeaders("Weir-Action-Id"),
				"content": object{"text/event-stream": object{
					"schema":   object{"type": "string", "description": "Each event's data is a RunEvent. The data of an agent's progress event is next to its members."},
					"examples": object{"stream": example("A run of one step", runFrames)},
				}},
			},
			"204": object{"description": "The run has ended, and there is no event after this one: stop resuming."},
			"410": refused(410, schemas.StreamGone, "events after this position were dropped; ask for the run under /v1/actions", ""),
		}),
	}
}

// refusals puts the answers of a route of runs together: its own, and the ones
// to what was not accepted.
func refusals(own object) object {
	for _, r := range []struct {
		status  int
		code    schemas.Code
		message string
		name    string
	}{
		{400, schemas.UnsupportedTaskType, "there is no agent for this task_type", runID},
		{401, schemas.Unauthorized, "a bearer token is needed", ""},
		{403, schemas.Forbidden, "the token may not run this task_type", runID},
		{409, schemas.Conflict, "this request_id belongs to another request; use a new one for a new action", runID},
		{413, schemas.PayloadTooLarge, "the body is larger than is allowed", ""},
		{415, schemas.UnsupportedMediaType, "the body must be application/json", ""},
		{422, schemas.ValidationError, "at /budgets/timeout_ms: must be a whole number from 1 to 86400000", runID},
		{429, schemas.RateLimited, "too many requests", ""},
		{500, schemas.Internal, "the request could not be completed", ""},
		{503, schemas.Unavailable, "the log did not answer; try again", runID},
	} {
		own[strconv.Itoa(r.status)] = refused(r.status, r.code, r.message, r.name)
	}
	return own
}

func refused(status int, code schemas.Code, message, name string) object {
	doc := object{
		"ok": false, "status": schemas.RunFault, "outputs": object{}, "warnings": []any{},
		"error": object{"code": string(code), "message": message}, "code": string(code), "retryable": status == 429 || status == 503,
	}
	if name != "" {
		doc["request_id"] = name
	}
	if code == schemas.UnsupportedTaskType {
		doc["code"] = string(schemas.ValidationError)
	}
	headers := []string{}
	switch status {
	case http.StatusTooManyRequests:
		headers = append(headers, "Retry-After")
	case http.StatusServiceUnavailable:
		headers = append(headers, "Weir-Action-Id", "Location", "Retry-After")
	}
	return object{
		"description": "The run was not accepted: " + message,
		"headers":     withHeaders(headers...),
		"content":     content(schema("RunRefusal"), object{"refusal": example("A refusal", doc)}),
	}
}

func health() object {
	return service("health", "Is the process alive?", object{"200": object{
		"description": "It is.",
		"content":     content(schema("Health"), object{"ok": example("Alive", object{"status": schemas.HealthOK})}),
	}})
}

// agentReady is the readiness as agents of tasks read it.
func agentReady() object {
	text := func(word string) object {
		return object{"text/plain": object{"schema": object{"type": "string"}, "examples": object{"text": example(word, word)}}}
	}
	return service("ready", "Can the node do its work? As text", object{
		"200": object{"description": "It can.", "content": text("Ready")},
		"503": object{"description": "It cannot now.", "headers": withHeaders("Retry-After"), "content": text("Not ready")},
	})
}

// healthReady is the readiness in the run contract's form.
func healthReady() object {
	facts := func(status string, more object) object {
		doc := object{"status": status, "durability": "disk", "partitions": 1, "policy_version": "9a1f0c44"}
		maps.Copy(doc, more)
		return doc
	}
	ready := facts(schemas.HealthReady, object{"ready": true, "checks": object{"log": "ok", "feed": "ok"}})
	not := facts(schemas.HealthNotReady, object{"ready": false, "checks": object{"log": "failed", "feed": "ok"}, "reasons": []any{"log is not ready"}})
	return service("healthReady", "Can the node do its work?", object{
		"200": object{"description": "It can.", "content": content(schema("HealthReadiness"), object{"ready": example("Ready", ready)})},
		"503": object{"description": "It cannot now.", "headers": withHeaders("Retry-After"), "content": content(schema("HealthReadiness"), object{"not": example("Not ready", not)})},
	})
}
