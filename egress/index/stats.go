package index

import (
	"cmp"
	"context"
	"slices"
	"time"

	"weir/schemas"
)

// Stats are the figures that a query asks for.
func (x *Index) Stats(ctx context.Context, q StatsQuery) (out schemas.Stats, err error) {
	err = x.with(ctx, func(ctx context.Context, s *store, lag lag) error {
		out, err = s.stats(ctx, q, x.cfg.Now())
		out.Freshness = schemas.Freshness{AsOf: lag.asOf, Behind: lag.behind}
		return err
	})
	return out, err
}

// series are the figures of one group, or of all, while they are gathered.
type series struct {
	accepted, settled uint64
	all               spread
	outcomes          map[string]uint64

	acceptedAt, settledAt []uint64
	spreadAt              []spread
	outcomesAt            map[string][]uint64
}

func newSeries(points int) *series {
	return &series{
		all: spread{}, outcomes: map[string]uint64{},
		acceptedAt: make([]uint64, points), settledAt: make([]uint64, points), spreadAt: make([]spread, points), outcomesAt: map[string][]uint64{},
	}
}

// add counts a slot in. A spread of none says that the actions were accepted in it.
func (s *series) add(point int, outcome string, n uint64, of spread) {
	if outcome == "" {
		s.accepted += n
		s.acceptedAt[point] += n
		return
	}
	s.settled += n
	s.settledAt[point] += n
	s.outcomes[outcome] += n
	if s.outcomesAt[outcome] == nil {
		s.outcomesAt[outcome] = make([]uint64, len(s.settledAt))
	}
	s.outcomesAt[outcome][point] += n
	if s.spreadAt[point] == nil {
		s.spreadAt[point] = spread{}
	}
	s.spreadAt[point].add(of)
	s.all.add(of)
}

func (s *series) sum(over time.Duration) schemas.StatsSum {
	out := schemas.StatsSum{Accepted: s.accepted, Settled: s.settled, P50MS: s.all.quantile(0.5), P99MS: s.all.quantile(0.99), Outcomes: s.outcomes}
	if over > 0 {
		out.Rate = round(float64(s.settled)/over.Seconds(), 4)
	}
	return out
}

func quantiles(of []spread, q float64) schemas.Latencies {
	out := make(schemas.Latencies, len(of))
	for i, s := range of {
		out[i] = s.quantile(q)
	}
	return out
}

// stats reads the slots of the widest level that a step is a multiple of.
func (s *store) stats(ctx context.Context, q StatsQuery, now time.Time) (schemas.Stats, error) {
	points := int(q.to - q.from)
	step := int64(q.step)
	out := schemas.Stats{Since: time.Unix(0, q.from*step).UTC(), Until: time.Unix(0, q.to*step).UTC(), StepS: int(q.step / time.Second)}
	total, groups := newSeries(points), map[string]*series{}
	n, err := s.number(ctx, q.filter)
	if err != nil {
		return out, err
	}
	if !n.none {
		if err := s.gather(ctx, q, n, total, groups); err != nil {
			return out, err
		}
		if out.Open, err = s.open(ctx, n); err != nil {
			return out, err
		}
	}
	over := min(out.Until.Sub(out.Since), now.Sub(out.Since))
	out.Total = total.sum(over)
	out.Points = schemas.StatsPoints{
		Time: make([]time.Time, points), Accepted: total.acceptedAt, Settled: total.settledAt,
		P50MS: quantiles(total.spreadAt, 0.5), P99MS: quantiles(total.spreadAt, 0.99), Outcomes: total.outcomesAt,
	}
	for i := range out.Points.Time {
		out.Points.Time[i] = out.Since.Add(time.Duration(i) * q.step)
	}
	for name, g := range groups {
		out.Groups = append(out.Groups, schemas.StatsGroup{Name: name, StatsSum: g.sum(over), Points: schemas.StatsGroupPoints{
			Settled: g.settledAt, P50MS: quantiles(g.spreadAt, 0.5), P99MS: quantiles(g.spreadAt, 0.99),
		}})
	}
	slices.SortFunc(out.Groups, func(a, b schemas.StatsGroup) int {
		return cmp.Or(cmp.Compare(b.Settled, a.Settled), cmp.Compare(b.Accepted, a.Accepted), cmp.Compare(a.Name, b.Name))
	})
	out.Groups = out.Groups[:min(len(out.Groups), mostGroups)]
	return out, nil
}

// gather adds the slots up.
func (s *store) gather(ctx context.Context, q StatsQuery, n numbered, total *series, groups map[string]*series) error {
	level := levels[0]
	for _, l := range levels {
		if q.step%l == 0 {
			level = l
		}
	}
	per := int64(q.step / level)
	var c clause
	c.and("level = ? AND slot >= ? AND slot < ?", int64(level), q.from*per, q.to*per)
	if n.tenant > 0 {
		c.and("tenant = ?", n.tenant)
	}
	if len(n.kinds) > 0 {
		c.in("kind", n.kinds)
	}
	if n.entry != nil {
		c.and("entry = ?", *n.entry)
		c.and("status > 0")
	}
	//nolint:gosec // as in read
	rows, err := s.db.QueryContext(ctx, `SELECT p.slot, k.text, coalesce(e.text, ''), p.status, p.n, p.spread FROM (SELECT * FROM pace WHERE `+c.String()+`) p
JOIN word k ON k.id = p.kind LEFT JOIN word e ON e.id = p.entry`, c.args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var slot, count int64
		var kind, entry string
		var status int
		var packed []byte
		if err := rows.Scan(&slot, &kind, &entry, &status, &count, &packed); err != nil {
			return err
		}
		of := spread{}
		of.unpack(packed)
		point, outcome := int(slot/per-q.from), outcomeName(status)
		total.add(point, outcome, uint64(max(count, 0)), of)
		name, ok := map[string]string{"kind": kind, "entry": entry, "outcome": outcome}[q.by]
		if !ok || outcome == "" && q.by != "kind" {
			continue
		}
		if groups[name] == nil {
			groups[name] = newSeries(len(total.settledAt))
		}
		groups[name].add(point, outcome, uint64(max(count, 0)), of)
	}
	return rows.Err()
}

// open is what has not ended. An action has no entry before its end.
func (s *store) open(ctx context.Context, n numbered) (schemas.StatsOpen, error) {
	var out schemas.StatsOpen
	n.status, n.entry, n.since, n.until = []int64{0}, nil, 0, 0
	count, err := s.count(ctx, n)
	if err != nil {
		return out, err
	}
	if out.Count = count.Total; out.Count == 0 {
		return out, nil
	}
	by, lead, rest := n.driver()
	var at *int64
	query := "SELECT min(at) FROM (SELECT at FROM " + from(by) + " WHERE " + lead.String() + " AND " + rest.String() + " ORDER BY at LIMIT 1)"
	if err := s.db.QueryRowContext(ctx, query, append(lead.args, rest.args...)...).Scan(&at); err != nil {
		return out, err
	}
	if at != nil {
		out.Oldest = instant(*at)
	}
	return out, nil
}
