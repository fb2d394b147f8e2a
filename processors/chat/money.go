package chat

import (
	"context"
	"errors"
	"slices"
	"time"

	"weir/internal/completion"
	"weir/internal/fault"
	"weir/internal/ledger"
	"weir/internal/limits/budget"
	"weir/internal/models"
	"weir/processors/call/model"
	"weir/schemas"
)

// reserve reserves the cost of the completion before any call: the usage of the calls so far, and
// the worst case of the next one. If the usage has not changed since the last reservation, it is
// kept. refused reports that a budget is too low; e is the end then.
func (w *work) reserve(ctx context.Context, list []models.Candidate) (e completionEnd, refused bool, err error) {
	if w.budgets() == nil {
		return e, false, nil
	}
	spent, err := w.used(ctx)
	if err != nil || w.held != nil && (spent == nil || w.held.Spent != nil && *spent == *w.held.Spent) {
		return e, false, err
	}
	o := w.worst(list)
	o.Spent = spent
	r, err := w.hold(ctx, o)
	if err == nil && r != nil {
		e, err = w.unaffordable(ctx, list, r)
	}
	return e, r != nil, err
}

// hold reserves an order, or returns the refusal of a budget.
func (w *work) hold(ctx context.Context, o budget.Order) (*budget.Refusal, error) {
	grant, err := w.budgets().Reserve(ctx, o)
	if r, ok := errors.AsType[*budget.Refusal](err); ok {
		return r, nil
	}
	if err != nil {
		return nil, &fault.RetryAfter{Cause: err}
	}
	w.grant, w.held = grant, &o
	return nil, nil
}

// regrant finds what an earlier worker was granted that has cut the answer off by it:
// which budget that was is not on the log.
func (w *work) regrant(ctx context.Context) error {
	n := len(w.st.Attempts)
	if w.budgets() == nil || n == 0 || w.st.Open() != nil || w.st.Attempts[n-1].Result.Code != schemas.BudgetExhausted {
		return nil
	}
	r, err := w.hold(ctx, w.worst(w.candidates(w.cfg.Models())))
	if r != nil {
		w.grant = budget.Grant{Cap: r.Source} // it began in a past window, or this is unknown
	}
	return err
}

// bearers are the models whose accounts pay for the completion: the models of its acceptance, because an
// alias may change before its end, and those that may answer it now.
func (w *work) bearers(list []models.Candidate) []string {
	names := slices.Clone(w.st.Action.Answers)
	for _, c := range list {
		if !slices.Contains(names, c.Name) {
			names = append(names, c.Name)
		}
	}
	return names
}

// worst is the worst case of the completion by these candidates, and whose it is.
func (w *work) worst(list []models.Candidate) budget.Order {
	o := budget.WorstCase(&w.order, list)
	o.Tenant, o.Action, o.Token, o.Models = w.st.Tenant, w.st.ID, w.st.Action.Principal, w.bearers(list)
	o.Until = w.st.Action.Deadline
	if o.Until.IsZero() {
		o.Until = time.Now().Add(schemas.MaxRunTimeout)
	}
	o.Until = o.Until.Add(slack)
	return o
}

// slack is how much later than its deadline a completion may be settled, so that what it
// holds is not free before that.
const slack = time.Minute

// limit is how many tokens an answer may have before it is cut off, by the estimate of
// what has come; 0: any number. Where the caller has said how long it may be, it is the
// model that keeps to it: an answer is cut then that is twice as long, which no error of
// the estimate explains.
func (w *work) limit() int64 {
	if w.order.Output > 0 {
		return 2 * w.grant.Output
	}
	return w.grant.Output
}

// unaffordable is the end of a completion that a budget does not bear.
func (w *work) unaffordable(ctx context.Context, list []models.Candidate, r *budget.Refusal) (completionEnd, error) {
	code := schemas.RateLimited
	if r.Spent {
		code = schemas.BudgetExhausted
	}
	e := bad(w.unanswered(), code, r.Why()).with(limited(r.Source, r.What))
	// What an earlier worker held for it is not freed by the refusal.
	e.result.Error.Limits, e.unheld = r.Limits, w.held == nil && !w.st.Again
	if !r.Spent {
		e.result.Error.RetryAfterMS = r.After.Milliseconds()
	}
	rec, err := w.refusalRecord(list, r, code)
	if err != nil {
		return e, err
	}
	if err := w.recorder.Store(ctx, w.st, rec); err != nil {
		return e, err
	}
	w.cfg.Metrics.ChatRefused(r.Source)
	return e, nil
}

// pay replaces the reservation by the actual usage. A repeat changes nothing. An unreadable account
// does not delay the end: the other accounts are settled, and the book has logged it.
func (w *work) pay(ctx context.Context, used *schemas.ChatUsage) error {
	if w.budgets() == nil {
		return nil
	}
	o := w.worst(w.candidates(w.cfg.Models()))
	if w.held != nil {
		o = *w.held // without an alias's word on the log it may name another since
	}
	if used != nil {
		var err error
		if _, o.Shares, err = w.charges(ctx, o.Models); err != nil {
			return err
		}
	}
	if err := w.budgets().Settle(ctx, o, used); err != nil {
		return &fault.RetryAfter{Cause: err}
	}
	return nil
}

