package git

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
)

// grown has a repository's packs made fewer, some time, when there are too many:
// every push leaves one, and each is looked into for every object.
func (g *Git) grown(id string, r repository) {
	if r.packs() < g.cfg.packs || !g.version.atLeast(33) {
		return
	}
	select {
	case g.due <- id:
	default: // a later push will ask again
	}
}

func (r repository) packs() int {
	entries, _ := os.ReadDir(filepath.Join(string(r), "objects", "pack"))
	n := 0
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".pack") {
			n++
		}
	}
	return n
}

// startMaintenance starts what Close ends: one repository at a time.
func (g *Git) startMaintenance(ctx context.Context) error {
	ctx, _, end, err := g.live(ctx)
	if err != nil {
		return err
	}
	go func() {
		defer end()
		failed := map[string]int{} // at so many packs, so that it is tried at twice as many
		for {
			select {
			case <-ctx.Done():
				return
			case id := <-g.due:
				g.tidy(ctx, id, failed)
			}
		}
	}()
	return nil
}

func (g *Git) tidy(ctx context.Context, id string, failed map[string]int) {
	r, err := g.repo(id)
	if err != nil {
		return
	}
	n := r.packs()
	if n < g.cfg.packs || n < 2*failed[id] {
		return
	}
	if err := g.repack(ctx, r); err != nil {
		failed[id] = n
		if ctx.Err() == nil {
			g.cfg.Logger.WarnContext(ctx, "packs of a repository could not be joined", slog.Int("count", n))
		}
		return
	}
	delete(failed, id)
}

// repack joins small packs, so that each is at least twice as large as all that are smaller, and the loose
// refs to one file. It drops no object, reachable or not, so that it may run beside pushes and fetches: who
// has an old pack open reads on, who misses one looks again.
func (g *Git) repack(ctx context.Context, r repository) error {
	t, err := g.sending(ctx, "")
	if err != nil {
		return err
	}
	defer t.end()
	w, err := r.write(ctx, "")
	if err != nil {
		return err
	}
	defer w.done()
	for _, args := range [][]string{
		{"repack", "-d", "-q", "--geometric=2"},
		{"pack-refs", "--all"},
	} {
		if err := g.run(t, job{
			args: args, dir: string(r), env: r.dirEnv(),
			hold: []*os.File{w.lock}, file: g.cfg.MaxRepo,
		}); err != nil {
			return err
		}
	}
	return r.syncRef("HEAD")
}
