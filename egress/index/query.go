package index

import (
	"cmp"
	"math"
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

// clause is a part of an SQL query and its arguments.
type clause struct {
	text string
	args []any
}

// and adds a condition.
func (c clause) and(text string, args ...any) clause {
	return clause{c.text + " AND " + text, slices.Concat(c.args, args)}
}

// in is that a column has one of some values.
func in(column string, values []string) clause {
	c := clause{text: column + " IN (?" + strings.Repeat(", ?", max(len(values)-1, 0)) + ")"}
	for _, v := range values {
		c.args = append(c.args, v)
	}
	return c
}

// condition is a condition on a column. If index is not empty, an SQL index of that name answers it,
// together with the tenant, in the order of a list.
type condition struct {
	column, index string
	clause
}

// filter says which actions a request selects.
type filter struct {
	tenant       string      // empty: all
	since, until int64       // nanoseconds; 0: no bound
	where        []condition // the most selective first
}

func (f *filter) add(column, index string, c clause) {
	f.where = append(f.where, condition{column, index, c})
}

// is adds that a column has a value, unless that is empty.
func (f *filter) is(column, value string) {
	if value != "" {
		f.add(column, "by_"+column, clause{column + " = ? AND " + column + " <> ''", []any{value}})
	}
}

// of selects actions by their kind, status and caller; none are all. With damaged, those that ended with
// POISON are selected too, whatever their status.
func (f *filter) of(kinds, named []string, caller string, damaged bool) {
	all := words(schemas.Statuses())
	open := all[:len(all)-len(schemas.Outcomes())]
	if slices.Contains(named, StatusOpen) {
		named = append(named, open...)
	}
	var status []string // as the file has it
	live := 0
	for i, s := range all {
		if !slices.Contains(named, s) {
			continue
		}
		if i >= len(open) {
			status = append(status, s)
		} else if live++; live == 1 {
			status = append(status, "")
		}
	}
	if slices.Equal(status, []string{""}) {
		if len(kinds) == 1 {
			f.add("status", "by_work", clause{"kind = ? AND status = ''", []any{kinds[0]}})
		}
		f.add("status", "by_open", clause{text: "status = ''"})
	}
	f.is("caller", caller)
	if c := in("status", status); damaged {
		f.add("status", "", clause{"(" + c.text + " OR code = ?)", append(c.args, schemas.Poison)})
	} else {
		f.oneOf("status", status)
	}
	if live > 0 && live < len(open) {
		f.add("state", "", in("state", named))
	}
	f.oneOf("kind", kinds)
}

// oneOf adds that a column has one of some values, if there are any. An SQL index answers one value.
func (f *filter) oneOf(column string, values []string) {
	if len(values) == 0 {
		return
	}
	index := ""
	if len(values) == 1 {
		index = "by_" + column
	}
	f.add(column, index, in(column, values))
}

// detailed reports whether a filter asks for more than table figure has, whose columns have the same names.
func (f *filter) detailed() bool {
	return slices.ContainsFunc(f.where, func(c condition) bool {
		return !slices.Contains([]string{"kind", "agent", "entry", "code", "status"}, c.column)
	})
}

// actions are the two parts of all: from reads the actions that the best SQL index yields; rest is checked
// of each.
func (f *filter) actions(since, until int64) (from, rest clause) {
	index, lead := "NOT INDEXED", clause{"at >= ? AND at < ?", []any{since, cmp.Or(until, math.MaxInt64)}}
	if f.tenant != "" {
		index, lead = "INDEXED BY by_tenant", lead.and("tenant = ?", f.tenant)
	}
	rest, led := clause{text: "1"}, false
	for _, c := range f.where {
		if led || c.index == "" || (f.tenant == "") != (c.index == "by_open") {
			rest = rest.and(c.text, c.args...)
			continue
		}
		led, index, lead = true, "INDEXED BY "+c.index, lead.and(c.text, c.args...)
	}
	return clause{"FROM action " + index + " WHERE " + lead.text, lead.args}, rest
}

// all selects the actions of a stretch of time.
func (f *filter) all(since, until int64) clause {
	from, rest := f.actions(since, until)
	return from.and(rest.text, rest.args...)
}

// figures selects the rows of table figure of a level, from one slot to before another, by the
// filter's conditions but its time.
func (f *filter) figures(level, low, high int64) clause {
	c := clause{"FROM figure WHERE level = ? AND slot >= ? AND slot < ?", []any{level, low, high}}
	if f.tenant != "" {
		c = c.and("tenant = ?", f.tenant)
	}
	for _, of := range f.where {
		c = c.and(of.text, of.args...)
	}
	return c
}

// params reads parameters.
type params struct{ *stream.Params }

func (p params) filter(tenant string, now time.Time) filter {
	f := filter{tenant: tenant, since: p.when("since", now), until: p.when("until", now)}
	f.is("task", p.id("task"))
	f.is("code", p.id("code"))
	entry, ok := p.One("entry")
	if f.is("entry", entry); ok && entry == "" {
		f.add("entry", "", clause{text: "entry = ''"})
	}
	f.is("agent", p.id("agent"))
	f.is("host", strings.ToLower(p.text("host")))
	f.of(p.list("kind", words(schemas.Kinds())), p.list("status", append(words(schemas.Statuses()), StatusOpen)), p.id("caller"), false)
	if resolved := p.Bool("resolved"); p.Has("resolved") {
		f.add("resolution", "", clause{"(resolution <> '') = ?", []any{resolved}})
	}
	if methods := p.list("method", schemas.Methods()); len(methods) > 0 {
		f.add("method", "", in("method", methods))
	}
	if v, ok := p.One("http_status"); ok {
		if !regexp.MustCompile(`^[1-5](xx|\d\d)(,[1-5](xx|\d\d))*$`).MatchString(v) {
			p.Refuse("http_status", "must be a status such as 404 or a class such as 5xx, or several with commas between")
		}
		c := clause{text: "(0"}
		for _, word := range slices.Compact(slices.Sorted(strings.SplitSeq(v, ","))) { // few enough for SQLite
			c.text += " OR http_status BETWEEN ? AND ?"
			c.args = append(c.args, strings.Replace(word, "xx", "00", 1), strings.Replace(word, "xx", "99", 1))
		}
		f.add("http_status", "", clause{c.text + ")", c.args})
	}
	if text := p.text("q"); text != "" { // in an id from its beginning, and in any place of what lists show of the call
		part := "%" + strings.NewReplacer("!", "!!", "%", "!%", "_", "!_").Replace(text) + "%"
		f.add("id", "", clause{`((method || ' ' || host || path || char(10) || agent || char(10) || caller || char(10) || model) LIKE ? ESCAPE '!'
OR id LIKE ? ESCAPE '!')`, []any{part, part[1:]}})
	}
	return f
}

// id reads a parameter that is a name.
func (p params) id(name string) string {
	v, ok := p.One(name)
	if ok && !schemas.ValidID(v) {
		p.Refuse(name, "must be 1 to 128 of A-Z a-z 0-9 . _ : -")
	}
	return v
}

// text reads a parameter that may be any text of one line.
func (p params) text(name string) string {
	v, ok := p.One(name)
	if ok && (v == "" || utf8.RuneCountInString(v) > 256 || !utf8.ValidString(v) || strings.ContainsFunc(v, unicode.IsControl)) {
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

func keyOf(cursor string) (at int64, ok bool) {
	at, err := strconv.ParseInt(cursor, 36, 64)
	return at, err == nil && at > 0 && cursor == cursorKey(at)
}
