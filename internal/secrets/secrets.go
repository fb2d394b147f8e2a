// Package secrets fills the ${secret:NAME} placeholders of configured headers
// from the environment and from a directory with a file a name. Values leave
// it only inside Value, and no error holds one.
package secrets

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
)

// ErrMissing is behind the error for a secret that no source has.
var ErrMissing = errors.New("no source has it")

// EnvPrefix and a name make the environment variable that holds a secret.
const EnvPrefix = "WEIR_SECRET_"

// maxSize bounds a secret's file.
const maxSize = 64 << 10

// Config says where secrets are found.
type Config struct {
	// LookupEnv reads one variable; nil is os.LookupEnv.
	LookupEnv func(name string) (string, bool)
	// Dir holds one file a secret, named like it; one line break at the end
	// is not part of it. "" means no directory. Links may not lead out of it.
	Dir string
}

// Store finds secrets. The environment comes before the directory. Nothing is
// kept: a file is read at each use, so that a rotated secret needs no restart.
// It is safe for concurrent use.
type Store struct{ cfg Config }

// New returns a store over the configured sources.
func New(cfg Config) *Store {
	if cfg.LookupEnv == nil {
		cfg.LookupEnv = os.LookupEnv
	}
	return &Store{cfg: cfg}
}

// Resolve fills a template's placeholders. used holds the secrets that went
// into it, each once: what must be scrubbed from whatever comes back. A secret
// that is missing or empty is an error that gives its name.
func (s *Store) Resolve(template string) (value Value, used []Value, err error) {
	pieces, err := parse(template)
	if err != nil {
		return Value{}, nil, err
	}
	var b strings.Builder
	known := map[string]string{}
	for _, p := range pieces {
		if p.name == "" {
			b.WriteString(p.literal)
			continue
		}
		text, ok := known[p.name]
		if !ok {
			if text, err = s.lookup(p.name); err != nil {
				return Value{}, nil, fmt.Errorf("secret %s: %w", p.name, err)
			}
			known[p.name] = text
			used = append(used, newValue(text))
		}
		b.WriteString(text)
	}
	return newValue(b.String()), used, nil
}

func (s *Store) lookup(name string) (string, error) {
	text, ok := s.cfg.LookupEnv(EnvPrefix + name)
	if !ok && s.cfg.Dir != "" {
		var err error
		if text, err = readFile(s.cfg.Dir, name); err != nil {
			return "", err
		}
		ok = true
	}
	switch {
	case !ok:
		return "", ErrMissing
	case text == "":
		return "", errors.New("it is empty")
	default:
		return text, nil
	}
}

// readFile reads one secret beneath dir. Errors tell what is wrong without
// the path, which may say more than a log should.
func readFile(dir, name string) (string, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return "", &fileError{reason: "the directory cannot be opened", cause: err}
	}
	defer root.Close()
	info, err := root.Stat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", ErrMissing
	case err != nil:
		return "", &fileError{reason: "its file cannot be examined", cause: err}
	case !info.Mode().IsRegular(): // a pipe would hang the reader
		return "", &fileError{reason: "its file is not a regular one"}
	}
	f, err := root.Open(name)
	if err != nil {
		return "", &fileError{reason: "its file cannot be opened", cause: err}
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxSize+1))
	switch {
	case err != nil:
		return "", &fileError{reason: "its file cannot be read", cause: err}
	case len(data) > maxSize:
		return "", &fileError{reason: "its file is too large"}
	}
	text := strings.TrimSuffix(string(data), "\n")
	return strings.TrimSuffix(text, "\r"), nil
}

// fileError keeps the cause, which names the path, out of the text.
type fileError struct {
	reason string
	cause  error
}

func (e *fileError) Error() string { return e.reason }
func (e *fileError) Unwrap() error { return e.cause }
