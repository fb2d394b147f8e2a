package document

func listBudgets() object {
	return object{
		"operationId": "listBudgets",
		"summary":     "See what was used of models, and what is left",
		"description": "The used accounts of the caller's tenant, by budget, token, task and model: those of the budgets in force, and those of tasks' own budgets under the name task.",
		"tags":        []any{"chat"},
		"parameters": []any{
			query("budget", "Only the accounts of this budget.", object{"type": "string"}),
			parameter("Limit"), parameter("Cursor"),
		},
		"responses": responses(object{"200": object{
			"description": "A page. Without next, it is the last.",
			"content": content(schema("PageOfBudgetView"), object{"page": example("One account, and more", object{
				"items": []any{object{
					"budget": "each-agent", "token": holderID, "open": 2, "resets": later,
					"requests": object{"limit": 600, "used": 41, "held": 2},
					"usd":      object{"limit": 5, "used": 0.731204, "held": 0.096},
				}},
				"next": "ZWFjaAAAAA",
			})}),
		}}, readers("RateLimited")...),
	}
}
