//go:build e2e

package integration_test

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/internal/weirtest/agent"
	"weir/internal/weirtest/cluster"
	"weir/internal/weirtest/fixture"
	"weir/internal/weirtest/poll"
	"weir/internal/weirtest/program"
	"weir/schemas"
)

// agentYAML is a configuration with an agent, which is asked for a stream, by whichever route its
// runs come.
func agentYAML(a *agent.Agent) string {
	return fmt.Sprintf("agents:\n  %s: {url: %q, mode: stream, concurrency: 256}\n", agent.TaskType, a.URL())
}

// runBody is a request for a run.
func runBody(id, taskType, inputs string) string {
	return fmt.Sprintf(`{"request_id":%q,"task_type":%q,"inputs":%s}`, id, taskType, inputs)
}

// frame is one whole event as it came over the wire.
type frame struct {
	id, name, text string
}

// frames are the whole events among the bytes of a stream, comments left out. What
// follows the last blank line is no event yet.
func frames(data []byte) []frame {
	var all []frame
	for {
		text, rest, whole := bytes.Cut(data, []byte("\n\n"))
		if !whole {
			return all
		}
		data = rest
		f := frame{text: string(text)}
		for line := range strings.SplitSeq(f.text, "\n") {
			switch name, value, _ := strings.Cut(line, ": "); name {
			case "id":
				f.id = value
			case "event":
				f.name = value
			}
		}
		if f.id != "" || f.name != "" {
			all = append(all, f)
		}
	}
}

// open begins a stream; header is names and values, of which an empty one is left out.
func open(ctx context.Context, client *http.Client, method, url, body string, header ...string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "text/event-stream")
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(header); i += 2 {
		if header[i+1] != "" {
			req.Header.Set(header[i], header[i+1])
		}
	}
	return client.Do(req)
}

// shown are the events of an action that a dialect shows, by the log: that of runs, or that of
// actions. Each is its id and its name.
func shown(ctx context.Context, w *weir, id string, runs bool) ([]string, error) {
	events, err := logged(ctx, w, id)
	inRuns := map[schemas.EventType]string{
		schemas.EventAccepted: schemas.RunEventStarted, schemas.EventProgress: schemas.RunEventProgress, schemas.EventSettled: schemas.RunEventComplete,
	}
	var all []string
	for _, e := range events {
		name := string(e.Type)
		if runs {
			name = inRuns[e.Type]
		}
		if name != "" {
			all = append(all, fmt.Sprint(e.Seq, " ", name))
		}
	}
	return all, err
}

// told is a line that clients/follow.mjs prints.
type told struct {
	ID   string `json:"id"`
	Type string `json:"type"`
	Data string `json:"data"`
	Cut  bool   `json:"cut"`
	End  int    `json:"end"`
}

// follow runs the npm client. What it returns reads its lines until one satisfies a condition.
func follow(t *testing.T, args ...string) (until func(stop func(told) bool) []told) {
	t.Helper()
	dir := "clients"
	program.Needs(t, filepath.Join(dir, "node_modules", "eventsource"), needsNPM)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	cmd := exec.CommandContext(ctx, "node", append([]string{"follow.mjs"}, args...)...)
	cmd.Dir, cmd.Stderr = dir, t.Output()
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { cancel(); _ = cmd.Wait() })
	scan := bufio.NewScanner(out)
	return func(stop func(told) bool) (all []told) {
		for scan.Scan() {
			l := fixture.Decode[told](t, scan.Text())
			if all = append(all, l); stop(l) {
				return all
			}
		}
		require.FailNow(t, "the client ended or fell silent", "%v", all)
		return nil
	}
}

