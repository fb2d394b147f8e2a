//go:build nightly

// Package powercut_test takes the power from a running Weir, or what comes nearest to that,
// and looks whether everything that it told anybody is still there.
//
// Only this suite shows that what was acknowledged with durability disk survives a power cut,
// that an event which was shown is never another one afterwards, and that readers and clients
// go on behind each cut.
package powercut_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/internal/weirtest/callers"
	"weir/internal/weirtest/history"
	"weir/internal/weirtest/program"
	"weir/internal/weirtest/stored"
	"weir/schemas"
)

var (
	binary = program.Path(program.Weir)
	seed   = flag.Uint64("powercut.seed", 0, "the seed of the cuts; 0: another one each time")
	cuts   = flag.Int("powercut.cuts", 4, "how often the power goes, per durability")
)

func TestMain(m *testing.M) {
	flag.Parse()
	if *seed == 0 {
		*seed = uint64(time.Now().UnixNano())
	}
	os.Exit(m.Run())
}

// settling bounds how long actions take that were in flight at the last cut: the broker holds
// their messages back for its acknowledgement wait.
const settling = 60 * time.Second

// clients are those of a node over all its lives, and what they were told.
type clients struct {
	*callers.Callers

	target *callers.Target
	config string
	ctx    context.Context // that of the clients
	stop   context.CancelFunc

	mu    sync.Mutex
	url   string // of the node; empty: it is down
	cut   int    // how many cuts there were
	shown []shown
	runs  []history.Asked
}

// shown is one event as a reader saw it, and after how many cuts.
type shown struct {
	id  string
	cut int
	schemas.EventView
}

// newClients has clients at work until heal: their calls, and runs with much progress, whose
// events are shown before they are on the disk.
func newClients(t *testing.T, name string) *clients {
	t.Helper()
	c := &clients{target: callers.NewTarget(), config: filepath.Join(t.TempDir(), "weir.yaml")}
	t.Cleanup(c.target.Close)
	require.NoError(t, os.WriteFile(c.config, []byte(c.target.Policy()), 0o600))
	c.Callers = callers.New(callers.Config{Target: c.target, Write: c.at, Read: c.at, Name: name, Clients: 16, Event: c.saw})
	c.ctx, c.stop = context.WithCancel(t.Context())
	c.Start(c.ctx)
	t.Cleanup(c.stop)
	return c
}

func (c *clients) at() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.url
}

// up says where the node is from now on.
func (c *clients) up(url string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.url = url
}

// down says that the power has gone.
func (c *clients) down() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.url = ""
	c.cut++
}

// tell has runs accepted and read that go on beyond the next cut.
func (c *clients) tell(t *testing.T) {
	t.Helper()
	for range 8 {
		id := fmt.Sprintf("run-%d", len(c.runs))
		body := fmt.Sprintf(`{"request_id":%q,"task_type":%q,"inputs":{"steps":400,"interval_ms":5}}`, id, schemas.TaskEcho)
		program.Client{Base: c.at()}.Must(t, http.StatusAccepted, http.MethodPost, schemas.RouteRunSync, body, "Prefer", "respond-async")
		c.runs = append(c.runs, history.Asked{Tenant: callers.Tenant, Name: id, ID: id, Answer: history.Accepted, Status: http.StatusAccepted})
		c.Watch(c.ctx, id, nil)
	}
}

// saw keeps an event that a reader was given.
func (c *clients) saw(id, frame string) {
	s := shown{id: id}
	_, data, _ := strings.Cut(frame, "data: ")
	if json.Unmarshal([]byte(data), &s.EventView) != nil {
		s.Type = "unread"
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s.cut = c.cut
	c.shown = append(c.shown, s)
}

// heal waits until each client has received the end of what it requested, if that is not lost.
func (c *clients) heal(patience time.Duration) error {
	defer time.AfterFunc(patience, c.stop).Stop()
	return c.Stop()
}

// check holds what clients were told and what the target received against a data directory that
// no program has open, and returns what was promised and is not there. lost is what heal found.
func (c *clients) check(t *testing.T, data string, lost error) (broken []history.Violation) {
	t.Helper()
	copied := filepath.Join(t.TempDir(), "copy")
	require.NoError(t, os.CopyFS(copied, os.DirFS(data)))
	run := history.Run{Asked: slices.Clone(c.runs)}
	c.Fill(&run)
	require.NoError(t, stored.Offline(t.Context(), copied, &run))
	if lost != nil {
		broken = append(broken, history.Violation{Invariant: "I2", Tenant: callers.Tenant, Detail: lost.Error()})
	}
	run.Left = history.Left{} // what was under way at a cut is given out again after the acknowledgement wait
	gone := c.gone(run.Log, &broken)
	for i, w := range run.Watched {
		run.Watched[i].IDs = slices.DeleteFunc(w.IDs, func(seq uint64) bool { return gone[seq] })
	}
	for _, v := range history.Check(run, history.Bounds{}) {
		// A call of class safe may be made before its attempt is on the device, and so once more for each cut.
		if safe := strings.Contains(v.Subject, "-"+callers.Get+"-"); !safe || v.Invariant != "I3" && v.Invariant != "I4" {
			broken = append(broken, v)
		}
	}
	kinds := map[string]int{}
	for _, v := range broken {
		kinds[v.Invariant]++
	}
	t.Logf("seed %d: %d cuts, %d actions, %+v, %d events shown, %d of them gone; broken: %v",
		*seed, c.cut, len(history.Read(run.Log)), c.Counts(), len(c.shown), len(gone), kinds)
	return broken
}

// gone are the sequences that were shown before they were on the disk, and that the log does
// not have: nothing else may be in their place, ever. Any other event that was shown is there.
func (c *clients) gone(log []schemas.Record, broken *[]history.Violation) map[uint64]bool {
	stored, first, gone := map[uint64]schemas.Record{}, map[uint64]shown{}, map[uint64]bool{}
	for _, r := range log {
		stored[r.Seq] = r
	}
	breach := func(s shown, format string, args ...any) {
		*broken = append(*broken, history.Violation{
			Invariant: "I7", Tenant: callers.Tenant, Subject: s.id,
			Detail: fmt.Sprintf("event %d (%s), shown before cut %d: ", s.Seq, s.Type, s.cut+1) + fmt.Sprintf(format, args...),
		})
	}
	for _, s := range c.shown {
		if f, again := first[s.Seq]; again && !s.is(f.id, f.N, f.Type, f.Time) {
			breach(s, "it was event %d of %s before cut %d", f.N, f.id, f.cut+1)
			continue
		}
		first[s.Seq] = s
		r, have := stored[s.Seq]
		var e schemas.Event
		ref, _, err := schemas.ParseSubject(r.Subject)
		switch {
		case !have && !s.Type.NeedsBarrier():
			gone[s.Seq] = true
		case !have:
			breach(s, "it is not on the log")
		case err != nil || json.Unmarshal(r.Data, &e) != nil || !s.is(ref.ID, e.N, e.Type, e.Time):
			breach(s, "there is another one in its place, of %s", ref.ID)
		}
	}
	return gone
}

// is reports whether a reader saw this event.
func (s shown) is(id string, n int, kind schemas.EventType, at time.Time) bool {
	return s.id == id && s.N == n && s.Type == kind && s.Time.Equal(at)
}
