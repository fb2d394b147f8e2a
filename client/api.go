package client

import (
	"context"
	"net/http"
	"net/url"

	"weir/schemas"
)

// Execute sends POST /v1/execute. The header may have Prefer, Idempotency-Key and the terms of the
// action. The body of the answer is the caller's to close; its status is the call's.
func (c *Client) Execute(ctx context.Context, header http.Header, body any) (*http.Response, error) {
	return c.Do(ctx, http.MethodPost, "/v1/execute", header, body)
}

// Batch sends POST /v1/batch, as Execute does with one request. With Accept: application/x-ndjson the
// answer is one schemas.BatchItem a line, else a schemas.BatchAnswer.
func (c *Client) Batch(ctx context.Context, header http.Header, requests any) (*http.Response, error) {
	return c.Do(ctx, http.MethodPost, "/v1/batch", header, map[string]any{"requests": requests})
}

// Chat sends a completion, as a stream or not as its body says. The body of the answer is the
// caller's to close.
func (c *Client) Chat(ctx context.Context, header http.Header, body any) (*http.Response, error) {
	return c.Do(ctx, http.MethodPost, "/v1"+schemas.RouteChat, header, body)
}

// Actions is one page of the actions, newest first, by the parameters of GET /v1/actions.
func (c *Client) Actions(ctx context.Context, query url.Values) (schemas.ActionPage, error) {
	return get[schemas.ActionPage](ctx, c, "/v1/actions", query)
}

func action(id, rest string) string { return "/v1/actions/" + url.PathEscape(id) + rest }

// Action reads one action into a document: a schemas.ActionView, or a json.RawMessage as it came.
func (c *Client) Action(ctx context.Context, id string, into any) error {
	return c.Call(ctx, http.MethodGet, action(id, ""), nil, nil, into)
}

// ActionEvents is one page of an action's events.
func (c *Client) ActionEvents(ctx context.Context, id string, query url.Values) (schemas.Page[schemas.EventView], error) {
	return get[schemas.Page[schemas.EventView]](ctx, c, action(id, "/events"), query)
}

// Cancel cancels an action, or asks one that runs to stop.
func (c *Client) Cancel(ctx context.Context, id string) (schemas.ActionStatus, error) {
	return post[schemas.ActionStatus](ctx, c, action(id, "/cancel"), nil, nil)
}

// Resolve records whether an action whose outcome is unknown took effect.
func (c *Client) Resolve(ctx context.Context, id string, req schemas.ResolveRequest) (schemas.ActionStatus, error) {
	return post[schemas.ActionStatus](ctx, c, action(id, "/resolve"), nil, req)
}

// Stats are figures over time, by the parameters of GET /v1/stats.
func (c *Client) Stats(ctx context.Context, query url.Values) (schemas.Stats, error) {
	return get[schemas.Stats](ctx, c, "/v1/stats", query)
}

// DeadLetters is one page of the dead letters, oldest first.
func (c *Client) DeadLetters(ctx context.Context, query url.Values) (schemas.Page[schemas.DeadLetterView], error) {
	return get[schemas.Page[schemas.DeadLetterView]](ctx, c, "/v1/dead-letters", query)
}

// RedriveAction makes a new action of one that ended without success. A repeat returns the same one.
func (c *Client) RedriveAction(ctx context.Context, id string) (schemas.Receipt, error) {
	return post[schemas.Receipt](ctx, c, action(id, "/redrive"), nil, nil)
}

// Redrive makes a new action of a dead letter's. A repeat returns the same one.
func (c *Client) Redrive(ctx context.Context, sequence uint64) (schemas.Receipt, error) {
	return post[schemas.Receipt](ctx, c, "/v1/dead-letters/redrive", nil, map[string]uint64{"sequence": sequence})
}

// Policy is the policy in force, as far as the token may see it.
func (c *Client) Policy(ctx context.Context) (schemas.PolicyView, error) {
	return get[schemas.PolicyView](ctx, c, "/v1/policy", nil)
}

// Explain says what the policy says of a call that is not made.
func (c *Client) Explain(ctx context.Context, req schemas.ExplainRequest) (schemas.Explanation, error) {
	return post[schemas.Explanation](ctx, c, "/v1/policy/explain", nil, req)
}

// Reload has the node, or every node, read its configuration again.
func (c *Client) Reload(ctx context.Context, all bool) (schemas.Reload, error) {
	var body any
	if all {
		body = schemas.ReloadRequest{All: true}
	}
	return post[schemas.Reload](ctx, c, "/v1/policy/reload", nil, body)
}

// Operations are what operators hold back, and what asked to be left alone.
func (c *Client) Operations(ctx context.Context) (schemas.OperationsView, error) {
	return get[schemas.OperationsView](ctx, c, schemas.RouteOperations, nil)
}

// Operate sends one of the four routes below schemas.RouteOperations.
func (c *Client) Operate(ctx context.Context, route string, req schemas.OperationRequest) (schemas.Operation, error) {
	return post[schemas.Operation](ctx, c, route, nil, req)
}

// PreviewRule says what rules and policy make of a call that is not made, into a document.
func (c *Client) PreviewRule(ctx context.Context, req schemas.PreviewRequest, into any) error {
	return c.Call(ctx, http.MethodPost, "/v1/rules/preview", nil, req, into)
}

// RecordRules makes mock rules of what an action received.
func (c *Client) RecordRules(ctx context.Context, req schemas.RecordRequest) (schemas.Recording, error) {
	return post[schemas.Recording](ctx, c, "/v1/rules/record", nil, req)
}

