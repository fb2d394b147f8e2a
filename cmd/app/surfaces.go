package app

import (
	"context"

	"weir/egress"
	outchat "weir/egress/chat"
	outconsole "weir/egress/console"
	outexecutor "weir/egress/executor"
	outgit "weir/egress/git"
	outplans "weir/egress/plans"
	outpolicy "weir/egress/policy"
	outrules "weir/egress/rules"
	outruns "weir/egress/runs"
	outtasks "weir/egress/tasks"
	outtokens "weir/egress/tokens"
	"weir/ingress"
	"weir/ingress/actions"
	inchat "weir/ingress/chat"
	inexecutor "weir/ingress/executor"
	ingit "weir/ingress/git"
	inplans "weir/ingress/plans"
	inpolicy "weir/ingress/policy"
	inrules "weir/ingress/rules"
	inruns "weir/ingress/runs"
	"weir/ingress/session"
	intasks "weir/ingress/tasks"
	intokens "weir/ingress/tokens"
	"weir/internal/outbound"
	"weir/processors"
	"weir/processors/call"
	"weir/processors/executor"
	"weir/processors/git"
	"weir/processors/plans"
	"weir/processors/rules"
	"weir/processors/tasks"
	"weir/schemas"
)

// surfaces are the public protocols, as ingress and egress serve them.
type surfaces struct {
	in  []ingress.Surface
	out []egress.Surface
}

// add adds one protocol: how it enters and how it is answered.
func (s *surfaces) add(in []ingress.Surface, out ...egress.Surface) {
	s.in, s.out = append(s.in, in...), append(s.out, out...)
}

// kind returns the surface that stores actions of a kind.
func (s *surfaces) kind(k schemas.Kind) ingress.Surface {
	for _, in := range s.in {
		if in.Kind == k {
			return in
		}
	}
	return ingress.Surface{}
}

// allSurfaces is the one list of surfaces. Those that this node does not serve are in it too: their
// errors and routes are known everywhere. The order does not matter.
func (a *App) allSurfaces(in *ingress.Server, out *egress.Server) *surfaces {
	one := func(s ingress.Surface) []ingress.Surface { return []ingress.Surface{s} }
	all := &surfaces{}
	control := actions.New(a.ledger, actions.Config{Barrier: a.broker.Barrier, Stop: a.stopWork, NoEnds: a.role == RoleIngress, Kinds: all.kind})
	redriver := actions.NewRedriver(a.broker, a.ledger, in.Acceptor(), all.kind)

	all.add(actions.Surfaces(in, control, redriver), out.Records(), out.Lists(a.index))
	all.add(one(inexecutor.Surface(in, inexecutor.Config{Policy: a.judge, Checker: checker()})), outexecutor.Surface())
	all.add(one(inplans.Surface(in)), outplans.Surface())

	slots := outtasks.NewSlots(out, a.cfg.Auth.Streams)
	all.add(one(inruns.Surface(in, inruns.Config{
		Policy: a.judge, Checker: checker(), Serves: a.serves,
		MaxRun: a.cfg.LongestAction(), // a run that goes on for longer would be forgotten before it ends
		Resume: outruns.Resume, Slot: slots.Acquire, Stream: outruns.NewAnswerer(out).Stream,
	})), outruns.Surface())

	completions := outchat.NewAnswerer(out, outchat.Config{Models: a.models, Budgets: a.book, Holder: a.taskReader, Watch: slots.Watch})
	all.add(one(inchat.Surface(in, inchat.Config{
		Models: a.models, Budgets: a.book, Desk: a.desk, MaxBody: int64(a.cfg.Limits.Chat), Draining: a.draining, Stop: a.stopWork,
		Cancel: func(ctx context.Context, tenant, id string) error {
			_, err := control.Cancel(ctx, tenant, id)
			return err
		},
		Resume: outchat.Resume, Slot: slots.Acquire, Answer: completions.Answer,
	})), completions.Surfaces()...)

	shown := outrules.NewAnswerer(out, a.rules)
	all.add(inrules.Surfaces(in, inrules.Config{
		AgentAPI: a.cfg.Rules.AgentAPI, PolicyVersion: func() string { return a.policy.Load().Version() },
		Preview: a.Preview, Read: shown.Read, Record: shown.Record,
	}), shown.Surface())

	people := outtasks.NewAnswerer(out, outtasks.Config{
		Repos: a.repositories.table, Index: a.index, PublicURL: a.baseURL, Partitions: a.cfg.Log.Partitions,
	})
	all.add(intasks.Surfaces(in, intasks.SurfaceConfig{
		Desk: a.desk, Control: control, Policy: a.judge, Repos: a.repositories.table, Branches: a.branchExists, Hosts: a.hosts,
		Models: a.models, MaxTask: a.cfg.LongestAction(),
		Show: people.Task, Agent: people.AgentTask, Leased: people.Leased, Inquiry: people.Inquiry,
	}), people.Surfaces()...)
	pushes := ingit.Surface(in, a.gitDoor(), out.Reply)
	pushes.Absent = a.role != RoleAll
	all.add(one(pushes), outgit.Surface(a.gitReads()))

	all.add(one(inpolicy.Surface(in, a, operations{a})), outpolicy.Surface(out, a.policyView, a.operationsView))
	all.add(one(intokens.Surface(in, issuer{a.tokens})), outtokens.Surface(out, a.listTokens))
	console := session.Surface(in, signIns{a.tokens}, a.baseURL)
	console.Absent = a.open() // every browser on this machine is let in
	all.add(one(console), outconsole.Surface(a.consoleSession))
	return all
}

