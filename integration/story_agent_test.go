//go:build e2e

package integration_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"weir/internal/weirtest/agent"
	"weir/schemas"
)

// storyAgents are the agents that a script has started, by task type.
type storyAgents struct {
	tb     testing.TB
	byType map[string]*agent.Agent
}

func agentsOf(ts *testscript.TestScript) *storyAgents {
	all, ok := ts.Value("agents").(*storyAgents)
	if !ok {
		ts.Fatalf("there is no place for agents")
	}
	return all
}

func agentOf(ts *testscript.TestScript, taskType string) *agent.Agent {
	a := agentsOf(ts).byType[taskType]
	if a == nil {
		ts.Fatalf("there is no agent of %s", taskType)
	}
	return a
}

func cmdAgent(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) == 0 {
		ts.Fatalf("usage: agent TASK_TYPE [FAULT]")
	}
	taskType, fault := args[0], agent.Fault(strings.Join(args[1:], " "))
	if fault != agent.Correct && !slices.Contains(agent.Faults(), fault) {
		ts.Fatalf("there is no fault %q", fault)
	}
	all := agentsOf(ts)
	a := agent.New(all.tb, agent.Config{TaskTypes: []string{taskType}, Fault: fault})
	ts.Defer(a.Close)
	all.byType[taskType] = a
	ts.Setenv(taskType, a.URL())
	file, err := os.OpenFile(ts.MkAbs("weir.yaml"), os.O_APPEND|os.O_WRONLY, 0o600)
	ts.Check(err)
	mode := schemas.AgentAuto
	if fault == agent.Stalls { // a synchronous caller's run is to meet it, too
		mode = schemas.AgentStream
	}
	_, err = fmt.Fprintf(file, "  %s: {url: %q, mode: %s}\n", taskType, a.URL(), mode)
	ts.Check(err)
	ts.Check(file.Close())
}

func cmdAgentReached(ts *testscript.TestScript, _ bool, args []string) {
	agentOf(ts, args[0]).WaitRun(1)
}

func cmdAgentLedger(ts *testscript.TestScript, _ bool, args []string) {
	a := agentOf(ts, args[0])
	for _, r := range a.Ledger() {
		<-r.Closed()
		how := "answered"
		if r.Cut() {
			how = "cut"
		}
		fmt.Fprintln(ts.Stdout(), r.Route, r.Run.RequestID, how)
	}
	fmt.Fprintln(ts.Stdout(), "total", a.Hits())
}
