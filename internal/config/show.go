package config

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml"

	"weir/internal/policy/placeholder"
)

// What stands for a value that must not be shown.
const (
	shownSet   = "set"
	shownUnset = "unset"
)

// Redacted is a copy whose header values and credentials read "set" or "unset";
// an agent's token that only names secrets stays, and one that is not there too.
// It is for people; it is not the configuration any more.
func (c Config) Redacted() Config {
	c.NATS.Creds = shown(c.NATS.Creds)
	c.Policy, c.Agents = c.Policy.redacted(), redactedAgents(c.Agents)
	c.Models = redactedModels(c.Models)
	return c
}

// String is the configuration in force as YAML, redacted.
func (c Config) String() string {
	text, err := yaml.Marshal(tree(reflect.ValueOf(c.Redacted())))
	if err != nil {
		return "config: not printable"
	}
	return string(text)
}

// GoString is String: %#v shows no more than %v.
func (c Config) GoString() string { return c.String() }

// Format implements fmt.Formatter, for every verb and flag.
func (c Config) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, c.String()) }

// MarshalJSON writes the redacted configuration.
func (c Config) MarshalJSON() ([]byte, error) {
	return json.Marshal(unordered(tree(reflect.ValueOf(c.Redacted()))))
}

// LogValue keeps a configuration out of the log.
func (c Config) LogValue() slog.Value { return slog.StringValue("config") }

func (p Policy) redacted() Policy {
	p.Allowlist = append(p.Allowlist[:0:0], p.Allowlist...)
	for i := range p.Allowlist {
		e := &p.Allowlist[i]
		for _, added := range []*map[string]string{&e.Headers, &e.Query, &e.Body} {
			*added = hidden(*added)
		}
	}
	return p
}

func hidden(values map[string]string) map[string]string {
	values = maps.Clone(values)
	for name, value := range values {
		values[name] = shown(value)
	}
	return values
}

// Format implements fmt.Formatter: a policy holds header values.
func (p Policy) Format(f fmt.State, _ rune) {
	_, _ = fmt.Fprintf(f, "policy of %d entries", len(p.Allowlist))
}

// MarshalJSON writes the redacted policy.
func (p Policy) MarshalJSON() ([]byte, error) {
	return json.Marshal(unordered(tree(reflect.ValueOf(p.redacted()))))
}

// LogValue keeps a policy out of the log.
func (p Policy) LogValue() slog.Value { return slog.StringValue("policy") }

// redacted hides a token, and leaves one that only names a secret.
func (a Agent) redacted() Agent {
	pieces, err := placeholder.Parse(a.Token)
	if a.Token != "" && (err != nil || slices.ContainsFunc(pieces, func(p placeholder.Piece) bool { return p.Literal != "" })) {
		a.Token = shownSet
	}
	return a
}

func redactedAgents(agents map[string]Agent) map[string]Agent {
	shown := maps.Clone(agents)
	for taskType, a := range shown {
		shown[taskType] = a.redacted()
	}
	return shown
}

// Format implements fmt.Formatter: an agent holds a token.
func (a Agent) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "agent") }

// MarshalJSON writes the agent without its token.
func (a Agent) MarshalJSON() ([]byte, error) {
	return json.Marshal(unordered(tree(reflect.ValueOf(a.redacted()))))
}

// LogValue keeps an agent out of the log.
func (a Agent) LogValue() slog.Value { return slog.StringValue("agent") }

// tree is v as the file would have it: keys by their yaml tags, in the order of
// the struct, durations and sizes with their units. Keys that may be left out
// are, when they are empty.
func tree(v reflect.Value) any {
	switch d := v.Interface().(type) {
	case time.Duration:
		return duration(d).String()
	case Size:
		return d.String()
	case USD:
		return d.String()
	}
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return nil
		}
		return tree(v.Elem())
	case reflect.Struct:
		doc := yaml.MapSlice{}
		for i := range v.NumField() {
			f := v.Type().Field(i)
			key := keyOf(f)
			if key == "" || strings.HasSuffix(f.Tag.Get("yaml"), ",omitempty") && v.Field(i).IsZero() {
				continue
			}
			doc = append(doc, yaml.MapItem{Key: key, Value: tree(v.Field(i))})
		}
		return doc
	case reflect.Slice:
		list := make([]any, v.Len())
		for i := range list {
			list[i] = tree(v.Index(i))
		}
		return list
	case reflect.Map:
		doc := yaml.MapSlice{}
		for _, key := range slices.SortedFunc(slices.Values(v.MapKeys()), func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) }) {
			doc = append(doc, yaml.MapItem{Key: key.String(), Value: tree(v.MapIndex(key))})
		}
		return doc
	default:
		return v.Interface()
	}
}

// unordered turns the mappings of a tree into what JSON takes.
func unordered(node any) any {
	switch n := node.(type) {
	case yaml.MapSlice:
		m := make(map[string]any, len(n))
		for _, item := range n {
			m[fmt.Sprint(item.Key)] = unordered(item.Value)
		}
		return m
	case []any:
		for i := range n {
			n[i] = unordered(n[i])
		}
	}
	return node
}

func shown(value string) string {
	if value == "" {
		return shownUnset
	}
	return shownSet
}
