package telemetry

import (
	"context"
	"io"
	"log/slog"
	"math"
	"net/netip"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

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
	var least slog.Level
	_ = least.UnmarshalText([]byte(level)) // an unknown one leaves info
	opts := &slog.HandlerOptions{Level: least}
	var next slog.Handler = slog.NewJSONHandler(w, opts)
	if format == FormatText {
		next = slog.NewTextHandler(w, opts)
	}
	words := newVocabulary(func(taskType string) bool { return m.tasks.has(taskType, false) })
	return slog.New(&handler{Handler: next, words: words, dropped: m.logDropped, redacted: m.logRedacted})
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

// constantLike reports whether a message could be a literal of the source. That keeps out
// addresses with ports, URLs, quoted text and names with a capital; the linter keeps out
// messages that are built.
func constantLike(message string) bool { return made(message, 80, small+" ._-") }

// small are the characters of most names.
const small = "abcdefghijklmnopqrstuvwxyz0123456789"

// made reports whether s has 1 to most bytes, all of a set.
func made(s string, most int, set string) bool {
	return s != "" && len(s) <= most && strings.Trim(s, set) == ""
}

// surfaceName reports whether a text is like the name of a surface, which is a constant of the code.
func surfaceName(s string) bool { return made(s, 40, small+"_") }

// vocabulary says which texts a key of the log may have. It is only read.
type vocabulary map[string]func(string) bool

// newVocabulary takes the test of a task type that the configuration has. A caller can write
// anything in its place.
func newVocabulary(configured func(string) bool) vocabulary {
	like := func(pattern string) func(string) bool { return regexp.MustCompile(`^(?:` + pattern + `)$`).MatchString }
	name := like(`[a-z_]{1,40}`)
	frames := like(`[\w./()*[\]-]+:\d+(?: < [\w./()*[\]-]+:\d+)*`) // see Panicking
	// A pattern of NATS subjects or a request to JetStream: never one that names an action.
	subject := like(other + `|[\w$.-]*[*>][\w$.*>-]*|\$JS\.API\.[\w$.*>-]*`)
	// The pattern that a route was registered with, such as "POST /v1/actions/{id}/cancel", and not
	// the path of a request: a segment is a lower-case word, v1, or a parameter's name.
	route := like(`(?:(?:GET|HEAD|POST|PUT|PATCH|DELETE|OPTIONS) )?(?:/(?:v1|[:*]?[a-z_.-]{1,32}|\{[a-z_-]{1,32}\}[a-z_.-]{0,32})?)+`)
	return vocabulary{
		"action_id":  schemas.ValidActionID,
		"request_id": schemas.ValidID,
		"tenant":     schemas.ValidID,
		"worker":     schemas.ValidID,
		"entry":      entryName,
		"kind":       oneOf(texts(schemas.Kinds()), evidenceKinds()),
		"task_type":  func(s string) bool { return slices.Contains(schemas.BuiltinTasks(), s) || configured(s) },
		"code":       knownCode,
		"outcome":    oneOf(texts(schemas.Outcomes())),
		"status":     oneOf(texts(schemas.Statuses()), []string{"applied", "partial"}),
		"durability": oneOf(texts([]schemas.Durability{schemas.DurabilityDisk, schemas.DurabilityProcess, schemas.DurabilityReplicated})),
		"surface":    surfaceName,
		"queue":      oneOf(texts(schemas.Queues())),
		"stream":     like(`[A-Z0-9_]{1,64}`),
		"subject":    func(s string) bool { return len(s) <= 80 && subject(s) },
		"at":         func(s string) bool { return len(s) <= 1000 && frames(s) },
		"method":     schemas.KnownMethod,
		"route":      func(s string) bool { return len(s) <= 96 && route(s) },
		"component":  like(`[a-z0-9_/-]{1,40}`),
		"err_kind":   func(s string) bool { return knownCode(s) || name(s) },
		"addr": func(s string) bool { // a literal address with its port: a zone may be any text, and so may a host name
			a, err := netip.ParseAddrPort(s)
			return err == nil && a.Addr().Zone() == ""
		},
		"policy_version": like(`[0-9a-f]{64}`),
	}
}

func texts[T ~string](of []T) (all []string) {
	for _, s := range of {
		all = append(all, string(s))
	}
	return all
}

func oneOf(lists ...[]string) func(string) bool {
	all := slices.Concat(lists...)
	return func(s string) bool { return slices.Contains(all, s) }
}

func knownCode(s string) bool {
	return slices.Contains(schemas.SettleCodes(), schemas.Code(s)) || slices.Contains(schemas.IngressCodes(), schemas.Code(s))
}

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

// text returns the string of a value if it is a string, of whatever type, or an address. No
// Stringer is called and no other type is printed.
func text(value slog.Value) (string, bool) {
	if addr, ok := value.Any().(netip.AddrPort); ok {
		return addr.String(), true
	}
	v := reflect.ValueOf(value.Any())
	return v.String(), v.Kind() == reflect.String
}

func natural(value slog.Value) bool {
	return value.Kind() == slog.KindUint64 || value.Kind() == slog.KindInt64 && value.Int64() >= 0
}

// entryName is the name of a policy entry, or host: and an item of the allowed
// hosts. The latter is the operator's, so it may hold what a host does.
func entryName(s string) bool {
	if item, ok := strings.CutPrefix(s, "host:"); ok {
		return made(item, 253, small+strings.ToUpper(small)+"._-:/[]*")
	}
	return schemas.ValidID(s)
}
