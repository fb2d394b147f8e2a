package embedded

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"weir/schemas"
)

const (
	markerName = "weir.json"
	lockName   = "weir.lock"
	storeName  = "jetstream" // the server's own choice, below the directory it is given

	// formatVersion is raised when a directory written by this program can no longer be read by the
	// one before it.
	formatVersion = 2
)

// ErrDataDir is what every refusal of a data directory is. The text after it says what is wrong and
// what to do about it.
var ErrDataDir = errors.New("data directory refused")

func refuse(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrDataDir, fmt.Errorf(format, args...))
}

// marker says who made a data directory and how its log is cut. Subjects are computed from the
// layout: under another one, no stored action is found.
type marker struct {
	Format     int `json:"format"`
	Partitions int `json:"partitions"`
}

// dataDir is a directory that this process has to itself.
type dataDir struct {
	path string
	lock *os.File
}

// openDataDir creates the directory or checks that it is ours, and locks it. The lock is taken
// first, so that two starts cannot both write the marker.
func openDataDir(path string, layout schemas.Layout) (*dataDir, error) {
	if st, err := os.Stat(path); err == nil && !st.IsDir() {
		return nil, refuse("%s is a file: name a directory", path)
	}
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, refuse("%s cannot be created: give this user the right to write there, or name another directory: %w", path, err)
	}
	d := &dataDir{path: path}
	if err := d.acquire(); err != nil {
		return nil, err
	}
	if err := d.check(layout); err != nil {
		return nil, errors.Join(err, d.close())
	}
	return d, nil
}

// Unused returns an error that says why a data directory cannot be moved: a Weir runs on it.
func Unused(path string) error {
	d := &dataDir{path: path}
	if _, err := os.Stat(d.file(lockName)); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := d.acquire(); err != nil {
		return err
	}
	return d.close()
}

func (d *dataDir) acquire() error {
	f, err := os.OpenFile(d.file(lockName), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return refuse("%s cannot be written: give it to the user that runs weir, or name another directory: %w", d.path, err)
	}
	held, err := lockFile(f)
	if err != nil {
		return refuse("%s cannot be locked, put it on a local file system: %w", d.path, errors.Join(err, f.Close()))
	}
	if !held {
		_ = f.Close() // nothing was written
		return refuse("%s is in use by another weir: stop that one, or name another directory", d.path)
	}
	d.lock = f
	return nil
}

// check compares the marker with the layout, or claims a directory that holds no log yet.
func (d *dataDir) check(layout schemas.Layout) error {
	want, have := marker{Format: formatVersion, Partitions: layout.Partitions}, marker{}
	raw, err := os.ReadFile(d.file(markerName))
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Stat(d.file(storeName)); err == nil {
			return refuse("%s holds a message store and no %s, so this weir did not make it: restore that file, or name another directory",
				d.path, markerName)
		}
		return d.write(markerName, want)
	}
	switch {
	case err != nil:
		return refuse("%s cannot be read: give it to the user that runs weir, restore it from a copy, or name another directory: %w", d.file(markerName), err)
	case json.Unmarshal(raw, &have) != nil || have.Format == 0:
		return refuse("%s is damaged: restore it from a copy, or name another directory", d.file(markerName))
	case have.Format != want.Format:
		return refuse("%s has format %d and this weir reads format %d: run the weir that wrote it, or name another directory",
			d.path, have.Format, want.Format)
	case have.Partitions != want.Partitions:
		return refuse("the log in %s has %d partitions and %d are configured: the number is fixed when a log is made, so configure %d, or name another directory",
			d.path, have.Partitions, want.Partitions, have.Partitions)
	}
	return nil
}

func (d *dataDir) file(name string) string { return filepath.Join(d.path, name) }

// stored is how many bytes the server's files take.
func (d *dataDir) stored() int64 {
	var n int64
	_ = filepath.WalkDir(d.file(storeName), func(_ string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return nil //nolint:nilerr // an estimate: a file that is gone takes no room
		}
		if info, err := e.Info(); err == nil {
			n += info.Size()
		}
		return nil
	})
	return n
}

// close gives the directory back. The lock file stays: removing it would let a third process lock a
// new file while a second waits on the old one. The lock is given back first: a child process that
// is just being started has a copy of the descriptor, which would keep it.
func (d *dataDir) close() error { return errors.Join(unlockFile(d.lock), d.lock.Close()) }

// write replaces a file by a document, so that a crash leaves the old content or the new, and the
// new is on the disk when it returns. Only this user may read it.
func (d *dataDir) write(name string, doc any) error {
	next := d.file(name + ".new")
	raw, err := json.Marshal(doc)
	if err == nil {
		err = os.RemoveAll(next) // of a write that was cut off
	}
	if err == nil {
		err = writeSynced(next, append(raw, '\n'))
	}
	if err == nil {
		err = os.Rename(next, d.file(name))
	}
	if err == nil {
		err = syncDir(d.path)
	}
	if err != nil {
		return refuse("%s cannot be written, repair it or name another directory: %w", d.file(name), errors.Join(err, os.RemoveAll(next)))
	}
	return nil
}

func writeSynced(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Sync(), f.Close())
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
