package accept

import (
	"context"

	"golang.org/x/sync/errgroup"
)

// claimsAtOnce bounds the claims of one AcceptAll that are in flight together.
const claimsAtOnce = 128

// AcceptAll is Accept for requests that arrive together, and returns a result for each. Their claims
// are in flight together, and one barrier covers all of them. Requests with one id are claimed in
// their order, so that the first of them has it.
func (a *Acceptor) AcceptAll(ctx context.Context, requests []Request) []Result {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	results := make([]Result, len(requests))
	earlier := map[string]<-chan struct{}{} // by id: closed after the claim of the last request with it
	var claims errgroup.Group
	claims.SetLimit(claimsAtOnce)
	for i, r := range requests {
		before, claimed := earlier[r.Name.ID], make(chan struct{})
		if r.Name.ID != "" {
			earlier[r.Name.ID] = claimed
		}
		claims.Go(func() error {
			defer close(claimed)
			if before != nil {
				<-before // it was started before, so it needs no slot that this one holds
			}
			results[i] = a.store(ctx, r)
			return nil
		})
	}
	_ = claims.Wait() // of errors each request has its own
	stored := false
	for i := range results {
		stored = stored || results[i].Err == nil
	}
	if !stored {
		return results
	}
	barrier := a.cfg.Barrier(ctx)
	for i := range results {
		if results[i].Err == nil {
			results[i].finish(barrier)
		}
	}
	return results
}
