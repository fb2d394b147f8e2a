package config

import (
	"errors"
	"fmt"
	"strings"
)

// Problem is one thing that is wrong with the configuration. It holds no value
// of a header and no credential.
type Problem struct { //nolint:errname // an operator has problems; RFC 9457 bodies are elsewhere
	Where string // file:line, the environment variable, or "command line"
	Key   string // the path of the key, such as policy.allowlist[0].methods
	What  string // what is wrong; what to do
}

func (p *Problem) Error() string {
	parts := make([]string, 0, 3)
	for _, s := range []string{p.Where, p.Key, p.What} {
		if s != "" {
			parts = append(parts, s)
		}
	}
	return strings.Join(parts, ": ")
}

// origins says who gave a key its value, by the key's path.
type origins map[string]string

func (o origins) has(path string) bool { _, ok := o[path]; return ok }

// of is the origin of a key, or of the nearest key around it that was given.
func (o origins) of(path string) string {
	for path != "" {
		if where, ok := o[path]; ok {
			return where
		}
		i := strings.LastIndexAny(path, ".[")
		if i < 0 {
			break
		}
		path = path[:i]
	}
	return o[""]
}

// reader gathers what the sources say, and what is wrong with it.
type reader struct {
	file     string
	given    origins
	problems []error
}

func newReader(file string) *reader {
	return &reader{file: file, given: origins{"": file}}
}

// at notes a problem at a known place.
func (r *reader) at(where, key, format string, args ...any) {
	r.problems = append(r.problems, &Problem{Where: where, Key: key, What: fmt.Sprintf(format, args...)})
}

// wrong notes a problem with a key, at the place where it was given.
func (r *reader) wrong(key, format string, args ...any) {
	r.at(r.given.of(key), key, format, args...)
}

func (r *reader) err() error { return errors.Join(r.problems...) }
