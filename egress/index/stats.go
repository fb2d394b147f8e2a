package index

import (
	"cmp"
	"context"
	"maps"
	"math"
	"net/url"
	"slices"
	"strconv"
	"time"

	"weir/egress/stream"
	"weir/schemas"
)

// Without a step there are about wantedPoints points; there are at most mostPoints, and at most
// mostGroups groups.
const (
	wantedPoints = 120
	mostPoints   = 1000
	mostGroups   = 50
)

// statsQuery is a request for figures.
type statsQuery struct {
	filter

	from, to int64 // whole steps
	step     time.Duration
	by       string
}

// parseStats reads the parameters of GET /v1/stats.
func parseStats(values url.Values, tenant string, now time.Time) (q statsQuery, err error) {
	p := parse(values, "since", "until", "step", "by", "kind", "entry", "tenant")
	q.filter = p.filter(tenant, now)
	q.by, _ = p.word("by", "kind", "entry", "outcome")
	steps := []string{"10s", "30s", "1m", "5m", "10m", "30m", "1h", "6h", "24h"}
	step, given := p.word("step", steps...)
	q.until = cmp.Or(q.until, now.UnixNano())
	q.since = cmp.Or(q.since, q.until-int64(time.Hour))
	if q.since >= q.until {
		p.Refuse("since", "must be before until")
	}
	if p.Err != nil {
		return q, p.Err
	}
	for _, name := range steps {
		if q.step, err = time.ParseDuration(name); err != nil {
			return q, err
		}
		if given && name == step || !given && (q.until-q.since)/int64(q.step) < wantedPoints {
			break
		}
	}
	// The range is rounded to whole steps.
	q.from, q.to = q.since/int64(q.step), (q.until+int64(q.step)-1)/int64(q.step)
	if q.to-q.from > mostPoints {
		err = stream.Invalid("from since to until there can be 1000 steps at most: choose a longer step or a shorter time")
	}
	return q, err
}

// Stats answers GET /v1/stats. Tenant is whose actions are counted; empty: all tenants'.
func (x *Index) Stats(ctx context.Context, values url.Values, tenant string, now time.Time) (out schemas.Stats, err error) {
	q, err := parseStats(values, tenant, now)
	if err != nil {
		return out, err
	}
	err = x.with(ctx, func(s *store, fresh schemas.Freshness) error {
		out, err = s.stats(ctx, q, time.Now())
		out.Freshness = fresh
		return err
	})
	return out, err
}

// series are the figures of one group, or of all: one for each step, and the last for all of them.
type series struct {
	accepted, settled []uint64
	latency           []spread
	outcomes          map[string][]uint64
}

// spread counts latencies by their class: see table figure.
type spread map[int]uint64

func newSeries(points int) *series {
	s := &series{make([]uint64, points+1), make([]uint64, points+1), make([]spread, points+1), map[string][]uint64{}}
	for i := range s.latency {
		s.latency[i] = spread{}
	}
	return s
}

// add adds to a step. Without an outcome it counts the actions that were accepted in it.
func (s *series) add(point int, outcome string, class int, n uint64) {
	for _, i := range []int{point, len(s.settled) - 1} {
		if outcome == "" {
			s.accepted[i] += n
			continue
		}
		if s.outcomes[outcome] == nil {
			s.outcomes[outcome] = make([]uint64, len(s.settled))
		}
		s.settled[i] += n
		s.outcomes[outcome][i] += n
		s.latency[i][class] += n
	}
}

// sum is of all steps.
func (s *series) sum(over time.Duration) schemas.StatsSum {
	last := len(s.settled) - 1
	sum := schemas.StatsSum{
		Accepted: s.accepted[last], Settled: s.settled[last], Outcomes: map[string]uint64{},
		P50MS: s.latency[last].quantile(0.5), P99MS: s.latency[last].quantile(0.99),
	}
	for name, n := range s.outcomes {
		sum.Outcomes[name] = n[last]
		s.outcomes[name] = n[:last]
	}
	if over > 0 {
		sum.Rate = round(float64(sum.Settled)/over.Seconds(), 4)
	}
	return sum
}

