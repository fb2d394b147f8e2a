package index

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"time"

	"weir/egress/stream"
	"weir/schemas"
)

// UsageQuery is a request for the use of models.
type UsageQuery struct {
	filter

	by string
}

const (
	usageSpan  = 7 * 24 * time.Hour  // of a request that names no time
	longestUse = 93 * 24 * time.Hour // of a request for more than one task
	mostUses   = 100                 // groups of an answer
)

// usageGroups are the columns of table action by which use is grouped. Days are of UTC.
func usageGroups() map[string]string {
	return map[string]string{"day": "strftime('%Y-%m-%d', at / 1000000000, 'unixepoch')", "task": "task", "model": "model"}
}

// ParseUsage reads the parameters of GET /v1/usage. Tenant is whose completions are counted; empty: all
// tenants'.
func ParseUsage(q url.Values, tenant string, now time.Time) (out UsageQuery, err error) {
	p := params{stream.NewParams(q, "by", "task", "since", "until", "tenant")}
	out.filter = p.filter(tenant, now)
	out.kinds = []string{string(schemas.KindChat)}
	by, ok := p.One("by")
	if out.by = by; !ok {
		out.by = "day"
	}
	if _, known := usageGroups()[out.by]; !known {
		p.Refuse("by", "can be day, task or model")
	}
	if out.until == 0 {
		out.until = now.UnixNano()
	}
	switch {
	case p.Err != nil: // the first mistake is the answer
	case out.since == 0 && out.task == "":
		out.since = out.until - int64(usageSpan)
	case out.since >= out.until:
		p.Refuse("since", "must be before until")
	case out.task == "" && out.until-out.since > int64(longestUse):
		p.Refuse("since", "must be at most 93 days before until: choose a shorter time, or name a task")
	}
	return out, p.Err
}

// ServeUsage answers GET /v1/usage.
func (x *Index) ServeUsage(w http.ResponseWriter, r *http.Request, tenant string) {
	answer(w, r, tenant, ParseUsage, x.Usage)
}

// Usage adds up what completions have used that were accepted in a stretch of time and have ended. Each
// completion is added once, with the usage and the price of its end. The costliest groups come first, and
// days in their order.
func (x *Index) Usage(ctx context.Context, q UsageQuery) (out schemas.Usage, err error) {
	err = x.with(ctx, func(s *store, fresh schemas.Freshness) error {
		out = schemas.Usage{Since: instant(q.since), Until: instant(q.until), By: q.by, Freshness: fresh, Groups: []schemas.UsageGroup{}}
		return s.usage(ctx, q, &out)
	})
	return out, err
}

func (s *store) usage(ctx context.Context, q UsageQuery, out *schemas.Usage) error {
	from, rest := q.selection(q.since, q.until)
	rest.and("status <> ''")
	order := "5 DESC, 1"
	if q.by == "day" {
		order = "1"
	}
	query := "SELECT " + usageGroups()[q.by] + ", count(*), sum(tokens_in), sum(tokens_out), sum(nano_usd) " + from.text + " AND " + rest.String() +
		" GROUP BY 1 ORDER BY " + order
	var total int64
	err := s.rows(ctx, query, slices.Concat(from.args, rest.args), func(scan func(...any) error) error {
		var g schemas.UsageGroup
		var nanos int64
		if err := scan(&g.Name, &g.Completions, &g.TokensIn, &g.TokensOut, &nanos); err != nil {
			return err
		}
		g.CostUSD = float64(nanos) / 1e9
		out.Groups = append(out.Groups, g)
		out.Total.Completions += g.Completions
		out.Total.TokensIn += g.TokensIn
		out.Total.TokensOut += g.TokensOut
		total += nanos
		return nil
	})
	out.Total.CostUSD = float64(total) / 1e9
	if n := len(out.Groups); n > mostUses {
		out.Groups, out.More = out.Groups[:mostUses], n-mostUses
	}
	return err
}
