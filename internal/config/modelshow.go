package config

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"reflect"
	"slices"
)

// redacted hides what the headers hold.
func (m Model) redacted() Model {
	m.Headers, m.Upstreams = hidden(m.Headers), slices.Clone(m.Upstreams)
	for i, u := range m.Upstreams {
		m.Upstreams[i] = u.redacted()
	}
	return m
}

func (u Upstream) redacted() Upstream {
	u.Headers = hidden(u.Headers)
	return u
}

func redactedModels(models map[string]Model) map[string]Model {
	shown := maps.Clone(models)
	for name, m := range shown {
		shown[name] = m.redacted()
	}
	return shown
}

// Format implements fmt.Formatter: a model holds header values.
func (m Model) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "model") }

// MarshalJSON writes the model without its header values.
func (m Model) MarshalJSON() ([]byte, error) {
	return json.Marshal(unordered(tree(reflect.ValueOf(m.redacted()))))
}

// LogValue keeps a model out of the log.
func (m Model) LogValue() slog.Value { return slog.StringValue("model") }

// Format implements fmt.Formatter: an upstream holds header values.
func (u Upstream) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "upstream") }

// MarshalJSON writes the upstream without its header values.
func (u Upstream) MarshalJSON() ([]byte, error) {
	return json.Marshal(unordered(tree(reflect.ValueOf(u.redacted()))))
}

// LogValue keeps an upstream out of the log.
func (u Upstream) LogValue() slog.Value { return slog.StringValue("upstream") }
