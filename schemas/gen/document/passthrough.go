package document

import (
	"net/http"
	"strings"

	"weir/schemas"
)

// viaPaths are the routes of passthrough: every method of every path.
func viaPaths() object {
	entry := object{
		"name": "entry", "in": "path", "required": true, "description": "The name of an entry of the policy that has one exact host.",
		"schema": object{"type": "string", "pattern": `^[A-Za-z0-9._:-]{1,128}$`}, "example": "github",
	}
	path := object{
		"name": "path", "in": "path", "required": true, "description": "The path of the call at the entry's host. It may have slashes; it and the query are sent as they came.",
		"schema": object{"type": "string"}, "example": "repos/acme/shop",
	}
	whole := object{"parameters": []any{entry}}
	below := object{"parameters": []any{entry, path}}
	for _, method := range schemas.Methods() {
		if method == http.MethodHead { // as everywhere, where GET is
			continue
		}
		name := strings.ToLower(method)
		whole[name], below[name] = passthrough(name, ""), passthrough(name, "Path")
	}
	return object{schemas.RoutePassthrough + "{entry}": whole, schemas.RoutePassthrough + "{entry}/{path}": below}
}

func passthrough(method, suffix string) object {
	op := object{
		"operationId": "passthrough" + strings.ToUpper(method[:1]) + method[1:] + suffix,
		"summary":     "Pass a request through",
		"description": "The request goes to the entry's host with its method, path, query, headers and body, and the target's answer comes back as it is, while it arrives. " +
			"The token may be where the API of the target has its key: Authorization with Bearer, token or Basic, or X-Api-Key; it is not passed on.",
		"tags":       []any{"write"},
		"parameters": []any{parameter("IdempotencyKey"), parameter("Prefer"), parameter("Delay"), parameter("NotBefore"), parameter("Priority")},
		"responses": responses(object{
			"200": answered("The target's answer, with any status and any body."),
			"202": receipt("passthrough"),
			"502": refusal(http.StatusBadGateway, schemas.UpstreamConnect, "the target could not be connected to", "Weir-Action-Id", schemas.HeaderRefused),
		}, doors("NotFound", "OutcomeUnknown", "Expired")...),
	}
	if method != "get" {
		op["requestBody"] = object{"content": object{"*/*": object{"schema": object{"type": "string", "format": "binary"}, "examples": object{"body": example("A form", "amount=10&currency=eur")}}}}
	}
	return op
}

// answered is the answer of a target.
func answered(description string) object {
	return object{
		"description": description, "headers": withHeaders("Weir-Action-Id"),
		"content": object{"*/*": object{"schema": object{"type": "string", "format": "binary"}, "examples": object{"answer": example("An answer", `{"id":1}`)}}},
	}
}

func showResponse() object {
	return object{
		"operationId": "showResponse",
		"summary":     "Read the answer of a call's target",
		"description": "Status, headers and body as they came, of an action of kind http or passthrough; while a streamed answer arrives, as much as has come and then the rest. " +
			"409 if there is no answer yet, 404 if the action ended without one.",
		"tags":      []any{"actions"},
		"responses": responses(object{"200": answered("The target's answer, with its status.")}, readers("NotFound", "Conflict", "Gone")...),
	}
}
