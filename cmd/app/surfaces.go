package app

import (
	"context"
	"maps"

	pages "weir/docs"
	"weir/egress"
	outchat "weir/egress/chat"
	outconsole "weir/egress/console"
	outexecutor "weir/egress/executor"
	outgit "weir/egress/git"
	outpassthrough "weir/egress/passthrough"
	outplans "weir/egress/plans"
	outpolicy "weir/egress/policy"
	outrules "weir/egress/rules"
	outruns "weir/egress/runs"
	outtasks "weir/egress/tasks"
	"weir/ingress"
	"weir/ingress/actions"
	inchat "weir/ingress/chat"
	inexecutor "weir/ingress/executor"
	ingit "weir/ingress/git"
	inpassthrough "weir/ingress/passthrough"
	inplans "weir/ingress/plans"
	inpolicy "weir/ingress/policy"
	inrules "weir/ingress/rules"
	inruns "weir/ingress/runs"
	"weir/ingress/session"
	intasks "weir/ingress/tasks"
	intokens "weir/ingress/tokens"
	"weir/processors"
	"weir/processors/git"
	"weir/processors/passthrough"
	"weir/processors/rules"
	"weir/processors/tasks"
	"weir/schemas"
)

// surfaces are the public protocols in ingress, processors and egress: how they enter, how they are answered, and
// how workers execute their kinds.
type surfaces struct {
	in    []ingress.Surface
	out   []egress.Surface
	works executors
	// passthrough serves the requests of the forward proxy too.
	passthrough *inpassthrough.Handler
	// slots are the streams that the holders of tasks hold open.
	slots *outtasks.Slots
}

// executors make what executes the actions of a kind, on a node that works.
type executors map[schemas.Kind]func(w *workshop) processors.Kind

// add adds one protocol.
func (s *surfaces) add(in []ingress.Surface, out []egress.Surface, works executors) {
	s.in, s.out = append(s.in, in...), append(s.out, out...)
	maps.Copy(s.works, works)
}

func one[T any](v T) []T { return []T{v} }

// reads are the surfaces of egress by their names, routes and scopes.
func (s *surfaces) reads() (all []ingress.Surface) {
	for _, out := range s.out {
		read := ingress.Surface{Name: out.Name}
		for _, r := range out.Routes {
			read.Routes = append(read.Routes, ingress.Route{Method: r.Method, Path: r.Path, Scopes: r.Scopes})
		}
		all = append(all, read)
	}
	return all
}

// kinds are the executors of the kinds that this node serves.
func (s *surfaces) kinds(w *workshop) map[schemas.Kind]processors.Kind {
	kinds := map[schemas.Kind]processors.Kind{}
	for k, execute := range s.works {
		if !s.kind(k).Absent {
			kinds[k] = execute(w)
		}
	}
	return kinds
}

