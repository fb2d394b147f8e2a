package document

import (
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"weir/schemas"
)

// The names that the examples of errors use.
const (
	actionID  = "0199f0c2-8a44-7b6e-8f3d-5c1a9e7d2b40"
	requestID = "0199f0c2-7f1e-7c3a-9d55-2f6b0a4c1e10"
	agentID   = "req-2026-01-01-0001"
	runID     = "orchestrator-4711"
)

// failure is an error that a route may answer with.
type failure struct {
	status  int
	code    schemas.Code
	message string
	// about is what the protocol adds: the error's variant, its detail, or the name of its request.
	about string
	more  object // other members of the example
}

// failures are the answers with errors: those that are components, by their names, and all groups that an
// operation may name, by status. Each component is a group of its own.
func failures() (components object, groups map[string]object) {
	components, groups = object{}, map[string]object{}
	for name, f := range problems() {
		components[name] = f.problem()
		groups[name] = object{strconv.Itoa(f.status): reference("responses", name)}
	}
	for name, members := range map[string]string{
		"reads":  "BadRequest Unauthorized Forbidden Unavailable",
		"writes": "BadRequest Unauthorized Forbidden TooLarge MediaType Unprocessable RateLimited Internal Unavailable",
		"agents": "BadRequest Unauthorized Forbidden RateLimited Internal Unavailable",
		"git":    "Protocol Unauthorized Forbidden NotFound RateLimited Internal Unavailable",
	} {
		groups[name] = object{}
		for member := range strings.FieldsSeq(members) {
			maps.Copy(groups[name], groups[member])
		}
	}
	unreachable := failure{status: 502, code: schemas.UpstreamConnect, message: "the target could not be connected to"}
	groups["TargetUnreachable"] = object{"502": unreachable.problem("Weir-Action-Id", schemas.HeaderRefused)}

	groups["execute"], groups["batch"] = answers(executeFailures(), failure.execute), answers(batchFailures(), failure.batch)
	groups["runs"], groups["runGone"] = answers(runFailures(), failure.run), answers([]failure{
		{410, schemas.StreamGone, "events after this position were dropped; ask for the run under /v1/actions", "", nil},
	}, failure.run)
	groups["agentAPI"], groups["rulesReset"] = answers(agentFailures(), failure.agent), answers(resetFailures(), failure.agent)
	every, more := chatFailures()
	timeout := slices.DeleteFunc(slices.Clone(more), func(f failure) bool { return f.status != http.StatusGatewayTimeout })
	groups["chat"], groups["chatAnswers"], groups["chatTimeout"] = answers(every, failure.chat), answers(more, failure.chat), answers(timeout, failure.chat)
	groups["messages"] = answers(slices.Concat(every, more), failure.messages)
	return components, groups
}

func answers(list []failure, write func(failure) object) object {
	out := object{}
	for _, f := range list {
		out[strconv.Itoa(f.status)] = write(f)
	}
	return out
}

// answer is an answer with one example, which has a name and a summary.
func answer(description string, headers []string, media, component, name, summary string, value object) object {
	short := object{"description": description, "headers": []any{}, media: object{
		"schema": component, "examples": object{name: []any{summary, value}},
	}}
	for _, h := range headers {
		short["headers"] = append(member[[]any](short, "headers"), h)
	}
	return body(short)
}

// passing reports whether a status is of an error that passes by itself.
func passing(status int) bool {
	return status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable
}

