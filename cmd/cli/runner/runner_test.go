//go:build unix

package runner_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"weir/cmd/cli/runner"
	"weir/internal/weirtest/poll"
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
		os.Exit(code)
	}
	goleak.VerifyTestMain(m)
}

// server is a Weir with some tasks, and keeps a ledger of what it was asked.
type server struct {
	mu     sync.Mutex
	tasks  []*schemas.LeasedTask
	over   map[string]error // of tokens that stand for no task any more
	ledger []string
	kept   chan string
	fails  int  // how many requests fail from now on
	mute   bool // it does not answer who keeps a lease
	pieces []schemas.OutputRequest
	lost   error // the answer to a piece of output
}

func newServer(n int) *server {
	s := &server{over: map[string]error{}, kept: make(chan string, 1000)}
	for i := range n {
		s.tasks = append(s.tasks, &schemas.LeasedTask{
			ID: fmt.Sprintf("t-%d", i), Lease: 1, Token: fmt.Sprintf("token-%d", i), Model: "m-1",
			Task:    schemas.AgentTask{Description: "Fix it.\n", GitRepoURL: "https://public/git/shop.git", GitBranch: "b-1", GitUserName: "n", GitUserEmail: "e@x"},
			Timeout: 300, Base: "c0", Deadline: time.Now().Add(time.Minute), Remaining: time.Minute.Milliseconds(),
		})
	}
	return s
}

var errAway = errors.New("no answer")

func (s *server) ask(line string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fails > 0 {
		s.fails--
		return errAway
	}
	s.ledger = append(s.ledger, line)
	return nil
}

func (s *server) said() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.ledger...)
}

func (s *server) end(token string, how error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over[token] = how
}

func (s *server) standing(token string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.over[token]
}

func (s *server) Lease(context.Context) (*schemas.LeasedTask, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fails > 0 {
		s.fails--
		return nil, errAway
	}
	if len(s.tasks) == 0 {
		return nil, nil //nolint:nilnil // as the interface says
	}
	t := s.tasks[0]
	s.tasks = s.tasks[1:]
	return t, nil
}

func (s *server) Keep(ctx context.Context, token string, piece schemas.OutputRequest) error {
	s.kept <- token
	if s.mute {
		<-ctx.Done()
		return ctx.Err()
	}
	if err := s.standing(token); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if piece.Text != "" && s.lost == nil {
		s.pieces = append(s.pieces, piece)
	}
	return s.lost
}

