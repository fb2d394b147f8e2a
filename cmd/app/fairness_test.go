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
	"time"

	"github.com/stretchr/testify/require"

	"weir/internal/weirtest/poll"
)

// patient calls last for as long as a test may keep its gate shut.
const patient = "policy: {timeout: 100s, allowed_hosts: [127.0.0.1]}\n"

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

// crowdAndOther are a tenant with much to do, and one with little.
func (c caller) crowdAndOther(t *testing.T) (crowd, other caller) {
	t.Helper()
	crowd, _ = c.grant(t, `{"name":"crowd","tenant":"crowd","scopes":["actions:write"],"rate":"10000/s"}`)
	other, _ = c.grant(t, `{"name":"other","tenant":"other","scopes":["actions:write"]}`)
	return crowd, other
}

// queue has a call of somebody's accepted.
func (u *tally) queue(t *testing.T, who caller, path string, header ...string) {
	t.Helper()
	status, text, _ := who.do(t, http.MethodPost, "/v1/execute", fmt.Sprintf(`{"method":"GET","url":%q}`, u.url+path), append(header, "Prefer", "respond-async")...)
	require.Equal(t, http.StatusAccepted, status, text)
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

// TestOneTenantDoesNotHoldUpAnother queues 400 calls of one tenant's to a target that answers
// nobody, and then one of another's. Once the target answers, that one is called long before
// the first tenant's have been, and each is called once.
func TestOneTenantDoesNotHoldUpAnother(t *testing.T) {
	t.Parallel()
	const many = 400
	u := newTally(t)
	a := newApp(t, withTokens+patient+"workers: {slots: 4, crowd_after: 64}\n")
	admin := a.admin(t)
	crowd, other := admin.crowdAndOther(t)
	for i := range many {
		u.queue(t, crowd, fmt.Sprintf("/crowd/%d", i))
	}
	u.queue(t, other, "/other")
	poll.Until(t, func() bool { return admin.metric(t, "weir_crowds") == "1" })
	close(u.gate)
	poll.Until(t, func() bool { return len(u.order()) == many+1 })
	hits := u.order()
	require.Less(t, slices.Index(hits, "/other"), many/2)
	slices.Sort(hits)
	require.Len(t, slices.Compact(hits), many+1, "each is called once")
	poll.Until(t, func() bool { return admin.metric(t, "weir_crowds") == "0" }, "it is handed back")
}

// TestDelayedStart: an action that is put off is not begun before its time, and then is.
func TestDelayedStart(t *testing.T) {
	t.Parallel()
	u := newTally(t)
	close(u.gate)
	a := newApp(t, "log: {durability: process}\n")
	begun := time.Now()
	body := fmt.Sprintf(`{"method":"GET","url":%q}`, u.url+"/later")
	status, text, h := a.ask(t, http.MethodPost, "/v1/execute", body, "Weir-Delay", "10s")
	require.Equal(t, http.StatusAccepted, status, text)
	id := h.Get("Weir-Action-Id")
	show := func() string {
		_, text, _ := a.ask(t, http.MethodGet, "/v1/actions/"+id, "")
		return text
	}
	poll.Until(t, func() bool { return strings.Contains(show(), `"for":"delay"`) })
	require.Contains(t, show(), `"not_before":"`)
	require.Empty(t, u.order())
	poll.Until(t, func() bool { return strings.Contains(show(), `"status":"succeeded"`) })
	require.Equal(t, []string{"/later"}, u.order())
	require.GreaterOrEqual(t, time.Since(begun), 10*time.Second)
}

// TestOrderingKey: calls with one key are made one after another, as they were accepted; those
// of others are not held back, and one that is canceled before its turn is not made.
func TestOrderingKey(t *testing.T) {
	t.Parallel()
	u := newTally(t)
	a := newApp(t, patient+"log: {partitions: 4, durability: process}\n")
	ask := func(path, key string) string {
		body := fmt.Sprintf(`{"method":"POST","url":%q}`, u.url+path)
		status, text, h := a.ask(t, http.MethodPost, "/v1/execute", body, "Weir-Ordering-Key", key, "Prefer", "respond-async")
		require.Equal(t, http.StatusAccepted, status, text)
		return h.Get("Weir-Action-Id")
	}
	show := func(id string) string {
		_, text, _ := a.ask(t, http.MethodGet, "/v1/actions/"+id, "")
		return text
	}
	var want, ids []string
	for i := range 8 {
		path := fmt.Sprintf("/%d", i)
		if ids = append(ids, ask(path, "k")); i != 4 {
			want = append(want, path)
		}
	}
	other := ask("/other", "another")
	poll.Until(t, func() bool { return strings.Contains(show(other), `"started"`) && len(u.order()) == 2 }, "nobody is before it")
	for _, id := range ids[1:] {
		poll.Until(t, func() bool { return strings.Contains(show(id), `"waiting":{"for":"order"}`) })
	}
	require.Contains(t, show(ids[0]), `"ordering_key":"k"`)
	status, text, _ := a.ask(t, http.MethodPost, "/v1/actions/"+ids[4]+"/cancel", "")
	require.Equal(t, http.StatusAccepted, status, text)
	poll.Until(t, func() bool { return strings.Contains(show(ids[4]), `"status":"canceled"`) })
	close(u.gate)
	for i, id := range ids {
		if i != 4 {
			poll.Until(t, func() bool { return strings.Contains(show(id), `"status":"succeeded"`) })
		}
	}
	require.Equal(t, want, slices.DeleteFunc(u.order(), func(path string) bool { return path == "/other" }))
}

// TestPriority: what is of high priority is called before what waits and is not, of this tenant
// and of another that has a crowd; and that goes on meanwhile.
func TestPriority(t *testing.T) {
	t.Parallel()
	const many = 200
	u := newTally(t)
	a := newApp(t, withTokens+patient+"workers: {slots: 1, crowd_after: 64}\n")
	admin := a.admin(t)
	crowd, other := admin.crowdAndOther(t)
	for i := range many {
		u.queue(t, crowd, fmt.Sprintf("/crowd/%d", i))
	}
	poll.Until(t, func() bool { return admin.metric(t, "weir_crowds") == "1" })
	for i := range 10 {
		u.queue(t, other, fmt.Sprintf("/normal/%d", i))
	}
	for i := range 10 {
		u.queue(t, other, fmt.Sprintf("/high/%d", i), "Weir-Priority", "high")
	}
	u.queue(t, crowd, "/crowd/high", "Weir-Priority", "high")
	close(u.gate)
	poll.Until(t, func() bool { return len(u.order()) == many+21 })
	place := map[string]int{}
	for i, path := range u.order() {
		place[path] = i
	}
	require.Len(t, place, many+21, "each is called once")
	for i := range 10 {
		require.Less(t, place[fmt.Sprintf("/high/%d", i)], place["/normal/9"])
		require.Less(t, place[fmt.Sprintf("/high/%d", i)], 40)
	}
	require.Less(t, place["/crowd/high"], many/2)
}

// TestQueueThatIsTooLong: with a target that answers nobody, new actions are refused once too
// many wait, of one tenant and of all, and nothing is stored of them; who repeats one that
// exists joins it; and when the target answers there is room again.
func TestQueueThatIsTooLong(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		limits string
		status int
		code   string
	}{
		"one tenant":  {"limits: {queued_per_tenant: 20}\n", http.StatusTooManyRequests, `"RATE_LIMITED"`},
		"all of them": {"limits: {queued: 20}\n", http.StatusServiceUnavailable, `"QUEUE_FULL"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := newTally(t)
			a := newApp(t, patient+"log: {durability: process}\nworkers: {slots: 1}\n"+tc.limits)
			ask := func(id string) (int, string, http.Header) {
				body := fmt.Sprintf(`{"request_id":%q,"type":"Http","args":{"method":"GET","url":%q}}`, id, u.url+"/"+id)
				return a.ask(t, http.MethodPost, "/v1/execute", body, "Prefer", "respond-async")
			}
			taken, refused := 0, http.Header(nil)
			poll.Until(t, func() bool {
				status, text, h := ask(fmt.Sprintf("a%d", taken))
				if status == http.StatusAccepted {
					taken++
					return false
				}
				require.Equal(t, tc.status, status, text)
				require.Contains(t, text, tc.code)
				refused = h
				return taken >= 20 // what is accepted while the log counts is counted twice, until it counts again in a second
			})
			require.Equal(t, "5", refused.Get("Retry-After"))
			status, text, _ := a.ask(t, http.MethodGet, fmt.Sprintf("/v1/actions/a%d", taken), "")
			require.Equal(t, http.StatusNotFound, status, text)
			status, text, _ = ask("a0")
			require.Equal(t, http.StatusAccepted, status, "one that exists is joined: "+text)
			require.Contains(t, text, `"duplicate":true`)
			close(u.gate)
			poll.Until(t, func() bool { status, _, _ := ask("again"); return status == http.StatusAccepted })
			poll.Until(t, func() bool { return len(u.order()) == taken+1 })
		})
	}
}
