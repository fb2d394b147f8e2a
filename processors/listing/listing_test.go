package listing_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"weir/internal/models/listed"
	"weir/internal/outbound"
	"weir/internal/policy"
	"weir/internal/redact"
	"weir/internal/secrets"
	"weir/internal/weirtest/bucket"
	"weir/internal/weirtest/harness"
	"weir/internal/weirtest/poll"
	"weir/processors/call"
	"weir/processors/call/direct"
	"weir/processors/guard"
	"weir/processors/listing"
	"weir/schemas"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const key = "sk-provider-0123456789"

// provider is a provider of models at a local address.
type provider struct {
	url string

	mu     sync.Mutex
	status int
	answer func(r *http.Request) string
	asked  []string // the calls
}

func newProvider(t *testing.T) *provider {
	t.Helper()
	p := &provider{status: http.StatusOK}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.asked = append(p.asked, r.Method+" "+r.RequestURI+" "+r.Header.Get("Authorization")+" "+r.Header.Get("Anthropic-Version"))
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(p.status)
		fmt.Fprint(w, p.answer(r))
	}))
	t.Cleanup(s.Close)
	p.url = s.URL
	p.says(http.StatusOK, `{"data":[]}`)
	return p
}

func (p *provider) says(status int, body string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.status, p.answer = status, func(*http.Request) string { return body }
}

func (p *provider) calls() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string{}, p.asked...)
}

// env is what workers share: a bucket, a policy, a clock, and the evidence that they leave.
type env struct {
	t      *testing.T
	bucket *bucket.Bucket
	policy harness.Policy
	ups    []schemas.ModelUpstream

	mu       sync.Mutex
	now      time.Time
	evidence []schemas.Evidence
}

func newEnv(t *testing.T, ups ...schemas.ModelUpstream) *env {
	t.Helper()
	d := &env{t: t, bucket: bucket.New(), ups: ups, now: time.Now()}
	d.enforce(ups...)
	return d
}

func (d *env) enforce(ups ...schemas.ModelUpstream) {
	d.t.Helper()
	var entries []policy.Entry
	for _, up := range ups {
		entries = append(entries, policy.Entry{
			Name: schemas.ModelEntry(up.Name), Agent: true, URLPrefix: up.URL, Methods: []string{"GET", "POST"}, Network: policy.NetworkLoopback,
			Headers: map[string]string{"Authorization": "Bearer ${secret:KEY}"}, CallerParams: []string{"after_id", "limit"},
		})
	}
	d.policy.Enforce(d.t, entries...)
}

func (d *env) pass(by time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.now = d.now.Add(by)
}

func (d *env) clock() time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.now
}

// left is the evidence that was left since the last call.
func (d *env) left() []schemas.Evidence {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := d.evidence
	d.evidence = nil
	return all
}

// worker is a node that reads lists, and shows them.
func (d *env) worker() (*listing.Refresher, *listed.Keeper) {
	d.t.Helper()
	lists := listed.New(d.bucket, slog.New(slog.DiscardHandler))
	require.NoError(d.t, lists.Start(d.t.Context()))
	d.t.Cleanup(lists.Stop)
	client := outbound.New(outbound.Config{MaxBodyBytes: 1 << 20})
	d.t.Cleanup(client.Close)
	store := secrets.New(secrets.Config{LookupEnv: func(string) (string, bool) { return key, true }})
	adapter := direct.New(client, store, redact.New(nil))
	return listing.New(listing.Config{
		Upstreams: func() []schemas.ModelUpstream { return d.ups }, Lists: lists, Adapter: adapter, Logger: slog.New(slog.DiscardHandler), Now: d.clock,
		Caller: call.New(call.Unlogged{}, guard.New(d.policy.InForce, nil), adapter, call.Config{Worker: "w", Barrier: harness.NoBarrier}),
		Record: func(_ context.Context, e schemas.Evidence) error {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.evidence = append(d.evidence, e)
			return nil
		},
	}), lists
}

func ids(list []schemas.ListedModel) []string {
	all := []string{}
	for _, m := range list {
		all = append(all, m.ID)
	}
	return all
}

