package accept

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/tidwall/gjson"

	"weir/internal/fault"
	"weir/internal/ledger"
	"weir/schemas"
)

// newest finds the action that answers a repeat of a request: the newest of its successors.
// If that one was not sent anywhere and ended before the repeat arrived, newest begins the next
// one. Of repeats that arrive together one begins it: its claim expects that there is none, and
// the others join it, however it ends. If the repeat may only join, nothing is begun.
//
// What a repeat of an Idempotency-Key begins is the redrive of the action before it, so that a
// caller and an operator never begin two. Such a repeat is also answered by a redrive that
// somebody else has begun.
func (a *Acceptor) newest(ctx context.Context, r Request, st *ledger.State, arrived time.Time, joins bool) (newest *ledger.State, duplicate bool, id string, err error) {
	newest = st
	for n := 2; ; n++ {
		redriven := keyed(r) && newest.SupersededBy != ""
		over := redriven
		if !redriven {
			if over, err = a.unsent(ctx, r, newest, arrived); err != nil {
				return newest, true, newest.ID, err
			}
		}
		if !over || n > schemas.MaxGeneration && (joins || keyed(r)) {
			return newest, true, newest.ID, nil
		}
		if n > schemas.MaxGeneration {
			return nil, false, "", fault.New(schemas.Conflict, "this request was repeated "+strconv.Itoa(schemas.MaxGeneration-1)+
				" times and was never sent; look why at "+newest.ID+", and use a new request_id")
		}
		next := r
		next.Name.ID, next.Supersedes = schemas.Successor(r.Name.ID, n), newest.ID
		if keyed(r) {
			next.Name = Derive(PrefixRedrive, r.Source, newest.Tenant, newest.ID)
		}
		action, err := a.action(next)
		if err != nil {
			return nil, false, "", err
		}
		var found *ledger.State
		if joins || redriven {
			if next.Before != nil {
				next.Before(schemas.Ref{Tenant: action.Tenant, Kind: action.Kind, ID: action.ID})
			}
			found, err = a.ledger.Existing(ctx, action)
			duplicate = true
		} else {
			found, duplicate, err = a.claim(ctx, action, next)
		}
		if keyed(r) && errors.Is(err, fault.ErrConflict) { // it was redriven with other rights
			found, err = a.ledger.Peek(ctx, action.Tenant, action.ID)
			duplicate = true
		}
		switch {
		case (joins || redriven) && errors.Is(err, fault.ErrNotFound):
			return newest, true, newest.ID, nil
		case errors.Is(err, fault.ErrConflict), errors.Is(err, fault.ErrGone):
			if keyed(r) {
				return newest, true, newest.ID, nil // of a redrive whose history is being dropped
			}
			// Of a request that had the id before its history was dropped.
		case err != nil, !duplicate:
			return found, duplicate, action.ID, err
		default:
			newest = found
		}
	}
}

// keyed reports whether an Idempotency-Key names a request whose repeat may be sent where the first
// was not. Other kinds of actions answer every repeat as the first.
func keyed(r Request) bool {
	return r.Source == schemas.IDKey && (r.Kind == schemas.KindHTTP || r.Kind == schemas.KindPassthrough || r.Kind == schemas.KindChat)
}

// unsent reports whether an action ended before a time in a way that lets its request be tried anew:
// by its record nothing can have reached a target, and another try may fare better.
func (a *Acceptor) unsent(ctx context.Context, r Request, st *ledger.State, before time.Time) (bool, error) {
	end := st.Settled
	switch {
	case end == nil:
		return false, nil
	case keyed(r):
		if end.Outcome != schemas.OutcomeFailed && end.Outcome != schemas.OutcomeExpired && (end.Outcome != schemas.OutcomeDenied || r.Denied) {
			return false, nil
		}
	case st.Kind != schemas.KindRun || !retryable(end):
		return false, nil
	}
	if keyed(r) && r.Kind != schemas.KindChat && gjson.GetBytes(end.Result, "answer").Exists() {
		return false, nil // its history may be long
	}
	full, err := a.ledger.Load(ctx, st.Ref) // a joined state has no history
	switch {
	case errors.Is(err, fault.ErrNotFound), errors.Is(err, fault.ErrGone):
		return false, nil // it is being dropped
	case err != nil:
		return false, err
	}
	return full.Damaged == nil && full.Settled != nil && (full.Unsent() || turnedAway(full)) && !full.SettledAt.After(before) &&
		(!keyed(r) || full.Action.KeySeed == "" && !slices.ContainsFunc(full.Attempts, ledger.Attempt.Mocked)), nil
}

// turnedAway reports whether each provider that a completion was sent to said that it is too busy
// for it: the usual clients repeat such a request with the same key.
func turnedAway(st *ledger.State) bool {
	return st.Kind == schemas.KindChat && !slices.ContainsFunc(st.Attempts, func(t ledger.Attempt) bool {
		r := t.Result
		return r == nil || r.Sent && r.Status != http.StatusTooManyRequests && r.Status != http.StatusServiceUnavailable && r.Status != overloaded
	})
}

// overloaded is the status by which the Messages protocol says so.
const overloaded = 529

// retryable reports whether another try may fare better than one that ended so.
func retryable(s *schemas.Settled) bool {
	return s.Outcome == schemas.OutcomeExpired && s.Attempts == 0 || s.Outcome == schemas.OutcomeFailed && slices.Contains([]schemas.Code{
		schemas.AgentUnavailable, schemas.UpstreamDNS, schemas.UpstreamConnect, schemas.UpstreamTLS, schemas.RetriesExhausted,
	}, s.Code)
}
