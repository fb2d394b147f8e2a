package document

// counted are the parameters that lists and figures share.
func counted() []any {
	text := object{"type": "string"}
	when := object{"type": "string", "examples": []any{"2026-11-01T12:00:00Z", "15m", "7d"}}
	return []any{
		query("kind", "Only actions of this kind, or of these, with commas between.", object{"type": "string", "examples": []any{"http", "http,plan"}}),
		query("entry", "Only actions whose last call this entry of the policy decided.", text),
		query("tenant", "Another tenant, or * for all; for an admin of the operator's tenant.", text),
		query("since", "From this time on: an instant, or how long ago.", when),
		query("until", "Before this time: an instant, or how long ago.", when),
	}
}

func listActions() object {
	text := object{"type": "string", "pattern": `^[A-Za-z0-9._:-]{1,128}$`}
	ok := page("ActionPage", object{
		"id": actionID, "kind": "http", "method": "GET", "host": "api.example.com", "path": "/v1/orders", "http_status": 200, "caller": "shop",
		"status": "succeeded", "class": "safe", "created": moment, "deadline": later, "settled": moment,
		"duration_ms": 12.4, "entry": "orders", "attempts": 1, "url": "/v1/actions/" + actionID, "events_url": "/v1/actions/" + actionID + "/events",
	})
	return object{
		"operationId": "listActions",
		"summary":     "List actions, newest first",
		"description": "Read from an index that follows the log; as_of and behind show its delay. A page with few items may still have a next.",
		"tags":        []any{"actions"},
		"parameters": append(counted(),
			query("status", "Only actions with this status, or with these, with commas between; open stands for accepted, started and waiting.", object{"type": "string", "examples": []any{"open", "failed,expired"}}),
			query("agent", "Only runs for this task type, or tasks that this token leased last.", text),
			query("host", "Only calls of this host, with the port unless it is the scheme's default.", object{"type": "string", "maxLength": 256}),
			query("method", "Only calls with this method, or with these, with commas between.", object{"type": "string", "examples": []any{"GET", "POST,PUT"}}),
			query("http_status", "Only actions whose target last answered with this status or class, or with these, with commas between.", object{"type": "string", "pattern": `^[1-5](xx|[0-9]{2})(,[1-5](xx|[0-9]{2}))*$`, "examples": []any{"404", "4xx,5xx"}}),
			query("caller", "Only actions that the token of this name sent.", text),
			query("task", "Only this task, and what was made for it.", text),
			query("code", "Only actions with this code.", text),
			query("resolved", "true: only unknown outcomes that a person has resolved; false: only actions without a resolution.", object{"type": "string", "enum": []any{"true", "false"}}),
			query("q", "Only actions with this text in method, host, path, agent, caller or model, or at the start of the id. Case does not count.", object{"type": "string", "maxLength": 256}),
			query("count", "true: count is in the page.", object{"type": "string", "enum": []any{"true", "false"}}),
			parameter("Limit"), parameter("Cursor"),
		),
		"responses": responses(object{"200": ok}, readers()...),
	}
}

func showUsage() object {
	sum := object{"completions": 12, "tokens_in": 34000, "tokens_out": 5600, "cost_usd": 0.42}
	return object{
		"operationId": "showUsage",
		"summary":     "See what completions have used, by the day, task or model",
		"description": "Adds up the completions that were accepted in the time and have ended, each once, with the usage and the cost of its end. It covers what the log still holds. " +
			"Days are of UTC. There are at most 100 groups, the costliest first, and days in their order.",
		"tags": []any{"actions"},
		"parameters": []any{
			query("by", "What groups are made by; default day.", object{"type": "string", "enum": []any{"day", "task", "model"}}),
			query("task", "Only the completions of this task.", object{"type": "string", "pattern": `^[A-Za-z0-9._:-]{1,128}$`}),
			query("tenant", "Another tenant, or * for all; for an admin of the operator's tenant.", object{"type": "string"}),
			query("since", "From this time on: an instant, or how long ago, at most 93 days before until. Default 7 days before it, or with task its beginning.", object{"type": "string", "examples": []any{"2026-11-01T00:00:00Z", "30d"}}),
			query("until", "Before this time: an instant, or how long ago.", object{"type": "string", "examples": []any{"2026-11-01T00:00:00Z", "1h"}}),
		},
		"responses": responses(object{"200": object{
			"description": "The use.",
			"content": content(schema("Usage"), object{"days": example("One day", object{
				"since": moment, "until": later, "by": "day", "as_of": later, "total": sum,
				"groups": []any{joined(object{"name": "2026-01-02"}, sum)},
			})}),
		}}, readers()...),
	}
}

func showStats() object {
	sum := object{"accepted": 12, "settled": 12, "rate": 0.2, "p50_ms": 3.1, "p99_ms": 17.2, "outcomes": object{"succeeded": 12}}
	return object{
		"operationId": "showStats",
		"summary":     "See rates, latencies and outcomes over time",
		"description": "Latencies are from acceptance to end, right to about five in a hundred. since is rounded down to a step and until up.",
		"tags":        []any{"actions"},
		"parameters": append(counted(),
			query("step", "How long a step is; absent: as short as gives 120 of them.", object{"type": "string", "enum": []any{"10s", "30s", "1m", "5m", "10m", "30m", "1h", "6h", "24h"}}),
			query("by", "What groups are made by.", object{"type": "string", "enum": []any{"kind", "entry", "outcome"}}),
		),
		"responses": responses(object{"200": object{
			"description": "The figures.",
			"content": content(schema("Stats"), object{"minute": example("One minute", object{
				"since": moment, "until": later, "step_s": 60, "as_of": later, "total": sum, "open": object{"count": 0},
				"points": object{
					"time": []any{moment}, "accepted": []any{12}, "settled": []any{12}, "p50_ms": []any{3.1}, "p99_ms": []any{nil},
					"outcomes": object{"succeeded": []any{12}},
				},
			})}),
		}}, readers()...),
	}
}