// TestRefresh: a list is read once for all workers, again when it is due, and at once after a reload
// if it could not be read. It stays while its provider is down.
func TestRefresh(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	up := schemas.ModelUpstream{Name: "one:a", URL: p.url + "/v1"}
	d := newEnv(t, up)
	r, lists := d.worker()
	other, shown := d.worker()
	p.says(http.StatusOK, `{"object":"list","data":[{"id":"gpt","object":"model","created":86400,"owned_by":"x"},{"id":"`+key+`"}]}`)
	due := r.Round(t.Context(), true)
	require.InDelta(t, 15*time.Minute, due.Sub(d.clock()), float64(2*time.Minute))
	require.Equal(t, []string{"GET /v1/models Bearer " + key + " 2023-06-01"}, p.calls())
	require.Equal(t, []schemas.ListedModel{{ID: "gpt", Created: 86400}}, lists.Models(up), "an id with a secret is no id")
	poll.Until(t, func() bool { return len(shown.Models(up)) == 1 })
	left := d.left()
	require.Len(t, left, 1)
	require.Equal(t, [...]string{schemas.EvidenceAttempt, "model:one:a", schemas.Operator}, [...]string{left[0].Kind, left[0].Entry, left[0].Tenant})
	require.Contains(t, string(left[0].Payload), `"request_fingerprint":"GET model:one:a/models"`)
	require.NotContains(t, string(left[0].Payload), "127.0.0.1")

	other.Round(t.Context(), true)
	require.Len(t, p.calls(), 1, "it is fresh")
	d.pass(20 * time.Minute)
	p.says(http.StatusInternalServerError, `{"error":"sorry"}`)
	other.Round(t.Context(), false)
	require.Len(t, p.calls(), 2)
	require.Equal(t, []string{"gpt"}, ids(shown.Models(up)))
	was, _ := shown.Get(up.Name)
	require.Equal(t, [...]any{1, "status"}, [...]any{was.Failures, was.Reason})

	poll.Until(t, func() bool { is, _ := lists.Get(up.Name); return is.Failures == 1 })
	r.Round(t.Context(), false)
	require.Len(t, p.calls(), 2, "it waits")
	p.says(http.StatusOK, `{"data":[{"id":"gpt-2"}]}`)
	r.Round(t.Context(), true)
	require.Equal(t, []string{"gpt-2"}, ids(lists.Models(up)), "after a reload it is asked again")

	moved := up
	moved.URL = p.url + "/v2"
	require.Empty(t, lists.Models(moved), "the list is of another URL")
	d.ups = []schemas.ModelUpstream{moved}
	d.enforce(moved)
	r.Round(t.Context(), false)
	require.Len(t, p.calls(), 4, "and the new one is asked at once")
	require.Equal(t, []string{"gpt-2"}, ids(lists.Models(moved)))

	d.pass(20 * time.Minute)
	p.says(http.StatusNotFound, `{}`)
	r.Round(t.Context(), false)
	require.Empty(t, lists.Models(moved), "where there is no list, none stays")
}

// TestNoList: whatever goes wrong leaves evidence, where a call was made or denied, and keeps the
// list that there was.
func TestNoList(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	up := schemas.ModelUpstream{Name: "a", URL: p.url}
	d := newEnv(t, up)
	r, lists := d.worker()
	p.says(http.StatusOK, `{"data":[{"id":"kept"}]}`)
	r.Round(t.Context(), false)
	d.left()
	for _, tt := range []struct {
		what string
		do   func()
		kind string
		why  string
		sent int
	}{
		{"an error", func() { p.says(http.StatusUnauthorized, `{"error":{"message":"`+key+`"}}`) }, schemas.EvidenceAttempt, "status", 1},
		{"a redirect", func() { p.says(http.StatusFound, "") }, schemas.EvidenceAttempt, "status", 1},
		{"HTML", func() { p.says(http.StatusOK, "<html>") }, schemas.EvidenceAttempt, "not_a_list", 1},
		{"an object", func() { p.says(http.StatusOK, `{"models":[]}`) }, schemas.EvidenceAttempt, "not_a_list", 1},
		{"an object of data", func() { p.says(http.StatusOK, `{"data":{"id":"m"}}`) }, schemas.EvidenceAttempt, "not_a_list", 1},
		{"too much", func() { p.says(http.StatusOK, `{"data":["`+strings.Repeat("x", 2<<20)+`"]}`) }, schemas.EvidenceAttempt, "UPSTREAM_TOO_LARGE", 1},
		{"denied", func() { d.enforce() }, schemas.EvidenceDecision, "DENY_KEY_UNKNOWN", 0},
	} {
		before := len(p.calls())
		tt.do()
		d.pass(time.Hour)
		r.Round(t.Context(), false)
		require.Len(t, p.calls(), before+tt.sent, tt.what)
		is, _ := lists.Get("a")
		require.Equal(t, tt.why, is.Reason, tt.what)
		require.Equal(t, []string{"kept"}, ids(lists.Models(up)), tt.what)
		left := d.left()
		require.Len(t, left, 1, tt.what)
		require.Equal(t, tt.kind, left[0].Kind, tt.what)
		require.NotContains(t, string(left[0].Payload), key, tt.what)
	}
}

