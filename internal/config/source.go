package config

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"

	"weir/internal/nearest"
)

// DefaultFile is read when no other is named. It may be absent.
const DefaultFile = "weir.yaml"

// The environment variables that are not made from a key.
const (
	envPrefix = "WEIR_"
	envFile   = "WEIR_CONFIG"      // where the file is
	envToken  = "WEIR_TOKEN"       // the token of the client commands
	envURL    = "WEIR_URL"         // where they send it
	envRelay  = "WEIR_RELAY_TOKEN" // the token of the relay
	envSecret = "WEIR_SECRET_"     // a secret's value, by name
)

const commandLine = "command line"

// Load reads the file at path, the environment (NAME=value, as os.Environ gives it) and the command
// line (key paths, such as log.durability, with their text), each over the one before.
// HTTP_EXECUTOR_BIND_ADDR and HTTP_EXECUTOR_ALLOWED_HOSTS come after the rest of the environment.
//
// An empty path means WEIR_CONFIG, or else DefaultFile if it exists; a file that was named must
// exist. The error is Problems, or a *Problem if the file cannot be read; Config is then of no use. Load reads nothing
// but its arguments, that file and the JSON files that it names, so a reload that fails changes
// nothing.
func Load(path string, environ []string, flags map[string]string) (Config, error) {
	named := cmp.Or(path, Variables(environ)[envFile])
	path = cmp.Or(named, DefaultFile)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) && named == "" {
		return Parse("", nil, environ, flags)
	}
	if err != nil {
		return Config{}, &Problem{Where: path, What: fmt.Sprintf("the file cannot be read: %v; name one that this user may read", reason(err))}
	}
	return Parse(path, data, environ, flags)
}

// reason is an error of a file without its path.
func reason(err error) error {
	if failure, ok := errors.AsType[*fs.PathError](err); ok {
		return failure.Err
	}
	return err
}

// Parse is Load with the text of the file. The name is used in errors; an empty one says that there
// is no file.
func Parse(name string, data []byte, environ []string, flags map[string]string) (Config, error) {
	r := &reader{file: name, given: map[string]origin{"": {where: name}}}
	c := standard[Config]()
	c.source = name
	r.yaml(data, &c)
	r.overrides(Variables(environ), flags, &c)
	unread := r.problems
	r.problems = nil
	r.derive(&c)
	r.check(&c)
	own := slices.DeleteFunc(r.problems, func(p *Problem) bool { return r.follows(p, unread) })
	if all := slices.Concat(unread, own); len(all) > 0 {
		return Config{files: r.files}, all
	}
	c.doubts, c.files = r.doubts, r.files
	return c, nil
}

// follows reports whether a problem may only follow from those of another key: the key was not given, or its
// section was not read whole.
func (r *reader) follows(p *Problem, unread Problems) bool {
	return slices.ContainsFunc(unread, func(first *Problem) bool {
		section := first.Key[:max(strings.LastIndexAny(first.Key, ".["), 0)]
		return first.Key == "" || !r.has(p.Key) || strings.HasPrefix(p.Key, cmp.Or(section, first.Key))
	})
}

// Problem is one mistake in the configuration. It holds no value of a header and no credential.
type Problem struct { //nolint:errname // an operator has problems; RFC 9457 bodies are elsewhere
	Where string `json:"where"`         // file:line, the environment variable, or "command line"
	Key   string `json:"key,omitempty"` // the path of the key, such as policy.allowlist[0].methods
	What  string `json:"problem"`       // the problem and what to do
}

func (p *Problem) Error() string {
	parts := []string{p.Where, p.Key, p.What}
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), ": ")
}

// Problems are all mistakes in the configuration, at least one.
type Problems []*Problem //nolint:errname // as above

func (all Problems) Error() string {
	var lines []string
	for _, p := range all {
		lines = append(lines, p.Error())
	}
	return strings.Join(lines, "\n")
}

// origin is the place where a key was given a value, and the text of a scalar there.
type origin struct{ where, text string }

// reader gathers what the sources say, and the mistakes in it.
type reader struct {
	file     string
	given    map[string]origin
	files    []string // that keys name
	problems Problems
	doubts   []*Problem
}

