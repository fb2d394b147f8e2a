package document

// The policy and the tokens: what an operator looks at and changes.

const version = "9a1f0c44d1b2c3e4f5061728394a5b6c7d8e9fa0b1c2d3e4f5061728394a5b6c"

func showPolicy() object {
	return object{
		"operationId": "showPolicy",
		"summary":     "See the policy in force",
		"description": "Of what the worker adds to a call, headers, parameters and members, only the names are shown.",
		"tags":        []any{"policy"},
		"responses": responses(object{"200": object{
			"description": "The policy.",
			"content": content(schema("PolicyView"), object{"policy": example("One entry", object{
				"version": version, "since": moment, "allowed_hosts": []any{"localhost"},
				"entries": []any{object{
					"name": "orders", "url_prefix": "https://api.example.com/v1/orders", "methods": []any{"GET", "POST"}, "network": "public",
					"redirects": 0, "upstream_idempotency_ttl": "24h0m0s", "headers": []any{"Authorization"}, "mode": "enforce",
				}},
			})}),
		}}, readers()...),
	}
}

func explain() object {
	denied := object{
		"allowed": false, "code": "DENY_METHOD", "reason": "the entry does not have this method", "entry": "orders", "version": version,
		"check": "method", "remedy": "add DELETE to the methods of entry orders",
		"entries": []any{object{"entry": "orders", "mode": "enforce", "fits": false, "check": "method", "reason": "the entry does not have this method"}},
	}
	return object{
		"operationId": "explain",
		"summary":     "Would this call be allowed, and why?",
		"description": "Nothing is resolved, sent or stored. The addresses of a name are checked when a call is made.",
		"tags":        []any{"policy"},
		"requestBody": object{"required": true, "content": content(schema("ExplainRequest"), object{
			"call": example("A call", object{"method": "DELETE", "url": "https://api.example.com/v1/orders/1", "allowlist_key": "orders"}),
		})},
		"responses": responses(object{"200": object{
			"description": "What policy says, and what would make it pass.",
			"content":     content(schema("Explanation"), object{"denied": example("A denial", denied)}),
		}}, doors()...),
	}
}

func reload() object {
	return object{
		"operationId": "reloadPolicy",
		"summary":     "Read the configuration again and put its policy in force",
		"description": "All or nothing. Once it is answered, this node begins no call that the new policy does not allow, queued ones included. With `all` every node of a cluster that receives the request reads its own configuration again, and `nodes` lists the result of each.",
		"tags":        []any{"policy"},
		"requestBody": object{"content": content(schema("ReloadRequest"), object{"all": example("Every node", object{"all": true})})},
		"responses": responses(object{"200": object{
			"description": "The policy of this version is in force.",
			"content": content(schema("Reload"), object{"changed": example("Another policy", object{
				"version": version, "previous": "0b" + version[2:], "changed": true,
			})}),
		}}, "BadRequest", "Unauthorized", "Forbidden", "Unprocessable", "RateLimited", "Internal"),
	}
}

func token(status string) object {
	return object{
		"id": holderID, "name": "ci", "tenant": "default", "scopes": []any{"actions:write", "actions:read"},
		"created_at": moment, "expires_at": later, "status": status,
	}
}

const holderID = "k7m2q9x4v8cgb6n3"

func createToken() object {
	made := token("active")
	made["secret"] = "weir1_" + holderID + "_…"
	return object{
		"operationId": "createToken",
		"summary":     "Make a token",
		"description": "Its secret is in the answer and nowhere else: only a hash is kept. A tenant may have 10,000 tokens in force.",
		"tags":        []any{"tokens"},
		"requestBody": object{"required": true, "content": content(schema("TokenRequest"), object{
			"ci": example("For a day", object{"name": "ci", "scopes": []any{"actions:write", "actions:read"}, "expires_in": "24h"}),
		})},
		"responses": responses(object{"201": object{
			"description": "The token.",
			"content":     content(schema("NewToken"), object{"token": example("With its secret", made)}),
		}}, doors("Conflict")...),
	}
}

func listTokens() object {
	return object{
		"operationId": "listTokens",
		"summary":     "List the tokens of the caller's tenant, oldest first",
		"description": "Those that ended less than 30 days ago are listed too; then they are forgotten.",
		"tags":        []any{"tokens"},
		"parameters": []any{
			query("tenant", "Another tenant's; for admins of the tenant default only.", object{"type": "string"}),
			parameter("Limit"), parameter("Cursor"),
		},
		"responses": responses(object{"200": page("PageOfToken", token("active"))}, readers()...),
	}
}

func revokeToken() object {
	return object{
		"operationId": "revokeToken",
		"summary":     "Revoke a token",
		"description": "It stops working at once on this node, and within a second on every other. Revoking it again changes nothing.",
		"tags":        []any{"tokens"},
		"responses": responses(object{"200": object{
			"description": "It is revoked.",
			"content":     content(schema("Token"), object{"token": example("A revoked token", token("revoked"))}),
		}}, "BadRequest", "Unauthorized", "Forbidden", "NotFound", "RateLimited", "Unavailable"),
	}
}
