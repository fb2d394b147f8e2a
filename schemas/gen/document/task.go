package document

import (
	"maps"

	"weir/schemas"
)

// The task of all examples, and what git names in it.
const (
	taskID   = "0199f0c2-a1d3-7c55-9b0e-2f4a6c8e0d13"
	taskRepo = "web"
	taskBase = "1f0e3dad99908345f7439f8ffabdffc4a3c0d8b1"
	taskHead = "9c1185a5c5e9fc54612808977ee8f548b2258d31"
	gitURL   = "http://127.0.0.1:8092/git/" + taskRepo + ".git"
)

// hidden stands for a token.
const hidden = "weirt1_…"

// taskPaths are the routes of tasks, and of the repositories that they are about.
func taskPaths() object {
	return object{
		schemas.RouteTasks:                                         object{"post": createTask(), "get": listTasks()},
		schemas.RouteTasks + "/{id}":                               object{"parameters": []any{parameter("TaskID")}, "get": showTask()},
		schemas.RouteTasks + "/{id}/events":                        object{"parameters": []any{parameter("TaskID")}, "get": taskEvents()},
		schemas.RouteTasks + "/{id}/cancel":                        object{"parameters": []any{parameter("TaskID")}, "post": cancelTask()},
		schemas.RouteTasks + "/{id}/answer":                        object{"parameters": []any{parameter("TaskID")}, "post": answerTask()},
		schemas.RouteTasks + "/{id}/token":                         object{"parameters": []any{parameter("TaskID")}, "post": reissueToken()},
		schemas.RouteTaskLease:                                     object{"post": leaseTask()},
		schemas.RouteTaskRelease:                                   object{"post": releaseTask()},
		schemas.RouteAgentTask:                                     object{"get": agentTask()},
		schemas.RouteAgentComplete:                                 object{"post": agentComplete()},
		schemas.RouteAgentFail:                                     object{"post": agentFail()},
		schemas.RouteAgentInquiry:                                  object{"post": agentInquiry()},
		schemas.RouteAgentSubtokens:                                object{"post": agentSubtoken()},
		schemas.RouteAgentOutput:                                   object{"post": agentOutput()},
		schemas.RouteRepos:                                         object{"post": createRepo(), "get": listRepos()},
		schemas.RouteRepos + "/{name}":                             object{"parameters": []any{parameter("RepoName")}, "get": showRepo()},
		schemas.RouteGit + "/{name}.git/info/refs":                 object{"parameters": []any{parameter("RepoName")}, "get": gitRefs()},
		schemas.RouteGit + "/{name}.git/" + schemas.GitUploadPack:  object{"parameters": []any{parameter("RepoName")}, "post": gitFetch()},
		schemas.RouteGit + "/{name}.git/" + schemas.GitReceivePack: object{"parameters": []any{parameter("RepoName")}, "post": gitPush()},
	}
}

// taskView is the example's task, with more to it.
func taskView(status schemas.TaskStatus, more object) object {
	v := object{
		"id": taskID, "status": status, "description": "Fix the failing test of the parser.", "repo": taskRepo, "repo_url": gitURL,
		"branch": taskID, "moved": false, "pushes": 0, "pool": schemas.PoolDefault, "created": moment, "deadline": later,
		"events_url": "/v1/tasks/" + taskID + "/events",
	}
	maps.Copy(v, more)
	return v
}

func asked(more object) object {
	q := object{"n": 1, "question": "May I change the public function?", "asked": moment}
	maps.Copy(q, more)
	return q
}

