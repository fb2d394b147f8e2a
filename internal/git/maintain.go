package git

import (
	"context"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
)

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
