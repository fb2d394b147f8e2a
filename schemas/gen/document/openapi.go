package document

import (
	"maps"
	"strings"

	"weir/schemas"
)

// Version is the version of the HTTP surfaces.
const Version = "1.0.0"

// openAPI describes the routes. Components are the definitions of all documents.
func openAPI(components object) object {
	return object{
		"openapi": "3.1.0",
		"info": object{
			"title":   "Weir",
			"version": Version,
			"description": "A durable, policy-guarded gateway between agents and the services that they call. " +
				"An acknowledged action is settled exactly once, whatever crashes; a call that may have had its effect is never repeated blindly. " +
				"A node that runs one role alone answers what another role serves with 421 and the code MISDIRECTED, and every route but /healthz with 503 and Retry-After while it has no log.",
		},
		"servers":  []any{object{"url": "http://127.0.0.1:8092", "description": "weir serve, as it comes"}},
		"security": []any{object{"bearer": []any{}}, object{}},
		"tags": []any{
			object{"name": "write", "description": "Have something done"},
			object{"name": "runs", "description": "Have an agent do something"},
			object{"name": "chat", "description": "Have a model answer"},
			object{"name": "rules", "description": "Rehearse, steer and hold back what is called"},
			object{"name": "tasks", "description": "File jobs for coding agents, and read their results"},
			object{"name": "agents", "description": "Work on a task"},
			object{"name": "repos", "description": "Make and see repositories"},
			object{"name": "git", "description": "What git's own clients ask for"},
			object{"name": "actions", "description": "See what is being done, and what was"},
			object{"name": "evidence", "description": "Prove what was done, and what was refused"},
			object{"name": "policy", "description": "See what may leave, and change it"},
			object{"name": "tokens", "description": "Manage tokens, on a node that is not in open mode"},
			object{"name": "service", "description": "The node itself"},
		},
		"paths": joined(taskPaths(), chatPaths(), dialectPaths(), viaPaths(), operations(), object{
			"/v1/execute":               object{"post": execute()},
			"/v1/batch":                 object{"post": batch()},
			"/v1/plans":                 object{"post": plans()},
			schemas.RouteRunSync:        object{"post": runSync()},
			schemas.RouteRunStream:      object{"post": runStream()},
			schemas.RouteAgentAPI:       object{"post": agentAPI()},
			"/v1/rules":                 object{"get": listRules()},
			"/v1/rules/preview":         object{"post": previewRules()},
			"/v1/rules/record":          object{"post": recordRules()},
			schemas.RouteRulesReset:     object{"post": resetRules()},
			"/v1/actions":               object{"get": listActions()},
			"/v1/stats":                 object{"get": showStats()},
			"/v1/usage":                 object{"get": showUsage()},
			"/v1/actions/{id}":          object{"parameters": []any{parameter("ActionID")}, "get": showAction()},
			"/v1/actions/{id}/payload":  object{"parameters": []any{parameter("ActionID")}, "get": showPayload()},
			"/v1/actions/{id}/events":   object{"parameters": []any{parameter("ActionID")}, "get": events()},
			"/v1/actions/{id}/response": object{"parameters": []any{parameter("ActionID")}, "get": showResponse()},
			"/v1/actions/{id}/cancel":   object{"parameters": []any{parameter("ActionID")}, "post": cancel()},
			"/v1/actions/{id}/resolve":  object{"parameters": []any{parameter("ActionID")}, "post": resolve()},
			schemas.RouteBudgets:        object{"get": listBudgets()},
			schemas.RouteOperations:     object{"get": showOperations()},
			"/v1/actions/{id}/redrive":  object{"parameters": []any{parameter("ActionID")}, "post": redriveAction()},
			"/v1/evidence":              object{"get": evidence()},
			"/v1/dead-letters":          object{"get": listDead()},
			"/v1/dead-letters/redrive":  object{"post": redrive()},
			"/v1/policy":                object{"get": showPolicy()},
			"/v1/policy/explain":        object{"post": explain()},
			"/v1/policy/reload":         object{"post": reload()},
			"/v1/tokens":                object{"post": createToken(), "get": listTokens()},
			"/v1/tokens/{id}/revoke":    object{"parameters": []any{parameter("TokenID")}, "post": revokeToken()},
			"/healthz":                  object{"get": healthz()},
			"/readyz":                   object{"get": readyz()},
			"/health":                   object{"get": health()},
			"/health/ready":             object{"get": healthReady()},
			"/ready":                    object{"get": agentReady()},
			"/sandbox":                  object{"get": sandbox()},
			"/metrics":                  object{"get": metrics()},
			schemas.RouteBackup:         object{"get": backup()},
			"/openapi.json":             object{"get": description()},
		}),
		"components": object{
			"schemas":    components,
			"parameters": parameters(),
			"headers":    headers(),
			"responses":  problems(),
			"securitySchemes": object{
				"bearer": object{"type": "http", "scheme": "bearer", "description": "Not needed where the node is open, which it can be on a loopback address only, but by agents and git."},
				"basic":  object{"type": "http", "scheme": "basic", "description": "For git: any user name, and a token as the password."},
			},
		},
	}
}

// joined is all of some objects.
func joined(all ...object) object {
	out := object{}
	for _, o := range all {
		maps.Copy(out, o)
	}
	return out
}

