package postcondition

import (
	"errors"
	"strconv"
	"strings"
)

// step is one part of a path: a member's name, or an item's index.
type step struct {
	name  string
	index int // -1: the step is a name
}

// parsePath reads the part of JSONPath that names one place: $, .name, ['name']
// with either quote, and [n]. In quotes a backslash keeps the next character.
func parsePath(path string) ([]step, error) {
	rest, ok := strings.CutPrefix(strings.TrimSpace(path), "$")
	if !ok {
		return nil, errors.New("must begin with $")
	}
	var steps []step
	for rest != "" {
		var s step
		var err error
		switch {
		case strings.HasPrefix(rest, ".."):
			return nil, errors.New("must not search with '..'")
		case rest[0] == '.':
			s, rest, err = dotted(rest[1:])
		case strings.HasPrefix(rest, "['"), strings.HasPrefix(rest, `["`):
			s, rest, err = quoted(rest[1:])
		case rest[0] == '[':
			s, rest, err = indexed(rest[1:])
		default:
			err = errors.New("must go on with '.' or '['")
		}
		if err != nil {
			return nil, err
		}
		steps = append(steps, s)
	}
	return steps, nil
}

// dotted reads the name after a dot.
func dotted(rest string) (step, string, error) {
	end := strings.IndexAny(rest, ".[")
	if end < 0 {
		end = len(rest)
	}
	name := rest[:end]
	switch {
	case name == "":
		return step{}, "", errors.New("must have a name after '.'")
	case strings.ContainsAny(name, "*?()'\"@,:$]\t\r\n"):
		return step{}, "", errors.New("must put a name with special characters in quotes: ['name']; wildcards and filters are not supported")
	}
	return step{name: name, index: -1}, rest[end:], nil
}

// quoted reads a name in quotes and the bracket after it.
func quoted(rest string) (step, string, error) {
	quote := rest[0]
	var name strings.Builder
	for i := 1; i < len(rest); i++ {
		switch c := rest[i]; {
		case c == '\\' && i+1 < len(rest):
			i++
			name.WriteByte(rest[i])
		case c != quote:
			name.WriteByte(c)
		case i+1 < len(rest) && rest[i+1] == ']':
			return step{name: name.String(), index: -1}, rest[i+2:], nil
		default:
			return step{}, "", errors.New("must close a bracket right after the quoted name")
		}
	}
	return step{}, "", errors.New("must close its quotes")
}

// indexed reads an item's index and the bracket after it.
func indexed(rest string) (step, string, error) {
	text, after, ok := strings.Cut(rest, "]")
	if !ok {
		return step{}, "", errors.New("must close its brackets")
	}
	if text == "" || strings.Trim(text, "0123456789") != "" {
		return step{}, "", errors.New("must have an index, 0 or more, or a quoted name in its brackets; wildcards, slices and filters are not supported")
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return step{}, "", errors.New("has an index that is too large")
	}
	return step{index: n}, after, nil
}

// walk follows a path; ok is false if it leads nowhere.
func walk(v any, steps []step) (found any, ok bool) {
	for _, s := range steps {
		if s.index < 0 {
			m, isObject := v.(map[string]any)
			if !isObject {
				return nil, false
			}
			if v, ok = m[s.name]; !ok {
				return nil, false
			}
			continue
		}
		list, isList := v.([]any)
		if !isList || s.index >= len(list) {
			return nil, false
		}
		v = list[s.index]
	}
	return v, true
}
