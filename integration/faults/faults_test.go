//go:build e2e || nightly

package faults_test

import (
	"context"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/weirtest/callers"
	"weir/internal/weirtest/history"
	"weir/schemas"
)

// row is one fault and how it is brought about.
type row struct {
	number, title string
	// short: it is part of the selection, which e2e plays.
	short bool
	// load is what is asked for meanwhile.
	load callers.Config
	// fault befalls what is at work. It says how often it did, by what it did.
	fault func(ctx context.Context, s *fixture)
}

// fixture is a row while it is played.
type fixture struct {
	*env
	row
	crowd  *callers.Callers
	chance *rand.Rand
	t      *testing.T

	// omit are records that the row itself has put on the log.
	omit func(schemas.Record) bool
	// certain: nobody may have been left in doubt about a call.
	certain    bool
	bit        map[string]int
	counts     callers.Counts
	actions    int
	took       time.Duration
	violations []history.Violation
	failed     bool

	// bounds are what the judge goes by.
	bounds history.Bounds
	// left is what may still wait for an acknowledgement.
	left func(history.Left) history.Left
	// round is the soak's that it is; 0: it is a fault of its own.
	round int
}

// inject counts what the fault did: a row that did nothing has shown nothing.
func (s *fixture) inject(what string, n int) { s.bit[what] += n }

const (
	// patience bounds a row of the selection.
	patience = 5 * time.Minute
	// warm is how much is told before a fault comes, and again behind it.
	warm = 15
)

// TestFaults: whatever befalls servers, nodes and the lines between them, clients, the
// target and the log agree afterwards, and nothing is left under way.
func TestFaults(t *testing.T) { //nolint:paralleltest // each fault has the machine to itself
	begin := chance(t)
	var rows []row
	for _, r := range every() {
		if (r.short || *all) && chosen(r.number, r.title) {
			rows = append(rows, r)
		}
	}
	if len(rows) == 0 {
		return // the chosen ones are of another test; see run
	}
	rig := newEnv(t, kit{})
	rig.elsewhere(t)
	for i, r := range rows {
		if !t.Run(r.slug(), newFixture(rig, r, begin, i).test) {
			return // what is broken may break what follows
		}
	}
}

// elsewhere: each role says who serves what it does not.
func (r *env) elsewhere(t *testing.T) {
	t.Helper()
	for i, at := range [][2]string{{"/v1/actions", "weir egress"}, {"/v1/evidence", "weir egress"}, {"/git/x.git/info/refs", "weir serve"}} {
		n := r.nodes[2*i]
		status, text := fetch(t.Context(), http.MethodGet, n.url()+at[0], "")
		require.Equal(t, http.StatusMisdirectedRequest, status, text)
		require.Contains(t, text, at[1])
		_, text = n.get(t.Context(), "/readyz")
		require.Contains(t, text, `"role":"`+n.role.command+`"`)
		require.Contains(t, text, `"durability":"replicated"`)
	}
}

// chance is what the choices of a test begin with.
func chance(t *testing.T) uint64 {
	t.Helper()
	begin := *seed
	if begin == 0 {
		begin = rand.Uint64()
	}
	t.Logf("seed %d (-faults.seed)", begin)
	return begin
}

func newFixture(rig *env, r row, begin uint64, i int) *fixture {
	return &fixture{env: rig, row: r, chance: rand.New(rand.NewPCG(begin, uint64(i))), bit: map[string]int{}}
}

func (r row) slug() string {
	return strings.ToLower(r.number) + "-" + strings.NewReplacer(" ", "-", ",", "", ";", "", "'", "").Replace(r.title)
}

func (s *fixture) test(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), s.patience())
	defer cancel()
	s.t = t
	begun := time.Now()
	defer func() { // also where it does not come to the end
		s.took, s.failed = time.Since(begun), t.Failed() && len(s.violations) == 0
		t.Logf("%d actions, %+v, %v", s.actions, s.counts, s.bit)
		if s.round == 0 {
			s.tell(t)
		}
	}()
	s.run(ctx)
	for i, v := range s.violations {
		if i == 20 {
			t.Errorf("and %d more", len(s.violations)-i)
			break
		}
		t.Error(v)
	}
	assert.NotEmpty(t, s.bit, "the fault must say what it did")
	for what, n := range s.bit {
		assert.Positive(t, n, "it never came to this: %s", what)
	}
}

// must ends the test where something cannot go on as it has to.
func (s *fixture) must(err error) {
	s.t.Helper()
	require.NoError(s.t, err)
}

// patience bounds a row.
func (s *fixture) patience() time.Duration {
	if s.round > 0 {
		return 10 * time.Minute
	}
	return long(patience, 20*time.Minute)
}

