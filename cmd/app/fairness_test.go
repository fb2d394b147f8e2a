package app

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/internal/weirtest/poll"
)

// tally is an upstream that holds its calls until its gate is open, and keeps their order.
type tally struct {
	url  string
	gate chan struct{}
	mu   sync.Mutex
	hits []string
}

func newTally(t *testing.T) *tally {
	t.Helper()
	u := &tally{gate: make(chan struct{})}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		u.mu.Lock()
		u.hits = append(u.hits, r.URL.Path)
		u.mu.Unlock()
		select {
		case <-u.gate:
		case <-r.Context().Done():
		}
		_, _ = io.WriteString(w, `{}`)
	}))
	t.Cleanup(s.Close)
	u.url = s.URL
	return u
}

func (u *tally) order() []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return slices.Clone(u.hits)
}

// metric is the value of one series.
func (c caller) metric(t *testing.T, series string) string {
	t.Helper()
	_, text, _ := c.do(t, http.MethodGet, "/metrics", "")
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(line, series+" "); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// TestOneTenantDoesNotHoldUpAnother: while every call of one tenant hangs, and far more of them wait than fit, what
// another has accepted is called at once. Each is called once. When too many wait of one tenant, or of all, new actions
// are refused and not stored, one that exists is joined, and later there is room again.
func TestOneTenantDoesNotHoldUpAnother(t *testing.T) {
	t.Parallel()
	const many = 40
	u := newTally(t)
	a := newApp(t, withTokens+"policy: {timeout: 300s, allowed_hosts: [127.0.0.1]}\ndeadline: {http: 1h}\nworkers: {slots: 4}\n"+ // however long the queue takes to fill
		fmt.Sprintf("limits: {queued_per_tenant: %d, queued: %d}\n", many, many+30))
	open := sync.OnceFunc(func() { close(u.gate) })
	t.Cleanup(open) // before the node is stopped
	admin := a.admin(t)
	heavy, _ := admin.grant(t, `{"name":"heavy","tenant":"heavy","scopes":["actions:write","actions:read"],"rate":"10000/s"}`)
	other, _ := admin.grant(t, `{"name":"other","tenant":"other","scopes":["actions:write"]}`)
	accepted := []string{}
	queue := func(who caller, id string) (int, string, http.Header) {
		body := fmt.Sprintf(`{"request_id":%q,"type":"Http","args":{"method":"GET","url":%q}}`, id, u.url+"/"+id)
		status, text, h := who.do(t, http.MethodPost, "/v1/execute", body, "Prefer", "respond-async")
		if status == http.StatusAccepted && !strings.Contains(text, `"duplicate":true`) {
			accepted = append(accepted, "/"+id)
		}
		return status, text, h
	}
	// What is accepted while the log counts is counted twice, until it counts again in a second.
	fill := func(who caller, name string, most, status int, code string) {
		t.Helper()
		n := 0
		poll.Until(t, func() bool {
			id := fmt.Sprint(name, n)
			got, text, h := queue(who, id)
			for got == http.StatusAccepted {
				n++
				id = fmt.Sprint(name, n)
				got, text, h = queue(who, id)
			}
			if got != status { // counted twice, all are too many
				return false
			}
			require.Contains(t, text, code)
			require.Equal(t, "5", h.Get("Retry-After"))
			if who == heavy {
				got, text, _ = who.do(t, http.MethodGet, "/v1/actions/"+id, "")
				require.Equal(t, http.StatusNotFound, got, text)
			}
			return n >= most
		})
	}
	fill(heavy, "heavy", many, http.StatusTooManyRequests, `"RATE_LIMITED"`)
	status, text, _ := queue(heavy, "heavy0")
	require.Equal(t, http.StatusAccepted, status, "one that exists is joined: "+text)
	require.Contains(t, text, `"duplicate":true`)
	_, text, _ = admin.do(t, http.MethodGet, "/v1/operations", "")
	require.Contains(t, text, `"items":[]`)
	for i := range 4 {
		poll.Until(t, func() bool {
			status, _, _ := queue(other, fmt.Sprint("other", i))
			return status == http.StatusAccepted
		})
	}
	poll.Until(t, func() bool { return slices.Contains(u.order(), "/other0") }, "all of the heavy one's hang")
	require.LessOrEqual(t, len(u.order()), 4)
	fill(other, "more", 1, http.StatusServiceUnavailable, `"QUEUE_FULL"`)

	open()
	poll.Until(t, func() bool { return len(u.order()) >= len(accepted) })
	place := map[string]int{}
	for i, path := range u.order() {
		place[path] = i
	}
	require.Len(t, u.order(), len(accepted), "each is called once")
	for _, path := range accepted {
		require.Contains(t, place, path)
	}
	require.Less(t, place["/other3"], 25, "what waits is mixed")
	require.NotEqual(t, "0", admin.metric(t, `weir_work_overflowed_total{kind="http"}`))
	poll.Until(t, func() bool { status, _, _ := queue(heavy, "again"); return status == http.StatusAccepted })
}
