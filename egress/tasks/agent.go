package tasks

import (
	"context"
	"errors"
	"net/http"
	"time"

	"weir/egress/stream"
	"weir/internal/fault"
	"weir/internal/problem"
	"weir/internal/task"
	"weir/internal/wire"
	"weir/schemas"
)

// An agent waits for its branch for at most opening, which is below the timeouts of common clients.
// It reads the log at intervals meanwhile, in case the feed has missed a record.
const (
	opening = 10 * time.Second
	looking = 2 * time.Second
)

// AgentTask answers with a task for the holder of a lease, once its branch exists or the task has
// ended; lease 0 means the task's own token.
func (a Answerer) AgentTask(w http.ResponseWriter, r *http.Request, ref schemas.Ref, lease int) {
	_, t, err := a.opened(r, ref, lease)
	if err != nil && (t == nil || !t.Over() || t.Lease != lease) {
		answerAgent(w, r, err)
		return
	}
	stream.WriteJSON(w, r, http.StatusOK, Agent(t, a.repoURL(t.Order.Repo)))
}

// Leased answers with a task, its new lease and its token. Timeout is how long the holder may be
// silent. If given is false, the token was not delivered.
func (a Answerer) Leased(w http.ResponseWriter, r *http.Request, ref schemas.Ref, lease int, token string, timeout time.Duration) (given bool) {
	action, t, err := a.opened(r, ref, lease)
	if err == nil {
		err = r.Context().Err() // who has gone meanwhile reads nothing
	}
	if err != nil {
		answerAgent(w, r, err)
		return false
	}
	stream.WriteJSON(w, r, http.StatusOK, schemas.LeasedTask{
		Task: Agent(t, a.repoURL(t.Order.Repo)), ID: ref.ID, Lease: lease, Token: token,
		Timeout: timeout.Milliseconds(), Deadline: action.Deadline,
		Remaining: max(0, action.Deadline.Sub(a.server.Now()).Milliseconds()), Model: t.Order.Model, Base: t.Base,
	})
	return true
}

// opened waits for the branch of a leased task.
func (a Answerer) opened(r *http.Request, ref schemas.Ref, lease int) (schemas.Action, *task.State, error) {
	ctx, cancel := context.WithTimeout(r.Context(), opening)
	defer cancel()
	tick := time.NewTicker(looking)
	defer tick.Stop()
	action, t, err := a.follow(ctx, ref, tick.C, func(t *task.State) bool { return t.Opened || !holds(t, lease) })
	switch {
	case err == nil:
		err = refused(t, lease)
	case ctx.Err() != nil && r.Context().Err() == nil:
		err = fault.New(schemas.Unavailable, "the task's branch is not there yet; ask again")
	}
	return action, t, err
}

// holds reports whether a lease of a task that goes on is the one that it is held by.
func holds(t *task.State, lease int) bool {
	return !t.Canceled && !t.Over() && t.Lease == lease && t.Status == schemas.TaskStatusRunning
}

// refused is the error for a former holder of a lease.
func refused(t *task.State, lease int) error {
	switch {
	case holds(t, lease):
		return nil
	case t.Canceled || t.Over():
		return task.NotRunning()
	default:
		return fault.New(schemas.Unauthorized, "the task is not held with this token any more")
	}
}

// Inquiry waits for the answer to a question, for as long as the client waits and holds the task by
// its lease. If this node stops, the client asks again on another node, and joins its own question.
func (a Answerer) Inquiry(w http.ResponseWriter, r *http.Request, ref schemas.Ref, lease, n int) {
	// The deadline of the request's body would end the wait for its answer.
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
	var answer *string
	_, t, err := a.follow(r.Context(), ref, nil, func(t *task.State) bool {
		if n >= 1 && n <= len(t.Inquiries) {
			answer = t.Inquiries[n-1].Answer
		}
		return answer != nil || !holds(t, lease)
	})
	switch {
	case err != nil:
	case answer != nil:
		stream.WriteJSON(w, r, http.StatusOK, *answer)
		return
	default:
		err = refused(t, lease)
	}
	answerAgent(w, r, err)
}

// follow reads a task until done says so of what is known of it, and reads the log for what the feed
// has missed at each tick. It begins with all that was stored before the call: who has decided
// something by the log hears nothing older.
func (a Answerer) follow(ctx context.Context, ref schemas.Ref, tick <-chan time.Time, done func(*task.State) bool) (schemas.Action, *task.State, error) {
	st, err := a.server.Actions().Load(ctx, ref)
	if err != nil {
		return schemas.Action{}, nil, err
	}
	action := st.Action
	t, err := a.fold(ctx, st)
	if err == nil {
		err = a.server.Durable(ctx, ref, st.Seq)
	}
	if err != nil {
		return action, nil, err
	}
	if done(t) || st.Settled != nil {
		return action, t, nil
	}
	reader, err := a.server.Feed().Follow(ctx, ref, st.Seq)
	if err != nil {
		return action, t, err
	}
	defer reader.Close()
	for {
		items, err := reader.Next(ctx, tick)
		if err != nil {
			return action, t, err
		}
		if len(items) == 0 {
			reader.Recheck()
		}
		for _, it := range items {
			t.Apply(it.Event)
		}
		if !reader.Pending() && (done(t) || reader.Ended()) {
			return action, t, nil
		}
	}
}

// Opened waits until the branch of a holder's task exists; its errors are public.
func (a Answerer) Opened(r *http.Request, g task.Grant) error {
	if g.TaskID == "" || g.Opened {
		return nil
	}
	_, _, err := a.opened(r, g.Task(), g.Lease)
	return public(err)
}

func public(err error) error {
	if errors.Is(err, stream.ErrClosed) {
		return fault.New(schemas.Unavailable, "this node is shutting down; ask again, nothing is lost")
	}
	return noTask(err)
}

// answerAgent refuses an agent's request, unless the client is gone.
func answerAgent(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() != nil {
		wire.Drop(r.Context())
		return
	}
	problem.Write(w, r, public(err))
}
