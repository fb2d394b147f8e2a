package config

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"unicode/utf8"
)

// DefaultFile is read when no other is named. It may be absent.
const DefaultFile = "weir.yaml"

// Load reads the file at path, the environment (NAME=value, as os.Environ gives
// it) and what the command line set (key paths, such as log.durability, with
// their text), each over the one before. HTTP_EXECUTOR_BIND_ADDR and
// HTTP_EXECUTOR_ALLOWED_HOSTS lie between the environment and the command line.
//
// An empty path means WEIR_CONFIG, or else DefaultFile if it exists; a file
// that was named must exist. The error joins a *Problem for everything that is
// wrong; Config is then of no use. Load looks at nothing but its arguments and
// that file, so a reload that fails changes nothing.
func Load(path string, environ []string, flags map[string]string) (Config, error) {
	named := path != ""
	if !named {
		if path = lookup(environ)[envFile]; path != "" {
			named = true
		} else {
			path = DefaultFile
		}
	}
	data, err := os.ReadFile(path)
	switch {
	case err == nil:
		return Parse(path, data, environ, flags)
	case errors.Is(err, fs.ErrNotExist) && !named:
		return Parse("", nil, environ, flags)
	case errors.Is(err, fs.ErrNotExist):
		return Config{}, &Problem{Where: path, What: "the file does not exist; create it or name another"}
	case errors.Is(err, fs.ErrPermission):
		return Config{}, &Problem{Where: path, What: "the file may not be read by this user; change its mode or owner"}
	default:
		return Config{}, &Problem{Where: path, What: "the file cannot be read; is it a directory?"}
	}
}

// Parse is Load with the file's text in hand. The name is used in errors; an
// empty one says that there is no file.
func Parse(name string, data []byte, environ []string, flags map[string]string) (Config, error) {
	r := newReader(name)
	c := Defaults()
	c.source = name
	if !utf8.Valid(data) || bytes.IndexByte(data, 0) >= 0 {
		r.at(name, "", "the file is not UTF-8 text")
	} else {
		r.yaml(data, &c)
	}
	r.environment(environ, &c)
	r.flags(flags, &c)
	if err := r.err(); err != nil {
		return Config{}, err // checks on half a configuration would only confuse
	}
	derive(&c, r.given)
	r.check(&c)
	if err := r.err(); err != nil {
		return Config{}, err
	}
	return c, nil
}
