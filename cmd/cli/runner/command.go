package runner

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"weir/schemas"
)

// ending is how a command ended.
type ending struct {
	exit int // its status; -1 where a signal ended it
	took time.Duration
	// killed is why the runner ended it: errLate, errOver or the runner's own end; nil: it did not.
	killed error
}

// errLate ends a command at the deadline of its task.
var errLate = errors.New("the deadline has passed")

// missing reports whether the shell's status says that there is no such command, or
// none that may be run. One that took its time had begun: it is of something within it.
func (e ending) missing() bool {
	return e.killed == nil && e.took < time.Second && (e.exit == 126 || e.exit == 127)
}

func (e ending) sentence() string {
	if e.exit < 0 {
		return "the command was ended by a signal, and did not report how the task ended"
	}
	return fmt.Sprintf("the command ended with exit status %d, and did not report how the task ended", e.exit)
}

// run starts the command in a directory of its own and waits for its end. Meanwhile it keeps the lease, and ends
// the command when there is no more reason to run: the deadline, the runner's own end, and an end of the task that
// the command does not follow by itself.
func (r *runner) run(ctx context.Context, t *schemas.LeasedTask, dir string) (ending, *output, error) {
	if err := os.Mkdir(dir, 0o700); err != nil { // one that is there is not this lease's
		return ending{}, nil, err
	}
	if err := os.WriteFile(filepath.Join(dir, promptFile), []byte(t.Task.Description), 0o600); err != nil {
		return ending{}, nil, err
	}
	log, err := os.OpenFile(dir+".log", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return ending{}, nil, err
	}
	defer log.Close()
	out := &output{file: log, left: r.cfg.Output, secrets: secretsOf(t), room: min(r.cfg.Output, schemas.MaxTaskLog)}
	p, err := r.prepare(t, dir) //nolint:contextcheck // the ways to Weir last as long as the command, see close
	if err != nil {
		return ending{}, nil, err
	}
	defer p.close()
	p.cmd.Stdout, p.cmd.Stderr = out, out
	p.cmd.WaitDelay = time.Second // what it has left running may hold its output open
	runtime.LockOSThread()        // the command ends with the thread that has started it, see apart
	defer runtime.UnlockOSThread()
	if err := p.cmd.Start(); err != nil {
		return ending{}, nil, err
	}
	began, done := time.Now(), make(chan struct{})
	life, late := context.WithTimeoutCause(ctx, time.Duration(t.Remaining)*time.Millisecond, errLate)
	defer late()
	life, over := context.WithCancelCause(life)
	var keeping sync.WaitGroup
	keeping.Go(func() { r.keep(life, t, out, over) })
	killed := make(chan error, 1)
	go func() { killed <- r.end(life, p, done) }()
	err = p.cmd.Wait()
	close(done)
	e := ending{killed: <-killed}
	over(nil)
	kill(p.cmd) // whatever is left of its group
	e.exit, e.took = p.cmd.ProcessState.ExitCode(), time.Since(began)
	keeping.Wait()
	if _, own := errors.AsType[*exec.ExitError](err); own || errors.Is(err, exec.ErrWaitDelay) {
		err = nil
	}
	return e, out, err
}

// process is a command that is ready to start.
type process struct {
	cmd *exec.Cmd
	// ask asks all its processes to end.
	ask func()
	// close removes what it needed, after its end.
	close func()
}

// prepare makes the command of a task, in the sandbox if there is one.
func (r *runner) prepare(t *schemas.LeasedTask, dir string) (*process, error) {
	if r.cfg.Sandbox != nil {
		return r.cfg.Sandbox.prepare(r, t, dir)
	}
	cmd := exec.Command("sh", "-c", r.cfg.Command) //nolint:gosec,noctx // what the operator says is what it runs, and end ends it
	cmd.Dir, cmd.Env = dir, r.environ(t, dir, address{r.cfg.Client.BaseURL(), r.cfg.Proxy})
	ownGroup(cmd)
	return &process{cmd, func() { ask(cmd) }, func() {}}, nil
}

// beat is the longest time until the runner sees that a task was canceled, and shows new output.
const beat = 2 * time.Second

// keepWait bounds one request to keep a lease.
const keepWait = 10 * time.Second

// keep keeps the lease until ctx ends, and hands over the output. When the agent has reported how the task ended,
// the command has the grace to end by itself; if the task is over for another reason, it is ended at once. A
// server that does not answer says nothing about the lease: its output waits.
func (r *runner) keep(ctx context.Context, t *schemas.LeasedTask, out *output, over context.CancelCauseFunc) {
	lease := time.Duration(t.Timeout) * time.Millisecond
	every := min(max(lease/3, 50*time.Millisecond), beat)
	tick := time.NewTicker(every)
	defer tick.Stop()
	began := time.Now()
	for shown := began; ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		var piece schemas.OutputRequest
		if due := max(every, time.Since(began)/piecesShare); time.Since(shown) >= due-every/2 {
			shown, piece = time.Now(), out.piece(false)
		}
		// The end of the command does not cancel a report: flush would repeat output that was stored.
		one, cancel := context.WithTimeout(context.WithoutCancel(ctx), min(max(lease/3, every), keepWait))
		err := r.say(one, t, schemas.RouteAgentOutput, piece)
		cancel()
		switch {
		case err == nil:
			out.sent(piece)
		case errors.Is(err, errFull):
			out.full()
		case errors.Is(err, errReported):
			r.wait(ctx, r.cfg.Grace)
			over(errOver)
			return
		case errors.Is(err, errOver):
			over(errOver)
			return
		}
	}
}

