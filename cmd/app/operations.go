package app

import (
	"context"
	"errors"
	"fmt"

	"weir/internal/fault"
	"weir/internal/limits/destination"
	"weir/schemas"
)

// openDestinations mirrors the operators' holds, and the workers' notices about destinations. A
// worker that is alone on its log sends no notices.
func (a *App) openDestinations(ctx context.Context) error {
	var shared destination.Store
	if !a.cfg.Embedded() && (a.role.works() || a.role.shows()) {
		shared = a.broker.Bucket(schemas.DestinationBucket)
	}
	b := destination.New(a.broker.Bucket(schemas.OperationBucket), shared, destination.Config{
		Worker: a.worker, Notify: a.ledger.Notify, Logger: a.log, Metrics: a.metrics,
	})
	if err := b.Start(ctx); err != nil {
		return fmt.Errorf("destinations: %w", err)
	}
	a.teardown.push(func(context.Context) error { b.Stop(); return nil })
	a.destinations = b
	return nil
}

// operationsView lists the paused and pinned calls, with the reasons.
func (a *App) operationsView() schemas.OperationsView {
	v := schemas.OperationsView{Items: a.destinations.Operations(), Destinations: a.destinations.Destinations()}
	if v.Items == nil {
		v.Items = []schemas.Operation{}
	}
	return v
}

// operations are what operators decide, for ingress.
type operations struct{ app *App }

// Order puts an operation in force on this node; the others follow when they receive it.
func (o operations) Order(ctx context.Context, op schemas.Operation) (schemas.Operation, error) {
	op, err := o.app.destinations.Order(ctx, op)
	return op, o.durable(ctx, err)
}

// Lift takes an operation back.
func (o operations) Lift(ctx context.Context, do string, t schemas.Target) (schemas.Operation, error) {
	op, err := o.app.destinations.Lift(ctx, do, t)
	return op, o.durable(ctx, err)
}

// durable returns when the decision survives a crash.
func (o operations) durable(ctx context.Context, err error) error {
	switch {
	case errors.Is(err, destination.ErrUnreadable):
		return &fault.Error{Code: schemas.Conflict, Cause: err, Message: "another version of Weir wrote what is in force; change it with that version, or a newer one"}
	case err != nil:
		return err
	}
	return o.app.broker.Barrier(ctx)
}

// Entries are the names of the policy in force: its entries, its allowed hosts, and the
// entries of agents and models.
func (o operations) Entries() []string { return o.app.policy.Load().EntryNames() }
