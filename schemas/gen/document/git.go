package document

import (
	"weir/schemas"
)

// repoView is the repository of all examples.
func repoView() object {
	return object{"name": taskRepo, "mode": schemas.RepoHosted, "default_branch": "main", "created": moment, "by": actionID, "url": gitURL}
}

func createRepo() object {
	return object{
		"operationId": "createRepo",
		"summary":     "Make a repository",
		"description": "An empty one, with one commit; a copy of import_url; or one that stays on the git server at upstream_url and is passed on. Policy decides about either URL.",
		"tags":        []any{"repos"},
		"parameters":  []any{parameter("IdempotencyKey"), parameter("Prefer")},
		"requestBody": object{"required": true, "content": content(schema("RepoRequest"), object{
			"empty":  example("An empty one", object{"name": taskRepo}),
			"import": example("A copy", object{"name": "lib", "import_url": "https://git.example.com/lib.git"}),
			"proxy":  example("One that stays where it is", object{"name": "app", "upstream_url": "https://git.example.com/app.git", "allowlist_key": "git"}),
		})},
		"responses": responses(object{
			"201": object{
				"description": "It was made.",
				"headers":     withHeaders("Weir-Action-Id", "Location", "Preference-Applied"),
				"content":     content(schema("Repo"), object{"repo": example("A repository", repoView())}),
			},
			"202": receipt("repo"),
		}, doors("Conflict", "OutcomeUnknown", "Expired")...),
	}
}

func listRepos() object {
	p := page("PageOfRepo", repoView())
	return object{
		"operationId": "listRepos",
		"summary":     "List repositories, by name",
		"tags":        []any{"repos"},
		"parameters":  []any{parameter("Limit"), parameter("Cursor")},
		"responses":   responses(object{"200": p}, readers("RateLimited")...),
	}
}

func showRepo() object {
	return object{
		"operationId": "showRepo",
		"summary":     "See a repository",
		"tags":        []any{"repos"},
		"responses": responses(object{"200": object{
			"description": "The repository.",
			"content":     content(schema("Repo"), object{"repo": example("A repository", repoView())}),
		}}, readers("NotFound", "RateLimited")...),
	}
}

// gitOperation is a route for git clients, with errors in plain text. It always needs a token.
func gitOperation(op, ok object, problems ...string) object {
	op["tags"] = []any{"git"}
	op["security"] = []any{object{"bearer": []any{}}, object{"basic": []any{}}}
	op["responses"] = responses(object{"200": ok}, append([]string{"Protocol", "Unauthorized", "Forbidden", "NotFound", "RateLimited", "Internal", "Unavailable"}, problems...)...)
	return op
}

// packets is a body of git's own.
func packets(media, description, text string) object {
	return object{media: object{
		"schema":   object{"type": "string", "format": "binary", "description": description},
		"examples": object{"packets": example("Its beginning", text)},
	}}
}

func gitRefs() object {
	service := query("service", "The service that the client will use.", object{"type": "string", "enum": []any{schemas.GitUploadPack, schemas.GitReceivePack}})
	service["required"] = true
	return gitOperation(object{
		"operationId": "gitRefs",
		"summary":     "List a repository's refs, for git",
		"description": "The smart protocol over HTTP, versions 2 and 0. A task's token shows its branch and the one that it began at.",
		"parameters":  []any{service},
	}, object{
		"description": "The ref advertisement.",
		"content":     packets("application/x-git-upload-pack-advertisement", "Packets of git's protocol.", "001e# service=git-upload-pack\n0000000eversion 2\n"),
	})
}

func gitFetch() object {
	return gitOperation(object{
		"operationId": "gitFetch",
		"summary":     "Fetch, for git",
		"requestBody": object{"required": true, "content": packets("application/x-git-upload-pack-request", "Packets of git's protocol, gzip too.", "0014command=ls-refs\n0000")},
	}, object{
		"description": "The requested objects.",
		"content":     packets("application/x-git-upload-pack-result", "Packets of git's protocol.", "003d"+taskBase+" refs/heads/main\n0000"),
	}, "TooLarge", "MediaType")
}

func gitPush() object {
	return gitOperation(object{
		"operationId": "gitPush",
		"summary":     "Push, for git",
		"description": "An update of the task's own branch, by its token, and nothing else. Each push is an action of kind push. A refusal is an answer that git shows.",
		"requestBody": object{"required": true, "content": packets("application/x-git-receive-pack-request", "Packets of git's protocol and a pack, gzip too.", "009b"+taskBase+" "+taskHead+" refs/heads/"+taskID+"\x00 report-status")},
	}, object{
		"description": "The result.",
		"headers":     withHeaders("Weir-Action-Id"),
		"content":     packets("application/x-git-receive-pack-result", "Packets of git's protocol.", "000eunpack ok\n0000"),
	}, "PackSize", "MediaType")
}
