// Package accept is the last step of every write surface: it names the action,
// claims the name on the log and waits until the record would survive. It
// performs nothing.
package accept

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/google/uuid"

	"weir/ingress/strict"
	"weir/internal/fault"
	"weir/internal/ledger"
	"weir/internal/traceparent"
	"weir/schemas"
)

// Ledger is what acceptance needs of the action log.
type Ledger interface {
	Claim(ctx context.Context, a schemas.Action) (st *ledger.State, duplicate bool, err error)
	Existing(ctx context.Context, a schemas.Action) (*ledger.State, error)
	Peek(ctx context.Context, tenant, id string) (*ledger.State, error)
	Load(ctx context.Context, ref schemas.Ref) (*ledger.State, error)
}

// Config of an Acceptor. All but Barrier have defaults.
type Config struct {
	// Barrier returns once everything stored before the call would survive the failures named by
	// Durability. After an error this is unknown.
	Barrier    func(ctx context.Context) error
	Durability schemas.Durability
	// Deadlines are the longest times of actions of each kind, from acceptance to end; default 10 min.
	Deadlines map[schemas.Kind]time.Duration
	// Longest is the most time between the acceptance of an action that begins later and its
	// deadline: the log must still hold its events then. Default 6 days.
	Longest time.Duration
	// Pressure refuses new actions while too many wait; nil: never.
	Pressure *Pressure
	// Caller returns the name of a token by its id, or nothing; nil: no token has a name.
	Caller func(id string) string
	// Now is the clock; default time.Now.
	Now func() time.Time
	// NewID makes an id for an action that its caller did not name; default a UUIDv7. A simulation
	// makes the same ones in each run.
	NewID func() (string, error)
}

