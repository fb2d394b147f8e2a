//go:build e2e

package integration_test

import (
	"context"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tmaxmax/go-sse"

	"weir/internal/weirtest/program"
	"weir/schemas"
)

// clientGit is the real git, as an agent with one token uses it.
type clientGit struct {
	dir   string // the home, and where it works
	token string
	trace bool
	env   []string // beside git's own
}

func newClientGit(tb testing.TB, token string) *clientGit {
	tb.Helper()
	return &clientGit{dir: tb.TempDir(), token: token}
}

// run runs git and returns all that it prints.
func (g *clientGit) run(ctx context.Context, dir string, args ...string) (string, error) {
	if g.token != "" {
		args = append([]string{"-c", "http.extraHeader=Authorization: Bearer " + g.token}, args...)
	}
	args = append([]string{
		"-c", "user.name=" + schemas.GitUserName, "-c", "user.email=" + schemas.GitUserEmail,
	}, args...)
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir = filepath.Join(g.dir, dir)
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + g.dir, "GIT_CONFIG_NOSYSTEM=1", "GIT_TERMINAL_PROMPT=0", "LC_ALL=C"}, g.env...)
	if g.trace {
		cmd.Env = append(cmd.Env, "GIT_TRACE_PACKET=1", "GIT_TRACE_CURL=1", "GIT_TRACE_CURL_NO_DATA=1")
	}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// do runs git and expects it to succeed.
func (g *clientGit) do(tb testing.TB, dir string, args ...string) string {
	tb.Helper()
	out, err := g.run(tb.Context(), dir, args...)
	require.NoError(tb, err, "git %s\n%s", strings.Join(args, " "), out)
	return strings.TrimSpace(out)
}

// commit writes a file and commits it in "repo", and returns the commit.
func (g *clientGit) commit(tb testing.TB, name string, data []byte) string {
	tb.Helper()
	require.NoError(tb, os.WriteFile(filepath.Join(g.dir, "repo", name), data, 0o600))
	g.do(tb, "repo", "add", "-A")
	g.do(tb, "repo", "commit", "-qm", "Add "+name)
	return g.do(tb, "repo", "rev-parse", "HEAD")
}

// gitURL is where a Weir serves a repository.
func (w *weir) gitURL(repo string) string { return w.URL + schemas.RouteGit + "/" + repo + ".git" }

// makeTask files a task for the repository "shop", with further members.
func (w *weir) makeTask(tb testing.TB, more map[string]any) schemas.NewTask {
	tb.Helper()
	doc := map[string]any{"repo": "shop", "description": "Paint the shed"}
	maps.Copy(doc, more)
	return w.MakeTask(tb, doc)
}

// happened waits until something has happened to a task.
func (w *weir) happened(ctx context.Context, id, what string) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute) // as any wait of a test
	defer cancel()
	resp, err := open(ctx, http.DefaultClient, http.MethodGet, w.URL+schemas.RouteTasks+"/"+id+"/events", "")
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	for ev, err := range sse.Read(resp.Body, nil) {
		if err != nil {
			return err
		}
		if strings.Contains(ev.Data, `"what":"`+what+`"`) {
			return nil
		}
	}
	return fmt.Errorf("the task ended, and it was not %s", what)
}

// begin has the holder of a task's token fetch the task, and clone its branch.
func (w *weir) begin(tb testing.TB, t schemas.NewTask) *clientGit {
	tb.Helper()
	told := program.Get[schemas.AgentTask](tb, w.As(t.Token), schemas.RouteAgentTask)
	require.Equal(tb, schemas.TaskStatusRunning, told.Status)
	g := newClientGit(tb, t.Token)
	g.do(tb, ".", "clone", "-q", "-b", told.GitBranch, told.GitRepoURL, "repo")
	return g
}

