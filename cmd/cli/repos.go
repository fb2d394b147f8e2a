package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"weir/schemas"
)

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
			return usageError{errors.New("a repository is either copied (--import) or stays where it is (--upstream)")}
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

// createRepo has a repository made and asks until it is there: a node that stops answers that the action
// goes on. The copying of one is an action to follow, which a person is told.
func (c *api) createRepo(ctx context.Context, req schemas.RepoRequest) (schemas.Repo, error) {
	req.RequestID = cmp.Or(req.RequestID, uuid.NewString()) // a repeat joins the same action
	header := http.Header{}
	if req.ImportURL != "" && !c.asJSON {
		header.Set("Prefer", "respond-async")
	}
	action := ""
	for {
		var made struct {
			schemas.Repo
			Action string `json:"id"` // of one that goes on
		}
		err := c.Call(ctx, http.MethodPost, schemas.RouteRepos, header, req, &made)
		if err != nil && ctx.Err() != nil && action != "" {
			err = fmt.Errorf("the copy goes on: `weir tail actions %s` follows it, `weir actions cancel %s` ends it", action, action)
		}
		if err != nil || made.Name != "" {
			return made.Repo, err
		}
		if header.Get("Prefer") != "" {
			header.Del("Prefer")
			action = made.Action
			fmt.Fprintf(c.Err, "copying; `weir tail actions %s` shows the progress\n", action)
			continue
		}
		select {
		case <-time.After(askPause):
		case <-ctx.Done():
		}
	}
}
