package telemetry

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"strings"
	"time"
)

// LineError says what a line of the log has that none may have. It names the
// key and never the value, which may be what should not have been logged.
type LineError struct {
	Key  string // empty: the line as a whole
	What string
}

func (e *LineError) Error() string {
	if e.Key == "" {
		return "log line: " + e.What
	}
	return fmt.Sprintf("log line: key %q: %s", e.Key, e.What)
}

// CheckLine reports whether a line of the log in the format json is one that a
// logger of NewLogger can have written: one object with time, level, msg and
// keys of the closed set, each once, and each with a value that it allows. It is
// for tests and for whoever reads logs: what finds leaks by looking for them
// finds those that somebody thought of, and this finds the others.
func CheckLine(line []byte) error {
	dec := json.NewDecoder(strings.NewReader(string(line)))
	dec.UseNumber()
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return &LineError{What: "is not a JSON object"}
	}
	words, seen := newVocabulary(), map[string]bool{}
	for dec.More() {
		key, err := dec.Token()
		name, ok := key.(string)
		if err != nil || !ok {
			return &LineError{What: "is not valid JSON"}
		}
		if seen[name] {
			return &LineError{name, "stands twice"}
		}
		seen[name] = true
		value, err := dec.Token()
		if err != nil {
			return &LineError{What: "is not valid JSON"}
		}
		if !words.printed(name, value) {
			return &LineError{name, "is not a key of the log, or has a value that it does not allow"}
		}
	}
	_, closed := dec.Token()
	if _, err := dec.Token(); closed != nil || !errors.Is(err, io.EOF) {
		return &LineError{What: "is not one JSON object"}
	}
	for _, name := range []string{slog.TimeKey, slog.LevelKey, slog.MessageKey} {
		if !seen[name] {
			return &LineError{name, "is missing"}
		}
	}
	return nil
}

// printed reports whether a key can have been printed with a value.
func (v *vocabulary) printed(key string, value json.Token) bool {
	switch value := value.(type) {
	case string:
		switch key {
		case slog.TimeKey:
			_, err := time.Parse(time.RFC3339Nano, value)
			return err == nil
		case slog.LevelKey:
			_, ok := ParseLevel(strings.ToLower(value))
			return ok && value == strings.ToUpper(value)
		case slog.MessageKey:
			return constantLike(value)
		}
		if key == "duration_ms" {
			return false
		}
		_, ok := v.check(key, slog.StringValue(value))
		return ok
	case json.Number:
		_, ok := v.check(key, number(value))
		return ok
	default:
		return false // no key has an object, a list, a boolean or null
	}
}

// number is a printed number as it was logged: a whole one, or a part.
func number(n json.Number) slog.Value {
	if i, err := n.Int64(); err == nil {
		return slog.Int64Value(i)
	}
	f, err := n.Float64()
	if err != nil || f >= math.MaxInt64 && f == math.Trunc(f) {
		var u uint64
		if json.Unmarshal([]byte(n), &u) == nil {
			return slog.Uint64Value(u)
		}
		return slog.StringValue("")
	}
	return slog.Float64Value(f)
}
