package index

import (
	"context"
	"math"
	"slices"

	"weir/schemas"
)

// count counts the actions that a filter means. By time, kind, status, entry, agent and
// code that is done on the counts which the file keeps; by task and text the actions
// themselves are looked at.
func (s *store) count(ctx context.Context, n numbered) (*schemas.ActionCount, error) {
	out := &schemas.ActionCount{By: map[string]uint64{}}
	if n.none {
		return out, nil
	}
	add := func(status int, count int64) {
		if count <= 0 {
			return
		}
		name := StatusOpen
		if status > 0 && status <= len(schemas.Outcomes()) {
			name = string(schemas.Outcomes()[status-1])
		}
		out.By[name] += uint64(count)
		out.Total += uint64(count)
	}
	since, until := n.since, n.until
	if until == 0 {
		until = math.MaxInt64
	}
	if n.task != "" || n.text != "" {
		return out, s.countActions(ctx, n, since, until, add)
	}
	// The slots that lie whole in the range, and the actions of what is left at its ends.
	low, high := (since+int64(tallySlot)-1)/int64(tallySlot), until/int64(tallySlot)
	if low >= high {
		return out, s.countActions(ctx, n, since, until, add)
	}
	sums := map[int]int64{}
	sum := func(status int, count int64) { sums[status] += count }
	var c clause
	c.and("slot >= ? AND slot < ?", low, high)
	if n.tenant > 0 {
		c.and("tenant = ?", n.tenant)
	}
	rest := n.others("")
	c.and(rest.String(), rest.args...)
	if err := s.tallied(ctx, "SELECT status, sum(n) FROM tally WHERE "+c.String()+" GROUP BY status", c.args, sum); err != nil {
		return nil, err
	}
	for _, edge := range [][2]int64{{since, low * int64(tallySlot)}, {high * int64(tallySlot), until}} {
		if edge[0] < edge[1] && high*int64(tallySlot) > 0 {
			if err := s.countActions(ctx, n, edge[0], edge[1], sum); err != nil {
				return nil, err
			}
		}
	}
	for status, count := range sums {
		add(status, count)
	}
	return out, nil
}

// countActions counts one by one.
func (s *store) countActions(ctx context.Context, n numbered, since, until int64, add func(status int, count int64)) error {
	by, lead, rest := n.driver()
	n.within(&lead, since, until)
	query := "SELECT status, count(*) FROM " + from(by) + " WHERE " + lead.String() + " AND " + rest.String() + " GROUP BY status"
	return s.tallied(ctx, query, slices.Concat(lead.args, rest.args), add)
}

func (s *store) tallied(ctx context.Context, query string, args []any, add func(status int, count int64)) error {
	rows, err := s.db.QueryContext(ctx, query, args...) //nolint:gosec // only the index's own words are in it; what a caller gives is an argument
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var status int
		var count int64
		if err := rows.Scan(&status, &count); err != nil {
			return err
		}
		add(status, count)
	}
	return rows.Err()
}
