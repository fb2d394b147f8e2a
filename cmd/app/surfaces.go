package app

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"time"

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
	"weir/internal/fault"
	"weir/internal/git"
	"weir/internal/githttp"
	"weir/internal/gitwire"
	"weir/internal/outbound"
	"weir/internal/repos"
	"weir/internal/task"
	"weir/processors"
	"weir/processors/call/direct"
	processorsgit "weir/processors/git"
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
	slots := outtasks.NewSlots(a.cfg.Auth.Streams)
	all.slots = slots
	r := &a.repositories

	all.add(actions.Surfaces(in, control, redriver), []egress.Surface{out.Records(), out.Lists(a.index)}, nil)

	all.add(one(inexecutor.Surface(in, inexecutor.Config{
		Policy: a.callerPolicy, Batch: outexecutor.NewBatcher(out).Answer,
	})), one(outexecutor.Surface()), executors{
		schemas.KindHTTP: func(w *workshop) processors.Kind { return processors.Kind{Executor: w.calls} },
	})

	handler := inpassthrough.New(in, inpassthrough.Config{
		Policy: a.callerPolicy, Entries: a.policy, Bodies: a.broker, MaxBody: int64(a.cfg.Limits.Upload), Answer: out.ReplyOr,
		Canceler: ingress.Canceler{Stop: a.stopWork, Cancel: cancel, Draining: a.draining},
	})
	all.passthrough = handler
	all.add(one(handler.Surface()), one(outpassthrough.Surface(out)), executors{
		schemas.KindPassthrough: func(w *workshop) processors.Kind {
			return processors.Kind{Executor: passthrough.New(w.calls, w.adapter, a.ledger, direct.PassOptions{
				Idle: a.cfg.Policy.Timeout, Whole: int64(a.cfg.Limits.Response), Stream: int64(a.cfg.Limits.Stream),
				Body: a.broker.OpenBlob,
			})}
		},
	})

	all.add(one(inplans.Surface(in)), one(outplans.Surface()), executors{
		schemas.KindPlan: func(w *workshop) processors.Kind { return processors.Kind{Executor: w.plans} },
	})

	all.add(one(inruns.Surface(in, inruns.Config{
		Policy: a.callerPolicy, Serves: a.serves,
		MaxRun: a.cfg.LongestAction(), // a longer run would be forgotten before it ends
		Resume: outruns.Resume, Slot: out.AcquireSlot, Stream: outruns.NewAnswerer(out).Stream,
	})), one(outruns.Surface()), executors{schemas.KindRun: a.runs})

	completions := outchat.NewAnswerer(out, outchat.Config{Models: a.models, Lists: a.lists.Models, Budgets: a.budgetLimiter})
	all.add(one(inchat.Surface(in, inchat.Config{
		Models: a.models, Budgets: a.budgetLimiter, Tasks: a.taskService, MaxBody: int64(a.cfg.Limits.Chat), Draining: a.draining, Stop: a.stopWork,
		Actions: a.ledger, Reserve: a.reserve, Cancel: cancel,
		Resume: outchat.Resume, Slot: out.AcquireSlot, Answer: completions.Answer, Respond: completions.Respond,
	})), completions.Surfaces(), executors{schemas.KindChat: a.chats})

	shown := outrules.NewAnswerer(out, a.rules)
	all.add(inrules.Surfaces(in, inrules.Config{
		AgentAPI: a.cfg.Rules.AgentAPI, PolicyVersion: func() string { return a.policy().Version() },
		Preview: a.Preview, Read: shown.Read, Record: shown.Record,
	}), one(shown.Surface()), executors{schemas.KindRule: func(*workshop) processors.Kind {
		writes := rules.New(a.rules, a.policy, a.recorder, rules.Config{Limit: a.cfg.Rules.Limit})
		return processors.Kind{Executor: writes, WritesStarted: processors.Always}
	}})

	people := outtasks.NewAnswerer(out, outtasks.Config{
		Repos: r.table, Index: a.index, PublicURL: a.baseURL, Partitions: a.cfg.Log.Partitions, Diff: r.program.Diff,
	})
	all.add(intasks.Surfaces(in, intasks.SurfaceConfig{
		Tasks: a.taskService, Control: control, Policy: a.callerPolicy, Repos: r.table, Branches: a.branchExists, Hosts: a.hosts,
		Models: a.models, Entries: a.Entries, MaxTask: a.cfg.LongestAction(),
		Show: people.Task, Agent: people.AgentTask, Leased: people.Leased, Inquiry: people.Inquiry,
	}), people.Surfaces(), executors{
		schemas.KindTask: func(*workshop) processors.Kind {
			work := tasks.New(a.ledger, r.branch, a.recorder, tasks.Config{
				Leases: a.broker.Bucket(schemas.LeaseBucket), Lease: a.cfg.Tasks.Lease, Announce: a.broker.Notify, Barrier: a.broker.Barrier,
			})
			return processors.Kind{Executor: work, WritesStarted: processors.Always, Ended: work.Ended}
		},
		schemas.KindRepo: func(w *workshop) processors.Kind {
			return processors.Kind{Executor: processorsgit.NewRepos(w.repos), WritesStarted: processors.Always}
		},
	})

	pushes := ingit.Surface(in, a.gitIngress(), out.Reply)
	pushes.Absent = a.role != RoleAll // a pack never goes to the log
	all.add(one(pushes), one(outgit.Surface(a.gitReads(people.Opened))), executors{schemas.KindPush: func(w *workshop) processors.Kind {
		p := processorsgit.NewPushes(w.repos)
		return processors.Kind{Executor: p, Here: p.Here, WritesStarted: processors.Always}
	}})

	all.add(one(inpolicy.Surface(in, a, a.destinations)), one(outpolicy.Surface(out, a.policyView, a.operationsView, a.nodes)), nil)
	all.add(one(intokens.Surface(in, a.tokens)), one(out.Tokens(a.tokens.List)), nil)
	console := session.Surface(in, a.tokens, a.baseURL)
	console.Absent = a.cfg.Open() // every browser on this machine is permitted
	all.add(one(console), []egress.Surface{outconsole.Surface(a.consoleSession), outconsole.Docs(pages.Files)}, nil)
	return all
}

