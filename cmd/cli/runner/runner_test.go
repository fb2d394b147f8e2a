//go:build unix

package runner_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"weir/client"
	"weir/cmd/cli/runner"
	"weir/internal/weirtest/poll"
	"weir/internal/weirtest/table"
	"weir/schemas"
)

// TestMain has this program be the relay of a sandbox, as `weir` is.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == runner.RelayCommand {
		code, err := runner.Relay(context.Background(), os.Args[2], os.Stdin)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 99
		}
		syscall.Exit(code) // with -cover, os.Exit would write a warning into the output of the command
	}
	goleak.VerifyTestMain(m)
}

// ending is how a task is over.
type ending struct {
	status int
	code   schemas.Code
	reason schemas.TaskStatus
}

// The ends that a test has a task come to, or a piece of output.
var (
	reported = ending{http.StatusConflict, schemas.TaskNotRunning, schemas.TaskStatusCompleted}
	canceled = ending{http.StatusConflict, schemas.TaskNotRunning, schemas.TaskStatusCanceled}
	revoked  = ending{http.StatusUnauthorized, schemas.Unauthorized, ""}
	full     = ending{http.StatusConflict, schemas.Conflict, ""}
	away     = ending{status: http.StatusBadGateway} // nothing of Weir's
)

// server is a Weir with some tasks, and keeps a ledger of what it was asked.
type server struct {
	*httptest.Server
	t      *testing.T
	mu     sync.Mutex
	tasks  []*schemas.LeasedTask
	over   map[string]ending // of tokens that stand for no task any more
	ledger []string
	kept   chan string
	fails  int  // how many requests fail from now on
	mute   bool // it does not answer who keeps a lease
	pieces []schemas.OutputRequest
	lost   ending // the answer to a piece of output
}

func newServer(t *testing.T, n int) *server {
	t.Helper()
	s := &server{t: t, over: map[string]ending{}, kept: make(chan string, 1000)}
	for i := range n {
		s.tasks = append(s.tasks, &schemas.LeasedTask{
			ID: fmt.Sprintf("t-%d", i), Lease: 1, Token: fmt.Sprintf("token-%d", i), Model: "m-1",
			Task:    schemas.AgentTask{Description: "Fix it.\n", GitRepoURL: "https://public/git/shop.git", GitBranch: "b-1", GitUserName: "n", GitUserEmail: "e@x"},
			Timeout: 300, Base: "c0", Deadline: time.Now().Add(time.Minute), Remaining: time.Minute.Milliseconds(),
		})
	}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

// ServeHTTP answers the routes of a runner, and any other with what came.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	token, route := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "), strings.TrimPrefix(r.URL.Path, "/base")
	w.Header().Set("X-Request-Id", "r-1")
	keeps := route == schemas.RouteAgentOutput
	if keeps {
		s.kept <- token
	}
	if keeps && s.mute {
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	how, ended := s.over[token]
	switch {
	case !keeps && !ended && s.fails > 0:
		s.fails--
		how, ended = away, true
	case keeps && !ended:
		how, ended = s.lost, s.lost.status != 0
	}
	if ended {
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(how.status)
		if how.code != "" {
			assert.NoError(s.t, json.NewEncoder(w).Encode(schemas.Problem{Title: "no", Code: how.code, Reason: string(how.reason)}))
		}
		return
	}
	var body struct {
		schemas.OutputRequest
		Description string `json:"description"`
	}
	_ = json.NewDecoder(r.Body).Decode(&body) // there need not be one
	switch route {
	case schemas.RouteTaskLease:
		if len(s.tasks) == 0 {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		assert.NoError(s.t, json.NewEncoder(w).Encode(s.tasks[0]))
		s.tasks = s.tasks[1:]
	case schemas.RouteAgentOutput:
		if body.Text != "" {
			s.pieces = append(s.pieces, body.OutputRequest)
		}
	case schemas.RouteAgentComplete:
		s.ledger = append(s.ledger, "complete "+token+": "+body.Description)
	case schemas.RouteAgentFail:
		s.ledger = append(s.ledger, "fail "+token+": "+body.Description)
	case schemas.RouteTaskRelease:
		s.ledger = append(s.ledger, "release "+token)
	default:
		fmt.Fprintf(w, "weir %s %s %s", r.Host, r.RequestURI, r.Header.Get("Authorization"))
	}
}

func (s *server) said() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.ledger)
}

