package telemetry

import (
	"context"
	"io"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// The formats of the log.
const (
	FormatJSON = "json"
	FormatText = "text"
)

// redactedMessage stands for a message that does not look like a constant.
const redactedMessage = "redacted message"

// NewLogger returns a logger that can print identifiers, codes, counts and
// durations and nothing else: an attribute whose key is outside the closed set,
// or whose value its key does not allow, is left out; a message that is not a
// short constant-like text is replaced. Groups are left out whole, and so is
// all that follows WithGroup. Of a repeated key the last value counts. What is
// left out or replaced is counted in weir_log_dropped_attributes_total and
// weir_log_redacted_messages_total.
//
// Level is debug, info, warn or error, format is json or text; anything else is
// info and json.
func (m *Metrics) NewLogger(w io.Writer, level, format string) *slog.Logger {
	h := newHandler(w, level, format, m.logDropped, m.logRedacted)
	h.words.tasks = m.agent.tasks
	return slog.New(h)
}

// ParseLevel reads the name of a level.
func ParseLevel(name string) (slog.Level, bool) {
	switch name {
	case "debug":
		return slog.LevelDebug, true
	case "info":
		return slog.LevelInfo, true
	case "warn":
		return slog.LevelWarn, true
	case "error":
		return slog.LevelError, true
	default:
		return slog.LevelInfo, false
	}
}

// handler filters records on their way to one of slog's own handlers.
type handler struct {
	next  slog.Handler
	words *vocabulary
	// attrs are those of With, already checked, one a key.
	attrs []slog.Attr
	// grouped says that WithGroup was called: what comes later has no key of
	// the closed set.
	grouped bool

	dropped, redacted prometheus.Counter
}

func newHandler(w io.Writer, level, format string, dropped, redacted prometheus.Counter) *handler {
	least, _ := ParseLevel(level)
	opts := &slog.HandlerOptions{Level: least}
	var next slog.Handler = slog.NewJSONHandler(w, opts)
	if format == FormatText {
		next = slog.NewTextHandler(w, opts)
	}
	return &handler{next: next, words: newVocabulary(), dropped: dropped, redacted: redacted}
}

// Enabled implements slog.Handler.
func (h *handler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.next.Enabled(ctx, level)
}

// Handle implements slog.Handler.
func (h *handler) Handle(ctx context.Context, r slog.Record) error {
	message := r.Message
	if !constantLike(message) {
		message = redactedMessage
		count(h.redacted, 1)
	}
	// The place in the source is left out too: with it a record is not the
	// closed set any more.
	clean := slog.NewRecord(r.Time, r.Level, message, 0)
	var room [16]slog.Attr
	attrs := append(room[:0], h.attrs...)
	if h.grouped {
		count(h.dropped, r.NumAttrs())
	} else {
		r.Attrs(func(a slog.Attr) bool {
			attrs = h.take(attrs, a)
			return true
		})
	}
	clean.AddAttrs(attrs...)
	return h.next.Handle(ctx, clean)
}

// WithAttrs implements slog.Handler.
func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	if h.grouped {
		count(h.dropped, len(attrs))
		return h
	}
	with := *h
	with.attrs = append([]slog.Attr(nil), h.attrs...)
	for _, a := range attrs {
		with.attrs = h.take(with.attrs, a)
	}
	return &with
}

// WithGroup implements slog.Handler. A group would nest its keys under a name
// that nobody checked.
func (h *handler) WithGroup(name string) slog.Handler {
	if name == "" {
		return h
	}
	with := *h
	with.grouped = true
	return &with
}

// take adds an attribute to attrs if it may be shown.
func (h *handler) take(attrs []slog.Attr, a slog.Attr) []slog.Attr {
	if a.Equal(slog.Attr{}) {
		return attrs // slog's own "nothing"
	}
	value := a.Value.Resolve()
	if a.Key == "" && value.Kind() == slog.KindGroup {
		for _, inner := range value.Group() {
			attrs = h.take(attrs, inner)
		}
		return attrs
	}
	value, ok := h.words.check(a.Key, value)
	if !ok {
		count(h.dropped, 1)
		return attrs
	}
	clean := slog.Attr{Key: a.Key, Value: value}
	for i := range attrs {
		if attrs[i].Key == a.Key {
			attrs[i] = clean
			return attrs
		}
	}
	return append(attrs, clean)
}

func count(c prometheus.Counter, n int) {
	if n > 0 { // a counter refuses less
		c.Add(float64(n))
	}
}

// constantLike reports whether a message could be a literal of the source:
// [a-z0-9 ._-]{1,80}. That keeps out addresses with ports, URLs, quoted text
// and names with a capital; the linter keeps out messages that are built.
func constantLike(message string) bool {
	if message == "" || len(message) > 80 {
		return false
	}
	for i := range len(message) {
		c := message[i]
		if !lowerAlnum(c) && c != ' ' && c != '.' && c != '_' && c != '-' {
			return false
		}
	}
	return true
}

func toMilliseconds(d time.Duration) float64 {
	return float64(d.Round(time.Microsecond)) / float64(time.Millisecond)
}
