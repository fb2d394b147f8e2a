package runs_test

import (
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"weir/internal/ledger"
	"weir/internal/outbound"
	"weir/internal/policy"
	"weir/internal/redact"
	"weir/internal/retry"
	"weir/internal/secrets"
	double "weir/internal/weirtest/agent"
	"weir/internal/weirtest/harness"
	"weir/internal/weirtest/memlog"
	"weir/processors/call"
	"weir/processors/call/agent"
	"weir/processors/call/direct"
	"weir/processors/executor"
	"weir/processors/guard"
	"weir/processors/plans"
	"weir/processors/runs"
	"weir/processors/settle"
	"weir/schemas"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// env is a worker without its pipeline: the executor of runs over the real
// client and a log in memory.
type env struct {
	t        *testing.T
	log      *memlog.Log
	ledger   *ledger.Ledger
	runs     *runs.Runs
	remote   *runs.Remote
	make     func(draining chan struct{}) *runs.Runs
	metrics  *gauges
	draining chan struct{}
	entry    *policy.Entry
	sync     bool // runs are accepted by the synchronous route

	mu     sync.Mutex
	agents map[string]schemas.Agent
	policy harness.Policy

	reading  func(what string, n int)
	readings map[string]int
}

// options are what a test changes of a room.
type options struct {
	hooks memlog.Hooks
	entry *policy.Entry // an ordinary one
	rules guard.Rules
	// reading hears that the agents or the policy in force are about to be read for
	// the n-th time, from 1.
	reading func(what string, n int)
}

func newEnv(t *testing.T, o options, agents ...schemas.Agent) *env {
	t.Helper()
	r := &env{t: t, log: memlog.New(harness.Layout(), time.Now, o.hooks), metrics: newGauges(), draining: make(chan struct{}), entry: o.entry}
	r.reading, r.readings = o.reading, map[string]int{}
	r.ledger = ledger.New(r.log, harness.Layout(), time.Now)
	r.enforce(agents...)
	client := outbound.New(outbound.Config{})
	t.Cleanup(client.Close)
	store := secrets.New(secrets.Config{LookupEnv: func(string) (string, bool) { return "", false }})
	r.make = func(draining chan struct{}) *runs.Runs {
		recorder := harness.Recorder(r.log)
		caller := call.New(r.ledger, guard.New(r.inForce, o.rules), direct.New(client, store, redact.New(nil)), call.Config{
			Worker: "w1", Barrier: r.log.Barrier, Draining: draining,
			Schedule: retry.Schedule{Attempts: 3, Base: time.Millisecond, Cap: time.Millisecond},
		})
		answers := call.Answers{Blobs: r.ledger}
		r.remote = runs.NewRemote(r.ledger, caller, recorder, answers, runs.RemoteConfig{
			Agents: r.agent, Metrics: r.metrics, Draining: draining,
			Adapter: agent.New(client, store, agent.Config{Event: 2 << 20, Stream: 6 << 20, Grace: 3 * time.Second}),
		})
		return runs.New(r.ledger, runs.Config{
			HTTP: executor.New(caller, recorder, answers), Plans: plans.New(caller, recorder), Draining: draining,
			Remote: r.remote,
		})
	}
	r.runs = r.make(r.draining)
	return r
}

// undrain puts another worker in the place of one that drains.
func (r *env) undrain() { r.runs = r.make(nil) }

// enforce puts agents in force, with the entries that go with them.
func (r *env) enforce(agents ...schemas.Agent) {
	r.t.Helper()
	known := make(map[string]schemas.Agent)
	var entries []policy.Entry
	if r.entry != nil {
		entries = append(entries, *r.entry)
	}
	for _, a := range agents {
		known[a.TaskType] = a
		entries = append(entries, policy.Entry{
			Name: schemas.AgentEntry(a.TaskType), URLPrefix: a.URL + "/agents/run/", Methods: []string{"POST"}, Network: policy.NetworkLoopback, Agent: true,
		})
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.agents = known
	r.policy.Enforce(r.t, entries...)
}

func (r *env) inForce() *policy.Policy {
	r.reads("policy")
	return r.policy.InForce()
}

func (r *env) agent(taskType string) (schemas.Agent, bool) {
	r.reads("agents")
	r.mu.Lock()
	defer r.mu.Unlock()
	a, ok := r.agents[taskType]
	return a, ok
}

// reads tells of a reading, before it.
func (r *env) reads(what string) {
	if r.reading == nil {
		return
	}
	r.mu.Lock()
	r.readings[what]++
	n := r.readings[what]
	r.mu.Unlock()
	r.reading(what, n)
}

// to is the agent of a double.
func to(a *double.Agent) schemas.Agent {
	return schemas.Agent{TaskType: double.TaskType, URL: a.URL(), Mode: schemas.AgentStream, Concurrency: 32}
}

// claim accepts a run.
func (r *env) claim(id string, run schemas.Run, deadline time.Duration) *ledger.State {
	r.t.Helper()
	if run.TaskType == "" {
		run.TaskType = double.TaskType
	}
	return harness.Claim(r.t, r.ledger, schemas.Action{
		ID: id, Kind: schemas.KindRun, TaskType: run.TaskType, Sync: r.sync, Deadline: time.Now().Add(deadline),
	}, run)
}

// settled is embedded under a name that does not hide its field Outcome.
type settled = settle.Outcome

// ended is a run that was performed.
type ended struct {
	settled
	result schemas.RunResult
	err    error
}

func (r *env) perform(st *ledger.State, stop call.Stop) ended {
	v, err := r.runs.Execute(r.t.Context(), st, stop)
	e := ended{settled: v, err: err}
	e.result, _ = v.Result.(schemas.RunResult)
	return e
}

// done performs a run to its end.
func (r *env) done(st *ledger.State, stop call.Stop) ended {
	r.t.Helper()
	e := r.perform(st, stop)
	require.NoError(r.t, e.err)
	require.NoError(r.t, st.Flush(r.t.Context()))
	return e
}

// run accepts and performs a run of the double's type.
func (r *env) run(id string) ended {
	r.t.Helper()
	return r.done(r.claim(id, schemas.Run{RunOrder: schemas.RunOrder{Inputs: json.RawMessage(`{"q":"1"}`)}}, time.Minute), still)
}

// breakOff fails five runs of the double: after the last of them, and not before, it is left alone.
func (r *env) breakOff() {
	r.t.Helper()
	for i := range 5 {
		require.False(r.t, r.metrics.isOpen(), i)
		r.run(fmt.Sprint("failing-", i))
	}
	require.True(r.t, r.metrics.isOpen())
}

// types are the events of a run on the log.
func (r *env) types(id string) (types []schemas.EventType) {
	r.t.Helper()
	for _, ev := range r.events(id) {
		types = append(types, ev.Type)
	}
	return types
}

func (r *env) events(id string) (all []schemas.Event) {
	r.t.Helper()
	for _, rec := range harness.Records(r.t, r.log, schemas.LogStream(0), harness.Layout().All(runRef(id))) {
		ev, err := ledger.Decode(rec.Data)
		require.NoError(r.t, err)
		all = append(all, ev)
	}
	return all
}

func runRef(id string) schemas.Ref {
	return schemas.Ref{Tenant: "default", Kind: schemas.KindRun, ID: id}
}

// evidence are the records that a run has left.
func (r *env) evidence(id string) []schemas.Evidence {
	r.t.Helper()
	return harness.Evidence(r.t, r.log, id)
}

// gauges are metrics that can be asked.
type gauges struct {
	mu   sync.Mutex
	runs map[string]int
	open map[string]bool
	// closed takes a word whenever an agent is well again.
	closed chan struct{}
}

func newGauges() *gauges {
	return &gauges{runs: map[string]int{}, open: map[string]bool{}, closed: make(chan struct{}, 100)}
}

func (g *gauges) AgentRuns(taskType string, change int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.runs[taskType] += change
}

func (g *gauges) AgentBreaker(taskType string, open bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.open[taskType] = open
	if !open {
		g.closed <- struct{}{}
	}
}

// isOpen reports whether the double is left alone.
func (g *gauges) isOpen() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.open[double.TaskType]
}

// still is a request to stop that never comes.
var still = harness.NoStop()
