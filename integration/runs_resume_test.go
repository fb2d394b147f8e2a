//go:build e2e

package integration_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/internal/weirtest/agent"
	"weir/internal/weirtest/program"
	"weir/schemas"
)

const (
	// resumeSeed names an environment variable that repeats a run of the test.
	resumeSeed = "WEIR_TEST_SEED"

	resumeStreams = 1000
	resumeReaders = 48
)

// TestStreamsCutAnywhere cuts streams of runs after a random number of bytes,
// some of them several times, and resumes each on the other node: two programs on
// one replicated log. What was whole of the pieces is the log, event by event.
func TestStreamsCutAnywhere(t *testing.T) {
	t.Parallel()
	count := resumeStreams
	if testing.Short() {
		count /= 10
	}
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv(resumeSeed); text != "" {
		n, err := strconv.ParseUint(text, 10, 64)
		require.NoError(t, err)
		seed = n
	}
	t.Logf("to repeat: %s=%d", resumeSeed, seed)
	double := agent.New(t, agent.Config{Steps: 12})
	config := onCluster(t, newCluster(t), agentsYAML(map[string]*agent.Agent{agent.TaskType: double}))
	nodes := together(t, 2, config)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	var (
		work  sync.WaitGroup
		mu    sync.Mutex
		total tally
	)
	todo := make(chan int, count)
	for i := range count {
		todo <- i
	}
	close(todo)
	for range resumeReaders {
		work.Go(func() {
			for i := range todo {
				v := newViewer(nodes, rand.New(rand.NewPCG(seed, uint64(i))), i)
				if err := v.watch(ctx); err != nil {
					t.Errorf("stream %d: %v\n%s", i, err, v.lastSeen(t))
				}
				mu.Lock()
				total.add(v.tally)
				mu.Unlock()
			}
		})
	}
	work.Wait()
	t.Logf("%+v", total)
	require.GreaterOrEqual(t, total.cuts, count, "hardly a stream was cut")
	require.Positive(t, total.inside, "no event was cut in two")
	require.Positive(t, total.early, "no answer was cut before its first event")
	require.GreaterOrEqual(t, double.Hits(), count/2)
}

// together starts nodes at the same time: they make the log together.
func together(t *testing.T, n int, config string) []*weir {
	t.Helper()
	nodes, errs := make([]*weir, n), make([]error, n)
	var starts sync.WaitGroup
	for i := range n {
		dir := t.TempDir()
		starts.Go(func() { nodes[i], errs[i] = tryServe(program.How{}, dir, "--config", config) })
	}
	starts.Wait()
	for _, w := range nodes {
		if w != nil {
			t.Cleanup(func() {
				w.Kill()
				if t.Failed() {
					t.Logf("weir's stderr:\n%s", w.Said())
				}
			})
		}
	}
	require.NoError(t, errors.Join(errs...))
	return nodes
}

// tally counts what became of the connections.
type tally struct {
	cuts   int // connections that were cut
	inside int // of them, in the middle of an event
	early  int // before the first event
	events int
}

func (t *tally) add(o tally) {
	t.cuts, t.inside, t.early, t.events = t.cuts+o.cuts, t.inside+o.inside, t.early+o.early, t.events+o.events
}

// viewer follows one run to its end over cut connections, on one node after the other.
type viewer struct {
	nodes []*weir
	rng   *rand.Rand
	id    string
	order string // the body that starts the run
	runs  bool   // the dialect of runs, or that of actions
	room  int    // about as many bytes as the whole stream has
	tally tally
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

func (v *viewer) ask(after string) ask {
	if v.runs {
		return ask{method: http.MethodPost, path: schemas.RouteRunStream, body: v.order, after: after}
	}
	return ask{method: http.MethodGet, path: "/v1/actions/" + v.id + "/events", after: after}
}

func (v *viewer) watch(ctx context.Context) error {
	if !v.runs { // somebody has to start it
		if err := v.begin(ctx); err != nil {
			return err
		}
	}
	got, err := v.pieces(ctx)
	if err != nil {
		return err
	}
	v.tally.events = len(got)
	return v.compare(ctx, got)
}

func (v *viewer) begin(ctx context.Context) error {
	return patiently(ctx, func() (int, error) {
		resp, text, err := v.nodes[0].try(ctx, http.MethodPost, schemas.RouteRunSync, v.order, "Prefer", "respond-async")
		switch {
		case err != nil:
			return 0, err
		case resp.StatusCode != http.StatusAccepted && resp.StatusCode != http.StatusServiceUnavailable:
			return 0, fmt.Errorf("not accepted: %d %s", resp.StatusCode, text)
		}
		return resp.StatusCode, nil
	})
}

// read reads the stream behind an event, and no more of it than a number of bytes; -1: to its end.
func (v *viewer) read(ctx context.Context, node, limit int, after string) (status int, data []byte, cut bool, err error) {
	err = patiently(ctx, func() (int, error) {
		var err error
		status, data, cut, err = readStream(ctx, cutAfter(limit), v.nodes[node].URL, v.ask(after))
		return status, err
	})
	return status, data, cut, err
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
		switch {
		case err != nil:
			return nil, err
		case status == http.StatusNoContent:
			return got, nil
		case status != http.StatusOK && status != 0:
			return nil, fmt.Errorf("status %d after %q: %s", status, last, data)
		case !cut && limit < 0 && len(frames(data)) == 0:
			return nil, errors.New("a stream ended without an event")
		}
		whole := frames(data)
		v.count(cut, data, whole)
		if len(whole) > 0 {
			last = whole[len(whole)-1].id
		}
		got = append(got, whole...)
	}
}

// lastSeen is where a stream has got to that failed: the events that each node has of
// its action, an end or not.
func (v *viewer) lastSeen(t *testing.T) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var seen strings.Builder
	for i, w := range v.nodes {
		_, text, err := w.try(ctx, http.MethodGet, "/v1/actions/"+v.id+"/events?limit=1000&after=0", "", "Accept", "application/json")
		fmt.Fprintf(&seen, "node %d: %s %v\n", i, text, err)
	}
	return seen.String()
}

func (v *viewer) count(cut bool, data []byte, whole []frame) {
	if !cut {
		return
	}
	v.tally.cuts++
	if len(whole) == 0 {
		v.tally.early++
	}
	if n := len(data); n > 2 && string(data[n-2:]) != "\n\n" {
		v.tally.inside++
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
	events, err := logged(ctx, v.nodes[1], v.id)
	if err != nil {
		return err
	}
	var want []string
	for _, e := range events {
		name := string(e.Type)
		if v.runs {
			name = shownAs(e.Type)
		}
		if name != "" {
			want = append(want, seqText(e.Seq)+" "+name)
		}
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
