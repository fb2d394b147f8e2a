package memlog

import (
	"slices"
	"strings"

	"weir/schemas"
)

// Match reports whether a subject is covered by a filter: '*' stands for one
// token, a last '>' for one or more.
func Match(filter, subject string) bool {
	for {
		f, frest, fmore := strings.Cut(filter, ".")
		s, srest, smore := strings.Cut(subject, ".")
		if f == ">" && !fmore {
			return s != ""
		}
		if f != s && (f != "*" || s == "") {
			return false
		}
		if !fmore || !smore {
			return fmore == smore
		}
		filter, subject = frest, srest
	}
}

// keyToken is the place of the action's id in a log subject.
const keyToken = 6

// keyOf is the id token of a log subject or filter, or "" where it has none
// or the token is a wildcard.
func keyOf(subject string) string {
	if !strings.HasPrefix(subject, schemas.LogRoot+".") {
		return ""
	}
	for range keyToken {
		_, rest, more := strings.Cut(subject, ".")
		if !more {
			return ""
		}
		subject = rest
	}
	key, _, _ := strings.Cut(subject, ".")
	if key == "*" || key == ">" {
		return ""
	}
	return key
}

// newest is the last record that filter covers.
func (s *stream) newest(filter string) (schemas.Record, bool) {
	if key := keyOf(filter); key != "" {
		for _, i := range slices.Backward(s.byKey[key]) {
			if r := s.records[i]; r.Seq >= s.first && Match(filter, r.Subject) {
				return r, true
			}
		}
		return schemas.Record{}, false
	}
	for _, r := range slices.Backward(s.records) {
		if r.Seq >= s.first && Match(filter, r.Subject) {
			return r, true
		}
	}
	return schemas.Record{}, false
}

// each gives the records that filter covers, oldest first, until f says no.
func (s *stream) each(filter string, f func(schemas.Record) bool) {
	if key := keyOf(filter); key != "" {
		for _, i := range s.byKey[key] {
			if r := s.records[i]; r.Seq >= s.first && Match(filter, r.Subject) && !f(r) {
				return
			}
		}
		return
	}
	for _, r := range s.records {
		if r.Seq >= s.first && Match(filter, r.Subject) && !f(r) {
			return
		}
	}
}
