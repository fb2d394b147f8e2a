package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/tmaxmax/go-sse"

	"weir/schemas"
)

func newTasks(env *Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "tasks",
		Short: "give coding agents tasks, and follow what becomes of them",
		Long: `Make tasks for coding agents and follow them. A task has a repository (see
weir repos) and a branch of its own there, which is made for it. Whoever has its token
works on it; or a runner leases it (see weir runner).

Writing takes a token with the scope tasks:write, looking that one or actions:read.`,
		Example: `  weir tasks create --repo shop 'Fix the rounding of totals, with a test'
  weir tasks ls --status Running
  weir tasks follow 01890a5d-…
  weir tasks answer 01890a5d-… 'Round half to even'
  weir tasks show 01890a5d-… --json | jq .head`,
		Args: Exactly(0, "one of create, ls, show, follow, answer, cancel, token"),
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newTaskCreate(env), newTaskList(env), newTaskShow(env), newTaskFollow(env), newTaskAnswer(env), newTaskCancel(env), newTaskToken(env))
	return cmd
}

func taskPath(id, rest string) string { return schemas.RouteTasks + "/" + url.PathEscape(id) + rest }

// taskFlags are those of `weir tasks create`.
type taskFlags struct {
	clientFlags
	schemas.TaskRequest
	metadata  []string
	budget    schemas.TaskBudget
	tokenFile string
	follow    bool
	kept      bool // the token is in tokenFile
	begin     beginFlags
	header    http.Header
}

func newTaskCreate(env *Env) *cobra.Command {
	var f taskFlags
	cmd := &cobra.Command{
		Use:   "create --repo REPO DESCRIPTION",
		Short: "make a task, and print its token this once",
		Long: `Make a task. DESCRIPTION is what the agent is to do; @FILE takes it from a file, and
- from standard input. The task's token is printed on standard output, or kept
in --task-token-file; what else is known of the task goes to standard error. An agent
that is started elsewhere needs nothing but that token. A runner does not need it.`,
		Example: `  weir tasks create --repo shop --deadline 2h 'Fix the rounding of totals'
  weir tasks create --repo shop --pool none --task-token-file task.token @job.md
  weir tasks create --repo shop --follow 'Bump the dependencies'
  weir tasks create --repo shop --delay 1h 'Update the users of the module'`,
		Args: Exactly(1, "the description of the task"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.request(env, args[0]); err != nil {
				return err
			}
			return f.asking(env, func(c *api) error { return f.create(cmd.Context(), env, c) })
		},
	}
	f.register(cmd, env)
	flags := cmd.Flags()
	flags.StringVar(&f.Repo, "repo", "", "the repository")
	flags.StringVar(&f.BaseRef, "base", "", "the branch to begin at (default the repository's)")
	flags.StringVar(&f.Branch, "branch", "", "the branch to make for it (default the task's UUID)")
	flags.StringVar(&f.Model, "model", "", "the model that the agent is to use")
	flags.StringVar(&f.Deadline, "deadline", "", "when it expires: a time, or how long from now, such as 2h (default the server's)")
	flags.StringVar(&f.Pool, "pool", "", "whose runners may lease it; none: nobody's (default \"default\")")
	flags.BoolVar(&f.ForcePush, "force-push", false, "let the agent replace what it has pushed")
	f.begin.register(flags)
	flags.StringVar(&f.RequestID, "id", "", "the task's id (default a new one); a repeat joins the task")
	flags.StringArrayVar(&f.metadata, "meta", nil, "a NAME=VALUE to keep with it; may be repeated")
	flags.Int64Var(&f.budget.Requests, "budget-requests", 0, "requests to models")
	flags.Int64Var(&f.budget.Tokens, "budget-tokens", 0, "tokens of models")
	flags.Float64Var(&f.budget.USD, "budget-usd", 0, "dollars for models")
	flags.StringVar(&f.tokenFile, "task-token-file", "", "a file to write the task's token to, instead of printing it")
	flags.BoolVar(&f.follow, "follow", false, "follow the task until it ends; exit 1 unless it is completed")
	return cmd
}

// request fills in what the flags say in other words.
func (f *taskFlags) request(env *Env, text string) error {
	if f.Repo == "" {
		return usageError{errors.New("a task needs --repo; `weir repos ls` lists them, `weir repos create` makes one")}
	}
	var err error
	if f.Description, err = textArgument(env, text); err != nil {
		return err
	}
	for _, m := range f.metadata {
		name, value, ok := strings.Cut(m, "=")
		if !ok {
			return usageError{fmt.Errorf("--meta %q is not NAME=VALUE", m)}
		}
		if f.Metadata == nil {
			f.Metadata = map[string]string{}
		}
		f.Metadata[name] = value
	}
	if f.budget != (schemas.TaskBudget{}) {
		f.Budget = &f.budget
	}
	f.header = http.Header{}
	return f.begin.header(f.header)
}

// maxText is the most that is read of a file or of standard input.
const maxText = 1 << 20

// textArgument is a text that is given as such, in a @FILE or, for -, on standard input.
func textArgument(env *Env, text string) (string, error) {
	var data []byte
	var err error
	switch name, file := strings.CutPrefix(text, "@"); {
	case text == "-":
		data, err = io.ReadAll(io.LimitReader(env.In, maxText+1))
	case file:
		data, err = os.ReadFile(name)
	default:
		return text, nil
	}
	if err != nil {
		return "", usageError{err}
	}
	if len(data) > maxText {
		return "", usageError{errors.New("the text is too long")}
	}
	return string(data), nil
}