// componented moves references from a document's definitions to the components.
func componented(doc object) object {
	moved, _ := move(doc).(object)
	return moved
}

func move(node any) any {
	switch n := node.(type) {
	case object:
		out := make(object, len(n))
		for key, v := range n {
			if text, ok := v.(string); ok && key == "$ref" {
				out[key] = strings.Replace(text, "#/$defs/", "#/components/schemas/", 1)
				continue
			}
			out[key] = move(v)
		}
		return out
	case []any:
		out := make([]any, len(n))
		for i, v := range n {
			out[i] = move(v)
		}
		return out
	default:
		return node
	}
}

func schema(name string) object    { return object{"$ref": "#/components/schemas/" + name} }
func parameter(name string) object { return object{"$ref": "#/components/parameters/" + name} }
func problem(name string) object   { return object{"$ref": "#/components/responses/" + name} }

// withHeaders refers to headers by their names.
func withHeaders(names ...string) object {
	out := object{}
	for _, name := range names {
		out[name] = object{"$ref": "#/components/headers/" + name}
	}
	return out
}

// example is one named example.
func example(summary string, value any) object { return object{"summary": summary, "value": value} }

// content is a JSON body.
func content(schema, examples object) object {
	return object{"application/json": object{"schema": schema, "examples": examples}}
}

// parameters are the ones that more than one operation has, and the headers that
// callers send.
func parameters() object {
	in := func(where, name, description string, schema object, more ...object) object {
		p := object{"name": name, "in": where, "description": description, "schema": schema}
		for _, m := range more {
			maps.Copy(p, m)
		}
		return p
	}
	id := object{"type": "string", "pattern": `^[A-Za-z0-9._:-]{1,128}$`}
	position := object{"type": "string", "pattern": `^[0-9]{1,20}$`}
	return object{
		"ActionID": in("path", "id", "The id of an action.", id, object{"required": true, "example": actionID}),
		"TaskID":   in("path", "id", "The id of a task.", id, object{"required": true, "example": taskID}),
		"RepoName": in("path", "name", "The name of a repository.", object{"type": "string", "pattern": `^[a-z0-9][a-z0-9._-]{0,99}$`}, object{"required": true, "example": taskRepo}),
		"TokenID":  in("path", "id", "The id of a token.", id, object{"required": true, "example": holderID}),
		"IdempotencyKey": in("header", "Idempotency-Key",
			"Names the request. The same key with the same body joins the action that exists, and gets its stored answer; with another body it is refused with 422; while the first is still running, with 409.",
			object{"type": "string", "minLength": 1, "maxLength": 255}, object{"example": "order-4711"}),
		"Delay": in("header", schemas.HeaderDelay,
			"Begin this much later: the action is accepted at once and answered with 202, unless Prefer says how long to wait. Not with "+schemas.HeaderNotBefore+". The deadline counts from that beginning; an action whose deadline would be later than log.history allows is refused.",
			object{"type": "string"}, object{"example": "30s"}),
		"NotBefore": in("header", schemas.HeaderNotBefore,
			"Begin at this instant at the earliest, as with "+schemas.HeaderDelay+". One that is past means at once.",
			object{"type": "string", "format": "date-time"}, object{"example": moment}),
		"Priority": in("header", schemas.HeaderPriority,
			"high: workers get the action before those that are not and wait. It changes nothing for what has begun.",
			object{"type": "string", "enum": []any{schemas.PriorityHigh, schemas.PriorityNormal}, "default": schemas.PriorityNormal}, object{"example": schemas.PriorityHigh}),
		"Prefer": in("header", "Prefer",
			"respond-async answers 202 at once; wait=N answers 202 if the action has not ended after N seconds.",
			object{"type": "string"}, object{"example": "respond-async"}),
		"LastEventID": in("header", "Last-Event-ID", "Resume after this event. It goes before the parameter of that purpose.", position, object{"example": "41"}),
		"Limit":       in("query", "limit", "How many items a page may have.", object{"type": "integer", "minimum": 1, "maximum": 1000}),
		"Cursor":      in("query", "cursor", "The next of an earlier page.", object{"type": "string"}),
	}
}

// headers are those of answers.
func headers() object {
	text := func(description, example string) object {
		return object{"description": description, "schema": object{"type": "string"}, "example": example}
	}
	return object{
		"Weir-Action-Id":         text("The action that was made or joined.", actionID),
		"Location":               text("Where the action can be looked up.", "/v1/actions/"+actionID),
		"Idempotency-Replayed":   text("true where the stored answer of an earlier request with this key is given.", "true"),
		"Preference-Applied":     text("What of Prefer was followed.", "respond-async"),
		"Retry-After":            text("Seconds after which a repeat may succeed.", "1"),
		schemas.HeaderTaskToken:  text("The token of the lease that was made. Who sends it is held to this lease.", "weirt1_…"),
		"ETag":                   text("The version of the rule set.", `"`+rulesEtag+`"`),
		schemas.HeaderRefused:    text("The code of an answer that is Weir's own, and not the target's.", string(schemas.DenyPath)),
		schemas.HeaderGeneration: text("The action that was made or joined.", actionID),
		"Link":                   text("Where the action's status is.", "</v1/actions/"+actionID+`>; rel="describedby"`),
	}
}
