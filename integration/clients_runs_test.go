//go:build e2e

package integration_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/weirtest/cluster"
	"weir/schemas"
)

// The requests of the run contract's own clients. Each sends what it sends in the wild.
const (
	workerRun = `{"request_id":"job-1","task_type":"LIT","workflow_id":"wf","stage_id":"3","user_id":"u-7","mode":"LIVE","risk_tier":"NON_SENSITIVE",` +
		`"domain_id":"clinical","inputs":{"query":"statins","k":1.50},"budgets":{"max_time_ms":300000,"max_tokens":100000},"trace_id":"trace-1"}`
	workerAsked = `{"request_id":"job-1","task_type":"LIT","workflow_id":"wf","stage_id":"3","user_id":"u-7","mode":"LIVE","risk_tier":"NON_SENSITIVE",` +
		`"domain_id":"clinical","inputs":{"query":"statins","k":1.50},"budgets":{"max_time_ms":300000,"max_tokens":100000}}`
	checkerRun = `{"request_id":"contract-check-LIT","task_type":"LIT","inputs":{}}`
	// said is all that an agent may answer beside its outputs.
	said = `"artifacts":["s3://a"],"provenance":{"model":"m"},"usage":{"duration_ms":5,"tokens":7},"grounding":{"citations":[{"id":1}]},"warnings":["w"]`
)

// originals is an agent that answers each route as one of the originals does; a route that it
// has no answer for is 404 in its framework's words.
type originals struct {
	*httptest.Server
	routes map[string]func(id string) string // bodies; that of the stream is server-sent events

	mu    sync.Mutex
	asked []*http.Request
	body  []string
}

func newOriginal(tb testing.TB, routes map[string]func(id string) string) *originals {
	tb.Helper()
	o := &originals{routes: routes}
	o.Server = httptest.NewServer(o)
	tb.Cleanup(o.Close)
	return o
}

func (o *originals) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	var run schemas.RunRequest
	_ = json.Unmarshal(body, &run)
	o.mu.Lock()
	o.asked, o.body = append(o.asked, r), append(o.body, string(body))
	answer := o.routes[r.URL.Path]
	o.mu.Unlock()
	if answer == nil {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, `{"detail":"Not Found"}`)
		return
	}
	text := answer(run.RequestID)
	w.Header().Set("Content-Type", "application/json")
	if strings.HasPrefix(text, "event: ") {
		w.Header().Set("Content-Type", "text/event-stream")
	}
	_, _ = io.WriteString(w, text)
}

// paths are the routes that were asked, in order.
func (o *originals) paths() (all []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, r := range o.asked {
		all = append(all, r.URL.Path)
	}
	return all
}

// document is an end with the members that are given.
func document(members string) func(string) string {
	return func(id string) string { return fmt.Sprintf(`{"request_id":%q,%s}`, id, members) }
}

// spoken is a stream with one progress event and an end.
func spoken(name, members string) func(string) string {
	return func(id string) string {
		return fmt.Sprintf("event: started\ndata: {\"request_id\":%q,\"task_type\":\"LIT\"}\n\nevent: progress\ndata: {\"percent\":50}\n\nevent: %s\ndata: {\"request_id\":%q,\"task_type\":\"LIT\",%s}\n\n", id, name, id, members)
	}
}

// configured writes a configuration with one agent.
func configured(tb testing.TB, url string) string {
	tb.Helper()
	path := filepath.Join(tb.TempDir(), "weir.yaml")
	require.NoError(tb, os.WriteFile(path, fmt.Appendf(nil, "agents:\n  LIT: {url: %q}\n", url), 0o600))
	return path
}

