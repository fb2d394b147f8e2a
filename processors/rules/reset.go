package rules

import (
	"context"
	"errors"

	"weir/internal/rules"
	"weir/processors/call"
)

// reset puts an empty set in the place of one that cannot be read, or says why not.
// Its errors are those of carry. There is no etag that could say which set the asker
// means: that nobody can read it is the condition.
func (w *write) reset(ctx context.Context, stop call.Stop) (end, error) {
	cur, err := w.sets.Newest(ctx, w.st.Tenant)
	damaged := errors.Is(err, rules.ErrUnreadable)
	if err != nil && !damaged {
		return end{}, err
	}
	canceled, over := w.ended(stop)
	switch {
	case !damaged && cur.Doc.By == w.st.ID:
		return w.written(cur), nil
	case w.begun && (over || !damaged): // it may still arrive, or have been replaced since
		return unknown(cur.Etag), nil
	case over:
		return stopped(cur.Etag, canceled), nil
	case !damaged:
		return refused(cur.Etag, invalid("", "the rule set can be read; disable its rules instead")), nil
	}
	next, err := w.sets.Reset(ctx, w.st.Tenant, w.st.ID)
	if err != nil {
		return end{}, err
	}
	return w.written(next), nil
}