// TestEventSource follows runs with the npm package eventsource, which keeps to
// the standard of browsers, through two cuts of the connection: it sees every
// event of the log once and in order, and is told when there is no more.
func TestEventSource(t *testing.T) {
	t.Parallel()
	const steps, rounds = 6, 3
	for _, route := range []string{"actions", "runs"} {
		t.Run(route, func(t *testing.T) {
			t.Parallel()
			step := make(chan struct{}, steps)
			double := agent.New(t, agent.Config{Script: []agent.Act{{Steps: steps, Step: step}}})
			w := serve(t, t.TempDir(), "--config", configFile(t, agentYAML(double)))
			between, err := cluster.NewLink(t.Context(), strings.TrimPrefix(w.URL, "http://"))
			require.NoError(t, err)
			t.Cleanup(between.Close)
			order := runBody("watched", agent.TaskType, `{"text":"naïve\r\n\u2028 words"}`)
			args := []string{"http://" + between.Addr() + schemas.RouteRunStream, order}
			if route == "actions" {
				w.Must(t, http.StatusAccepted, http.MethodPost, schemas.RouteRunSync, order, "Prefer", "respond-async")
				args = []string{"http://" + between.Addr() + "/v1/actions/watched/events"}
			}
			until := follow(t, args...)
			var all []told
			for round := range rounds {
				for range steps / rounds {
					step <- struct{}{}
					all = append(all, until(func(l told) bool { return l.Type == string(schemas.EventProgress) })...)
				}
				if round < rounds-1 {
					between.Break()
					all = append(all, until(func(l told) bool { return l.Cut })...)
				}
			}
			all = append(all, until(func(l told) bool { return l.End != 0 })...)
			require.Equal(t, http.StatusNoContent, all[len(all)-1].End)
			var have []string
			cuts := 0
			for _, l := range all {
				if l.Cut {
					cuts++
				}
				if l.Type != "" {
					have = append(have, l.ID+" "+l.Type)
					require.True(t, json.Valid([]byte(l.Data)), l.Data)
				}
			}
			want, err := shown(t.Context(), w, "watched", route == "runs")
			require.NoError(t, err)
			require.Equal(t, want, have)
			require.Equal(t, rounds, cuts, "two cuts, and the end of a stream that is over")
			require.Equal(t, 1, double.Hits())
		})
	}
}

var resumeSeed = flag.Uint64("streams.seed", 0, "what chance begins with in TestStreamsCutAnywhere; 0 takes another one each time")

const (
	resumeStreams = 400
	resumeReaders = 48
)

// TestStreamsCutAnywhere cuts streams of runs after a random number of bytes,
// some of them several times, and resumes each on the other node: two programs on
// one replicated log. What was whole of the pieces is the log, event by event.
func TestStreamsCutAnywhere(t *testing.T) {
	t.Parallel()
	seed := cmp.Or(*resumeSeed, rand.Uint64())
	t.Logf("to repeat: -streams.seed=%d", seed)
	double := agent.New(t, agent.Config{Steps: 12})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	servers, err := cluster.Start(ctx, cluster.Config{Binary: natsBinary, Dir: t.TempDir(), Sync: "2m", Direct: true})
	require.NoError(t, err)
	t.Cleanup(servers.Stop)
	config := configFile(t, fmt.Sprintf("nats: {url: %q}\nlog: {partitions: 2}\ntelemetry: {log_level: warn}\n%s", servers.Direct(), agentYAML(double)))
	nodes := []*weir{serve(t, t.TempDir(), "--config", config), serve(t, t.TempDir(), "--config", config)}
	var (
		work                sync.WaitGroup
		mu                  sync.Mutex
		cuts, inside, early int
	)
	todo := make(chan int, resumeStreams)
	for i := range resumeStreams {
		todo <- i
	}
	close(todo)
	for range resumeReaders {
		work.Go(func() {
			for i := range todo {
				v := newViewer(nodes, rand.New(rand.NewPCG(seed, uint64(i))), i)
				if err := v.watch(ctx); err != nil {
					t.Errorf("stream %d: %v", i, err)
				}
				mu.Lock()
				cuts, inside, early = cuts+v.cuts, inside+v.inside, early+v.early
				mu.Unlock()
			}
		})
	}
	work.Wait()
	t.Logf("%d connections were cut, %d of them inside an event, %d before the first", cuts, inside, early)
	require.GreaterOrEqual(t, cuts, resumeStreams, "hardly a stream was cut")
	require.Positive(t, inside, "no event was cut in two")
	require.Positive(t, early, "no answer was cut before its first event")
	require.GreaterOrEqual(t, double.Hits(), resumeStreams/2)
}

// errCut is what a reader gets whose connection was cut.
var errCut = errors.New("cut")

// cutConn ends its connection, without a farewell, once left bytes were read.
type cutConn struct {
	net.Conn
	left int
}

func (c *cutConn) Read(p []byte) (int, error) {
	if c.left <= 0 {
		if tcp, ok := c.Conn.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0)
		}
		return 0, errors.Join(errCut, c.Close())
	}
	n, err := c.Conn.Read(p[:min(len(p), c.left)])
	c.left -= n
	return n, err
}

// cutAfter is a client whose one connection ends after so many bytes of answer,
// headers and framing included; below zero it does not.
func cutAfter(bytes int) *http.Client {
	return &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := new(net.Dialer).DialContext(ctx, network, addr)
			if err != nil || bytes < 0 {
				return conn, err
			}
			return &cutConn{Conn: conn, left: bytes}, nil
		},
	}}
}

