package telemetry

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/prometheus/client_golang/prometheus"

	"weir/schemas"
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
// all that follows WithGroup. Of a repeated key the last value counts. Attributes
// and messages that are left out or replaced are counted in weir_log_dropped_attributes_total and
// weir_log_redacted_messages_total.
//
// Level is debug, info, warn or error, format is json or text; anything else is
// info and json.
func (m *Metrics) NewLogger(w io.Writer, level, format string) *slog.Logger {
	opts := &slog.HandlerOptions{Level: levels()[level]} // the zero level is info
	var next slog.Handler = slog.NewJSONHandler(w, opts)
	if format == FormatText {
		next = slog.NewTextHandler(w, opts)
	}
	words := newVocabulary(func(taskType string) bool { return m.tasks.has(taskType, false) })
	return slog.New(&handler{Handler: next, words: words, dropped: m.logDropped, redacted: m.logRedacted})
}

func levels() map[string]slog.Level {
	return map[string]slog.Level{"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError}
}

// handler filters records on their way to one of slog's own handlers. ReplaceAttr of those
// cannot: it does not see a group's name or a repeated key.
type handler struct {
	slog.Handler

	words vocabulary
	// attrs are those of With, already checked, one a key.
	attrs []slog.Attr
	// grouped says that WithGroup was called: later attributes have no key of the closed set.
	grouped bool

	dropped, redacted prometheus.Counter
}

// Handle implements slog.Handler.
func (h *handler) Handle(ctx context.Context, r slog.Record) error {
	message := r.Message
	if !constantLike(message) {
		message = redactedMessage
		h.redacted.Inc()
	}
	// Without the place in the source, which is outside the closed set.
	clean := slog.NewRecord(r.Time, r.Level, message, 0)
	var room [16]slog.Attr
	attrs := append(room[:0], h.attrs...)
	r.Attrs(func(a slog.Attr) bool {
		attrs = h.add(attrs, a)
		return true
	})
	clean.AddAttrs(attrs...)
	return h.Handler.Handle(ctx, clean)
}

// WithAttrs implements slog.Handler.
func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	with := *h
	with.attrs = slices.Clone(h.attrs)
	for _, a := range attrs {
		with.attrs = h.add(with.attrs, a)
	}
	return &with
}

// WithGroup implements slog.Handler. A group would put its keys under a name
// that was not checked.
func (h *handler) WithGroup(name string) slog.Handler {
	with := *h
	with.grouped = h.grouped || name != ""
	return &with
}

// add adds an attribute to attrs if it may be shown.
func (h *handler) add(attrs []slog.Attr, a slog.Attr) []slog.Attr {
	if a.Equal(slog.Attr{}) && !h.grouped {
		return attrs // slog's own "nothing"
	}
	value := a.Value.Resolve()
	if a.Key == "" && value.Kind() == slog.KindGroup && !h.grouped {
		for _, inner := range value.Group() {
			attrs = h.add(attrs, inner)
		}
		return attrs
	}
	value, ok := h.words.check(a.Key, value)
	if !ok || h.grouped {
		h.dropped.Inc()
		return attrs
	}
	clean := slog.Attr{Key: a.Key, Value: value}
	if i := slices.IndexFunc(attrs, func(b slog.Attr) bool { return b.Key == a.Key }); i >= 0 {
		attrs[i] = clean
		return attrs
	}
	return append(attrs, clean)
}

// Sets of characters.
const (
	digits = "0123456789"
	lower  = "abcdefghijklmnopqrstuvwxyz"
	upper  = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	alnum  = digits + lower + upper
)

// made reports whether s has 1 to most bytes, all of a set.
func made(s string, most int, set string) bool {
	return s != "" && len(s) <= most && strings.Trim(s, set) == ""
}

// constantLike reports whether a message could be a literal of the source. That keeps out
// addresses with ports, URLs, quoted text and names with a capital; the linter keeps out
// messages that are built.
func constantLike(message string) bool { return made(message, 80, lower+digits+" ._-") }

