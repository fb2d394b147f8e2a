package ingress_test

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"weir/ingress/git"
	"weir/internal/fault"
	gitprogram "weir/internal/git"
	"weir/internal/githttp"
	"weir/internal/gitwire"
	"weir/internal/task"
	"weir/internal/weirtest/gitkit"
	"weir/schemas"
)

// repoTable has the repositories "own" and "other" of the tenant acme.
type repoTable struct{}

func (repoTable) Get(_ context.Context, tenant, name string) (schemas.Repo, error) {
	if tenant != "acme" || name != "own" && name != "other" {
		return schemas.Repo{}, fault.ErrNotFound
	}
	return schemas.Repo{ID: "id-" + name, Name: name, Mode: schemas.RepoHosted}, nil
}

func gitGrants(_ context.Context, token string) (task.Grant, error) {
	switch token {
	case "task":
		return task.Grant{
			Tenant: "acme", TaskID: "t-1", Lease: 2, Repo: "own", Branch: "work", Force: true, Principal: "tok-1", Holder: "tok-2", Entries: []string{"upstream"},
		}, nil
	case "readonly":
		return task.Grant{Tenant: "acme"}, nil
	case "idle":
		return task.Grant{}, fault.New(schemas.TaskNotRunning, "this token holds no task now")
	default:
		return task.Grant{}, fault.New(schemas.Unauthorized, "the token is not in force")
	}
}

// gitWorld is an ingress that takes pushes, and executes them.
type gitWorld struct {
	*world
	pusher *pusher
}

// pusher stands for the executor of a push.
type pusher struct {
	reserved map[schemas.Ref]bool
	took     bool
	pack     []byte
	err      error
	// during is called before it takes the pack.
	during func()
}

func (p *pusher) reserve(ref schemas.Ref) (execute func(context.Context), release func()) {
	p.reserved[ref] = true
	release = func() { delete(p.reserved, ref) }
	return func(ctx context.Context) {
		defer release()
		if p.during != nil {
			p.during()
		}
		upload := githttp.TakeUpload(ctx)
		if p.took = upload != nil; !p.took {
			return
		}
		p.err = upload.Receive(context.WithoutCancel(ctx), func(body io.Reader) (err error) {
			p.pack, err = io.ReadAll(body)
			return err
		})
		upload.Progress([]byte("taken"))
	}, release
}

func gitSetup(t *testing.T, change ...func(*git.Config)) *gitWorld {
	t.Helper()
	w := &gitWorld{pusher: &pusher{reserved: map[schemas.Ref]bool{}}}
	cfg := git.Config{
		Authorizer: githttp.Authorizer{Grant: gitGrants, Repos: repoTable{}}, Reserve: w.pusher.reserve,
		Here: func(string) error { return nil }, Hold: func(task.Grant) func() { return func() {} },
		MaxPack: 1 << 30, Timeout: 10 * time.Minute,
	}
	for _, f := range change {
		f(&cfg)
	}
	w.world = setup(t, func(c *config) { c.Git = &cfg })
	return w
}

const receive = "/git/own.git/git-receive-pack"

var (
	oidA = strings.Repeat("a", 40)
	oidB = strings.Repeat("b", 40)
)

func command(from, to, ref string) gitkit.Update { return gitkit.Update{Old: from, New: to, Ref: ref} }

func pushOf(pack string, caps []string, list ...gitkit.Update) string {
	return string(gitkit.PushBodyWith(list, caps, []byte(pack)))
}

var clientCaps = []string{"report-status-v2", "report-status", "side-band-64k", "quiet", "object-format=sha1", "agent=git/2.39.5", "push-cert=x"}

func (w *gitWorld) push(token, body string, headers ...string) *httptest.ResponseRecorder {
	r := pushRequest(token, strings.NewReader(body))
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	return w.send(r)
}

func pushRequest(token string, body io.Reader) *http.Request {
	r := httptest.NewRequest(http.MethodPost, receive, body)
	r.Header.Set("Content-Type", "application/x-git-receive-pack-request")
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	return r
}