func (s *server) end(token string, how ending) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over[token] = how
}

// output is what the pieces make, with a mark where one is missing.
func (s *server) output() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var b strings.Builder
	end := int64(0)
	for _, p := range s.pieces {
		if p.At != end {
			fmt.Fprintf(&b, "[%d]", p.At-end)
		}
		b.WriteString(p.Text)
		end = p.At + int64(len(p.Text))
	}
	return b.String()
}

// notices collects what a runner says.
type notices struct {
	mu  sync.Mutex
	all []runner.Notice
	on  func(runner.Notice)
}

func (n *notices) tell(x runner.Notice) {
	n.mu.Lock()
	n.all = append(n.all, x)
	n.mu.Unlock()
	if n.on != nil {
		n.on(x)
	}
}

func (n *notices) last() runner.Notice {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.all[len(n.all)-1]
}

func setup(t *testing.T, s *server, command string) (runner.Config, *notices) {
	t.Helper()
	n := &notices{}
	c, err := client.New(s.URL, "")
	require.NoError(t, err)
	return runner.Config{
		Client: c, Command: command, Dir: filepath.Join(t.TempDir(), "work"),
		Environ: []string{"PATH=" + os.Getenv("PATH")}, Once: true, Slots: 1, Output: 1 << 20, Grace: time.Second, Pause: time.Millisecond, Notify: n.tell,
	}, n
}

// TestCommandKnowsItsTask: the environment of the command has its task and nothing of the
// runner's own.
func TestCommandKnowsItsTask(t *testing.T) {
	t.Setenv("WEIR_TOKEN", "AGWCANARY-runner-token")
	s := newServer(t, 1)
	cfg, n := setup(t, s, `env; pwd; echo "prompt: $(cat "$WEIR_TASK_PROMPT_FILE")"
echo "credential: $(echo url=$WEIR_TASK_REPO_URL | git credential fill | tr '\n' ' ')"
echo "other: $(echo url=http://weir.example/git/shop.git | git credential fill)"
echo "user: $(git config user.name) <$(git config user.email)>"
echo "url: $(git ls-remote --get-url https://public/git/shop.git)"
exit 7`)
	cfg.Proxy = "proxy:8093"
	require.NoError(t, runner.Run(t.Context(), cfg))
	end := n.last()
	out, err := os.ReadFile(end.Output)
	require.NoError(t, err)
	own, _ := url.Parse(s.URL)
	for _, want := range []string{
		"WEIR_URL=" + s.URL + "\n", "WEIR_TOKEN=token-0", "OPENAI_BASE_URL=" + s.URL + "/v1\n", "OPENAI_API_KEY=token-0",
		"ANTHROPIC_BASE_URL=" + s.URL + "\n", "ANTHROPIC_AUTH_TOKEN=token-0",
		"WEIR_TASK_REPO_URL=" + s.URL + "/git/shop.git", "WEIR_TASK_BRANCH=b-1", "WEIR_TASK_BASE=c0",
		"HTTP_PROXY=http://weir:token-0@proxy:8093\n", "https_proxy=http://weir:token-0@proxy:8093\n", "NO_PROXY=127.0.0.1,127.0.0.1,localhost,::1\n",
		"prompt: Fix it.\n", "credential: protocol=http host=" + own.Host + " username=weir password=token-0 \n", "other: \n", "user: n <e@x>", "url: " + s.URL + "/git/shop.git\n",
		"MINION_API_BASE_URL=" + s.URL + "/api/", "MINION_API_TOKEN=token-0", "WEIR_TASK_ID=t-0", "WEIR_TASK_MODEL=m-1",
		"HOME=" + filepath.Join(cfg.Dir, "t-0-1"), "\n" + filepath.Join(cfg.Dir, "t-0-1") + "\n",
	} {
		assert.Contains(t, string(out), want)
	}
	assert.NotContains(t, string(out), "AGWCANARY")
	require.NotNil(t, end.Exit)
	assert.Equal(t, 7, *end.Exit)
	assert.False(t, end.Reported)
	assert.Equal(t, []string{"fail token-0: the command ended with exit status 7, and did not report how the task ended"}, s.said())
}

