package index

import (
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"weir/egress/stream"
	"weir/schemas"
)

// StatusOpen stands for every status before the end.
const StatusOpen = "open"

// Query is what a list is asked for.
type Query struct {
	filter

	limit  int
	cursor int64 // keys below this one
	count  bool
}

// filter says which actions are meant. A zero field is no filter.
type filter struct {
	tenant  string // empty: all
	named   bool   // the tenant was given as a parameter
	kinds   []string
	status  []schemas.Outcome
	open    []schemas.Status // of the open ones these; empty: none
	entry   *string
	agent   string
	task    string
	code    string
	text    string
	since   int64
	until   int64
	anyOpen bool // all three of open
	damaged bool // and what ended with POISON, whatever its status
}

// statuses reports whether the status is filtered.
func (f *filter) statuses() bool { return len(f.status)+len(f.open) > 0 }

// live reports whether only the log can tell which of the open actions are meant.
func (f *filter) live() bool { return len(f.open) > 0 && !f.anyOpen }

// TenantAll names every tenant at once.
const TenantAll = "*"

// parameters that a list and the figures know.
func listParameters() []string {
	return []string{"kind", "status", "entry", "agent", "task", "code", "q", "since", "until", "tenant", "limit", "cursor", "count"}
}

// ParseList reads the parameters of GET /v1/actions. Tenant is whose actions are read;
// empty: everybody's.
func ParseList(q url.Values, tenant string, now time.Time) (Query, error) {
	out := Query{cursor: math.MaxInt64}
	var err error
	if err := stream.Only(q, listParameters()...); err != nil {
		return out, err
	}
	if out.filter, err = parseFilter(q, tenant, now); err != nil {
		return out, err
	}
	if out.limit, err = stream.Limit(q, 50); err != nil {
		return out, err
	}
	if cursor, ok, err := stream.One(q, "cursor"); err != nil {
		return out, err
	} else if ok {
		if out.cursor, err = parseCursorKey(cursor); err != nil {
			return out, err
		}
	}
	word, ok, err := stream.One(q, "count")
	if err != nil {
		return out, err
	}
	if ok && word != "true" && word != "false" {
		return out, stream.Invalid("the parameter count must be true or false")
	}
	out.count = word == "true"
	return out, nil
}

func parseFilter(q url.Values, tenant string, now time.Time) (filter, error) {
	f := filter{tenant: tenant}
	_, f.named = q["tenant"]
	var err error
	if f.kinds, err = list(q, "kind", words(schemas.Kinds())); err != nil {
		return f, err
	}
	if err := f.parseStatus(q); err != nil {
		return f, err
	}
	entry, ok, err := stream.One(q, "entry")
	if err != nil {
		return f, err
	}
	if ok {
		f.entry = &entry
	}
	for _, p := range []struct {
		name string
		into *string
	}{{"agent", &f.agent}, {"task", &f.task}, {"code", &f.code}, {"q", &f.text}} {
		v, ok, err := stream.One(q, p.name)
		if err != nil {
			return f, err
		}
		*p.into = v
		if p.name == "q" {
			v = strings.ReplaceAll(v, "~", "-") // a part of a successor's id is asked for as well
		}
		if ok && !schemas.ValidID(v) {
			return f, stream.Invalid("the parameter " + p.name + " must be 1 to 128 of A-Z a-z 0-9 . _ : -")
		}
	}
	if f.since, err = when(q, "since", now); err != nil {
		return f, err
	}
	f.until, err = when(q, "until", now)
	return f, err
}

// parseStatus reads the statuses, of which three are only told apart by the log.
func (f *filter) parseStatus(q url.Values) error {
	all := words(schemas.Statuses())
	chosen, err := list(q, "status", append(all, StatusOpen))
	if err != nil {
		return err
	}
	before := openStatuses()
	for _, s := range chosen {
		switch {
		case s == StatusOpen:
			f.anyOpen = true
		case slices.Contains(before, schemas.Status(s)):
			f.open = append(f.open, schemas.Status(s))
		default:
			f.status = append(f.status, schemas.Outcome(s))
		}
	}
	if f.anyOpen || len(f.open) == len(before) {
		f.anyOpen, f.open = true, before
	}
	return nil
}

// openStatuses are those before the end, which open stands for.
func openStatuses() []schemas.Status {
	all := schemas.Statuses()
	return all[:len(all)-len(schemas.Outcomes())]
}

func words[T ~string](of []T) []string {
	out := make([]string, len(of))
	for i, v := range of {
		out[i] = string(v)
	}
	return out
}

// list reads a parameter that is one of a few words, or several with commas between.
func list(q url.Values, name string, known []string) ([]string, error) {
	value, ok, err := stream.One(q, name)
	if !ok || err != nil {
		return nil, err
	}
	var out []string
	for word := range strings.SplitSeq(value, ",") {
		if !slices.Contains(known, word) {
			return nil, stream.Invalid("the parameter " + name + " can be " + strings.Join(known, ", ") + ", or several with commas between")
		}
		if !slices.Contains(out, word) {
			out = append(out, word)
		}
	}
	return out, nil
}

// when reads a time: an instant, or how long ago. Absent it is 0.
func when(q url.Values, name string, now time.Time) (int64, error) {
	value, ok, err := stream.One(q, name)
	if !ok || err != nil {
		return 0, err
	}
	bad := stream.Invalid("the parameter " + name + " must be a time such as 2026-11-22T20:00:00Z, or how long ago: 15m, 24h, 7d")
	if t, err := time.Parse(time.RFC3339Nano, value); err == nil {
		if t.Year() < 1971 || t.Year() > 2200 {
			return 0, bad
		}
		return t.UnixNano(), nil
	}
	if days, found := strings.CutSuffix(value, "d"); found {
		n, err := strconv.ParseUint(days, 10, 16)
		if err != nil || n > 10_000 {
			return 0, bad
		}
		return now.Add(-time.Duration(n) * 24 * time.Hour).UnixNano(), nil
	}
	d, err := time.ParseDuration(value)
	if err != nil || d < 0 || d > 10_000*24*time.Hour {
		return 0, bad
	}
	return now.Add(-d).UnixNano(), nil
}

// cursorLength is that of each cursor. One that lost its end would else be an older place,
// and its page look like the last.
const cursorLength = 13

// A cursor is the key of the last action that was shown.
func cursorKey(at int64) string {
	key := strconv.FormatInt(at, 36)
	return strings.Repeat("0", max(cursorLength-len(key), 0)) + key
}

func parseCursorKey(s string) (int64, error) {
	n, err := strconv.ParseInt(s, 36, 64)
	if err != nil || n <= 0 || s != cursorKey(n) {
		return 0, stream.Invalid("the parameter cursor must be the next of an earlier page")
	}
	return n, nil
}
