package app

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"weir/cmd/cli"
	"weir/internal/config"
	"weir/internal/fault"
	"weir/internal/redact"
	"weir/internal/secrets"
	"weir/internal/telemetry"
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
	err := a.listenFor(schemas.NodesRequestRoot+".*", func(subject string) {
		a.sendReport(strings.TrimPrefix(subject, schemas.NodesRequestRoot+"."), nodeAnswer{a.report(a.policy().Version()), true})
	})
	if err != nil {
		return err
	}
	a.teardown.push(func(context.Context) error { under.Wait(); return nil }) // after the last request
	return a.listenFor(schemas.PolicyRequestRoot+".*", func(subject string) {
		ask := strings.TrimPrefix(subject, schemas.PolicyRequestRoot+".")
		a.sendReport(ask, answer)
		// A node that sends a request meanwhile must receive this node's first answer at once.
		under.Go(func() { a.reloadFor(ctx, ask, answer) })
	})
}

// reloadFor reloads, and answers the request for it.
func (a *App) reloadFor(ctx context.Context, ask string, answer nodeAnswer) {
	done, err := a.Reload(ctx)
	answer.Done, answer.Version, answer.Previous, answer.Changed = true, done.Version, done.Previous, done.Changed
	if err != nil {
		answer.Version, answer.Error = a.policy().Version(), publicText(err)
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
	done := schemas.Reload{Node: a.worker, Version: a.policy().Version()}
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
		return []schemas.NodeReport{a.report(a.policy().Version())}, nil
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

// lookEvery is how often a node looks at the files of its configuration. A change is read after two looks
// that found the same: an editor writes in several steps.
const lookEvery = 200 * time.Millisecond

// watchFile reloads when the configuration's file changes, or a JSON file that it names. It looks at what the
// paths lead to: editors and Kubernetes put another file, or another link, in their place.
func (a *App) watchFile(ctx context.Context) {
	if a.opts.File == "" {
		return
	}
	seen := a.files()
	a.refresh(ctx) // it may have changed while the node started
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() {
		defer close(done)
		a.followFiles(ctx, seen, func() { a.refresh(ctx) })
	}()
	a.teardown.push(func(context.Context) error {
		cancel()
		<-done
		return nil
	})
}

// followFiles calls read after each change of the files, until ctx ends. Files that the configuration
// names from now on count as changed: they are read once more.
func (a *App) followFiles(ctx context.Context, seen []fs.FileInfo, read func()) {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for last := seen; ; {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		now := a.files()
		if unchanged(now, last) && !unchanged(now, seen) {
			seen = now
			read()
		}
		last = now
	}
}

// files describes the files of the configuration as they are now; nil: one is not there.
func (a *App) files() (all []fs.FileInfo) {
	a.reload.mu.Lock()
	names := append([]string{a.opts.File}, a.reload.files...)
	a.reload.mu.Unlock()
	for _, name := range names {
		var info fs.FileInfo
		if f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0); err == nil { // one that may not be read is not there
			info, _ = f.Stat()
			_ = f.Close()
		}
		all = append(all, info)
	}
	return all
}

func unchanged(now, then []fs.FileInfo) bool {
	return slices.EqualFunc(now, then, func(a, b fs.FileInfo) bool {
		if a == nil || b == nil {
			return a == b
		}
		return os.SameFile(a, b) && a.Size() == b.Size() && a.Mode() == b.Mode() && a.ModTime().Equal(b.ModTime())
	})
}

// warnings are faults of a configuration that an operator can mend while Weir runs, so it takes effect.
func (a *App) warnings(c config.Config) []string {
	all := append(secretWarnings(c, secretStore(a.cfg, a.opts.Environ)), a.natsWarnings()...)
	if a.role == RoleAll && a.cfg.GitDir() == "" {
		all = append(all, noGitDir)
	}
	return all
}

// secretWarnings are secrets that the store does not have, or that are too short to be redacted.
func secretWarnings(c config.Config, store *secrets.Store) (all []string) {
	if err := store.Check(); err != nil {
		all = append(all, fmt.Sprintf("secrets: %v", err))
	}
	warn := func(whose string, templates map[string]string) {
		for _, name := range slices.Sorted(maps.Keys(templates)) {
			if w := unsafeSecret(store, templates[name]); w != "" {
				all = append(all, whose+name+": "+w)
			}
		}
	}
	for _, e := range c.Policy.Allowlist {
		entry := fmt.Sprintf("entry %q: ", e.Name)
		warn(entry+"header ", e.Headers)
		warn(entry+"query parameter ", e.Query)
		warn(entry+"body member ", e.Body)
	}
	for _, taskType := range slices.Sorted(maps.Keys(c.Agents)) {
		warn("agent "+taskType+": ", map[string]string{"token": c.Agents[taskType].Token})
	}
	for _, m := range slices.Sorted(maps.Keys(c.Models)) {
		warn("model "+m+": header ", c.Models[m].Headers)
		for _, u := range c.Models[m].Upstreams {
			warn("model "+m+": upstream "+u.Name+": header ", u.Headers)
		}
	}
	return all
}

// natsWarnings warn about content that crosses NATS in clear, and about what NATS does not serve.
func (a *App) natsWarnings() (all []string) {
	if at := a.NATS(); at != "" && !config.Loopback(at) {
		text := fmt.Sprintf("nats.listen: other machines can reach %s, and it has no TLS: anyone who reads its traffic reads the evidence", at)
		if a.servesRPC() {
			text += ", and the tokens of those who use the agent API there"
		}
		all = append(all, text)
	}
	if a.role.accepts() && !a.servesRPC() {
		all = append(all, "the agent API is served over HTTP and not over NATS: this node requires no token, so every client of the NATS server could change the rules; set auth.mode to tokens to serve it over NATS")
	}
	return all
}

// unsafeSecret describes the problem with the secrets of a template.
func unsafeSecret(store *secrets.Store, template string) string {
	_, used, err := store.Resolve(template)
	if err != nil {
		return err.Error() + "; its calls will fail until it is there"
	}
	for _, s := range used {
		if s.Len() < redact.MinSecret {
			return fmt.Sprintf("a secret in it is shorter than %d bytes; it cannot be taken out of answers", redact.MinSecret)
		}
	}
	return ""
}

func (a *App) notice(text string) { a.opts.notice(text) }

// notice writes a warning in the format of the log.
func (o Options) notice(text string) {
	switch {
	case o.Notices == nil:
	case o.Config.Telemetry.LogFormat == telemetry.FormatText:
		fmt.Fprintln(o.Notices, "weir: warning:", text)
	default:
		slog.New(slog.NewJSONHandler(o.Notices, nil)).Warn("warning_raised", "text", text)
	}
}

// reportLoss lists the records that the operator has given up.
func (a *App) reportLoss() {
	if a.server == nil || !a.opts.AcceptLoss {
		return
	}
	for _, l := range a.server.Lost() {
		a.notice(l + "; a call whose record is gone may be made a second time when it is asked for again")
	}
	if len(a.server.Lost()) == 0 {
		a.notice("--accept-loss: nothing was lost")
	}
	a.notice("--accept-loss: take it away before the next start, or damage is not noticed again")
}