// problems are the errors of the routes without an envelope of their own.
func problems() map[string]failure {
	return map[string]failure{
		"BadRequest":     {status: 400, code: schemas.InvalidRequest, message: "the parameter limit must be a number from 1 to 1000"},
		"NotRunning":     {status: 400, code: schemas.TaskNotRunning, message: "Task is not running"},
		"Protocol":       {status: 400, code: schemas.GitProtocolRequired, message: "use version 2 of git's protocol, or version 0"},
		"Unauthorized":   {status: 401, code: schemas.Unauthorized, message: "a bearer token is needed"},
		"Forbidden":      {status: 403, code: schemas.Forbidden, message: "the token does not allow this"},
		"NotFound":       {status: 404, code: schemas.NotFound, message: "there is no such action"},
		"NoTask":         {status: 404, code: schemas.NotFound, message: "there is no task to lease; ask again", about: "Retry-After"},
		"NotAcceptable":  {status: 406, code: schemas.NotAcceptable, message: "events come as text/event-stream or application/json"},
		"Conflict":       {status: 409, code: schemas.Conflict, message: "the action has ended already: succeeded"},
		"InFlight":       {status: 409, code: schemas.InFlight, message: "the first request with this key has not ended yet, and this answer is not final", about: "Retry-After"},
		"Gone":           {status: 410, code: schemas.StreamGone, message: "events after this position were dropped; resume just before earliest_id", about: "Link", more: object{"earliest_id": "1203"}},
		"TooLarge":       {status: 413, code: schemas.PayloadTooLarge, message: "the body is larger than is allowed"},
		"PackSize":       {status: 413, code: schemas.GitPackTooLarge, message: "the push is larger than this node takes"},
		"MediaType":      {status: 415, code: schemas.UnsupportedMediaType, message: "the body must be application/json"},
		"Unprocessable":  {status: 422, code: schemas.ValidationError, message: "plan.decisions must be a non-string sequence"},
		"OutcomeUnknown": {status: 424, code: schemas.OutcomeUnknownCode, message: schemas.UnknownText},
		"RateLimited":    {status: 429, code: schemas.RateLimited, message: "too many requests", about: "Retry-After"},
		"Internal":       {status: 500, code: schemas.Internal, message: "the request could not be completed"},
		"Unavailable":    {status: 503, code: schemas.Unavailable, message: "the log did not answer; try again", about: "Retry-After"},
		"Expired":        {status: 504, code: schemas.DeadlineExceeded, message: "the plan's deadline passed"},
	}
}

// problem is the answer in the form of RFC 9457. A problem is about the header that comes with it.
func (f failure) problem(headers ...string) object {
	if f.about != "" {
		headers = append(headers, f.about)
	}
	text := f.message
	if f.status == http.StatusGone {
		text = "the history begins later"
	}
	value := object{
		"type": "about:blank", "title": http.StatusText(f.status), "status": f.status, "detail": f.message,
		"code": string(f.code), "request_id": requestID, "retryable": passing(f.status),
	}
	maps.Copy(value, f.more)
	return answer(http.StatusText(f.status)+": "+text, headers, "application/problem+json", "Problem", "problem", "A problem", value)
}

func executeFailures() []failure {
	const target = "the target answered with status 503 Service Unavailable"
	request := string(schemas.VariantRequest)
	retryable := object{"retryable": true}
	return []failure{
		{400, schemas.ValidationError, "missing required argument 'url'", string(schemas.VariantMissingArgument), nil},
		{401, schemas.Unauthorized, "a bearer token is needed", request, nil},
		{403, schemas.DenyHost, "disallowed host 'h'", string(schemas.VariantDisallowedHost), object{"rule": "orders", "reason": "the host is not the entry's"}},
		{409, schemas.InFlight, "the first request with this key has not ended yet, and this answer is not final", request, retryable},
		{413, schemas.PayloadTooLarge, "the body is larger than is allowed", request, nil},
		{415, schemas.UnsupportedMediaType, "the body must be application/json", request, nil},
		{422, schemas.ResponseSchemaInvalid, "/ok: must be true", string(schemas.VariantSchemaValidationFailed), nil},
		{424, schemas.OutcomeUnknownCode, schemas.UnknownText, string(schemas.VariantOutcomeUnknown), object{
			"attempts": 1, "action_url": "/v1/actions/" + actionID, "resolve_url": "/v1/actions/" + actionID + "/resolve",
		}},
		{429, schemas.RateLimited, "too many requests", request, retryable},
		{500, schemas.Internal, "the request could not be completed", request, nil},
		{502, schemas.RetriesExhausted, "every attempt failed, 3 in all; the last: " + target, string(schemas.VariantRetriesExhausted), object{
			"retryable": true, "attempts": 3, "last_error": target, "status": 503,
			"history": []any{
				object{"attempt": 1, "outcome": "timeout"}, object{"attempt": 2, "outcome": "connect"}, object{"attempt": 3, "outcome": object{"status": 503}},
			},
			"headers": []any{object{"name": "retry-after", "value": "5"}}, "body": object{"busy": true},
		}},
		{503, schemas.Unavailable, "the log did not answer; try again", request, retryable},
		{504, schemas.DeadlineExceeded, "the action's deadline passed", string(schemas.VariantExpired), nil},
	}
}

