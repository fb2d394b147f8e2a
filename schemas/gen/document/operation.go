package document

import "weir/schemas"

func showOperations() object {
	return object{
		"operationId": "showOperations",
		"summary":     "See which calls are held back, and why",
		"description": "What operators have decided, and the destinations that are left alone because they asked for it or failed too often. Needs the scope admin, of the tenant default.",
		"tags":        []any{"policy"},
		"responses": responses(object{"200": object{
			"description": "All of them.",
			"content": content(schema("OperationsView"), object{"paused": example("An entry is paused, and a destination is left alone", object{
				"items": []any{pausedEntry()},
				"destinations": []any{object{
					"entry": "search", "destination": "https://search.example.com:443", "state": schemas.DestinationOpen, "until": later, "failures": 100,
				}},
			})}),
		}}, readers("RateLimited")...),
	}
}

func pausedEntry() object {
	return object{"do": schemas.OperationPause, "entry": "github", "reason": "their maintenance", "by": "ops", "at": moment}
}

// operations are the four routes that change what is in force.
func operations() object {
	paused := object{"paused": example("A pause", pausedEntry())}
	pinned := object{"pinned": example("A pin", object{
		"do": schemas.OperationPin, "destination": "https://api.github.com:443", "state": schemas.PinClosed, "by": "ops", "at": moment,
	})}
	entry := object{"entry": example("An entry", object{"entry": "github"}), "tenant": example("A tenant", object{"tenant": "acme"})}
	why := object{
		"entry": example("An entry", object{"entry": "github", "reason": "their maintenance"}),
		"kind":  example("A kind of action", object{"kind": "plan"}),
	}
	how := object{
		"closed": example("Allow its calls despite failures", object{"destination": "https://api.github.com", "state": schemas.PinClosed}),
		"open":   example("Do not call it", object{"entry": "github", "state": schemas.PinOpen}),
	}
	return object{
		schemas.RouteOperationsPause: object{"post": operation("pauseCalls", "Hold calls back",
			"Holds back the calls of an entry, to a destination, of a tenant or of a kind of action. They wait, up to their deadlines; running calls are not stopped. It is in force on this node when it is answered, and on all within a second.", why, paused)},
		schemas.RouteOperationsResume: object{"post": operation("resumeCalls", "Resume calls that were held back", "Waiting calls continue at once.", entry, paused)},
		schemas.RouteOperationsPin: object{"post": operation("pinDestination", "Hold an entry or a destination open or closed",
			"Open, it is not called. Closed, it is called however often it fails and whatever it asks for. A destination's pin goes before its entry's.", how, pinned)},
		schemas.RouteOperationsUnpin: object{"post": operation("unpinDestination", "Take a pin back", "The destination is called as Weir finds it again.", entry, pinned)},
	}
}

func operation(id, summary, description string, asks, answers object) object {
	return object{
		"operationId": id, "summary": summary, "description": description, "tags": []any{"policy"},
		"requestBody": object{"required": true, "content": content(schema("OperationRequest"), asks)},
		"responses": responses(object{"200": object{
			"description": "The operation.", "content": content(schema("Operation"), answers),
		}}, doors("NotFound", "Conflict")...),
	}
}
