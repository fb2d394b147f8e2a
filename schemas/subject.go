package schemas

import (
	"errors"
	"strconv"
	"strings"
)

// Tail is the last token of a log subject.
type Tail string

// The tails.
const (
	TailAccepted Tail = "accepted"
	TailWake     Tail = "wake" // a nudge to look at the action again
	TailEvent    Tail = "event"
	TailSettled  Tail = "settled"
	// TailSignal is an event by which somebody outside says something to an action. That of
	// a task wakes its worker like a nudge, in one write.
	TailSignal Tail = "signal"
	// TailHigh is a nudge to look at a new action of high priority before others. It lies
	// beside the log of actions, under ScheduleRoot: whoever does not know it reads nothing
	// of it.
	TailHigh Tail = "high"
)

// TailOf is the subject tail that events of this type belong to; see TailFor. A
// resolution lies on the event tail, after the terminal event, and so does what names a
// successor.
func TailOf(t EventType) Tail {
	switch t {
	case EventAccepted:
		return TailAccepted
	case EventSettled:
		return TailSettled
	case EventSignal:
		return TailSignal
	default:
		return TailEvent
	}
}

// TailFor is the tail that an event is written under: what comes from outside lies under
// that of signals, so that who takes requests need not be allowed to write what workers
// do. What asks a task to stop wakes its worker, in the same write: nobody else would look
// at it for hours.
func TailFor(_ Kind, t EventType) Tail {
	if t == EventCancel || t == EventResolution {
		return TailSignal
	}
	return TailOf(t)
}

// Lies reports whether an event of this kind may lie under a tail. Earlier versions
// wrote each under that of its type.
func Lies(k Kind, t EventType, under Tail) bool {
	return under == TailFor(k, t) || under == TailOf(t)
}

// Ref names one action on the log.
type Ref struct {
	Tenant string
	Kind   Kind
	ID     string
}

// Subject is weir.log.<partition>.<lane>.<tenant>.<kind>.<id>.<tail>.
func (l Layout) Subject(r Ref, t Tail) string { return l.stem(LogRoot, r, string(r.Kind)) + string(t) }

// All covers every message of the action.
func (l Layout) All(r Ref) string { return l.stem(LogRoot, r, string(r.Kind)) + ">" }

// AnyKind covers every message of the tenant's id, whatever its kind: the
// subject of a claim, and of the look-up of an action whose kind is unknown.
func (l Layout) AnyKind(tenant, id string) string {
	return l.stem(LogRoot, Ref{Tenant: tenant, ID: id}, "*") + ">"
}

// Schedule is the subject on which the action's pending wake-up lies.
func (l Layout) Schedule(r Ref) string { return l.stem(ScheduleRoot, r, string(r.Kind)) + "at" }

func (l Layout) stem(root string, r Ref, kind string) string {
	var b strings.Builder
	b.Grow(len(root) + len(r.Tenant) + len(kind) + len(r.ID) + 24)
	b.WriteString(root)
	b.WriteByte('.')
	b.WriteString(strconv.Itoa(l.Partition(r.Tenant, r.ID)))
	b.WriteByte('.')
	b.WriteString(strconv.Itoa(l.Lane(r.Tenant)))
	b.WriteByte('.')
	b.WriteString(EscapeToken(r.Tenant))
	b.WriteByte('.')
	b.WriteString(kind)
	b.WriteByte('.')
	b.WriteString(EscapeToken(r.ID))
	b.WriteByte('.')
	return b.String()
}

// Hurry is the subject of the nudge by which an action of high priority goes before others.
func (l Layout) Hurry(r Ref) string {
	return l.stem(ScheduleRoot, r, string(r.Kind)) + string(TailHigh)
}

// WorkTails are the tails of what has to be looked at of a kind: each message under one
// of them is work.
func WorkTails(k Kind) []Tail {
	switch k {
	case KindHTTP, KindPlan, KindRun:
		return []Tail{TailAccepted, TailWake, TailHigh}
	case KindTask: // the other kinds have no signals
		return []Tail{TailAccepted, TailWake, TailSignal, TailHigh}
	default: // what makes them takes no priority
		return []Tail{TailAccepted, TailWake}
	}
}

// WorkFilter covers a kind's work of one tail in one partition.
func WorkFilter(partition int, k Kind, t Tail) string {
	root := LogRoot
	if t == TailHigh {
		root = ScheduleRoot
	}
	return root + "." + strconv.Itoa(partition) + ".*.*." + string(k) + ".*." + string(t)
}

// KindFilter covers every message of a kind in one partition, whoever's it is.
func KindFilter(partition int, k Kind) string {
	return LogRoot + "." + strconv.Itoa(partition) + ".*.*." + string(k) + ".*.>"
}

// StatusSubject is where the changes of an action's state are told to whoever
// listens: weir.status.<tenant>.<kind>.<id>. Nothing of it is stored.
func StatusSubject(r Ref) string {
	return StatusRoot + "." + EscapeToken(r.Tenant) + "." + string(r.Kind) + "." + EscapeToken(r.ID)
}

