package cli

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"weir/cmd/cli/runner"
)

type runnerFlags struct {
	runner.Config
	pass   []string
	output int64

	proxyURL string
	sandbox  bool
	read     []string
}

func newRunner(env *Env) *cobra.Command {
	var f runnerFlags
	cmd := &cobra.Command{
		Use:   "runner --exec COMMAND",
		Short: "Lease tasks and start a command for each",
		Long: `Lease tasks and start a command for each, until interrupted. Any number of runners on any
machines may lease from the same pools. The token needs the scope tasks:work.

sh runs the command, in a new directory and a process group of its own. The command gets
these variables, and with them common agents use Weir with the task's token alone:

  WEIR_URL, WEIR_TOKEN                      Weir, and the task's token
  OPENAI_BASE_URL, OPENAI_API_KEY           its models, for clients of OpenAI
  ANTHROPIC_BASE_URL, ANTHROPIC_AUTH_TOKEN  its models, for clients of Anthropic
  WEIR_TASK_PROMPT_FILE                     a file with the task's description
  WEIR_TASK_REPO_URL, WEIR_TASK_BRANCH      what to clone; git has the credentials and a user
  WEIR_TASK_BASE                            the commit at which the branch begins
  WEIR_TASK_ID, WEIR_TASK_MODEL, WEIR_TASK_DEADLINE
  HTTP_PROXY, HTTPS_PROXY, NO_PROXY         with --proxy: the forward proxy of Weir
  MINION_API_BASE_URL, MINION_API_TOKEN     the agents' HTTP interface
  PATH, LANG, TZ, TMPDIR and those of --pass, from the runner; never the runner's token

A command that begins with a path is relative to the directory in which the runner starts.
Processes of one user can read each other's secrets. With --sandbox, bubblewrap starts each
command with a file system of its task alone, the programs of the system, and no network
but Weir and --proxy. --read shows it more paths, such as that of an agent outside /usr.

The runner keeps the lease while the command runs, and stores its output with the task: see
weir tasks logs. It ends the command's process group at the task's deadline, and within
seconds if the task is canceled or lost; with --sandbox, every process of the command. If
the command exits without a report of the result, the task fails (TechnicalIssues), with
the exit status in the description. With --complete-on-success, status 0 completes it,
with the end of the output as the description. If the command cannot start, the runner
releases the task. An interrupt stops the commands and releases their tasks.

The output of a command is in a file beside its directory. The runner removes both after a
success.`,
		Example: `  export WEIR_TOKEN=$(weir tokens create --name runner-1 --scope tasks:work --pool default)
  weir runner --exec ./agent.sh
  weir runner --exec deploy/runner/codex.sh --complete-on-success --sandbox
  weir runner --exec 'docker run --rm -e WEIR_URL -e WEIR_TOKEN my/agent' --slots 4`,
		Args: Exactly(0, "no arguments, but --exec"),
	}
	flags := cmd.Flags()
	flags.StringVar(&f.Command, "exec", "", "the command, for sh")
	flags.IntVar(&f.Slots, "slots", 1, "the most tasks to run at the same time")
	flags.StringVar(&f.Pool, "pool", "", "the only pool to lease from (default every pool that the token has)")
	flags.StringVar(&f.Dir, "dir", "weir-runner", "the directory in which each task gets a directory")
	flags.BoolVar(&f.Keep, "keep", false, "keep the directories and outputs of successful tasks too")
	flags.BoolVar(&f.Once, "once", false, "end when there is no task to lease")
	flags.Int64Var(&f.output, "output", 1024, "the most KiB to keep of a command's output")
	flags.DurationVar(&f.Grace, "grace", 10*time.Second, "the time to wait for a command to stop before it is killed")
	flags.BoolVar(&f.CompleteOnSuccess, "complete-on-success", false, "complete the task if the command exits with status 0 without a report")
	flags.StringVar(&f.proxyURL, "proxy", "", "the URL of Weir's forward proxy (see proxy.listen), for the command")
	flags.BoolVar(&f.sandbox, "sandbox", false, "start the commands in a sandbox of bubblewrap (Linux)")
	flags.StringArrayVar(&f.read, "read", nil, "a `PATH` that the commands may read in the sandbox; may be repeated")
	flags.StringArrayVar(&f.pass, "pass", nil, "a variable of the environment to pass to the command; may be repeated")
	return (&clientFlags{words: true}).command(env, cmd, func(ctx context.Context, c *api, _ []string) error { return f.run(ctx, env, c) })
}

// newRunnerRelay is what a runner starts in a sandbox.
func newRunnerRelay(env *Env) *cobra.Command {
	return &cobra.Command{
		Use: runner.RelayCommand + " COMMAND", Hidden: true, DisableFlagParsing: true,
		Args: Exactly(1, "the command of a task, from `weir runner --sandbox`"),
		RunE: func(cmd *cobra.Command, args []string) error {
			code, err := runner.Relay(cmd.Context(), args[0], env.In)
			return cmp.Or(err, ended(code))
		},
	}
}