// has reports whether a key was given.
func (r *reader) has(path string) bool { _, ok := r.given[path]; return ok }

// at notes a problem at a known place.
func (r *reader) at(where, key, format string, args ...any) {
	r.problems = append(r.problems, &Problem{Where: where, Key: key, What: fmt.Sprintf(format, args...)})
}

// wrong notes a problem with a key.
func (r *reader) wrong(key, format string, args ...any) { r.at(r.place(key), key, format, args...) }

// place is the place of a key, or else of the nearest key around it.
func (r *reader) place(key string) string {
	for !r.has(key) {
		key = key[:max(strings.LastIndexAny(key, ".["), 0)]
	}
	return r.given[key].where
}

// refuse notes a problem with a key if there is one, and reports whether there is.
func (r *reader) refuse(problem bool, key, format string, args ...any) bool {
	if problem {
		r.wrong(key, format, args...)
	}
	return problem
}

// warn notes what looks like a mistake and can still be meant.
func (r *reader) warn(doubt bool, key, format string, args ...any) {
	if doubt {
		r.doubts = append(r.doubts, &Problem{Where: r.place(key), Key: key, What: fmt.Sprintf(format, args...)})
	}
}

// overrides reads the environment over c, and then the command line, by the path of each key. A
// variable that is set and empty counts as not set, except for a list, where it means the empty one.
func (r *reader) overrides(vars, flags map[string]string, c *Config) {
	known, paths := []string{envFile, envToken, envURL, envRelay}, []string{}
	for _, f := range settings(c) {
		own := envPrefix + strings.ToUpper(strings.ReplaceAll(f.path, ".", "_"))
		for name := range strings.SplitSeq(cmp.Or(f.tag.Get("env"), own), ",") {
			known = append(known, name)
			if text, ok := vars[name]; ok && (text != "" || f.value.Kind() == reflect.Slice) {
				r.set(f, name, text)
			}
		}
		if text, ok := flags[f.path]; ok {
			r.set(f, commandLine, text)
		}
		paths = append(paths, f.path)
	}
	for _, name := range slices.Sorted(maps.Keys(vars)) {
		if strings.HasPrefix(name, envPrefix) && !slices.Contains(known, name) && !strings.HasPrefix(name, envSecret) {
			r.doubts = append(r.doubts, &Problem{Where: name, What: name + " is set and is not a setting of Weir" + nearest.Hint(name, known)})
		}
	}
	for _, path := range slices.Sorted(maps.Keys(flags)) {
		if !slices.Contains(paths, path) {
			r.at(commandLine, join("", path), "unknown key; %s", advice(path, paths))
		}
	}
}

// set fills a setting. The text is not repeated: it may be a credential.
func (r *reader) set(f field, where, text string) {
	text = strings.TrimSpace(text)
	r.given[f.path] = origin{where, text}
	if f.value.Kind() == reflect.Slice {
		words := []string{}
		for word := range strings.SplitSeq(text, ",") {
			if word = strings.TrimSpace(word); word != "" {
				words = append(words, word)
			}
		}
		f.value.Set(reflect.ValueOf(words))
	} else if !setText(f.value, text) {
		r.at(where, f.path, "cannot be read; %s", form(f.value.Type()))
	}
}

// Variables reads NAME=value pairs; of a repeated name the last counts, as in a process.
func Variables(environ []string) map[string]string {
	vars := make(map[string]string, len(environ))
	for _, pair := range environ {
		if name, value, ok := strings.Cut(pair, "="); ok {
			vars[name] = value
		}
	}
	return vars
}

// advice names the key that was probably meant, or those there are.
func advice(key string, names []string) string {
	if best := nearest.Name(strings.ReplaceAll(strings.ToLower(key), "-", "_"), names); best != "" {
		return "did you mean " + best + "?"
	}
	here := "the keys here are " + strings.Join(slices.Sorted(slices.Values(names)), ", ")
	if key == "rate" || key == "concurrency" {
		here += "; rate and concurrency are keys of policy.allowlist[].limits, such as {rate: 10/s, concurrency: 4}"
	}
	return here
}