// batchFailures are those of a batch as a whole. Only an item can have the others.
func batchFailures() []failure {
	list := slices.DeleteFunc(executeFailures(), func(f failure) bool {
		return slices.Contains([]int{403, 409, 422, 424, 502, 504}, f.status)
	})
	return append(list, failure{403, schemas.Forbidden, "the token lacks the scope actions:write", string(schemas.VariantRequest), nil})
}

// execute is the answer in the executor's envelope, about a variant.
func (f failure) execute() object {
	return f.executor(map[int]string{
		400: "An argument is missing or wrong.",
		401: "A token is needed.",
		403: "Policy refuses the call: nothing was sent.",
		409: "The id or the key belongs to another action, or to a running one; or the action was canceled.",
		413: "The body is too large.",
		415: "The body is not JSON.",
		422: "A schema or postcondition cannot be used or does not hold; or the key was used with another body.",
		424: "It is unknown whether the call took effect. It must not be sent again.",
		429: "Too many requests.",
		500: "A fault of this node's own.",
		502: "The target failed, was not reached, or answered with a status other than 2xx.",
		503: "The log cannot store the action now.",
		504: "The deadline passed, or the target did not answer in time.",
	}[f.status], "Weir-Action-Id")
}

func (f failure) batch() object {
	if f.status == http.StatusForbidden {
		return f.executor("The token may not send actions.")
	}
	return f.execute()
}

func (f failure) executor(description string, headers ...string) object {
	if passing(f.status) || f.status == http.StatusConflict {
		headers = append(headers, "Retry-After")
	}
	e := object{"variant": f.about, "message": f.message, "code": string(f.code), "retryable": false}
	maps.Copy(e, f.more)
	return answer(description, headers, "application/json", "ExecuteError", "error", "An error", object{"error": e})
}

func runFailures() []failure {
	return []failure{
		{400, schemas.UnsupportedTaskType, "there is no agent for this task_type", runID, object{"code": string(schemas.ValidationError)}},
		{401, schemas.Unauthorized, "a bearer token is needed", "", nil},
		{403, schemas.Forbidden, "the token may not run this task_type", runID, nil},
		{409, schemas.Conflict, "this request_id belongs to another request; use a new one for a new action", runID, nil},
		{413, schemas.PayloadTooLarge, "the body is larger than is allowed", "", nil},
		{415, schemas.UnsupportedMediaType, "the body must be application/json", "", nil},
		{422, schemas.ValidationError, "at /budgets/timeout_ms: must be a whole number from 1 to 86400000", runID, nil},
		{429, schemas.RateLimited, "too many requests", "", nil},
		{500, schemas.Internal, "the request could not be completed", "", nil},
		{503, schemas.Unavailable, "the log did not answer; try again", runID, nil},
	}
}

// run is the answer to a run that was not accepted, about the run of an id.
func (f failure) run() object {
	doc := object{
		"ok": false, "status": schemas.RunFault, "outputs": object{}, "warnings": []any{},
		"error": object{"code": string(f.code), "message": f.message}, "code": string(f.code), "retryable": passing(f.status),
	}
	if f.about != "" {
		doc["request_id"] = f.about
	}
	maps.Copy(doc, f.more)
	return answer("The run was not accepted: "+f.message, laterHeaders(f.status), "application/json", "RunRefusal", "refusal", "A refusal", doc)
}

// laterHeaders are those of an error that passes; a 503 may come after the action was stored.
func laterHeaders(status int) []string {
	switch status {
	case http.StatusTooManyRequests:
		return []string{"Retry-After"}
	case http.StatusServiceUnavailable:
		return []string{"Weir-Action-Id", "Location", "Retry-After"}
	default:
		return nil
	}
}

