package git_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	hosted "weir/internal/git"
	"weir/internal/githttp"
	"weir/internal/gitwire"
	"weir/internal/ledger"
	"weir/internal/outbound"
	"weir/internal/policy"
	"weir/internal/repos"
	"weir/internal/retry"
	"weir/internal/secrets"
	"weir/internal/task"
	"weir/internal/weirtest/bucket"
	"weir/internal/weirtest/fixture"
	"weir/internal/weirtest/gitkit"
	"weir/internal/weirtest/harness"
	"weir/internal/weirtest/memlog"
	"weir/internal/weirtest/rulebook"
	"weir/processors/call"
	"weir/processors/git"
	"weir/processors/guard"
	"weir/processors/settle"
	"weir/schemas"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	tenant   = "default"
	taskID   = "task-1"
	branch   = "agent/work"
	timeout  = 10 * time.Minute
	password = "sesame-open-9"
	basic    = "eDpzZXNhbWUtb3Blbi05" // of the user x
)

var taskRef = schemas.Ref{Tenant: tenant, Kind: schemas.KindTask, ID: taskID}

// env is a worker without its pipeline: the executors over the real git, the real
// client and a log in memory.
type env struct {
	t       *testing.T
	log     *memlog.Log
	ledger  *ledger.Ledger
	git     *hosted.Git
	bucket  *bucket.Bucket // of the catalog
	catalog *repos.Table
	book    *rulebook.Book
	stop    *harness.Stop

	guard    *guard.Guard
	forward  *git.Forward
	pushes   *git.Pushes
	branches *git.Branches
	repos    *git.Repos
	cfg      git.Config

	policy harness.Policy
	over   chan struct{}
}

// push makes the adapter of one push to an upstream.
type push = func(git.PushCall) call.Adapter

// options are what a test changes of a room.
type options struct {
	hooks  memlog.Hooks
	limits gitwire.PackLimits
	now    func() time.Time
	pause  time.Duration // before another attempt
	// adapter stands between a push and its upstream, and program before git.
	adapter func(push) push
	program func(*hosted.Git) git.Hosted
	spools  *hosted.Spools // nil: git's own
}

func newEnv(t *testing.T, o options) *env {
	t.Helper()
	if o.now == nil {
		o.now = time.Now
	}
	r := &env{
		t: t, log: memlog.New(harness.Layout(), o.now, o.hooks), bucket: bucket.New(),
		book: &rulebook.Book{}, stop: harness.NewStop(t), over: make(chan struct{}),
	}
	r.catalog = repos.New(r.bucket)
	r.ledger = ledger.New(r.log, harness.Layout(), o.now)
	r.policy.Enforce(t)
	g, err := hosted.Open(t.Context(), hosted.Config{Dir: t.TempDir()})
	require.NoError(t, err)
	t.Cleanup(g.Close)
	r.git = g
	client := outbound.New(outbound.Config{})
	t.Cleanup(client.Close)
	store := secrets.New(secrets.Config{LookupEnv: func(name string) (string, bool) { return basic, name == "WEIR_SECRET_GIT" }})
	recorder := harness.Recorder(r.log)
	r.guard = guard.New(r.policy.InForce, r.book)
	r.forward = git.NewForward(r.guard, client, recorder, git.ForwardConfig{Secrets: store, Worker: "w1", Now: o.now, Timeout: timeout, Answer: 1 << 30})
	o.pause = max(o.pause, time.Millisecond)
	if o.adapter == nil {
		o.adapter = func(p push) push { return p }
	}
	if o.program == nil {
		o.program = func(g *hosted.Git) git.Hosted { return g }
	}
	if o.spools == nil {
		o.spools = g.Spools()
	}
	r.cfg = git.Config{
		Ledger: r.ledger, Recorder: recorder, Repos: r.catalog, Hosted: g, Spools: o.spools, Limits: o.limits, Now: o.now, Timeout: timeout,
		Forward: r.forward, Adapter: o.adapter(r.forward.Push), Answers: call.Answers{Blobs: r.ledger},
		Caller: call.New(r.ledger, r.guard, r.forward.Push(git.PushCall{}), call.Config{
			Worker: "w1", Barrier: r.log.Barrier, Timeout: time.Minute, Now: o.now,
			Schedule: retry.Schedule{Attempts: 3, Base: o.pause, Cap: o.pause},
		}),
		Over: func(schemas.Ref, int) (<-chan struct{}, func()) { return r.over, func() {} },
	}
	r.branches, r.repos = git.NewBranches(r.cfg), git.NewRepos(r.cfg)
	r.cfg.Hosted = o.program(g)
	r.pushes = git.NewPushes(r.cfg)
	return r
}

