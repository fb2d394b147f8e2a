package index_test

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/egress/index"
	"weir/egress/stream"
	"weir/internal/fault"
	"weir/internal/ledger"
	"weir/schemas"
)

// million builds the index of a million actions, which takes minutes.
var million = flag.Bool("million", false, "ask the index of a million actions")

// fixed is a log in memory that is only read: three records of each action.
type fixed struct {
	stream.Log
	records []schemas.Record
}

const perAction = 3

func newFixed(n int) *fixed {
	f := &fixed{}
	began := time.Now().Add(-time.Duration(n) * time.Millisecond)
	one := schemas.Layout{Partitions: 1}
	for i := range n {
		kind := schemas.KindHTTP
		if i%20 == 7 {
			kind = schemas.KindTask
		}
		ref := schemas.Ref{Tenant: "acme", Kind: kind, ID: fmt.Sprintf("01890a5d-ac96-774b-bcce-%012d", i)}
		at := began.Add(time.Duration(i) * time.Millisecond)
		outcome, code, entry := schemas.OutcomeSucceeded, schemas.Code(""), fmt.Sprintf("entry-%d", i%7)
		if i%50 == 0 {
			outcome, code = schemas.OutcomeDenied, schemas.DenyHost
		}
		accepted, _ := ledger.Encode(schemas.Event{V: 1, N: 1, Type: schemas.EventAccepted, Time: at, Action: &schemas.Action{
			ID: ref.ID, Tenant: ref.Tenant, Kind: ref.Kind, Class: schemas.ClassOnce, IDSource: schemas.IDGenerated, AcceptedAt: at, Deadline: at.Add(time.Minute),
			Caller:  fmt.Sprintf("caller-%d", i%11),
			Payload: fmt.Appendf(nil, `{"method":"POST","url":"https://api-%d.example.com/v1/orders/%d?key=value","headers":[{"name":"x-a","value":"b"}],"body":{"item":7,"note":"a few words"}}`, i%5, i),
		}})
		settled, _ := ledger.Encode(schemas.Event{V: 1, N: perAction, Type: schemas.EventSettled, Time: at, Attempted: &schemas.Attempted{Number: 1, Sent: true, Status: 201 + i%1000/999*302}, Settled: &schemas.Settled{
			Outcome: outcome, Code: code, Entry: entry, Attempts: 1,
			Result: []byte(`{"answer":{"status":201,"headers":[{"name":"content-type","value":"application/json"}],"body":{"id":"o-1","state":"new"},"json":true,"hash":"00","snippet":"{}"}}`),
		}})
		seq := uint64(i*perAction + 1)
		f.records = append(f.records, schemas.Record{Subject: one.Subject(ref, schemas.SectionAccepted), Seq: seq, Time: at, Data: accepted})
		f.records = append(f.records, schemas.Record{Subject: one.Subject(ref, schemas.SectionEvent), Seq: seq + 1, Time: at, Data: accepted})
		f.records = append(f.records, schemas.Record{Subject: one.Subject(ref, schemas.SectionEvent), Seq: seq + perAction - 1, Time: at.Add(time.Duration(1+i%40) * time.Millisecond), Data: settled})
	}
	return f
}

func (f *fixed) Page(_ context.Context, _, _ string, from uint64, limit, _ int) ([]schemas.Record, bool, error) {
	at, _ := slices.BinarySearchFunc(f.records, from, func(r schemas.Record, seq uint64) int { return cmp.Compare(r.Seq, seq) })
	end := min(at+limit, len(f.records))
	return f.records[at:end:end], end < len(f.records), nil
}

func (f *fixed) Next(ctx context.Context, stream, filter string, from uint64) (schemas.Record, error) {
	page, _, err := f.Page(ctx, stream, filter, from, 1, 0)
	if err != nil || len(page) == 0 {
		return schemas.Record{}, fault.ErrNotFound
	}
	return page[0], nil
}

func (f *fixed) Bounds(context.Context, string) (first, last uint64, err error) {
	return 1, f.records[len(f.records)-1].Seq, nil
}

// indexed is an index of n actions, and how long it took to build.
func indexed(tb testing.TB, f *fixed) (*index.Index, time.Duration) {
	tb.Helper()
	one := schemas.Layout{Partitions: 1}
	x := index.New(f, always{}, index.Config{Layout: one, Path: tb.TempDir() + "/i.db", Wait: time.Hour})
	tb.Cleanup(x.Close)
	began := time.Now()
	page, err := x.List(tb.Context(), url.Values{"limit": {"1"}}, "acme", time.Now())
	require.NoError(tb, err)
	require.Zero(tb, page.Behind)
	return x, time.Since(began)
}

// BenchmarkCatchUp builds the index of a log of a hundred thousand actions.
func BenchmarkCatchUp(b *testing.B) {
	f := newFixed(100_000)
	records := float64(len(f.records))
	for b.Loop() {
		_, took := indexed(b, f)
		b.ReportMetric(records/took.Seconds(), "records/s")
	}
}

// BenchmarkAsk asks what pages of the console ask. With -million of a million actions,
// else of fifty thousand.
func BenchmarkAsk(b *testing.B) {
	n := 50_000
	if *million {
		n = 1_000_000
	}
	f := newFixed(n)
	x, took := indexed(b, f)
	b.Logf("%d actions were read in %s", n, took)
	for _, query := range []string{
		"", "status=denied", "status=failed", "entry=entry-3", "code=DENY_HOST&entry=entry-1", "kind=http&since=10m", "q=01890a5d-ac96-774b-bcce-000000000777", "q=nowhere", "q=nowhere&since=10m", "q=nowhere&host=api-3.example.com", "q=ORDERS/777", "q=post api-3.example.com/v1/orders",
		"host=api-3.example.com", "host=none.example.com", "http_status=5xx", "http_status=404", "method=GET", "caller=caller-3", "count=true&q=orders/777", "count=true&host=api-3.example.com",
		"count=true", "count=true&status=denied&since=5m", "count=true&entry=entry-3", "status=open", "tenant=*&status=denied,failed",
	} {
		b.Run("list/"+query, func(b *testing.B) {
			tenant := "acme"
			if strings.HasPrefix(query, "tenant=*") {
				tenant = ""
			}
			for b.Loop() {
				_, err := ask(b, x.List, tenant, query, time.Now())
				require.NoError(b, err)
			}
		})
	}
	for _, of := range []struct {
		name  string
		ended []schemas.Outcome
		open  bool
	}{{"any", nil, false}, {"completed", []schemas.Outcome{schemas.OutcomeSucceeded}, true}, {"expired", []schemas.Outcome{schemas.OutcomeExpired}, true}} {
		b.Run("tasks/"+of.name, func(b *testing.B) {
			q := stream.Selection{Tenant: "acme", Kind: schemas.KindTask, Ended: of.ended, Open: of.open, Limit: 50}
			for b.Loop() {
				_, err := x.Refs(b.Context(), q)
				require.NoError(b, err)
			}
		})
	}
	for _, query := range []string{"", "by=entry", "since=24h&by=kind", "since=15m&step=10s&by=outcome", "since=7d&step=1h&by=entry"} {
		b.Run("stats/"+query, func(b *testing.B) {
			for b.Loop() {
				_, err := ask(b, x.Stats, "acme", query, time.Now())
				require.NoError(b, err)
			}
		})
	}
}