func (s *series) quantiles(q float64) schemas.Latencies {
	out := make(schemas.Latencies, len(s.latency)-1)
	for i := range out {
		out[i] = s.latency[i].quantile(q)
	}
	return out
}

// quantile is the latency, in milliseconds, that a share q of all stay below; nil of none.
func (s spread) quantile(q float64) *float64 {
	var all, below uint64
	for _, n := range s {
		all += n
	}
	for _, class := range slices.Sorted(maps.Keys(s)) {
		if below += s[class]; float64(below) >= q*float64(all) {
			ms := round(math.Pow(1.1, float64(class))/1000, 3)
			return &ms
		}
	}
	return nil
}

// round keeps so many digits of a number.
func round(v float64, digits int) float64 {
	rounded, _ := strconv.ParseFloat(strconv.FormatFloat(v, 'g', digits, 64), 64) // its own text
	return rounded
}

func (s *store) stats(ctx context.Context, q statsQuery, now time.Time) (schemas.Stats, error) {
	points, step := int(q.to-q.from), int64(q.step)
	out := schemas.Stats{Since: timeOf(q.from * step), Until: timeOf(q.to * step), StepS: int(q.step / time.Second)}
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
		Time: make([]time.Time, points), Accepted: total.accepted[:points], Settled: total.settled[:points],
		P50MS: total.quantiles(0.5), P99MS: total.quantiles(0.99), Outcomes: total.outcomes,
	}
	for i := range out.Points.Time {
		out.Points.Time[i] = out.Since.Add(time.Duration(i) * q.step)
	}
	for name, g := range groups {
		out.Groups = append(out.Groups, schemas.StatsGroup{Name: name, StatsSum: g.sum(over), Points: schemas.StatsGroupPoints{
			Settled: g.settled[:points], P50MS: g.quantiles(0.5), P99MS: g.quantiles(0.99),
		}})
	}
	slices.SortFunc(out.Groups, func(a, b schemas.StatsGroup) int {
		return cmp.Or(cmp.Compare(b.Settled, a.Settled), cmp.Compare(b.Accepted, a.Accepted), cmp.Compare(a.Name, b.Name))
	})
	out.Groups = out.Groups[:min(len(out.Groups), mostGroups)]
	return out, nil
}

// gather adds up the slots of the widest level that the step is a multiple of.
func (s *store) gather(ctx context.Context, q statsQuery) (total *series, groups map[string]*series, err error) {
	var level int64
	err = s.db.QueryRowContext(ctx, "SELECT max(level) FROM width WHERE ? % level = 0", int64(q.step)).Scan(&level)
	if err != nil {
		return nil, nil, err
	}
	per, points := int64(q.step)/level, int(q.to-q.from)
	c := q.figures(level, q.from*per, q.to*per)
	if q.entry != nil {
		c = c.and("status <> ''") // an action has no entry before its end
	}
	total, groups = newSeries(points), map[string]*series{}
	by := map[string]string{"": "''", "kind": "kind", "entry": "entry", "outcome": "status"}[q.by]
	query := "SELECT slot / ? - ?, status, class, " + by + ", sum(n) " + c.text + " GROUP BY 1, 2, 3, 4 HAVING sum(n) > 0"
	return total, groups, s.rows(ctx, query, append([]any{per, q.from}, c.args...), func(scan func(...any) error) error {
		var point, class int
		var n uint64
		var status, name string
		if err := scan(&point, &status, &class, &name, &n); err != nil {
			return err
		}
		total.add(point, status, class, n)
		if q.by == "" || status == "" && q.by != "kind" {
			return nil
		}
		if groups[name] == nil {
			groups[name] = newSeries(points)
		}
		groups[name].add(point, status, class, n)
		return nil
	})
}

// open is what has not ended.
func (s *store) open(ctx context.Context, f filter) (out schemas.StatsOpen, err error) {
	f.status, f.entry = openStatuses(), nil
	from, rest := f.actions(0, 0)
	query := "SELECT count(*), ifnull(min(at), 0) " + from.text + " AND " + rest.text
	err = s.db.QueryRowContext(ctx, query, slices.Concat(from.args, rest.args)...).Scan(&out.Count, instant{&out.Oldest})
	return out, err
}
