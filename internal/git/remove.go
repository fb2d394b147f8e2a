package git

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Remove takes a repository away when nobody writes to it any more. It is there whole or not at all; one that is not
// there is no error. Who fetches from it meanwhile sees that break off.
func (g *Git) Remove(ctx context.Context, id string) error {
	r, err := g.repo(id)
	if errors.Is(err, ErrNoRepo) {
		return nil
	}
	if err != nil {
		return err
	}
	t, err := g.lookUp(ctx)
	if err != nil {
		return err
	}
	defer t.end()
	f, err := r.openLock()
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	if err := awaitLock(t.ctx, f, exclusive); err != nil { //nolint:contextcheck // it is ctx, or ends earlier
		return fmt.Errorf("waiting for who writes to the repository: %w", err)
	}
	aside, err := os.MkdirTemp(g.tmpDir(), "gone-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(aside) }() // what is left of it Open removes
	if err := os.Rename(string(r), filepath.Join(aside, "r")); err != nil {
		return err
	}
	return syncPath(g.reposDir())
}
