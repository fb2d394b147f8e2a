package secrets

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"sync"
	"time"

	"filippo.io/age"
	"filippo.io/age/armor"
)

// maxSealed bounds the encrypted file, and with it what it decrypts to: age
// does not compress.
const maxSealed = 256 << 10

// sealed is a file of secrets encrypted with age, and what it held when it was
// last read. It is read again when the file or the identity has changed; while
// a change cannot be read, it has no secret at all: an old one may have been
// withdrawn by the change.
type sealed struct {
	file, identity string

	mu     sync.Mutex
	values map[string]Value
	from   [2]fs.FileInfo // the files that values came from; nil: none
	at     time.Time      // when they were read
}

// get gives one secret; ok is false where the file has none of that name.
func (s *sealed) get(name string) (text string, ok bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.refresh(); err != nil {
		return "", false, err
	}
	v, ok := s.values[name]
	return v.ExposeSecret(), ok, nil
}

func (s *sealed) refresh() error {
	if s.current() {
		return nil
	}
	s.values, s.from, s.at = nil, [2]fs.FileInfo{}, time.Now()
	key, keyInfo, err := readRegular(os.OpenFile, s.identity, maxSize)
	if err != nil {
		return err.of("the age identity's file")
	}
	data, info, err := readRegular(os.OpenFile, s.file, maxSealed)
	if err != nil {
		return err.of("the age file")
	}
	values, failed := unseal(data, key)
	if failed != nil {
		return failed
	}
	s.values, s.from = values, [2]fs.FileInfo{keyInfo, info}
	return nil
}

// settle is how old a file's time must be, when it is read, for a later change
// to be sure to show in it: clocks of file systems are coarse.
const settle = 2 * time.Second

// current reports whether the files are still those that were read.
func (s *sealed) current() bool {
	for i, path := range [2]string{s.identity, s.file} {
		was := s.from[i]
		if was == nil || s.at.Sub(was.ModTime()) < settle {
			return false
		}
		now, err := os.Stat(path)
		if err != nil || !os.SameFile(was, now) || now.Size() != was.Size() || !now.ModTime().Equal(was.ModTime()) {
			return false
		}
	}
	return true
}

// unseal decrypts a file, in armor or without, and reads the names and values
// in it. No error keeps its cause: those of both parsers quote their input.
func unseal(data, key []byte) (map[string]Value, error) {
	identities, err := age.ParseIdentities(bytes.NewReader(key))
	if err != nil {
		return nil, &fileError{reason: "the age identity's file holds no usable identity"}
	}
	var source io.Reader = bufio.NewReader(bytes.NewReader(data))
	if bytes.HasPrefix(bytes.TrimLeft(data, " \t\r\n"), []byte(armor.Header)) {
		source = armor.NewReader(source)
	}
	opened, err := age.Decrypt(source, identities...)
	if err != nil {
		if _, ok := errors.AsType[*age.NoIdentityMatchError](err); ok {
			return nil, &fileError{reason: "the age file is encrypted for another identity"}
		}
		return nil, &fileError{reason: "the age file is damaged, or none"}
	}
	plain, err := io.ReadAll(opened)
	if err != nil {
		return nil, &fileError{reason: "the age file is damaged, or none"}
	}
	defer clear(plain)
	return parseMapping(plain)
}