// hosting is a room with a repository on this node, and a task that may push to it; base is where the
// task's branch is.
func hosting(t *testing.T, o options) (r *env, repo schemas.Repo, base string) {
	t.Helper()
	r = newEnv(t, o)
	repo = r.host()
	_, base = r.file(repo, false)
	return r, repo, base
}

// proxying is hosting for a repository on a git server elsewhere.
func proxying(t *testing.T, o options) (r *env, repo upstreamDouble, base string) {
	t.Helper()
	r = newEnv(t, o)
	repo = r.proxy()
	_, base = r.file(repo.Repo, false)
	return r, repo, base
}

// enforce puts entries in force.
func (r *env) enforce(entries ...policy.Entry) { r.policy.Enforce(r.t, entries...) }

// allow lets a server be asked, with the password. Its entry derives idempotency keys, has a probe and a
// schema of answers: none of them is for git.
func (r *env) allow(url string) {
	r.t.Helper()
	r.enforce(policy.Entry{
		UpstreamIdempotency: &policy.Idempotency{TTL: time.Hour, Derive: true},
		Contract: policy.Contract{
			Reconcile:      &policy.Reconcile{Method: "GET", URL: url + "/effect", Applied: "true", Within: time.Second},
			ResponseSchema: &policy.ResponseSchema{Schema: []byte(`{"type":"string"}`), Mode: policy.SchemaStrict},
		},
		Name: "upstream", URLPrefix: url + "/", Methods: []string{"GET", "POST"}, Network: policy.NetworkLoopback, Redirects: 1,
		Headers: map[string]string{"Authorization": "Basic ${secret:GIT}"},
	})
}

// accept writes an action down.
func (r *env) accept(kind schemas.Kind, id string, payload any) *ledger.State {
	r.t.Helper()
	now := time.Now()
	return harness.Claim(r.t, r.ledger, schemas.Action{
		ID: id, Tenant: tenant, Kind: kind, AcceptedAt: now, Deadline: now.Add(15 * time.Minute),
		Principal: "t-1", TokenHash: task.New(tenant, id, 0, [32]byte{1}).Hash(),
	}, payload)
}

// again is an action as another worker reads it.
func (r *env) again(st *ledger.State) *ledger.State {
	r.t.Helper()
	return harness.Load(r.t, r.ledger, st.Ref)
}

// host makes a repository on this node of another, and returns it.
func (r *env) host() schemas.Repo {
	r.t.Helper()
	_, err := r.git.Create(r.t.Context(), "app-id", "main")
	require.NoError(r.t, err)
	repo := schemas.Repo{ID: "app-id", Name: "app", Tenant: tenant, Mode: schemas.RepoHosted, DefaultBranch: "main", By: "x"}
	r.put(repo)
	return repo
}

// file files the task of a repository and opens its branch.
func (r *env) file(repo schemas.Repo, force bool) (st *ledger.State, base string) {
	r.t.Helper()
	order := schemas.TaskOrder{Description: "d", Repo: repo.Name, Branch: branch, Pool: "none", ForcePush: force}
	st = r.accept(schemas.KindTask, taskID, order)
	base, err := r.branches.Open(r.t.Context(), st, order, branch)
	require.NoError(r.t, err)
	r.tell(schemas.EventStatus, schemas.TaskEvent{What: schemas.TaskOpened, Base: base})
	r.tell(schemas.EventSignal, schemas.TaskEvent{What: schemas.TaskClaimed})
	return st, base
}

// tell appends an event of the task.
func (r *env) tell(typ schemas.EventType, ev schemas.TaskEvent) {
	r.t.Helper()
	harness.Append(r.t, r.ledger, harness.Load(r.t, r.ledger, taskRef), schemas.Event{Type: typ, Task: &ev})
}

// complete ends the task.
func (r *env) complete() {
	r.t.Helper()
	r.tell(schemas.EventSignal, schemas.TaskEvent{What: schemas.TaskReported, Report: &schemas.TaskReport{Completed: true}})
}

// order is a push to the task's branch.
func order(repo schemas.Repo, from, to string) schemas.PushOrder {
	return schemas.PushOrder{
		Repo: repo.Name, Ref: schemas.RefOf(branch), Old: from, New: to, TaskID: taskID, Branch: branch,
		Capabilities: []string{"report-status", "side-band-64k"},
	}
}

