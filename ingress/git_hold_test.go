package ingress_test

import (
	"context"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/ingress/git"
	"weir/internal/fault"
	gitprogram "weir/internal/git"
	"weir/internal/task"
	"weir/schemas"
)

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

// nowhere has no repository.
type nowhere struct{}

func (nowhere) Here(string) error { return gitprogram.ErrNoRepo }

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
		"the coding":              {token: "task", body: good, headers: []string{"Content-Encoding", "br"}, status: 415},
		"a token that only reads": {token: "readonly", body: good, status: 403},
		"a dead token":            {token: "dead", body: good, status: 401},
		"it is too large":         {token: "task", body: good + strings.Repeat("x", 3<<20), status: 413},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, h := heldWorld(t, func(c *git.Config) { c.MaxPack = 1 << 20 })
			var during int32
			w.pusher.during = func() { during = h.now.Load() }
			if tc.spoil != nil {
				tc.spoil(w)
			}
			rec := w.push(receive, tc.token, tc.body, append(tc.headers, "User-Agent", "git/2.39.5")...)
			require.Equal(t, tc.status, rec.Code)
			if tc.status == http.StatusInternalServerError {
				require.Equal(t, "something went wrong on our side (INTERNAL)\n", rec.Body.String())
			}
			require.Equal(t, tc.held, h.ever.Load())
			require.Zero(t, h.now.Load(), "it is released")
			if tc.held > 0 {
				require.Equal(t, []any{"acme", "t-1", 2}, []any{h.last.Load().Tenant, h.last.Load().TaskID, h.last.Load().Lease})
			}
			if len(w.responder.calls) > 0 && w.pusher.took {
				require.EqualValues(t, 1, during, "it is held while the push is taken")
			}
		})
	}
}

// A node that does not have a repository says so before it has read anything of a push.
func TestAPushToAnotherNodesRepository(t *testing.T) {
	t.Parallel()
	w, h := heldWorld(t, func(c *git.Config) { c.Hosted = nowhere{} })
	read := &readers{}
	r := pushRequest(receive, "task", read)
	r.Header.Set("User-Agent", "git/2.39.5")
	rec := w.send(r)
	require.Equal(t, http.StatusServiceUnavailable, rec.Code)
	require.Equal(t, "this repository lives on another node; push to that one (UNAVAILABLE)\n", rec.Body.String())
	require.NotEmpty(t, rec.Header().Get("Retry-After"))
	require.Zero(t, read.n, "nothing of it was read")
	require.Zero(t, w.records(t))
	require.Zero(t, h.ever.Load())

	w = gitSetup(t, func(c *git.Config) { c.Hosted, c.Repos = nowhere{}, proxied{} })
	require.Equal(t, http.StatusOK, w.push(receive, "task", "0000").Code, "one that is an upstream's is on no node")
	w = gitSetup(t, func(c *git.Config) { c.Hosted = broken{} })
	require.Equal(t, http.StatusInternalServerError, w.push(receive, "task", "0000").Code)
}

// proxied has repositories elsewhere.
type proxied struct{}

func (proxied) Get(_ context.Context, _, name string) (schemas.Repo, error) {
	return schemas.Repo{ID: "id-" + name, Name: name, Mode: schemas.RepoProxy}, nil
}

// broken cannot tell what it has.
type broken struct{}

func (broken) Here(string) error { return io.ErrClosedPipe }

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
	go func() { s.end <- w.send(pushRequest(receive, token, body)).Code }()
	<-h.begun
	return s
}

func (s *standing) leave() (status int) {
	_ = s.client.CloseWithError(io.ErrUnexpectedEOF)
	return <-s.end
}

// One task cannot fill the node with pushes that stand still.
func TestPushesOfOneTask(t *testing.T) {
	t.Parallel()
	w, h := heldWorld(t)
	var clients []*standing
	for range 4 {
		clients = append(clients, w.stand(h, "task"))
	}
	good := pushOf("PACK…", clientCaps, command(oidA, oidB, "refs/heads/work"))
	rec := w.push(receive, "task", good, "User-Agent", "git/2.39.5")
	require.Equal(t, http.StatusTooManyRequests, rec.Code)
	require.Equal(t, "this task has 4 pushes on their way already; try again when one of them has ended (RATE_LIMITED)\n", rec.Body.String())
	require.NotEmpty(t, rec.Header().Get("Retry-After"))
	require.EqualValues(t, 4, h.ever.Load(), "it keeps no lease")
	require.Zero(t, w.records(t))
	for _, client := range clients {
		require.Equal(t, http.StatusBadRequest, client.leave())
	}
	require.Equal(t, http.StatusOK, w.push(receive, "task", good).Code)
	require.Zero(t, h.now.Load())
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
	rec := w.push(receive, "acme.7", "0000", "User-Agent", "git/2.39.5")
	require.Equal(t, http.StatusTooManyRequests, rec.Code)
	require.Equal(t, "this tenant has 6 pushes on their way to this node, which takes 8 of all tenants (workers.slots) and of one tenant always 2 "+
		"(limits.tenant_share); push again when one of them has ended (RATE_LIMITED)\n", rec.Body.String())
	require.NotEmpty(t, rec.Header().Get("Retry-After"))
	clients = append(clients, w.stand(h, "globex.1"), w.stand(h, "globex.2"))
	require.Equal(t, http.StatusTooManyRequests, w.push(receive, "globex.3", "0000").Code)
	for _, client := range clients {
		require.Equal(t, http.StatusBadRequest, client.leave())
	}
	require.Equal(t, http.StatusOK, w.push(receive, "acme.7", "0000").Code)

	w, h = heldWorld(t, func(c *git.Config) { c.Grant, c.Repos, c.Slots, c.TenantShare = tasks, proxied{}, 2, 25 })
	clients = []*standing{w.stand(h, "acme.1"), w.stand(h, "acme.2"), w.stand(h, "acme.3")}
	for _, client := range clients { // too few to be divided: they wait for a worker
		require.Equal(t, http.StatusBadRequest, client.leave())
	}
}