// piecesShare spaces the pieces of a long run: the number of pieces grows by the logarithm of its time, and stays
// far below schemas.MaxTaskOutputs.
const piecesShare = 60

// flush hands over the output that is left, for a while.
func (r *runner) flush(ctx context.Context, t *schemas.LeasedTask, out *output) {
	ctx, cancel := context.WithTimeout(ctx, keepWait)
	defer cancel()
	for piece := out.piece(true); piece.Text != "" && ctx.Err() == nil; {
		err := r.say(ctx, t, schemas.RouteAgentOutput, piece)
		if err == nil || errors.Is(err, errFull) || errors.Is(err, errReported) || errors.Is(err, errOver) {
			return
		}
		r.wait(ctx, r.cfg.Pause)
	}
}

// end asks the command's processes to end when ctx does, and ends them if they do not. It returns why, unless the
// command was done before.
func (r *runner) end(ctx context.Context, p *process, done <-chan struct{}) error {
	select {
	case <-done:
		return nil
	case <-ctx.Done():
	}
	p.ask()
	grace := time.NewTimer(r.cfg.Grace)
	defer grace.Stop()
	select {
	case <-done:
	case <-grace.C:
		kill(p.cmd)
	}
	return context.Cause(ctx)
}

// promptFile has the text of the task, in the directory of its command.
const promptFile = "task.md"

// address is where a command finds Weir and its forward proxy.
type address struct {
	server string // the base URL
	proxy  string // host:port; empty: there is no proxy
}

// environ is the environment of the command: of the runner's own, only the variables that
// the configuration names.
func (r *runner) environ(t *schemas.LeasedTask, dir string, at address) []string {
	env := append(append([]string(nil), r.cfg.Environ...),
		"HOME="+dir, "PWD="+dir, "GIT_TERMINAL_PROMPT=0",
		"WEIR_URL="+at.server, "WEIR_TOKEN="+t.Token,
		"MINION_API_BASE_URL="+at.server+schemas.RouteAPI+"/", "MINION_API_TOKEN="+t.Token,
		"OPENAI_BASE_URL="+at.server+"/v1", "OPENAI_API_KEY="+t.Token,
		"ANTHROPIC_BASE_URL="+at.server, "ANTHROPIC_AUTH_TOKEN="+t.Token, // its clients add /v1
		"WEIR_TASK_ID="+t.ID, "WEIR_TASK_MODEL="+t.Model, "WEIR_TASK_DEADLINE="+t.Deadline.UTC().Format(time.RFC3339),
		"WEIR_TASK_PROMPT_FILE="+dir+"/"+promptFile,
		"WEIR_TASK_REPO_URL="+at.repo(t), "WEIR_TASK_BRANCH="+t.Task.GitBranch, "WEIR_TASK_BASE="+t.Base,
	)
	if at.proxy != "" {
		u := url.URL{Scheme: "http", User: url.UserPassword(proxyUser, t.Token), Host: at.proxy}
		for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"} {
			env = append(env, name+"="+u.String())
		}
		direct := "127.0.0.1,localhost,::1"
		if own, err := url.Parse(at.server); err == nil {
			direct = own.Hostname() + "," + direct
		}
		env = append(env, "NO_PROXY="+direct, "no_proxy="+direct)
	}
	return append(env, gitEnviron(t, at)...)
}

// proxyUser is the user name beside a token where there must be one. Any would do.
const proxyUser = "weir"

// repo is where git reaches the task's repository. The server may know itself by another URL.
func (p address) repo(t *schemas.LeasedTask) string {
	if i := strings.LastIndex(t.Task.GitRepoURL, schemas.RouteGit+"/"); i >= 0 {
		return p.server + t.Task.GitRepoURL[i:]
	}
	return t.Task.GitRepoURL
}

// credentialHelper is a program for the shell that gives git the token from the environment. An agent may send the
// header itself instead: git then does not need the helper.
const credentialHelper = `!f() { test "$1" = get && echo username=` + proxyUser + ` && echo "password=$WEIR_TOKEN"; }; f`

// gitEnviron configures git by variables, so that the token is in no file, URL or argument. The empty helper has git
// ignore the machine's own helpers, which could store it.
func gitEnviron(t *schemas.LeasedTask, at address) []string {
	helper := "credential." + at.server + ".helper"
	config := [][2]string{
		{helper, ""},
		{helper, credentialHelper},
		{"user.name", t.Task.GitUserName},
		{"user.email", t.Task.GitUserEmail},
	}
	if own := at.repo(t); own != t.Task.GitRepoURL { // for agents that read it from the server
		config = append(config, [2]string{"url." + own + ".insteadOf", t.Task.GitRepoURL})
	}
	env := []string{"GIT_CONFIG_COUNT=" + strconv.Itoa(len(config))}
	for i, c := range config {
		n := strconv.Itoa(i)
		env = append(env, "GIT_CONFIG_KEY_"+n+"="+c[0], "GIT_CONFIG_VALUE_"+n+"="+c[1])
	}
	return env
}

// secretsOf are the forms in which the environment has a task's token.
func secretsOf(t *schemas.LeasedTask) []string {
	if t.Token == "" {
		return nil
	}
	return []string{base64.StdEncoding.EncodeToString([]byte(proxyUser + ":" + t.Token)), t.Token}
}
