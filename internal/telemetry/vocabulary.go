package telemetry

import (
	"log/slog"
	"math"
	"net/netip"
	"slices"
	"strings"

	"weir/schemas"
)

// vocabulary says which values a key of the log may have. It is only read.
type vocabulary struct {
	codes, kinds, outcomes, states, surfaces, durabilities map[string]struct{}
	// tasks are the task types of the configuration; nil: Weir's own alone.
	tasks *taskSet
}

func newVocabulary() *vocabulary {
	return &vocabulary{
		codes:    set(knownCodes()),
		kinds:    set(schemas.Kinds(), toKinds(evidenceKinds())),
		outcomes: set(schemas.Outcomes()),
		states: set(schemas.Outcomes(), []schemas.Outcome{
			schemas.Outcome(schemas.EventAccepted), schemas.Outcome(schemas.EventStarted),
			schemas.Outcome(schemas.EventWaiting), "applied", "partial",
		}),
		surfaces: set([]string{
			"plans", "executor", "runs", "rules", "tasks", "chat", "git",
			"actions", "evidence", "dead_letters", "policy", "tokens", "service", "console",
		}),
		durabilities: set([]schemas.Durability{
			schemas.DurabilityDisk, schemas.DurabilityProcess, schemas.DurabilityReplicated,
		}),
	}
}

// check returns the value to print, or false where none may be.
func (v *vocabulary) check(key string, value slog.Value) (slog.Value, bool) {
	switch key {
	case "attempt", "step", "seq", "count", "partition":
		return value, natural(value)
	case "duration_ms":
		return duration(value)
	case "status":
		if value.Kind() != slog.KindString && value.Kind() != slog.KindAny {
			return value, httpStatus(value)
		}
	case "err_kind":
		// An error is turned into its word; its text is never read.
		if err, ok := value.Any().(error); ok {
			return slog.StringValue(ErrKind(err)), true
		}
	}
	s, ok := text(value)
	if !ok {
		return slog.Value{}, false
	}
	return slog.StringValue(s), v.word(key, s)
}

// word checks the keys whose values are text.
func (v *vocabulary) word(key, s string) bool {
	switch key {
	case "action_id":
		return schemas.ValidActionID(s)
	case "request_id", "tenant", "worker":
		return schemas.ValidID(s)
	case "entry":
		return entryName(s)
	case "kind":
		return in(v.kinds, s)
	case "task_type":
		return v.tasks.has(s)
	case "code":
		return in(v.codes, s)
	case "outcome":
		return in(v.outcomes, s)
	case "status":
		return in(v.states, s)
	case "durability":
		return in(v.durabilities, s)
	case "surface":
		return in(v.surfaces, s)
	case "queue":
		return slices.Contains(schemas.Queues(), schemas.Queue(s))
	case "stream":
		return made(s, 64, func(c byte) bool { return 'A' <= c && c <= 'Z' || digit(c) || c == '_' })
	case "subject": // a pattern of NATS subjects: never one that names an action
		return s == "other" || pattern(s) && made(s, 80, func(c byte) bool { return alnum(c) || strings.IndexByte("$_.*>-", c) >= 0 })
	case "method":
		return schemas.KnownMethod(s)
	case "route":
		return routePattern(s)
	case "component":
		return made(s, 40, func(c byte) bool { return lowerAlnum(c) || c == '_' || c == '-' || c == '/' })
	case "err_kind":
		return in(v.codes, s) || made(s, 40, func(c byte) bool { return 'a' <= c && c <= 'z' || c == '_' })
	case "addr":
		return listenAddr(s)
	case "version":
		return s == "(devel)" || made(s, 80, func(c byte) bool { return alnum(c) || strings.IndexByte("._+-:", c) >= 0 })
	default:
		return false
	}
}

// text gives the string of a value that is one: a string, or one of the named
// strings of schemas. No Stringer is asked and no other type is printed.
func text(value slog.Value) (string, bool) {
	if value.Kind() == slog.KindString {
		return value.String(), true
	}
	if value.Kind() != slog.KindAny {
		return "", false
	}
	switch s := value.Any().(type) {
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

// pattern says that text names many subjects, or a request to JetStream.
func pattern(s string) bool { return strings.ContainsAny(s, "*>") || strings.HasPrefix(s, "$JS.API.") }

func natural(value slog.Value) bool {
	return value.Kind() == slog.KindUint64 || value.Kind() == slog.KindInt64 && value.Int64() >= 0
}

// httpStatus accepts the codes of RFC 9110, and 0 where no status line came.
func httpStatus(value slog.Value) bool {
	if value.Kind() != slog.KindInt64 {
		return false
	}
	n := value.Int64()
	return n == 0 || n >= 100 && n <= 599
}

func duration(value slog.Value) (slog.Value, bool) {
	if value.Kind() == slog.KindDuration {
		value = slog.Float64Value(toMilliseconds(value.Duration()))
	}
	if value.Kind() == slog.KindFloat64 {
		f := value.Float64()
		return value, f >= 0 && !math.IsInf(f, 1) // NaN is not >= 0
	}
	return value, natural(value)
}

// entryName is the name of a policy entry, or host: and an item of the allowed
// hosts. The latter is the operator's, so it may hold what a host does.
func entryName(s string) bool {
	item, ok := strings.CutPrefix(s, "host:")
	if !ok {
		return schemas.ValidID(s)
	}
	return made(item, 253, func(c byte) bool { return alnum(c) || strings.IndexByte("._-:/[]*", c) >= 0 })
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
		if segment == "" || segment == "v1" {
			continue
		}
		name := strings.TrimLeft(segment, ":*{")
		name = strings.Replace(name, "}", "", 1)
		if !made(name, 32, func(c byte) bool { return 'a' <= c && c <= 'z' || c == '_' || c == '-' || c == '.' }) {
			return false
		}
	}
	return true
}

// listenAddr accepts a literal address with its port, without a zone: a zone
// may be any text, and so may a host name.
func listenAddr(s string) bool {
	a, err := netip.ParseAddrPort(s)
	return err == nil && a.Addr().Zone() == ""
}

func knownCodes() []schemas.Code {
	return slices.Concat(schemas.SettleCodes(), schemas.DoorCodes())
}

func knownCode(s string) bool { return slices.Contains(knownCodes(), schemas.Code(s)) }

func toKinds(names []string) []schemas.Kind {
	kinds := make([]schemas.Kind, 0, len(names))
	for _, n := range names {
		kinds = append(kinds, schemas.Kind(n))
	}
	return kinds
}

func set[T ~string](lists ...[]T) map[string]struct{} {
	m := make(map[string]struct{})
	for _, list := range lists {
		for _, s := range list {
			m[string(s)] = struct{}{}
		}
	}
	return m
}

func in(words map[string]struct{}, s string) bool {
	_, ok := words[s]
	return ok
}

// made reports whether s has 1 to most bytes, each of which fits.
func made(s string, most int, fits func(byte) bool) bool {
	if s == "" || len(s) > most {
		return false
	}
	for i := range len(s) {
		if !fits(s[i]) {
			return false
		}
	}
	return true
}

func digit(c byte) bool      { return '0' <= c && c <= '9' }
func lowerAlnum(c byte) bool { return 'a' <= c && c <= 'z' || digit(c) }
func alnum(c byte) bool      { return lowerAlnum(c) || 'A' <= c && c <= 'Z' }
