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

// List answers GET /v1/actions. Tenant is whose actions are read; empty: all tenants'.
func (x *Index) List(ctx context.Context, q url.Values, tenant string, now time.Time) (page schemas.ActionPage, err error) {
	p := params{stream.NewParams(q, "kind", "status", "entry", "agent", "host", "method", "http_status", "caller", "task", "code", "resolved", "q", "since", "until", "tenant", "limit", "cursor", "count")}
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
			page.Items = append(page.Items, a.listed(p.Has("tenant")))
		}
		if count {
			page.Count, err = s.count(ctx, f)
		}
		return err
	})
	return page, err
}

// Refs names the actions of a selection, the newest first.
func (x *Index) Refs(ctx context.Context, of stream.Selection) (out stream.Selected, err error) {
	f, named := filter{tenant: of.Tenant}, words(of.Ended)
	if of.Open {
		named = append(named, StatusOpen)
	}
	f.of([]string{string(of.Kind)}, named, "", len(of.Ended) > 0)
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
func (s *store) newest(ctx context.Context, f filter, cursor int64, limit, looks int) (found []*action, next string, err error) {
	from, rest := f.actions(f.since, min(cmp.Or(cursor, math.MaxInt64), cmp.Or(f.until, math.MaxInt64)))
	from.text += " ORDER BY at DESC LIMIT " + strconv.Itoa(looks)
	query := "SELECT * FROM action WHERE at IN (SELECT at FROM (SELECT * " + from.text + ") WHERE " + rest.text +
		" LIMIT " + strconv.Itoa(limit+1) + ") ORDER BY at DESC"
	err = s.rows(ctx, query, slices.Concat(from.args, rest.args), func(scan func(...any) error) error {
		a := &action{}
		found = append(found, a)
		return scan(a.fields()...)
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
	const slot = int64(tallySlot)
	since, until := f.since, cmp.Or(f.until, math.MaxInt64)
	// The slots that are wholly in the range, and the actions of what is left at its ends.
	low, high := (since+slot-1)/slot, until/slot
	edges := [][2]int64{{since, low * slot}, {high * slot, until}}
	var queries []string
	var args []any
	add := func(n string, of clause) {
		queries, args = append(queries, "SELECT status, "+n+" AS n "+of.text), append(args, of.args...)
	}
	if f.detailed() || low >= high {
		edges = [][2]int64{{since, until}}
	} else {
		add("n", f.figures(0, low, high))
	}
	for _, e := range edges {
		if e[0] < e[1] {
			add("1", f.all(e[0], e[1]))
		}
	}
	out := &schemas.ActionCount{By: map[string]uint64{}}
	if len(queries) == 0 { // no time at all
		return out, nil
	}
	query := "SELECT iif(status = '', 'open', status), sum(n) FROM (" + strings.Join(queries, " UNION ALL ") + ") GROUP BY status HAVING sum(n) > 0"
	return out, s.rows(ctx, query, args, func(scan func(...any) error) error {
		var name string
		var n uint64
		err := scan(&name, &n)
		out.By[name] = n
		out.Total += n
		return err
	})
}
