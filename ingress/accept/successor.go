package accept

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"time"

	"weir/internal/fault"
	"weir/internal/ledger"
	"weir/schemas"
)

// newest finds the action that answers a repeat of a request: the newest of its successors.
// If that one was not sent anywhere and ended before the repeat arrived, newest begins the next
// one. Of repeats that arrive together one begins it: its claim expects that there is none, and
// the others join it, however it ends. If the repeat may only join, nothing is begun.
func (a *Acceptor) newest(ctx context.Context, r Request, st *ledger.State, arrived time.Time, joins bool) (newest *ledger.State, duplicate bool, id string, err error) {
	newest = st
	for n := 2; ; n++ {
		if over, err := a.unsent(ctx, newest, arrived); !over || err != nil {
			return newest, true, newest.ID, err
		}
		if n > schemas.MaxGeneration && joins {
			return newest, true, newest.ID, nil
		}
		if n > schemas.MaxGeneration {
			return nil, false, "", fault.New(schemas.Conflict, "this request was repeated "+strconv.Itoa(schemas.MaxGeneration-1)+
				" times and was never sent; look why at "+newest.ID+", and use a new request_id")
		}
		next := r
		next.Name.ID, next.Supersedes = schemas.Successor(r.Name.ID, n), newest.ID
		action, err := a.action(next)
		if err != nil {
			return nil, false, "", err
		}
		var found *ledger.State
		if joins {
			found, err = a.ledger.Existing(ctx, action)
			duplicate = true
		} else {
			found, duplicate, err = a.claim(ctx, action, next)
		}
		switch {
		case joins && errors.Is(err, fault.ErrNotFound):
			return newest, true, newest.ID, nil
		case errors.Is(err, fault.ErrConflict), errors.Is(err, fault.ErrGone):
			// Of a request that had the id before its history was dropped.
		case err != nil, !duplicate:
			return found, duplicate, action.ID, err
		default:
			newest = found
		}
	}
}

// unsent reports whether a run ended before a time in a way that lets it be repeated: by its
// record nothing can have reached a target, and another try may fare better.
func (a *Acceptor) unsent(ctx context.Context, st *ledger.State, before time.Time) (bool, error) {
	if st.Kind != schemas.KindRun || st.Settled == nil || !retryable(st.Settled) {
		return false, nil
	}
	full, err := a.ledger.Load(ctx, st.Ref) // a joined state has no history
	switch {
	case errors.Is(err, fault.ErrNotFound), errors.Is(err, fault.ErrGone):
		return false, nil // it is being dropped
	case err != nil:
		return false, err
	}
	return full.Damaged == nil && full.Settled != nil && full.Unsent() && !full.SettledAt.After(before), nil
}

// retryable reports whether another try may fare better than one that ended so.
func retryable(s *schemas.Settled) bool {
	return s.Outcome == schemas.OutcomeExpired && s.Attempts == 0 || s.Outcome == schemas.OutcomeFailed && slices.Contains([]schemas.Code{
		schemas.AgentUnavailable, schemas.UpstreamDNS, schemas.UpstreamConnect, schemas.UpstreamTLS, schemas.RetriesExhausted,
	}, s.Code)
}
