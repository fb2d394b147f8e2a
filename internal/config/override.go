package config

import (
	"maps"
	"reflect"
	"slices"
	"strings"
)

// The environment variables that are not made from a key.
const (
	envFile         = "WEIR_CONFIG"      // where the file is
	envToken        = "WEIR_TOKEN"       // what the client commands send
	envURL          = "WEIR_URL"         // where they send it
	envRelay        = "WEIR_RELAY_TOKEN" // what the relay is told
	envSecret       = "WEIR_SECRET_"     // a secret's value, by name
	envBindAddr     = "HTTP_EXECUTOR_BIND_ADDR"
	envAllowedHosts = "HTTP_EXECUTOR_ALLOWED_HOSTS"
	envPrefix       = "WEIR_"
)

// setting is a key that one word, number or comma-separated list can fill.
type setting struct {
	path  string
	env   string
	value reflect.Value
}

// settings lists those of c, in the order of the struct.
func settings(c *Config) []setting {
	var all []setting
	var walk func(path string, v reflect.Value)
	walk = func(path string, v reflect.Value) {
		for i := range v.NumField() {
			f := v.Type().Field(i)
			key := keyOf(f)
			if key == "" {
				continue
			}
			inner, field := join(path, key), v.Field(i)
			switch {
			case isScalar(f.Type), f.Type == reflect.TypeFor[[]string]():
				all = append(all, setting{inner, envName(f, inner), field})
			case f.Type.Kind() == reflect.Struct:
				walk(inner, field)
			}
		}
	}
	walk("", reflect.ValueOf(c).Elem())
	return all
}

func envName(f reflect.StructField, path string) string {
	if name := f.Tag.Get("env"); name != "" {
		return name
	}
	return envPrefix + strings.ToUpper(strings.ReplaceAll(path, ".", "_"))
}

// environment reads the variables over c. A variable that is set and empty
// counts as not set, except for a list, where it means the empty one.
func (r *reader) environment(environ []string, c *Config) {
	vars := lookup(environ)
	known := map[string]bool{envFile: true, envToken: true, envURL: true, envRelay: true}
	for _, s := range settings(c) {
		known[s.env] = true
		r.override(s, s.env, vars)
		switch s.path {
		case "listen":
			r.override(s, envBindAddr, vars)
		case "policy.allowed_hosts":
			r.override(s, envAllowedHosts, vars)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(vars)) {
		if strings.HasPrefix(name, envPrefix) && !known[name] && !strings.HasPrefix(name, envSecret) {
			c.warnings = append(c.warnings, warning(name, known))
		}
	}
}

func (r *reader) override(s setting, name string, vars map[string]string) {
	text, ok := vars[name]
	if !ok || text == "" && s.value.Kind() != reflect.Slice {
		return
	}
	r.set(s, name, text)
}

// flags reads what the command line said over c, by the path of each key.
func (r *reader) flags(values map[string]string, c *Config) {
	byPath := map[string]setting{}
	for _, s := range settings(c) {
		byPath[s.path] = s
	}
	for _, path := range slices.Sorted(maps.Keys(values)) {
		s, ok := byPath[path]
		if !ok {
			r.at(commandLine, join("", path), "unknown key; %s", advice(path, slices.Collect(maps.Keys(byPath))))
			continue
		}
		r.set(s, commandLine, values[path])
	}
}

const commandLine = "command line"

// set fills a setting. The text is never repeated: it may be a credential.
func (r *reader) set(s setting, where, text string) {
	r.given[s.path] = where
	if s.value.Kind() == reflect.Slice {
		items := []string{}
		for item := range strings.SplitSeq(text, ",") {
			if item = strings.TrimSpace(item); item != "" {
				items = append(items, item)
			}
		}
		s.value.Set(reflect.ValueOf(items))
		return
	}
	if err := setText(s.value, strings.TrimSpace(text)); err != nil {
		r.at(where, s.path, "%s", err)
	}
}

// lookup reads NAME=value pairs; of a repeated name the last counts, as in a
// process's own environment.
func lookup(environ []string) map[string]string {
	vars := make(map[string]string, len(environ))
	for _, pair := range environ {
		if name, value, ok := strings.Cut(pair, "="); ok {
			vars[name] = value
		}
	}
	return vars
}

func warning(name string, known map[string]bool) string {
	text := name + " is set and is not a setting of Weir"
	if best := nearest(name, slices.Sorted(maps.Keys(known))); best != "" {
		text += "; did you mean " + best + "?"
	}
	return text
}
