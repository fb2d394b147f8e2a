package index

import (
	"context"
	"database/sql"
	"errors"
	"math"
	"strings"

	"weir/schemas"
)

// clause is a part of a query and its arguments.
type clause struct {
	text []string
	args []any
}

func (c *clause) and(text string, args ...any) {
	c.text = append(c.text, text)
	c.args = append(c.args, args...)
}

func (c *clause) String() string {
	if len(c.text) == 0 {
		return "1"
	}
	return strings.Join(c.text, " AND ")
}

// in is that a column has one of some values.
func (c *clause) in(column string, values []int64) {
	if len(values) == 1 {
		c.and(column+" = ?", values[0])
		return
	}
	args := make([]any, len(values))
	for i, v := range values {
		args[i] = v
	}
	c.and(column+" IN (?"+strings.Repeat(", ?", len(values)-1)+")", args...)
}

// numbered is a filter in the numbers of the file.
type numbered struct {
	filter

	none   bool // it names a word that the file has not: nothing can fit
	tenant int64
	kinds  []int64
	status []int64
	entry  *int64
	agent  int64
	code   int64
	poison int64 // 0: only what says so has a status
}

// number looks the words of a filter up.
func (s *store) number(ctx context.Context, f filter) (numbered, error) {
	out := numbered{filter: f}
	look := func(text string) (int64, error) {
		if text == "" {
			return 0, nil
		}
		var n int64
		err := s.db.QueryRowContext(ctx, "SELECT id FROM word WHERE text = ?", text).Scan(&n)
		if errors.Is(err, sql.ErrNoRows) {
			return -1, nil
		}
		return n, err
	}
	var errs []error
	get := func(text string) int64 {
		n, err := look(text)
		errs = append(errs, err)
		return n
	}
	out.tenant, out.agent, out.code = get(f.tenant), get(f.agent), get(f.code)
	if f.entry != nil {
		n := get(*f.entry)
		out.entry = &n
		out.none = n < 0
	}
	for _, k := range f.kinds {
		if n := get(k); n > 0 {
			out.kinds = append(out.kinds, n)
		}
	}
	if f.damaged {
		out.poison = max(get(string(schemas.Poison)), 0)
	}
	for _, o := range f.status {
		out.status = append(out.status, statusOf(o))
	}
	if len(f.open) > 0 {
		out.status = append(out.status, 0)
	}
	out.none = out.none || out.tenant < 0 || out.agent < 0 || out.code < 0 || len(f.kinds) > 0 && len(out.kinds) == 0
	return out, errors.Join(errs...)
}

// within is that an action was accepted in the filter's time.
func (n numbered) within(c *clause, since, until int64) {
	if since > 0 {
		c.and("at >= ?", since)
	}
	if until > 0 && until < math.MaxInt64 {
		c.and("at < ?", until)
	}
}

// driver is the condition that an index of the file answers, and which: the actions
// under it are met in the order of the list. The rest is looked at one by one.
func (n numbered) driver() (by string, lead, rest clause) {
	type choice struct {
		by   string
		on   bool
		text string
		args []any
	}
	tenant := n.tenant > 0
	for _, c := range []choice{
		{"by_task", tenant && n.task != "", "task = ? AND task <> ''", []any{n.task}},
		{"by_entry", tenant && n.entry != nil && *n.entry > 0, "entry = ? AND entry <> 0", args(n.entry)},
		{"by_code", tenant && n.code > 0, "code = ? AND code <> 0", []any{n.code}},
		{"by_type", tenant && n.agent > 0, "task_type = ? AND task_type <> 0", []any{n.agent}},
		{"by_work", tenant && len(n.kinds) == 1 && len(n.status) == 1 && n.status[0] == 0, "kind = ? AND status = 0", first(n.kinds)},
		{"by_status", tenant && len(n.status) == 1 && n.poison == 0, "status = ?", first(n.status)},
		{"by_open", !tenant && len(n.status) == 1 && n.status[0] == 0, "status = 0", nil},
		{"by_kind", tenant && len(n.kinds) == 1, "kind = ?", first(n.kinds)},
		{"by_tenant", tenant, "", nil},
	} {
		if c.on {
			by = c.by
			if tenant {
				lead.and("tenant = ?", n.tenant)
			}
			if c.text != "" {
				lead.and(c.text, c.args...)
			}
			break
		}
	}
	return by, lead, n.others(by)
}

func args(v *int64) []any {
	if v == nil {
		return nil
	}
	return []any{*v}
}

func first(v []int64) []any {
	if len(v) == 0 {
		return nil
	}
	return []any{v[0]}
}

// others are the conditions that a driver leaves over.
func (n numbered) others(by string) (c clause) {
	if len(n.kinds) > 0 && by != "by_kind" && by != "by_work" {
		c.in("kind", n.kinds)
	}
	switch {
	case len(n.status) == 0 || by == "by_status" || by == "by_open" || by == "by_work":
	case n.poison > 0:
		var either clause
		either.in("status", n.status)
		c.and("("+either.String()+" OR code = ?)", append(either.args, n.poison)...)
	default:
		c.in("status", n.status)
	}
	if n.entry != nil && by != "by_entry" {
		c.and("entry = ?", *n.entry)
	}
	if n.agent > 0 && by != "by_type" {
		c.and("task_type = ?", n.agent)
	}
	if n.code > 0 && by != "by_code" {
		c.and("code = ?", n.code)
	}
	if n.task != "" && by != "by_task" {
		c.and("task = ?", n.task)
	}
	if n.text != "" {
		c.and("instr(id, ?) > 0", n.text)
	}
	return c
}

// from is the part of a query behind FROM.
func from(by string) string {
	if by == "" {
		return "action"
	}
	return "action INDEXED BY " + by
}