// viewer follows one run to its end over cut connections, on one node after the other.
type viewer struct {
	nodes []*weir
	rng   *rand.Rand
	id    string
	order string // the body that starts the run
	runs  bool   // the dialect of runs, or that of actions
	room  int    // about as many bytes as the whole stream has

	cuts   int // connections that were cut
	inside int // of them, in the middle of an event
	early  int // before the first event
}

func newViewer(nodes []*weir, rng *rand.Rand, i int) *viewer {
	v := &viewer{nodes: nodes, rng: rng, id: fmt.Sprintf("cut-%d", i), runs: i%4 != 3}
	if i%2 == 0 {
		steps := 1 + rng.IntN(30)
		v.order = runBody(v.id, schemas.TaskEcho, fmt.Sprintf(`{"steps":%d,"interval_ms":%d,"words":"a\n\nb"}`, steps, rng.IntN(8)))
		v.room = 600 + 150*steps
	} else {
		v.order = runBody(v.id, agent.TaskType, `{"words":"a\n\nb"}`)
		v.room = 2600
	}
	return v
}

func (v *viewer) watch(ctx context.Context) error {
	if !v.runs { // a read of an action starts none
		if _, err := patiently(ctx, v.nodes[0], http.StatusAccepted, http.MethodPost, schemas.RouteRunSync, v.order, "Prefer", "respond-async"); err != nil {
			return err
		}
	}
	got, err := v.pieces(ctx)
	if err != nil {
		return err
	}
	return v.compare(ctx, got)
}

// read reads the stream behind an event, and no more of it than a number of bytes; -1: to its
// end. The status is 0 where the answer was cut before it began.
func (v *viewer) read(ctx context.Context, node, limit int, after string) (status int, data []byte, cut bool, err error) {
	method, url, body := http.MethodGet, v.nodes[node].URL+"/v1/actions/"+v.id+"/events", ""
	if v.runs {
		method, url, body = http.MethodPost, v.nodes[node].URL+schemas.RouteRunStream, v.order
	}
	client := cutAfter(limit)
	defer client.CloseIdleConnections()
	for {
		resp, err := open(ctx, client, method, url, body, "Last-Event-ID", after)
		if err != nil {
			return 0, nil, true, ctx.Err()
		}
		data, err = io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusServiceUnavailable {
			return resp.StatusCode, data, err != nil, ctx.Err()
		}
		if err := poll.Rest(ctx, 100*time.Millisecond); err != nil {
			return 0, nil, false, err
		}
	}
}

// pieces reads the stream in pieces until the server says that there is no more.
func (v *viewer) pieces(ctx context.Context) ([]frame, error) {
	var got []frame
	last, cuts := "", 1+v.rng.IntN(4)
	for turn := v.rng.IntN(2); ; turn++ {
		limit := -1
		if cuts > 0 {
			limit = v.rng.IntN(v.room)
			cuts--
		}
		status, data, cut, err := v.read(ctx, turn%2, limit, last)
		whole := frames(data)
		switch {
		case err != nil:
			return nil, err
		case status == http.StatusNoContent:
			return got, nil
		case status != http.StatusOK && status != 0:
			return nil, fmt.Errorf("status %d after %q: %s", status, last, data)
		case !cut && limit < 0 && len(whole) == 0:
			return nil, errors.New("a stream ended without an event")
		}
		if cut {
			v.cuts++
			if len(whole) == 0 {
				v.early++
			}
			if len(data) > 2 && !bytes.HasSuffix(data, []byte("\n\n")) {
				v.inside++
			}
		}
		if len(whole) > 0 {
			last = whole[len(whole)-1].id
		}
		got = append(got, whole...)
	}
}

// compare holds the pieces against the stream in one, and against the log.
func (v *viewer) compare(ctx context.Context, got []frame) error {
	_, data, cut, err := v.read(ctx, 0, -1, "")
	if err != nil || cut {
		return errors.Join(err, io.ErrUnexpectedEOF)
	}
	if whole := frames(data); !slices.Equal(whole, got) {
		return fmt.Errorf("the pieces differ from the whole:\n%v\n%v", got, whole)
	}
	want, err := shown(ctx, v.nodes[1], v.id, v.runs)
	if err != nil {
		return err
	}
	have := make([]string, len(got))
	for i, f := range got {
		have[i] = f.id + " " + f.name
	}
	if !slices.Equal(want, have) {
		return fmt.Errorf("the pieces differ from the log:\n%v\n%v", have, want)
	}
	return nil
}
