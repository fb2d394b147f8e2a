package secrets

import (
	"fmt"
	"slices"
	"sync"
)

// redacted is all that any rendering of a Value shows.
const redacted = "[redacted]"

// Value is a secret text. Every way of printing, encoding or logging it gives [redacted]; only
// ExposeSecret gives the text. It is not wiped from memory: Go strings cannot be.
//
// The text is in a closure because fmt does not call methods everywhere: it walks the fields of a
// Value in an unexported field, and of any for %p and misplaced %w. No dumper looks into a
// function.
type Value struct{ text func() string }

func newValue(text string) Value { return Value{text: func() string { return text }} }

// ExposeSecret returns the text itself. It exists for the one place that puts
// it on the wire and the one that scrubs it from answers: anywhere else it
// would end in a log, an error or a record.
func (v Value) ExposeSecret() string {
	if v.text == nil {
		return ""
	}
	return v.text()
}

// Len is the text's length in bytes.
func (v Value) Len() int { return len(v.ExposeSecret()) }

// Format implements fmt.Formatter for every verb and flag.
func (Value) Format(s fmt.State, _ rune) { _, _ = s.Write([]byte(redacted)) }

// MarshalText implements encoding.TextMarshaler, which JSON, map keys, YAML and slog use.
func (Value) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// maxFormer is how many former values of a secret are remembered.
const maxFormer = 3

// former remembers the returned values by name, the newest first. A target may still return a value
// that it learned before a rotation: in the answer to a retry, after a redirect, on any later call.
type former struct {
	mu     sync.Mutex
	values map[string][]Value
}

// use notes that a name's value is given out, and returns it with the former ones.
func (f *former) use(name, text string) []Value {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.values == nil {
		f.values = map[string][]Value{}
	}
	list := slices.DeleteFunc(slices.Clone(f.values[name]), func(v Value) bool { return v.ExposeSecret() == text })
	list = append([]Value{newValue(text)}, list[:min(len(list), maxFormer)]...)
	f.values[name] = list
	return list
}