// TestForms: both forms of a list are read, in pages, and what is no name of a model is left out.
func TestForms(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	up := schemas.ModelUpstream{Name: "a", URL: p.url}
	d := newEnv(t, up)
	r, lists := d.worker()
	p.answer = func(q *http.Request) string {
		if q.URL.Query().Get("after_id") == "claude-1" {
			return `{"data":[{"type":"model","id":"claude-2","created_at":"not a time"},{"id":"claude-1"}],"has_more":false,"last_id":"claude-2"}`
		}
		return `{"data":[{"type":"model","id":"claude-1","display_name":"Claude One","created_at":"1970-01-02T00:00:00Z","max_input_tokens":200000},
			{"id":"with space"},{"id":7},7,null,{"id":"a\u0000b"},{"id":"odd","created":"1","context_length":-4,"max_model_len":4096,"display_name":"two\nlines"}],
			"has_more":true,"first_id":"claude-1","last_id":"claude-1"}`
	}
	r.Round(t.Context(), false)
	require.Equal(t, []schemas.ListedModel{
		{ID: "claude-1", DisplayName: "Claude One", Created: 86400, Context: 200000}, {ID: "odd", Context: 4096}, {ID: "claude-2"},
	}, lists.Models(up))
	require.Equal(t, "GET /models?after_id=claude-1&limit=1000 Bearer "+key+" 2023-06-01", p.calls()[1])
	left := d.left()
	require.Len(t, left, 2)
	require.Contains(t, string(left[1].Payload), `"request_fingerprint":"GET model:a/models"`)

	p.answer = func(q *http.Request) string { // without end, and each page the same
		return `{"data":[{"id":"x` + q.URL.Query().Get("after_id") + `"}],"has_more":true,"last_id":"x` + q.URL.Query().Get("after_id") + `"}`
	}
	before := len(p.calls())
	d.pass(time.Hour)
	r.Round(t.Context(), false)
	require.Len(t, p.calls(), before+5)
	require.Len(t, lists.Models(up), 5)

	many := make([]map[string]string, 2500)
	for i := range many {
		many[i] = map[string]string{"id": fmt.Sprint("m", i)}
	}
	body, err := json.Marshal(map[string]any{"data": many})
	require.NoError(t, err)
	p.says(http.StatusOK, string(body))
	d.pass(time.Hour)
	r.Round(t.Context(), false)
	require.Len(t, lists.Models(up), 2000)
}

// TestRun: lists are read when a node starts and after a reload, and a stop ends it.
func TestRun(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	up := schemas.ModelUpstream{Name: "a", URL: p.url}
	d := newEnv(t, up)
	r, lists := d.worker()
	p.says(http.StatusServiceUnavailable, "")
	r.Start(t.Context())
	t.Cleanup(r.Stop)
	poll.Until(t, func() bool { is, _ := lists.Get("a"); return is.Failures == 1 })
	p.says(http.StatusOK, `{"data":[{"id":"m"}]}`)
	r.Refresh()
	poll.Until(t, func() bool { return len(lists.Models(up)) == 1 })
	r.Stop()
}