// unreadFailures of the agent API come before a request is read, so that they repeat nothing of it.
func unreadFailures() []failure {
	unread := object{"request_id": "", "operation": ""}
	return []failure{
		{405, schemas.InvalidRequest, "this path does not serve this method; Allow names those it does", string(schemas.MethodNotAllowed), unread},
		{408, schemas.InvalidRequest, "the body did not come in time; send the request again", string(schemas.RequestTimeout), unread},
		{413, schemas.InvalidRequest, "the body is larger than is allowed", string(schemas.PayloadTooLarge), unread},
		{415, schemas.InvalidRequest, "the body must be application/json", string(schemas.UnsupportedMediaType), unread},
	}
}

func agentFailures() []failure {
	of := func(operation string) object { return object{"operation": operation} }
	return append(unreadFailures(), []failure{
		{400, schemas.InvalidRequest, "at /args/if_match: must be the rules_etag that status or rules.list gave", schemas.DetailIfMatchRequired, of(schemas.OpGlobalOff)},
		{401, schemas.Unauthorized, "send a token that is in force, as request.auth_token or in one header, Authorization: Bearer", schemas.DetailAuthRequired, of(schemas.OpStatus)},
		{403, schemas.Unauthorized, "the agent API is disabled on this node", schemas.DetailAPIDisabled, of(schemas.OpStatus)},
		{404, schemas.NotFound, "there is no rule with this id", "", of(schemas.OpRulesGet)},
		{409, schemas.RuleLimitExceeded, "there are as many rules as there may be", "", of(schemas.OpRulesCreate)},
		{410, schemas.InternalError, "the history of this record has been dropped", string(schemas.StreamGone), of(schemas.OpGlobalOff)},
		{412, schemas.EtagMismatch, "the rules have changed; read them again", "", of(schemas.OpRulesPatch)},
		{422, schemas.ValidationError, "there is a rule with this id already", schemas.DetailRuleExists, of(schemas.OpRulesCreate)},
		{424, schemas.InternalError, "it is unknown whether the write was made: read the rules", string(schemas.OutcomeUnknownCode), of(schemas.OpRulesEnable)},
		{429, schemas.RateLimited, "too many requests", "", of(schemas.OpRulesList)},
		{500, schemas.InternalError, "the stored rules cannot be read here", schemas.DetailRulesUnreadable, of(schemas.OpRulesList)},
		{503, schemas.InternalError, "the log did not answer; try again", string(schemas.Unavailable), of(schemas.OpGlobalOff)},
		{504, schemas.InternalError, "the time for the write is over: read the rules", string(schemas.DeadlineExceeded), of(schemas.OpGlobalOff)},
	}...)
}

func resetFailures() []failure {
	reset := object{"operation": schemas.OpRulesReset}
	return append(unreadFailures(), []failure{
		{400, schemas.InvalidRequest, "this route takes no body", "", reset},
		{401, schemas.Unauthorized, "send one header, Authorization: Bearer or X-Api-Key, with a token that is in force", schemas.DetailAuthRequired, reset},
		{403, schemas.Unauthorized, "the token lacks the scope admin", schemas.DetailScopeRequired, reset},
		{409, schemas.InternalError, "the write was canceled", string(schemas.Canceled), reset},
		{410, schemas.InternalError, "the history of this record has been dropped", string(schemas.StreamGone), reset},
		{422, schemas.ValidationError, "the rules can be read; disable them instead", "", reset},
		{429, schemas.RateLimited, "too many requests", "", reset},
		{500, schemas.InternalError, "something went wrong on our side", "", reset},
		{503, schemas.InternalError, "the log did not answer; try again", string(schemas.Unavailable), reset},
		{504, schemas.InternalError, "the time for the write is over: read the rules", string(schemas.DeadlineExceeded), reset},
	}...)
}

