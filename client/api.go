package client

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"time"

	"github.com/tmaxmax/go-sse"

	"weir/schemas"
)

// Execute makes one call through POST /v1/execute. The header may have Prefer, Idempotency-Key and
// the terms of the action. The body of the answer is the caller's to close; its status is the
// call's.
func (c *Client) Execute(ctx context.Context, header http.Header, req any) (*http.Response, error) {
	return c.Do(ctx, http.MethodPost, "/v1/execute", header, req)
}

// Batch makes up to 1,000 such calls. With Accept: application/x-ndjson the answer is one
// schemas.BatchItem a line, else a schemas.BatchAnswer.
func (c *Client) Batch(ctx context.Context, header http.Header, requests any) (*http.Response, error) {
	return c.Do(ctx, http.MethodPost, "/v1/batch", header, map[string]any{"requests": requests})
}

// Chat requests a completion, as a stream or not as its body says. The body of the answer is the
// caller's to close.
func (c *Client) Chat(ctx context.Context, header http.Header, body any) (*http.Response, error) {
	return c.Do(ctx, http.MethodPost, "/v1"+schemas.RouteChat, header, body)
}

func action(id, rest string) string { return "/v1/actions/" + url.PathEscape(id) + rest }

// Actions is one page of the actions, newest first, by the parameters of GET /v1/actions.
func (c *Client) Actions(ctx context.Context, query url.Values) (schemas.ActionPage, error) {
	return Get[schemas.ActionPage](ctx, c, "/v1/actions", query)
}

// Action is one action with its result, if it has ended.
func (c *Client) Action(ctx context.Context, id string) (schemas.ActionView, error) {
	return Get[schemas.ActionView](ctx, c, action(id, ""), nil)
}

// Cancel cancels an action, or asks one that runs to stop.
func (c *Client) Cancel(ctx context.Context, id string) (schemas.ActionStatus, error) {
	return Post[schemas.ActionStatus](ctx, c, action(id, "/cancel"), nil)
}

// Resolve records whether an action whose outcome is unknown took effect.
func (c *Client) Resolve(ctx context.Context, id string, req schemas.ResolveRequest) (schemas.ActionStatus, error) {
	return Post[schemas.ActionStatus](ctx, c, action(id, "/resolve"), req)
}

// Redrive makes a new action of one that ended without success. A repeat returns the same one.
func (c *Client) Redrive(ctx context.Context, id string) (schemas.Receipt, error) {
	return Post[schemas.Receipt](ctx, c, action(id, "/redrive"), nil)
}

// Explain says what the policy says of a call that is not made.
func (c *Client) Explain(ctx context.Context, req schemas.ExplainRequest) (schemas.Explanation, error) {
	return Post[schemas.Explanation](ctx, c, "/v1/policy/explain", req)
}

// Task is a task and how far it is.
func (c *Client) Task(ctx context.Context, id string) (schemas.TaskView, error) {
	return Get[schemas.TaskView](ctx, c, schemas.RouteTasks+"/"+url.PathEscape(id), nil)
}

// CreateTask files a task. Only the first answer for an Idempotency-Key in the header has its token.
func (c *Client) CreateTask(ctx context.Context, header http.Header, req schemas.TaskRequest) (made schemas.NewTask, err error) {
	err = c.Call(ctx, http.MethodPost, schemas.RouteTasks, header, req, &made)
	return made, err
}

// Follow reads a stream of events, such as those of an action at /v1/actions/{id}/events or
// /v1/evidence, and resumes it where it was cut. It returns nil when the stream ends by itself or
// ctx ends, and else the error of each, or the server's refusal.
func (c *Client) Follow(ctx context.Context, path string, each func(sse.Event) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	req, err := c.request(ctx, http.MethodGet, path, nil, nil)
	if err != nil {
		return err
	}
	var refused error
	conn := (&sse.Client{
		HTTPClient: c.http,
		ResponseValidator: func(r *http.Response) error {
			switch r.StatusCode {
			case http.StatusOK:
				refused = c.foreign(r)
			case http.StatusNoContent:
				refused = errEnded
			default:
				refused = ErrorOf(r)
			}
			if refused != nil {
				cancel(refused)
			}
			return refused
		},
		Backoff: sse.Backoff{InitialInterval: 200 * time.Millisecond, MaxInterval: 5 * time.Second},
	}).NewConnection(req)
	conn.SubscribeToAll(func(e sse.Event) {
		if err := each(e); err != nil {
			cancel(err)
		}
	})
	err = conn.Connect()
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	if errors.Is(err, errEnded) || errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// errEnded ends a follow: there will be nothing more.
var errEnded = errors.New("the stream has ended")
