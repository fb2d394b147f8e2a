package schemas

import (
	"errors"
	"strconv"
	"strings"
)

// Section is the token of a log subject after the partition. Consumers filter by it, and
// permissions limit writes by it. It precedes the tokens that name the action, so that a search in
// one section skips the subjects of the others.
type Section string

// The sections. An undisturbed action uses two of them, because the server keeps every subject in
// memory.
const (
	SectionAccepted Section = "accepted"
	// SectionEvent is what is done for an action. The last of it is its end.
	SectionEvent Section = "event"
	// SectionWake is for records that bring an action back to a worker: notifications and events
	// from outside. Its records may follow the action's end.
	SectionWake Section = "wake"
	// SectionOverflow and SectionOverflowLong are notifications of actions that no slot had room for.
	SectionOverflow     Section = "overflow"
	SectionOverflowLong Section = "overflow_long"
)

// SectionOf is the section of events of this type. Events from outside have a different one from
// workers' events, so that ingress needs no permission for the latter.
func SectionOf(t EventType) Section {
	switch t {
	case EventAccepted:
		return SectionAccepted
	case EventSignal, EventCancel, EventResolution, EventSuperseded:
		return SectionWake
	default:
		return SectionEvent
	}
}

// Ref names one action on the log.
type Ref struct {
	Tenant string
	Kind   Kind
	ID     string
}

// Subject is weir.log.<partition>.<section>.<tenant>.<kind>.<id>.
func (l Layout) Subject(r Ref, s Section) string { return l.subject(r, string(s), string(r.Kind)) }

// All covers every message of the action.
func (l Layout) All(r Ref) string { return l.subject(r, "*", string(r.Kind)) }

// AnyKind covers every message of the tenant's id, whatever its kind: the
// subject of a claim, and of the look-up of an action whose kind is unknown.
func (l Layout) AnyKind(tenant, id string) string {
	return l.subject(Ref{Tenant: tenant, ID: id}, "*", "*")
}

func (l Layout) subject(r Ref, section, kind string) string {
	var b strings.Builder
	b.Grow(len(LogRoot) + len(section) + len(r.Tenant) + len(kind) + len(r.ID) + 24)
	b.WriteString(LogRoot)
	b.WriteByte('.')
	b.WriteString(strconv.Itoa(l.Partition(r.Tenant, r.ID)))
	b.WriteByte('.')
	b.WriteString(section)
	b.WriteByte('.')
	b.WriteString(EscapeToken(r.Tenant))
	b.WriteByte('.')
	b.WriteString(kind)
	b.WriteByte('.')
	b.WriteString(EscapeToken(r.ID))
	return b.String()
}

// Schedule is the subject on which the action's pending wake-up lies.
func (l Layout) Schedule(r Ref) string {
	return ScheduleRoot + strings.TrimPrefix(l.Subject(r, "at"), LogRoot)
}

// Moved is a log subject's counterpart in another section.
func Moved(subject string, to Section) string {
	partition, action, _ := Split(subject)
	return LogRoot + "." + partition + "." + string(to) + "." + action
}

// Split cuts a log subject into the partition, what names the action, and the section. They are empty for
// any other.
func Split(subject string) (partition, action string, s Section) {
	rest, ok := strings.CutPrefix(subject, LogRoot+".")
	if !ok {
		return "", "", ""
	}
	partition, rest, _ = strings.Cut(rest, ".")
	section, action, _ := strings.Cut(rest, ".")
	return partition, action, Section(section)
}

// Queue is a consumer of the work on the log. A partition has one of each, which all workers share.
type Queue string

// The queues.
const (
	QueueNew  Queue = "new"  // accepted actions
	QueueWake Queue = "wake" // wake-ups and events from outside
	// A worker without a free slot moves a message to the end of one of these, so that a slow kind
	// does not delay the others.
	QueueOverflow     Queue = "overflow"
	QueueOverflowLong Queue = "overflow_long"
)

// Queues are all of them.
func Queues() []Queue { return []Queue{QueueNew, QueueWake, QueueOverflow, QueueOverflowLong} }

// Overflows reports whether the queue is one of excess messages.
func (q Queue) Overflows() bool { return q == QueueOverflow || q == QueueOverflowLong }

// OverflowOf is the section of notifications that move a kind's actions to an overflow queue.
func OverflowOf(k Kind) Section {
	switch k {
	case KindRun, KindTask, KindPush, KindRepo: // agents and git may take minutes
		return SectionOverflowLong
	default:
		return SectionOverflow
	}
}

// Filter covers a queue's messages in one partition. It is one, because the server looks through every
// subject that it has for a consumer of several.
func (q Queue) Filter(partition int) string {
	section := Section(q)
	if q == QueueNew {
		section = SectionAccepted
	}
	return LogRoot + "." + strconv.Itoa(partition) + "." + string(section) + ".>"
}

// FilterOf is Filter for one tenant alone.
func (q Queue) FilterOf(partition int, tenant string) string {
	return strings.TrimSuffix(q.Filter(partition), ">") + EscapeToken(tenant) + ".>"
}

// KindFilter covers every message of a kind in one partition, of all tenants.
func KindFilter(partition int, k Kind) string {
	return LogRoot + "." + strconv.Itoa(partition) + ".*.*." + string(k) + ".*"
}

// StatusSubject is the subject for changes of an action's state: weir.status.<tenant>.<kind>.<id>.
// Nothing of it is stored.
func StatusSubject(r Ref) string {
	return StatusRoot + "." + EscapeToken(r.Tenant) + "." + string(r.Kind) + "." + EscapeToken(r.ID)
}

// ErrSubject is the error for a subject that does not belong to the log.
var ErrSubject = errors.New("not a subject of the log")

// ParseSubject reads a log subject.
func ParseSubject(s string) (Ref, Section, error) {
	parts := strings.Split(s, ".")
	if len(parts) != 7 || parts[0] != "weir" || parts[1] != "log" {
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
	return Ref{Tenant: tenant, Kind: Kind(parts[5]), ID: id}, Section(parts[3]), nil
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

// CancelSubject carries the notice that an action must stop.
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
	i := 0
	for i < len(t) && plain(t[i]) {
		i++
	}
	if i == len(t) && i > 0 {
		return t, nil
	}
	var b strings.Builder
	b.WriteString(t[:i])
	for ; i < len(t); i++ {
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
