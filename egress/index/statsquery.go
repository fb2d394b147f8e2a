package index

import (
	"net/url"
	"slices"
	"strings"
	"time"

	"weir/egress/stream"
	"weir/schemas"
)

// StatsQuery is what figures are asked for.
type StatsQuery struct {
	filter

	from, to int64 // whole steps
	step     time.Duration
	by       string
}

// The bounds of the figures: how many points there are where nobody says how long a
// step is, and at most; and how many groups are told.
const (
	wantedPoints = 120
	mostPoints   = 1000
	mostGroups   = 50
)

// stride is a length that a step may have.
type stride struct {
	word string
	d    time.Duration
}

func steps() []stride {
	return []stride{
		{"10s", 10 * time.Second},
		{"30s", 30 * time.Second},
		{"1m", time.Minute},
		{"5m", 5 * time.Minute},
		{"10m", 10 * time.Minute},
		{"30m", 30 * time.Minute},
		{"1h", time.Hour},
		{"6h", 6 * time.Hour},
		{"24h", 24 * time.Hour},
	}
}

func statsParameters() []string {
	return []string{"since", "until", "step", "by", "kind", "entry", "tenant"}
}

// ParseStats reads the parameters of GET /v1/stats. Tenant is whose actions are counted;
// empty: everybody's.
func ParseStats(q url.Values, tenant string, now time.Time) (StatsQuery, error) {
	var out StatsQuery
	var err error
	if err := stream.Only(q, statsParameters()...); err != nil {
		return out, err
	}
	if out.filter, err = parseFilter(q, tenant, now); err != nil {
		return out, err
	}
	by, ok, err := stream.One(q, "by")
	if err != nil {
		return out, err
	}
	if out.by = by; ok && !slices.Contains([]string{"kind", "entry", "outcome"}, by) {
		return out, stream.Invalid("the parameter by can be kind, entry or outcome")
	}
	word, ok, err := stream.One(q, "step")
	if err != nil {
		return out, err
	}
	if out.until == 0 {
		out.until = now.UnixNano()
	}
	if out.since == 0 {
		out.since = out.until - int64(time.Hour)
	}
	if out.since >= out.until {
		return out, stream.Invalid("the parameter since must be before until")
	}
	return out, out.steps(word, ok)
}

// steps chooses the length of a step, and rounds the range to whole ones.
func (q *StatsQuery) steps(word string, given bool) error {
	all := steps()
	names := make([]string, len(all))
	for i, s := range all {
		names[i] = s.word
		switch {
		case given && s.word == word:
			q.step = s.d
		case !given && q.step == 0 && (q.until-q.since)/int64(s.d) < wantedPoints:
			q.step = s.d
		}
	}
	if given && q.step == 0 {
		return stream.Invalid("the parameter step can be " + strings.Join(names, ", "))
	}
	if q.step == 0 {
		q.step = all[len(all)-1].d
	}
	q.from, q.to = q.since/int64(q.step), (q.until+int64(q.step)-1)/int64(q.step)
	if q.to-q.from > mostPoints {
		return stream.Invalid("from since to until there can be 1000 steps at most: choose a longer step or a shorter time")
	}
	return nil
}

// outcomeName is the outcome that a number of the file stands for; empty: none.
func outcomeName(status int) string {
	if status < 1 || status > len(schemas.Outcomes()) {
		return ""
	}
	return string(schemas.Outcomes()[status-1])
}
