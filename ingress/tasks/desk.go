// Package tasks is the desk that agents and people come to about tasks: it reads
// what they ask, finds out by the task's own events who may ask it, and writes what
// happens as events of the task, each behind the log's fence. What it decided from a
// state that has moved on is decided again, so that the first one wins.
package tasks

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"time"

	"weir/internal/board"
	"weir/internal/ledger"
	"weir/internal/task"
	"weir/schemas"
)

// Ledger is what the desk needs of the action log.
type Ledger interface {
	Load(ctx context.Context, ref schemas.Ref) (*ledger.State, error)
	Append(ctx context.Context, st *ledger.State, ev schemas.Event) error
	Blob(ctx context.Context, inline json.RawMessage, name string) (json.RawMessage, error)
}

// Board knows the tasks that have not ended, see board.Board.
type Board interface {
	Leasable(tenant string, may func(board.Entry) bool, limit int) []board.Entry
	Held(tenant, holder string) (board.Entry, bool)
	CatchUp(ctx context.Context) error
	Changed(tenant string) <-chan struct{}
}

// Leases keeps when the holder of a task was last heard of: its newest value a key.
type Leases interface {
	Set(ctx context.Context, key string, value []byte) (uint64, error)
}

// Config of a Desk. All but Verify have defaults.
type Config struct {
	// Verify says whose a pool's token is, and counts the request. Its errors are
	// public ones. nil: there are no tokens but those of tasks.
	Verify func(token string) (schemas.Token, error)
	// Barrier returns once everything stored before the call would survive.
	Barrier func(ctx context.Context) error
	// Lease is after how long without a call a lease is lost; default 2 min.
	Lease time.Duration
	// Rate is how many requests may come with one task's token; default 500/s. Each
	// node counts for itself.
	Rate string
	// StoreTimeout bounds one change; default 10 s. It runs even if the client has gone.
	StoreTimeout time.Duration
	// Draining is closed when the node goes down: nobody is made to wait then.
	Draining <-chan struct{}
	// Now is the clock; default time.Now.
	Now func() time.Time
	// Random fills what becomes the secret of a token; default crypto/rand, which
	// never fails.
	Random func([]byte)
}

func (c Config) withDefaults() Config {
	if c.Barrier == nil {
		c.Barrier = func(context.Context) error { return nil }
	}
	if c.Lease <= 0 {
		c.Lease = 2 * time.Minute
	}
	if c.Rate == "" {
		c.Rate = "500/s"
	}
	if c.StoreTimeout <= 0 {
		c.StoreTimeout = 10 * time.Second
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Random == nil {
		c.Random = func(b []byte) { _, _ = rand.Read(b) }
	}
	return c
}

// Desk is the desk. It is safe for concurrent use, and starts nothing.
type Desk struct {
	ledger Ledger
	board  Board
	cfg    Config
	touch  *touches
	rates  *rates
	turns  *turns
	waits  *waits
}

// NewDesk returns a Desk.
func NewDesk(l Ledger, b Board, leases Leases, cfg Config) *Desk {
	cfg = cfg.withDefaults()
	return &Desk{
		ledger: l, board: b, cfg: cfg,
		touch: newTouches(leases, cfg.Lease/schemas.LeaseShare, cfg.Now), rates: newRates(cfg.Rate, cfg.Now), turns: newTurns(), waits: &waits{of: map[holding]int{}},
	}
}

// Lease is after how long without a call a lease is lost.
func (d *Desk) Lease() time.Duration { return d.cfg.Lease }

// Secret is one token that is still to be given to somebody.
type Secret struct{ bytes [32]byte }

// Secret makes one.
func (d *Desk) Secret() Secret {
	var s Secret
	d.cfg.Random(s.bytes[:])
	return s
}

// Hash is what the log keeps of it, whatever it is the token of.
func (s Secret) Hash() string { return task.New("", "", 0, s.bytes).Hash() }

// Text is the token of a lease of a task; lease 0 is the task's own.
func (s Secret) Text(ref schemas.Ref, lease int) string {
	return task.New(ref.Tenant, ref.ID, lease, s.bytes).Text()
}
