package postcondition

import (
	"errors"
	"regexp"
	"strconv"
	"strings"
)

var (
	dotted  = regexp.MustCompile(`^\.([^.\[]+)`)
	quoted  = regexp.MustCompile(`(?s)^\[(?:'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)")(\]?)`)
	indexed = regexp.MustCompile(`^\[([0-9]+)\]`)
	escaped = regexp.MustCompile(`(?s)\\(.)`)
)

// parsePath reads the part of JSONPath that names one place: $, .name, ['name']
// with either quote, and [n]. In quotes a backslash keeps the next character. A
// step is the string of a name, or the int of an index.
func parsePath(path string) ([]any, error) {
	rest, ok := strings.CutPrefix(strings.TrimSpace(path), "$")
	if !ok {
		return nil, errors.New("must begin with $")
	}
	var steps []any
	for rest != "" {
		step, length, err := parseStep(rest)
		if err != nil {
			return nil, err
		}
		steps, rest = append(steps, step), rest[length:]
	}
	return steps, nil
}

func parseStep(rest string) (step any, length int, err error) {
	if m := dotted.FindStringSubmatch(rest); m != nil {
		if strings.ContainsAny(m[1], "*?()'\"@,:$]\t\r\n") {
			err = errors.New("must put a name with special characters in quotes: ['name']; wildcards and filters are not supported")
		}
		return m[1], len(m[0]), err
	}
	if m := quoted.FindStringSubmatch(rest); m != nil {
		if m[3] == "" {
			err = errors.New("must close a bracket right after the quoted name")
		}
		return escaped.ReplaceAllString(m[1]+m[2], "$1"), len(m[0]), err
	}
	if m := indexed.FindStringSubmatch(rest); m != nil {
		n, err := strconv.Atoi(m[1])
		if err != nil {
			err = errors.New("has an index that is too large")
		}
		return n, len(m[0]), err
	}
	reason := "must have an index, 0 or more, or a quoted name in its brackets; wildcards, slices and filters are not supported"
	switch {
	case strings.HasPrefix(rest, ".."):
		reason = "must not search with '..'"
	case rest[0] == '.':
		reason = "must have a name after '.'"
	case strings.HasPrefix(rest, "['"), strings.HasPrefix(rest, `["`):
		reason = "must close its quotes"
	case rest[0] != '[':
		reason = "must go on with '.' or '['"
	case !strings.Contains(rest, "]"):
		reason = "must close its brackets"
	}
	return nil, 0, errors.New(reason)
}

// walk follows a path; ok is false if it leads nowhere.
func walk(v any, steps []any) (found any, ok bool) {
	for _, s := range steps {
		switch s := s.(type) {
		case string:
			m, _ := v.(map[string]any)
			v, ok = m[s]
		case int:
			list, _ := v.([]any)
			if ok = s < len(list); ok {
				v = list[s]
			}
		}
		if !ok {
			return nil, false
		}
	}
	return v, true
}