// used is what all calls have used together; nil: nothing.
func (w *work) used(ctx context.Context) (*schemas.ChatUsage, error) {
	all, _, err := w.charges(ctx, nil)
	return all, err
}

// charges are what all calls have used together, nil: nothing, and the calls of each of these models.
// Usage that belongs to no current model is counted for the first one at acceptance.
func (w *work) charges(ctx context.Context, names []string) (all *schemas.ChatUsage, shares map[string]schemas.ChatUsage, err error) {
	shares = map[string]schemas.ChatUsage{}
	for at := range w.st.Attempts {
		u, err := w.charge(ctx, at)
		if err != nil {
			return nil, nil, err
		}
		if u == nil {
			continue
		}
		name := w.candidate(at).Name
		if len(names) > 0 && !slices.Contains(names, name) {
			name = names[0]
		}
		share := *u
		if before, ok := shares[name]; ok {
			share = models.Sum(before, share)
		}
		shares[name] = share
		if all != nil {
			*u = models.Sum(*all, *u)
		}
		all = u
	}
	return all, shares, nil
}

// charge is what one attempt has used, with its cost: by the provider's own word, or else
// by what was sent and what came. A refusal uses nothing, and neither does what was not
// sent.
func (w *work) charge(ctx context.Context, at int) (*schemas.ChatUsage, error) {
	u, err := w.usage(ctx, at)
	if u == nil || err != nil {
		return nil, err
	}
	cost := *u
	if m := w.candidate(at).Model; m != nil && m.Price != nil {
		cost.Nanos, cost.Priced = models.Cost(m.Price, cost, 1), true
	}
	return &cost, nil
}

func (w *work) usage(ctx context.Context, at int) (*schemas.ChatUsage, error) {
	res := w.st.Attempts[at].Result
	if res == nil || !res.Sent || w.order.Dialect == schemas.DialectCount {
		return nil, nil // nothing was used
	}
	if used := w.reported[w.st.Attempts[at].Step]; used != nil && res.Code != "" {
		return used, nil
	}
	said, err := w.said(ctx, at)
	switch {
	case err != nil:
		return nil, err
	case said == nil && res.Code == schemas.BudgetExhausted: // the client received nothing, and this call held all of the reservation
		return w.estimate(at, w.worst(w.candidates(w.cfg.Models())).Output), nil
	case said == nil:
		return w.estimate(at, 0), nil
	case said.Usage == nil && (succeeded(res.Status, said) || w.shown(at)):
		return w.estimate(at, said.Output), nil
	default:
		return said.Usage, nil // nil: a refusal
	}
}

// estimate is a usage that no provider has reported, of an attempt whose answer is so long.
func (w *work) estimate(at int, output int64) *schemas.ChatUsage {
	o := &w.order
	_, image := models.Image(w.candidate(at).Model)
	// The text is counted in bytes, for none has more tokens; the rest is in tokens.
	prompt := models.Plus(completion.Tokens(o.Prompt), models.Plus(o.Media, models.Times(o.Images, image)))
	return &schemas.ChatUsage{Prompt: prompt, Completion: output, Total: models.Plus(prompt, output), Estimated: true}
}

// Ended settles the budgets of a completion that ended without a verdict of Execute's, and
// frees what is held of one whose budgets were settled: it was held too late, by a worker
// that did not know of the end yet.
func (c *Chat) Ended(ctx context.Context, st *ledger.State) error {
	s := st.Settled
	if s == nil {
		return nil
	}
	evaluated := s.Result != nil || s.ResultBlob != ""
	if evaluated && st.Inherited < st.N { // this worker has just written the end, behind the settling
		return nil
	}
	if st.Action.Payload == nil { // the payload of an already settled action is not read
		doc, err := c.ledger.Blob(ctx, nil, st.Action.PayloadBlob)
		if err != nil && !errors.Is(err, fault.ErrNotFound) {
			return err
		}
		st.Action.Payload = doc
	}
	order, err := payload(st)
	if err != nil {
		return nil //nolint:nilerr // what cannot be read has held nothing, or its object is gone
	}
	w := c.work(st, order)
	var used *schemas.ChatUsage
	if !evaluated {
		if used, err = w.owed(ctx); err != nil {
			return err
		}
	}
	return w.pay(ctx, used)
}

// owed is what a completion has used that was put aside. An attempt that was left open was
// made, for all that is known; and where it is put aside because the log's word on an
// attempt cannot be read, that attempt is charged like one of which there is none.
func (w *work) owed(ctx context.Context) (*schemas.ChatUsage, error) {
	st := *w.st
	st.Attempts = slices.Clone(st.Attempts)
	w.st = &st
	for at, t := range st.Attempts {
		unknown := schemas.Attempted{Step: t.Step, Number: t.Number, Hop: t.Hop, Code: schemas.Interrupted, Sent: true}
		if t.Result == nil {
			st.Attempts[at].Result = &unknown
		}
		if _, err := w.charge(ctx, at); unreadable(err) {
			st.Attempts[at].Result, w.partial = &unknown, &model.Response{}
		} else if err != nil {
			return nil, err
		}
	}
	return w.used(ctx)
}

func unreadable(err error) bool {
	_, parked := errors.AsType[*fault.Terminal](err)
	return parked || errors.Is(err, fault.ErrNotFound)
}
