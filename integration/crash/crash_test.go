//go:build e2e

// Package crash_test kills the built program at every step of an action's life, starts it
// again, and holds what it left behind against its invariants.
//
// Only this suite shows, with the real program, that a kill at any step of any class loses no
// accepted action and sends no call a second time that may be sent once, that open streams go on
// behind a kill, and that an action and its successor name each other whatever dies between.
package crash_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/internal/broker"
	"weir/internal/weirtest/crowd"
	"weir/internal/weirtest/history"
	"weir/internal/weirtest/poll"
	"weir/internal/weirtest/program"
	"weir/internal/weirtest/stored"
	"weir/schemas"
)

// binary is the program with its failpoints.
var binary = program.Path(program.Failpoints)

var (
	rounds  = flag.Int("crash.rounds", 0, "how often the whole matrix runs with both durabilities; 0 is a selection: each point once with each class")
	seed    = flag.Uint64("crash.seed", 0, "what chance in the long form begins with; 0 takes another one each time")
	streams = flag.Int("crash.streams", 25, "how many open streams a kill interrupts for each class of F3")
	at      = flag.Int("crash.concurrency", 8, "how many data directories are at work at a time")
	only    = flag.String("crash.only", "", "run the points alone whose title holds this")
)

// trial is one cell on one data directory.
type trial struct {
	cell       cell
	durability string
	nth        map[string]int // at which of its records it is to befall an action of each class
	times      map[string]int // and how often

	dir      string
	upstream *crowd.Target
	node     *node
	party    *crowd.Crowd

	fired      map[string]int
	kills      int
	violations []history.Violation
	err        error
}

// TestCrashMatrix: whatever the program dies of, its clients, the upstream and the log
// agree afterwards, and each fault did come about for each class that it can befall.
func TestCrashMatrix(t *testing.T) {
	t.Parallel()
	begin := *seed
	if begin == 0 {
		begin = rand.Uint64()
	}
	trials := plan(t, rand.New(rand.NewPCG(begin, 0)))
	var group sync.WaitGroup
	slots := make(chan struct{}, *at)
	for _, r := range trials {
		group.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			r.err = r.run(t.Context())
		})
	}
	group.Wait()
	t.Logf("seed %d (-crash.seed)", begin)
	for _, r := range trials {
		r.judge(t)
	}
}

// plan is every cell with one durability, in turns; or, in the long form, with both, round
// after round, with chance in it.
func plan(t *testing.T, chance *rand.Rand) []*trial {
	t.Helper()
	var trials []*trial
	add := func(c cell, durability string) *trial {
		r := &trial{cell: c, durability: durability, dir: filepath.Join(t.TempDir(), "data"), nth: map[string]int{}, times: map[string]int{}, fired: map[string]int{}}
		for _, class := range c.classes {
			r.times[class], r.nth[class] = 1, 1
			if c.appends {
				r.nth[class] = theAttempt
			}
		}
		if strings.Contains(c.row+" "+c.title, *only) {
			trials = append(trials, r)
		}
		return r
	}
	durabilities := []string{"disk", "process"}
	for i, c := range cells() {
		if *rounds == 0 {
			add(c, durabilities[i%2])
		}
	}
	for range *rounds {
		for _, c := range cells() {
			for _, d := range durabilities {
				r := add(c, d)
				for _, class := range c.classes {
					if c.appends {
						r.nth[class] = 1 + chance.IntN(records(class))
					}
				}
				if c.point != "" && !c.appends && c.act == "kill" && chance.IntN(2) == 0 {
					r.times[c.classes[chance.IntN(len(c.classes))]] = 2
				}
			}
		}
	}
	return trials
}

const (
	// patience is how long a trial may take.
	patience = 10 * time.Minute
	// quiet is how long nothing is killed before a directory is judged: what a dead process
	// held has come again by then.
	quiet = broker.DefaultAckWait + 2*time.Second
)