func TestAPushIsStoredAndExecuted(t *testing.T) {
	t.Parallel()
	w := gitSetup(t)
	body := pushOf("PACK…", clientCaps, command(oidA, oidB, "refs/heads/work"))
	rec := w.push("task", body, "Prefer", "respond-async", "Idempotency-Key", `"k"`)
	require.Equal(t, http.StatusOK, rec.Code)
	require.Equal(t, string(gitwire.AppendProgress(nil, []byte("taken")))+"end", rec.Body.String())
	require.Equal(t, "PACK…", string(w.pusher.pack))
	require.NoError(t, w.pusher.err)

	c := w.responder.last(t)
	require.Negative(t, c.wait, "a client of git takes no receipt")
	require.True(t, c.held)
	require.Equal(t, schemas.KindPush, c.ref.Kind)
	require.Equal(t, c.ref.ID, rec.Header().Get("Weir-Action-Id"))
	require.Empty(t, w.pusher.reserved)
	require.Equal(t, 1, w.metrics.accepted[schemas.KindPush])

	a := w.action(t, "acme", c.ref.ID)
	require.Equal(t, "tok-1", a.Principal)
	require.Equal(t, []string{"upstream"}, a.Entries)
	require.Equal(t, schemas.IDGenerated, a.IDSource)
	var order schemas.PushOrder
	require.NoError(t, json.Unmarshal(a.Payload, &order))
	require.Equal(t, schemas.PushOrder{
		Repo: "own", Ref: "refs/heads/work", Old: oidA, New: oidB, TaskID: "t-1", Lease: 2, Branch: "work", Force: true, Holder: "tok-2",
		Capabilities: []string{"quiet", "report-status", "side-band-64k"},
	}, order)

	w.push("task", body, "Idempotency-Key", `"k"`)
	require.NotEqual(t, c.ref.ID, w.responder.last(t).ref.ID, "each push is one")
}

// A push that goes on may take longer than any other body.
func TestASlowPush(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := gitSetup(t)
		head, piece := pushOf("", clientCaps, command(oidA, oidB, "refs/heads/work")), strings.Repeat("p", 32<<10)
		status, _ := overPipe(t, w.engine, func(client net.Conn) {
			_, _ = io.WriteString(client, "POST "+receive+" HTTP/1.1\r\nHost: weir\r\nAuthorization: Bearer task\r\n"+
				"Content-Type: application/x-git-receive-pack-request\r\nContent-Length: "+strconv.Itoa(len(head)+4*len(piece))+"\r\n\r\n"+head)
			for range 4 {
				_, _ = io.WriteString(client, piece)
				time.Sleep(25 * time.Second)
			}
		})
		require.Equal(t, http.StatusOK, status)
		require.Len(t, w.pusher.pack, 4*len(piece))
	})
}

// holds counts who keeps a lease, and for whom.
type holds struct {
	now, ever atomic.Int32
	last      atomic.Pointer[task.Grant]
	begun     chan struct{}
}

func (h *holds) hold(g task.Grant) func() {
	h.now.Add(1)
	h.ever.Add(1)
	h.last.Store(&g)
	h.begun <- struct{}{}
	return func() { h.now.Add(-1) }
}

func heldWorld(t *testing.T, change ...func(*git.Config)) (*gitWorld, *holds) {
	t.Helper()
	h := &holds{begun: make(chan struct{}, 64)}
	return gitSetup(t, append(change, func(c *git.Config) { c.Hold = h.hold })...), h
}

func nowhere(string) error { return gitprogram.ErrNoRepo }

// A push keeps the lease of its task from when its body is read until it is answered,
// whatever comes of it.
func TestAPushKeepsItsLease(t *testing.T) {
	t.Parallel()
	good := pushOf("PACK…", clientCaps, command(oidA, oidB, "refs/heads/work"))
	for name, tc := range map[string]struct {
		token, body string
		headers     []string
		spoil       func(w *gitWorld)
		status      int
		held        int32
	}{
		"it ends well":            {token: "task", body: good, status: 200, held: 1},
		"it is denied":            {token: "task", body: pushOf("PACK…", clientCaps, command(oidA, oidB, "refs/heads/main")), status: 200, held: 1},
		"a probe":                 {token: "task", body: "0000", status: 200, held: 1},
		"no commands":             {token: "task", body: "0003", status: 400, held: 1},
		"the log is full":         {token: "task", body: good, spoil: func(w *gitWorld) { w.plant(fault.ErrFull, nil) }, status: 503, held: 1},
		"it may be on the log":    {token: "task", body: good, spoil: func(w *gitWorld) { w.plant(nil, fault.ErrUnavailable) }, status: 503, held: 1},
		"it panics":               {token: "task", body: good, spoil: func(w *gitWorld) { w.pusher.during = func() { panic("AGWCANARY-PANIC") } }, status: 500, held: 1},
		"the media type":          {token: "task", body: good, headers: []string{"Content-Type", "text/plain"}, status: 415},
		"a token that only reads": {token: "readonly", body: good, status: 403},
		"it is too large":         {token: "task", body: good + strings.Repeat("x", 3<<20), status: 413},
	} {
		w, h := heldWorld(t, func(c *git.Config) { c.MaxPack = 1 << 20 })
		var during int32
		w.pusher.during = func() { during = h.now.Load() }
		if tc.spoil != nil {
			tc.spoil(w)
		}
		rec := w.push(tc.token, tc.body, append(tc.headers, "User-Agent", "git/2.39.5")...)
		require.Equal(t, tc.status, rec.Code, name)
		if tc.status == http.StatusInternalServerError {
			require.Equal(t, "something went wrong on our side (INTERNAL)\n", rec.Body.String(), name)
		}
		require.Equal(t, tc.held, h.ever.Load(), name)
		require.Zero(t, h.now.Load(), "it is released")
		if tc.held > 0 {
			require.Equal(t, []any{"acme", "t-1", 2}, []any{h.last.Load().Tenant, h.last.Load().TaskID, h.last.Load().Lease}, name)
		}
		if len(w.responder.calls) > 0 && w.pusher.took {
			require.EqualValues(t, 1, during, "it is held while the push is taken")
		}
	}
}