// TestReportedTaskLeavesNothing: where the agent has said it all, there is nothing
// to add and nothing to keep.
func TestReportedTaskLeavesNothing(t *testing.T) {
	t.Parallel()
	s := newServer(t, 3)
	cfg, n := setup(t, s, "echo done")
	cfg.Slots = 2
	for i := range 3 {
		s.end(fmt.Sprintf("token-%d", i), reported)
	}
	require.NoError(t, runner.Run(t.Context(), cfg))
	assert.Empty(t, s.said())
	left, err := os.ReadDir(cfg.Dir)
	require.NoError(t, err)
	assert.Empty(t, left)
	assert.True(t, n.last().Reported)
	assert.Len(t, n.all, 6)
}

func TestOutputIsCut(t *testing.T) {
	t.Parallel()
	s := newServer(t, 1)
	cfg, n := setup(t, s, "yes 0123456789abcdef | head -c 100000; echo; echo the end >&2")
	cfg.Output = 1000
	require.NoError(t, runner.Run(t.Context(), cfg))
	out, err := os.ReadFile(n.last().Output)
	require.NoError(t, err)
	assert.Less(t, len(out), 1100)
	assert.Contains(t, string(out), "the output was cut here")
	assert.Equal(t, "the end", n.last().Tail[len(n.last().Tail)-1])
}

// TestTheGroupIsEnded: the command and whatever it has started, deaf or not, at the deadline, and at once where the
// task is another's or was canceled. Nothing is reported for it.
func TestTheGroupIsEnded(t *testing.T) {
	t.Parallel()
	type testCase struct {
		command, what string
		over          ending // from the start on; without one, the deadline passes
		grace         time.Duration
	}
	table.Run(t, map[string]testCase{
		"late and deaf":     {`trap "" TERM; mkfifo hold; (trap "" TERM; read x < hold) & read x < hold`, runner.Late, ending{}, 50 * time.Millisecond},
		"lost":              {"mkfifo hold; (read x < hold) & read x < hold", runner.Lost, revoked, time.Hour},
		"canceled and deaf": {`mkfifo hold; sh -c 'trap "" TERM; (trap "" TERM; read x < hold) & read x < hold' & read x < hold`, runner.Lost, canceled, 50 * time.Millisecond},
	}, func(t *testing.T, c testCase) {
		s := newServer(t, 1)
		cfg, n := setup(t, s, c.command)
		cfg.Grace = c.grace
		if c.over.status == 0 {
			s.tasks[0].Remaining = 200
			s.mute = true // a wait for it must not last until the deadline
		}
		n.on = func(x runner.Notice) {
			if x.What == runner.Started && c.over.status != 0 {
				s.end("token-0", c.over)
			}
		}
		require.NoError(t, runner.Run(t.Context(), cfg))
		assert.Equal(t, c.what, n.last().What)
		assert.Equal(t, -1, *n.last().Exit)
		assert.Empty(t, s.said())
		requireNobodyIn(t, filepath.Join(cfg.Dir, "t-0-1"))
	})
}

// requireNobodyIn reads from the system that no process works in a directory.
func requireNobodyIn(t *testing.T, dir string) {
	t.Helper()
	var there []string
	nobody := func() bool {
		links, err := filepath.Glob("/proc/[0-9]*/cwd")
		require.NoError(t, err)
		there = slices.DeleteFunc(links, func(link string) bool {
			at, err := os.Readlink(link)
			return err != nil || !strings.HasPrefix(at, dir)
		})
		return len(there) == 0
	}
	// What is killed leaves its pipes before it leaves its directory.
	poll.Until(t, nobody, "still works in %s: %v", dir, &there)
}

