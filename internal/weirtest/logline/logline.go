// Package logline checks lines of the log. A search for known secrets finds those alone, and
// this finds all others.
package logline

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"weir/internal/telemetry"
)

// Checker returns a check of lines in the format json, for one goroutine. It reports whether a
// line is one that the logger of a node without agents can have written: logged once more, it
// is the same. The error holds nothing that the logger would leave out.
func Checker() func(line []byte) error {
	var again bytes.Buffer
	logger := telemetry.NewMetrics().NewLogger(&again, "debug", telemetry.FormatJSON).Handler()
	return func(line []byte) error {
		again.Reset()
		r, err := read(line)
		if err == nil {
			err = logger.Handle(context.Background(), r)
		}
		if want := bytes.TrimSpace(again.Bytes()); err != nil || r.Time.IsZero() || !bytes.Equal(want, line) {
			return fmt.Errorf("a line of the log is not as the logger writes it: %s", want)
		}
		return nil
	}
}

// read is what was logged with a line, as far as it is an object.
func read(line []byte) (r slog.Record, err error) {
	dec := jsontext.NewDecoder(bytes.NewReader(line))
	start, err := dec.ReadToken()
	for more := err == nil && start.Kind() == '{'; more; more = dec.PeekKind() == '"' {
		key, err := dec.ReadToken()
		if err != nil {
			return r, err
		}
		name := key.String()
		value, err := dec.ReadToken()
		if err != nil {
			return r, err
		}
		switch s := value.String(); name {
		case slog.TimeKey:
			r.Time, _ = time.Parse(time.RFC3339Nano, s) // another time is written otherwise
		case slog.LevelKey:
			_ = r.Level.UnmarshalText([]byte(s)) // as above
		case slog.MessageKey:
			r.Message = s
		default:
			r.AddAttrs(slog.Attr{Key: name, Value: logged(value)})
		}
	}
	return r, err
}

// logged is a value that is written as one of JSON.
func logged(value jsontext.Token) slog.Value {
	s := value.String()
	if value.Kind() != '0' {
		return slog.StringValue(s)
	}
	if i, err := strconv.ParseInt(s, 10, 64); err == nil {
		return slog.Int64Value(i)
	}
	if u, err := strconv.ParseUint(s, 10, 64); err == nil {
		return slog.Uint64Value(u)
	}
	f, _ := strconv.ParseFloat(s, 64) // one that is out of range is written otherwise
	return slog.Float64Value(f)
}
