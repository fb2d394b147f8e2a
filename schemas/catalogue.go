package schemas

// CodeHelp explains one code to a person, in one short sentence each.
type CodeHelp struct {
	Code                   Code
	Meaning, Cause, Action string // Cause is the likely one
}

// Catalogue explains every code, in the order of code.go.
func Catalogue() []CodeHelp {
	const reserved = "The code is reserved; this version does not use it."
	return []CodeHelp{
		{DenyKeyUnknown, "The policy has no entry with this name.", "`allowlist_key` is misspelled, or the token may not use that entry.", "Use an entry that `weir policy show` lists, or leave the key out."},
		{DenyURLInvalid, "The policy does not accept the form of the URL, or a parameter in its query.", "The URL is relative or not escaped, or the entry adds that parameter or leaves it out of `caller_params`.", "Correct the URL, remove the parameter, or name it in `caller_params`; the reason says which."},
		{DenyScheme, "No entry permits the scheme.", "The entry has `https`, the call `http`, or the reverse.", "Use the scheme of the entry."},
		{DenyUserinfo, "The URL contains a user or a password.", "The credential is written before the host.", "Remove it; put the credential into the entry's `headers`."},
		{DenyHost, "No entry permits the host.", "The policy has no entry for this host, or the host is misspelled.", "Add an entry, or ask the operator to add one."},
		{DenyPort, "No entry permits the port.", "The URL names another port than the entry.", "Use the port of the entry, or add an entry for this one."},
		{DenyMethod, "The entry does not permit the method.", "The entry's `methods` lack it.", "Use a permitted method, or extend `methods`."},
		{DenyPath, "The entry does not permit the path.", "It is not below the entry's `url_prefix`, or has dot segments, empty segments or double escapes.", "Correct the path, or widen `url_prefix`."},
		{DenyHeader, "A header may not be sent.", "Weir sets it, it belongs to the connection, or the entry leaves it out of `caller_headers`.", "Remove the header, or name it in `caller_headers`."},
		{DenyBody, "The body may not be sent.", "GET and HEAD take none, it is too large or too deep, or the entry sets a member of it.", "Remove or shorten the body."},
		{DenySchema, "The response schema or postcondition cannot be used.", "The schema does not compile, or refers to a document outside itself.", "Correct `response_schema`; the message names the place."},
		{DenyAddress, "The host resolves to an address that the entry does not permit.", "The name points to a private, loopback or reserved address.", "Set `network` or `cidrs` of the entry if that address is intended."},
		{DenyRedirect, "The target answered with a redirect that may not be followed.", "The entry has `redirects: 0`, or the new URL is outside the entry.", "Call the new URL, or raise `redirects`."},
		{DenyRule, "The call is denied after the tenant's traffic rules changed it.", "A rule redirects the call to a place that the policy denies, or the rules cannot be read.", "Change or disable the rule that the reason names."},
		{DenyApproval, "A person did not approve the call.", reserved, "Report it: no version of Weir writes it."},
		{DenyBudget, "A call budget denies the call.", reserved, "Report it: no version of Weir writes it."},
		{DenyKilled, "A stop switch denies the call.", reserved, "Report it: no version of Weir writes it."},

		{UpstreamDNS, "The target's name does not resolve; nothing was sent.", "The name is wrong, or the resolver of the node fails.", "Check the name from the worker's machine, then send a new action."},
		{UpstreamConnect, "Weir cannot connect to the target.", "The target is down, or a firewall rejects the connection.", "Check that the target listens and can be reached from the worker."},
		{UpstreamTLS, "The TLS handshake with the target failed.", "The certificate is expired, or not valid for this host.", "Correct the target's certificate, or add its authority to the system."},
		{UpstreamTimeout, "The target did not answer in time.", "The target is slow, or `timeout_ms` is short.", "Raise the timeout, or reduce the load on the target."},
		{UpstreamReset, "The target closed the connection before it answered.", "The target or a proxy before it restarted or crashed.", "Read the target's log; for an action that is `outcome_unknown`, check its effect first."},
		{UpstreamProtocol, "The answer is not valid HTTP, or not in the expected protocol.", "Another service listens on the port, or the agent's stream has no events.", "Check the URL and the port; `weir check` tests an agent."},
		{UpstreamTruncated, "The answer ended before it was complete.", "The target or a proxy broke the connection.", "Read the target's log; check the effect before you repeat the call."},
		{UpstreamTooLarge, "The answer is larger than the limit.", "It exceeds `limits.response`, or the room that the tenant has left.", "Request less, or raise `limits.response`."},
		{UpstreamHeadersTooLarge, "The headers of the answer are larger than the limit.", "They exceed `limits.response_headers`.", "Reduce the headers, or raise the limit."},
		{UpstreamEncoding, "The answer has a content coding that was not requested, or is damaged.", "The target compresses whatever it is sent, or a proxy changed the body.", "Turn off compression at the target."},

		{HTTPFailure, "The target answered with a status other than 2xx.", "The target refused the request or failed.", "Read `status` and `body` of the error."},
		{RetriesExhausted, "Every attempt failed in a way that can pass.", "The target was overloaded or down for all attempts.", "Wait until the target works, then send a new action."},
		{ResponseNotJSON, "The answer is not JSON, and a schema or postcondition needs JSON.", "The target answered with HTML or text.", "Check the URL, or remove the schema."},
		{ResponseSchemaInvalid, "The answer does not satisfy `response_schema`.", "The target changed its format, or the schema is too strict.", "Compare the answer with the schema."},
		{PostconditionFailed, "The answer does not satisfy a postcondition.", "The call had another effect than expected.", "Read the report in the error; check the target before you repeat the call."},
		{OutcomeUnknownCode, "The call may have had its effect; Weir cannot know.", "The connection or the worker failed after bytes were sent, and the call must not be repeated.", "Check the target, then record it with `POST /v1/actions/{id}/resolve`."},
		{Canceled, "The action was canceled.", "A person or a client sent a cancel.", "Send a new action if the work is still needed."},
		{DeadlineExceeded, "The action did not end before its deadline.", "The target or the queue was slow, or the deadline short.", "Raise the deadline, or look at `weir_queue_lag`."},
		{Poison, "The stored message cannot be processed.", "It is damaged, or makes the worker panic.", "Read the dead letter (`weir dead`), and report it."},
		{Interrupted, "The worker that made the call stopped.", "The node was killed or restarted during the call.", "Check the effect if the call is not repeated by itself."},
		{SecretUnavailable, "A secret of the entry cannot be read; nothing was sent.", "The variable, file or age entry is missing.", "Provide the secret; `weir config check` and the log name it."},
		{AgentUnavailable, "The agent cannot be reached; nothing was begun.", "The agent is down, overloaded, or paused after repeated failures.", "Start the agent, then repeat the run."},
		{TaskFailed, "The agent reported a failure, or did not report its end.", "`details.code` has the cause if Weir found it.", "Read the agent's message and log."},
		{GitRefDenied, "The token may not update this ref in this way.", "The push changes another branch, or rewrites history without `force_push`.", "Push to the task's own branch."},
		{GitRejected, "Git, or the upstream repository, rejected the push.", "It is not a fast-forward, or a check of the repository failed.", "Fetch, merge and push again; git shows the reason."},
		{GitIncomplete, "The pack is broken or incomplete; nothing was updated.", "The connection broke during the push.", "Push again."},
		{GitPackTooLarge, "The pack, or its unpacked content, is over the limit.", "The push contains large files.", "Push less, or raise `git.max_pack`."},
		{GitProtocolRequired, "This version of git's protocol is not supported.", "The client uses protocol version 1 or a plain HTTP download.", "Set `protocol.version` to 2 in git."},
		{BudgetExhausted, "A budget does not cover the completion.", "It is spent, or its rest is below the worst case of the request.", "Lower `max_tokens`, or raise the budget; `weir budgets` shows it."},
		{ModelFailed, "The model's provider refused the request or failed.", "The provider rejects a parameter, or has an outage.", "Read the provider's message in the error."},
		{ModelNotFound, "The model is not configured, or the token may not use it.", "The name is misspelled, or `models` lacks it.", "Use a name that `GET /models` lists."},
		{TaskNotRunning, "The task has ended, or the agent holds no task.", "The task was completed, canceled or expired, or its lease is lost.", "Lease the next task; a dead token stays dead."},
		{EtagMismatch, "The rule set changed since the writer read it.", "Another writer was faster.", "Read the rules again, then repeat the change."},
		{RuleLimitExceeded, "The rule set would be too large.", "It exceeds `rules.limit` or 960 KiB.", "Let unused rules expire; `rules.limit` is at most 1,000."},
		{InternalError, "The agent API failed; the caller is not at fault.", "`detail` has the cause, such as `RULES_UNREADABLE`.", "Repeat later; read the node's log if it stays."},

		{InvalidRequest, "The request cannot be read.", "The JSON is malformed, or a header or parameter has a wrong form.", "Correct the place that the message names."},
		{ValidationError, "A member of the request has an invalid value.", "A value is missing, unknown or out of range.", "Correct the place that the message names."},
		{Unauthorized, "The request has no valid token.", "The token is missing, expired, revoked or misspelled.", "Send `Authorization: Bearer` with a token in force."},
		{Forbidden, "The token may not do this.", "It lacks a scope, an entry, a model or a pool.", "Use a token with the scope that the message names."},
		{NotFound, "The tenant has no such object or route.", "The id or the path is wrong, or the object belongs to another tenant.", "Check the id, the path and the token's tenant."},
		{MethodNotAllowed, "The route does not support the method.", "The client sent GET for POST, or the reverse.", "Use a method that the HTTP reference lists for the route."},
		{NotAcceptable, "The route cannot answer in the requested media type.", "`Accept` names a type that the route does not have.", "Accept `application/json` or `text/event-stream`."},
		{UnsupportedMediaType, "The body has an unsupported media type.", "`Content-Type` is missing or not JSON.", "Send `Content-Type: application/json`."},
		{UnsupportedEncoding, "The body is compressed.", "The client sets `Content-Encoding`.", "Send the body uncompressed."},
		{PayloadTooLarge, "The body is larger than the limit.", "It exceeds `limits.body`, `limits.chat` or the limit of the log.", "Send less, or raise the limit."},
		{URITooLong, "The request target is longer than 8 KiB.", "A query parameter is too long.", "Shorten the URL."},
		{HeadersTooLarge, "The request headers are larger than the limit.", "They exceed `limits.headers`.", "Send fewer or shorter headers."},
		{RequestTimeout, "The request did not arrive in time.", "The client or the network is slow.", "Send the request again."},
		{Conflict, "The request conflicts with the stored state.", "The id belongs to another request, or the action has ended.", "Use a new id, or read the action first."},
		{IdempotencyMismatch, "The `Idempotency-Key` was used for another request.", "The request changed, or came from a token with other rights.", "Use a new key for a new request; repeat with the same token."},
		{InFlight, "The action with this key still runs.", "A client repeated the request early.", "Wait for `Retry-After`, then repeat."},
		{StreamGone, "The requested history is no longer stored.", "It is older than `log.history`.", "Read from `earliest_id`, or raise `log.history`."},
		{UnsupportedTaskType, "No agent is configured for the task type.", "`task_type` is misspelled, or `agents` lacks it.", "Use a configured task type."},
		{RateLimited, "The client, token or tenant has reached a limit.", "It sends too fast, has too many streams, or is over its share.", "Wait for `Retry-After`."},
		{Misdirected, "Another role serves this route.", "The proxy sends the request to the wrong role.", "Ask the role that the message names."},
		{Unavailable, "Weir cannot do this now.", "The log does not answer, the node starts or stops, or it is out of memory for bodies.", "Repeat the same request after `Retry-After`."},
		{LogFull, "The log is full; nothing was stored.", "`log.max_bytes` is reached, or the disk is full.", "Add space, raise `log.max_bytes`, or shorten `log.history`."},
		{QueueFull, "Too many actions wait for a worker; nothing was stored.", "`limits.queued` is reached.", "Add workers, or wait for `Retry-After`."},
		{Internal, "Weir failed; the caller is not at fault.", "A defect in Weir.", "Report the `request_id` to the operator."},
	}
}