// TestReportedTaskMayEndByItself: its agent tidies up after its report.
func TestReportedTaskMayEndByItself(t *testing.T) {
	t.Parallel()
	s := newServer(t, 1)
	cfg, n := setup(t, s, "mkfifo hold; read x < hold; exit 5")
	cfg.Grace = time.Hour
	n.on = func(x runner.Notice) {
		if x.What == runner.Started {
			s.end("token-0", reported)
			go func() {
				<-s.kept // the runner knows by its answer, and waits
				release(filepath.Join(cfg.Dir, "t-0-1", "hold"))
			}()
		}
	}
	require.NoError(t, runner.Run(t.Context(), cfg))
	require.Equal(t, 5, *n.last().Exit)
	require.True(t, n.last().Reported)
}

// release opens the pipe that a command reads of.
func release(pipe string) {
	for {
		if f, err := os.OpenFile(pipe, os.O_WRONLY, 0); err == nil {
			_ = f.Close()
			return
		}
	}
}

// TestSuccessCompletes with the flag alone, and with the end of the output.
func TestSuccessCompletes(t *testing.T) {
	t.Parallel()
	for command, want := range map[string]string{
		"yes 0123456789 | head -n 1000; echo \"it is $WEIR_TOKEN\"; echo done.": "0123456789\nit is [redacted]\ndone.",
		":": "complete token-0: the command ended with exit status 0",
	} {
		s := newServer(t, 1)
		cfg, n := setup(t, s, command)
		cfg.CompleteOnSuccess = true
		require.NoError(t, runner.Run(t.Context(), cfg))
		require.Len(t, s.said(), 1)
		require.True(t, strings.HasPrefix(s.said()[0], "complete token-0: "), s.said()[0])
		require.Less(t, len(s.said()[0]), 5000)
		require.True(t, strings.HasSuffix(s.said()[0], want), s.said()[0])
		require.True(t, n.last().Completed)
		require.NoDirExists(t, filepath.Join(cfg.Dir, "t-0-1"), "it did well")
	}
}

// TestOutputIsShown while the command runs, without its token.
func TestOutputIsShown(t *testing.T) {
	t.Parallel()
	s := newServer(t, 1)
	cfg, n := setup(t, s, `mkfifo hold; printf 'my t'; echo "oken is $WEIR_TOKEN"; printf "weir:$WEIR_TOKEN" | base64; read x < hold; printf 'gr\303'; printf '\274n \377\n'`)
	n.on = func(x runner.Notice) {
		if x.What == runner.Started {
			go func() {
				for range s.kept {
					if strings.Contains(s.output(), "is [redacted]\n[redacted]\n") {
						release(filepath.Join(cfg.Dir, "t-0-1", "hold"))
						return
					}
				}
			}()
		}
	}
	require.NoError(t, runner.Run(t.Context(), cfg))
	require.Equal(t, "my token is [redacted]\n[redacted]\ngrün \uFFFD\n", s.output())
}

// TestOutputWaitsForTheServer, and the command does not: the oldest is left out.
func TestOutputWaitsForTheServer(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fails ending
		want  func(output string) bool
	}{
		"away": {away, func(out string) bool { // the end, when it is back
			return strings.HasPrefix(out, "[") && strings.HasSuffix(out, "the end\n") && len(out) < schemas.MaxTaskOutput+100
		}},
		"full": {full, func(out string) bool { return out == "" }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newServer(t, 1)
			s.lost = c.fails
			cfg, n := setup(t, s, "mkfifo hold; yes 0123456789abcdef | head -c 300000; echo the end; read x < hold")
			cfg.Keep = true
			done := make(chan error, 1)
			go func() { done <- runner.Run(t.Context(), cfg) }()
			poll.Until(t, func() bool { // all is written while the server fails
				file, err := os.Stat(filepath.Join(cfg.Dir, "t-0-1.log"))
				return err == nil && file.Size() == 300_008
			})
			<-s.kept
			<-s.kept
			s.mu.Lock()
			s.lost = ending{}
			s.mu.Unlock()
			release(filepath.Join(cfg.Dir, "t-0-1", "hold"))
			require.NoError(t, <-done)
			require.True(t, c.want(s.output()), "%d bytes: %.200s", len(s.output()), s.output())
			file, err := os.Stat(n.last().Output)
			require.NoError(t, err)
			require.EqualValues(t, 300_008, file.Size(), "the file has all")
		})
	}
}