// repositories are the parts that have to do with them.
type repositories struct {
	table   *repos.Table
	program *git.Git
	none    error // why no node has repositories on disk; nil: this one has them, or another may
	spools  *git.Spools
	client  *outbound.Client
	forward *processorsgit.Forward
	branch  *processorsgit.Branches
}

// openGit opens the repositories on this node's disk, and the way to those elsewhere.
func (a *App) openGit(ctx context.Context) error {
	r := &a.repositories
	r.table = repos.New(a.broker.Bucket(schemas.RepoBucket))
	if err := a.openProgram(ctx); err != nil || !a.role.works() {
		return err
	}
	g := a.cfg.Git
	r.client = outbound.New(a.opts.Network.over(outbound.Config{
		HeaderTimeout: g.Timeout, BodyTimeout: g.Timeout, MaxBodyBytes: int64(g.MaxRepo), MaxHeaderBytes: int64(a.cfg.Limits.ResponseHeaders),
	}))
	a.teardown.push(func(context.Context) error { r.client.Close(); return nil })
	r.forward = processorsgit.NewForward(a.guard, r.client, a.recorder, processorsgit.ForwardConfig{
		Secrets: a.secrets, Worker: a.worker, Timeout: g.Timeout, Answer: int64(g.MaxRepo), Now: time.Now,
	})
	return nil
}

// noGitDir warns about a node of a cluster without a place for repositories.
const noGitDir = "git.dir: is not set, and with nats.url it has no default: `weir serve` has no repositories on its disk, " +
	"and a new one waits for a node that has git.dir"

// noProgram is why a node with a place for repositories has none.
const noProgram = "git is not installed where Weir runs, or git.program does not name it"

