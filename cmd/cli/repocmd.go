package cli

import (
	"errors"
	"math"
	"net/url"

	"github.com/spf13/cobra"

	"weir/schemas"
)

func newRepos(env *Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "repos",
		Short: "make and list the repositories that tasks work on",
		Long: `Make and list repositories. One that is hosted lies on the server's disk; of one
with an upstream nothing is kept, and what git asks for is passed on, as far as the
policy lets it.

git reaches them at the URL that is shown, with any user name and a token as the
password. The token of a task may read and update its branch; one with the scope
actions:read or tasks:write may read everything.`,
		Example: `  weir repos create shop
  weir repos create shop --import https://git.example.com/shop.git
  weir repos create shop --upstream https://git.example.com/shop.git --key code-forge
  weir repos ls`,
		Args: Exactly(0, "one of create, ls"),
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newRepoCreate(env), newRepoList(env))
	return cmd
}

func newRepoCreate(env *Env) *cobra.Command {
	var f clientFlags
	var req schemas.RepoRequest
	cmd := &cobra.Command{
		Use:   "create NAME",
		Short: "make a repository",
		Long: `Make a repository: an empty one, with one empty commit; one that is copied once from
--import; or one that stays at --upstream. Either URL must be one that the policy lets
Weir call, with GET and POST; credentials come from the policy's entry, never from the URL.`,
		Args: Exactly(1, "the name of the repository"),
		RunE: func(cmd *cobra.Command, args []string) error {
			req.Name = args[0]
			if req.ImportURL != "" && req.UpstreamURL != "" {
				return usageError{errors.New("a repository is either copied (--import) or stays where it is (--upstream)")}
			}
			return f.asking(env, func(c *api) error {
				made, err := c.createRepo(cmd.Context(), env, req, f.asJSON)
				if err != nil {
					return err
				}
				return printOne(env, f.asJSON, made, "repository %s, %s, branch %s: %s", made.Name, made.Mode, made.DefaultBranch, made.URL)
			})
		},
	}
	f.register(cmd, env)
	flags := cmd.Flags()
	flags.StringVar(&req.ImportURL, "import", "", "a URL to copy it from, once")
	flags.StringVar(&req.UpstreamURL, "upstream", "", "the URL that it stays at")
	flags.StringVar(&req.DefaultBranch, "branch", "", "the branch that tasks begin at (default main, or the URL's own)")
	flags.StringVar(&req.AllowlistKey, "key", "", "the entry of the policy for the URL (default the first that fits)")
	flags.StringVar(&req.RequestID, "id", "", "the id of the request; a repeat joins it")
	return cmd
}

func newRepoList(env *Env) *cobra.Command {
	var f clientFlags
	cmd := &cobra.Command{
		Use: "ls", Short: "list the repositories", Args: Exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.asking(env, func(c *api) error {
				all, err := pages(cmd.Context(), c.Repos, url.Values{}, math.MaxInt)
				if err != nil {
					return err
				}
				const empty = "there are no repositories; `weir repos create NAME` makes one"
				return printList(env, f.asJSON, all, empty, "NAME\tMODE\tBRANCH\tCREATED\tURL", func(r schemas.Repo) []any {
					return []any{r.Name, r.Mode, r.DefaultBranch, when(r.Created), r.URL}
				})
			})
		},
	}
	f.register(cmd, env)
	return cmd
}