// vocabulary says which texts a key of the log may have. It is only read.
type vocabulary map[string]func(string) bool

// newVocabulary takes the test of a task type that the configuration has. A caller can write
// anything in its place.
func newVocabulary(configured func(string) bool) vocabulary {
	states := append(schemas.Statuses(), "applied", "partial")
	return vocabulary{
		"action_id":  schemas.ValidActionID,
		"request_id": schemas.ValidID,
		"tenant":     schemas.ValidID,
		"worker":     schemas.ValidID,
		"entry":      entryName,
		"kind":       func(s string) bool { return in(schemas.Kinds(), s) || in(evidenceKinds(), s) },
		"task_type":  func(s string) bool { return in(schemas.BuiltinTasks(), s) || configured(s) },
		"code":       knownCode,
		"outcome":    func(s string) bool { return in(schemas.Outcomes(), s) },
		"status":     func(s string) bool { return in(states, s) },
		"durability": func(s string) bool {
			return in([]schemas.Durability{schemas.DurabilityDisk, schemas.DurabilityProcess, schemas.DurabilityReplicated}, s)
		},
		"surface": func(s string) bool {
			return in([]string{
				"plans", "executor", "runs", "rules", "tasks", "chat", "git",
				"actions", "evidence", "dead_letters", "policy", "tokens", "service", "console",
			}, s)
		},
		"at":     func(s string) bool { return made(s, 1000, alnum+"._-/:()*<[] ") }, // see Panicking
		"queue":  func(s string) bool { return in(schemas.Queues(), s) },
		"stream": func(s string) bool { return made(s, 64, upper+digits+"_") },
		"subject": func(s string) bool { // a pattern of NATS subjects or a request to JetStream: never one that names an action
			pattern := strings.ContainsAny(s, "*>") || strings.HasPrefix(s, "$JS.API.")
			return s == other || pattern && made(s, 80, alnum+"$_.*>-")
		},
		"method":    schemas.KnownMethod,
		"route":     routePattern,
		"component": func(s string) bool { return made(s, 40, lower+digits+"_-/") },
		"err_kind":  func(s string) bool { return knownCode(s) || made(s, 40, lower+"_") },
		"addr": func(s string) bool { // a literal address with its port: a zone may be any text, and so may a host name
			a, err := netip.ParseAddrPort(s)
			return err == nil && a.Addr().Zone() == ""
		},
		"version": func(s string) bool { return s == "(devel)" || made(s, 80, alnum+"._+-:") },
	}
}

func in[T ~string](list []T, s string) bool { return slices.Contains(list, T(s)) }

func knownCode(s string) bool { return in(schemas.SettleCodes(), s) || in(schemas.DoorCodes(), s) }

// check returns the value to print, or false if there is none.
func (v vocabulary) check(key string, value slog.Value) (slog.Value, bool) {
	switch key {
	case "attempt", "step", "seq", "count", "partition":
		return value, natural(value)
	case "duration_ms":
		if value.Kind() == slog.KindDuration {
			value = slog.Float64Value(float64(value.Duration().Round(time.Microsecond)) / float64(time.Millisecond))
		}
		if value.Kind() == slog.KindFloat64 {
			f := value.Float64()
			return value, f >= 0 && !math.IsInf(f, 1) // NaN is not >= 0
		}
		return value, natural(value)
	case "status":
		if value.Kind() == slog.KindInt64 { // a code of RFC 9110, or 0 if no status line came
			n := value.Int64()
			return value, n == 0 || n >= 100 && n <= 599
		}
	case "err_kind":
		// An error is replaced by its kind; its text is never read.
		if err, ok := value.Any().(error); ok {
			return slog.StringValue(ErrKind(err)), true
		}
	}
	s, ok := text(value)
	allowed := v[key]
	return slog.StringValue(s), ok && allowed != nil && allowed(s)
}

