package natsconf

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/nats-io/nkeys"
)

// storedKey is the public key of the user whose seed is in a file; fs.ErrNotExist: there is none.
func storedKey(file string) (public string, err error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	pair, err := nkeys.ParseDecoratedNKey(raw)
	if err != nil {
		return "", fmt.Errorf("%s holds no seed of an nkey: bring it back, or delete it for a new one", file)
	}
	defer pair.Wipe()
	return pair.PublicKey()
}

// The modes of files: secrets are their owner's alone.
const (
	secret = fs.FileMode(0o600)
	plain  = fs.FileMode(0o644)
)

// write replaces a file as a whole.
func write(file string, data []byte, mode fs.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	next := file + ".new"
	if err := os.WriteFile(next, data, mode); err != nil {
		return err
	}
	return os.Rename(next, file)
}

// vacant refuses a directory without cluster.json that already contains a file to be written. Such
// keys belong to another cluster, or to one whose plan is lost, and must not be reused.
func vacant(dir string) error {
	for _, name := range []string{"servers", "credentials", "ca.pem", "ca.key"} {
		if _, err := os.Lstat(filepath.Join(dir, name)); !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%s has %s in it and no %s: it is no folder of `weir nats init`, or one that was not finished; nothing was changed, so name another, or bring %s back, or move %s away",
				dir, name, planFile, planFile, name)
		}
	}
	return nil
}

// intact reads every existing key before anything is written, so that a damaged one is reported
// while nothing has changed.
func intact(dir string, s state) error {
	var files []string
	for _, name := range users() {
		files = append(files, CredentialsFile(dir, name))
	}
	for _, t := range s.Tenants {
		files = append(files, ObserverFile(dir, t.Name), AgentFile(dir, t.Name))
	}
	for _, file := range files {
		if _, err := storedKey(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	_, err := readAuthority(dir)
	return err
}
