package index

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/binary"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
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

	open     filter // what has not ended of the same kinds
	from, to int64  // whole steps
	step     time.Duration
	by       string // a column; empty: no groups
}

// parseStats reads the parameters of GET /v1/stats.
func parseStats(values url.Values, tenant string, now time.Time) (q statsQuery, err error) {
	p := params{stream.NewParams(values, "since", "until", "step", "by", "kind", "entry", "tenant")}
	q.filter, q.open = p.filter(tenant, now), filter{tenant: tenant}
	q.open.of(p.list("kind", words(schemas.Kinds())), []string{StatusOpen}, "", false)
	if p.Has("entry") {
		q.add("status", "", clause{text: "status <> ''"}) // an action has no entry before its end
	}
	by, ok := p.One("by")
	if q.by = map[string]string{"kind": "kind", "entry": "entry", "outcome": "status"}[by]; ok && q.by == "" {
		p.Refuse("by", "can be kind, entry or outcome")
	}
	q.until = cmp.Or(q.until, now.UnixNano())
	q.since = cmp.Or(q.since, q.until-int64(time.Hour))
	if q.since >= q.until {
		p.Refuse("since", "must be before until")
	}
	names := []string{"10s", "30s", "1m", "5m", "10m", "30m", "1h", "6h", "24h"}
	word, given := p.One("step")
	if given && !slices.Contains(names, word) {
		p.Refuse("step", "can be "+strings.Join(names, ", "))
	}
	if p.Err != nil {
		return q, p.Err
	}
	for _, name := range names {
		q.step, _ = time.ParseDuration(name) // one of those above
		if given && name == word || !given && (q.until-q.since)/int64(q.step) < wantedPoints {
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

// spread counts latencies by their length: class c has those of about grow^c microseconds, so
// that a quantile is right to about five in a hundred.
type spread []uint64

// grow is the ratio of one class to the one before.
const grow = 1.1

// classOf is the class of a latency. One below a microsecond counts as one.
func classOf(d time.Duration) int {
	us := float64(max(d, time.Microsecond)) / float64(time.Microsecond)
	return int(math.Round(math.Log(us) / math.Log(grow)))
}

func (s *spread) add(class int, n uint64) {
	if short := class + 1 - len(*s); short > 0 {
		*s = append(*s, make([]uint64, short)...)
	}
	(*s)[class] += n
}

// quantile is the latency, in milliseconds, that a share q of all stay below; nil of none.
func (s *spread) quantile(q float64) *float64 {
	var below uint64
	rank := max(uint64(math.Ceil(q*float64(total(*s)))), 1)
	for class, n := range *s {
		if below += n; rank <= below {
			ms := round(math.Pow(grow, float64(class))/1000, 3)
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

// pack is a spread as it is stored.
func (s *spread) pack() (b []byte) {
	for _, n := range *s {
		b = binary.AppendUvarint(b, n)
	}
	return b
}

// unpack adds a stored spread.
func (s *spread) unpack(b []byte) {
	for class := 0; len(b) > 0; class++ {
		n, size := binary.Uvarint(b)
		if size <= 0 {
			return
		}
		s.add(class, n)
		b = b[size:]
	}
}

// series are the figures of one group, or of all, for each step.
type series struct {
	schemas.StatsPoints
	spread []spread
}

func newSeries(points int) *series {
	return &series{schemas.StatsPoints{
		Accepted: make([]uint64, points), Settled: make([]uint64, points), Outcomes: map[string][]uint64{},
		P50MS: make(schemas.Latencies, points), P99MS: make(schemas.Latencies, points),
	}, make([]spread, points)}
}

// add adds a slot to a step. Without an outcome it counts the actions that were accepted in it.
func (s *series) add(point int, outcome string, n uint64, packed []byte) {
	if outcome == "" {
		s.Accepted[point] += n
		return
	}
	if s.Outcomes[outcome] == nil {
		s.Outcomes[outcome] = make([]uint64, len(s.Settled))
	}
	s.Settled[point] += n
	s.Outcomes[outcome][point] += n
	s.spread[point].unpack(packed)
}

// sum completes the steps, and adds them up.
func (s *series) sum(over time.Duration) schemas.StatsSum {
	sum := schemas.StatsSum{Accepted: total(s.Accepted), Settled: total(s.Settled), Outcomes: map[string]uint64{}}
	for name, n := range s.Outcomes {
		sum.Outcomes[name] = total(n)
	}
	var all spread
	for i, of := range s.spread {
		s.P50MS[i], s.P99MS[i] = of.quantile(0.5), of.quantile(0.99)
		for class, n := range of {
			all.add(class, n)
		}
	}
	sum.P50MS, sum.P99MS = all.quantile(0.5), all.quantile(0.99)
	if over > 0 {
		sum.Rate = round(float64(sum.Settled)/over.Seconds(), 4)
	}
	return sum
}

func total(of []uint64) (sum uint64) {
	for _, n := range of {
		sum += n
	}
	return sum
}

func (s *store) stats(ctx context.Context, q statsQuery, now time.Time) (schemas.Stats, error) {
	step := int64(q.step)
	out := schemas.Stats{Since: instant(q.from * step), Until: instant(q.to * step), StepS: int(q.step / time.Second)}
	all, groups, err := s.gather(ctx, q)
	if err != nil {
		return out, err
	}
	var oldest int64
	open := q.open.all(0, 0)
	if err := s.db.QueryRowContext(ctx, "SELECT count(*), ifnull(min(at), 0) "+open.text, open.args...).Scan(&out.Open.Count, &oldest); err != nil {
		return out, err
	}
	out.Open.Oldest = instant(oldest)
	over := min(out.Until.Sub(out.Since), now.Sub(out.Since))
	out.Total, out.Points = all.sum(over), all.StatsPoints
	for at := out.Since; at.Before(out.Until); at = at.Add(q.step) {
		out.Points.Time = append(out.Points.Time, at)
	}
	for name, g := range groups {
		out.Groups = append(out.Groups, schemas.StatsGroup{
			Name: name, StatsSum: g.sum(over), Points: schemas.StatsGroupPoints{Settled: g.Settled, P50MS: g.P50MS, P99MS: g.P99MS},
		})
	}
	slices.SortFunc(out.Groups, func(a, b schemas.StatsGroup) int {
		return cmp.Or(cmp.Compare(b.Settled, a.Settled), cmp.Compare(b.Accepted, a.Accepted), cmp.Compare(a.Name, b.Name))
	})
	out.Groups = out.Groups[:min(len(out.Groups), mostGroups)]
	return out, nil
}

// gather adds up the slots of the widest level that the step is a multiple of.
func (s *store) gather(ctx context.Context, q statsQuery) (all *series, groups map[string]*series, err error) {
	level := levels[0]
	for _, l := range levels {
		if q.step%l == 0 {
			level = l
		}
	}
	per, points := int64(q.step/level), int(q.to-q.from)
	c := q.figures(int64(level), q.from*per, q.to*per)
	all, groups = newSeries(points), map[string]*series{}
	query := "SELECT slot, status, n, spread, " + cmp.Or(q.by, "''") + " " + c.text
	return all, groups, s.rows(ctx, query, c.args, func(scan func(...any) error) error {
		var slot int64
		var n uint64
		var status, name string
		var packed sql.RawBytes
		if err := scan(&slot, &status, &n, &packed, &name); err != nil {
			return err
		}
		point := int(slot/per - q.from)
		all.add(point, status, n, packed)
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
