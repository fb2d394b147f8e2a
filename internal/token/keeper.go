// Package token authenticates callers. It keeps the tokens of all tenants in memory, follows their
// store, and finds the token of a request's header. Only hashes are stored: no token can be read
// from the store.
package token

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"log/slog"
	"sync"
	"time"

	"weir/internal/fault"
	"weir/internal/limits"
	"weir/internal/mirror"
	"weir/schemas"
)

// Store is where the tokens are kept.
type Store interface {
	mirror.Store
	// Forget drops the stored values of a key up to a write, without notice to other nodes. A
	// missing value is not an error.
	Forget(ctx context.Context, key string, upTo uint64) error
	// Barrier returns once what was put would survive.
	Barrier(ctx context.Context) error
}

// Config of a Keeper. All have defaults.
type Config struct {
	// Rate is for tokens without a rate of their own; default 500/s. Each node counts for itself.
	Rate string
	// Streams is how many event streams one token may hold open on this node; default 1000.
	Streams int
	// Reads: tokens that ended long ago are dropped from memory only. Other nodes drop them from
	// the store, which this one may not do.
	Reads  bool
	Logger *slog.Logger // default: none

	// active is how many tokens of one tenant may be in force, and sessions how many browsers may
	// be signed in with one token; defaults 10,000 and 100. Each node counts those it knows, so
	// concurrent requests can add a few more.
	active, sessions int
	// check is how often the store is asked whether the copy is whole, beside being followed;
	// default 500 ms. It bounds how long a revocation on another node can go unseen when its notice
	// is lost. After stale without the store all requests are refused; default 10 s. Open streams
	// end up to half as much later.
	check, stale time.Duration
}

const (
	// storeTimeout bounds one write and its barrier.
	storeTimeout = 10 * time.Second
	// sessionLife is how long a browser stays signed in at most.
	sessionLife = 12 * time.Hour
)

func (c Config) withDefaults() Config {
	c.Rate = cmp.Or(c.Rate, "500/s")
	c.Streams = cmp.Or(c.Streams, 1000)
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	c.active = cmp.Or(c.active, 10_000)
	c.sessions = cmp.Or(c.sessions, 100)
	c.check = cmp.Or(c.check, 500*time.Millisecond)
	c.stale = cmp.Or(c.stale, 10*time.Second)
	return c
}

// Keeper knows every token. It is safe for concurrent use.
type Keeper struct {
	store   Store
	cfg     Config
	streams *limits.PerKey[string] // event streams that are open, by token or session

	mu    sync.RWMutex
	held  map[string]*held
	whole time.Time // when the copy was last known to be whole; zero: never

	follower *mirror.Follower
	stop     func()
}

// held is one token in memory. It is replaced, never changed; its usage is copied to the next.
type held struct {
	token    schemas.Token
	hash     [sha256.Size]byte
	revision uint64
	gone     bool // deleted, or not to be read
	session  bool // a browser's, see SignIn
	use      *use
}

// New returns a Keeper over a store. It refuses all requests before Start.
func New(s Store, cfg Config) *Keeper {
	k := &Keeper{store: s, cfg: cfg.withDefaults(), held: map[string]*held{}, stop: func() {}}
	k.streams = limits.NewPerKey[string](k.cfg.Streams)
	k.follower = mirror.New(mirror.Config{
		Component: "token", Check: k.cfg.check, Patience: k.cfg.stale / 2, Logger: k.cfg.Logger, Store: s, Learn: k.learn, Looked: k.looked,
	})
	return k
}

// Start copies the store and begins to follow it. It returns when the copy is
// whole; on an error nothing runs.
func (k *Keeper) Start(ctx context.Context) error {
	if err := k.follower.Start(ctx); err != nil {
		return err
	}
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	var tidy sync.WaitGroup
	tidy.Go(func() { k.tidy(life) })
	k.stop = sync.OnceFunc(func() { k.follower.Stop(); end(); tidy.Wait(); k.endStreams() })
	return nil
}

// Stop ends what Start began. It may be called twice, and without Start.
func (k *Keeper) Stop() { k.stop() }

// looked ends all streams if the store has been unreachable for too long: their tokens may have been
// revoked meanwhile.
func (k *Keeper) looked(begun time.Time, err error) {
	if err == nil {
		k.mu.Lock()
		k.whole = begun
		k.mu.Unlock()
	} else if k.stale(time.Now()) {
		k.endStreams()
	}
}

