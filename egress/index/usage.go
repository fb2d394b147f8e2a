package index

import (
	"cmp"
	"context"
	"net/url"
	"slices"
	"time"

	"weir/egress/stream"
	"weir/schemas"
)

const (
	usageSpan  = 7 * 24 * time.Hour  // of a request that names no time
	longestUse = 93 * 24 * time.Hour // of a request for more than one task
	mostUses   = 100                 // groups of an answer
)

// parseUsage reads the parameters of GET /v1/usage.
func parseUsage(values url.Values, tenant string, now time.Time) (f filter, by string, err error) {
	p := params{stream.NewParams(values, "by", "task", "since", "until", "tenant")}
	f = p.filter(tenant, now)
	f.of([]string{string(schemas.KindChat)}, nil, "", false)
	f.add("status", "", clause{text: "status <> ''"})
	by, ok := p.One("by")
	if ok && !slices.Contains([]string{"day", "task", "model"}, by) {
		p.Refuse("by", "can be day, task or model")
	}
	f.until = cmp.Or(f.until, now.UnixNano())
	switch one := p.Has("task"); {
	case f.since == 0 && !one:
		f.since = f.until - int64(usageSpan)
	case f.since >= f.until:
		p.Refuse("since", "must be before until")
	case !one && f.until-f.since > int64(longestUse):
		p.Refuse("since", "must be at most 93 days before until: choose a shorter time, or name a task")
	}
	return f, cmp.Or(by, "day"), p.Err
}

// Usage answers GET /v1/usage: it adds up what completions have used that were accepted in a stretch of
// time and have ended. Each completion is added once, with the usage and the price of its end. The
// costliest groups come first, and days, which are of UTC, in their order. Tenant is whose completions are
// counted; empty: all tenants'.
func (x *Index) Usage(ctx context.Context, values url.Values, tenant string, now time.Time) (out schemas.Usage, err error) {
	f, by, err := parseUsage(values, tenant, now)
	if err != nil {
		return out, err
	}
	err = x.with(ctx, func(s *store, fresh schemas.Freshness) error {
		out = schemas.Usage{Since: instant(f.since), Until: instant(f.until), By: by, Freshness: fresh, Groups: []schemas.UsageGroup{}}
		return s.usage(ctx, f, &out)
	})
	return out, err
}

func (s *store) usage(ctx context.Context, f filter, out *schemas.Usage) error {
	c := f.all(f.since, f.until)
	group, order := out.By, "5 DESC, 1"
	if out.By == "day" {
		group, order = "strftime('%Y-%m-%d', at / 1000000000, 'unixepoch')", "1"
	}
	query := "SELECT " + group + ", count(*), sum(tokens_in), sum(tokens_out), sum(nano_usd) " + c.text + " GROUP BY 1 ORDER BY " + order
	var total int64
	err := s.rows(ctx, query, c.args, func(scan func(...any) error) error {
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
