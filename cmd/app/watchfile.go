package app

import (
	"context"
	"crypto/sha256"
	"os"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"

	"weir/internal/telemetry"
)

// quiet is how long a file must have been left alone before it is read: an
// editor writes in several steps.
const quiet = 200 * time.Millisecond

// watchFile reloads when the content of the configuration's file changes. It
// watches the folder and not the file: editors and Kubernetes put another file,
// or another link, in its place. A node that cannot watch goes on without.
func (a *App) watchFile(ctx context.Context) {
	if a.reload.file == "" {
		return
	}
	w, err := fsnotify.NewWatcher()
	if err == nil {
		if err = w.Add(filepath.Dir(a.reload.file)); err != nil {
			_ = w.Close()
		}
	}
	if err != nil {
		a.log.WarnContext(ctx, "configuration not watched", "err_kind", telemetry.ErrKind(err))
		a.notice("changes of " + a.reload.file + " are not noticed by themselves; send SIGHUP after one")
		return
	}
	f := &watchedFile{path: a.reload.file, watcher: w}
	f.changed()
	if a.stale() { // it changed while the node started
		_, _ = a.Reload(ctx)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() {
		defer close(done)
		f.follow(ctx, func() { _, _ = a.Reload(ctx) }) // it has told what is wrong
	}()
	a.teardown.push(func(context.Context) error {
		cancel()
		<-done
		return w.Close()
	})
}

// watchedFile is a file and the folders in which something may happen to it.
type watchedFile struct {
	path    string
	watcher *fsnotify.Watcher
	sum     [sha256.Size]byte
	target  string // the folder that a link led to, when it was last looked at
}

// follow calls reload after each change of the file's content, until ctx ends.
func (f *watchedFile) follow(ctx context.Context, reload func()) {
	timer := time.NewTimer(quiet)
	timer.Stop()
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case ev, ok := <-f.watcher.Events:
			if !ok {
				return
			}
			// Writes to other files of the folder are nothing to us; a link
			// that is exchanged has another name than the file.
			if !ev.Has(fsnotify.Write) || filepath.Base(ev.Name) == filepath.Base(f.path) || f.target != "" {
				timer.Reset(quiet)
			}
		case _, ok := <-f.watcher.Errors: // events were lost: look
			if !ok {
				return
			}
			timer.Reset(quiet)
		case <-timer.C:
			if f.changed() {
				reload()
			}
		}
	}
}

// changed reads the file and reports whether it holds something else than the
// last time. One that is not there is about to be: it is looked at again when
// something happens.
func (f *watchedFile) changed() bool {
	f.followLink()
	data, err := os.ReadFile(f.path)
	if err != nil {
		return false
	}
	sum := sha256.Sum256(data)
	changed := sum != f.sum
	f.sum = sum
	return changed
}

// followLink watches the folder that the file really lies in, where it is a link.
func (f *watchedFile) followLink() {
	target, err := filepath.EvalSymlinks(f.path)
	if err != nil {
		return
	}
	folder := filepath.Dir(target)
	if own, err := filepath.EvalSymlinks(filepath.Dir(f.path)); err != nil || own == folder {
		folder = ""
	}
	if folder == f.target {
		return
	}
	if f.target != "" {
		_ = f.watcher.Remove(f.target) // it may be gone
	}
	f.target = ""
	if folder != "" && f.watcher.Add(folder) == nil {
		f.target = folder
	}
}