// TestInterruptGivesTheTaskBack: and the lease is kept until then.
func TestInterruptGivesTheTaskBack(t *testing.T) {
	t.Parallel()
	s := newServer(t, 2)
	cfg, n := setup(t, s, "mkfifo hold; read x < hold")
	cfg.Slots, cfg.Once = 2, false
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- runner.Run(ctx, cfg) }()
	seen := map[string]bool{}
	for len(seen) < 2 {
		seen[<-s.kept] = true
	}
	cancel()
	require.NoError(t, <-done)
	assert.ElementsMatch(t, []string{"release token-0", "release token-1"}, s.said())
	assert.Equal(t, runner.Released, n.last().What)
}

// TestServerThatIsAwayIsWaitedFor, but not at the very beginning.
func TestServerThatIsAwayIsWaitedFor(t *testing.T) {
	t.Parallel()
	s := newServer(t, 1)
	s.fails = 1
	cfg, n := setup(t, s, "exit 3")
	require.ErrorContains(t, runner.Run(t.Context(), cfg), "502")
	n.on = func(x runner.Notice) {
		if x.What == runner.Started {
			s.mu.Lock()
			s.fails = 3
			s.mu.Unlock()
		}
	}
	require.NoError(t, runner.Run(t.Context(), cfg))
	assert.Len(t, s.said(), 1, "the report came through in the end")
}

// TestCommandThatCannotBegin is the runner's trouble and not the task's, which goes back;
// and the next one is not tried at once.
func TestCommandThatCannotBegin(t *testing.T) {
	t.Parallel()
	s := newServer(t, 3)
	cfg, n := setup(t, s, "true")
	cfg.Once, cfg.Pause = false, time.Hour
	require.NoError(t, os.MkdirAll(cfg.Dir, 0o700))
	for i := range 3 {
		require.NoError(t, os.WriteFile(filepath.Join(cfg.Dir, fmt.Sprintf("t-%d-1", i)), nil, 0o600))
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	n.on = func(x runner.Notice) {
		if x.What == runner.Released {
			cancel()
		}
	}
	require.NoError(t, runner.Run(ctx, cfg))
	assert.Equal(t, []string{"release token-0"}, s.said())
	assert.Contains(t, n.last().Error, "could not begin")
}

// TestHangingServerHoldsNothingUp: a request that is not answered keeps neither the end
// of a command from being seen nor its deadline.
func TestHangingServerHoldsNothingUp(t *testing.T) {
	t.Parallel()
	s := newServer(t, 1)
	s.mute = true
	cfg, n := setup(t, s, "mkfifo hold; (read x < hold; exit 5)")
	n.on = func(x runner.Notice) {
		if x.What == runner.Started {
			go func() {
				<-s.kept // it is being asked, and does not answer
				release(filepath.Join(cfg.Dir, "t-0-1", "hold"))
			}()
		}
	}
	require.NoError(t, runner.Run(t.Context(), cfg))
	require.NotNil(t, n.last().Exit)
	assert.Len(t, s.said(), 1)
}

// TestALeaseIsWholeOrAnError: a runner must not work on a task of which only a part was read.
func TestALeaseIsWholeOrAnError(t *testing.T) {
	t.Parallel()
	for answer, fails := range map[string]bool{
		"": false, `{"id":"t","token":7}`: true, `[]`: true, `{"id":"t","deadline":"soon"}`: true, `{"id":"t"`: true, `{"id":"../t"}`: true,
	} {
		s := newServer(t, 0)
		s.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Request-Id", "r-1")
			if answer == "" {
				w.WriteHeader(http.StatusNoContent)
			}
			_, _ = io.WriteString(w, answer)
		})
		cfg, n := setup(t, s, "exit 1")
		require.Equal(t, fails, runner.Run(t.Context(), cfg) != nil, answer)
		require.Empty(t, n.all)
	}
}
