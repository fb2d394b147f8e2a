package document

import (
	"net/http"
	"strconv"

	"weir/schemas"
)

// claudeID is the model of the examples of the Messages protocol.
const claudeID = "anthropic/claude-opus"

// dialectPaths are the routes of the dialects beside chat completions.
func dialectPaths() object {
	return object{
		schemas.RouteResponses:                  object{"post": createResponse()},
		schemas.RouteResponses + "/{id}/cancel": object{"parameters": []any{responseID()}, "post": cancelResponse()},
		schemas.RouteMessages:                   object{"post": createMessage()},
		schemas.RouteCount:                      object{"post": countTokens()},
		schemas.RouteEmbeddings:                 object{"post": createEmbeddings()},
	}
}

// shared says what all routes of dialects have in common.
const shared = " The request is stored, judged and budgeted as a chat completion is, and its members that Weir does not read are the provider's protocol."

// answerStatuses are the statuses of errors of a request for a model's answer, beside those of every route.
func answerStatuses() []int {
	return []int{
		http.StatusPaymentRequired, schemas.ChatCanceled, http.StatusConflict, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType,
		http.StatusUnprocessableEntity, http.StatusBadGateway, http.StatusGatewayTimeout,
	}
}

// wholeAnswer is an answer of the provider, and its stream where the dialect has one.
func wholeAnswer(description, frames string, answer object) object {
	bodies := object{"application/json": object{
		"schema": object{"type": "object"}, "examples": object{"answer": example("An answer", answer)},
	}}
	if frames != "" {
		bodies["text/event-stream"] = object{"schema": object{"type": "string"}, "examples": object{"stream": example("A stream", frames)}}
	}
	return object{
		"description": description, "content": bodies,
		"headers": withHeaders("Weir-Action-Id", schemas.HeaderGeneration, "Idempotency-Replayed", "Preference-Applied"),
	}
}

func betaHeader(name string) object {
	return object{
		"name": name, "in": "header", "description": "The betas that the request uses. The upstream receives the header as it is.",
		"schema": object{"type": "string", "maxLength": 2048}, "example": "context-1m-2025-08-07",
	}
}

func createResponse() object {
	const id = "resp_0199f0c2-7f1e-7c3a-9d55-2f6b0a4c1e10"
	text := object{"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": []any{
		object{"type": "output_text", "text": "Hello.", "annotations": []any{}},
	}}
	return object{
		"operationId": "createResponse",
		"summary":     "Have a model answer, in the Responses protocol",
		"description": "The id of the response is resp_ and the action's id. A request with background is answered with the response as it is now." + shared + spellings,
		"tags":        []any{"chat"},
		"parameters":  append(chatParameters(), betaHeader("OpenAI-Beta")),
		"requestBody": object{"required": true, "content": content(schema("ResponsesRequest"), object{
			"text":       example("A question", object{"model": modelID, "input": "Say hello."}),
			"items":      example("A stream", object{"model": modelID, "stream": true, "input": []any{object{"role": "user", "content": "Say hello."}}}),
			"background": example("The rest of a conversation, in the background", object{"model": modelID, "input": "Again.", "previous_response_id": id, "background": true}),
		})},
		"responses": chatRefusals(object{
			"200": wholeAnswer("The response, or its events as they arrive. A stream that fails ends with response.failed.",
				"event: response.output_text.delta\nid: 47\ndata: {\"type\":\"response.output_text.delta\",\"sequence_number\":5,\"delta\":\"lo.\"}\n\n"+
					"event: response.completed\nid: 48\ndata: {\"type\":\"response.completed\",\"sequence_number\":6,\"response\":{\"id\":\""+id+"\"}}\n\n",
				object{"id": id, "object": "response", "created_at": 1795262400, "status": "completed", "model": modelID, "output": []any{text}}),
			"202": receipt("chat"),
		}, answerStatuses()...),
	}
}

func cancelResponse() object {
	return object{
		"operationId": "cancelResponse",
		"summary":     "Stop a response",
		"description": "A response that has ended stays as it is. The token needs actions:write and must have made the response; the token of a task stops the responses of its task." + spellings,
		"tags":        []any{"chat"},
		"responses": chatRefusals(object{"200": object{
			"description": "The response, canceled or as it ended.",
			"headers":     withHeaders("Weir-Action-Id", schemas.HeaderGeneration),
			"content": content(schema("Response"), object{"canceled": example("A canceled response", object{
				"id": "resp_0199f0c2-7f1e-7c3a-9d55-2f6b0a4c1e10", "object": "response", "created_at": 1795262400, "status": schemas.ResponseCancelled,
				"background": true, "error": nil, "incomplete_details": nil, "model": modelID, "output": []any{}, "previous_response_id": nil, "usage": nil,
			})}),
		}}, http.StatusGatewayTimeout),
	}
}

