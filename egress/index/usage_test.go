package index_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"weir/egress/index"
	"weir/internal/ledger"
	"weir/internal/weirtest/memlog"
	"weir/schemas"
)

// used reads the use of models of tenant acme.
func (s *shop) used(tb require.TestingT, query string, now time.Time) schemas.Usage {
	out, err := ask(tb, s.x.Usage, "acme", query, now)
	require.NoError(tb, err)
	require.Zero(tb, out.Behind)
	return out
}

// complete accepts a completion, and settles it if it used something.
func (s *shop) complete(tb require.TestingT, at time.Time, id, tenant, task, model string, used *schemas.ChatUsage) {
	st, _, err := s.led.Claim(context.Background(), schemas.Action{
		ID: id, Tenant: tenant, Kind: schemas.KindChat, IDSource: schemas.IDGenerated, Fingerprint: "f", AcceptedAt: at, Task: task,
		Payload: fmt.Appendf(nil, `{"model":"asked","task_id":%q}`, task),
	})
	require.NoError(tb, err)
	if used == nil {
		return
	}
	doc, err := ledger.Encode(schemas.ChatResult{Model: model, Usage: used})
	require.NoError(tb, err)
	require.NoError(tb, s.led.Append(context.Background(), st, schemas.Event{Type: schemas.EventSettled, Time: at, Settled: &schemas.Settled{Outcome: schemas.OutcomeFailed, Result: doc}}))
}

// TestUsage: the index adds up the use of the completions that have ended, whatever else is on
// the log, by the day, the task and the model, and again after a new start.
func TestUsage(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		began := time.Date(2026, 11, 20, 21, 0, 0, 0, time.UTC)
		now, mu := began, sync.Mutex{}
		s := &shop{t: t, path: t.TempDir() + "/index.db"}
		s.log = memlog.New(layout, func() time.Time { mu.Lock(); defer mu.Unlock(); return now }, memlog.Hooks{})
		s.led = ledger.New(s.log, layout, nil)
		s.x = index.New(s.log, always{}, index.Config{Layout: layout, Path: s.path, Wait: time.Minute})
		defer func() { s.x.Close() }()
		total := schemas.UsageSum{}
		groups := map[string]map[string]schemas.UsageSum{"day": {}, "task": {}, "model": {}}
		add := func(by, name string, u schemas.ChatUsage) {
			sum := groups[by][name]
			sum.Completions, sum.TokensIn, sum.TokensOut, sum.CostUSD = sum.Completions+1, sum.TokensIn+u.Prompt, sum.TokensOut+u.Completion, sum.CostUSD+float64(u.Nanos)/1e9
			groups[by][name] = sum
		}
		for i := range rapid.IntRange(1, 12).Draw(rt, "n") {
			mu.Lock()
			now = now.Add(time.Duration(rapid.IntRange(1, 1000).Draw(rt, "minutes")) * time.Minute)
			at := now
			mu.Unlock()
			task := rapid.SampledFrom([]string{"", "t1", "t2"}).Draw(rt, "task")
			model := rapid.SampledFrom([]string{"a/1", "b"}).Draw(rt, "model")
			tenant := rapid.SampledFrom([]string{"acme", "acme", "umbrella"}).Draw(rt, "tenant")
			var used *schemas.ChatUsage
			if rapid.Bool().Draw(rt, "ended") {
				used = &schemas.ChatUsage{Prompt: rapid.Int64Range(0, 1e6).Draw(rt, "in"), Completion: rapid.Int64Range(0, 1e6).Draw(rt, "out"), Nanos: 1_000_000 * rapid.Int64Range(0, 1e6).Draw(rt, "nanos")}
			}
			s.complete(rt, at, fmt.Sprintf("chat-%d", i), tenant, task, model, used)
			if rapid.Bool().Draw(rt, "read") {
				s.used(rt, "", now)
			}
			if used == nil || tenant != "acme" {
				continue
			}
			total.Completions, total.TokensIn, total.TokensOut, total.CostUSD = total.Completions+1, total.TokensIn+used.Prompt, total.TokensOut+used.Completion, total.CostUSD+float64(used.Nanos)/1e9
			add("day", at.Format(time.DateOnly), *used)
			add("task", task, *used)
			add("model", model, *used)
		}
		now = now.Add(time.Minute)
		for range 2 {
			for by, want := range groups {
				got := s.used(rt, "since=90d&by="+by, now)
				require.InDelta(rt, total.CostUSD, got.Total.CostUSD, 1e-6)
				got.Total.CostUSD = total.CostUSD
				require.Equal(rt, total, got.Total)
				require.Len(rt, got.Groups, len(want), by)
				for _, g := range got.Groups {
					require.InDelta(rt, want[g.Name].CostUSD, g.CostUSD, 1e-6)
					g.CostUSD = want[g.Name].CostUSD
					require.Equal(rt, want[g.Name], g.UsageSum, "%s %s", by, g.Name)
				}
			}
			one := s.used(rt, "by=model&task=t1", now).Total
			require.InDelta(rt, groups["task"]["t1"].CostUSD, one.CostUSD, 1e-6)
			require.Equal(rt, groups["task"]["t1"].Completions, one.Completions)
			require.Zero(rt, s.used(rt, "since=2026-11-01T00:00:00Z&until=2026-11-20T21:00:00Z", now).Total)
			s.x.Close()
			s.x = index.New(s.log, always{}, index.Config{Layout: layout, Path: s.path, Wait: time.Minute})
		}
	})
}

// TestUsageIsOrdered: days by their order, others by their cost, and the rest is counted.
func TestUsageIsOrdered(t *testing.T) {
	t.Parallel()
	s := open(t)
	now := time.Now()
	for i := range 103 {
		s.complete(t, now, fmt.Sprintf("c%d", i), "acme", fmt.Sprintf("t%03d", i), "m", &schemas.ChatUsage{Nanos: int64(i) * 1e9})
	}
	got := s.used(t, "by=task", now.Add(time.Minute))
	require.Equal(t, []any{100, 3, "t102", 102.0}, []any{len(got.Groups), got.More, got.Groups[0].Name, got.Groups[0].CostUSD})
	require.InDelta(t, 102*103/2, got.Total.CostUSD, 1e-6, "the total has all of them")
}

func TestUsageRefuses(t *testing.T) {
	t.Parallel()
	s, now := open(t), time.Now()
	for query, says := range map[string]string{
		"by=entry": "by can be day, task or model", "since=94d": "at most 93 days", "since=1h&until=2h": "before until", "step=1m": "no parameter of that name", "since=yesterday": "the parameter since must be a", "by=day&by=task": "by",
	} {
		_, err := ask(t, s.x.Usage, "acme", query, now)
		require.ErrorContains(t, err, says, query)
	}
	for _, query := range []string{"since=93d", "since=200d&task=t1", "task=t1"} {
		_, err := ask(t, s.x.Usage, "acme", query, now)
		require.NoError(t, err, query)
	}
}
