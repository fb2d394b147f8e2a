package index

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"weir/egress/stream"
	"weir/schemas"
)

// clause is a condition of an SQL query and its arguments.
type clause struct {
	text string
	args []any
}

func (c *clause) and(text string, args ...any) {
	if c.text != "" {
		c.text += " AND "
	}
	c.text += text
	c.args = append(c.args, args...)
}

// String is the clause as a condition; empty, it is met by all.
func (c *clause) String() string {
	if c.text == "" {
		return "1"
	}
	return c.text
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
	index string
	clause
}

// conditions are the parts of the filter without tenant and time, the most selective first. The
// columns of table figure have the same names.
func (f *filter) conditions() (all []condition) {
	add := func(on bool, index, text string, args ...any) {
		if on {
			all = append(all, condition{index, clause{text, args}})
		}
	}
	kind, stat := in("kind", f.kinds), in("status", f.status)
	open, oneKind := slices.Equal(f.status, []string{""}), len(f.kinds) == 1
	add(f.task != "", "by_task", "task = ? AND task <> ''", f.task)
	if f.entry != nil {
		add(*f.entry != "", "by_entry", "entry = ? AND entry <> ''", *f.entry)
		add(*f.entry == "", "", "entry = ''")
	}
	add(f.code != "", "by_code", "code = ? AND code <> ''", f.code)
	add(f.agent != "", "by_agent", "agent = ? AND agent <> ''", f.agent)
	add(f.host != "", "by_host", "host = ? AND host <> ''", f.host)
	add(open && oneKind, "by_work", "kind = ? AND status = ''", kind.args...)
	add(open && f.tenant == "", "by_open", "status = ''")
	add(f.caller != "", "by_caller", "caller = ? AND caller <> ''", f.caller)
	if f.damaged {
		stat.text, stat.args = "("+stat.text+" OR code = ?)", append(stat.args, schemas.Poison)
	}
	add(len(f.status) == 1 && !f.damaged, "by_status", stat.text, stat.args...)
	add(len(f.status) > 1 || f.damaged, "", stat.text, stat.args...)
	add(oneKind, "by_kind", kind.text, kind.args...)
	add(len(f.kinds) > 1, "", kind.text, kind.args...)
	if f.resolved != nil {
		add(*f.resolved, "", "resolution <> ''")
		add(!*f.resolved, "", "resolution = ''")
	}
	methods, answers := in("method", f.methods), f.answered()
	add(len(f.methods) > 0, "", methods.text, methods.args...)
	add(answers.text != "", "", answers.text, answers.args...)
	add(f.text != "", "", searched, likePart(f.text), likePart(f.text)[1:])
	return all
}

// searched is what a text is searched in: an id from its beginning, and what lists show of the call.
const searched = `((method || ' ' || host || path || char(10) || agent || char(10) || caller || char(10) || model) LIKE ? ESCAPE '!' OR id LIKE ? ESCAPE '!')`

// likePart is the pattern of a text in any place.
func likePart(text string) string {
	return "%" + strings.NewReplacer("!", "!!", "%", "!%", "_", "!_").Replace(text) + "%"
}

// answered is that the target has answered with one of some statuses.
func (f *filter) answered() (c clause) {
	for _, of := range f.answers {
		if c.text != "" {
			c.text += " OR "
		}
		c.text += "http_status BETWEEN ? AND ?"
		c.args = append(c.args, of[0], of[1])
	}
	if c.text != "" {
		c.text = "(" + c.text + ")"
	}
	return c
}

// detailed reports whether a filter asks for more than table figure has.
func (f *filter) detailed() bool {
	return f.task != "" || f.text != "" || f.resolved != nil || f.host != "" || f.caller != "" || len(f.methods) > 0 || len(f.answers) > 0
}

// selection selects the actions of a stretch of time. From reads those that the best SQL index
// yields; rest is checked of each.
func (f *filter) selection(since, until int64) (from, rest clause) {
	index := ""
	var lead clause
	if f.tenant != "" {
		index = "by_tenant"
		lead.and("tenant = ?", f.tenant)
	}
	led := false
	for _, c := range f.conditions() {
		if led || c.index == "" || f.tenant == "" && c.index != "by_open" {
			rest.and(c.text, c.args...)
			continue
		}
		led, index = true, c.index
		lead.and(c.text, c.args...)
	}
	if since > 0 {
		lead.and("at >= ?", since)
	}
	if until > 0 && until < math.MaxInt64 {
		lead.and("at < ?", until)
	}
	from = clause{"FROM action WHERE " + lead.String(), lead.args}
	if index != "" {
		from.text = "FROM action INDEXED BY " + index + " WHERE " + lead.String()
	}
	return from, rest
}

