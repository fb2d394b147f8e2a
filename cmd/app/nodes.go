package app

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"weir/cmd/cli"
	"weir/internal/fault"
	"weir/schemas"
)

const (
	// calling is how long a node that sends a request to all others waits for their first answers.
	calling = 2 * time.Second
	// telling is how long it waits for their results: as long as a reload may take, and a little.
	telling = settleTimeout + 2*time.Second
)

// reporting is how long a node that lists the nodes waits for their reports.
const reporting = calling / 4

// nodeAnswer is the answer of a node: first that it is running, then its result.
type nodeAnswer struct {
	schemas.NodeReport
	Done bool `json:"done"`
}

// report is what this node reports of itself, with a version of the policy.
func (a *App) report(version string) schemas.NodeReport {
	return schemas.NodeReport{Node: a.worker, Role: a.role.String(), Build: cli.Built().Version, Started: a.started, Version: version}
}

// hearNodes subscribes to requests to report, and to reload all nodes of the log, and does so for each.
func (a *App) hearNodes(ctx context.Context) error {
	if a.cfg.Embedded() {
		return nil // there is no other node
	}
	ctx = context.WithoutCancel(ctx)
	answer := nodeAnswer{NodeReport: a.report("")}
	var under sync.WaitGroup
	unlist, err := a.broker.Listen(schemas.NodesRequestRoot+".*", func(subject string, _ []byte) {
		a.sendReport(strings.TrimPrefix(subject, schemas.NodesRequestRoot+"."), nodeAnswer{a.report(a.policy.Load().Version()), true})
	})
	if err != nil {
		return err
	}
	a.teardown.push(func(context.Context) error { unlist(); return nil })
	forget, err := a.broker.Listen(schemas.PolicyRequestRoot+".*", func(subject string, _ []byte) {
		ask := strings.TrimPrefix(subject, schemas.PolicyRequestRoot+".")
		a.sendReport(ask, answer)
		// A node that sends a request meanwhile must receive this node's first answer at once.
		under.Go(func() { a.reloadFor(ctx, ask, answer) })
	})
	if err != nil {
		return err
	}
	a.teardown.push(func(context.Context) error { forget(); under.Wait(); return nil })
	return nil
}

// reloadFor reloads, and answers the request for it.
func (a *App) reloadFor(ctx context.Context, ask string, answer nodeAnswer) {
	done, err := a.Reload(ctx)
	answer.Done, answer.Version, answer.Previous, answer.Changed = true, done.Version, done.Previous, done.Changed
	if err != nil {
		answer.Version, answer.Error = a.policy.Load().Version(), publicText(err)
	}
	a.sendReport(ask, answer)
}

func publicText(err error) string {
	if public, ok := errors.AsType[*fault.Error](err); ok {
		return public.Message
	}
	return "the reload failed"
}

// sendReport sends an answer to a request. If it is lost, the requester does not list this
// node.
func (a *App) sendReport(ask string, answer nodeAnswer) {
	if data, err := json.Marshal(answer); err == nil {
		_ = a.broker.Notify(schemas.PolicyReportRoot+"."+ask, data)
	}
}

// ReloadAll makes every node of the log reload, including this one, and lists the result of each
// node that answered. A node that cannot be reached is missing. The error is public.
func (a *App) ReloadAll(ctx context.Context) (schemas.Reload, error) {
	if a.cfg.Embedded() {
		done, err := a.Reload(ctx)
		own := a.report(done.Version)
		own.Previous, own.Changed = done.Previous, done.Changed
		done.Nodes = []schemas.NodeReport{own}
		return done, err
	}
	done := schemas.Reload{Node: a.worker, Version: a.policy.Load().Version()}
	var n schemas.NodeReport
	var err error
	if done.Nodes, n, err = a.request(ctx, schemas.PolicyRequestRoot, calling); err != nil {
		return schemas.Reload{}, err
	}
	done.Version, done.Previous, done.Changed = cmp.Or(n.Version, done.Version), n.Previous, n.Changed
	return done, nil
}

// nodes lists the nodes of the log that answer within a moment. The error is public.
func (a *App) nodes(ctx context.Context) ([]schemas.NodeReport, error) {
	if a.cfg.Embedded() {
		return []schemas.NodeReport{a.report(a.policy.Load().Version())}, nil
	}
	all, _, err := a.request(ctx, schemas.NodesRequestRoot, reporting)
	return all, err
}

// request sends a request to every node of the log, and returns the reports of those whose first
// answer arrives within a time, and that of this node.
func (a *App) request(ctx context.Context, root string, first time.Duration) (all []schemas.NodeReport, own schemas.NodeReport, err error) {
	ask, answers := rand.Text(), make(chan nodeAnswer)
	over, end := context.WithCancel(ctx)
	defer end()
	forget, err := a.broker.Listen(schemas.PolicyReportRoot+"."+ask, func(_ string, data []byte) {
		var w nodeAnswer
		if json.Unmarshal(data, &w) != nil {
			return
		}
		select {
		case answers <- w:
		case <-over.Done():
		}
	})
	if err != nil {
		return nil, own, unreachable(err)
	}
	defer forget()
	if err := a.broker.Notify(root+"."+ask, nil); err != nil {
		return nil, own, unreachable(err)
	}
	all = gather(ctx, answers, first)
	i := slices.IndexFunc(all, func(n schemas.NodeReport) bool { return n.Node == a.worker })
	if i < 0 { // not even this node has received it, so nothing was sent
		return nil, own, unreachable(errors.New("this node sent no answer to its own request"))
	}
	return all, all[i], nil
}

func unreachable(err error) error {
	return &fault.Error{Code: schemas.Unavailable, Message: "the other nodes could not be reached; try again", Cause: err}
}

// gather collects the first answers, and waits for the result of each node.
func gather(ctx context.Context, answers <-chan nodeAnswer, first time.Duration) []schemas.NodeReport {
	found := map[string]nodeAnswer{}
	called, told := time.NewTimer(first), time.NewTimer(telling)
	defer called.Stop()
	defer told.Stop()
	undone := func() bool {
		return slices.ContainsFunc(slices.Collect(maps.Values(found)), func(w nodeAnswer) bool { return !w.Done })
	}
	for listening, waiting := true, true; waiting && (listening || undone()); {
		select {
		case w := <-answers:
			if !found[w.Node].Done {
				found[w.Node] = w
			}
		case <-called.C:
			listening = false
		case <-told.C:
			waiting = false
		case <-ctx.Done():
			waiting = false
		}
	}
	nodes := make([]schemas.NodeReport, 0, len(found))
	for _, w := range found {
		if !w.Done {
			w.Error = "it has not reported its result in time"
		}
		nodes = append(nodes, w.NodeReport)
	}
	slices.SortFunc(nodes, func(a, b schemas.NodeReport) int {
		return cmp.Or(strings.Compare(a.Role, b.Role), strings.Compare(a.Node, b.Node))
	})
	return nodes
}
