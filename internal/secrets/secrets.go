// Package secrets fills the ${secret:NAME} placeholders of what entries add to
// calls, from the environment, from a directory with a file a name, and from one
// file encrypted with age. Values leave it only inside Value, and no error holds
// one, or a path.
package secrets

import (
	"errors"
	"os"
	"strings"

	"weir/internal/policy/placeholder"
)

// ErrMissing is behind the error for a secret that no source has.
var ErrMissing = errors.New("no source has it")

// NameError is why a secret cannot be read. Its text has the secret's name, and neither a value nor a path.
type NameError struct {
	Name  string
	Cause error
}

func (e *NameError) Error() string { return "secret " + e.Name + ": " + e.Cause.Error() }

// Unwrap returns the cause.
func (e *NameError) Unwrap() error { return e.Cause }

// EnvPrefix and a name make the environment variable that holds a secret.
const EnvPrefix = "WEIR_SECRET_"

// maxSize bounds a secret's file.
const maxSize = 64 << 10

// Config says where secrets are found.
type Config struct {
	// LookupEnv reads one variable. Required.
	LookupEnv func(name string) (string, bool)
	// Dir holds one file a secret, named like it; one line break at the end
	// is not part of it. "" means no directory. Links may not lead out of it.
	Dir string
	// AgeFile is encrypted with age (in armor or without) for the identity in
	// the file AgeIdentity, and decrypts to a YAML mapping of names to texts.
	// "" means none.
	AgeFile     string
	AgeIdentity string
}

// Store finds secrets: in the environment, else in the directory, else in the
// age file. A directory's file is read at each use and the age file when it has
// changed, so that a rotated secret needs no restart. A source that cannot be
// read is an error and not passed over. It is safe for concurrent use.
type Store struct {
	cfg    Config
	sealed *sealed // nil: none
	former former
}

// New returns a store over the configured sources.
func New(cfg Config) *Store {
	s := &Store{cfg: cfg}
	if cfg.AgeFile != "" {
		s.sealed = &sealed{file: cfg.AgeFile, identity: cfg.AgeIdentity}
	}
	return s
}

// Check reports whether the sources can be read, without looking for a secret.
func (s *Store) Check() error {
	if s.cfg.Dir != "" {
		root, err := os.OpenRoot(s.cfg.Dir)
		if err != nil {
			return &fileError{reason: "the directory cannot be opened", cause: err}
		}
		_ = root.Close()
	}
	if s.sealed != nil {
		_, _, err := s.sealed.get("")
		return err
	}
	return nil
}

// Resolve fills a template's placeholders. used holds the secrets that went
// into it, each once and followed by the last values it had before this one:
// what must be scrubbed from whatever comes back. A secret that is missing or
// empty is a *NameError.
func (s *Store) Resolve(template string) (value Value, used []Value, err error) {
	pieces, err := placeholder.Parse(template)
	if err != nil {
		return Value{}, nil, err
	}
	var b strings.Builder
	known := map[string]string{}
	for _, p := range pieces {
		if p.Name == "" {
			b.WriteString(p.Literal)
			continue
		}
		text, ok := known[p.Name]
		if !ok {
			if text, err = s.lookup(p.Name); err != nil {
				return Value{}, nil, &NameError{p.Name, err}
			}
			known[p.Name] = text
			used = append(used, s.former.use(p.Name, text)...)
		}
		b.WriteString(text)
	}
	return newValue(b.String()), used, nil
}

func (s *Store) lookup(name string) (string, error) {
	text, err := s.find(name)
	if err == nil && text == "" {
		err = errors.New("it is empty")
	}
	return text, err
}

// find asks one source after the other. A source that has the name decides.
func (s *Store) find(name string) (string, error) {
	if text, ok := s.cfg.LookupEnv(EnvPrefix + name); ok {
		return text, nil
	}
	if s.cfg.Dir != "" {
		if text, err := readSecret(s.cfg.Dir, name); !errors.Is(err, ErrMissing) {
			return text, err
		}
	}
	if s.sealed != nil {
		if text, ok, err := s.sealed.get(name); ok || err != nil {
			return text, err
		}
	}
	return "", ErrMissing
}
