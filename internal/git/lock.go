package git

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"weir/schemas"
)

// lockKind is how a file is locked: by one alone, or by many that all write.
type lockKind int

const (
	shared lockKind = iota
	exclusive
)

// lockPoll is how often somebody who waits for another process's lock looks again.
const lockPoll = 20 * time.Millisecond

// awaitLock takes a lock as soon as it is free.
func awaitLock(ctx context.Context, f *os.File, kind lockKind) error {
	tick := time.NewTicker(lockPoll)
	defer tick.Stop()
	for {
		held, err := tryLock(f, kind)
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

func (g *Git) pushesDir() string { return filepath.Join(g.cfg.Dir, "pushes") }

func (g *Git) pushPath(push string) (string, error) {
	if !schemas.ValidID(push) {
		return "", errors.New("a push has no proper name")
	}
	return filepath.Join(g.pushesDir(), schemas.EscapeToken(push)), nil
}

// mark makes the file that says, by its lock, that processes of a push are left: they inherit it. Only the kernel
// lets go of it, when the last of them ends.
func (g *Git) mark(push string) (*os.File, error) {
	path, err := g.pushPath(push)
	if err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	held, err := tryLock(f, exclusive)
	if err == nil && !held {
		err = errors.New("a push of this name is running")
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// unmark lets go of a mark, and removes its file unless somebody else has it: a process that could not be ended
// keeps it, for Quiet to wait for. One that is just being started has it for a moment, as it has everything.
func unmark(ctx context.Context, f *os.File) {
	_ = f.Close() // the lock is the children's as well; only who opens the file anew sees who has it
	again, err := os.OpenFile(f.Name(), os.O_RDWR, 0)
	if err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stragglers)
	defer cancel()
	if awaitLock(ctx, again, exclusive) == nil {
		_ = os.Remove(again.Name())
	}
	_ = again.Close()
}

// Quiet waits until no process of a push of this name is left, of an earlier life of this program as
// well, so that what the ref says then is what came of it.
func (g *Git) Quiet(ctx context.Context, id, push string) error {
	if _, err := g.repo(id); err != nil {
		return err
	}
	path, err := g.pushPath(push)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := awaitLock(ctx, f, exclusive); err != nil {
		return errors.Join(err, f.Close())
	}
	unmark(ctx, f)
	return nil
}
