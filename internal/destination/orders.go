package destination

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"weir/internal/fault"
	"weir/schemas"
)

// orders are what operators have decided. All of it is one value, so that it is read and
// replaced as a whole; it is small, and changes when a person wants it to.
type orders struct {
	store Store
	book  *Book

	now atomic.Pointer[standing]

	mu     sync.Mutex // of the change from one standing to the next, and of the line
	asleep sleepers
}

// standing is what is in force. It is never changed; changed is closed when another
// comes into force.
type standing struct {
	all      []schemas.Operation
	revision uint64
	changed  chan struct{}
}

const (
	ordersKey     = "operations"
	ordersVersion = 1
)

// document is the value.
type document struct {
	V          int                 `json:"v"`
	Operations []schemas.Operation `json:"operations"`
}

// ErrUnreadable says that another version wrote what is in force. Nobody writes over it,
// and what could be read before stays in force.
var ErrUnreadable = errors.New("the operations in force cannot be read")

func newOrders(store Store, b *Book) *orders {
	o := &orders{store: store, book: b}
	o.now.Store(&standing{changed: make(chan struct{})})
	return o
}

func read(r schemas.Record) ([]schemas.Operation, error) {
	if len(r.Data) == 0 {
		return nil, nil
	}
	var d document
	if err := json.Unmarshal(r.Data, &d); err != nil || d.V != ordersVersion {
		return nil, ErrUnreadable
	}
	return d.Operations, nil
}

// learn puts a newer value in force, and wakes what rests because of the one before.
func (o *orders) learn(r schemas.Record) {
	if r.Subject != ordersKey {
		return
	}
	all, err := read(r)
	if err != nil {
		o.book.cfg.Logger.Warn("operations not readable", "component", "destination", "err_kind", "damaged")
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	was := o.now.Load()
	if r.Seq <= was.revision {
		return
	}
	o.now.Store(&standing{all: all, revision: r.Seq, changed: make(chan struct{})})
	close(was.changed)
	o.book.wakers.wake(o.asleep.take(-1, o.book.cfg.Now()))
	if m := o.book.cfg.Metrics; m != nil {
		pauses := 0
		for _, op := range all {
			if op.Do == schemas.OperationPause {
				pauses++
			}
		}
		m.OperationsInForce(pauses, len(all)-pauses)
	}
}

// sleep notes an action that rests because of what stood then.
func (o *orders) sleep(then *standing, ref schemas.Ref, until time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.now.Load() != then {
		o.book.wakers.wake([]schemas.Ref{ref})
		return
	}
	o.asleep.add(ref, until, o.book.cfg.Now())
}

// about is whether a call is paused, and how its destination is pinned; the destination's own pin goes before its
// entry's, and open before closed.
func (s *standing) about(c *Call) (paused bool, pin string) {
	best := 0
	for _, op := range s.all {
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

// Operations are what operators have decided, oldest first.
func (b *Book) Operations() []schemas.Operation { return slices.Clone(b.orders.now.Load().all) }

// Order puts an operation in force, in the place of one of the same sort about the same
// target. When it returns, this process goes by it; the others do when they hear of it.
func (b *Book) Order(ctx context.Context, op schemas.Operation) (schemas.Operation, error) {
	op.At = b.cfg.Now().UTC()
	err := b.orders.change(ctx, func(all []schemas.Operation) ([]schemas.Operation, error) {
		all = slices.DeleteFunc(all, op.Same)
		if len(all) >= schemas.MaxOperations {
			return nil, fault.New(schemas.Conflict, "as many operations are in force as there may be; take some of them back first")
		}
		return append(all, op), nil
	})
	return op, err
}

// Lift takes an operation back. fault.ErrNotFound: there is none of that sort about that
// target.
func (b *Book) Lift(ctx context.Context, do string, t schemas.Target) (lifted schemas.Operation, err error) {
	err = b.orders.change(ctx, func(all []schemas.Operation) ([]schemas.Operation, error) {
		i := slices.IndexFunc(all, schemas.Operation{Do: do, Target: t}.Same)
		switch {
		case i < 0 && lifted.Do != "": // by the try before, of which nobody knew
			return all, nil
		case i < 0:
			return nil, fault.ErrNotFound
		}
		lifted = all[i]
		return slices.Delete(all, i, i+1), nil
	})
	return lifted, err
}

// changeTries is how often a change is tried when others write at the same time.
const changeTries = 8

// change replaces the value by what do makes of a copy of its newest.
func (o *orders) change(ctx context.Context, do func([]schemas.Operation) ([]schemas.Operation, error)) error {
	for try := 1; ; try++ {
		r, err := o.store.Get(ctx, ordersKey)
		if errors.Is(err, fault.ErrNotFound) {
			r, err = schemas.Record{}, nil
		}
		if err != nil {
			return err
		}
		all, err := read(r)
		if err != nil {
			return err
		}
		if all, err = do(slices.Clone(all)); err != nil {
			return err
		}
		slices.SortStableFunc(all, func(a, b schemas.Operation) int { return cmp.Compare(a.At.UnixNano(), b.At.UnixNano()) })
		value, err := json.Marshal(document{ordersVersion, all})
		if err != nil {
			return err
		}
		seq, err := o.store.Put(ctx, ordersKey, value, r.Seq)
		if err == nil {
			o.learn(schemas.Record{Subject: ordersKey, Seq: seq, Data: value})
			return nil
		}
		// What may have been stored is the same when it is stored again.
		if !errors.Is(err, fault.ErrFenced) && !errors.Is(err, fault.ErrUnavailable) || try == changeTries || ctx.Err() != nil {
			return err
		}
	}
}