func messagesParameters() []any {
	return append(chatParameters(), object{
		"name": "Anthropic-Version", "in": "header", "description": "The version of the protocol, a date; default 2023-06-01. The upstream receives it.",
		"schema": object{"type": "string", "pattern": `^\d{4}-\d{2}-\d{2}$`}, "example": "2023-06-01",
	}, betaHeader("Anthropic-Beta"))
}

// inOtherHeader says where clients of the Messages protocol may send their token.
const inOtherHeader = " The token may be in X-Api-Key if the request has no Authorization."

func createMessage() object {
	return object{
		"operationId": "createMessage",
		"summary":     "Have a model answer, in the Messages protocol",
		"description": "A stream resumes by the same Idempotency-Key and Last-Event-ID." + shared + inOtherHeader + spellings,
		"tags":        []any{"chat"},
		"parameters":  messagesParameters(),
		"requestBody": object{"required": true, "content": content(schema("MessagesRequest"), object{
			"least":  example("A question", object{"model": claudeID, "max_tokens": 1024, "messages": []any{object{"role": "user", "content": "Say hello."}}}),
			"stream": example("A stream", object{"model": claudeID, "max_tokens": 1024, "stream": true, "messages": []any{object{"role": "user", "content": "Say hello."}}}),
		})},
		"responses": messagesRefusals(object{
			"200": wholeAnswer("The message, or its events as they arrive. A stream that fails ends with an event error.",
				"event: content_block_delta\nid: 47\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"lo.\"}}\n\n"+
					"event: message_stop\nid: 48\ndata: {\"type\":\"message_stop\"}\n\n",
				object{
					"id": "msg_1", "type": "message", "role": "assistant", "model": claudeID, "content": []any{object{"type": "text", "text": "Hello."}},
					"stop_reason": "end_turn", "stop_sequence": nil, "usage": object{"input_tokens": 9, "output_tokens": 3},
				}),
			"202": receipt("chat"),
		}, answerStatuses()...),
	}
}

func countTokens() object {
	return object{
		"operationId": "countTokens",
		"summary":     "Count the tokens of a message",
		"description": "An upstream of the model counts them. It costs nothing, and no budget counts it." + inOtherHeader + spellings,
		"tags":        []any{"chat"},
		"parameters":  messagesParameters(),
		"requestBody": object{"required": true, "content": content(schema("CountRequest"), object{
			"least": example("A question", object{"model": claudeID, "messages": []any{object{"role": "user", "content": "Say hello."}}}),
		})},
		"responses": messagesRefusals(object{
			"200": wholeAnswer("How many tokens the request has.", "", object{"input_tokens": 9}),
			"202": receipt("chat"),
		}, answerStatuses()...),
	}
}

func createEmbeddings() object {
	return object{
		"operationId": "createEmbeddings",
		"summary":     "Make embeddings of texts",
		"description": "The answer is no stream." + shared + spellings,
		"tags":        []any{"chat"},
		"parameters":  append(chatParameters(), betaHeader("OpenAI-Beta")),
		"requestBody": object{"required": true, "content": content(schema("EmbeddingsRequest"), object{
			"text":  example("A text", object{"model": "openai/text-embedding-3-small", "input": "Hello."}),
			"texts": example("Texts, with fewer dimensions", object{"model": "openai/text-embedding-3-small", "input": []any{"Hello.", "Bye."}, "dimensions": 256}),
		})},
		"responses": chatRefusals(object{
			"200": wholeAnswer("The embeddings.", "", object{
				"object": "list", "model": "text-embedding-3-small", "usage": object{"prompt_tokens": 2, "total_tokens": 2},
				"data": []any{object{"object": "embedding", "index": 0, "embedding": []any{0.5, -1}}},
			}),
			"202": receipt("chat"),
		}, answerStatuses()...),
	}
}

// messagesRefusals is chatRefusals in the form of the Messages protocol.
func messagesRefusals(own object, more ...int) object {
	for _, status := range append(everyStatus(), more...) {
		code, message, metadata := chatFault(status)
		metadata["code"], metadata["request_id"], metadata["status"] = string(code), requestID, status
		own[strconv.Itoa(status)] = object{
			"description": http.StatusText(status) + ": " + message,
			"headers":     withHeaders(retryHeaders(status)...),
			"content": content(schema("MessagesRefusal"), object{"error": example("An error", object{
				"type": "error", "request_id": requestID,
				"error": object{"type": schemas.MessagesError(status), "message": message, "metadata": metadata},
			})}),
		}
	}
	return own
}