// EventHelp explains an event type. Member is the member of the schema `event` that has its document.
type EventHelp struct {
	Type    EventType
	When    string
	Member  string
	Kinds   []Kind // that write it; empty: all
	Written string // by which role
}

// Events lists every event type, in the order of an action's life.
func Events() []EventHelp {
	const ingress, worker = "ingress", "worker"
	return []EventHelp{
		{EventAccepted, "The action is stored; the event is also its work item.", "action", nil, ingress},
		{EventStarted, "A worker has taken the action, before it makes a call. An ECHO run writes it too.", "", []Kind{KindTask, KindPush, KindRepo, KindRule, KindRun}, worker},
		{EventAttempt, "A call is about to be made; it is stored before the first byte is sent.", "attempt", nil, worker},
		{EventAttempted, "The result of an attempt is known, unless the action ends with it.", "attempted", nil, worker},
		{EventWaiting, "The action waits, for the reason and until the time that the event names.", "waiting", nil, worker},
		{EventProgress, "An agent reported progress, a task's command wrote output, or an import of a repository advanced.", "data", []Kind{KindRun, KindRepo, KindTask}, "worker, or ingress for a task"},
		{EventDelta, "A model or a passthrough's target sent a part of its answer.", "data", []Kind{KindChat, KindPassthrough}, worker},
		{EventSignal, "An agent or a person changed the task: claim, release, question, answer or report.", "task", []Kind{KindTask}, ingress},
		{EventStatus, "Weir changed the task: branch created, lease lost, push made, or task closed.", "task", []Kind{KindTask}, worker},
		{EventCancel, "A caller requested a cancel.", "", nil, ingress},
		{EventSettled, "The action ended. It is written once, and changes never.", "settled", nil, "worker, or ingress for a cancel before the start"},
		{EventResolution, "A person recorded whether an unknown outcome was applied.", "resolution", nil, ingress},
		{EventSuperseded, "A redrive, or a repeat of a run that reached no agent, began a successor.", "superseded", nil, worker},
	}
}

// EvidenceHelp explains a kind of evidence. Payload is the schema of its payload; empty: the form of its
// protocol.
type EvidenceHelp struct {
	Kind    string
	When    string
	Payload string
}

// EvidenceKinds lists every kind of evidence.
func EvidenceKinds() []EvidenceHelp {
	return []EvidenceHelp{
		{EvidenceConnector, "A call of a plan was answered; one more record closes the plan.", ""},
		{EvidenceAttempt, "The executor made an attempt, or a plan's attempt was not answered.", ""},
		{EvidenceDecision, "A call was denied.", ""},
		{EvidenceRuleWrite, "The traffic rules were written, or a write was refused.", "rule.audit"},
		{EvidenceTask, "The state of a task changed.", "task.audit"},
		{EvidencePush, "A push was made, refused, or failed.", "push.audit"},
		{EvidenceRepo, "A repository was created.", "repo.audit"},
		{EvidenceChat, "A provider was called, or a budget refused a completion.", "chat.audit"},
		{EvidenceTunnel, "A tunnel of the forward proxy opened, was refused, or ended.", "tunnel.audit"},
	}
}