func (f *taskFlags) create(ctx context.Context, env *Env, c *api) error {
	made, err := c.CreateTask(ctx, f.header, f.TaskRequest)
	if err != nil {
		return err
	}
	if err := f.hand(env, made); err != nil || !f.follow {
		return err
	}
	return f.followTask(ctx, env, c, made.ID)
}

// secretFile writes a secret to a file that nobody else may read, new or not.
func secretFile(name, text string) error {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	if err = f.Chmod(0o600); err == nil {
		_, err = f.WriteString(text + "\n")
	}
	return errors.Join(err, f.Close())
}

// hand gives the token out, and says what was made.
func (f *taskFlags) hand(env *Env, made schemas.NewTask) error {
	token := made.Token
	if f.tokenFile != "" && token != "" {
		if err := secretFile(f.tokenFile, token); err != nil {
			return fmt.Errorf("task %s is made, and its token could not be kept: %w; `weir tasks token %s` makes another", made.ID, err, made.ID)
		}
		token, made.Token, f.kept = "", "", true
	}
	if f.asJSON {
		return printDocuments(env.Out, made)
	}
	fmt.Fprintf(env.Err, "task %s, %s, branch %s of %s\n", made.ID, made.Status, made.Branch, made.RepoURL)
	switch {
	case token != "" && f.follow: // it would stand in the middle of the story, for whoever reads that
		fmt.Fprintf(env.Err, "its token is not shown where the task is followed; `weir tasks token %s` makes another\n", made.ID)
	case token != "":
		_, err := fmt.Fprintln(env.Out, token)
		return err
	case f.tokenFile == "", made.Token == "" && !f.kept:
		fmt.Fprintf(env.Err, "the task was there already, and its token is not shown again; `weir tasks token %s` makes another\n", made.ID)
	}
	return nil
}

func newTaskFollow(env *Env) *cobra.Command {
	var f clientFlags
	cmd := &cobra.Command{
		Use: "follow ID", Short: "follow a task until it ends", Args: Exactly(1, "the id of a task"),
		Long: `Follow a task from its beginning until it ends. Exit 0 if it is completed, else 1.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.asking(env, func(c *api) error { return f.followTask(cmd.Context(), env, c, args[0]) })
		},
	}
	f.register(cmd, env)
	return cmd
}

// followTask prints the updates of a task until it ends.
func (f *clientFlags) followTask(ctx context.Context, env *Env, c *api, id string) error {
	var last schemas.TaskUpdate
	err := c.Follow(ctx, taskPath(id, "/events"), func(e sse.Event) error {
		if err := json.Unmarshal([]byte(e.Data), &last); err != nil {
			return fmt.Errorf("the stream holds something that is not JSON: %w", err)
		}
		if f.asJSON {
			_, err := fmt.Fprintln(env.Out, e.Data)
			return err
		}
		_, err := fmt.Fprintln(env.Out, updateLine(last))
		return err
	})
	if err == nil && ctx.Err() == nil && last.Status != schemas.TaskStatusCompleted {
		return quietError{}
	}
	return err
}

// updateLine is an update for a person.
func updateLine(u schemas.TaskUpdate) string {
	line := fmt.Sprintf("%s  %-10s %s", u.Time.Local().Format(time.TimeOnly), u.Status, u.What)
	switch {
	case u.Inquiry > 0:
		line += fmt.Sprintf(" question %d", u.Inquiry)
	case u.Head != "":
		line += " " + u.Head
	case u.Lease > 0:
		line += fmt.Sprintf(" lease %d", u.Lease)
	}
	return strings.TrimRight(line+" "+strings.TrimSpace(u.Reason+" "+string(u.Code)), " ")
}

func newTaskAnswer(env *Env) *cobra.Command {
	var f clientFlags
	var req schemas.AnswerRequest
	cmd := &cobra.Command{
		Use: "answer ID TEXT", Short: "answer what a task's agent asks", Args: Exactly(2, "the id of a task and a text, @FILE or -"),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if req.Answer, err = textArgument(env, args[1]); err != nil {
				return err
			}
			return f.change(env, "is answered", func(c *api) (schemas.TaskView, error) { return c.AnswerTask(cmd.Context(), args[0], req) })
		},
	}
	f.register(cmd, env)
	cmd.Flags().IntVar(&req.Inquiry, "inquiry", 0, "the number of the question (default the one that is open)")
	return cmd
}

func newTaskCancel(env *Env) *cobra.Command {
	var f clientFlags
	cmd := &cobra.Command{
		Use: "cancel ID", Short: "end a task; its token stops to work at once", Args: Exactly(1, "the id of a task"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.change(env, "is told to end, and its token is dead", func(c *api) (schemas.TaskView, error) {
				return c.CancelTask(cmd.Context(), args[0])
			})
		},
	}
	f.register(cmd, env)
	return cmd
}

// change sends a change of one task and shows what became of it.
func (f *clientFlags) change(env *Env, done string, send func(c *api) (schemas.TaskView, error)) error {
	return f.asking(env, func(c *api) error {
		t, err := send(c)
		if err != nil {
			return err
		}
		return printOne(env, f.asJSON, t, "task %s %s", t.ID, done)
	})
}

func newTaskToken(env *Env) *cobra.Command {
	var f taskFlags
	cmd := &cobra.Command{
		Use: "token ID", Short: "make another token for a task; the one before stops to work", Args: Exactly(1, "the id of a task"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.asking(env, func(c *api) error {
				made, err := c.TaskToken(cmd.Context(), args[0])
				if err != nil {
					return err
				}
				return f.hand(env, made)
			})
		},
	}
	f.register(cmd, env)
	cmd.Flags().StringVar(&f.tokenFile, "task-token-file", "", "a file to write the token to, instead of printing it")
	return cmd
}
