package telemetry

import (
	"fmt"
	"io"
	"log/slog"
)

// redacted is what a Sensitive value prints as.
const redacted = "[redacted]"

// Sensitive holds a value that no printer may show: every way that fmt, slog
// and the encoders have of turning a value into text gives "[redacted]". The
// value sits behind a function, because fmt reads the unexported fields of an
// enclosing struct without asking for a Stringer. The zero value holds the
// zero T.
type Sensitive[T any] struct{ reveal func() T }

// Hide wraps a value.
func Hide[T any](value T) Sensitive[T] {
	return Sensitive[T]{reveal: func() T { return value }}
}

// Reveal gives the value back, for the one place that puts it on the wire.
func (s Sensitive[T]) Reveal() T {
	if s.reveal == nil {
		var zero T
		return zero
	}
	return s.reveal()
}

// String implements fmt.Stringer.
func (Sensitive[T]) String() string { return redacted }

// GoString implements fmt.GoStringer.
func (Sensitive[T]) GoString() string { return redacted }

// Format implements fmt.Formatter, for every verb and flag.
func (Sensitive[T]) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, redacted) }

// MarshalJSON implements json.Marshaler.
func (Sensitive[T]) MarshalJSON() ([]byte, error) { return []byte(`"` + redacted + `"`), nil }

// MarshalText implements encoding.TextMarshaler.
func (Sensitive[T]) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// MarshalBinary implements encoding.BinaryMarshaler.
func (Sensitive[T]) MarshalBinary() ([]byte, error) { return []byte(redacted), nil }

// MarshalYAML implements the YAML encoder's interface.
func (Sensitive[T]) MarshalYAML() (any, error) { return redacted, nil }

// LogValue implements slog.LogValuer.
func (Sensitive[T]) LogValue() slog.Value { return slog.StringValue(redacted) }
