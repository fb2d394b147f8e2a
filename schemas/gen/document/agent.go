package document

import (
	"net/http"

	"weir/schemas"
)

func agentTaskExample() object {
	return object{
		"status": schemas.TaskStatusRunning, "description": "Fix the failing test of the parser.",
		"git_user_name": schemas.GitUserName, "git_user_email": schemas.GitUserEmail, "git_repo_url": gitURL, "git_branch": taskID,
	}
}

// agentOperation is a route for agents that work on a task. It always needs a token.
func agentOperation(op object, problems ...string) object {
	own, _ := op["responses"].(object)
	op["tags"] = []any{"agents"}
	op["security"] = []any{object{"bearer": []any{}}}
	op["responses"] = responses(own, append([]string{"BadRequest", "Unauthorized", "Forbidden", "RateLimited", "Internal", "Unavailable"}, problems...)...)
	return op
}

func agentTask() object {
	return agentOperation(object{
		"operationId": "agentTask",
		"summary":     "Fetch the task",
		"description": "With a task's token, that task; it is Running then. With the token of a pool's agent, the task that it holds, or else the oldest that waits, which it leases: " +
			"it is kept by calling anything with the token, and lost after two minutes without a call unless the node says otherwise. " +
			"Every route of agents is also served under /api.",
		"responses": object{"200": object{
			"description": "The task, whose branch is there.",
			"headers":     withHeaders("Weir-Action-Id", schemas.HeaderTaskToken),
			"content":     content(schema("AgentTask"), object{"task": example("A task", agentTaskExample())}),
		}},
	}, "NotRunning", "NoTask")
}

// agentReport is a route that ends a task.
func agentReport(id, summary, request string, examples object) object {
	return agentOperation(object{
		"operationId": id, "summary": summary,
		"description": "The first report counts, and the token is dead then. The same report again by the same token is answered in the same way.",
		"requestBody": object{"required": true, "content": content(schema(request), examples)},
		"responses":   object{"200": object{"description": "The task has ended. There is no body.", "headers": withHeaders("Weir-Action-Id")}},
	}, "NotRunning", "TooLarge", "MediaType")
}

func agentComplete() object {
	return agentReport("agentComplete", "Say that the task is done", "CompleteRequest",
		object{"done": example("The result", object{"description": "The test passes."})})
}

func agentFail() object {
	return agentReport("agentFail", "Say that the task cannot be done", "FailRequest", object{
		"reason": example("With a reason", object{"reason": schemas.ReasonTaskIssues, "description": "There is no such test."}),
		"none":   example("Without one", object{"description": "I do not know how."}),
	})
}

func agentInquiry() object {
	return agentOperation(object{
		"operationId": "agentInquiry",
		"summary":     "Ask a person, and wait for the answer",
		"description": "The answer is a JSON string. A client that is cut off asks again with the same text, or the same Idempotency-Key, and joins its own question.",
		"parameters":  []any{parameter("IdempotencyKey")},
		"requestBody": object{"required": true, "content": content(schema("InquiryRequest"), object{
			"question": example("A question", object{"inquiry": "May I change the public function?"}),
		})},
		"responses": object{"200": object{
			"description": "The answer.", "headers": withHeaders("Weir-Action-Id"),
			"content": content(object{"type": "string"}, object{"answer": example("An answer", "Yes.")}),
		}},
	}, "NotRunning", "TooLarge", "MediaType")
}

func agentSubtoken() object {
	return agentOperation(object{
		"operationId": "agentSubtoken",
		"summary":     "Make a token for a child of the holder",
		"description": "The subtoken calls, completes and reads its own actions, with a part of what the token that asks permits. It never permits more, it reports and asks nothing, " +
			"and it ends with the holder's token, or at expires_at. A subtoken makes others in the same way.",
		"requestBody": object{"required": true, "content": content(schema("SubtokenRequest"), object{
			"narrow": example("For one entry and one model", object{"entries": []any{"pypi", "model:openai"}, "models": []any{"openai/gpt-5-mini"}, "ttl": "30m", "budget": object{"usd": 0.5}}),
			"same":   example("All that the token permits, and reading the repository", object{"repo": schemas.RepoRead}),
		})},
		"responses": object{"201": object{
			"description": "The subtoken, which is shown this once.", "headers": withHeaders("Weir-Action-Id"),
			"content": content(schema("NewSubtoken"), object{"narrow": example("For one entry and one model", object{
				"n": 1, "entries": []any{"pypi", "model:openai"}, "models": []any{"openai/gpt-5-mini"}, "budget": object{"usd": 0.5}, "expires_at": later, "token": hidden,
			})}),
		}},
	}, "Conflict", "TooLarge", "MediaType")
}

func agentOutput() object {
	return agentOperation(object{
		"operationId": "agentOutput",
		"summary":     "Store a piece of output, and keep the lease",
		"description": "For those who start the agent, such as weir runner. The pieces are events of the task. An empty text only keeps the lease. " +
			"If the task has ended, the reason of the refusal is its status.",
		"requestBody": object{"required": true, "content": content(schema("OutputRequest"), object{
			"piece": example("A piece", object{"at": 1024, "text": "ok  \tshop/totals\t0.012s\n"}),
		})},
		"responses": object{"204": object{"description": "The piece is stored.", "headers": withHeaders("Weir-Action-Id")}},
	}, "NotRunning", "Conflict", "TooLarge", "MediaType")
}

// taskProblems are the problems of the agents' and git's routes.
func taskProblems() object {
	return object{
		"NotRunning": refusal(http.StatusBadRequest, schemas.TaskNotRunning, "Task is not running"),
		"NoTask":     refusal(http.StatusNotFound, schemas.NotFound, "there is no task to lease; ask again", "Retry-After"),
		"PackSize":   refusal(http.StatusRequestEntityTooLarge, schemas.GitPackTooLarge, "the push is larger than this node takes"),
		"Protocol":   refusal(http.StatusBadRequest, schemas.GitProtocolRequired, "use version 2 of git's protocol, or version 0"),
	}
}
