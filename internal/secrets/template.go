package secrets

import (
	"fmt"
	"strings"
)

const (
	opening = "${secret:"
	closing = "}"
)

// piece is a stretch of a template: literal text, or the name of a secret.
type piece struct {
	literal string
	name    string
}

// parse cuts a template at its placeholders. An opening that is not closed or
// that holds something other than a name is an error; every other text,
// "${HOME}" and lone braces too, stands for itself.
func parse(template string) ([]piece, error) {
	var pieces []piece
	for rest := template; rest != ""; {
		before, after, found := strings.Cut(rest, opening)
		if before != "" {
			pieces = append(pieces, piece{literal: before})
		}
		if !found {
			break
		}
		name, tail, closed := strings.Cut(after, closing)
		if !closed {
			return nil, fmt.Errorf("a placeholder is not closed: %s…", opening)
		}
		if !validName(name) {
			return nil, fmt.Errorf("a placeholder's name must match [A-Z0-9_]{1,%d}", maxName)
		}
		pieces = append(pieces, piece{name: name})
		rest = tail
	}
	return pieces, nil
}

// maxName bounds a name; it becomes a variable's and a file's.
const maxName = 128

func validName(s string) bool {
	if s == "" || len(s) > maxName {
		return false
	}
	for i := range len(s) {
		if c := s[i]; (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '_' {
			return false
		}
	}
	return true
}