// TestClientsOfRuns sends what real clients of the run contract send to the built program, with
// agents that answer as the originals do, and holds the answers against what those clients read.
func TestClientsOfRuns(t *testing.T) {
	t.Parallel()
	const (
		sync, stream = schemas.RouteRunSync, schemas.RouteRunStream
		ok           = `"status":"ok","outputs":{"papers":[1.50]}`
	)
	all := document(ok + "," + said)
	failing := func(outputs string) func(string) string {
		return document(`"status":"error","ok":false,"outputs":` + outputs + `,"usage":{"duration_ms":5}`)
	}
	for name, tt := range map[string]struct {
		routes map[string]func(string) string
		route  string
		body   string
		asked  []string
		answer string // but for request_id; of a stream its last event, but for what each has
	}{
		"an orchestrator's worker": {
			map[string]func(string) string{sync: all, stream: spoken("final", `"status":"ok","outputs":{}`)},
			sync, workerRun,
			[]string{sync},
			`{"status":"ok","outputs":{"papers":[1.50]},` + said + `}`,
		},
		"the contract checker": {
			map[string]func(string) string{sync: all, stream: spoken("final", ok)},
			sync, checkerRun,
			[]string{sync},
			`{"status":"ok","outputs":{"papers":[1.50]},` + said + `}`,
		},
		"the contract checker's stream": {
			map[string]func(string) string{sync: all, stream: spoken("final", ok+","+said)},
			stream, checkerRun,
			[]string{stream},
			`{"status":"ok","success":true,"outputs":{"papers":[1.50]},` + said + `}`,
		},
		"a worker, an agent that has a stream alone": {
			map[string]func(string) string{stream: spoken("complete", ok+","+said)},
			sync, workerRun,
			[]string{sync, stream},
			`{"status":"ok","outputs":{"papers":[1.50]},` + said + `}`,
		},
		"a stream, an agent that has none": {
			map[string]func(string) string{sync: all},
			stream, checkerRun,
			[]string{stream, sync},
			`{"status":"ok","success":true,"outputs":{"papers":[1.50]},` + said + `}`,
		},
		"outputs.error": {
			map[string]func(string) string{sync: failing(`{"error":"no corpus","warning":"w"}`)},
			sync, workerRun,
			[]string{sync},
			`{"status":"error","outputs":{"error":"no corpus","warning":"w"},"usage":{"duration_ms":5},"error":{"code":"TASK_FAILED","message":"no corpus"}}`,
		},
		"outputs.warning": {
			map[string]func(string) string{sync: failing(`{"warning":"not ready"}`)},
			sync, workerRun,
			[]string{sync},
			`{"status":"error","outputs":{"warning":"not ready"},"usage":{"duration_ms":5},"error":{"code":"TASK_FAILED","message":"not ready"}}`,
		},
		"outputs.error in a stream": {
			map[string]func(string) string{stream: spoken("final", `"status":"error","success":false,"outputs":{"error":"no corpus"},"usage":{"duration_ms":5}`)},
			stream, checkerRun,
			[]string{stream},
			`{"status":"error","success":false,"outputs":{"error":"no corpus"},"usage":{"duration_ms":5},"error":{"code":"TASK_FAILED","message":"no corpus"}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := newOriginal(t, tt.routes)
			w := serve(t, t.TempDir(), "--config", configured(t, o.URL), "--durability", "process")
			var run schemas.RunRequest
			require.NoError(t, json.Unmarshal([]byte(tt.body), &run))
			resp, text := w.request(t, http.MethodPost, tt.route, tt.body, "X-Request-ID", run.RequestID)
			require.Equal(t, http.StatusOK, resp.StatusCode, text)
			require.Equal(t, run.RequestID, resp.Header.Get("Weir-Action-Id"))
			require.Equal(t, tt.asked, o.paths())
			for i, r := range o.asked {
				assert.Equal(t, run.RequestID, r.Header.Get("X-Request-Id"))
				want := tt.body
				if want == workerRun {
					want = workerAsked
				}
				assert.Equal(t, want, o.body[i])
			}
			want := fmt.Sprintf(`{"request_id":%q,`, run.RequestID) + tt.answer[1:]
			if tt.route == stream {
				events := frames([]byte(text))
				require.Equal(t, "started", events[0].name)
				require.Equal(t, "complete", events[len(events)-1].name)
				require.Equal(t, 1, strings.Count(text, "event: complete\n"))
				require.Equal(t, slices.Contains(tt.asked, sync), len(events) == 2, "a synchronous call shows no progress")
				_, text, _ = strings.Cut(events[len(events)-1].text, "\ndata: ")
				want = `{"type":"final","task_type":"LIT",` + want[1:]
			}
			require.JSONEq(t, want, text)
			require.NotContains(t, w.Said(), "statins")
			require.NotContains(t, w.Said(), "corpus")
			_, text = w.request(t, http.MethodGet, "/v1/evidence?action_id="+run.RequestID, "")
			require.Equal(t, len(tt.asked), strings.Count(text, `"kind":"http.attempt","entry":"agent:LIT"`), "each call leaves evidence")
		})
	}
}

// TestAJobIsRetried: a job queue retries under the same id after the agent was down. However many
// retries race, one successor is begun and the agent is asked once.
func TestAJobIsRetried(t *testing.T) {
	t.Parallel()
	free, err := cluster.FreePorts(t.Context(), 1)
	require.NoError(t, err)
	addr := free[0]
	dir, config := t.TempDir(), configured(t, "http://"+addr)
	w := serve(t, dir, "--config", config, "--durability", "process")

	_, text := w.request(t, http.MethodPost, schemas.RouteRunSync, workerRun)
	down := decode[schemas.RunResponse](t, text)
	require.Equal(t, string(schemas.AgentUnavailable), down.Error.Code, text)
	w.Kill()
	w = serve(t, dir, "--config", config, "--durability", "process")

	hold := make(chan struct{})
	o := &originals{routes: map[string]func(string) string{schemas.RouteRunSync: func(id string) string {
		<-hold
		return document(`"status":"ok","outputs":{"n":1},` + said)(id)
	}}}
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp4", addr)
	require.NoError(t, err)
	o.Server = httptest.NewUnstartedServer(o)
	require.NoError(t, o.Listener.Close())
	o.Listener = listener
	o.Start()
	t.Cleanup(o.Close)

	var wg sync.WaitGroup
	answers := make(chan string, 50)
	// A stream of the run has its first event as soon as it stands, although the agent is silent.
	first := make(chan struct{}, cap(answers))
	for i := range cap(answers) {
		wg.Go(func() {
			body := strings.Replace(workerRun, "trace-1", fmt.Sprintf("trace-%d", i), 1)
			if i%5 != 0 { // one in five streams
				first <- struct{}{}
				_, text, err := w.try(t.Context(), http.MethodPost, schemas.RouteRunSync, body)
				if err != nil {
					t.Error(err)
				}
				answers <- text
				return
			}
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.URL+schemas.RouteRunStream, strings.NewReader(body))
			if err != nil {
				t.Error(err)
				return
			}
			req.Header.Set("Content-Type", "application/json")
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Error(err)
				return
			}
			defer resp.Body.Close()
			assert.Equal(t, "job-1~2", resp.Header.Get("Weir-Action-Id"))
			begun := make([]byte, len("id: "))
			_, err = io.ReadFull(resp.Body, begun)
			first <- struct{}{}
			rest, cut := io.ReadAll(resp.Body)
			if err = errors.Join(err, cut); err != nil {
				t.Error(err)
			}
			assert.Equal(t, 1, strings.Count(string(rest), "event: started\n"))
			assert.Equal(t, 1, strings.Count(string(rest), "event: complete\n"))
		})
	}
	for range cap(answers) {
		<-first
	}
	close(hold)
	wg.Wait()
	close(answers)
	for text := range answers {
		require.JSONEq(t, `{"request_id":"job-1","status":"ok","outputs":{"n":1},`+said+`}`, text)
	}
	// The repeat that begins the successor may be a stream, whose route this agent lacks.
	asked := o.paths()
	require.Contains(t, [][]string{{schemas.RouteRunSync}, {schemas.RouteRunStream, schemas.RouteRunSync}}, asked, "one of the repeats is performed")
	require.Equal(t, []string{workerAsked}, o.body[len(asked)-1:], "the agent gets the job's own id")

	_, text = w.request(t, http.MethodGet, "/v1/actions/job-1", "")
	before := decode[schemas.ActionView](t, text)
	require.Equal(t, "job-1~2", before.SupersededBy)
	require.Equal(t, schemas.AgentUnavailable, before.Code)
	_, text = w.request(t, http.MethodGet, "/v1/actions/job-1~2", "")
	require.Equal(t, "job-1", decode[schemas.ActionView](t, text).Supersedes)
	for _, id := range []string{"job-1", "job-1~2"} {
		ends := 0
		for _, ev := range allEvents(t, w, id) {
			if ev.Type == schemas.EventSettled {
				ends++
			}
		}
		require.Equal(t, 1, ends, id)
	}
	_, text = w.request(t, http.MethodGet, "/v1/actions?kind=run&q=job-1~", "")
	page := decode[schemas.ActionPage](t, text)
	require.Len(t, page.Items, 1)
	require.Equal(t, "job-1~2", page.Items[0].ID)

	resp, text := w.request(t, http.MethodPost, schemas.RouteRunSync, strings.Replace(workerRun, `"job-1"`, `"job-1~2"`, 1))
	require.Equal(t, http.StatusUnprocessableEntity, resp.StatusCode, text)
	require.Contains(t, text, "request_id")
}
