package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"weir/schemas"
)

func newTasks(env *Env) *cobra.Command {
	return Group(
		&cobra.Command{
			Use:   "tasks",
			Short: "Create tasks for coding agents and follow them",
			Long: `Create tasks for coding agents and follow them. A task has a repository (see weir repos) and
its own branch there. An agent with the task's token works on it, or a runner leases it
(see weir runner).

Writing needs a token with the scope tasks:write, reading that one or actions:read.`,
			Example: `  weir tasks create --repo shop 'Fix the rounding of totals, with a test'
  weir tasks ls --status Running
  weir tasks follow 01890a5d-…
  weir tasks logs 01890a5d-…
  weir tasks answer 01890a5d-… 'Round half to even'
  weir tasks show 01890a5d-… --json | jq .head`,
		},
		newTaskCreate(env), newTaskList(env), newTaskShow(env), newTaskFollow(env), newTaskLogs(env), newTaskDiff(env), newTaskAnswer(env), newTaskCancel(env), newTaskToken(env), newSubtoken(env),
	)
}

type taskFlags struct {
	schemas.TaskRequest
	metadata  []string
	budget    schemas.TaskBudget
	tokenFile string
	follow    bool
	begin     beginFlags
}

func newTaskCreate(env *Env) *cobra.Command {
	var f taskFlags
	cmd := &cobra.Command{
		Use:   "create --repo REPO DESCRIPTION",
		Short: "Create a task and print its token once",
		Long: `Create a task. DESCRIPTION is the work for the agent; @FILE takes it from a file, and - from
standard input. The task's token goes to standard output or to --task-token-file, the
rest to standard error. An agent on another machine needs only that token. A runner does
not need it.`,
		Example: `  weir tasks create --repo shop --deadline 2h 'Fix the rounding of totals'
  weir tasks create --repo shop --pool none --task-token-file task.token @job.md
  weir tasks create --repo shop --follow 'Bump the dependencies'
  weir tasks create --repo shop --delay 1h 'Update the users of the module'`,
		Args: Exactly(1, "the description of the task"),
	}
	flags := cmd.Flags()
	flags.StringVar(&f.Repo, "repo", "", "the repository")
	flags.StringVar(&f.BaseRef, "base", "", "the branch to begin at (default the repository's)")
	flags.StringVar(&f.Branch, "branch", "", "the branch to create for it (default the task's UUID)")
	flags.StringVar(&f.Model, "model", "", "the model for the agent; with --allow-model the one that it prefers")
	flags.StringArrayVar(&f.Models, "allow-model", nil, "a model that the agent may use, or a pattern such as openai/*; may be repeated (default the token's)")
	flags.StringArrayVar(&f.Entries, "entry", nil, "an entry of the policy that the agent may use, such as pypi or model:openai; may be repeated (default the token's)")
	flags.StringVar(&f.Deadline, "deadline", "", "when it expires: a time, or how long from now, such as 2h (default the server's)")
	flags.StringVar(&f.Pool, "pool", "", "the pool whose runners may lease it, or none (default \"default\")")
	flags.BoolVar(&f.ForcePush, "force-push", false, "let the agent replace what it has pushed")
	f.begin.register(flags)
	flags.StringVar(&f.RequestID, "id", "", "the task's id (default a new one); a repeat joins the task")
	flags.StringArrayVar(&f.metadata, "meta", nil, "a NAME=VALUE to keep with it; may be repeated")
	bindBudget(flags, &f.budget)
	flags.StringVar(&f.tokenFile, "task-token-file", "", "a file to write the task's token to, instead of printing it")
	flags.BoolVar(&f.follow, "follow", false, "follow the task until it ends; exit 1 unless it is completed")
	return remote(env, cmd, func(ctx context.Context, c *api, args []string) error {
		header := http.Header{}
		if err := f.request(env, args[0], header); err != nil {
			return err
		}
		made, err := c.CreateTask(ctx, header, f.TaskRequest)
		if err != nil {
			return err
		}
		if err := c.printNewTask(made, f.tokenFile, f.follow); err != nil || !f.follow {
			return err
		}
		return c.followTask(ctx, made.ID)
	})
}

