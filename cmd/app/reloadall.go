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

// policyWord is the answer of a node: first that it is running, then its result.
type policyWord struct {
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
	word := policyWord{NodeReport: a.report("")}
	var under sync.WaitGroup
	unlist, err := a.broker.Listen(schemas.NodesRequestRoot+".*", func(subject string, _ []byte) {
		a.reportPolicy(strings.TrimPrefix(subject, schemas.NodesRequestRoot+"."), policyWord{a.report(a.policy.Load().Version()), true})
	})
	if err != nil {
		return err
	}
	a.teardown.push(func(context.Context) error { unlist(); return nil })
	forget, err := a.broker.Listen(schemas.PolicyRequestRoot+".*", func(subject string, _ []byte) {
		ask := strings.TrimPrefix(subject, schemas.PolicyRequestRoot+".")
		a.reportPolicy(ask, word)
		// A node that sends a request meanwhile must receive this node's first answer at once.
		under.Go(func() { a.obey(ctx, ask, word) })
	})
	if err != nil {
		return err
	}
	a.teardown.push(func(context.Context) error { forget(); under.Wait(); return nil })
	return nil
}

// obey reloads, and answers the request for it.
func (a *App) obey(ctx context.Context, ask string, word policyWord) {
	done, err := a.Reload(ctx)
	word.Done, word.Version, word.Previous, word.Changed = true, done.Version, done.Previous, done.Changed
	if err != nil {
		word.Version, word.Error = a.policy.Load().Version(), publicText(err)
	}
	a.reportPolicy(ask, word)
}

func publicText(err error) string {
	if public, ok := errors.AsType[*fault.Error](err); ok {
		return public.Message
	}
	return "the reload failed"
}

// reportPolicy sends an answer to a request. If it is lost, the requester does not list this
// node.
func (a *App) reportPolicy(ask string, word policyWord) {
	if data, err := json.Marshal(word); err == nil {
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
	ask, words := rand.Text(), make(chan policyWord)
	over, end := context.WithCancel(ctx)
	defer end()
	forget, err := a.broker.Listen(schemas.PolicyReportRoot+"."+ask, func(_ string, data []byte) {
		var w policyWord
		if json.Unmarshal(data, &w) != nil {
			return
		}
		select {
		case words <- w:
		case <-over.Done():
		}
	})
	if err != nil {
		return nil, own, unasked(err)
	}
	defer forget()
	if err := a.broker.Notify(root+"."+ask, nil); err != nil {
		return nil, own, unasked(err)
	}
	all = gather(ctx, words, first)
	i := slices.IndexFunc(all, func(n schemas.NodeReport) bool { return n.Node == a.worker })
	if i < 0 { // not even this node has received it, so nothing was sent
		return nil, own, unasked(errors.New("this node sent no answer to its own request"))
	}
	return all, all[i], nil
}

func unasked(err error) error {
	return &fault.Error{Code: schemas.Unavailable, Message: "the other nodes could not be reached; try again", Cause: err}
}

// gather collects the first answers, and waits for the result of each node.
func gather(ctx context.Context, words <-chan policyWord, first time.Duration) []schemas.NodeReport {
	found := map[string]policyWord{}
	called, told := time.NewTimer(first), time.NewTimer(telling)
	defer called.Stop()
	defer told.Stop()
	undone := func() bool {
		return slices.ContainsFunc(slices.Collect(maps.Values(found)), func(w policyWord) bool { return !w.Done })
	}
	for listening, waiting := true, true; waiting && (listening || undone()); {
		select {
		case w := <-words:
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