// text returns the string of a value if it is a string or one of the named
// strings of schemas. No Stringer is called and no other type is printed.
func text(value slog.Value) (string, bool) {
	switch s := value.Any().(type) {
	case string:
		return s, true
	case schemas.Code:
		return string(s), true
	case schemas.Kind:
		return string(s), true
	case schemas.Outcome:
		return string(s), true
	case schemas.Durability:
		return string(s), true
	case netip.AddrPort:
		return s.String(), true
	default:
		return "", false
	}
}

func natural(value slog.Value) bool {
	return value.Kind() == slog.KindUint64 || value.Kind() == slog.KindInt64 && value.Int64() >= 0
}

// entryName is the name of a policy entry, or host: and an item of the allowed
// hosts. The latter is the operator's, so it may hold what a host does.
func entryName(s string) bool {
	if item, ok := strings.CutPrefix(s, "host:"); ok {
		return made(item, 253, alnum+"._-:/[]*")
	}
	return schemas.ValidID(s)
}

// routePattern accepts the pattern a route was registered with, such as
// "POST /v1/actions/{id}/cancel", and not the path of a request: a segment is
// a lower-case word, v1, or a parameter's name.
func routePattern(s string) bool {
	if method, path, ok := strings.Cut(s, " "); ok {
		if !schemas.KnownMethod(method) {
			return false
		}
		s = path
	}
	if len(s) > 96 || !strings.HasPrefix(s, "/") {
		return false
	}
	for segment := range strings.SplitSeq(s[1:], "/") {
		name := strings.Replace(strings.TrimLeft(segment, ":*{"), "}", "", 1)
		if segment != "" && segment != "v1" && !made(name, 32, lower+"_-.") {
			return false
		}
	}
	return true
}

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
// for tests and for readers of logs: a search for known secrets finds those alone, and
// this finds all others.
func CheckLine(line []byte) error {
	dec := jsontext.NewDecoder(bytes.NewReader(line))
	if t, err := dec.ReadToken(); err != nil || t.Kind() != '{' {
		return &LineError{What: "is not a JSON object"}
	}
	words, missing := newVocabulary(func(string) bool { return false }), []string{slog.TimeKey, slog.LevelKey, slog.MessageKey}
	for dec.PeekKind() != '}' {
		key, err := dec.ReadToken()
		if err != nil {
			return &LineError{What: "is not valid JSON, or has a key twice"}
		}
		name := key.String()
		if value, err := dec.ReadToken(); err != nil || !words.printed(name, value) {
			return &LineError{name, "is not a key of the log, or has a value that it does not allow"}
		}
		missing = slices.DeleteFunc(missing, func(s string) bool { return s == name })
	}
	_, closed := dec.ReadToken()
	if _, err := dec.ReadToken(); closed != nil || err != io.EOF { //nolint:errorlint // the decoder returns it as it is
		return &LineError{What: "is not one JSON object"}
	}
	if len(missing) > 0 {
		return &LineError{missing[0], "is missing"}
	}
	return nil
}

// printed reports whether a key can have been printed with a value.
func (v vocabulary) printed(key string, value jsontext.Token) bool {
	s := value.String()
	as := slog.StringValue(s)
	if value.Kind() == '0' {
		if i, err := strconv.ParseInt(s, 10, 64); err == nil {
			as = slog.Int64Value(i)
		} else if u, err := strconv.ParseUint(s, 10, 64); err == nil {
			as = slog.Uint64Value(u)
		} else if f, err := strconv.ParseFloat(s, 64); err == nil {
			as = slog.Float64Value(f)
		} else {
			return false
		}
	} else if value.Kind() != '"' {
		return false // no key has an object, a list, a boolean or null
	}
	switch key {
	case slog.TimeKey:
		_, err := time.Parse(time.RFC3339Nano, s)
		return err == nil
	case slog.LevelKey:
		_, ok := levels()[strings.ToLower(s)]
		return ok && s == strings.ToUpper(s)
	case slog.MessageKey:
		return constantLike(s)
	}
	_, ok := v.check(key, as)
	return ok
}
