package document

import (
	"net/http"
	"strconv"
	"strings"

	"weir/schemas"
)

// modelID is the model of all examples.
const modelID = "openai/gpt-5"

// spellings says where else a route is served.
const spellings = " The route is served under /v1, /api and /api/v1 as well."

// chatPaths are the routes of chat completions, of models, and of responses by their ids.
func chatPaths() object {
	id := object{
		"name": "id", "in": "path", "required": true, "description": "The name of a model. Its slashes stay as they are.",
		"schema": object{"type": "string", "minLength": 1, "maxLength": schemas.MaxModel}, "example": "gpt-5",
	}
	return object{
		schemas.RouteChat:             object{"post": chat()},
		schemas.RouteModels:           object{"get": listModels()},
		schemas.RouteModels + "/{id}": object{"parameters": []any{id}, "get": showModel()},

		schemas.RouteResponses + "/{id}": object{"parameters": []any{responseID()}, "get": modelResponse()},
	}
}

func chat() object {
	return object{
		"operationId": "chat",
		"summary":     "Have a model answer",
		"description": "The request is stored, judged by policy and budgets, and sent to an upstream of the model, with a key that no caller sees. " +
			"Another upstream is asked where one cannot answer, until the first of an answer has come. The answer is kept: the same Idempotency-Key with the same body gets it again, or " +
			"joins the stream where Last-Event-ID says. A client that goes away stops nothing, unless it says so." + spellings,
		"tags":        []any{"chat"},
		"parameters":  chatParameters(),
		"requestBody": chatRequest(),
		"responses": chatRefusals(object{
			"200": chatAnswer(),
			"202": receipt("chat"),
		}, answerStatuses()...),
	}
}

func chatParameters() []any {
	header := func(name, description, example string, schema object) object {
		return object{"name": name, "in": "header", "description": description, "schema": schema, "example": example}
	}
	return []any{
		header("Idempotency-Key", "Names the completion. The same key with the same body joins it, running or ended; with another body it is refused with 422.",
			"chat-4711", object{"type": "string", "minLength": 1, "maxLength": 255}),
		header(schemas.HeaderOnDisconnect, "Whether the completion stops when this client leaves before its end and it has no other reader on the same node.",
			schemas.DisconnectCancel, object{"type": "string", "enum": []any{schemas.DisconnectCancel, schemas.DisconnectContinue}}),
		header("Last-Event-ID", "Resume the stream after this event. Behind a dot stands how many chunks of it were given, where there are more.",
			"41.2", object{"type": "string", "pattern": `^[0-9]{1,20}(\.[1-9][0-9]{0,9})?$`}),
		parameter("Prefer"),
	}
}

func chatRequest() object {
	talk := []any{object{"role": "user", "content": "Say hello."}}
	return object{"required": true, "content": content(schema("ChatRequest"), object{
		"least": example("A question", object{"model": modelID, "messages": talk}),
		"stream": example("A stream with its usage, and another model to fall back on", object{
			"model": modelID, "models": []any{"anthropic/claude"}, "messages": talk, "stream": true, "stream_options": object{"include_usage": true},
		}),
		"tools": example("A tool", object{"model": modelID, "messages": talk, "max_tokens": 500, "tools": []any{
			object{"type": "function", "function": object{"name": "weather", "parameters": object{"type": "object", "properties": object{"city": object{"type": "string"}}}}},
		}}),
	})}
}

