package listing

import (
	"context"
	"time"
)

// Round reads the lists that are due, and returns when the next one is.
func (r *Refresher) Round(ctx context.Context, anew bool) time.Time { return r.round(ctx, anew) }
