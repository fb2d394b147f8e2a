package git

import (
	"context"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// A file is locked by many that all write, or by one alone.
const shared, exclusive = false, true

// lockPoll is how often a waiter for another process's lock looks again.
const lockPoll = 20 * time.Millisecond

// awaitLock takes a lock as soon as it is free.
func awaitLock(ctx context.Context, f *os.File, alone bool) error {
	tick := time.NewTicker(lockPoll)
	defer tick.Stop()
	for {
		held, err := tryLock(f, alone)
		if held || err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// quiet waits until no process writes to a repository, one that an earlier life of this program has
// left included, so that what a ref says then is what came of every push before.
func (r repository) quiet(ctx context.Context) error {
	f, err := r.openLock()
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	return awaitLock(ctx, f, exclusive)
}

// writing is one writer's part in the lock that all writers of a repository share.
// Their children inherit it: a process that has it alone knows that no writer is left.
type writing struct {
	r    repository
	ref  string
	lock *os.File
}

// write registers a writer of a repository. If there is no other writer, it first removes the
// leftovers of a killed one: a lock of the ref would block its pushes permanently. So if there is such a lock, it
// waits a moment for the other writers: a process that this program just begins holds the lock of its own writers, too.
func (r repository) write(ctx context.Context, ref string) (writing, error) {
	f, err := r.openLock()
	if err != nil {
		return writing{}, err
	}
	w := writing{r: r, ref: ref, lock: f}
	patience := time.Duration(0)
	if slices.ContainsFunc(r.locks(ref), func(path string) bool { _, err := os.Lstat(path); return err == nil }) {
		patience = stragglers
	}
	w.sweep(ctx, f, patience)
	if err := awaitLock(ctx, f, shared); err != nil {
		w.done()
		return writing{}, err
	}
	return w, nil
}

func (r repository) openLock() (*os.File, error) {
	return os.OpenFile(r.own("lock"), os.O_RDWR|os.O_CREATE, 0o600)
}

func (w writing) done() { _ = w.lock.Close() }

// stragglers is how long a killed process may still need to be gone.
const stragglers = time.Second

// abandon ends the writing of a process that was killed, and takes away what it left.
// Where others are writing, or something of it is still there, the next one does.
func (w writing) abandon(ctx context.Context) {
	w.done()
	f, err := w.r.openLock() // anew: child processes still hold w's own
	if err != nil {
		return
	}
	defer func() { _ = f.Close() }()
	w.sweep(context.WithoutCancel(ctx), f, stragglers)
}

// sweep removes the locks, temporary files and quarantined objects of writers that are gone, if within
// that time there is no other writer. What cannot be removed is git's to complain about.
func (w writing) sweep(ctx context.Context, f *os.File, patience time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if awaitLock(ctx, f, exclusive) != nil {
		return
	}
	for _, path := range w.r.locks(w.ref) {
		_ = os.Remove(path)
	}
	w.r.sweepDir("objects", "tmp_", "incoming-")
	w.r.sweepDir(filepath.Join("objects", "pack"), "tmp_", ".tmp-")
}

// locks are the files that keep git from an update of a ref.
func (r repository) locks(ref string) []string {
	list := []string{"HEAD.lock", "config.lock", "packed-refs.lock", "packed-refs.new", "shallow.lock"}
	if ref != "" {
		list = append(list, filepath.FromSlash(ref)+".lock")
	}
	for i, name := range list {
		list[i] = filepath.Join(string(r), name)
	}
	return list
}

func (r repository) sweepDir(name string, prefixes ...string) {
	dir := filepath.Join(string(r), name)
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		for _, p := range prefixes {
			if strings.HasPrefix(e.Name(), p) {
				_ = os.RemoveAll(filepath.Join(dir, e.Name()))
			}
		}
	}
}

// joins are the repositories whose packs are made fewer: one at a time.
type joins struct {
	sync.Mutex
	failed map[repository]int // at so many packs, so that it is tried at twice as many
}

// grown, which a push calls before its session ends, starts to join a repository's packs if there are too many: every push leaves one, and each is
// looked into for every object. While another repository is at it, a later push starts this one.
func (g *Git) grown(ctx context.Context, r repository) {
	n := r.packs()
	if n < g.cfg.packs || !g.version.atLeast(33) || !g.joins.TryLock() {
		return
	}
	ctx = context.WithoutCancel(ctx)
	g.busy.Go(func() {
		defer g.joins.Unlock()
		if n < 2*g.joins.failed[r] {
			return
		}
		err := g.repack(ctx, r)
		if delete(g.joins.failed, r); err != nil && g.open.Err() == nil {
			g.joins.failed[r] = n
			g.cfg.Logger.WarnContext(ctx, "repository_repack_failed", slog.Int("count", n))
		}
	})
}

func (r repository) packs() int {
	list, _ := fs.Glob(os.DirFS(filepath.Join(string(r), "objects", "pack")), "*.pack")
	return len(list)
}

// repack joins small packs, so that each is at least twice as large as all that are smaller, and the loose
// refs to one file. It drops no object, reachable or not, so that it may run beside pushes and fetches: who
// has an old pack open reads on, who misses one looks again.
func (g *Git) repack(ctx context.Context, r repository) error {
	s, err := g.wait(ctx, "", g.cfg.Timeout, g.slots.reads)
	if err != nil {
		return err
	}
	defer s.end()
	s.repository = r
	w, err := r.write(ctx, "")
	if err != nil {
		return err
	}
	defer w.done()
	for _, args := range [][]string{
		{"repack", "-d", "-q", "--geometric=2"},
		{"pack-refs", "--all"},
	} {
		if err := s.run(job{args: args, hold: []*os.File{w.lock}, file: g.cfg.MaxRepo}); err != nil {
			return err
		}
	}
	return r.syncRef("HEAD")
}