func chatAnswer() object {
	const head = `{"id":"gen-1","object":"chat.completion.chunk","created":1795262400,"model":"` + modelID + `","choices":[{"index":0,"delta":`
	frames := "id: 42.1\ndata: " + head + `{"role":"assistant","content":"Hel"},"finish_reason":null}]}` + "\n\n" +
		"id: 42\ndata: " + head + `{"content":"lo."},"finish_reason":"stop"}]}` + "\n\nid: 44\ndata: [DONE]\n\n"
	answer := object{
		"id": "gen-1", "object": "chat.completion", "created": 1795262400, "model": modelID,
		"choices": []any{object{"index": 0, "message": object{"role": "assistant", "content": "Hello."}, "finish_reason": "stop"}},
		"usage":   object{"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12},
	}
	return object{
		"description": "The whole answer, or its chunks as they arrive. After a stream has begun, an error is in its last chunk, next to its choices. Every stream ends with [DONE].",
		"headers":     withHeaders("Weir-Action-Id", schemas.HeaderGeneration, "Idempotency-Replayed", "Preference-Applied"),
		"content": object{
			"application/json":  object{"schema": schema("ChatCompletion"), "examples": object{"answer": example("An answer", answer)}},
			"text/event-stream": object{"schema": object{"type": "string"}, "examples": object{"stream": example("A stream", frames)}},
		},
	}
}

func listModels() object {
	return object{
		"operationId": "listModels",
		"summary":     "See the models that may be used",
		"description": "Exact names and aliases, and for patterns the models that their providers list. A name that only a pattern matches can be used without being listed. Without limit the list is whole. Other parameters are ignored. With the header anthropic-version, errors have the form of Anthropic's API." + spellings,
		"tags":        []any{"chat"},
		"parameters": []any{
			query("limit", "The most models of a page, 1 to 1000.", object{"type": "integer", "minimum": 1, "maximum": 1000}),
			query("after_id", "Only models after this id.", object{"type": "string"}),
			query("before_id", "Only models before this id.", object{"type": "string"}),
		},
		"responses": chatRefusals(object{"200": object{
			"description": "The models, by name.",
			"content": content(schema("ModelList"), object{"models": example("Two of them", object{
				"object": "list", "data": []any{aliasModel(), modelExample()}, "has_more": false, "first_id": "fast", "last_id": modelID,
			})}),
		}}),
	}
}

func showModel() object {
	return object{
		"operationId": "showModel",
		"summary":     "See a model",
		"description": "The name may have slashes." + spellings,
		"tags":        []any{"chat"},
		"responses": chatRefusals(object{"200": object{
			"description": "The model.",
			"content":     content(schema("ModelView"), object{"model": example("A model", modelExample())}),
		}}),
	}
}

func modelExample() object {
	return object{
		"id": modelID, "object": "model", "type": "model", "created": 0, "created_at": "1970-01-01T00:00:00Z", "owned_by": "openai",
		"display_name": modelID, "context_length": 400000,
		"pricing": object{"prompt": "0.00000125", "completion": "0.00001", "request": "0"},
	}
}

func aliasModel() object {
	m := modelExample()
	m["id"], m["display_name"], m["alias_of"] = "fast", "fast", modelID
	return m
}

// chatRefusals puts the answers of a route of chat together: its own, and errors in the
// form of the protocol, of the statuses that every such route has and of more.
func chatRefusals(own object, more ...int) object {
	for _, status := range append(everyStatus(), more...) {
		code, message, metadata := chatFault(status)
		metadata["code"], metadata["request_id"], metadata["status"] = string(code), requestID, status
		own[strconv.Itoa(status)] = object{
			"description": http.StatusText(status) + ": " + message,
			"headers":     withHeaders(retryHeaders(status)...),
			"content": content(schema("ChatRefusal"), object{"error": example("An error", object{
				"error": chatExample(status, code, message, metadata),
			})}),
		}
	}
	return own
}

// requestID is the id of the requests in the examples.
const requestID = "0199f0c2-7f1e-7c3a-9d55-2f6b0a4c1e10"

// everyStatus are the statuses of errors that every route of models has.
func everyStatus() []int {
	return []int{
		http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusTooManyRequests,
		http.StatusInternalServerError, http.StatusServiceUnavailable,
	}
}

// retryHeaders are the headers of an error that passes by itself.
func retryHeaders(status int) []string {
	if status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable {
		return []string{"Retry-After"}
	}
	return nil
}

// chatExample is an error in the protocol's words.
func chatExample(status int, code schemas.Code, message string, metadata object) object {
	e := object{"message": message, "type": "invalid_request_error", "param": nil, "code": strings.ToLower(string(code)), "metadata": metadata}
	switch {
	case code == schemas.BudgetExhausted:
		e["type"], e["code"] = "insufficient_quota", "insufficient_quota"
	case code == schemas.Unauthorized:
		e["type"], e["code"] = "authentication_error", "invalid_api_key"
	case code == schemas.RateLimited:
		e["type"], e["code"] = "rate_limit_error", "rate_limit_exceeded"
	case status == http.StatusForbidden:
		e["type"] = "permission_error"
	case status >= http.StatusInternalServerError:
		e["type"] = "server_error"
	}
	if strings.HasPrefix(message, "at /model: ") {
		e["param"] = "model"
	}
	return e
}

// chatFault is an error for each status.
func chatFault(status int) (code schemas.Code, message string, metadata object) {
	switch status {
	case http.StatusUnauthorized:
		return schemas.Unauthorized, "a bearer token is needed", object{}
	case http.StatusPaymentRequired:
		return schemas.BudgetExhausted, "the budget monthly has not enough left for the worst case of this request: ask for less (max_tokens), or have the budget raised", object{"limit_source": "monthly", "limit_what": schemas.BudgetUSD}
	case http.StatusForbidden:
		return schemas.Forbidden, "at /model: the token may not use this model; GET /models shows those it may", object{}
	case http.StatusNotFound:
		return schemas.ModelNotFound, "at /model: there is no such model here; GET /models shows those there are", object{}
	case schemas.ChatCanceled:
		return schemas.Canceled, "the completion was canceled", object{}
	case http.StatusConflict:
		return schemas.Conflict, "this id was used by an action whose history has been dropped; use a new one", object{}
	case http.StatusRequestEntityTooLarge:
		return schemas.PayloadTooLarge, "the body is larger than 16777216 bytes", object{}
	case http.StatusUnsupportedMediaType:
		return schemas.UnsupportedMediaType, "the media type is not accepted; send Content-Type: application/json", object{}
	case http.StatusUnprocessableEntity:
		return schemas.IdempotencyMismatch, "this Idempotency-Key was used for another request; use a new key for a new action", object{}
	case http.StatusTooManyRequests:
		return schemas.RateLimited, "the window of the budget hourly is full; wait as long as Retry-After says", object{"limit_source": "hourly", "limit_what": schemas.BudgetTokens}
	case http.StatusInternalServerError:
		return schemas.Internal, "something went wrong on our side", object{}
	case http.StatusBadGateway:
		return schemas.ModelFailed, "the provider could not answer", object{"provider_name": "openai"}
	case http.StatusServiceUnavailable:
		return schemas.Unavailable, "the log did not answer; try again", object{}
	case http.StatusGatewayTimeout:
		return schemas.UpstreamTimeout, "the provider did not answer in time", object{"provider_name": "openai"}
	default:
		return schemas.ValidationError, "at /api_base: a request cannot choose where it goes; leave this member out", object{}
	}
}