// A node that does not have a repository says so before it has read anything of a push.
func TestAPushToAnotherNodesRepository(t *testing.T) {
	t.Parallel()
	w, h := heldWorld(t, func(c *git.Config) { c.Here = nowhere })
	read := &readers{}
	r := pushRequest("task", read)
	r.Header.Set("User-Agent", "git/2.39.5")
	rec := w.send(r)
	require.Equal(t, http.StatusServiceUnavailable, rec.Code)
	require.Equal(t, "this repository lives on another node; push to that one (UNAVAILABLE)\n", rec.Body.String())
	require.NotEmpty(t, rec.Header().Get("Retry-After"))
	require.Zero(t, read.n, "nothing of it was read")
	require.Zero(t, w.records(t))
	require.Zero(t, h.ever.Load())

	w = gitSetup(t, func(c *git.Config) { c.Here, c.Repos = nowhere, proxied{} })
	require.Equal(t, http.StatusOK, w.push("task", "0000").Code, "one that is an upstream's is on no node")
	w = gitSetup(t, func(c *git.Config) { c.Here = func(string) error { return io.ErrClosedPipe } })
	require.Equal(t, http.StatusInternalServerError, w.push("task", "0000").Code)
}

// proxied has repositories elsewhere.
type proxied struct{}

func (proxied) Get(_ context.Context, _, name string) (schemas.Repo, error) {
	return schemas.Repo{ID: "id-" + name, Name: name, Mode: schemas.RepoProxy}, nil
}

type readers struct{ n int }

func (r *readers) Read([]byte) (int, error) { r.n++; return 0, io.EOF }

// standing is a push whose client sends nothing.
type standing struct {
	client *io.PipeWriter
	end    chan int // its status
}

func (w *gitWorld) stand(h *holds, token string) *standing {
	body, client := io.Pipe()
	s := &standing{client, make(chan int, 1)}
	go func() { s.end <- w.send(pushRequest(token, body)).Code }()
	<-h.begun
	return s
}

func (s *standing) leave() (status int) {
	_ = s.client.CloseWithError(io.ErrUnexpectedEOF)
	return <-s.end
}

// One tenant cannot take every worker with pushes that stand still, however many tasks it has.
func TestPushesOfOneTenant(t *testing.T) {
	t.Parallel()
	tasks := func(_ context.Context, token string) (task.Grant, error) { // tenant and task
		tenant, id, _ := strings.Cut(token, ".")
		return task.Grant{Tenant: tenant, TaskID: id, Repo: "own", Branch: "work"}, nil
	}
	w, h := heldWorld(t, func(c *git.Config) { c.Grant, c.Repos, c.Slots, c.TenantShare = tasks, proxied{}, 8, 25 })
	var clients []*standing
	for i := range 6 {
		clients = append(clients, w.stand(h, "acme."+strconv.Itoa(i)))
	}
	rec := w.push("acme.7", "0000", "User-Agent", "git/2.39.5")
	require.Equal(t, http.StatusTooManyRequests, rec.Code)
	require.Equal(t, "this tenant has 6 pushes on their way to this node, which takes 8 of all tenants (workers.slots) and of one tenant always 2 "+
		"(limits.tenant_share); push again when one of them has ended (RATE_LIMITED)\n", rec.Body.String())
	require.NotEmpty(t, rec.Header().Get("Retry-After"))
	clients = append(clients, w.stand(h, "globex.1"), w.stand(h, "globex.2"))
	require.Equal(t, http.StatusTooManyRequests, w.push("globex.3", "0000").Code)
	for _, client := range clients {
		require.Equal(t, http.StatusBadRequest, client.leave())
	}
	require.Equal(t, http.StatusOK, w.push("acme.7", "0000").Code)

	w, h = heldWorld(t, func(c *git.Config) { c.Grant, c.Repos, c.Slots, c.TenantShare = tasks, proxied{}, 2, 25 })
	clients = []*standing{w.stand(h, "acme.1"), w.stand(h, "acme.2"), w.stand(h, "acme.3")}
	for _, client := range clients { // too few to be divided: they wait for a worker
		require.Equal(t, http.StatusBadRequest, client.leave())
	}
}