// agent is the answer in the envelope of the agent API, about a detail.
func (f failure) agent() object {
	e := object{"code": string(f.code), "message": f.message}
	if f.about != "" {
		e["detail"] = f.about
	}
	value := object{"ok": false, "request_id": agentID, "error": e}
	maps.Copy(value, f.more)
	headers := laterHeaders(f.status)
	if slices.Contains([]int{409, 412, 422, 424, 504}, f.status) {
		headers = []string{"Weir-Action-Id"}
	}
	return answer("It was not done: "+f.message, headers, "application/json", "AgentResponse", "refusal", "A refusal", value)
}

// chatFailures are those of every route of models, and those of a request for a model's answer.
func chatFailures() (every, more []failure) {
	limit := func(source, what string) object { return object{"limit_source": source, "limit_what": what} }
	provider := object{"provider_name": "openai"}
	every = []failure{
		{400, schemas.ValidationError, "at /api_base: a request cannot choose where it goes; leave this member out", "", nil},
		{401, schemas.Unauthorized, "a bearer token is needed", "", nil},
		{403, schemas.Forbidden, "at /model: the token may not use this model; GET /models shows those it may", "", nil},
		{404, schemas.ModelNotFound, "at /model: there is no such model here; GET /models shows those there are", "", nil},
		{429, schemas.RateLimited, "the window of the budget hourly is full; wait as long as Retry-After says", "", limit("hourly", schemas.BudgetTokens)},
		{500, schemas.Internal, "something went wrong on our side", "", nil},
		{503, schemas.Unavailable, "the log did not answer; try again", "", nil},
	}
	more = []failure{
		{402, schemas.BudgetExhausted, "the budget monthly has not enough left for the worst case of this request: ask for less (max_tokens), or have the budget raised", "", limit("monthly", schemas.BudgetUSD)},
		{schemas.ChatCanceled, schemas.Canceled, "the completion was canceled", "", nil},
		{409, schemas.Conflict, "this id was used by an action whose history has been dropped; use a new one", "", nil},
		{413, schemas.PayloadTooLarge, "the body is larger than 16777216 bytes", "", nil},
		{415, schemas.UnsupportedMediaType, "the media type is not accepted; send Content-Type: application/json", "", nil},
		{422, schemas.IdempotencyMismatch, "this Idempotency-Key was used for another request; use a new key for a new action", "", nil},
		{502, schemas.ModelFailed, "the provider could not answer", "", provider},
		{504, schemas.UpstreamTimeout, "the provider did not answer in time", "", provider},
	}
	return every, more
}

// chat is the answer in the form of chat completions.
func (f failure) chat() object {
	e := object{"message": f.message, "type": "invalid_request_error", "param": nil, "code": strings.ToLower(string(f.code)), "metadata": f.metadata()}
	switch {
	case f.code == schemas.BudgetExhausted:
		e["type"], e["code"] = "insufficient_quota", "insufficient_quota"
	case f.code == schemas.Unauthorized:
		e["type"], e["code"] = "authentication_error", "invalid_api_key"
	case f.code == schemas.RateLimited:
		e["type"], e["code"] = "rate_limit_error", "rate_limit_exceeded"
	case f.status == http.StatusForbidden:
		e["type"] = "permission_error"
	case f.status >= http.StatusInternalServerError:
		e["type"] = "server_error"
	}
	if strings.HasPrefix(f.message, "at /model: ") {
		e["param"] = "model"
	}
	return f.ofModel("ChatRefusal", object{"error": e})
}

// messages is the answer in the form of the Messages protocol.
func (f failure) messages() object {
	return f.ofModel("MessagesRefusal", object{"type": "error", "request_id": requestID, "error": object{
		"type": schemas.MessagesError(f.status), "message": f.message, "metadata": f.metadata(),
	}})
}

func (f failure) ofModel(component string, value object) object {
	var headers []string
	if passing(f.status) {
		headers = []string{"Retry-After"}
	}
	return answer(http.StatusText(f.status)+": "+f.message, headers, "application/json", component, "error", "An error", value)
}

func (f failure) metadata() object {
	all := object{"code": string(f.code), "request_id": requestID, "status": f.status}
	maps.Copy(all, f.more)
	return all
}
