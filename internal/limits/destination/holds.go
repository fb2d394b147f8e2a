package destination

import (
	"context"
	"slices"
	"time"

	"weir/internal/fault"
	"weir/schemas"
)

const (
	holdsKey     = "operations"
	holdsVersion = 1
)

// holds are all operations in force, as one value: they are few, and change when a person wants
// it.
type holds struct {
	V          int                 `json:"v"`
	Operations []schemas.Operation `json:"operations"`
}

// ErrUnreadable is the error for operations in force that another version wrote. The node does not
// overwrite them, and those that it read before stay in force.
var ErrUnreadable = fault.New(schemas.Conflict, "another version of Weir wrote what is in force; change it with that version, or a newer one")

// held wakes what waits for other operations than those in force now.
func (l *Limiter) held(is *holds) {
	l.paused.notify(-1)
	pauses := 0
	for _, op := range is.Operations {
		if op.Do == schemas.OperationPause {
			pauses++
		}
	}
	l.cfg.Metrics.OperationsInForce(pauses, len(is.Operations)-pauses)
}

// about is whether a call is paused, and how its destination is pinned. The destination's own pin
// goes before its entry's pin, and open before closed.
func (h *holds) about(c *Call) (paused bool, pin string) {
	best := 0
	for _, op := range h.Operations {
		var weight int
		switch {
		case op.Entry != "" && op.Entry == c.Entry:
			weight = 1
		case op.Destination != "" && op.Destination == c.Destination:
			weight = 2
		case op.Tenant != "" && op.Tenant == c.Ref.Tenant, op.Kind != "" && op.Kind == c.Ref.Kind:
			weight = 1
		default:
			continue
		}
		if op.Do == schemas.OperationPause {
			return true, ""
		}
		if weight > best || weight == best && op.State == schemas.PinOpen {
			best, pin = weight, op.State
		}
	}
	return false, pin
}

// Operations are the operations in force, oldest first.
func (l *Limiter) Operations() []schemas.Operation { return slices.Clone(l.holds.Value().Operations) }

// Order puts an operation in force. It replaces an operation of the same type on the same target.
// It is in force on this process when Order returns, and on others when they receive it.
func (l *Limiter) Order(ctx context.Context, op schemas.Operation) (schemas.Operation, error) {
	op.At = time.Now().UTC()
	full := false
	err := l.holds.Change(context.WithoutCancel(ctx), func(h *holds, _ time.Time) bool {
		h.Operations = slices.DeleteFunc(h.Operations, op.Same)
		if full = len(h.Operations) >= schemas.MaxOperations; full {
			return false
		}
		h.Operations = append(h.Operations, op)
		slices.SortStableFunc(h.Operations, func(a, b schemas.Operation) int { return a.At.Compare(b.At) })
		return true
	})
	if err == nil && full {
		err = fault.New(schemas.Conflict, "as many operations are in force as there may be; take some of them back first")
	}
	return op, l.durable(ctx, err)
}

// durable returns when a decision survives a crash, if it was stored.
func (l *Limiter) durable(ctx context.Context, err error) error {
	if err != nil || l.cfg.Barrier == nil {
		return err
	}
	return l.cfg.Barrier(ctx)
}

// Lift takes an operation back. fault.ErrNotFound: there is none of that sort about that target.
func (l *Limiter) Lift(ctx context.Context, do string, t schemas.Target) (lifted schemas.Operation, err error) {
	found := false // by this try or an earlier one, which may have been stored
	err = l.holds.Change(context.WithoutCancel(ctx), func(h *holds, _ time.Time) bool {
		i := slices.IndexFunc(h.Operations, schemas.Operation{Do: do, Target: t}.Same)
		if i < 0 {
			return false
		}
		lifted, found = h.Operations[i], true
		h.Operations = slices.Delete(h.Operations, i, i+1)
		return true
	})
	if err == nil && !found {
		err = fault.ErrNotFound
	}
	return lifted, l.durable(ctx, err)
}