func (r *trial) run(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	r.upstream = crowd.NewTarget()
	if r.cell.hold {
		r.upstream.HoldFirst()
	}
	defer r.upstream.Close()
	config := r.dir + ".yaml"
	if err := os.WriteFile(config, []byte(r.upstream.Policy()), 0o600); err != nil {
		return err
	}
	r.node = newNode(r.dir, config, r.durability, r.arms)
	go r.node.keep()
	base := r.node.now
	r.party = crowd.New(crowd.Config{Target: r.upstream, Write: base, Read: base, Name: r.cell.slug(), Patience: patience, Pad: 48 << 10})
	defer func() {
		if stopped := r.node.stop(ctx); err == nil {
			err = stopped
		}
	}()
	if err := r.mock(ctx); err != nil {
		return err
	}
	drive := r.cell.drive
	if drive == nil {
		drive = passThrough
	}
	err = drive(ctx, r)
	if err != nil {
		cancel() // nobody waits for what does not come
	}
	if err = errors.Join(err, r.party.Rest()); err != nil {
		return err
	}
	if err := r.settle(ctx); err != nil {
		return err
	}
	return r.check(ctx)
}

// settle waits until nothing more can come of the kills, and ends the program.
func (r *trial) settle(ctx context.Context) error {
	for {
		r.node.mu.Lock()
		r.kills = r.node.kills
		left := quiet - time.Since(r.node.lastKill)
		r.node.mu.Unlock()
		if r.kills == 0 || left <= 0 {
			break
		}
		if err := poll.Rest(ctx, left); err != nil {
			return err
		}
	}
	if _, err := r.node.base(ctx); err != nil {
		return err
	}
	return r.node.stop(ctx)
}

// check reads the three ledgers.
func (r *trial) check(ctx context.Context) error {
	r.upstream.Close()
	var run history.Run
	r.party.Fill(&run)
	if err := stored.Offline(ctx, r.dir, &run); err != nil {
		return err
	}
	r.violations = history.Check(run, history.Bounds{})
	r.compare(run)
	for class, times := range r.times {
		if times > 1 {
			r.fired[class] = r.node.reached(r.name(class))
		}
	}
	return nil
}

// begin has the client of a class ask, and a reader follow.
func (r *trial) begin(ctx context.Context, class string) {
	r.party.Send(ctx, crowd.Order{Name: r.name(class), Class: class, Watch: true})
}

// mock puts the rule in that answers the calls of its class.
func (r *trial) mock(ctx context.Context) error {
	base, err := r.node.base(ctx)
	if err != nil {
		return err
	}
	operate := func(name string, args any) (data struct {
		Etag string `json:"rules_etag"`
	}, err error,
	) {
		body, err := json.Marshal(map[string]any{"request_id": "rules", "operation": name, "args": args})
		if err != nil {
			return data, err
		}
		resp, text, err := program.Ask(ctx, http.MethodPost, base+"/v1/agent-api", string(body))
		if err != nil {
			return data, err
		}
		var answer schemas.AgentResponse
		if err := json.Unmarshal([]byte(text), &answer); err != nil || resp.StatusCode != http.StatusOK {
			return data, fmt.Errorf("%s: status %d: %s", name, resp.StatusCode, text)
		}
		return data, json.Unmarshal(answer.Data, &data)
	}
	status, err := operate(schemas.OpStatus, map[string]any{})
	if err != nil {
		return err
	}
	_, err = operate(schemas.OpRulesCreate, map[string]any{"if_match": status.Etag, "rule": map[string]any{
		"id": "mock", "type": schemas.RuleMock,
		"match":  map[string]any{"url_pattern": r.upstream.URL + "/plain/" + r.name(mocked)},
		"action": map[string]any{"status": http.StatusOK},
	}})
	return err
}

// judge tells of what a trial found.
func (r *trial) judge(t *testing.T) {
	t.Helper()
	t.Run(r.cell.slug()+"/"+r.durability, func(t *testing.T) {
		t.Parallel()
		t.Logf("%s: %d actions, %d kills, befell %v, %d violations", r.cell.row, len(r.cell.classes), r.kills, r.fired, len(r.violations))
		if r.err != nil || len(r.violations) > 0 {
			t.Logf("times %v, at record %v; weir's stderr:\n%s", r.times, r.nth, r.node.log.String())
		}
		require.NoError(t, r.err)
		require.Empty(t, r.violations)
		for _, class := range r.cell.classes {
			require.Positive(t, r.fired[class], "%s never befell %s", r.cell.title, class)
		}
	})
}