func (f *taskFlags) request(env *Env, text string, header http.Header) error {
	if f.Repo == "" {
		return usagef("a task needs --repo; `weir repos ls` lists them, `weir repos create` makes one")
	}
	var err error
	if f.Description, err = env.text(text); err != nil {
		return err
	}
	for _, m := range f.metadata {
		name, value, ok := strings.Cut(m, "=")
		if !ok {
			return usagef("--meta %q is not NAME=VALUE", m)
		}
		if f.Metadata == nil {
			f.Metadata = map[string]string{}
		}
		f.Metadata[name] = value
	}
	f.Budget = given(f.budget)
	return f.begin.header(header)
}

// bindBudget adds the flags that bound what a token may use of models.
func bindBudget(flags *pflag.FlagSet, b *schemas.TaskBudget) {
	flags.Int64Var(&b.Requests, "budget-requests", 0, "requests to models")
	flags.Int64Var(&b.Tokens, "budget-tokens", 0, "tokens of models")
	flags.Float64Var(&b.USD, "budget-usd", 0, "dollars for models")
}

// printMade prints a document with a secret, or a line about it on Err and the secret on Out. With a file the secret
// goes there, and only the file's owner may read it; exists is what happens to a file that is there: os.O_TRUNC or
// os.O_EXCL. lost is the error for a secret that cannot be written.
func (c *api) printMade(doc any, secret *string, file string, exists int, lost, about string) error {
	if file != "" && *secret != "" {
		f, err := os.OpenFile(file, os.O_CREATE|os.O_WRONLY|exists, 0o600)
		if err == nil {
			err = f.Chmod(0o600)
			if err == nil {
				_, err = f.WriteString(*secret + "\n")
			}
			err = errors.Join(err, f.Close())
		}
		if err != nil {
			return fmt.Errorf(lost, err)
		}
		*secret = ""
	}
	if c.asJSON {
		return PrintDocument(c.Out, doc)
	}
	fmt.Fprintln(c.Err, about)
	if *secret == "" {
		return nil
	}
	_, err := fmt.Fprintln(c.Out, *secret)
	return err
}

// printNewTask prints a new task, and its token to the file, if one is named. The token of a task that is followed is
// not printed: it would appear in the middle of the updates.
func (c *api) printNewTask(made schemas.NewTask, file string, followed bool) error {
	another := "; `weir tasks token " + made.ID + "` makes another"
	about := fmt.Sprintf("task %s, %s, branch %s of %s", made.ID, made.Status, made.Branch, made.RepoURL)
	switch {
	case made.Token == "":
		about += "\nthe task was there already, and its token is not shown again" + another
	case followed && file == "" && !c.asJSON:
		made.Token = ""
		about += "\nits token is not shown where the task is followed" + another
	}
	return c.printMade(&made, &made.Token, file, os.O_TRUNC, "task "+made.ID+" is made, and its token could not be kept: %w"+another, about)
}

func newTaskAnswer(env *Env) *cobra.Command {
	var req schemas.AnswerRequest
	cmd := &cobra.Command{
		Use: "answer ID TEXT", Short: "Answer a question of a task's agent", Example: `  weir tasks answer 01890a5d-… 'Round half to even'`,
		Args: Exactly(2, "the id of a task and a text, @FILE or -"),
	}
	cmd.Flags().IntVar(&req.Inquiry, "inquiry", 0, "the number of the question (default the one that is open)")
	return remote(env, cmd, func(ctx context.Context, c *api, args []string) (err error) {
		if req.Answer, err = env.text(args[1]); err != nil {
			return err
		}
		t, err := post[schemas.TaskView](ctx, c, within(schemas.RouteTasks, args[0], "/answer"), req)
		return c.print(t, err, "task %s is answered", t.ID)
	})
}