// CreateTask files a task. Only the first answer for an Idempotency-Key has its token.
func (c *Client) CreateTask(ctx context.Context, header http.Header, req schemas.TaskRequest) (schemas.NewTask, error) {
	return post[schemas.NewTask](ctx, c, schemas.RouteTasks, header, req)
}

// Tasks is one page of the tasks, newest first.
func (c *Client) Tasks(ctx context.Context, query url.Values) (schemas.TaskPage, error) {
	return get[schemas.TaskPage](ctx, c, schemas.RouteTasks, query)
}

func task(id, rest string) string { return schemas.RouteTasks + "/" + url.PathEscape(id) + rest }

// Task reads one task.
func (c *Client) Task(ctx context.Context, id string) (schemas.TaskView, error) {
	return get[schemas.TaskView](ctx, c, task(id, ""), nil)
}

// TaskEvents is one page of the changes of a task and of its output.
func (c *Client) TaskEvents(ctx context.Context, id string, query url.Values) (schemas.Page[schemas.TaskUpdate], error) {
	return get[schemas.Page[schemas.TaskUpdate]](ctx, c, task(id, "/events"), query)
}

// CancelTask asks a task to stop.
func (c *Client) CancelTask(ctx context.Context, id string) (schemas.TaskView, error) {
	return post[schemas.TaskView](ctx, c, task(id, "/cancel"), nil, nil)
}

// AnswerTask answers an agent's question.
func (c *Client) AnswerTask(ctx context.Context, id string, req schemas.AnswerRequest) (schemas.TaskView, error) {
	return post[schemas.TaskView](ctx, c, task(id, "/answer"), nil, req)
}

// TaskToken gives a task another token of its own; the one before ends.
func (c *Client) TaskToken(ctx context.Context, id string) (schemas.NewTask, error) {
	return post[schemas.NewTask](ctx, c, task(id, "/token"), nil, nil)
}

// Subtoken makes a token for a child, with the client's token of a task.
func (c *Client) Subtoken(ctx context.Context, req schemas.SubtokenRequest) (schemas.NewSubtoken, error) {
	return post[schemas.NewSubtoken](ctx, c, schemas.RouteAgentSubtokens, nil, req)
}

// LeaseTask leases a task for a runner; nil: there was none within the request's wait.
func (c *Client) LeaseTask(ctx context.Context, req schemas.LeaseRequest) (*schemas.LeasedTask, error) {
	t, err := post[*schemas.LeasedTask](ctx, c, schemas.RouteTaskLease, nil, req)
	if err != nil {
		return nil, err // and not what could be read of the answer
	}
	return t, nil
}

// OutputOfTask stores a piece of output of the task of the client's token, which is a lease's, and so
// keeps the lease. An empty piece only keeps it.
func (c *Client) OutputOfTask(ctx context.Context, piece schemas.OutputRequest) error {
	return c.Call(ctx, http.MethodPost, schemas.RouteAgentOutput, nil, piece, nil)
}

// CompleteTask ends the task of the client's token, which is a lease's, as completed.
func (c *Client) CompleteTask(ctx context.Context, req schemas.CompleteRequest) error {
	return c.Call(ctx, http.MethodPost, schemas.RouteAgentComplete, nil, req, nil)
}

// FailTask ends the task of the client's token, which is a lease's, as failed.
func (c *Client) FailTask(ctx context.Context, req schemas.FailRequest) error {
	return c.Call(ctx, http.MethodPost, schemas.RouteAgentFail, nil, req, nil)
}

// ReleaseTask gives the task of the client's token, which is a lease's, back.
func (c *Client) ReleaseTask(ctx context.Context) error {
	return c.Call(ctx, http.MethodPost, schemas.RouteTaskRelease, nil, nil, nil)
}

// CreateRepo makes a repository.
func (c *Client) CreateRepo(ctx context.Context, header http.Header, req schemas.RepoRequest, into any) error {
	return c.Call(ctx, http.MethodPost, schemas.RouteRepos, header, req, into)
}

// Repos is one page of the repositories, by name.
func (c *Client) Repos(ctx context.Context, query url.Values) (schemas.Page[schemas.Repo], error) {
	return get[schemas.Page[schemas.Repo]](ctx, c, schemas.RouteRepos, query)
}

// Budgets is one page of the accounts of budgets.
func (c *Client) Budgets(ctx context.Context, query url.Values) (schemas.Page[schemas.BudgetView], error) {
	return get[schemas.Page[schemas.BudgetView]](ctx, c, schemas.RouteBudgets, query)
}

// CreateToken makes a token. Its secret is in this answer alone; a repeat makes another.
func (c *Client) CreateToken(ctx context.Context, req schemas.TokenRequest) (schemas.NewToken, error) {
	return post[schemas.NewToken](ctx, c, "/v1/tokens", nil, req)
}

// Tokens is one page of the tokens, oldest first.
func (c *Client) Tokens(ctx context.Context, query url.Values) (schemas.Page[schemas.Token], error) {
	return get[schemas.Page[schemas.Token]](ctx, c, "/v1/tokens", query)
}

// RevokeToken ends a token.
func (c *Client) RevokeToken(ctx context.Context, id string) (schemas.Token, error) {
	return post[schemas.Token](ctx, c, "/v1/tokens/"+url.PathEscape(id)+"/revoke", nil, nil)
}

// Backup reads a backup of a running node. The body of the answer is the caller's to close.
func (c *Client) Backup(ctx context.Context) (*http.Response, error) {
	return c.Do(ctx, http.MethodGet, schemas.RouteBackup, nil, nil)
}
