package runner

import (
	"context"
	"errors"
	"net/http"
	"time"

	"weir/client"
	"weir/schemas"
)

// How long a request may take, and how long the server may hold one for a task.
const (
	answerWait = 10 * time.Second
	leaseWait  = 20 * time.Second
)

var (
	// errOver says that a token stands for no task any more.
	errOver = errors.New("the task is over for this holder")
	// errReported says that the holder of a token has said how its task ended.
	errReported = errors.New("the agent has reported how the task ended")
	// errFull says that a task takes no more output.
	errFull = errors.New("the task has as much output as it may have")
)

// lease takes a task, or nothing where there is none within a while.
func (r *runner) lease(ctx context.Context) (*schemas.LeasedTask, error) {
	wait := leaseWait
	if r.cfg.Once {
		wait = 0
	}
	ctx, cancel := context.WithTimeout(ctx, wait+answerWait)
	defer cancel()
	ask := schemas.LeaseRequest{Pool: r.cfg.Pool, WaitMS: int(wait.Milliseconds())}
	t, err := client.Post[*schemas.LeasedTask](ctx, r.cfg.Client, schemas.RouteTaskLease, ask)
	if err != nil {
		return nil, err // and not what could be read of the answer
	}
	if t != nil && !schemas.ValidID(t.ID) { // it becomes the name of a directory
		return nil, errors.New("the server's answer names a task that cannot be one")
	}
	return t, nil
}

// say sends something about a task with the token of its lease. errReported: the agent has said already
// how the task ended. errOver: the task is over for another reason, or is another's. errFull: it takes no
// more output.
func (r *runner) say(ctx context.Context, t *schemas.LeasedTask, route string, body any) error {
	ctx, cancel := context.WithTimeout(ctx, answerWait)
	defer cancel()
	err := r.cfg.Client.As(t.Token).Call(ctx, http.MethodPost, route, nil, body, nil)
	no, ok := errors.AsType[*client.Error](err)
	if !ok || no.Body == nil { // not Weir's answer
		return err
	}
	why := no.Problem // of a task that does not run, the reason is its status
	reported := why.Reason == string(schemas.TaskStatusCompleted) || why.Reason == string(schemas.TaskStatusFailed)
	switch {
	case why.Code == schemas.TaskNotRunning && reported:
		return errReported
	case why.Code == schemas.TaskNotRunning, no.Status == http.StatusUnauthorized:
		return errOver
	case why.Code == schemas.Conflict && route == schemas.RouteAgentOutput:
		return errFull
	default:
		return err
	}
}
