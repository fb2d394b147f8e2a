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
	"weir/internal/broker/embedded"
	"weir/internal/config"
	"weir/internal/fault"
	"weir/internal/ledger"
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

// restored is the report of a restore.
type restored struct {
	schemas.BackupManifest
	// Unknown are the open actions that ended as outcome_unknown.
	Unknown int `json:"unknown"`
}

type restorer struct {
	cfg      config.Config
	replace  bool
	progress io.Writer
	repos    []string // the directories of repositories that were made outside of the staging folder
}

// run restores into a folder inside the data directory, which may be a mount point, and moves the
// content to its place at the end.
func (r *restorer) run(ctx context.Context, file string) (done restored, err error) {
	if !r.cfg.Embedded() {
		return done, cli.Usage(errors.New("the log of this configuration is on a NATS cluster; restore it with `nats account restore`"))
	}
	f, err := os.Open(file)
	if err != nil {
		return done, cli.Usage(err)
	}
	defer f.Close()
	done.BackupManifest, err = archive.Read(f, func(name string, _ io.Reader) error { return r.known(name) })
	if err != nil {
		return done, err
	}
	if done.Partitions != r.cfg.Log.Partitions {
		return done, cli.Usage(fmt.Errorf("the log in the backup has %d partitions and %d are configured; set log.partitions to %d", done.Partitions, r.cfg.Log.Partitions, done.Partitions))
	}
	old, err := r.vacate()
	if err != nil {
		return done, err
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return done, err
	}
	staging := filepath.Join(r.cfg.Data, ".restore")
	if done.Unknown, err = r.fill(ctx, f, staging); err != nil {
		for _, made := range append(r.repos, staging) {
			err = errors.Join(err, os.RemoveAll(made))
		}
		return done, err
	}
	if len(old) > 0 {
		if err := move(r.cfg.Data, filepath.Join(r.cfg.Data, time.Now().UTC().Format("replaced-20060102T150405Z")), old); err != nil {
			return done, err
		}
	}
	fresh, err := names(staging)
	if err == nil {
		err = move(staging, r.cfg.Data, fresh)
	}
	return done, errors.Join(err, os.Remove(staging))
}

// known refuses an entry that has no place in a data directory.
func (r *restorer) known(name string) error {
	if rest, ok := strings.CutPrefix(name, backupStreams); ok {
		stream, _, _ := strings.Cut(rest, "/")
		if slices.Contains(broker.BackupStreams(r.layout()), stream) || strings.HasPrefix(stream, "WEIR_LOG_") { // see Partitions
			return nil
		}
	} else if rest, ok := strings.CutPrefix(name, backupGit); ok && filepath.IsLocal(filepath.FromSlash(rest)) {
		return nil
	}
	return fmt.Errorf("the file is not a backup of Weir: it has %q", name)
}

func (r *restorer) layout() schemas.Layout { return schemas.Layout{Partitions: r.cfg.Log.Partitions} }

// vacate returns the entries of the data directory that must be moved away.
func (r *restorer) vacate() (old []string, err error) {
	if err := os.MkdirAll(r.cfg.Data, 0o700); err != nil {
		return nil, err
	}
	if err := embedded.Unused(r.cfg.Data); err != nil {
		return nil, err
	}
	if err := os.RemoveAll(filepath.Join(r.cfg.Data, ".restore")); err != nil { // of a restore that was interrupted
		return nil, err
	}
	old, err = names(r.cfg.Data)
	if err == nil && len(old) > 0 && !r.replace {
		err = cli.Usage(fmt.Errorf("%s is not empty, and nothing was changed; name another directory with --data, or add --replace", r.cfg.Data))
	}
	return old, err
}

// names are the entries of a directory without those that do not move.
func names(dir string) (all []string, err error) {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if name := e.Name(); name != "lost+found" && !strings.HasPrefix(name, "replaced-") {
			all = append(all, name)
		}
	}
	return all, err
}

func move(from, to string, names []string) error {
	if err := os.MkdirAll(to, 0o700); err != nil {
		return err
	}
	for _, name := range names {
		if err := os.Rename(filepath.Join(from, name), filepath.Join(to, name)); err != nil {
			return err
		}
	}
	return nil
}

