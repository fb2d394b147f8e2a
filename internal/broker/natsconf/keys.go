package natsconf

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/nats-io/nkeys"
)

// publicKey is that of the user whose seed is in a file, which is made where there is
// none: a key that was given out is never replaced.
func publicKey(file string) (public string, made bool, err error) {
	public, err = storedKey(file)
	if errors.Is(err, fs.ErrNotExist) {
		public, err = newKey(file)
		return public, err == nil, err
	}
	return public, false, err
}

// storedKey is the public key of the user whose seed is in a file; fs.ErrNotExist: there is
// none.
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

func newKey(file string) (public string, err error) {
	pair, err := nkeys.CreateUser()
	if err != nil {
		return "", err
	}
	defer pair.Wipe()
	if public, err = pair.PublicKey(); err != nil {
		return "", err
	}
	seed, err := pair.Seed()
	if err != nil {
		return "", err
	}
	return public, write(file, append(seed, '\n'), secret)
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
