package document

// readers are the problems of every route that reads.
func readers(more ...string) []string {
	return append([]string{"BadRequest", "Unauthorized", "Forbidden", "Unavailable"}, more...)
}

func query(name, description string, schema object) object {
	return object{"name": name, "in": "query", "description": description, "schema": schema}
}

// page is a 200 with a page of things.
func page(component string, item object) object {
	return object{
		"description": "A page. Without next, it is the last.",
		"content": content(schema(component), object{
			"page": example("One item, and more", object{"items": []any{item}, "next": "41"}),
		}),
	}
}

func showAction() object {
	decision := object{"allowed": true, "entry": "orders", "version": "9a1f0c44"}
	return object{
		"operationId": "showAction",
		"summary":     "See where an action stands",
		"tags":        []any{"actions"},
		"responses": responses(object{"200": object{
			"description": "The action.",
			"content": content(schema("ActionView"), object{"action": example("An action that succeeded", object{
				"id": actionID, "kind": "http", "method": "POST", "host": "api.example.com", "path": "/v1/orders", "caller": "shop",
				"status": "succeeded", "class": "keyed", "created": moment, "deadline": later, "settled": moment,
				"attempts": []any{object{
					"step": 0, "number": 1, "class": "keyed", "entry": "orders", "policy_version": "9a1f0c44", "expires_at": later,
					"done": true, "sent": true, "status": 201, "duration_ms": 12.4,
				}},
				"decision": decision, "events_url": "/v1/actions/" + actionID + "/events",
				"result": object{"status": 201, "headers": []any{}, "body": object{"id": "o-1"}},
			})}),
		}}, readers("NotFound", "Gone")...),
	}
}

func showPayload() object {
	return object{
		"operationId": "showPayload",
		"summary":     "See what an action asks for",
		"description": "Of the kinds http, passthrough, plan and run: HTTPCall, PlanRequest or Run. Those of other kinds are not shown.",
		"tags":        []any{"actions"},
		"responses": responses(object{"200": object{
			"description": "The payload as it was stored, with REDACTED instead of credentials.",
			"content": content(schema("ActionPayload"), object{"call": example("A call", object{
				"id": actionID, "kind": "http", "payload": object{"method": "GET", "url": "https://api.example.com/v1/orders"},
			})}),
		}}, readers("NotFound", "Gone")...),
	}
}

// sse is a body of server-sent events.
func sse(description, frames string) object {
	return object{"schema": object{"type": "string", "description": description}, "examples": object{"stream": example("Two events", frames)}}
}

func events() object {
	accepted := object{
		"seq": 40, "n": 1, "type": "accepted", "time": moment,
		"action": object{"id": actionID, "kind": "http", "class": "safe", "deadline": later},
	}
	ok := page("PageOfEventView", accepted)
	ok["description"] = "A stream that ends after the last event, or a page."
	media, _ := ok["content"].(object)
	media["text/event-stream"] = sse(
		"Each event's id is its seq, its name its type, and its data an EventView. A reader that was cut off resumes with Last-Event-ID, on any node.",
		"id: 40\nevent: accepted\ndata: {\"seq\":40,\"n\":1,\"type\":\"accepted\",\"time\":\""+moment+"\"}\n\n"+
			"id: 44\nevent: settled\ndata: {\"seq\":44,\"n\":5,\"type\":\"settled\",\"time\":\""+moment+"\",\"settled\":{\"outcome\":\"succeeded\",\"attempts\":1}}\n\n")
	return object{
		"operationId": "events",
		"summary":     "Follow an action",
		"description": "As server-sent events, or with Accept: application/json as pages.",
		"tags":        []any{"actions"},
		"parameters": []any{
			parameter("LastEventID"), query("after", "Resume after this event.", object{"type": "string", "pattern": `^[0-9]{1,20}$`}),
			query("live", "long-poll answers with a page as soon as there is an event.", object{"type": "string", "enum": []any{"long-poll"}}),
			parameter("Limit"),
		},
		"responses": responses(object{
			"200": ok,
			"204": object{"description": "The action has ended, and there is no event after this one: stop resuming."},
		}, readers("NotFound", "NotAcceptable", "Gone")...),
	}
}

