package index

import (
	"cmp"
	"context"
	"database/sql"
	"slices"
	"time"

	"weir/schemas"
)

// Stats are the figures that a query selects.
func (x *Index) Stats(ctx context.Context, q StatsQuery) (out schemas.Stats, err error) {
	err = x.with(ctx, func(s *store, fresh schemas.Freshness) error {
		out, err = s.stats(ctx, q, time.Now())
		out.Freshness = fresh
		return err
	})
	return out, err
}

// series are the figures of one group, or of all, for each step.
type series struct {
	accepted, settled []uint64
	spread            []spread
	outcomes          map[string][]uint64
	schemas.StatsSum  // of all steps

	all spread // as above
}

func newSeries(points int) *series {
	return &series{
		make([]uint64, points), make([]uint64, points), make([]spread, points),
		map[string][]uint64{},
		schemas.StatsSum{Outcomes: map[string]uint64{}},
		nil,
	}
}

// add adds a slot to a step. Without an outcome it counts the actions that were accepted in it.
func (s *series) add(point int, outcome string, n uint64, packed []byte) {
	if outcome == "" {
		s.accepted[point] += n
		s.Accepted += n
		return
	}
	if s.outcomes[outcome] == nil {
		s.outcomes[outcome] = make([]uint64, len(s.settled))
	}
	s.settled[point] += n
	s.Settled += n
	s.outcomes[outcome][point] += n
	s.Outcomes[outcome] += n
	s.spread[point].unpack(packed)
	s.all.unpack(packed)
}

func (s *series) sum(over time.Duration) schemas.StatsSum {
	s.P50MS, s.P99MS = s.all.quantile(0.5), s.all.quantile(0.99)
	if over > 0 {
		s.Rate = round(float64(s.Settled)/over.Seconds(), 4)
	}
	return s.StatsSum
}

func (s *series) quantiles(q float64) schemas.Latencies {
	out := make(schemas.Latencies, len(s.spread))
	for i, of := range s.spread {
		out[i] = of.quantile(q)
	}
	return out
}

func (s *store) stats(ctx context.Context, q StatsQuery, now time.Time) (schemas.Stats, error) {
	points := int(q.to - q.from)
	step := int64(q.step)
	out := schemas.Stats{Since: instant(q.from * step), Until: instant(q.to * step), StepS: int(q.step / time.Second)}
	total, groups, err := s.gather(ctx, q)
	if err != nil {
		return out, err
	}
	if out.Open, err = s.open(ctx, q.filter); err != nil {
		return out, err
	}
	over := min(out.Until.Sub(out.Since), now.Sub(out.Since))
	out.Total = total.sum(over)
	out.Points = schemas.StatsPoints{
		Time: make([]time.Time, points), Accepted: total.accepted, Settled: total.settled,
		P50MS: total.quantiles(0.5), P99MS: total.quantiles(0.99), Outcomes: total.outcomes,
	}
	for i := range out.Points.Time {
		out.Points.Time[i] = out.Since.Add(time.Duration(i) * q.step)
	}
	for name, g := range groups {
		out.Groups = append(out.Groups, schemas.StatsGroup{Name: name, StatsSum: g.sum(over), Points: schemas.StatsGroupPoints{
			Settled: g.settled, P50MS: g.quantiles(0.5), P99MS: g.quantiles(0.99),
		}})
	}
	slices.SortFunc(out.Groups, func(a, b schemas.StatsGroup) int {
		return cmp.Or(cmp.Compare(b.Settled, a.Settled), cmp.Compare(b.Accepted, a.Accepted), cmp.Compare(a.Name, b.Name))
	})
	out.Groups = out.Groups[:min(len(out.Groups), mostGroups)]
	return out, nil
}

// gather adds up the slots of the widest level that the step is a multiple of.
func (s *store) gather(ctx context.Context, q StatsQuery) (total *series, groups map[string]*series, err error) {
	level := levels[0]
	for _, l := range levels {
		if q.step%l == 0 {
			level = l
		}
	}
	per, points := int64(q.step/level), int(q.to-q.from)
	c := q.figures(int64(level), q.from*per, q.to*per)
	if q.entry != nil {
		c.and("status <> ''") // an action has no entry before its end
	}
	total, groups = newSeries(points), map[string]*series{}
	by := map[string]string{"": "''", "kind": "kind", "entry": "entry", "outcome": "status"}[q.by]
	query := "SELECT slot, status, n, spread, " + by + " FROM figure WHERE " + c.text
	return total, groups, s.rows(ctx, query, c.args, func(scan func(...any) error) error {
		var slot int64
		var n uint64
		var status, name string
		var packed sql.RawBytes
		if err := scan(&slot, &status, &n, &packed, &name); err != nil {
			return err
		}
		point := int(slot/per - q.from)
		total.add(point, status, n, packed)
		if q.by == "" || status == "" && q.by != "kind" {
			return nil
		}
		if groups[name] == nil {
			groups[name] = newSeries(points)
		}
		groups[name].add(point, status, n, packed)
		return nil
	})
}

// open is what has not ended.
func (s *store) open(ctx context.Context, f filter) (out schemas.StatsOpen, err error) {
	f.status, f.entry = []string{""}, nil
	from, rest := f.selection(0, 0)
	var at int64
	query := "SELECT count(*), ifnull(min(at), 0) " + from.text + " AND " + rest.String()
	err = s.db.QueryRowContext(ctx, query, slices.Concat(from.args, rest.args)...).Scan(&out.Count, &at)
	out.Oldest = instant(at)
	return out, err
}
