// Package git runs the real git on the repositories that live on this node's disk.
// Every process has an environment of a dozen variables and none of this program's, no
// configuration but what is said here, no hooks, limits on memory, processor time and
// files (on Linux), and a process group of its own that ends with it. Repositories are
// found by their ids, which are Weir's own. No name that a caller chose reaches a path. Refs go to
// git on its standard input or as configuration, and as an argument only checked and in full, from
// refs/heads/ on.
package git

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"weir/internal/limits"
)

// Config of Open. All but Dir have defaults.
type Config struct {
	// Dir holds the repositories; it is made if it is missing. It is one Git's at a time.
	Dir string
	// Program is git's name or path; default "git".
	Program string
	// Timeout bounds one fetch or push, import too; default 10 min. As long again one
	// waits for its turn.
	Timeout time.Duration
	// MaxPack is the most that one push may bring, in bytes; default 1 GiB. MaxRepo is
	// what a repository may have on disk before pushes to it are refused; default 10 GiB.
	// Pushes that run at the same time may each pass it by MaxPack.
	MaxPack, MaxRepo int64
	// Memory is the address space of one process, in bytes; default 2 GiB. A fetch or a
	// push has two or three of them. Where the system has no such limit there is none.
	Memory int64
	// Processes is how many fetches, pushes and imports run at a time; more wait. Default 32. Half of it is
	// for fetches, half for pushes and imports, a quarter of that at most for imports.
	Processes int
	// TenantShare is the percentage of each of these, and of the 16 times MaxPack that packs which come in may hold on the
	// disk, that one tenant leaves to the next; see limits.Percent. Default 100: it leaves nothing.
	TenantShare int
	Logger      *slog.Logger

	// packs is how many a repository may have before they are made fewer.
	packs int
	// grace is how long a process has to end by itself before it is killed.
	grace time.Duration
}

func (c Config) withDefaults() Config {
	c.Program = cmp.Or(c.Program, "git")
	c.Timeout = cmp.Or(c.Timeout, 10*time.Minute)
	c.MaxPack = cmp.Or(c.MaxPack, 1<<30)
	c.MaxRepo = cmp.Or(c.MaxRepo, 10<<30)
	c.Memory = cmp.Or(c.Memory, 2<<30)
	c.Processes = cmp.Or(c.Processes, 32)
	c.TenantShare = cmp.Or(c.TenantShare, 100)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	c.packs = cmp.Or(c.packs, 50)
	c.grace = cmp.Or(c.grace, 2*time.Second)
	return c
}

// Errors that callers tell apart. Everything else is a failure of git's or the system's.
var (
	ErrNoRepo    = errors.New("there is no such repository on this node")
	ErrNoRef     = errors.New("the repository has no such branch")
	ErrRefExists = errors.New("the repository has this branch already")
	ErrFull      = errors.New("the repository is as large as it may be")
	ErrDiskFull  = errors.New("there is no room left on the disk of the repositories, but for a reserve")
	// ErrTimeout: it ran for longer than Config.Timeout. ErrBusy: it waited that long.
	ErrTimeout = errors.New("git took longer than it may")
	ErrBusy    = errors.New("too many fetches and pushes are running")
	// ErrClosed is for what Close ended, and for what comes after it.
	ErrClosed = errors.New("git is shut down")
)

// Git runs git. It is safe for concurrent use.
type Git struct {
	// none and asked are why there are no repositories; see None.
	none, asked error

	cfg     Config
	program string // its whole path
	version version
	lock    *os.File // of the directory

	slots  slots
	spools *Spools            // packs that come in
	claims *limits.KeyedMutex // over the making of branches
	joins  joins

	open  context.Context //nolint:containedctx // it ends with Close
	close context.CancelFunc
	mu    sync.Mutex // of the beginning of work, and its end with Close
	busy  sync.WaitGroup
}

// Open finds the program, which must be git 2.31 or newer, and makes the directory.
// What an import or a removal that was interrupted left behind is removed. A directory that another Git has is refused.
func Open(ctx context.Context, cfg Config) (*Git, error) {
	cfg = cfg.withDefaults()
	dir, err := filepath.Abs(cfg.Dir)
	if err != nil || cfg.Dir == "" {
		return nil, errors.New("git needs a directory for its repositories")
	}
	cfg.Dir = dir
	g := &Git{cfg: cfg, slots: newSlots(cfg.Processes, cfg.TenantShare), claims: limits.NewKeyedMutex(), joins: joins{failed: map[repository]int{}}}
	g.open, g.close = context.WithCancel(context.WithoutCancel(ctx))
	g.spools = NewSpools(g.tmpDir(), cfg.MaxPack, cfg.TenantShare)
	if err := g.find(ctx); err != nil {
		return nil, err
	}
	if err := g.prepare(ctx); err != nil {
		return nil, err
	}
	return g, nil
}

// None returns a Git of a node without repositories. Its methods return err, which wraps ErrNoRepo;
// those that a client of git asks for return asked.
func None(err, asked error) *Git { return &Git{none: err, asked: asked} }

// lockWait is how long Open waits for the directory's lock.
const lockWait = 2 * time.Second

// prepare makes the directories, takes the lock and removes what an earlier life left.
func (g *Git) prepare(ctx context.Context) error {
	for _, d := range []string{g.reposDir(), g.tmpDir()} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return fmt.Errorf("the directory of git's repositories: %w", err)
		}
	}
	f, err := os.OpenFile(filepath.Join(g.cfg.Dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("the directory of git's repositories: %w", err)
	}
	// A child that the last process of this directory began, but that does not run its own program
	// yet, holds the lock too, for a moment after that process has ended.
	ctx, cancel := context.WithTimeoutCause(ctx, lockWait, errors.New("another process has it; stop that one, or give this one a directory of its own"))
	defer cancel()
	if err := awaitLock(ctx, f, exclusive); err != nil {
		return errors.Join(fmt.Errorf("the directory of git's repositories: %w", err), f.Close())
	}
	g.lock = f
	g.clear()
	return nil
}

// clear removes half-made repositories. A directory that cannot be removed does no harm.
func (g *Git) clear() {
	made, _ := os.ReadDir(g.tmpDir())
	for _, e := range made {
		_ = os.RemoveAll(filepath.Join(g.tmpDir(), e.Name()))
	}
	_ = os.RemoveAll(filepath.Join(g.cfg.Dir, "pushes")) // of earlier versions
}

// Close ends every process and waits for them.
func (g *Git) Close() {
	g.mu.Lock()
	g.close()
	g.mu.Unlock()
	g.busy.Wait()
	_ = g.lock.Close() // again does no harm
}
