package app

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"weir/cmd/cli"
	"weir/cmd/cli/archive"
	"weir/internal/broker"
	"weir/internal/fault"
	"weir/schemas"
)

// The names of a backup's entries begin with these. A stream's first entry is streams/NAME/head, and its
// pieces follow.
const (
	backupStreams = "streams/"
	backupGit     = "git/"
	backupHead    = "head"
)

// backup writes a backup of this node while it runs. The log is read before everything that its records
// refer to, and references of repositories before their objects, so that nothing in the backup refers to
// something that it lacks.
func (a *App) backup(ctx context.Context, w io.Writer) error {
	if !a.cfg.Embedded() {
		return fault.New(schemas.Unavailable, "the log is on a NATS cluster; back it up with `nats account backup`")
	}
	if !a.backingUp.TryLock() {
		return fault.New(schemas.Conflict, "another backup of this node is running; try again when it has ended")
	}
	defer a.backingUp.Unlock()
	m := schemas.BackupManifest{
		Format: schemas.BackupFormat, Weir: cli.Version, Started: time.Now().UTC(), Partitions: a.layout().Partitions,
	}
	out := archive.NewWriter(w)
	for _, stream := range broker.BackupStreams(a.layout()) {
		if err := a.backupStream(ctx, out, stream); err != nil && !errors.Is(err, fault.ErrNotFound) {
			return fmt.Errorf("stream %s: %w", stream, err)
		}
	}
	for _, objects := range []bool{false, true} {
		if err := backupRepos(ctx, out, filepath.Join(a.cfg.GitDir(), "repos"), objects); err != nil {
			return fmt.Errorf("repositories: %w", err)
		}
	}
	m.Ended = time.Now().UTC()
	return out.Close(m)
}

func (a *App) backupStream(ctx context.Context, out *archive.Writer, stream string) error {
	n := 0
	add := func(name string) func([]byte) error {
		return func(data []byte) error {
			n++
			return out.Add(fmt.Sprintf("%s%s/%s%08d", backupStreams, stream, name, n), int64(len(data)), bytes.NewReader(data))
		}
	}
	return a.broker.Snapshot(ctx, stream, add(backupHead), add(""))
}

// backupRepos adds the objects of all repositories, or everything else. Git writes an object under
// another name first, and never changes it.
func backupRepos(ctx context.Context, out *archive.Writer, dir string, objects bool) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return ignoreMissing(err)
	}
	defer root.Close()
	return fs.WalkDir(root.FS(), ".", func(name string, e fs.DirEntry, err error) error {
		if err == nil {
			err = ctx.Err()
		}
		unfinished := strings.HasSuffix(name, ".lock") || strings.HasPrefix(path.Base(name), "tmp_")
		switch {
		case errors.Is(err, fs.ErrNotExist): // it was removed meanwhile
			return nil
		case err != nil:
			return err
		case e.IsDir() && unfinished:
			return fs.SkipDir
		case !e.Type().IsRegular(), unfinished, objects != strings.Contains("/"+name, "/objects/"):
			return nil
		}
		f, err := root.Open(name)
		if err != nil {
			return ignoreMissing(err)
		}
		defer f.Close()
		info, err := f.Stat()
		if err != nil {
			return err
		}
		return out.Add(backupGit+name, info.Size(), f)
	})
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