func (f *runnerFlags) run(ctx context.Context, env *Env, c *api) (err error) {
	switch {
	case strings.TrimSpace(f.Command) == "":
		return usagef("--exec names the command to start for each task, such as --exec ./agent.sh; see `weir runner --help`")
	case f.Slots < 1 || f.Slots > 1000:
		return usagef("--slots is 1 to 1000")
	case f.output < 1 || f.output > 1<<20:
		return usagef("--output is 1 to 1048576 KiB")
	case f.Grace <= 0:
		return usagef("--grace is a time such as 10s")
	case len(f.read) > 0 && !f.sandbox:
		return usagef("--read is for --sandbox; without it, the commands can read what the runner can")
	}
	if f.Proxy, err = proxyAddress(f.proxyURL); err != nil {
		return err
	}
	if f.Dir, err = filepath.Abs(f.Dir); err != nil {
		return err
	}
	command, script, err := fromHere(f.Command)
	if err != nil {
		return err
	}
	f.Command = command
	f.Client, f.Output = c.Client, f.output<<10
	if f.Environ, err = f.environ(env); err != nil {
		return err
	}
	if f.sandbox {
		if f.Sandbox, err = f.newSandbox(ctx, script); err != nil {
			return err
		}
	}
	if err := runner.Hide(); err != nil {
		return err
	}
	f.Notify = (&runnerLog{api: c}).notify
	if !c.asJSON {
		fmt.Fprintf(env.Err, "leasing from %s, %d at a time; interrupt to stop\n", c.BaseURL(), f.Slots)
	}
	return runner.Run(ctx, f.Config)
}

// newSandbox makes the sandbox, in which the commands may read the script that they begin with.
func (f *runnerFlags) newSandbox(ctx context.Context, script string) (*runner.Sandbox, error) {
	var read []string
	for _, path := range append(f.read, script) {
		if path == "" {
			continue
		}
		abs, err := filepath.Abs(path)
		if err == nil {
			_, err = os.Stat(abs)
		}
		if err != nil {
			return nil, usagef("--read: %w; name a file or directory of this machine", err)
		}
		read = append(read, abs)
	}
	return runner.NewSandbox(ctx, read)
}

// proxyAddress is the host:port of a proxy's URL.
func proxyAddress(text string) (string, error) {
	if text == "" {
		return "", nil
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" || u.Hostname() == "" || u.Port() == "" || u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" {
		return "", usagef("--proxy is the URL of Weir's forward proxy, such as http://127.0.0.1:8093; the runner adds the task's token")
	}
	return u.Host, nil
}

// fromHere has a command that begins with a path find it from where the runner was
// started: it is run elsewhere. It returns that path too, if there is one.
func fromHere(command string) (_, path string, err error) {
	command = strings.TrimLeft(command, " \t\n")
	first, rest := command, ""
	if i := strings.IndexAny(command, " \t\n;&|<>"); i >= 0 {
		first, rest = command[:i], command[i:]
	}
	if !strings.Contains(first, "/") || strings.ContainsAny(first, "$`'\"\\*?[~=(){}") {
		return command, "", nil // a name for PATH, or something for the shell to say
	}
	if path, err = filepath.Abs(first); err != nil {
		return "", "", err
	}
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return "", "", usagef("--exec: %w; name a program of this machine, or one that PATH has", err)
	case info.IsDir() || info.Mode()&0o111 == 0:
		return "", "", usagef("--exec: %s is no program that may be run; chmod +x, or name a shell before it", first)
	}
	return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'" + rest, path, nil
}

// environ is what commands get of the runner's environment.
func (f *runnerFlags) environ(env *Env) ([]string, error) {
	var all []string
	for _, name := range append([]string{"PATH", "LANG", "TZ", "TMPDIR"}, f.pass...) {
		if name == "WEIR_TOKEN" || strings.ContainsAny(name, "= ") || name == "" {
			return nil, usagef("--pass %q: it names a variable, and never the runner's own token", name)
		}
		if v := env.Lookup(name, ""); v != "" {
			all = append(all, name+"="+v)
		}
	}
	return all, nil
}

// runnerLog tells a person or a program what a runner does.
type runnerLog struct {
	*api
	mu sync.Mutex
}

func (l *runnerLog) notify(n runner.Notice) {
	l.mu.Lock()
	defer l.mu.Unlock()
	lines := []string{joined("  ", time.Now().Format(time.TimeOnly), n.TaskID, said(n))}
	for _, line := range n.Tail {
		lines = append(lines, "  | "+line)
	}
	_ = l.print(n, nil, "%s", strings.Join(lines, "\n")) // a runner works on without a reader
}

// said is a notice as a sentence.
func said(n runner.Notice) string {
	text := n.What
	switch n.What {
	case runner.Ended:
		text = "ended"
		if n.Exit != nil {
			text = fmt.Sprintf("ended with exit status %d", *n.Exit)
		}
		switch {
		case n.Reported:
			text += "; its agent reported the result"
		case n.Completed:
			text += "; the task is completed"
		default:
			text += " without a report: the task is reported as failed"
		}
	case runner.Late:
		text = "ended at the task's deadline"
	case runner.Lost:
		text = "lost: the task is over for this runner (ended, canceled, expired, or leased again by another)"
	case runner.Released:
		text = "given back"
		if n.Error == "" {
			text += ", because the runner stops"
		}
	}
	return joined("; output in ", joined(": ", text, n.Error), n.Output)
}