// run brings the fault about under load, heals, and judges.
func (s *fixture) run(ctx context.Context) {
	s.must(s.log.begin(ctx))
	load := s.load
	load.Name = s.slug()
	s.crowd = s.env.crowd(load)
	s.crowd.Start(ctx)
	s.goOn(ctx, "the load")
	s.fault(ctx, s)
	s.must(s.heal(ctx))
	s.goOn(ctx, "the load behind it")
	s.must(s.crowd.Stop())
	s.counts = s.crowd.Counts()
	s.check(ctx)
}

// goOn waits until some more ends were told.
func (s *fixture) goOn(ctx context.Context, what string) {
	told := s.crowd.Counts().Ended
	s.must(s.crowd.Await(ctx, what, func(c callers.Counts) bool { return c.Ended >= told+warm }))
}

// heard is the next of the row's calls that the target holds.
func (s *fixture) heard(ctx context.Context) string {
	for {
		select {
		case name := <-s.target.Heard():
			if strings.HasPrefix(name, s.slug()) { // not one of a row before
				return name
			}
		case <-ctx.Done():
			s.t.Fatalf("no call is under way: %v", ctx.Err())
		}
	}
}

// check reads the three ledgers.
func (s *fixture) check(ctx context.Context) {
	var run history.Run
	var err error
	run.Left, err = s.log.drained(ctx)
	s.must(err)
	s.crowd.Fill(&run)
	s.must(s.log.ended(ctx, &run))
	if s.omit != nil {
		run.Log = slices.DeleteFunc(run.Log, s.omit)
	}
	if s.left != nil {
		run.Left = s.left(run.Left)
	}
	s.actions = len(history.Read(run.Log))
	s.violations = history.Check(run, s.bounds)
	for _, a := range history.Read(run.Log) {
		if end := a.Settled(); s.certain && end != nil && end.Outcome == schemas.OutcomeUnknown {
			s.violations = append(s.violations, history.Violation{Invariant: s.number, Tenant: a.Tenant, Subject: a.ID, Detail: "its outcome is unknown, and nothing was killed"})
		}
	}
}

// every are the faults. docs/explanation/guarantees.md sums them up.
func every() []row {
	return []row{
		{number: "F15", title: "a worker stands still during calls", short: true, fault: standStill},
		{number: "F10", title: "a worker dies during calls", short: true, fault: dies},
		{number: "F14", title: "a worker stands still between attempt and first byte", fault: standDeclared},
		{number: "F3", title: "a process of each role is killed", short: true, fault: killNodes},
		{number: "F19", title: "a server is killed", short: true, fault: killServers},
		{number: "F19", title: "a server falls silent", fault: fallSilent},
		{number: "F20", title: "two of three servers are killed", fault: killTwo},
		{number: "F21", title: "all servers are killed", short: true, fault: killAll},
		{number: "F23", title: "the leader is cut off from its followers", fault: alone(func(s *fixture, i int) { s.cluster.Isolate(i) })},
		{number: "F23", title: "a node is cut off from every server", fault: cutOffNodes},
		{number: "F23", title: "the leader hears nothing of the others", fault: alone(func(s *fixture, i int) { s.cluster.Deafen(i, false) })},
		{number: "F23", title: "the others hear nothing of the leader", fault: alone(func(s *fixture, i int) { s.cluster.Deafen(i, true) })},
		{number: "F23", title: "no node reaches the leader", fault: leaderUnreached},
		{number: "F24", title: "packets are late and lost", fault: badWeather},
		{number: "F25", title: "connections break every two seconds", fault: storm},
		{number: "F30", title: "messages that no worker can read", fault: poison},
		{number: "F31", title: "every message is given out again", fault: giveAgain},
		{number: "F37", title: "each node ends with SIGTERM and another takes its place", fault: roll},
		{number: "F38", title: "leaders step down", fault: stepDown},
		{number: "F38", title: "each server is replaced by an empty one", fault: replace},
		{number: "F39", title: "clients leave before, in and behind their requests, and while they follow", fault: leave},
		{number: "F40", title: "fifty ask for the same at once", fault: sameKey},
		{number: "F47", title: "a deep queue, with cancels", fault: deepQueue},
	}
}

// tell logs what became of the row.
func (s *fixture) tell(t *testing.T) {
	t.Helper()
	t.Logf("%s %s: %s, %d actions, %v, longest gap %s, %d violations, came to its end: %t",
		s.number, s.title, s.took.Round(time.Second), s.actions, s.bit, s.counts.Gap, len(s.violations), !s.failed)
}
