package index

import (
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"weir/egress/stream"
	"weir/schemas"
)

// StatusOpen stands for every status before the end.
const StatusOpen = "open"

// filter says which actions a request selects. A zero field is no filter.
type filter struct {
	tenant       string // empty: all
	named        bool   // the tenant was given as a parameter
	kinds        []string
	status       []string // in the order of schemas.Statuses
	entry        *string
	agent        string
	host         string
	caller       string
	methods      []string
	answers      []string // HTTP statuses, and classes of them such as 4xx
	task         string
	code         string
	text         string
	since, until int64
	resolved     *bool // with a resolution, or without one; nil: either
	damaged      bool  // and what ended with POISON, whatever its status
}

// params reads parameters.
type params struct{ *stream.Params }

func parse(q url.Values, known ...string) params { return params{stream.NewParams(q, known...)} }

func (p params) filter(tenant string, now time.Time) filter {
	f := filter{tenant: tenant, named: p.Has("tenant")}
	f.kinds = p.list("kind", words(schemas.Kinds()))
	f.of(p.list("status", append(words(schemas.Statuses()), StatusOpen)))
	if entry, ok := p.One("entry"); ok {
		f.entry = &entry
	}
	for name, into := range map[string]*string{"agent": &f.agent, "caller": &f.caller, "task": &f.task, "code": &f.code} {
		v, ok := p.One(name)
		if *into = v; ok && !schemas.ValidID(v) {
			p.Refuse(name, "must be 1 to 128 of A-Z a-z 0-9 . _ : -")
		}
	}
	if resolved := p.Bool("resolved"); p.Has("resolved") {
		f.resolved = &resolved
	}
	f.text = p.text("q")
	f.host = strings.ToLower(p.text("host"))
	f.methods = p.list("method", schemas.Methods())
	if v, ok := p.One("http_status"); ok {
		if f.answers = strings.Split(v, ","); !answers.MatchString(v) {
			p.Refuse("http_status", "must be a status such as 404 or a class such as 5xx, or several with commas between")
		}
	}
	f.since = p.when("since", now)
	f.until = p.when("until", now)
	return f
}

var answers = regexp.MustCompile(`^[1-5](xx|\d\d)(,[1-5](xx|\d\d))*$`)

// openStatuses are those before the end.
func openStatuses() []string {
	all := words(schemas.Statuses())
	return all[:len(all)-len(schemas.Outcomes())]
}

// of selects actions of some statuses. Open stands for several.
func (f *filter) of(named []string) {
	if slices.Contains(named, StatusOpen) {
		named = append(named, openStatuses()...)
	}
	f.status = slices.DeleteFunc(words(schemas.Statuses()), func(s string) bool { return !slices.Contains(named, s) })
}

// longestText is the number of characters of a parameter that may be any text.
const longestText = 256

// text reads a parameter that may be any text of one line.
func (p params) text(name string) string {
	v, ok := p.One(name)
	if ok && (v == "" || utf8.RuneCountInString(v) > longestText || !utf8.ValidString(v) || strings.ContainsFunc(v, unicode.IsControl)) {
		p.Refuse(name, "must be 1 to 256 characters without control characters")
	}
	return v
}

func words[T ~string](of []T) []string {
	out := make([]string, len(of))
	for i, v := range of {
		out[i] = string(v)
	}
	return out
}

// list reads a parameter with one or several known words, with commas between.
func (p params) list(name string, known []string) (out []string) {
	value, ok := p.One(name)
	if !ok {
		return nil
	}
	for word := range strings.SplitSeq(value, ",") {
		if !slices.Contains(known, word) {
			p.Refuse(name, "can be "+strings.Join(known, ", ")+", or several with commas between")
			return nil
		}
		if !slices.Contains(out, word) {
			out = append(out, word)
		}
	}
	return out
}

// word reads a parameter with one known word; ok is false if it is absent.
func (p params) word(name string, known ...string) (word string, ok bool) {
	word, ok = p.One(name)
	if last := len(known) - 1; ok && !slices.Contains(known, word) {
		p.Refuse(name, "can be "+strings.Join(known[:last], ", ")+" or "+known[last])
	}
	return word, ok
}

// mostDays is the longest time ago that a parameter may name.
const mostDays = 10_000

// when reads a time: an instant, or how long ago. Absent it is 0.
func (p params) when(name string, now time.Time) int64 {
	value, ok := p.One(name)
	if !ok {
		return 0
	}
	if t, err := time.Parse(time.RFC3339Nano, value); err == nil && t.Year() >= 1971 && t.Year() <= 2200 {
		return t.UnixNano()
	}
	ago, err := time.ParseDuration(value)
	if days, found := strings.CutSuffix(value, "d"); found {
		var n uint64
		n, err = strconv.ParseUint(days, 10, 16)
		ago = time.Duration(n) * 24 * time.Hour
	}
	if err != nil || ago < 0 || ago > mostDays*24*time.Hour {
		p.Refuse(name, "must be a time such as 2026-11-22T20:00:00Z, or how long ago: 15m, 24h, 7d")
	}
	return now.Add(-ago).UnixNano()
}

// cursorLength is that of each cursor. A cursor that lost its end would else be an older place,
// and its page look like the last.
const cursorLength = 13

// A cursor is the key of the last action that was shown.
func cursorKey(at int64) string {
	key := strconv.FormatInt(at, 36)
	return strings.Repeat("0", max(cursorLength-len(key), 0)) + key
}

func keyOf(cursor string) (at int64, ok bool) {
	at, err := strconv.ParseInt(cursor, 36, 64)
	return at, err == nil && at > 0 && cursor == cursorKey(at)
}