// ErrSubject says that a subject is not one of the log's.
var ErrSubject = errors.New("not a subject of the log")

// ParseSubject reads a log subject, or its republished form under weir.live; and one of Hurry.
func ParseSubject(s string) (Ref, Tail, error) {
	parts := strings.Split(s, ".")
	if len(parts) != 8 || parts[0] != "weir" {
		return Ref{}, "", ErrSubject
	}
	high := parts[7] == string(TailHigh)
	if (high || parts[1] != "log" && parts[1] != "live") && (!high || parts[1] != "sched") {
		return Ref{}, "", ErrSubject
	}
	tenant, err := UnescapeToken(parts[4])
	if err != nil {
		return Ref{}, "", err
	}
	id, err := UnescapeToken(parts[6])
	if err != nil {
		return Ref{}, "", err
	}
	return Ref{Tenant: tenant, Kind: Kind(parts[5]), ID: id}, Tail(parts[7]), nil
}

// EvidenceSubject is weir.evidence.<tenant>.<kind>.<entry>.<action id>.
func EvidenceSubject(e Evidence) string {
	return EvidenceFilter(e.Tenant, e.Kind, e.Entry, e.ActionID, true)
}

// EvidenceFilter covers a tenant's records; an empty kind, entry or id covers
// all, unless exact says that empty means empty.
func EvidenceFilter(tenant, kind, entry, id string, exact bool) string {
	token := func(s string) string {
		if s == "" && !exact {
			return "*"
		}
		return EscapeToken(s)
	}
	return EvidenceRoot + "." + EscapeToken(tenant) + "." + token(kind) + "." + token(entry) + "." + token(id)
}

// DeadSubject is weir.dead.<tenant>.<kind>.<action id>.
func DeadSubject(d DeadLetter) string {
	return DeadRoot + "." + EscapeToken(d.Tenant) + "." + EscapeToken(string(d.Kind)) + "." + EscapeToken(d.ActionID)
}

// CancelSubject carries the nudge that an action is to stop.
func CancelSubject(r Ref) string {
	return CancelRoot + "." + EscapeToken(r.Tenant) + "." + string(r.Kind) + "." + EscapeToken(r.ID)
}

// ParseCancel reads what CancelSubject wrote.
func ParseCancel(s string) (Ref, bool) {
	parts := strings.Split(s, ".")
	if len(parts) != 5 || parts[0]+"."+parts[1] != CancelRoot {
		return Ref{}, false
	}
	tenant, err := UnescapeToken(parts[2])
	if err != nil {
		return Ref{}, false
	}
	id, err := UnescapeToken(parts[4])
	return Ref{Tenant: tenant, Kind: Kind(parts[3]), ID: id}, err == nil
}

const upperHex = "0123456789ABCDEF"

// EscapeToken turns any text into one subject token: letters, digits, '-' and
// '_' stand for themselves, every other byte is %XX, and the empty text is a
// lone '%'. UnescapeToken undoes it.
func EscapeToken(s string) string {
	if s == "" {
		return "%"
	}
	i := 0
	for i < len(s) && plain(s[i]) {
		i++
	}
	if i == len(s) {
		return s
	}
	var b strings.Builder
	b.Grow(len(s) + 8)
	for i := range len(s) {
		if c := s[i]; plain(c) {
			b.WriteByte(c)
		} else {
			b.WriteByte('%')
			b.WriteByte(upperHex[c>>4])
			b.WriteByte(upperHex[c&15])
		}
	}
	return b.String()
}

// UnescapeToken undoes EscapeToken. It refuses what EscapeToken never writes.
func UnescapeToken(t string) (string, error) {
	if t == "%" {
		return "", nil
	}
	var b strings.Builder
	for i := 0; i < len(t); i++ {
		c := t[i]
		if plain(c) {
			b.WriteByte(c)
			continue
		}
		if c != '%' || i+2 >= len(t) {
			return "", ErrSubject
		}
		hi, lo := strings.IndexByte(upperHex, t[i+1]), strings.IndexByte(upperHex, t[i+2])
		if hi < 0 || lo < 0 {
			return "", ErrSubject
		}
		d := byte(hi<<4 | lo) //nolint:gosec // both are below 16
		if plain(d) {
			return "", ErrSubject
		}
		b.WriteByte(d)
		i += 2
	}
	if b.Len() == 0 {
		return "", ErrSubject
	}
	return b.String(), nil
}

func plain(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' || c == '_'
}

// ValidID reports whether an id may reach a subject or a log line:
// [A-Za-z0-9._:-]{1,128}.
func ValidID(s string) bool {
	if s == "" || len(s) > 128 {
		return false
	}
	for i := range len(s) {
		if c := s[i]; !plain(c) && c != '.' && c != ':' {
			return false
		}
	}
	return true
}