func newTaskCancel(env *Env) *cobra.Command {
	return remote(env, &cobra.Command{
		Use: "cancel ID", Short: "Cancel a task and revoke its token at once", Example: "  weir tasks cancel 01890a5d-…",
		Args: Exactly(1, "the id of a task"),
	}, func(ctx context.Context, c *api, args []string) error {
		t, err := post[schemas.TaskView](ctx, c, within(schemas.RouteTasks, args[0], "/cancel"), nil)
		return c.print(t, err, "task %s is canceled, and its token is revoked", t.ID)
	})
}

func newTaskToken(env *Env) *cobra.Command {
	file := ""
	cmd := &cobra.Command{
		Use: "token ID", Short: "Replace the token of a task", Example: "  weir tasks token 01890a5d-… --task-token-file task.token",
		Args: Exactly(1, "the id of a task"),
	}
	cmd.Flags().StringVar(&file, "task-token-file", "", "a file to write the token to, instead of printing it")
	return remote(env, cmd, func(ctx context.Context, c *api, args []string) error {
		made, err := post[schemas.NewTask](ctx, c, within(schemas.RouteTasks, args[0], "/token"), nil)
		if err != nil {
			return err
		}
		return c.printNewTask(made, file, false)
	})
}

func newSubtoken(env *Env) *cobra.Command {
	var req schemas.SubtokenRequest
	var budget schemas.TaskBudget
	file := ""
	cmd := &cobra.Command{
		Use: "subtoken", Short: "Make a token for a child of a task's holder", Args: Exactly(0, "no arguments"),
		Long: `Make a token for a child process or an agent of your own, with the token of a task or with another
subtoken. The new token never permits more than the one that makes it, reports and asks nothing,
and ends with the token of the task's holder. It goes to standard output or to --task-token-file.`,
		Example: `  WEIR_TOKEN=$(weir tasks subtoken --entry pypi --ttl 30m) ./child
  weir tasks subtoken --model openai/gpt-5-mini --entry model:openai --budget-usd 0.5`,
	}
	flags := cmd.Flags()
	flags.StringArrayVar(&req.Entries, "entry", nil, "an entry of the policy that it may use; may be repeated (default all that the token may)")
	flags.StringArrayVar(&req.Models, "model", nil, "a model that it may use, or a pattern; may be repeated (default all that the token may)")
	flags.StringVar(&req.TTL, "ttl", "", "how long it lasts, such as 30m (default as long as the token)")
	flags.StringVar(&req.Repo, "repo", "", "read or write: its rights on the repository (default none)")
	bindBudget(flags, &budget)
	flags.StringVar(&file, "task-token-file", "", "a file to write the token to, instead of printing it")
	return remote(env, cmd, func(ctx context.Context, c *api, _ []string) error {
		req.Budget = given(budget)
		made, err := post[schemas.NewSubtoken](ctx, c, schemas.RouteAgentSubtokens, req)
		if err != nil {
			return err
		}
		about := fmt.Sprintf("subtoken %d, until %s", made.N, when(made.ExpiresAt))
		return c.printMade(&made, &made.Token, file, os.O_TRUNC, "the subtoken is made, and could not be kept: %w; make another", about)
	})
}

func newRepos(env *Env) *cobra.Command {
	return Group(&cobra.Command{
		Use:   "repos",
		Short: "Create and list the repositories that tasks work on",
		Long: `Create and list repositories. A hosted repository is on the server's disk. For a repository
with an upstream, Weir stores nothing and forwards git's requests as the policy allows.

git reaches them at the URL that is shown, with any user name and a token as the
password. The token of a task may read and update its branch; one with the scope
actions:read or tasks:write may read everything.`,
		Example: `  weir repos create shop
  weir repos create shop --import https://git.example.com/shop.git
  weir repos create shop --upstream https://git.example.com/shop.git --key code-forge
  weir repos ls`,
	}, newRepoCreate(env), newRepoList(env))
}