func evidence() object {
	record := object{
		"id": planID + ".attempt.0.1.0", "time": moment, "tenant": "default", "action_id": planID,
		"kind": "builtin.http_connector", "entry": "orders", "policy_version": "9a1f0c44",
		"payload": object{
			"effect_ref": "orders/1", "method": "GET", "url": "https://api.example.com/v1/orders?id=1", "status": 200,
			"request_fingerprint": "GET https://api.example.com/v1/orders?id", "response_hash": "", "response_snippet": "",
			"allowlist": "orders", "idempotency_key": "",
		},
	}
	ok := page("PageOfEvidence", record)
	ok["description"] = "A stream that goes on until the client leaves, or a page."
	media, _ := ok["content"].(object)
	media["text/event-stream"] = sse("Each event is named evidence; its id is a position, and its data an Evidence.",
		"id: 7\nevent: evidence\ndata: {\"id\":\""+planID+".closing\",\"kind\":\"builtin.http_connector\"}\n\n")
	return object{
		"operationId": "evidence",
		"summary":     "Read the records of every attempt and every denial",
		"tags":        []any{"evidence"},
		"parameters": []any{
			query("action_id", "Only records of this action.", object{"type": "string"}),
			query("kind", "Only records of this kind.", object{"type": "string", "examples": []any{"builtin.http_connector", "http.attempt", "policy.decision", "rule.write", "task.status", "git.push", "repo.create", "chat.completion", "proxy.tunnel"}}),
			query("entry", "Only records of calls that this allowlist entry decided.", object{"type": "string"}),
			query("since", "Begin after a position, or at a time.", object{"type": "string"}),
			parameter("LastEventID"), parameter("Limit"), parameter("Cursor"),
		},
		"responses": responses(object{"200": ok}, readers("NotAcceptable", "Gone")...),
	}
}

func listDead() object {
	return object{
		"operationId": "listDeadLetters",
		"summary":     "List what no retry could help, oldest first",
		"tags":        []any{"actions"},
		"parameters":  []any{parameter("Limit"), parameter("Cursor")},
		"responses": responses(object{"200": page("PageOfDeadLetterView", object{
			"seq": 7, "time": moment, "kind": "http", "action_id": actionID, "code": "POISON", "reason": "the record is not an event",
			"action_url": "/v1/actions/" + actionID,
		})}, readers()...),
	}
}

// service is an operation that names no tenant, and needs no token.
func service(id, summary string, responses object) object {
	return object{"operationId": id, "summary": summary, "tags": []any{"service"}, "security": []any{object{}}, "responses": responses}
}

func healthz() object {
	return service("healthz", "Is the process alive?", object{"200": object{
		"description": "It is.",
		"content":     object{"text/plain": object{"schema": object{"type": "string"}, "examples": object{"ok": example("Alive", "ok")}}},
	}})
}

func readyz() object {
	ready := object{"ready": true, "durability": "disk", "partitions": 1, "policy_version": "9a1f0c44", "checks": object{"log": "ok", "feed": "ok"}}
	not := object{
		"ready": false, "durability": "disk", "partitions": 1, "policy_version": "9a1f0c44",
		"checks": object{"log": "failed", "feed": "ok"}, "reasons": []any{"log is not ready"},
	}
	return service("readyz", "Can the node do its work?", object{
		"200": object{"description": "It can.", "content": content(schema("Readiness"), object{"ready": example("Ready", ready)})},
		"503": object{"description": "It cannot now.", "headers": withHeaders("Retry-After"), "content": content(schema("Readiness"), object{"not": example("Not ready", not)})},
	})
}

func sandbox() object {
	return service("sandbox", "Which hosts may be called without an entry?", object{"200": object{
		"description": "Their names.",
		"content":     content(schema("Sandbox"), object{"hosts": example("As it comes", object{"allowed_hosts": []any{"localhost", "127.0.0.1", "::1"}})}),
	}})
}

func metrics() object {
	return service("metrics", "Metrics for Prometheus", object{"200": object{
		"description": "Metrics in Prometheus's text format.",
		"content": object{"text/plain": object{"schema": object{"type": "string"}, "examples": object{
			"counter": example("A counter", "# TYPE weir_accepted_total counter\nweir_accepted_total{kind=\"http\"} 1\n"),
		}}},
	}})
}

func backup() object {
	return object{
		"operationId": "backup",
		"summary":     "Back up a running node with an embedded log",
		"description": "For admins of the tenant default. `weir backup` verifies the archive while it writes it, and `weir restore` reads it. " +
			"Its last entry is a manifest with checksums; an archive without one is incomplete.",
		"tags": []any{"service"},
		"responses": responses(object{"200": object{
			"description": "A tar archive.",
			"content": object{"application/x-tar": object{"schema": object{"type": "string", "format": "binary"}, "examples": object{
				"head": example("The name of its first entry", "streams/WEIR_LOG_0/head00000001"),
			}}},
		}}, "BadRequest", "Unauthorized", "Forbidden", "Conflict", "RateLimited", "Unavailable"),
	}
}

func description() object {
	return service("openapi", "This description", object{"200": object{
		"description": "An OpenAPI 3.1 document.",
		"content":     content(object{"type": "object", "required": []any{"openapi"}}, object{"head": example("Its head", object{"openapi": "3.1.0"})}),
	}})
}
