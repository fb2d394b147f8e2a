// Package placeholder is the grammar of ${secret:NAME} in what entries add to
// calls: who accepts such a text and who fills it read it alike.
package placeholder

import (
	"errors"
	"strings"
)

const (
	opening = "${secret:"
	closing = "}"
	maxName = 128 // bytes; a name becomes a variable's and a file's
)

// NamePattern says for people what ValidName checks.
const NamePattern = "[A-Z0-9_]{1,128}"

// Neither error shows the text: it may hold a credential.
var (
	errOpen = errors.New("a placeholder is not closed: " + opening + "…")
	errName = errors.New("a placeholder's name must match " + NamePattern)
)

// Piece is a stretch of a text: literal, or the name of a secret. One of the two
// is empty.
type Piece struct{ Literal, Name string }

// Parse cuts a text at its placeholders. An opening that is not closed or that
// holds something other than a name is an error; every other text, "${HOME}" and
// lone braces too, stands for itself.
func Parse(text string) ([]Piece, error) {
	var pieces []Piece
	for rest := text; rest != ""; {
		before, after, found := strings.Cut(rest, opening)
		if before != "" {
			pieces = append(pieces, Piece{Literal: before})
		}
		if !found {
			break
		}
		name, tail, closed := strings.Cut(after, closing)
		if !closed {
			return nil, errOpen
		}
		if !ValidName(name) {
			return nil, errName
		}
		pieces = append(pieces, Piece{Name: name})
		rest = tail
	}
	return pieces, nil
}

// Strict reports whether every ${ in a text begins a placeholder, and a good one.
// A misspelt one would go out as it stands.
func Strict(text string) bool {
	pieces, err := Parse(text)
	if err != nil {
		return false
	}
	for _, p := range pieces {
		if strings.Contains(p.Literal, "${") {
			return false
		}
	}
	return true
}

// ValidName reports whether a secret may be called so.
func ValidName(s string) bool {
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
