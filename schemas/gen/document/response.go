package document

import (
	"net/http"

	"weir/schemas"
)

// modelResponse is the route of a response by its id.
func modelResponse() object {
	query := func(name, description string, schema object, example any) object {
		return object{"name": name, "in": "query", "description": description, "schema": schema, "example": example}
	}
	const id = "resp_0199f0c2-7f1e-7c3a-9d55-2f6b0a4c1e10"
	return object{
		"operationId": "showModelResponse",
		"summary":     "See a response, or read its stream on",
		"description": "A response that has succeeded is the provider's document. Before that, and after a failure, it is built from the request and the state of its action. " +
			"A token needs actions:read, or must have made the response; the token of a task reads the responses of its task." + spellings,
		"tags": []any{"chat"},
		"parameters": []any{
			query("stream", "Whether to read the stream of events, which continues while the response runs. Only for a response that was made with stream.", object{"type": "boolean"}, true),
			query("starting_after", "With stream: begin with the first event whose sequence_number is larger.", object{"type": "integer", "minimum": 0}, 4),
			query("include", "Has no effect: the request that made the response has decided it. So has include_obfuscation.", object{"type": "array", "items": object{"type": "string"}}, []any{"reasoning.encrypted_content"}),
		},
		"responses": chatRefusals(object{"200": object{
			"description": "The response, or its events. A stream that fails ends with response.failed. One that ends earlier, because its node stops, has an event error that says how to read on.",
			"headers":     withHeaders("Weir-Action-Id", schemas.HeaderGeneration),
			"content": object{
				"application/json": object{"schema": schema("Response"), "examples": object{"running": example("A response that runs", object{
					"id": id, "object": "response", "created_at": 1795262400, "status": schemas.ResponseInProgress, "background": true, "error": nil,
					"incomplete_details": nil, "model": modelID, "output": []any{}, "previous_response_id": nil, "usage": nil,
				})}},
				"text/event-stream": object{"schema": object{"type": "string"}, "examples": object{"stream": example("Its last events",
					"event: response.output_text.delta\nid: 47\ndata: {\"type\":\"response.output_text.delta\",\"sequence_number\":5,\"delta\":\"lo.\"}\n\n"+
						"event: response.completed\nid: 48\ndata: {\"type\":\"response.completed\",\"sequence_number\":6,\"response\":{\"id\":\""+id+"\"}}\n\n")}},
			},
		}}, http.StatusGatewayTimeout),
	}
}

// responseID is the parameter of the routes of a response.
func responseID() object {
	return object{
		"name": "id", "in": "path", "required": true, "description": "The id of a response: resp_ and the id of its action.",
		"schema": object{"type": "string", "pattern": "^resp_"}, "example": "resp_0199f0c2-7f1e-7c3a-9d55-2f6b0a4c1e10",
	}
}
