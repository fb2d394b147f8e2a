package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"

	egressgit "weir/egress/git"
	ingressgit "weir/ingress/git"
	"weir/internal/fault"
	"weir/internal/git"
	"weir/internal/githttp"
	"weir/internal/gitwire"
	"weir/internal/outbound"
	"weir/internal/repos"
	processorsgit "weir/processors/git"
	"weir/schemas"
)

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
		Secrets: a.secrets, Worker: a.worker, Timeout: g.Timeout, Answer: int64(g.MaxRepo),
	})
	return nil
}

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
		a.noGit("git is not installed where Weir runs, or git.program does not name it")
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

func (a *App) gitReads() *egressgit.Config {
	if a.role != RoleAll {
		return nil
	}
	r := &a.repositories
	return &egressgit.Config{
		Authorizer: a.gitAuthorizer(), Hold: a.taskService.Hold, Over: a.activeTasks.Over,
		Hosted: egressgit.NewHosted(r.program), Proxied: r.forward, Timeout: a.cfg.Git.Timeout,
	}
}

// gitIngress takes pushes, where the process that takes one also works on it.
func (a *App) gitIngress() ingressgit.Config {
	r := &a.repositories
	return ingressgit.Config{
		Authorizer: a.gitAuthorizer(), Hold: a.taskService.Hold, Hosted: r.program, Reserve: a.reservePush,
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