// settled is embedded under a name that does not hide its field Outcome.
type settled = settle.Outcome

// pushed is a push that was performed.
type pushed struct {
	settled
	result schemas.PushResult
	st     *ledger.State
}

// push performs a push of a body.
func (r *env) push(id string, o schemas.PushOrder, body io.Reader) pushed {
	r.t.Helper()
	p, err := r.tryPush(id, o, body)
	require.NoError(r.t, err)
	return p
}

func (r *env) tryPush(id string, o schemas.PushOrder, body io.Reader) (pushed, error) {
	r.t.Helper()
	st := r.accept(schemas.KindPush, id, o)
	harness.Start(r.t, r.ledger, st)
	upload := &githttp.Upload{Body: body}
	defer upload.Wait()
	return r.try(upload.In(r.t.Context()), st)
}

// perform carries a push out that must have an end.
func (r *env) perform(st *ledger.State) pushed {
	r.t.Helper()
	p, err := r.try(r.t.Context(), st)
	require.NoError(r.t, err)
	return p
}

func (r *env) try(ctx context.Context, st *ledger.State) (pushed, error) {
	r.t.Helper()
	v, err := r.pushes.Execute(ctx, st, r.stop.Stop)
	p := pushed{settled: v, st: st}
	p.result, _ = v.Result.(schemas.PushResult)
	return p, err
}

// interrupted performs a push whose client stops after some bytes, and does something then. It returns
// whether the client goes on or not.
func (r *env) interrupted(o schemas.PushOrder, pack []byte, after int, then func(*stuttering)) pushed {
	r.t.Helper()
	body := stutter(pack, after)
	st := r.accept(schemas.KindPush, "push-1", o)
	upload := &githttp.Upload{Body: body}
	go func() {
		<-body.at
		then(body)
	}()
	p, err := r.try(upload.In(r.t.Context()), st)
	require.NoError(r.t, err)
	body.goOn()
	upload.Wait()
	return p
}

// evidence is what was left of a kind, with its payloads.
func (r *env) evidence(kind string) (list []schemas.Evidence) {
	r.t.Helper()
	for _, e := range harness.Evidence(r.t, r.log, "") {
		all := fmt.Sprintf("%+v %s", e, e.Payload)
		require.NotContains(r.t, all, password)
		require.NotContains(r.t, all, basic)
		if e.Kind == kind {
			list = append(list, e)
		}
	}
	return list
}

// audit is the one record of a push.
func (r *env) audit() schemas.PushAudit {
	r.t.Helper()
	list := r.evidence(schemas.EvidencePush)
	require.Len(r.t, list, 1)
	return fixture.Decode[schemas.PushAudit](r.t, list[0].Payload)
}

// task is the task's state by its events.
func (r *env) task() *task.State {
	r.t.Helper()
	st := harness.Load(r.t, r.ledger, taskRef)
	s := task.Begin(st.Action, fixture.Decode[schemas.TaskOrder](r.t, st.Action.Payload))
	for _, ev := range st.Events {
		s.Apply(ev)
	}
	return s
}

// head is where the task's branch is on this node.
func (r *env) head(repo schemas.Repo) string {
	r.t.Helper()
	oid, err := r.git.Head(r.t.Context(), repo.ID, branch)
	require.NoError(r.t, err)
	return oid
}

// commit is a pack with one good commit on another.
func commit(text, parent string) (pack []byte, head string) { return gitkit.GoodCommit(text, parent) }

// put stores a repository, whatever there is of its name.
func (r *env) put(repo schemas.Repo) {
	r.t.Helper()
	doc, err := json.Marshal(struct {
		V int `json:"v"`
		schemas.Repo
	}{1, repo})
	require.NoError(r.t, err)
	r.bucket.Set(func(b *bucket.Bucket) {
		b.Store(schemas.EscapeToken(repo.Tenant)+"."+schemas.EscapeToken(repo.Name), doc)
	})
}

// readerFunc is a reader.
type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// stuttering is a body that stops in the middle until it is let go on.
type stuttering struct {
	io.Reader
	at   chan struct{} // closed when it has stopped
	goOn func()
}

func stutter(data []byte, n int) *stuttering {
	at, on := make(chan struct{}), make(chan struct{})
	wait := readerFunc(func([]byte) (int, error) { close(at); <-on; return 0, io.EOF })
	return &stuttering{io.MultiReader(bytes.NewReader(data[:n]), wait, bytes.NewReader(data[n:])), at, sync.OnceFunc(func() { close(on) })}
}
