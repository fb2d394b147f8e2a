package chat

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

// How often, and for how long, a completion is canceled whose client has left, while the
// log does not take it. A write that takes its time counts too.
const (
	cancelFor   = 3 * time.Minute
	cancelPause = 250 * time.Millisecond
	cancelRest  = 5 * time.Second // between two tries, at most
)

// canceler stops a completion that has no reader left. It notifies the worker at once, if it can.
// Only the request on the log counts; canceler tries to write it until the completion has ended. If
// that fails, the completion runs to its end, and this node logs it.
func (h handlers) canceler(c *gin.Context, ref schemas.Ref) func() {
	ctx := context.WithoutCancel(c.Request.Context())
	return func() {
		h.Stop(ref)
		if err := h.canceled(ctx, ref); err != nil {
			h.server.Logger().LogAttrs(
				ctx, slog.LevelWarn, "completion not canceled",
				slog.String("action_id", ref.ID), slog.String("tenant", ref.Tenant), slog.String("code", string(problem.Of(err).Code)),
			)
		}
	}
}

// canceled asks an action to stop until it has been asked, or has ended.
func (h handlers) canceled(ctx context.Context, ref schemas.Ref) error {
	ctx, cancel := context.WithTimeout(ctx, cancelFor)
	defer cancel()
	for pause := cancelPause; ; pause = min(2*pause, cancelRest) {
		err := h.Cancel(ctx, ref.Tenant, ref.ID)
		if err == nil || ended(err) {
			return nil
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-h.Draining:
			timer.Stop()
			return err // the log may not come back, and the node waits for this
		case <-ctx.Done():
			timer.Stop()
			return err
		}
	}
}

// ended reports whether there is nothing left to be canceled.
func ended(err error) bool {
	public, ok := errors.AsType[*fault.Error](err)
	return ok && (public.Code == schemas.Conflict || public.Code == schemas.NotFound || public.Code == schemas.StreamGone)
}