func createTask() object {
	made := taskView(schemas.TaskStatusQueued, object{"token": hidden})
	return object{
		"operationId": "createTask",
		"summary":     "Have an agent do a job in a repository",
		"description": "Its branch is made for it, and its agent needs nothing but the token, which is shown this once: start one with it, or let an agent of a pool lease the task. " +
			"The same request_id, or Idempotency-Key, with the same body joins the task, and is not shown the token again; POST /v1/tasks/{id}/token makes another.",
		"tags":       []any{"tasks"},
		"parameters": []any{parameter("IdempotencyKey"), parameter("Delay"), parameter("NotBefore"), parameter("Priority")},
		"requestBody": object{"required": true, "content": content(schema("TaskRequest"), object{
			"least": example("A description and a repository", object{"description": "Fix the failing test of the parser.", "repo": taskRepo}),
			"all": example("A branch, a pool and a deadline", object{
				"request_id": "ticket-4711", "description": "Fix the failing test of the parser.", "repo": taskRepo, "base_ref": "release/1.x",
				"branch": "agent/ticket-4711", "deadline": "2h", "pool": "ci", "force_push": true,
				"budget": object{"requests": 200, "usd": 1.5}, "metadata": object{"ticket": "4711"},
			}),
		})},
		"responses": responses(object{
			"201": object{
				"description": "The task, with its token.", "headers": withHeaders("Weir-Action-Id", "Location"),
				"content": content(schema("NewTask"), object{"task": example("A task that waits for an agent", made)}),
			},
			"200": object{
				"description": "The task that was there, without its token.", "headers": withHeaders("Weir-Action-Id", "Location"),
				"content": content(schema("NewTask"), object{"task": example("A task that is worked on", taskView(schemas.TaskStatusRunning, object{"started": moment}))}),
			},
		}, doors("Conflict")...),
	}
}

func listTasks() object {
	return object{
		"operationId": "listTasks",
		"summary":     "List tasks, newest first",
		"description": "Listed by an index that follows the log, and shown in their state on the log; as_of and behind show its delay. A page with few items may still have a next.",
		"tags":        []any{"tasks"},
		"parameters":  []any{query("status", "Only tasks in this state.", schema("TaskStatus")), parameter("Limit"), parameter("Cursor")},
		"responses":   responses(object{"200": page("TaskPage", taskView(schemas.TaskStatusQueued, nil))}, readers("RateLimited")...),
	}
}

func showTask() object {
	done := taskView(schemas.TaskStatusCompleted, object{
		"base": taskBase, "head": taskHead, "moved": true, "pushes": 1, "started": moment, "ended": moment, "result": "The test passes.",
		"lease": 1, "holder": holderID, "inquiries": []any{asked(object{"answer": "Yes.", "answered": moment, "by": "ada"})},
	})
	return object{
		"operationId": "showTask",
		"summary":     "See where a task stands",
		"tags":        []any{"tasks"},
		"responses": responses(object{"200": object{
			"description": "The task.",
			"content":     content(schema("TaskView"), object{"task": example("A task that was completed", done)}),
		}}, readers("NotFound", "Gone", "RateLimited")...),
	}
}

func taskEvents() object {
	update := object{"task_id": taskID, "status": schemas.TaskStatusRunning, "what": schemas.TaskClaimed, "time": moment, "n": 4, "lease": 1}
	ok := page("PageOfTaskUpdate", update)
	ok["description"] = "A stream that ends when the task has, or a page."
	media, _ := ok["content"].(object)
	media["text/event-stream"] = sse(
		"Each event is named status, or output if it has a piece of output; its id is a position, and its data a TaskUpdate. A reader that was cut off resumes with Last-Event-ID, on any node.",
		"id: 40\nevent: status\ndata: {\"task_id\":\""+taskID+"\",\"status\":\"Queued\",\"what\":\"accepted\",\"time\":\""+moment+"\",\"n\":1}\n\n"+
			"id: 44\nevent: status\ndata: {\"task_id\":\""+taskID+"\",\"status\":\"Running\",\"what\":\"claimed\",\"time\":\""+moment+"\",\"n\":4}\n\n")
	return object{
		"operationId": "taskEvents",
		"summary":     "Follow a task's state",
		"description": "As server-sent events, or with Accept: application/json as pages. The updates, but for output, are published on NATS too, on weir.status.<tenant>.task.<id>.",
		"tags":        []any{"tasks"},
		"parameters": []any{
			parameter("LastEventID"), query("after", "Resume after this event.", object{"type": "string", "pattern": `^[0-9]{1,20}$`}),
			query("live", "long-poll answers with a page as soon as there is an event.", object{"type": "string", "enum": []any{"long-poll"}}),
			parameter("Limit"),
		},
		"responses": responses(object{
			"200": ok,
			"204": object{"description": "The task has ended, and there is no event after this one: stop resuming."},
		}, readers("NotFound", "NotAcceptable", "Gone", "RateLimited")...),
	}
}