// serveShop is a Weir with the repository "shop", a task there, with whatever else its body has,
// and the git of the task's agent.
func serveShop(tb testing.TB, config string, more map[string]any) (*weir, schemas.NewTask, *clientGit) {
	tb.Helper()
	w := serve(tb, tb.TempDir(), "--config", configFile(tb, config))
	w.MakeRepo(tb, map[string]any{"name": "shop"})
	task := w.makeTask(tb, more)
	return w, task, w.begin(tb, task)
}

// noise is data that no packing makes smaller.
func noise(seed byte, size int) []byte {
	data := make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte{seed}).Read(data)
	return data
}

// noisy begins a task, pushes a small commit, and has one of four megabytes of noise, which is
// not pushed.
func (w *weir) noisy(tb testing.TB, task schemas.NewTask, seed byte) (g *clientGit, old, head string) {
	tb.Helper()
	g = w.begin(tb, task)
	old = g.commit(tb, "small", []byte("text\n"))
	g.do(tb, "repo", "push", "-q", "origin", "HEAD")
	return g, old, g.commit(tb, "noise", noise(seed, 4<<20))
}

// pushes are the records of pushes.
func (w *weir) pushes(tb testing.TB) []schemas.PushAudit {
	tb.Helper()
	return program.Evidence[schemas.PushAudit](tb, w.Client, schemas.EvidencePush, "")
}

// results counts pushes by their results.
func results(pushes []schemas.PushAudit) map[string]int {
	n := map[string]int{}
	for _, a := range pushes {
		n[a.Result]++
	}
	return n
}

// memory is a figure of a process's memory, as /proc names it, in bytes.
func memory(tb testing.TB, pid int, figure string) int64 {
	tb.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	require.NoError(tb, err)
	_, rest, ok := strings.Cut(string(data), figure+":")
	require.True(tb, ok, "the system does not say")
	var kib int64
	_, err = fmt.Sscan(rest, &kib)
	require.NoError(tb, err)
	return kib << 10
}

// pushing is a push on its way: half of it was sent.
type pushing struct {
	// finish sends the rest and returns the answer; leave breaks off.
	finish func() string
	leave  func()
}

// pushHalf begins a push to the branch of a task, whose rest follows at 2 KiB/s until it ends.
func (w *weir) pushHalf(t *testing.T, task schemas.NewTask, body []byte) *pushing {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	r, pipe := io.Pipe()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.gitURL("shop")+"/"+schemas.GitReceivePack, r)
	require.NoError(t, err)
	req.ContentLength = int64(len(body))
	req.Header.Set("Content-Type", "application/x-git-receive-pack-request")
	req.Header.Set("Authorization", "Bearer "+task.Token)
	answered, stop := make(chan string, 1), make(chan struct{})
	go func() {
		resp, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			answered <- err.Error()
			return
		}
		defer resp.Body.Close()
		text, _ := io.ReadAll(resp.Body)
		answered <- fmt.Sprint(resp.StatusCode, " ", string(text))
	}()
	rest := body[len(body)/2:]
	_, _ = pipe.Write(body[:len(body)/2]) // fails where it is refused
	go func() {
		drop := time.NewTicker(time.Second)
		defer drop.Stop()
		for wait := true; wait; {
			select {
			case <-drop.C:
				n, _ := pipe.Write(rest[:min(2<<10, len(rest))])
				rest = rest[n:]
			case <-stop:
				wait = false
			case <-ctx.Done():
				wait = false
			}
		}
		_, _ = pipe.Write(rest)
		_ = pipe.Close()
	}()
	return &pushing{
		finish: func() string { close(stop); return <-answered },
		leave:  func() { cancel(); <-answered },
	}
}

// quarantined is what pushes that have not ended, and killed ones, have below a directory
// of repositories.
func quarantined(t *testing.T, repos string) []string {
	t.Helper()
	var all []string
	for _, pattern := range []string{"*.git/objects/*incoming-*", "*.git/objects/pack/tmp_*"} {
		found, err := filepath.Glob(filepath.Join(repos, filepath.FromSlash(pattern)))
		require.NoError(t, err)
		all = append(all, found...)
	}
	return all
}
