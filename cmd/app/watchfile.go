package app

import (
	"context"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"

	"weir/internal/telemetry"
)

// quiet is how long a file must be unchanged before it is read, because an editor writes in several
// steps. In a folder that never is quiet it is read anyway, patience after the first change.
const (
	quiet    = 200 * time.Millisecond
	patience = 5 * quiet
)

// watchFile reloads when the configuration's file changes. It watches the folder and not the file:
// editors and Kubernetes put another file, or another link, in its place. A node that cannot watch
// runs without.
func (a *App) watchFile(ctx context.Context) {
	if a.opts.File == "" {
		return
	}
	w, err := fsnotify.NewWatcher()
	if err == nil {
		if err = w.Add(filepath.Dir(a.opts.File)); err != nil {
			_ = w.Close()
		}
	}
	if err != nil {
		a.log.WarnContext(ctx, "configuration_watch_failed", "err_kind", telemetry.ErrKind(err))
		a.notice("changes of " + a.opts.File + " are not noticed by themselves; send SIGHUP after one")
		return
	}
	f := &watchedFile{path: a.opts.File, watcher: w}
	f.followLink()
	a.refresh(ctx) // it may have changed while the node started
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() {
		defer close(done)
		f.follow(ctx, func() { a.refresh(ctx) })
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
	target  string // the folder that a link led to, when it was last looked at
}

// follow calls look after something happened that may be a change of the file,
// until ctx ends. Whether it was one is look's to find out.
func (f *watchedFile) follow(ctx context.Context, look func()) {
	timer := time.NewTimer(quiet)
	timer.Stop()
	defer timer.Stop()
	var latest time.Time // when to look whatever happens; zero: nothing has happened
	happened := func() {
		if latest.IsZero() {
			latest = time.Now().Add(patience)
		}
		if left := time.Until(latest); left > 0 { // else the timer has run out
			timer.Reset(min(quiet, left))
		}
	}
	for {
		select {
		case <-ctx.Done():
			return
		case ev, ok := <-f.watcher.Events:
			if !ok {
				return
			}
			// Writes to other files of the folder are nothing to us, except a schema that an entry
			// names; a link that is exchanged has another name than the file.
			name := filepath.Base(ev.Name)
			if !ev.Has(fsnotify.Write) || name == filepath.Base(f.path) || filepath.Ext(name) == ".json" || f.target != "" {
				happened()
			}
		case _, ok := <-f.watcher.Errors: // events were lost: look
			if !ok {
				return
			}
			happened()
		case <-timer.C:
			latest = time.Time{}
			f.followLink()
			look()
		}
	}
}

// followLink watches the folder of the link's target, if the file is a link.
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
