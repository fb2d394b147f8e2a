// Package placeholder is the grammar of ${secret:NAME} in what entries add to
// calls: who accepts such a text and who fills it read it alike.
package placeholder

import (
	"errors"
	"regexp"
	"strings"
)

const opening = "${secret:"

// NamePattern says for people what ValidName checks. A name becomes a variable's and a file's.
const NamePattern = "[A-Z0-9_]{1,128}"

var (
	secret = regexp.MustCompile(`\$\{secret:(` + NamePattern + `)\}`)
	name   = regexp.MustCompile(`^` + NamePattern + `$`)
)

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
func Parse(text string) (pieces []Piece, err error) {
	literal := func(from, to int) {
		if i := strings.Index(text[from:to], opening); i >= 0 && err == nil {
			if err = errName; !strings.Contains(text[from+i:], "}") {
				err = errOpen
			}
		}
		if from < to {
			pieces = append(pieces, Piece{Literal: text[from:to]})
		}
	}
	at := 0
	for _, m := range secret.FindAllStringSubmatchIndex(text, -1) {
		literal(at, m[0])
		pieces = append(pieces, Piece{Name: text[m[2]:m[3]]})
		at = m[1]
	}
	if literal(at, len(text)); err != nil {
		return nil, err
	}
	return pieces, nil
}

// Strict reports whether every ${ in a text begins a placeholder, and a good one.
// A misspelt one would go out as it stands.
func Strict(text string) bool {
	return !strings.Contains(secret.ReplaceAllString(text, " "), "${")
}

// ValidName reports whether a secret may be called so.
func ValidName(s string) bool { return name.MatchString(s) }
