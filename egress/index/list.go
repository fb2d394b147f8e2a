package index

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"weir/egress/stream"
	"weir/schemas"
)

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

// condition is a part of a filter. If index is not empty, an SQL index of that name answers it,
// together with the tenant, in the order of a list.
type condition struct {
	on    bool // the filter has it
	index string
	clause
}

// conditions are the parts of the filter without tenant and time, the most selective first. The
// columns of table figure have the same names.
func (f *filter) conditions() []condition {
	is := func(column, value string) condition {
		return condition{value != "", "by_" + column, clause{column + " = ? AND " + column + " <> ''", []any{value}}}
	}
	open, oneKind, oneStatus := slices.Equal(f.status, openStatuses()), len(f.kinds) == 1, len(f.status) == 1 && !f.damaged
	kind, status, methods := in("kind", f.kinds), in("status", f.status), in("method", f.methods)
	if f.damaged {
		status = clause{"(" + status.text + " OR code = ?)", append(status.args, schemas.Poison)}
	}
	if open {
		status = clause{text: isOpen}
	}
	answered, classes := in("http_status", f.answers), in("(http_status / 100) || 'xx'", f.answers)
	text := likePart(f.text)
	all := []condition{
		is("task", f.task),
		is("entry", *cmp.Or(f.entry, new(string))),
		{f.entry != nil && *f.entry == "", "", clause{"entry = ''", nil}},
		is("code", f.code),
		is("agent", f.agent),
		is("host", f.host),
		{open && oneKind && f.tenant != "", "by_work", clause{kind.text + " AND " + isOpen, kind.args}},
		{open && f.tenant != "", "by_open", status},
		{open && f.tenant == "", "all_open", status},
		is("caller", f.caller),
		{oneStatus, "by_status", status},
		{len(f.status) > 0 && !oneStatus && !open, "", status},
		{oneKind, "by_kind", kind},
		{len(f.kinds) > 1, "", kind},
		{f.resolved != nil && *f.resolved, "", clause{"resolution <> ''", nil}},
		{f.resolved != nil && !*f.resolved, "", clause{"resolution = ''", nil}},
		{len(f.methods) > 0, "", methods},
		{len(f.answers) > 0, "", clause{"(" + answered.text + " OR " + classes.text + ")", slices.Concat(answered.args, classes.args)}},
		{f.text != "", "", clause{searched, []any{text, text[1:]}}},
	}
	return slices.DeleteFunc(all, func(c condition) bool { return !c.on })
}

// searched is what a text is searched in: an id from its beginning, and what lists show of the call.
const searched = `((method || ' ' || host || path || char(10) || agent || char(10) || caller || char(10) || model) LIKE ? ESCAPE '!' OR id LIKE ? ESCAPE '!')`

// likePart is the pattern of a text in any place.
func likePart(text string) string {
	return "%" + strings.NewReplacer("!", "!!", "%", "!%", "_", "!_").Replace(text) + "%"
}

// detailed reports whether a filter asks for more than table figure has.
func (f *filter) detailed() bool {
	return f.task != "" || f.text != "" || f.resolved != nil || f.host != "" || f.caller != "" || len(f.methods) > 0 || len(f.answers) > 0
}

// actions selects the actions of a stretch of time. From reads those that the best SQL index yields;
// rest is checked of each.
func (f *filter) actions(since, until int64) (from, rest clause) {
	index, lead := "NOT INDEXED", clause{text: "at >= ? AND at < ?", args: []any{since, cmp.Or(until, math.MaxInt64)}}
	if f.tenant != "" {
		index, lead = "INDEXED BY by_tenant", lead.and("tenant = ?", f.tenant)
	}
	rest, led := clause{text: "1"}, false
	for _, c := range f.conditions() {
		if led || c.index == "" || f.tenant == "" && c.index != "all_open" {
			rest = rest.and(c.text, c.args...)
			continue
		}
		led, index, lead = true, "INDEXED BY "+c.index, lead.and(c.text, c.args...)
	}
	return clause{"FROM action " + index + " WHERE " + lead.text, lead.args}, rest
}

// figures selects the rows of table figure of a level, from one slot to before another, by the
// filter's conditions but its time.
func (f *filter) figures(level, low, high int64) clause {
	c := clause{"FROM figure WHERE level = ? AND slot >= ? AND slot < ?", []any{level, low, high}}
	if f.tenant != "" {
		c = c.and("tenant = ?", f.tenant)
	}
	for _, of := range f.conditions() {
		c = c.and(of.text, of.args...)
	}
	return c
}