// fill makes a data directory of a backup, and ends the actions that were open.
func (r *restorer) fill(ctx context.Context, f io.Reader, dir string) (unknown int, err error) {
	server, err := embedded.Start(embedded.Config{Dir: dir, Layout: r.layout(), Durability: schemas.DurabilityDisk})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, server.Stop()) }()
	if err := r.entries(ctx, f, server, dir); err != nil {
		return 0, err
	}
	cfg := externalLog(r.cfg)
	cfg.Server, cfg.URL, cfg.Durability = server, "", schemas.DurabilityDisk
	b, err := broker.Open(ctx, cfg)
	if err != nil {
		return 0, err
	}
	defer b.Close(context.WithoutCancel(ctx))
	fmt.Fprintln(r.progress, "look for open actions")
	if unknown, err = settleOpen(ctx, b, ledger.New(b, r.layout(), nil), r.layout()); err != nil {
		return unknown, err
	}
	return unknown, b.Barrier(ctx) // syncs the file system, the repositories with it
}

// entries restores the streams and repositories of a backup. Its entries have the order in which they
// were written: a stream's head, its pieces, the next stream's.
func (r *restorer) entries(ctx context.Context, f io.Reader, server *embedded.Server, dir string) error {
	streams, err := broker.NewRestorer(server)
	if err != nil {
		return err
	}
	defer streams.Close()
	_, err = archive.Read(f, func(name string, content io.Reader) error {
		rest, ok := strings.CutPrefix(name, backupStreams)
		if !ok {
			if err := streams.End(ctx); err != nil {
				return err
			}
			return r.repo(dir, strings.TrimPrefix(name, backupGit), content)
		}
		data, err := io.ReadAll(content)
		if err != nil {
			return err
		}
		stream, piece, _ := strings.Cut(rest, "/")
		if strings.HasPrefix(piece, backupHead) {
			fmt.Fprintln(r.progress, "restore", stream)
			err = streams.Begin(ctx, stream, data)
		} else {
			err = streams.Add(ctx, data)
		}
		if err != nil {
			return fmt.Errorf("stream %s: %w", stream, err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return streams.End(ctx)
}

// repo writes a file of a repository.
func (r *restorer) repo(dir, name string, content io.Reader) error {
	git := filepath.Join(r.cfg.GitDir(), "repos")
	first, _, _ := strings.Cut(name, "/")
	if inside, err := filepath.Rel(r.cfg.Data, git); err == nil && filepath.IsLocal(inside) {
		git = filepath.Join(dir, inside)
	} else if _, err := os.Lstat(filepath.Join(git, first)); errors.Is(err, fs.ErrNotExist) {
		r.repos = append(r.repos, filepath.Join(git, first))
	}
	file := filepath.Join(git, filepath.FromSlash(name))
	dirs := []string{filepath.Dir(file)}
	if _, in, _ := strings.Cut(name, "/"); in == "HEAD" { // git needs these directories, and they may be empty
		dirs = append(dirs, filepath.Join(dirs[0], "refs"), filepath.Join(dirs[0], "objects"), filepath.Join(dirs[0], "weir"))
	}
	for _, dir := range dirs {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
	}
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s exists; move the repositories in git.dir away first", file)
	}
	if err != nil {
		return err
	}
	_, err = io.Copy(f, content)
	return errors.Join(err, f.Close())
}

// settleOpen ends every action that has not ended. The node that was backed up has gone on with them, so
// that their calls may have been made after the backup.
func settleOpen(ctx context.Context, b *broker.Broker, l *ledger.Ledger, layout schemas.Layout) (n int, err error) {
	for p := range layout.Partitions {
		open := map[schemas.Ref]bool{}
		for next, more := uint64(1), true; more; {
			var page []schemas.Record
			if page, more, err = b.Page(ctx, schemas.LogStream(p), ">", next, 1024, 1<<20); err != nil {
				return n, err
			}
			for _, rec := range page {
				next = rec.Seq + 1
				switch ref, section, err := schemas.ParseSubject(rec.Subject); {
				case err != nil:
				case rec.Ends():
					delete(open, ref)
				case section == schemas.SectionAccepted:
					open[ref] = true
				}
			}
		}
		for ref := range open {
			st, err := l.Load(ctx, ref)
			if err == nil && st.Settled == nil && st.Damaged == nil { // a damaged one is parked, not executed
				err = l.Append(ctx, st, schemas.Event{Type: schemas.EventSettled, Settled: &schemas.Settled{
					Outcome: schemas.OutcomeUnknown, Code: schemas.OutcomeUnknownCode,
					Message: "this action was open when the backup was taken, and may have been executed since; look at its target, then resolve it",
				}})
				n++
			}
			if err != nil && !errors.Is(err, fault.ErrGone) && !errors.Is(err, fault.ErrNotFound) {
				return n, fmt.Errorf("action %s: %w", ref.ID, err)
			}
		}
	}
	return n, nil
}