// newest reads a page of the actions that a query selects, the newest first. It looks at so many
// at most by the best SQL index. Next is the cursor after them, and empty if no others follow.
func (s *store) newest(ctx context.Context, q Query, looks int) (found []action, next string, err error) {
	until := q.cursor
	if q.until > 0 {
		until = min(until, q.until)
	}
	from, rest := q.selection(q.since, until)
	if q.live {
		state := in("state", q.open)
		rest.and("(status <> '' OR "+state.text+")", state.args...)
	}
	from.text += " ORDER BY at DESC LIMIT " + strconv.Itoa(looks)
	query := "SELECT " + columns + " FROM action WHERE at IN (SELECT at FROM (SELECT * " + from.text + ") WHERE " + rest.String() +
		" LIMIT " + strconv.Itoa(q.limit+1) + ") ORDER BY at DESC"
	err = s.rows(ctx, query, slices.Concat(from.args, rest.args), func(scan func(...any) error) error {
		found = append(found, action{})
		return scan(found[len(found)-1].fields()...)
	})
	if err != nil {
		return nil, "", err
	}
	if len(found) > q.limit {
		return found[:q.limit], cursorKey(found[q.limit-1].at), nil
	}
	var at int64
	err = s.db.QueryRowContext(ctx, "SELECT at FROM (SELECT at "+from.text+") LIMIT 1 OFFSET "+strconv.Itoa(looks-1), from.args...).Scan(&at)
	if errors.Is(err, sql.ErrNoRows) {
		return found, "", nil
	}
	return found, cursorKey(at), err
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

// count counts the actions that a filter selects. By time, kind, status, entry, agent and code
// it reads table figure; by anything else it looks at the actions themselves.
func (s *store) count(ctx context.Context, f filter) (*schemas.ActionCount, error) {
	since, until := f.since, f.until
	if until == 0 {
		until = math.MaxInt64
	}
	// The slots that are wholly in the range, and the actions of what is left at its ends.
	low, high := (since+int64(tallySlot)-1)/int64(tallySlot), until/int64(tallySlot)
	edges := [][2]int64{{since, low * int64(tallySlot)}, {high * int64(tallySlot), until}}
	var queries []string
	var args []any
	if f.detailed() || low >= high {
		edges = [][2]int64{{since, until}}
	} else {
		c := f.figures(0, low, high)
		queries, args = append(queries, "SELECT status, n FROM figure WHERE "+c.text), c.args
	}
	for _, e := range edges {
		if e[0] < e[1] {
			from, rest := f.selection(e[0], e[1])
			queries = append(queries, "SELECT status, 1 AS n "+from.text+" AND "+rest.String())
			args = slices.Concat(args, from.args, rest.args)
		}
	}
	out := &schemas.ActionCount{By: map[string]uint64{}}
	if len(queries) == 0 {
		return out, nil
	}
	query := "SELECT iif(status = '', 'open', status), sum(n) FROM (" + strings.Join(queries, " UNION ALL ") +
		") GROUP BY status HAVING sum(n) > 0"
	return out, s.rows(ctx, query, args, func(scan func(...any) error) error {
		var name string
		var n uint64
		err := scan(&name, &n)
		out.By[name] = n
		out.Total += n
		return err
	})
}

// figures selects the rows of table figure of a level, from one slot to before another, by the
// filter's conditions but its time.
func (f *filter) figures(level, low, high int64) (c clause) {
	c.and("level = ? AND slot >= ? AND slot < ?", level, low, high)
	if f.tenant != "" {
		c.and("tenant = ?", f.tenant)
	}
	for _, of := range f.conditions() {
		c.and(of.text, of.args...)
	}
	return c
}

// List is the page of actions that a query selects.
func (x *Index) List(ctx context.Context, q Query) (page schemas.ActionPage, err error) {
	err = x.with(ctx, func(s *store, fresh schemas.Freshness) error {
		found, next, err := s.newest(ctx, q, x.cfg.Looks)
		if err != nil {
			return err
		}
		page = schemas.ActionPage{Items: []schemas.ActionEntry{}, Next: next, Freshness: fresh}
		for _, a := range found {
			page.Items = append(page.Items, a.listed(q.named))
		}
		if q.count {
			page.Count, err = s.count(ctx, q.filter)
		}
		return err
	})
	return page, err
}

// listed is what a list shows of an action.
func (a *action) listed(tenant bool) schemas.ActionEntry {
	e := schemas.ActionEntry{
		ID: a.ref.ID, Kind: a.ref.Kind, Called: a.called, HTTPStatus: a.httpStatus, Agent: a.agent, Caller: a.caller, Status: schemas.Status(cmp.Or(a.status, a.state)), Class: schemas.Class(a.class),
		Created: instant(a.created), Deadline: instant(a.deadline), Settled: instant(a.settled),
		Entry: a.entry, Task: a.task, Code: schemas.Code(a.code), Attempts: a.attempts, Resolution: a.resolution,
		URL: stream.ActionURL(a.ref.ID), EventsURL: stream.EventsURL(a.ref.ID),
	}
	e.ModelUse = schemas.ModelUse{
		Model: a.model, TokensIn: a.tokensIn, TokensOut: a.tokensOut, CostUSD: float64(a.nanoUSD) / 1e9, TTFTMS: a.ttft,
	}
	if a.ref.Kind == schemas.KindRun {
		e.TaskType = a.agent
	}
	if tenant {
		e.Tenant = a.ref.Tenant
	}
	if a.status != "" {
		ms := stream.Milliseconds(time.Duration(max(a.settled-a.at, 0))) // both by the log's clock, which may have been set between
		e.DurationMS = &ms
	}
	return e
}

func instant(ns int64) time.Time {
	if ns == 0 {
		return time.Time{}
	}
	return time.Unix(0, ns).UTC()
}

// Refs names the actions of a selection, the newest first.
func (x *Index) Refs(ctx context.Context, of stream.Selection) (out stream.Selected, err error) {
	q, err := selection(of)
	if err != nil {
		return out, err
	}
	err = x.with(ctx, func(s *store, fresh schemas.Freshness) error {
		found, next, err := s.newest(ctx, q, x.cfg.Looks)
		out = stream.Selected{Next: next, Freshness: fresh}
		for _, a := range found {
			out.Items = append(out.Items, stream.SelectedRef{Ref: a.ref, Next: cursorKey(a.at)})
		}
		return err
	})
	return out, err
}