// absent are the kinds that this node does not serve.
func (s *surfaces) absent() map[schemas.Kind]bool {
	kinds := map[schemas.Kind]bool{}
	for k := range s.works {
		kinds[k] = s.kind(k).Absent
	}
	return kinds
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

// allSurfaces is the one list of surfaces. It includes those that this node does not serve: their
// errors and routes are known everywhere. The order does not matter. A new surface is a folder in
// ingress, processors and egress, its kind and payload in schemas, and one call of add; its
// operations are described in schemas/gen/document. `make generate docs` writes what
// follows from that, and the tests report what else is missing.
func (a *App) allSurfaces(in *ingress.Server, out *egress.Server) *surfaces {
	all := &surfaces{works: executors{}}
	control := actions.New(a.ledger, actions.Config{Barrier: a.broker.Barrier, Stop: a.stopWork, NoEnds: a.role == RoleIngress, Kinds: all.kind})
	cancel := func(ctx context.Context, tenant, id string) error {
		_, err := control.Cancel(ctx, tenant, id)
		return err
	}
	redriver := actions.NewRedriver(a.broker, a.ledger, in.Acceptor(), all.kind)
	slots := outtasks.NewSlots(out, a.cfg.Auth.Streams)
	all.slots = slots
	r := &a.repositories

	all.add(actions.Surfaces(in, control, redriver), []egress.Surface{out.Records(), out.Lists(a.index)}, nil)

	all.add(one(inexecutor.Surface(in, inexecutor.Config{
		Policy: a.callerPolicy, Checker: checker(), Batch: outexecutor.NewBatcher(out).Answer,
	})), one(outexecutor.Surface()), executors{
		schemas.KindHTTP: func(w *workshop) processors.Kind { return processors.Kind{Executor: w.calls} },
	})

	handler := inpassthrough.New(in, inpassthrough.Config{
		Policy: a.callerPolicy, Entries: a.policy.Load, Bodies: a.broker, MaxBody: int64(a.cfg.Limits.Upload), Answer: out.ReplyOr,
		Canceler: ingress.Canceler{Stop: a.stopWork, Cancel: cancel, Draining: a.draining},
	})
	all.passthrough = handler
	all.add(one(handler.Surface()), one(outpassthrough.Surface(out)), executors{
		schemas.KindPassthrough: func(w *workshop) processors.Kind {
			return processors.Kind{Executor: passthrough.New(w.calls, w.adapter, a.ledger, passthrough.Config{
				Idle: a.cfg.Policy.Timeout, Whole: int64(a.cfg.Limits.Response), Stream: int64(a.cfg.Limits.Stream),
				Body: a.broker.OpenBlob,
			})}
		},
	})

	all.add(one(inplans.Surface(in)), one(outplans.Surface()), executors{
		schemas.KindPlan: func(w *workshop) processors.Kind { return processors.Kind{Executor: w.plans} },
	})

	all.add(one(inruns.Surface(in, inruns.Config{
		Policy: a.callerPolicy, Checker: checker(), Serves: a.serves,
		MaxRun: a.cfg.LongestAction(), // a longer run would be forgotten before it ends
		Resume: outruns.Resume, Slot: slots.Acquire, Stream: outruns.NewAnswerer(out).Stream,
	})), one(outruns.Surface()), executors{schemas.KindRun: a.runs})

	completions := outchat.NewAnswerer(out, outchat.Config{Models: a.models, Lists: a.providerModels, Budgets: a.budgetLimiter, Watch: slots.Watch})
	all.add(one(inchat.Surface(in, inchat.Config{
		Models: a.models, Budgets: a.budgetLimiter, Tasks: a.taskService, MaxBody: int64(a.cfg.Limits.Chat), Draining: a.draining, Stop: a.stopWork,
		Actions: a.ledger, Reserve: a.reserve, Cancel: cancel,
		Resume: outchat.Resume, Slot: slots.Acquire, Answer: completions.Answer, Respond: completions.Respond,
	})), completions.Surfaces(), executors{schemas.KindChat: a.chats})

	shown := outrules.NewAnswerer(out, a.rules)
	all.add(inrules.Surfaces(in, inrules.Config{
		AgentAPI: a.cfg.Rules.AgentAPI, PolicyVersion: func() string { return a.policy.Load().Version() },
		Preview: a.Preview, Read: shown.Read, Record: shown.Record,
	}), one(shown.Surface()), executors{schemas.KindRule: func(*workshop) processors.Kind {
		writes := rules.New(a.rules, a.policy.Load, a.recorder, rules.Config{Limit: a.cfg.Rules.Limit})
		return processors.Kind{Executor: writes, WritesStarted: processors.Always}
	}})

	people := outtasks.NewAnswerer(out, outtasks.Config{
		Repos: r.table, Index: a.index, PublicURL: a.baseURL, Partitions: a.cfg.Log.Partitions, Diff: outgit.NewHosted(r.program).Diff,
	})
	all.add(intasks.Surfaces(in, intasks.SurfaceConfig{
		Tasks: a.taskService, Control: control, Policy: a.callerPolicy, Repos: r.table, Branches: a.branchExists, Hosts: a.hosts,
		Models: a.models, Entries: func() []string { return a.policy.Load().EntryNames() }, MaxTask: a.cfg.LongestAction(),
		Show: people.Task, Agent: people.AgentTask, Leased: people.Leased, Inquiry: people.Inquiry,
	}), people.Surfaces(), executors{
		schemas.KindTask: func(*workshop) processors.Kind {
			work := tasks.New(a.ledger, r.branch, a.recorder, tasks.Config{
				Leases: a.broker.Bucket(schemas.LeaseBucket), Lease: a.cfg.Tasks.Lease, Announce: a.broker.Notify, Barrier: a.broker.Barrier,
			})
			return processors.Kind{Executor: work, WritesStarted: processors.Always, Ended: work.Ended}
		},
		schemas.KindRepo: func(w *workshop) processors.Kind {
			return processors.Kind{Executor: git.NewRepos(w.repos), WritesStarted: processors.Always}
		},
	})

	pushes := ingit.Surface(in, a.gitIngress(), out.Reply)
	pushes.Absent = a.role != RoleAll // a pack never goes to the log
	all.add(one(pushes), one(outgit.Surface(a.gitReads())), executors{schemas.KindPush: func(w *workshop) processors.Kind {
		p := git.NewPushes(w.repos)
		return processors.Kind{Executor: p, Here: p.Here, WritesStarted: processors.Always}
	}})

	all.add(one(inpolicy.Surface(in, a, operations{a})), one(outpolicy.Surface(out, a.policyView, a.operationsView, a.nodes)), nil)
	all.add(one(intokens.Surface(in, a.tokens)), one(out.Tokens(a.listTokens)), nil)
	console := session.Surface(in, signIns{a.tokens}, a.baseURL)
	console.Absent = a.open() // every browser on this machine is permitted
	all.add(one(console), []egress.Surface{outconsole.Surface(a.consoleSession), outconsole.Docs(pages.Files)}, nil)
	return all
}