// taskChange is a route that changes a task and answers with it.
func taskChange(id, summary, text, status string, view object, problems ...string) object {
	return object{
		"operationId": id, "summary": summary, "description": text, "tags": []any{"tasks"},
		"responses": responses(object{status: object{
			"description": "The task.", "headers": withHeaders("Weir-Action-Id"),
			"content": content(schema("NewTask"), object{"task": example("The task", view)}),
		}}, append([]string{"BadRequest", "Unauthorized", "Forbidden", "NotFound", "Conflict", "Gone", "RateLimited", "Internal", "Unavailable"}, problems...)...),
	}
}

func cancelTask() object {
	return taskChange("cancelTask", "Stop a task",
		"Its agent's token is invalid at once, and a running push is cut off. Pushed commits stay.",
		"202", taskView(schemas.TaskStatusRunning, object{"cancel_requested": true}))
}

func answerTask() object {
	op := taskChange("answerTask", "Answer an agent's question",
		"The first answer counts. The number of the question may be left out where one is open.",
		"200", taskView(schemas.TaskStatusRunning, object{"inquiries": []any{asked(object{"answer": "Yes.", "answered": moment, "by": "ada"})}}),
		"TooLarge", "MediaType", "Unprocessable")
	op["requestBody"] = object{"required": true, "content": content(schema("AnswerRequest"), object{
		"only":     example("The only open question", object{"answer": "Yes."}),
		"numbered": example("One of several", object{"answer": "No.", "inquiry": 2}),
	})}
	return op
}

func reissueToken() object {
	return taskChange("reissueToken", "Make another token for a task",
		"The one before is dead at once. It is refused for a task that an agent of a pool has had.",
		"200", taskView(schemas.TaskStatusQueued, object{"token": hidden}))
}

func leaseTask() object {
	lease := object{
		"task": agentTaskExample(), "id": taskID, "lease": 1, "token": hidden, "timeout_ms": 120000, "deadline": later, "remaining_ms": 28740000, "base": taskBase,
	}
	return object{
		"operationId": "leaseTask",
		"summary":     "Lease the oldest task that waits, for a runner",
		"description": "Needs the scope tasks:work. Each call leases another task. The lease is kept by calling anything with its token, and lost after timeout_ms without a call. The body may be left out.",
		"tags":        []any{"tasks"},
		"requestBody": object{"required": true, "content": content(schema("LeaseRequest"), object{
			"any":  example("Any pool of the token's", object{}),
			"wait": example("One pool, and wait for a task", object{"pool": "ci", "wait_ms": 30000}),
		})},
		"responses": responses(object{
			"200": object{
				"description": "The task, and the token of its lease.", "headers": withHeaders("Weir-Action-Id"),
				"content": content(schema("LeasedTask"), object{"lease": example("A lease", lease)}),
			},
			"204": object{"description": "There is no task to lease."},
		}, doors("NotRunning")...),
	}
}

func releaseTask() object {
	return agentOperation(object{
		"operationId": "releaseTask",
		"summary":     "Give a leased task back",
		"description": "With the lease's token. The task is Queued again, and the token dead.",
		"responses":   object{"204": object{"description": "It was given back.", "headers": withHeaders("Weir-Action-Id")}},
	}, "NotRunning")
}