func (c Config) withDefaults() Config {
	if c.Barrier == nil {
		c.Barrier = func(context.Context) error { return nil }
	}
	c.Durability = cmp.Or(c.Durability, schemas.DurabilityProcess)
	c.Longest = cmp.Or(c.Longest, 6*24*time.Hour)
	if c.Caller == nil {
		c.Caller = func(string) string { return "" }
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.NewID == nil {
		c.NewID = func() (string, error) {
			id, err := uuid.NewV7()
			return id.String(), err
		}
	}
	return c
}

// storeTimeout bounds claim and barrier together. It runs even if the client has gone.
const storeTimeout = 10 * time.Second

// Acceptor accepts actions. It is safe for concurrent use.
type Acceptor struct {
	ledger Ledger
	cfg    Config
}

// New returns an Acceptor over the ledger.
func New(l Ledger, cfg Config) *Acceptor {
	return &Acceptor{ledger: l, cfg: cfg.withDefaults()}
}

// Request is one action that a surface has translated.
type Request struct {
	Name
	// Action is the action as it is stored. Accept sets its id, its fingerprint, its times and the
	// name of its caller. Entries, Models and Task decide which actions the request may join; one that
	// joins a run gets what that was accepted with. An invalid TraceParent is dropped, and a span in
	// the request's context takes precedence. The action ends at the latest when its key expires:
	// later, a call could have a second effect.
	schemas.Action
	// Timeout is how long this action may take from its beginning; zero: what its kind may.
	Timeout time.Duration
	// Until is when it ends at the latest, however long it may take; zero: no such bound.
	Until time.Time
	// Whole is the document before something was left out of the payload, by which a repeat is
	// recognised; nil: the payload.
	Whole json.RawMessage
	// Refusal, if set, is the error for a new name: the request joins an existing action, or
	// nothing is stored.
	Refusal error
	// Resumed: the request resumes a stream, and begins no successor.
	Resumed bool
	// Denied: policy has refused the action already. It is stored like any other, so that it leaves
	// evidence, and its caller gets the denial even if it would not wait.
	Denied bool
	// Joins: a repeat of an Idempotency-Key waits for an action that has not ended, instead of being
	// refused.
	Joins bool
	// Commit, if set, is called before a new action is stored, and not if the request joins one. After
	// its error nothing is stored.
	Commit func(ctx context.Context) error
	// Before, if set, is called with the action's name just before the claim,
	// so that a caller that waits for its end cannot miss it. It is called again for a
	// successor.
	Before func(ref schemas.Ref)
}

// Accepted is an action that the request has created or joined. Its Ref is set as soon as the
// action's name may be on the log, so also with an error that leaves this open.
type Accepted struct {
	schemas.Ref
	Receipt schemas.Receipt
	// Before is the position right before an action that this request has made: where
	// its history begins.
	Before uint64
	// Replayed means that the answer is the stored one of an earlier request with the same
	// Idempotency-Key.
	Replayed bool
}

// Accept stores the action, or joins the one that has its name. The name of a run, or an
// Idempotency-Key, that has successors stands for the newest of them; an action that ended without
// having been sent anywhere, before this request came, gets one. Errors:
//
//   - CONFLICT, IDEMPOTENCY_MISMATCH: the name belongs to another payload, or has had
//     schemas.MaxGeneration actions.
//   - IN_FLIGHT: the Idempotency-Key's first request has not been settled.
//   - LOG_FULL, PAYLOAD_TOO_LARGE: nothing was stored.
//   - QUEUE_FULL, RATE_LIMITED: too many actions wait, of all tenants or of this one. There was
//     nothing to join, and nothing was stored.
//   - UNAVAILABLE: whether it was stored is unknown; Accepted holds the ref.
//   - INVALID_REQUEST: it would begin when its deadline has passed, or end later than Longest allows,
//     or its caller named it by an id that only Weir makes. Nothing was stored.
//   - the request's Refusal: there was nothing to join.
func (a *Acceptor) Accept(ctx context.Context, r Request) (Accepted, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	s := a.store(ctx, r)
	if s.Err == nil {
		s.finish(a.cfg.Barrier(ctx))
	}
	return s.Accepted, s.Err
}

// Refusal is why Accept would not store a new action of a tenant now; nil: it would.
func (a *Acceptor) Refusal(tenant string, kind schemas.Kind) error {
	return a.cfg.Pressure.Refusal(tenant, kind)
}

// Result is what Accept returns for one of several requests.
type Result struct {
	Accepted
	Err error

	source schemas.IDSource
	ended  bool // the joined action has
	joins  bool // a repeat waits for one that has not
}

// store is Accept without the barrier.
func (a *Acceptor) store(ctx context.Context, r Request) (s Result) {
	if span := traceparent.From(ctx); span != "" {
		r.TraceParent = span
	}
	action, err := a.action(r)
	if err != nil {
		return Result{Err: err}
	}
	arrived, joins := a.cfg.Now(), r.Resumed || r.Refusal != nil
	if r.Refusal == nil {
		r.Refusal = a.cfg.Pressure.Refusal(r.Tenant, r.Kind) //nolint:contextcheck // its counts are for all callers
	}
	if r.Refusal != nil && action.IDSource == schemas.IDGenerated { // a new name joins nothing
		return Result{Err: r.Refusal}
	}
	s.Ref, s.source = schemas.Ref{Tenant: r.Tenant, Kind: r.Kind, ID: action.ID}, action.IDSource
	st, duplicate, err := a.claim(ctx, action, r)
	if err == nil && duplicate {
		st, duplicate, s.ID, err = a.newest(ctx, r, st, arrived, joins)
	}
	if public, ok := errors.AsType[*fault.Error](err); ok {
		return Result{Err: public}
	}
	if err != nil {
		if refused := refusal(err, action.IDSource); refused != nil {
			return Result{Err: refused}
		}
		if r.Refusal != nil {
			return Result{Err: err}
		}
		s.Err = unknown(err, action.IDSource)
		return s
	}
	s.ended, s.joins = st.Settled != nil, r.Joins
	s.Receipt = schemas.Receipt{
		ID: st.ID, Status: st.Status(), Duplicate: duplicate,
		Durability: a.cfg.Durability, Class: st.Action.Class,
	}
	if !duplicate {
		a.cfg.Pressure.Took(r.Tenant)
		s.Before = st.Events[0].Seq - 1 // others may follow by now if the acknowledgement was lost
	}
	return s
}

// finish completes a stored action once the barrier has returned.
func (s *Result) finish(barrier error) {
	switch {
	case barrier != nil:
		s.Err = unknown(barrier, s.source)
	case !s.Receipt.Duplicate || s.source != schemas.IDKey:
	case s.ended:
		s.Replayed = true
	case s.joins:
	default:
		s.Err = fault.New(schemas.InFlight, "the first request with this Idempotency-Key has not ended yet, and this answer is not final; "+
			"wait for Retry-After and repeat the same request, or read its result under Location")
	}
}

// action fills in what the caller did not say.
func (a *Acceptor) action(r Request) (schemas.Action, error) {
	if r.reserved() {
		return schemas.Action{}, fault.New(schemas.InvalidRequest, "at /request_id: ids that begin with "+r.Name.ID[:4]+" are made by Weir alone; use another id")
	}
	whole := r.Whole
	if whole == nil {
		whole = r.Payload
	}
	fingerprint, err := strict.Fingerprint(whole)
	if err != nil {
		return schemas.Action{}, err
	}
	if r.Action.ID, r.IDSource = r.Name.ID, r.Source; r.Name.ID == "" {
		if r.Action.ID, err = a.cfg.NewID(); err != nil {
			return schemas.Action{}, err
		}
		r.IDSource = schemas.IDGenerated
	}
	r.Fingerprint = bounded(bounded(fingerprint, "", r.Entries), "models", r.Models)
	if r.Task != "" {
		r.Fingerprint = bounded(r.Fingerprint, "task", []string{r.Task})
	}
	if r.Timeout <= 0 {
		r.Timeout = cmp.Or(a.cfg.Deadlines[r.Kind], 10*time.Minute)
	}
	if !schemas.ValidTraceParent(r.TraceParent) {
		r.TraceParent = ""
	}
	now := a.cfg.Now().UTC()
	if key := r.KeyExpiresAt; now.Before(key) && (r.Until.IsZero() || key.Before(r.Until)) {
		r.Until = key
	}
	r.AcceptedAt, r.Caller = now, a.cfg.Caller(r.Principal)
	r.NotBefore, r.Deadline, err = span(r.NotBefore, now, r.Until, r.Timeout, a.cfg.Longest)
	return r.Action, err
}

// bounded makes the limits of an action a part of its fingerprint: a token joins no action with
// other limits.
func bounded(fingerprint, by string, names []string) string {
	if len(names) == 0 {
		return fingerprint
	}
	h := sha256.New()
	h.Write([]byte(fingerprint + by))
	for _, e := range slices.Sorted(slices.Values(names)) {
		h.Write([]byte{0})
		h.Write([]byte(e))
	}
	return hex.EncodeToString(h.Sum(nil))
}

// refusal is the public error of a claim that surely stored nothing, or nil.
func refusal(err error, source schemas.IDSource) error {
	switch {
	case errors.Is(err, fault.ErrConflict) && source == schemas.IDKey:
		return &fault.Error{Code: schemas.IdempotencyMismatch, Cause: err, Message: "this Idempotency-Key was used for another request; use a new key for a new action"}
	case errors.Is(err, fault.ErrConflict):
		return &fault.Error{Code: schemas.Conflict, Cause: err, Message: "this request_id belongs to another request; use a new one for a new action"}
	case errors.Is(err, fault.ErrFull):
		return &fault.Error{Code: schemas.LogFull, Cause: err, Message: "the log is full, nothing was stored; try again later"}
	case errors.Is(err, fault.ErrTooLarge):
		return &fault.Error{Code: schemas.PayloadTooLarge, Cause: err, Message: "the action is larger than the log takes, nothing was stored; send a smaller one"}
	case errors.Is(err, fault.ErrGone):
		return &fault.Error{Code: schemas.Conflict, Cause: err, Message: "this id was used by an action whose history has been dropped; use a new one"}
	default:
		return nil
	}
}

// unknown is the public error of an action that may be on the log. It never
// suggests that nothing happened.
func unknown(err error, source schemas.IDSource) error {
	message := "whether the action was stored is unknown; repeat the same request, it joins the action if there is one"
	if source == schemas.IDGenerated {
		message = "whether the action was stored is unknown; look under the id in Weir-Action-Id, or repeat the request with that request_id"
	}
	return &fault.Error{Code: schemas.Unavailable, Cause: err, Message: message}
}

// InFlight reports whether a request was refused because the first one with its key has not
// ended.
func InFlight(err error) bool {
	public, ok := errors.AsType[*fault.Error](err)
	return ok && public.Code == schemas.InFlight
}
