package ingress

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/gin-gonic/gin"

	"weir/internal/fault"
	"weir/internal/problem"
	"weir/schemas"
)

// How often, and for how long, ingress retries a cancel for a client that has left while the log
// does not accept it. The duration of a write counts too.
const (
	cancelFor   = 3 * time.Minute
	cancelPause = 250 * time.Millisecond
	cancelRest  = 5 * time.Second // between two tries, at most
)

// Canceler stops actions that have no reader left.
type Canceler struct {
	// Stop notifies the worker of a running action that it must stop.
	Stop func(ref schemas.Ref)
	// Cancel writes the request to stop an action to the log.
	Cancel func(ctx context.Context, tenant, id string) error
	// Draining is closed when the node stops: each cancel is then tried once more. nil: never.
	Draining <-chan struct{}
}

// Left returns a function that stops an action. It notifies the worker at once, if it can. Only the
// request on the log counts; Left tries to write it until the action has ended. If that fails, the
// action runs to its end, and this node logs it.
func (l Canceler) Left(c *gin.Context, s *Server, ref schemas.Ref) func() {
	ctx := context.WithoutCancel(c.Request.Context())
	return func() {
		l.Stop(ref)
		if err := l.canceled(ctx, ref); err != nil {
			s.cfg.Logger.LogAttrs(
				ctx, slog.LevelWarn, "action_cancel_failed",
				slog.String("action_id", ref.ID), slog.String("tenant", ref.Tenant), slog.String("code", string(problem.Of(err).Code)),
			)
		}
	}
}

// canceled writes the request to stop an action, until the log has it or the action has ended.
func (l Canceler) canceled(ctx context.Context, ref schemas.Ref) error {
	ctx, cancel := context.WithTimeout(ctx, cancelFor)
	defer cancel()
	for pause := cancelPause; ; pause = min(2*pause, cancelRest) {
		err := l.Cancel(ctx, ref.Tenant, ref.ID)
		if err == nil || ended(err) {
			return nil
		}
		select {
		case <-time.After(pause):
		case <-l.Draining:
			return err // the log may not come back, and the node waits for this
		case <-ctx.Done():
			return err
		}
	}
}

// ended reports whether there is nothing left to be canceled.
func ended(err error) bool {
	public, ok := errors.AsType[*fault.Error](err)
	return ok && (public.Code == schemas.Conflict || public.Code == schemas.NotFound || public.Code == schemas.StreamGone)
}
