//go:build nightly

package bench_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/schemas"
)

// fan is runs and how many read the events of each.
type fan struct {
	name           string
	runs, viewers  int // viewers of all runs together
	tale           tale
	egress         int // nodes that they read from
	rate           float64
	p50, p99       time.Duration
	memory, before float64 // of the largest node, in MiB
	used           usage
}

// measureStreams has many read the events of a few runs, from one egress and from two.
func measureStreams(t *testing.T, g *ground) {
	t.Helper()
	worker := g.start(t, "worker", usualSlots)
	nodes := []*process{g.start(t, "egress", usualSlots), g.start(t, "egress", usualSlots)}
	loads := sized([]fan{
		{name: "one in 200 ms", tale: tale{Events: 50, Pace: 200 * time.Millisecond}},
		{name: "as fast as they go", tale: tale{Events: 100}},
	}, []fan{{name: "tried", tale: tale{Events: 3}}})
	var all []fan
	for _, load := range loads {
		for n := 1; n <= len(nodes); n++ {
			f := load
			f.runs, f.viewers, f.egress = sized(20, 2), sized(*viewers/20*20, 8), n
			g.fanOut(t, &f, nodes[:n], worker)
			say("%d egress, %s: %.0f events/s", n, f.name, f.rate)
			all = append(all, f)
		}
	}
	dismiss(t, append(nodes, worker))
	showFans(g, all)
}

// fanOut starts the runs, has everybody read, and then has the runs go on.
func (g *ground) fanOut(t *testing.T, f *fan, nodes []*process, worker *process) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	letGo := g.agent.hold()
	ids := make([]string, f.runs)
	for i := range ids {
		g.tales++
		ids[i] = "tale-" + strconv.Itoa(g.tales)
		g.run(t, ids[i], f.tale)
	}
	f.before = heaviest(nodes)
	client := http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: f.viewers}}
	defer client.CloseIdleConnections()
	all := make([]*viewer, f.viewers)
	var reading, done sync.WaitGroup
	for i := range all {
		v := &viewer{events: f.tale.Events}
		all[i] = v
		url := nodes[i/len(ids)%len(nodes)].URL + "/v1/actions/" + ids[i%len(ids)] + "/events"
		reading.Add(1)
		done.Go(func() {
			began := sync.OnceFunc(reading.Done)
			defer began()
			v.err = v.read(ctx, &client, url, began)
		})
	}
	reading.Wait()
	stop := g.meter(append(slices.Clone(nodes), worker)...)
	begun := time.Now()
	letGo()
	done.Wait()
	f.rate = float64(f.viewers*f.tale.Events) / time.Since(begun).Seconds()
	f.used, f.memory = stop(), heaviest(nodes)
	var took []time.Duration
	for _, v := range all {
		require.NoError(t, v.err)
		took = append(took, v.took...)
	}
	require.Len(t, took, f.viewers*f.tale.Events, "every event, once, to everybody")
	slices.Sort(took)
	f.p50, f.p99 = took[len(took)/2], took[len(took)*99/100]
}

// run starts a run of the teller's.
func (g *ground) run(t *testing.T, id string, what tale) {
	t.Helper()
	body, err := json.Marshal(map[string]any{"request_id": id, "task_type": "TELL", "inputs": what})
	require.NoError(t, err)
	s, err := closed(t.Context(), target{
		name: "run", method: http.MethodPost, url: g.ingress.URL + schemas.RouteRunSync, body: string(body),
		header: map[string]string{"Prefer": "respond-async"}, status: http.StatusAccepted,
	}, 1, limit{calls: 1})
	require.NoError(t, err)
	require.Equal(t, 1, s.done)
}

// viewer is one reader of a run's events.
type viewer struct {
	events int // how many there are
	took   []time.Duration
	err    error
}

var errTurn = errors.New("an event is missing, came twice or out of turn")

// read reads to the end, and calls began at the first event. Each must come once, in turn.
func (v *viewer) read(ctx context.Context, client *http.Client, url string, began func()) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}
	req.Header.Set("Accept", "text/event-stream")
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return errors.New(resp.Status)
	}
	v.took = make([]time.Duration, 0, v.events)
	last := uint64(0)
	scan := bufio.NewScanner(resp.Body)
	for scan.Scan() {
		if id, ok := bytes.CutPrefix(scan.Bytes(), []byte("id: ")); ok {
			seq, err := strconv.ParseUint(string(id), 10, 64)
			if err != nil || seq <= last {
				return fmt.Errorf("%w: id %s behind %d", errTurn, id, last)
			}
			last = seq
			began()
			continue
		}
		sent, turn, ok := told(scan.Bytes())
		if !ok {
			continue
		}
		if turn != len(v.took) {
			return fmt.Errorf("%w: %d in the place of %d", errTurn, turn, len(v.took))
		}
		v.took = append(v.took, time.Since(sent))
	}
	if scan.Err() == nil && len(v.took) != v.events {
		return fmt.Errorf("%w: %d of %d", errTurn, len(v.took), v.events)
	}
	return scan.Err()
}

func showFans(g *ground, all []fan) {
	tell("\n%s; three NATS servers that sync each write, log R%d in %d partitions; %d runs, %s viewers in equal parts, one worker\n",
		machine(), g.copies, g.partitions, all[0].runs, thousands(all[0].viewers))
	tell("| events of a run | egress nodes | events/s to viewers | of one node | p50 | p99 | largest node, before | with the viewers | machine busy | NATS | Weir |")
	tell("|---|---|---|---|---|---|---|---|---|---|---|")
	one := 0.0
	for _, f := range all {
		if f.egress == 1 {
			one = f.rate
		}
		tell("| %s | %d | %.0f | %s | %s | %s | %s | %s | %s |", f.name, f.egress, f.rate, percent(f.rate/one), ms(f.p50), ms(f.p99), mib(f.before), mib(f.memory), f.used)
	}
	tell("")
}