// rows runs do for each row of a query.
func (s *store) rows(ctx context.Context, query string, args []any, do func(scan func(...any) error) error) error {
	rows, err := s.db.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := do(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}

// newest reads a page of the actions that a filter selects, the newest first, whose keys are below the
// cursor (0: all). It looks at so many at most by the best SQL index. Next is the cursor after them, and
// empty if no others follow.
func (s *store) newest(ctx context.Context, f filter, cursor int64, limit, looks int) (found []action, next string, err error) {
	until := min(cmp.Or(cursor, math.MaxInt64), cmp.Or(f.until, math.MaxInt64))
	from, rest := f.actions(f.since, until)
	from.text += " ORDER BY at DESC LIMIT " + strconv.Itoa(looks)
	query := "SELECT * FROM action WHERE at IN (SELECT at FROM (SELECT * " + from.text + ") WHERE " + rest.text +
		" LIMIT " + strconv.Itoa(limit+1) + ") ORDER BY at DESC"
	err = s.rows(ctx, query, slices.Concat(from.args, rest.args), func(scan func(...any) error) error {
		found = append(found, action{})
		return scan(found[len(found)-1].fields()...)
	})
	if err != nil {
		return nil, "", err
	}
	if len(found) > limit {
		return found[:limit], cursorKey(found[limit-1].at), nil
	}
	var at int64
	err = s.db.QueryRowContext(ctx, "SELECT at FROM (SELECT at "+from.text+") LIMIT 1 OFFSET "+strconv.Itoa(looks-1), from.args...).Scan(&at)
	if errors.Is(err, sql.ErrNoRows) {
		return found, "", nil
	}
	return found, cursorKey(at), err
}

// count counts the actions that a filter selects. By time, kind, status, entry, agent and code
// it reads table figure; by anything else it looks at the actions themselves.
func (s *store) count(ctx context.Context, f filter) (*schemas.ActionCount, error) {
	const slot = int64(5 * time.Minute)
	since, until := f.since, cmp.Or(f.until, math.MaxInt64)
	// The slots that are wholly in the range, and the actions of what is left at its ends.
	low, high := (since+slot-1)/slot, until/slot
	edges := [][2]int64{{since, low * slot}, {high * slot, until}}
	c := clause{text: "SELECT '' AS status, 0 AS n WHERE 0"}
	union := func(text string, args []any) {
		c = clause{c.text + " UNION ALL " + text, slices.Concat(c.args, args)}
	}
	if f.detailed() || low >= high {
		edges = [][2]int64{{since, until}}
	} else {
		whole := f.figures(0, low, high)
		union("SELECT status, n "+whole.text, whole.args)
	}
	for _, e := range edges {
		if e[0] < e[1] {
			from, rest := f.actions(e[0], e[1])
			union("SELECT status, 1 "+from.text+" AND "+rest.text, slices.Concat(from.args, rest.args))
		}
	}
	out := &schemas.ActionCount{By: map[string]uint64{}}
	query := "SELECT iif(" + isOpen + ", 'open', status), sum(n) FROM (" + c.text + ") GROUP BY 1 HAVING sum(n) > 0"
	return out, s.rows(ctx, query, c.args, func(scan func(...any) error) error {
		var name string
		var n uint64
		err := scan(&name, &n)
		out.By[name] = n
		out.Total += n
		return err
	})
}

// List answers GET /v1/actions. Tenant is whose actions are read; empty: all tenants'.
func (x *Index) List(ctx context.Context, q url.Values, tenant string, now time.Time) (page schemas.ActionPage, err error) {
	p := parse(q, "kind", "status", "entry", "agent", "host", "method", "http_status", "caller", "task", "code", "resolved", "q", "since", "until", "tenant", "limit", "cursor", "count")
	f, limit, count := p.filter(tenant, now), p.Limit(50), p.Bool("count")
	cursor, _ := keyOf(p.Cursor(func(s string) bool { _, ok := keyOf(s); return ok }))
	if p.Err != nil {
		return page, p.Err
	}
	err = x.with(ctx, func(s *store, fresh schemas.Freshness) error {
		found, next, err := s.newest(ctx, f, cursor, limit, x.cfg.Looks)
		if err != nil {
			return err
		}
		page = schemas.ActionPage{Items: []schemas.ActionEntry{}, Next: next, Freshness: fresh}
		for _, a := range found {
			page.Items = append(page.Items, a.listed(f.named))
		}
		if count {
			page.Count, err = s.count(ctx, f)
		}
		return err
	})
	return page, err
}

// listed is what a list shows of an action.
func (a *action) listed(tenant bool) schemas.ActionEntry {
	e := a.ActionEntry
	e.URL, e.EventsURL, e.CostUSD = stream.ActionURL(e.ID), stream.EventsURL(e.ID), float64(a.nanoUSD)/1e9
	if e.Kind == schemas.KindRun {
		e.TaskType = e.Agent
	}
	if !tenant {
		e.Tenant = ""
	}
	if !e.Settled.IsZero() {
		ms := stream.Milliseconds(max(e.Settled.Sub(timeOf(a.at)), 0)) // both by the log's clock, which may have been set between
		e.DurationMS = &ms
	}
	return e
}

// Refs names the actions of a selection, the newest first.
func (x *Index) Refs(ctx context.Context, of stream.Selection) (out stream.Selected, err error) {
	f := filter{tenant: of.Tenant, kinds: []string{string(of.Kind)}, damaged: len(of.Ended) > 0}
	named := words(of.Ended)
	if of.Open {
		named = append(named, StatusOpen)
	}
	f.of(named)
	cursor, ok := keyOf(of.Cursor)
	if !ok && of.Cursor != "" {
		return out, stream.Invalid("the parameter cursor must be the next of an earlier page")
	}
	err = x.with(ctx, func(s *store, fresh schemas.Freshness) error {
		found, next, err := s.newest(ctx, f, cursor, of.Limit, x.cfg.Looks)
		out = stream.Selected{Next: next, Freshness: fresh}
		for _, a := range found {
			ref := schemas.Ref{Tenant: a.Tenant, Kind: a.Kind, ID: a.ID}
			out.Items = append(out.Items, stream.SelectedRef{Ref: ref, Next: cursorKey(a.at)})
		}
		return err
	})
	return out, err
}