// stale reports whether the copy is too old to tell who may come in.
func (k *Keeper) stale(now time.Time) bool {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return k.whole.IsZero() || now.Sub(k.whole) >= k.cfg.stale
}

// learn applies one record, unless a newer one of its key is known.
func (k *Keeper) learn(r schemas.Record) {
	next, err := decode(r.Subject, r.Data)
	next.revision = r.Seq
	if err != nil && len(r.Data) > 0 {
		k.cfg.Logger.Warn("token_unreadable", "component", "token", "err_kind", "damaged")
	}
	k.keep(r.Subject, next)
}

func (k *Keeper) keep(key string, next *held) {
	k.mu.Lock()
	old := k.held[key]
	if old != nil && old.revision >= next.revision {
		k.mu.Unlock()
		return
	}
	if next.use = newUse(k.rate(next.token)); old != nil {
		next.use = old.use
	}
	k.held[key] = next
	k.mu.Unlock()
	if next.gone || !next.token.RevokedAt.IsZero() {
		next.use.end()
	}
}

// errUnauthorized is the same for all refused callers: it does not reveal whether a token expired,
// was revoked or never existed.
func errUnauthorized() error {
	return fault.New(schemas.Unauthorized, "send one header, Authorization: Bearer or X-Api-Key, with a token that is in force")
}

// errUnknown: without the store, tokens cannot be checked.
func errUnknown(cause error) error {
	return &fault.Error{Code: schemas.Unavailable, Cause: cause, Message: "whose token this is cannot be found out just now; try again"}
}

// errLimited is for a token that has sent too many requests. The next one is let in after wait.
func errLimited(wait time.Duration) error {
	return &fault.Error{
		Code: schemas.RateLimited, RetryAfter: wait, Message: "this token has sent too many requests; wait as long as Retry-After says",
	}
}

var errStale = errors.New("the copy of the tokens is too old")

// Verify finds the token that a credential stands for, and counts the request. until is when its
// session ends; zero: it has none. Errors: UNAUTHORIZED; RATE_LIMITED; UNAVAILABLE while the
// store has not been read, or has been out of reach for too long.
func (k *Keeper) Verify(c Credential) (t schemas.Token, until time.Time, err error) {
	h, session, err := k.find(c)
	if err != nil {
		return t, until, err
	}
	if session != nil {
		until = session.token.ExpiresAt
	}
	if wait := h.use.reserve(time.Now()); wait > 0 {
		return t, until, errLimited(wait)
	}
	return h.token, until, nil
}

// Known reports whether a credential is in force. It counts no request.
func (k *Keeper) Known(c Credential) bool {
	_, _, err := k.find(c)
	return err == nil
}

// find returns the token that a credential stands for, and its session if it has one, all in force.
func (k *Keeper) find(c Credential) (h, session *held, err error) {
	h, err = k.look(c)
	if err != nil || !h.session {
		return h, nil, err
	}
	session = h
	if h = k.get(session.token.CreatedBy); h == nil || !h.valid(false, time.Now()) {
		return nil, nil, errUnauthorized()
	}
	return h, session, nil
}

// look finds the token, or the session, with this secret. It does the same work for every
// credential of the right form, so that its time does not tell an unknown id from a wrong secret.
func (k *Keeper) look(c Credential) (*held, error) {
	id, s, ok := c.parse()
	if !ok {
		return nil, errUnauthorized()
	}
	now := time.Now()
	hash := s.hash()
	if k.stale(now) {
		return nil, errUnknown(errStale)
	}
	h := cmp.Or(k.get(id), &held{gone: true})
	if same := subtle.ConstantTimeCompare(hash[:], h.hash[:]) == 1; !same || !h.valid(c.prefix == ofSession, now) {
		return nil, errUnauthorized()
	}
	return h, nil
}

// get is the token with an id, or nil.
func (k *Keeper) get(id string) *held {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return k.held[id]
}

// count is how many tokens and sessions fit.
func (k *Keeper) count(fits func(*held) bool) (n int) {
	k.mu.RLock()
	defer k.mu.RUnlock()
	for _, h := range k.held {
		if fits(h) {
			n++
		}
	}
	return n
}

// valid reports whether this is a token, or a session, that is in force.
func (h *held) valid(session bool, now time.Time) bool {
	return !h.gone && h.session == session && statusAt(h.token, now) == active
}
