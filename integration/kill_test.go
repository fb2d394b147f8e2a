//go:build e2e

package integration_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/schemas"
)

// ledgerServer writes each request down before it answers, and while it is held
// answers none.
type ledgerServer struct {
	*httptest.Server
	mu      sync.Mutex
	hits    map[string]int
	total   int
	arrived chan struct{} // has room for every arrival
	release chan struct{}
}

func newLedgerServer(tb testing.TB) *ledgerServer {
	tb.Helper()
	s := &ledgerServer{hits: map[string]int{}, arrived: make(chan struct{}, 10_000), release: make(chan struct{})}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.hits[r.Method+" "+r.URL.Path]++
		s.total++
		release := s.release
		s.mu.Unlock()
		s.arrived <- struct{}{}
		select {
		case <-release:
		case <-r.Context().Done():
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"ok":true}`))
	}))
	tb.Cleanup(func() { s.open(); s.Close() })
	return s
}

// open lets all requests be answered, those to come too.
func (s *ledgerServer) open() {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.release:
	default:
		close(s.release)
	}
}

func (s *ledgerServer) count(method, path string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hits[method+" "+path]
}

// sent is one action of the test, with the calls that it asks for.
type sent struct {
	id    string
	kind  string
	calls [][2]string // method, path
}

// mixed makes 100 actions: GET, PUT, POST and plans of a POST and a GET.
func mixed(upstream string) (actions []sent, bodies, routes []string) {
	for i := range 100 {
		id := fmt.Sprintf("mixed-%d", i)
		path := fmt.Sprintf("/%d", i)
		call := func(method string) {
			actions = append(actions, sent{id: id, kind: method, calls: [][2]string{{method, path}}})
			routes = append(routes, "/v1/execute")
			body := ""
			if method != http.MethodGet {
				body = `,"body":{"n":1}`
			}
			bodies = append(bodies, fmt.Sprintf(`{"type":"Http","request_id":%q,"args":{"method":%q,"url":"%s%s"%s}}`, id, method, upstream, path, body))
		}
		switch i % 4 {
		case 0:
			call(http.MethodGet)
		case 1:
			call(http.MethodPut)
		case 2:
			call(http.MethodPost)
		default:
			actions = append(actions, sent{id: id, kind: "plan", calls: [][2]string{{http.MethodPost, path}, {http.MethodGet, path + "/then"}}})
			routes = append(routes, "/v1/plans")
			bodies = append(bodies, fmt.Sprintf(`{"request_id":%q,"state:env.snapshot":{},"artifact:proposed.plan":{"decisions":[
				{"effect_ref":"a","target_state":{"method":"POST","url":"%s%s","allowlist_key":"up","body":{}}},
				{"effect_ref":"b","target_state":{"url":"%s%s/then","allowlist_key":"up"}}]}}`, id, upstream, path, upstream, path))
		}
	}
	return actions, bodies, routes
}

// TestKillInFlight kills the program while 100 actions are in flight and starts
// it again on the same data: every action ends, once, and nothing that must not
// be repeated is.
func TestKillInFlight(t *testing.T) {
	t.Parallel()
	for _, durability := range []string{"disk", "process"} {
		t.Run(durability, func(t *testing.T) {
			t.Parallel()
			upstream := newLedgerServer(t)
			dir, config := t.TempDir(), policyFile(t, upstream.URL)
			w := serve(t, dir, "--config", config, "--durability", durability)
			actions, bodies, routes := mixed(upstream.URL)
			for i := range actions {
				resp, body := w.request(t, http.MethodPost, routes[i], bodies[i], "Prefer", "respond-async")
				require.Equal(t, http.StatusAccepted, resp.StatusCode, body)
			}
			for range actions { // each action has its first call under way
				<-upstream.arrived
			}
			w.Kill()
			upstream.open()

			w = serve(t, dir, "--config", config, "--durability", durability)
			for _, a := range actions {
				checkSettled(t, w, upstream, a)
			}
		})
	}
}

// checkSettled waits for an action's end and holds it against the ledger.
func checkSettled(t *testing.T, w *weir, upstream *ledgerServer, a sent) {
	t.Helper()
	events := allEvents(t, w, a.id)
	var settled []schemas.Settled
	attempts := 0
	for _, e := range events {
		switch e.Type {
		case schemas.EventSettled:
			settled = append(settled, *e.Settled)
		case schemas.EventAttempt:
			attempts++
		default:
		}
	}
	require.Len(t, settled, 1, "%s must have one terminal event", a.id)
	hits := 0
	for _, c := range a.calls {
		n := upstream.count(c[0], c[1])
		hits += n
		if c[0] == http.MethodPost {
			assert.LessOrEqual(t, n, 1, "%s reached the upstream more than once", a.id)
		}
		assert.LessOrEqual(t, n, 3)
	}
	assert.LessOrEqual(t, hits, attempts, "%s: every call was written down before it was made", a.id)
	switch a.kind {
	case http.MethodGet, http.MethodPut:
		assert.Equal(t, schemas.OutcomeSucceeded, settled[0].Outcome, a.id)
	case http.MethodPost:
		assert.Equal(t, schemas.OutcomeUnknown, settled[0].Outcome, a.id)
	}
}

// allEvents follows an action's pages until its terminal event.
func allEvents(t *testing.T, w *weir, id string) []schemas.Event {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var events []schemas.Event
	after := "0"
	for {
		resp, body, err := w.try(ctx, http.MethodGet, "/v1/actions/"+id+"/events?live=long-poll&after="+after, "", "Accept", "application/json")
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, resp.StatusCode, body)
		page := decode[schemas.Page[json.RawMessage]](t, body)
		for _, item := range page.Items {
			e := decode[schemas.Event](t, string(item))
			events = append(events, e)
			if e.Type == schemas.EventSettled {
				return events
			}
		}
		if page.Next != "" {
			after = page.Next
		}
	}
}
