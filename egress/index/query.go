package index

import (
	"math"
	"net/url"
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

// Query is a request for a list.
type Query struct {
	filter

	limit  int
	cursor int64 // keys below this one
	count  bool
}

// filter says which actions a query selects. A zero field is no filter.
type filter struct {
	tenant       string // empty: all
	named        bool   // the tenant was given as a parameter
	kinds        []string
	status       []string // as the file has it
	open         []string // of the open ones these
	live         bool     // which are not all
	entry        *string
	agent        string
	host         string
	caller       string
	methods      []string
	answers      [][2]int // ranges of HTTP statuses
	task         string
	code         string
	text         string
	since, until int64
	resolved     *bool // with a resolution, or without one; nil: either
	damaged      bool  // and what ended with POISON, whatever its status
}

// params reads parameters.
type params struct{ *stream.Params }

// ParseList reads the parameters of GET /v1/actions. Tenant is whose actions are read;
// empty: all tenants'.
func ParseList(q url.Values, tenant string, now time.Time) (Query, error) {
	out := Query{cursor: math.MaxInt64}
	p := params{stream.NewParams(q, "kind", "status", "entry", "agent", "host", "method", "http_status", "caller", "task", "code", "resolved", "q", "since", "until", "tenant", "limit", "cursor", "count")}
	out.filter = p.filter(tenant, now)
	out.limit = p.Limit(50)
	if cursor, ok := p.One("cursor"); ok {
		out.cursor, p.Err = parseCursorKey(cursor)
	}
	out.count = p.Bool("count")
	return out, p.Err
}

// selection is the query of a selection.
func selection(of stream.Selection) (Query, error) {
	q := Query{
		filter: filter{tenant: of.Tenant, kinds: []string{string(of.Kind)}, status: words(of.Ended), damaged: len(of.Ended) > 0},
		limit:  of.Limit, cursor: math.MaxInt64,
	}
	if of.Open {
		q.status = append(q.status, "")
	}
	var err error
	if of.Cursor != "" {
		q.cursor, err = parseCursorKey(of.Cursor)
	}
	return q, err
}

func (p params) filter(tenant string, now time.Time) filter {
	f := filter{tenant: tenant, named: p.Has("tenant")}
	f.kinds = p.list("kind", words(schemas.Kinds()))
	p.status(&f)
	if entry, ok := p.One("entry"); ok {
		f.entry = &entry
	}
	for _, of := range []struct {
		name string
		into *string
	}{{"agent", &f.agent}, {"caller", &f.caller}, {"task", &f.task}, {"code", &f.code}} {
		v, ok := p.One(of.name)
		if *of.into = v; ok && !schemas.ValidID(v) {
			p.Refuse(of.name, "must be 1 to 128 of A-Z a-z 0-9 . _ : -")
		}
	}
	if resolved := p.Bool("resolved"); p.Has("resolved") {
		f.resolved = &resolved
	}
	f.text = p.text("q")
	f.host = strings.ToLower(p.text("host"))
	f.methods = p.list("method", schemas.Methods())
	p.answers(&f)
	f.since = p.when("since", now)
	f.until = p.when("until", now)
	return f
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

// answers reads HTTP statuses, and classes of them such as 4xx.
func (p params) answers(f *filter) {
	value, ok := p.One("http_status")
	if !ok {
		return
	}
	for word := range strings.SplitSeq(value, ",") {
		low, high := strings.Replace(word, "xx", "00", 1), strings.Replace(word, "xx", "99", 1)
		n, err := strconv.Atoi(low)
		if err != nil || len(low) != 3 || n < 100 || n > 599 || low != word && n%100 != 0 {
			p.Refuse("http_status", "must be a status such as 404 or a class such as 5xx, or several with commas between")
			return
		}
		m, _ := strconv.Atoi(high) // as the other
		f.answers = append(f.answers, [2]int{n, m})
	}
}

// status reads the statuses. The file has one for the open ones.
func (p params) status(f *filter) {
	known := words(schemas.Statuses())
	open := known[:len(known)-len(schemas.Outcomes())]
	for _, s := range p.list("status", append(known, StatusOpen)) {
		switch {
		case s == StatusOpen:
			f.open = open
		case !slices.Contains(open, s):
			f.status = append(f.status, s)
		case !slices.Contains(f.open, s):
			f.open = append(f.open, s)
		}
	}
	if len(f.open) > 0 {
		f.status = append(f.status, "")
	}
	f.live = len(f.open) > 0 && len(f.open) < len(open)
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

func parseCursorKey(s string) (int64, error) {
	n, err := strconv.ParseInt(s, 36, 64)
	if err != nil || n <= 0 || s != cursorKey(n) {
		return 0, stream.Invalid("the parameter cursor must be the next of an earlier page")
	}
	return n, nil
}

// StatsQuery is a request for figures.
type StatsQuery struct {
	filter

	from, to int64 // whole steps
	step     time.Duration
	by       string
}

// Without a step there are about wantedPoints points; there are at most mostPoints, and at most
// mostGroups groups.
const (
	wantedPoints = 120
	mostPoints   = 1000
	mostGroups   = 50
)

// ParseStats reads the parameters of GET /v1/stats. Tenant is whose actions are counted;
// empty: all tenants'.
func ParseStats(q url.Values, tenant string, now time.Time) (out StatsQuery, err error) {
	p := params{stream.NewParams(q, "since", "until", "step", "by", "kind", "entry", "tenant")}
	out.filter = p.filter(tenant, now)
	by, ok := p.One("by")
	if out.by = by; ok && !slices.Contains([]string{"kind", "entry", "outcome"}, by) {
		p.Refuse("by", "can be kind, entry or outcome")
	}
	word, given := p.One("step")
	if out.until == 0 {
		out.until = now.UnixNano()
	}
	if out.since == 0 {
		out.since = out.until - int64(time.Hour)
	}
	if p.Err == nil && out.since >= out.until {
		p.Refuse("since", "must be before until")
	}
	if p.Err != nil {
		return out, p.Err
	}
	// The range is rounded to whole steps.
	names := []string{"10s", "30s", "1m", "5m", "10m", "30m", "1h", "6h", "24h"}
	if given && !slices.Contains(names, word) {
		return out, stream.Invalid("the parameter step can be " + strings.Join(names, ", "))
	}
	for _, name := range names {
		if out.step, err = time.ParseDuration(name); err != nil {
			return out, err
		}
		if given && name == word || !given && (out.until-out.since)/int64(out.step) < wantedPoints {
			break
		}
	}
	out.from, out.to = out.since/int64(out.step), (out.until+int64(out.step)-1)/int64(out.step)
	if out.to-out.from > mostPoints {
		return out, stream.Invalid("from since to until there can be 1000 steps at most: choose a longer step or a shorter time")
	}
	return out, nil
}