func newRepoCreate(env *Env) *cobra.Command {
	var req schemas.RepoRequest
	cmd := &cobra.Command{
		Use:   "create NAME",
		Short: "Create a repository",
		Example: `  weir repos create shop
  weir repos create shop --import https://git.example.com/shop.git`,
		Long: `Create a repository: an empty one with one empty commit, a copy of --import, or one that
stays at --upstream. The policy must allow GET and POST for either URL. Credentials come
from the policy's entry, never from the URL.`,
		Args: Exactly(1, "the name of the repository"),
	}
	flags := cmd.Flags()
	flags.StringVar(&req.ImportURL, "import", "", "a URL to copy it from, once")
	flags.StringVar(&req.UpstreamURL, "upstream", "", "the URL that it stays at")
	flags.StringVar(&req.DefaultBranch, "branch", "", "the branch that tasks begin at (default main, or the URL's own)")
	flags.StringVar(&req.AllowlistKey, "key", "", "the entry of the policy for the URL (default the first that fits)")
	flags.StringVar(&req.RequestID, "id", "", "the id of the request; a repeat joins it")
	return remote(env, cmd, func(ctx context.Context, c *api, args []string) error {
		req.Name = args[0]
		if req.ImportURL != "" && req.UpstreamURL != "" {
			return usagef("a repository is either copied (--import) or stays where it is (--upstream)")
		}
		made, err := c.createRepo(ctx, req)
		return c.print(made, err, "repository %s, %s, branch %s: %s", made.Name, made.Mode, made.DefaultBranch, made.URL)
	})
}

func newRepoList(env *Env) *cobra.Command {
	return remote(env, &cobra.Command{Use: "ls", Short: "List repositories", Example: "  weir repos ls", Args: Exactly(0, "no arguments")},
		func(ctx context.Context, c *api, _ []string) error {
			const empty = "there are no repositories; `weir repos create NAME` makes one"
			return printList(c, list[schemas.Repo](ctx, c, schemas.RouteRepos, nil, everything), empty, "NAME\tMODE\tBRANCH\tCREATED\tURL", func(r schemas.Repo) []any {
				return []any{r.Name, r.Mode, r.DefaultBranch, when(r.Created), r.URL}
			})
		})
}

// askPause is the time before a client asks again for a repository that is still being made.
const askPause = 500 * time.Millisecond

// repoProgress is what the making of a repository does or waits for.
func (c *api) repoProgress(ctx context.Context, req schemas.RepoRequest, action string) string {
	v, err := get[schemas.ActionView](ctx, c, within(routeActions, action, ""), nil)
	switch {
	case err == nil && v.Waiting != nil && v.Waiting.For == schemas.WaitNode:
		return "waiting for a node with a place for repositories (git.dir)"
	case err == nil && v.Waiting != nil:
		return "waiting (" + v.Waiting.For + ")"
	case req.ImportURL != "":
		return "copying"
	}
	return "the repository is being made"
}

// createRepo has a repository made and asks until it is there: a node that stops answers that the action
// goes on. An action that takes longer than a second is one to follow, which a person is told.
func (c *api) createRepo(ctx context.Context, req schemas.RepoRequest) (schemas.Repo, error) {
	req.RequestID = cmp.Or(req.RequestID, uuid.NewString()) // a repeat joins the same action
	header := http.Header{}
	if !c.asJSON {
		header.Set("Prefer", "wait=1")
	}
	action := ""
	for {
		var made struct {
			schemas.Repo
			Action string `json:"id"` // of one that goes on
		}
		err := c.Call(ctx, http.MethodPost, schemas.RouteRepos, header, req, &made)
		if err != nil && ctx.Err() != nil && action != "" {
			err = fmt.Errorf("the action goes on: `weir tail actions %s` follows it, `weir actions cancel %s` ends it", action, action)
		}
		if err != nil || made.Name != "" {
			return made.Repo, err
		}
		if header.Get("Prefer") != "" {
			header.Del("Prefer")
			action = made.Action
			fmt.Fprintf(c.Err, "%s; `weir tail actions %s` shows the progress\n", c.repoProgress(ctx, req, action), action)
			continue
		}
		select {
		case <-time.After(askPause):
		case <-ctx.Done():
		}
	}
}