func (s *server) Complete(_ context.Context, token, text string) error {
	if err := s.standing(token); err != nil {
		return err
	}
	return s.ask("complete " + token + ": " + text)
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

func (s *server) Fail(_ context.Context, token, text string) error {
	if err := s.standing(token); err != nil {
		return err
	}
	return s.ask("fail " + token + ": " + text)
}

func (s *server) Release(_ context.Context, token string) error {
	if err := s.standing(token); err != nil {
		return err
	}
	return s.ask("release " + token)
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

func setup(t *testing.T, command string) (runner.Config, *notices) {
	t.Helper()
	n := &notices{}
	return runner.Config{
		Command: command, Server: "http://weir", Dir: filepath.Join(t.TempDir(), "work"),
		Environ: []string{"PATH=" + os.Getenv("PATH")}, Once: true, Grace: time.Second, Pause: time.Millisecond, Tell: n.tell,
	}, n
}

// TestCommandKnowsItsTask: the environment of the command has its task and nothing of the
// runner's own.
func TestCommandKnowsItsTask(t *testing.T) {
	t.Setenv("WEIR_TOKEN", "AGWCANARY-runner-token")
	s := newServer(1)
	cfg, n := setup(t, `env; pwd; echo "prompt: $(cat "$WEIR_TASK_PROMPT_FILE")"
echo "credential: $(echo url=$WEIR_TASK_REPO_URL | git credential fill | tr '\n' ' ')"
echo "other: $(echo url=http://weir.example/git/shop.git | git credential fill)"
echo "user: $(git config user.name) <$(git config user.email)>"
echo "url: $(git ls-remote --get-url https://public/git/shop.git)"
exit 7`)
	cfg.Proxy = "proxy:8093"
	require.NoError(t, runner.Run(t.Context(), s, cfg))
	end := n.last()
	out, err := os.ReadFile(end.Output)
	require.NoError(t, err)
	for _, want := range []string{
		"WEIR_URL=http://weir\n", "WEIR_TOKEN=token-0", "OPENAI_BASE_URL=http://weir/v1\n", "OPENAI_API_KEY=token-0",
		"ANTHROPIC_BASE_URL=http://weir\n", "ANTHROPIC_AUTH_TOKEN=token-0",
		"WEIR_TASK_REPO_URL=http://weir/git/shop.git", "WEIR_TASK_BRANCH=b-1", "WEIR_TASK_BASE=c0",
		"HTTP_PROXY=http://weir:token-0@proxy:8093\n", "https_proxy=http://weir:token-0@proxy:8093\n", "NO_PROXY=weir,127.0.0.1,localhost,::1\n",
		"prompt: Fix it.\n", "credential: protocol=http host=weir username=weir password=token-0 \n", "other: \n", "user: n <e@x>", "url: http://weir/git/shop.git\n",
		"MINION_API_BASE_URL=http://weir/api/", "MINION_API_TOKEN=token-0", "WEIR_TASK_ID=t-0", "WEIR_TASK_MODEL=m-1",
		"HOME=" + filepath.Join(cfg.Dir, "t-0-1"), "\n" + filepath.Join(cfg.Dir, "t-0-1") + "\n",
	} {
		assert.Contains(t, string(out), want)
	}
	assert.NotContains(t, string(out), "AGWCANARY")
	require.NotNil(t, end.Exit)
	assert.Equal(t, 7, *end.Exit)
	assert.False(t, end.Reported)
	assert.Equal(t, []string{"fail token-0: the command ended with exit status 7, and had not said how the task ended"}, s.said())
}

// TestReportedTaskLeavesNothing: where the agent has said it all, there is nothing
// to add and nothing to keep.
func TestReportedTaskLeavesNothing(t *testing.T) {
	t.Parallel()
	s := newServer(3)
	cfg, n := setup(t, "echo done")
	cfg.Slots = 2
	for i := range 3 {
		s.end(fmt.Sprintf("token-%d", i), runner.ErrReported)
	}
	require.NoError(t, runner.Run(t.Context(), s, cfg))
	assert.Empty(t, s.said())
	left, err := os.ReadDir(cfg.Dir)
	require.NoError(t, err)
	assert.Empty(t, left)
	assert.True(t, n.last().Reported)
	assert.Len(t, n.all, 6)
}

func TestOutputIsCut(t *testing.T) {
	t.Parallel()
	s := newServer(1)
	cfg, n := setup(t, "yes 0123456789abcdef | head -c 100000; echo; echo the end >&2")
	cfg.Output = 1000
	require.NoError(t, runner.Run(t.Context(), s, cfg))
	out, err := os.ReadFile(n.last().Output)
	require.NoError(t, err)
	assert.Less(t, len(out), 1100)
	assert.Contains(t, string(out), "the output was cut here")
	assert.NotEmpty(t, n.last().Tail)
}

// TestDeadlineEndsTheGroup: the command and whatever it has started, deaf or not.
func TestDeadlineEndsTheGroup(t *testing.T) {
	t.Parallel()
	s := newServer(1)
	s.tasks[0].Remaining = 200
	s.mute = true // a wait for it must not last until the deadline
	cfg, n := setup(t, `trap "" TERM; mkfifo hold; (trap "" TERM; read x < hold) & read x < hold`)
	cfg.Grace = 50 * time.Millisecond
	require.NoError(t, runner.Run(t.Context(), s, cfg))
	require.Equal(t, -1, *n.last().Exit)
	assert.Equal(t, runner.Late, n.last().What)
	assert.Empty(t, s.said(), "the server ends the task by itself")
	requireNobodyIn(t, filepath.Join(cfg.Dir, "t-0-1"))
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

// TestLostTaskIsEnded at once: a command whose task is another's, or canceled, is not waited for. Nothing is
// reported for it.
func TestLostTaskIsEnded(t *testing.T) {
	t.Parallel()
	s := newServer(1)
	cfg, n := setup(t, "mkfifo hold; (read x < hold) & read x < hold")
	cfg.Grace = time.Hour // for one that does not obey
	n.on = func(x runner.Notice) {
		if x.What == runner.Started {
			s.end("token-0", runner.ErrOver)
		}
	}
	require.NoError(t, runner.Run(t.Context(), s, cfg))
	assert.Equal(t, runner.Lost, n.last().What)
	assert.Empty(t, s.said())
	requireNobodyIn(t, filepath.Join(cfg.Dir, "t-0-1"))
}

// TestDeafGrandchildIsKilled after the grace, when its task was canceled.
func TestDeafGrandchildIsKilled(t *testing.T) {
	t.Parallel()
	s := newServer(1)
	cfg, n := setup(t, `mkfifo hold; sh -c 'trap "" TERM; (trap "" TERM; read x < hold) & read x < hold' & read x < hold`)
	cfg.Grace = 50 * time.Millisecond
	n.on = func(x runner.Notice) {
		if x.What == runner.Started {
			s.end("token-0", runner.ErrOver)
		}
	}
	require.NoError(t, runner.Run(t.Context(), s, cfg))
	requireNobodyIn(t, filepath.Join(cfg.Dir, "t-0-1"))
}

// TestReportedTaskMayEndByItself: its agent tidies up after its report.
func TestReportedTaskMayEndByItself(t *testing.T) {
	t.Parallel()
	s := newServer(1)
	cfg, n := setup(t, "mkfifo hold; read x < hold; exit 5")
	cfg.Grace = time.Hour
	n.on = func(x runner.Notice) {
		if x.What == runner.Started {
			s.end("token-0", runner.ErrReported)
			go func() {
				<-s.kept // the runner knows by its answer, and waits
				release(filepath.Join(cfg.Dir, "t-0-1", "hold"))
			}()
		}
	}
	require.NoError(t, runner.Run(t.Context(), s, cfg))
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
	for name, c := range map[string]struct {
		command string
		want    string
		exit    int
	}{
		"output":  {"yes 0123456789 | head -n 1000; echo \"it is $WEIR_TOKEN\"; echo done.", "complete token-0: ", 0},
		"silence": {":", "complete token-0: the command ended with exit status 0", 0},
		"failure": {"echo no; exit 3", "fail token-0: the command ended with exit status 3, and had not said how the task ended", 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newServer(1)
			cfg, n := setup(t, c.command)
			cfg.CompleteOnSuccess = true
			require.NoError(t, runner.Run(t.Context(), s, cfg))
			require.Len(t, s.said(), 1)
			require.True(t, strings.HasPrefix(s.said()[0], c.want), s.said()[0])
			require.Equal(t, []any{c.exit, c.exit == 0}, []any{*n.last().Exit, n.last().Completed})
			if name == "output" {
				require.True(t, strings.HasSuffix(s.said()[0], "0123456789\nit is [redacted]\ndone."), s.said()[0])
				require.Less(t, len(s.said()[0]), 5000)
				require.NoDirExists(t, filepath.Join(cfg.Dir, "t-0-1"), "it did well")
			}
		})
	}
}

// TestOutputIsShown while the command runs, without its token.
func TestOutputIsShown(t *testing.T) {
	t.Parallel()
	s := newServer(1)
	cfg, n := setup(t, `mkfifo hold; printf 'my t'; echo "oken is $WEIR_TOKEN"; printf "weir:$WEIR_TOKEN" | base64; read x < hold; printf 'gr\303'; printf '\274n \377\n'`)
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
	require.NoError(t, runner.Run(t.Context(), s, cfg))
	require.Equal(t, "my token is [redacted]\n[redacted]\ngrün \uFFFD\n", s.output())
}

// TestOutputWaitsForTheServer, and the command does not: the oldest is left out.
func TestOutputWaitsForTheServer(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fails error
		want  func(output string) bool
	}{
		"away": {errAway, func(out string) bool { // the end, when it is back
			return strings.HasPrefix(out, "[") && strings.HasSuffix(out, "the end\n") && len(out) < schemas.MaxTaskOutput+100
		}},
		"full": {runner.ErrFull, func(out string) bool { return out == "" }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newServer(1)
			s.lost = c.fails
			cfg, n := setup(t, "mkfifo hold; yes 0123456789abcdef | head -c 300000; echo the end; read x < hold")
			cfg.Keep = true
			n.on = func(x runner.Notice) {
				if x.What == runner.Started {
					go func() {
						<-s.kept
						<-s.kept
						s.mu.Lock()
						s.lost = nil
						s.mu.Unlock()
						release(filepath.Join(cfg.Dir, "t-0-1", "hold"))
					}()
				}
			}
			require.NoError(t, runner.Run(t.Context(), s, cfg))
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
	s := newServer(2)
	cfg, n := setup(t, "mkfifo hold; read x < hold")
	cfg.Slots, cfg.Once = 2, false
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- runner.Run(ctx, s, cfg) }()
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
	s := newServer(1)
	s.fails = 1
	cfg, n := setup(t, "exit 3")
	require.ErrorIs(t, runner.Run(t.Context(), s, cfg), errAway)
	n.on = func(x runner.Notice) {
		if x.What == runner.Started {
			s.mu.Lock()
			s.fails = 3
			s.mu.Unlock()
		}
	}
	require.NoError(t, runner.Run(t.Context(), s, cfg))
	assert.Len(t, s.said(), 1, "the report came through in the end")
}

// TestCommandThatCannotBegin is the runner's trouble and not the task's, which goes back;
// and the next one is not tried at once.
func TestCommandThatCannotBegin(t *testing.T) {
	t.Parallel()
	s := newServer(3)
	cfg, n := setup(t, "true")
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
	require.NoError(t, runner.Run(ctx, s, cfg))
	assert.Equal(t, []string{"release token-0"}, s.said())
	assert.Contains(t, n.last().Error, "could not begin")
}

// TestHangingServerHoldsNothingUp: a request that is not answered keeps neither the end
// of a command from being seen nor its deadline.
func TestHangingServerHoldsNothingUp(t *testing.T) {
	t.Parallel()
	s := newServer(1)
	s.mute = true
	cfg, n := setup(t, "mkfifo hold; (read x < hold; exit 5)")
	n.on = func(x runner.Notice) {
		if x.What == runner.Started {
			go func() {
				<-s.kept // it is being asked, and does not answer
				for {
					f, err := os.OpenFile(filepath.Join(cfg.Dir, "t-0-1", "hold"), os.O_WRONLY, 0)
					if err == nil {
						_ = f.Close()
						return
					}
				}
			}()
		}
	}
	require.NoError(t, runner.Run(t.Context(), s, cfg))
	require.NotNil(t, n.last().Exit)
	assert.Len(t, s.said(), 1)
}
