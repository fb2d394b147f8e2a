package call

import (
	"context"

	"weir/processors/guard"
)

// Do makes one attempt.
func (c *Caller) Do(ctx context.Context, t *Task, p guard.Pass) error {
	return c.attempt(ctx, t, p, 1, nil, &pending{})
}
