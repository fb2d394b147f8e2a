package call

import (
	"context"
	"encoding/json"
	"time"

	"weir/internal/ledger"
	"weir/schemas"
)

// Unlogged is the ledger of calls that belong to no action: it stores nothing.
type Unlogged struct{}

// Append folds an event into the state alone.
func (Unlogged) Append(_ context.Context, st *ledger.State, ev schemas.Event) error {
	ev.Time = time.Now().UTC()
	st.Add(ev)
	return nil
}

// Hold is Append.
func (u Unlogged) Hold(ctx context.Context, st *ledger.State, ev schemas.Event) error {
	return u.Append(ctx, st, ev)
}

// PutBlob keeps a body where it is, for it is read at once.
func (Unlogged) PutBlob(_ context.Context, _ string, doc json.RawMessage) (inline json.RawMessage, name string, err error) {
	return doc, "", nil
}