// openProgram finds git. Without git, or without a folder for repositories, Weir starts anyway:
// repositories of upstreams can still be used.
func (a *App) openProgram(ctx context.Context) error {
	if a.role != RoleAll {
		a.noGit("repositories on disk are served by nodes that run `weir serve`")
		return nil
	}
	g, dir := a.cfg.Git, a.cfg.GitDir()
	a.repositories.spools = git.NewSpools(os.TempDir(), int64(g.MaxPack), a.cfg.TenantShare())
	if dir == "" {
		a.noGit("this node has no place for repositories: set git.dir")
		return nil
	}
	if _, err := exec.LookPath(g.Program); err != nil {
		a.noGit(noProgram)
		a.log.WarnContext(ctx, "git_missing")
		return nil //nolint:nilerr // reported when a repository is requested
	}
	program, err := git.Open(ctx, git.Config{
		Dir: dir, Program: g.Program, Timeout: g.Timeout, MaxPack: int64(g.MaxPack), MaxRepo: int64(g.MaxRepo),
		Memory: int64(g.Memory), Processes: g.Processes, TenantShare: a.cfg.TenantShare(), Logger: a.log,
	})
	if err != nil {
		return fmt.Errorf("git: %w", err)
	}
	a.repositories.program, a.repositories.spools = program, program.Spools()
	a.teardown.push(func(context.Context) error { program.Close(); return nil })
	return nil
}

// packLimits are the limits for a pack of a given size. It may unpack to eight times its size. A
// single object has a limit of its own, because git holds it in memory.
func packLimits(size int64) gitwire.PackLimits {
	return gitwire.PackLimits{Bytes: size, Objects: 5_000_000, Object: max(size, 64<<20), Unpacked: 8 * max(size, 64<<20)}
}

func (a *App) gitAuthorizer() githttp.Authorizer {
	return githttp.Authorizer{Grant: a.taskService.Grant, Repos: a.repositories.table}
}

func (a *App) gitReads(opened func(*http.Request, task.Grant) error) *outgit.Config {
	if a.role != RoleAll {
		return nil
	}
	r := &a.repositories
	return &outgit.Config{
		Authorizer: a.gitAuthorizer(), Hold: a.taskService.Hold, Over: a.activeTasks.Over, Opened: opened,
		Hosted: r.program, Proxied: r.forward, Timeout: a.cfg.Git.Timeout,
	}
}

// gitIngress takes pushes, where the process that takes one also works on it.
func (a *App) gitIngress() ingit.Config {
	r := &a.repositories
	return ingit.Config{
		Authorizer: a.gitAuthorizer(), Hold: a.taskService.Hold, Here: r.program.Here, Reserve: a.reservePush,
		MaxPack: int64(a.cfg.Git.MaxPack), Timeout: a.cfg.Git.Timeout, Slots: a.cfg.Workers.Slots, TenantShare: a.cfg.TenantShare(),
	}
}

// reservePush has this process execute a push; see processors.Pipeline.Reserve.
func (a *App) reservePush(ref schemas.Ref) (execute func(context.Context), release func()) {
	return a.work.pipeline.Reserve(ref)
}

// hosts is nil where repositories can be made: here or, where other nodes share the log,
// perhaps there.
func (a *App) hosts() error { return a.repositories.none }

// branchExists looks up a branch for ingress. A repository that is not on this node is
// on another one, unless there is no other.
func (a *App) branchExists(ctx context.Context, repo schemas.Repo, branch string) (bool, error) {
	if a.repositories.branch == nil { // a worker finds out
		return false, git.ErrNoRepo
	}
	there, err := a.repositories.branch.Exists(ctx, repo, branch)
	if errors.Is(err, git.ErrNoRepo) && a.cfg.Embedded() {
		if err := a.hosts(); err != nil {
			return false, err
		}
		return false, fault.New(schemas.Unavailable, "the repository's directory is not below git.dir any more; bring it back, or make the repository anew under another name")
	}
	return there, err
}

// noGit is the handler of a node without git. Git clients get the reason, unless another node may
// share the log and have the repositories.
func (a *App) noGit(why string) {
	r := &a.repositories
	away := fmt.Errorf("%w: %s", git.ErrNoRepo, why)
	asked := away
	if a.cfg.Embedded() {
		r.none = fault.New(schemas.Unavailable, why)
		asked = r.none
	}
	r.program = git.None(away, asked)
}