// kinds is the one list of what workers execute.
func (a *App) kinds(client *outbound.Client, caller *call.Caller) map[schemas.Kind]processors.Kind {
	answers, r := call.Answers{Blobs: a.ledger, Reserve: a.reserve}, &a.repositories
	repos := git.Config{
		Ledger: a.ledger, Recorder: a.recorder, Repos: r.table, Hosted: r.program, Spools: r.spools, Over: a.board.Over, Timeout: a.cfg.Git.Timeout,
		Upstream: git.Upstream{Forward: r.forward, Caller: caller, Answers: answers, Adapter: r.forward.Push},
		Limits:   packLimits(int64(a.cfg.Git.MaxPack)), Alone: a.cfg.Embedded(),
	}
	r.branch = git.NewBranches(repos)
	calls, planned := executor.New(caller, a.recorder, answers), plans.New(caller, a.recorder)
	ran := a.runs(agentAdapter(a.cfg, client, a.secrets), caller, a.recorder, calls, planned)
	work := tasks.New(a.ledger, r.branch, a.recorder, tasks.Config{
		Leases: a.broker.Leases(), Lease: a.cfg.Tasks.Lease, Announce: a.broker.Nudge, Barrier: a.broker.Barrier,
	})
	a.work.runs = ran // a reload refreshes it
	all := map[schemas.Kind]processors.Kind{
		schemas.KindHTTP: {Executor: calls},
		schemas.KindPlan: {Executor: planned},
		schemas.KindRun:  {Executor: ran, WritesStarted: ran.WritesStarted},
		schemas.KindRule: {Executor: rules.New(a.rules, a.policy.Load, a.recorder, rules.Config{Limit: a.cfg.Rules.Limit}), WritesStarted: processors.Always},
		schemas.KindChat: a.chats(client, a.secrets, caller, answers),
		schemas.KindTask: {Executor: work, WritesStarted: processors.Always, Ended: work.Ended},
		schemas.KindRepo: {Executor: git.NewRepos(repos), WritesStarted: processors.Always},
	}
	if a.role == RoleAll { // a pack never goes to the log
		pushes := git.NewPushes(repos)
		all[schemas.KindPush] = processors.Kind{Executor: pushes, Here: pushes.Here, WritesStarted: processors.Always}
	}
	return all
}
