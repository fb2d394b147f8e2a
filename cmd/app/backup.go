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
	"slices"
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
// refer to, so that nothing in the backup refers to something that it lacks.
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
	if err := backupRepos(ctx, out, filepath.Join(a.cfg.GitDir(), "repos")); err != nil {
		return err
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

// backupRepos adds the repositories. Git may write to one meanwhile, so its parts are read in this order:
// refs come before all objects, loose refs before packed ones and loose objects before packs, which is
// how Git moves them. A part from which Git has removed a file is read again for what replaced it.
func backupRepos(ctx context.Context, out *archive.Writer, dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return ignoreMissing(err)
	}
	defer root.Close()
	repos, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return err
	}
	parts := []string{"", "/packed-refs", "/objects", "/objects/pack"}
	for _, repo := range repos {
		if path.Ext(repo.Name()) != ".git" {
			continue // lost+found, for one
		}
		b := repoBackup{out: out, root: root, added: map[string]bool{}}
		for _, part := range parts {
			b.later = append(b.later, repo.Name()+part)
		}
		for len(b.later) > 0 {
			part := b.later[0]
			b.later = b.later[1:]
			for again := true; again; {
				if again, err = b.add(ctx, part); err != nil {
					return fmt.Errorf("repository %s: %w", repo.Name(), err)
				}
			}
		}
	}
	return nil
}

// repoBackup adds one repository. Names are relative to root.
type repoBackup struct {
	out   *archive.Writer
	root  *os.Root
	later []string // parts that are read after this one
	added map[string]bool
}

// add adds the files of a part that are new, and reports whether one was removed meanwhile.
func (b *repoBackup) add(ctx context.Context, part string) (gone bool, err error) {
	err = fs.WalkDir(b.root.FS(), part, func(name string, e fs.DirEntry, err error) error {
		if err == nil {
			err = ctx.Err()
		}
		unfinished := strings.HasSuffix(name, ".lock") || strings.Contains(name, ".git/objects/") && strings.HasPrefix(path.Base(name), "tmp_")
		switch {
		case errors.Is(err, fs.ErrNotExist):
			gone = gone || name != part
			return nil
		case err != nil:
			return err
		case e.IsDir() && (unfinished || slices.Contains(b.later, name)):
			return fs.SkipDir
		case !e.Type().IsRegular(), unfinished, b.added[name], slices.Contains(b.later, name):
			return nil
		}
		f, err := b.root.Open(name)
		if err != nil {
			gone = gone || errors.Is(err, fs.ErrNotExist)
			return ignoreMissing(err)
		}
		defer f.Close()
		info, err := f.Stat()
		if err != nil {
			return err
		}
		b.added[name] = true
		return b.out.Add(backupGit+name, info.Size(), f)
	})
	return gone, err
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
