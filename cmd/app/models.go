package app

import (
	"context"
	"fmt"

	"weir/internal/models/listed"
	"weir/processors/call"
	"weir/processors/call/direct"
	"weir/processors/listing"
	"weir/schemas"
)

// openModels begins to follow the lists of models that providers have.
func (a *App) openModels(ctx context.Context) error {
	if !a.role.works() && !a.role.shows() {
		return nil
	}
	a.lists = listed.New(a.broker.Bucket(schemas.ModelBucket), a.log)
	if err := a.lists.Start(ctx); err != nil {
		return fmt.Errorf("models: %w", err)
	}
	a.teardown.push(func(context.Context) error { a.lists.Stop(); return nil })
	return nil
}

// providerModels is an upstream's own list of models.
func (a *App) providerModels(up schemas.ModelUpstream) []schemas.ListedModel {
	if a.lists == nil {
		return nil
	}
	return a.lists.Models(up)
}

// newListing makes what reads those lists. Its calls are made as all calls are, and belong to no action.
func (a *App) newListing(adapter *direct.Adapter, calls call.Config) *listing.Refresher {
	return listing.New(listing.Config{
		Upstreams: func() []schemas.ModelUpstream { return a.models().Listing() }, Lists: a.lists,
		Caller: call.New(listing.Unlogged{}, a.guard, adapter, calls), Adapter: adapter,
		Record: a.recorder.Record, Logger: a.log,
	})
}
