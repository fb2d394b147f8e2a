//go:build e2e

package crash_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/internal/failpoint"
	"weir/internal/weirtest/poll"
	"weir/internal/weirtest/program"
	"weir/schemas"
)

// The entries of a sales target: Weir derives keys, a probe tells, a probe cannot tell.
const (
	derived = "derived"
	probed  = "probed"
	mute    = "mute"
)

// sales is a target that keeps a ledger of its effects.
type sales struct {
	*httptest.Server

	mu      sync.Mutex
	effects map[string]int  // by name
	keys    map[string]bool // that had their effect
}

func newSales(t *testing.T) *sales {
	t.Helper()
	s := &sales{effects: map[string]int{}, keys: map[string]bool{}}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *sales) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		panic(http.ErrAbortHandler)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	entry, name := path.Base(path.Dir(r.URL.Path)), path.Base(r.URL.Path)
	switch key := r.Header.Get("Idempotency-Key"); {
	case r.Method == http.MethodGet && entry == mute:
		w.WriteHeader(http.StatusNoContent)
		return
	case r.Method == http.MethodGet && s.effects[name] == 0:
		w.WriteHeader(http.StatusNotFound)
		return
	case r.Method == http.MethodGet, key != "" && s.keys[key]:
	default:
		s.effects[name]++
		s.keys[key] = true
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, `{"sold":true}`)
}

func (s *sales) policy() string {
	const probe = `methods: [GET, POST], reconcile: {url: "%[1]s/%[2]s/{request.action_id}", applied: response.status == 200, not_applied: response.status == 404, within: 1s}`
	entry := func(name, rest string) string {
		return fmt.Sprintf("    - {name: %[2]s, url_prefix: \"%[1]s/%[2]s/\", network: loopback, "+rest+"}\n", s.URL, name)
	}
	return "policy:\n  allowlist:\n" + entry(derived, "methods: [POST], upstream_idempotency: {ttl: 1h, derive: true}") + entry(probed, probe) + entry(mute, probe)
}

// TestLostAnswers: the program dies at each point of a call that may have one effect, and, with a
// probe, at the same point of the probe. There are never two effects, no outcome is unknown where a
// key or a probe tells, and each attempt and each probe has its evidence.
func TestLostAnswers(t *testing.T) {
	t.Parallel()
	for point, deaths := range map[failpoint.Point]int{
		failpoint.Decided: 1, failpoint.Dialled: 1, failpoint.Declared: 2, failpoint.MidBody: 1,
		failpoint.Begun: 1, failpoint.Answered: 2, failpoint.Settling: 1,
	} {
		t.Run(string(point), func(t *testing.T) {
			t.Parallel()
			target := newSales(t)
			n := serve(t, "process", target.policy(), func(n *node) string {
				var arms []string
				for _, entry := range []string{derived, probed, mute} {
					if name := "of-" + entry; n.reached(name) < deaths {
						arms = append(arms, fmt.Sprintf("%s@%s=kill", point, name))
					}
				}
				return strings.Join(arms, ";")
			})
			for _, entry := range []string{derived, probed, mute} {
				target.sell(t, n, entry, deaths)
			}
		})
	}
}

// sell makes one call of an entry, and holds its end against the ledger of the target.
func (s *sales) sell(t *testing.T, n *node, entry string, deaths int) {
	t.Helper()
	ctx, id := t.Context(), "of-"+entry
	body := fmt.Sprintf(`{"type":"Http","request_id":%[1]q,"args":{"method":"POST","url":"%[2]s/%[3]s/%[1]s","allowlist_key":%[3]q,"body":{"pad":%[4]q}}}`,
		id, s.URL, entry, strings.Repeat("x", 48<<10))
	var view schemas.ActionView
	for view.Settled.IsZero() {
		base, err := n.base()
		require.NoError(t, err)
		_, _, _ = program.Ask(ctx, http.MethodPost, base+"/v1/execute", body, "Prefer", "respond-async") // a repeat joins it
		n.get(t, "/v1/actions/"+id, &view)
		require.NoError(t, pause(ctx))
	}
	require.Positive(t, n.reached(id), "the program never died")
	if entry == probed && deaths > 1 {
		require.Equal(t, deaths, n.reached(id), "the program did not die over the probe")
	}
	s.mu.Lock()
	effects := s.effects[id]
	s.mu.Unlock()
	require.LessOrEqual(t, effects, 1)
	switch {
	case entry != mute:
		require.Equal(t, "succeeded", string(view.Status), "%+v", view)
		fallthrough
	case view.Status == "succeeded":
		require.Equal(t, 1, effects)
	default:
		require.Equal(t, "outcome_unknown", string(view.Status))
	}
	var left struct {
		Items []schemas.Evidence `json:"items"`
	}
	n.get(t, "/v1/evidence?action_id="+id+"&limit=1000", &left)
	ids := map[string]int{}
	for _, e := range left.Items {
		ids[e.ID]++
	}
	for _, a := range view.Attempts {
		want := fmt.Sprintf("%s.attempt.%d.%d.%d", id, a.Step, a.Number, a.Hop)
		if a.Probe > 0 {
			want = fmt.Sprintf("%s.probe.%d.%d.%d.%d", id, a.Step, a.Probe, a.Number, a.Hop)
		}
		require.Equal(t, 1, ids[want], "%s of %v", want, ids)
	}
	require.Len(t, ids, len(view.Attempts))
}

// TestASuccessorSurvives kill -9 between its claim and its name in its predecessor's record, and
// before and after that: both actions end once and name each other.
func TestASuccessorSurvives(t *testing.T) {
	t.Parallel()
	for _, point := range []failpoint.Point{failpoint.Claimed, failpoint.Fetched, failpoint.Settling} {
		t.Run(string(point), func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			n := serve(t, "process", "agents:\n  DOWN: {url: http://127.0.0.1:1}\n", func(n *node) string {
				if n.reached("job~2") > 0 {
					return ""
				}
				return string(point) + "@job~2=kill"
			})
			ask := func() (*http.Response, error) {
				base, err := n.base()
				if err != nil {
					return nil, err
				}
				resp, _, err := program.Ask(ctx, http.MethodPost, base+schemas.RouteRunSync, `{"request_id":"job","task_type":"DOWN"}`)
				return resp, err
			}
			first, err := ask()
			require.NoError(t, err)
			require.Equal(t, "job", first.Header.Get("Weir-Action-Id"))
			_, err = ask()
			require.Error(t, err, "the node dies over the second")
			poll.Until(t, func() bool {
				_, err := n.base()
				require.NoError(t, err)
				kills, _ := n.deaths()
				return kills == 1
			}, "another process")

			read := func(id string) (view schemas.ActionView, events map[schemas.EventType]int) {
				var page schemas.Page[schemas.EventView]
				for view.Settled.IsZero() {
					n.get(t, "/v1/actions/"+id, &view)
					require.NoError(t, pause(ctx))
				}
				n.get(t, "/v1/actions/"+id+"/events?limit=1000", &page)
				events = map[schemas.EventType]int{}
				for _, e := range page.Items {
					events[e.Type]++
				}
				return view, events
			}
			after, events := read("job~2")
			require.Equal(t, "job", after.Supersedes)
			require.Equal(t, 1, events[schemas.EventSettled])
			before, events := read("job")
			require.Equal(t, "job~2", before.SupersededBy)
			require.Equal(t, 1, events[schemas.EventSettled])
			require.Equal(t, 1, events[schemas.EventSuperseded])
		})
	}
}
