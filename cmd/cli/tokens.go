package cli

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"weir/schemas"
)

func newTokens(env *Env) *cobra.Command {
	return Group(&cobra.Command{
		Use:   "tokens",
		Short: "Create, list and revoke the tokens of callers",
		Long: `Create, list and revoke the tokens of callers, which a Weir with auth.mode tokens requires.
Such a Weir requires an admin's token for these commands too: from --token-file,
$WEIR_TOKEN, or weir-data/admin.token, which the first start writes.`,
		Example: `  weir tokens create --name ci --scope actions:write --scope actions:read --expires 24h
  export WEIR_TOKEN=$(weir tokens create --name agent-7 --scope actions:write --entry orders --rate 10/s)
  weir tokens create --name chat --scope actions:write --model openai/gpt-4o --model "anthropic/*"
  weir tokens create --name runner --scope tasks:work --pool ci
  weir tokens ls
  weir tokens revoke k7m2q9x4v8c3b6n3`,
	}, newTokenCreate(env), newTokenList(env), newTokenRevoke(env))
}

// adminFlags are the flags of a command for admins. They fall back to the file with the first token, which a start
// in the same directory writes.
func adminFlags() *clientFlags {
	return &clientFlags{fallback: filepath.Join("weir-data", "admin.token"), words: true}
}

func newTokenCreate(env *Env) *cobra.Command {
	out := ""
	var req schemas.TokenRequest
	cmd := &cobra.Command{
		Use:   "create --name NAME --scope SCOPE…",
		Short: "Create a token and print it once",
		Long: `Create a token and print it on standard output, or write it to the new file --out, which
only its owner may read. Weir stores only its hash. The rest goes to standard error.

The scopes are:
  ` + strings.Join(schemas.Scopes(), "\n  ") + `

A token with the scope admin has all of them. A token belongs to the tenant of the token
that creates it; an admin of the tenant default may name another. --entry limits it to
these entries of the policy, and excludes hosts without an entry. --pool limits it to the
tasks of these pools; it needs the scope tasks:work. --model limits it to these models:
names, or patterns such as openai/*.`,
		Example: `  weir tokens create --name ci --scope actions:write --scope actions:read --out ci.token
  weir tokens create --name runner --scope tasks:work --pool ci --out runner.token`,
		Args: Exactly(0, "no arguments"),
	}
	cmd.Flags().StringVar(&out, "out", "", "a new file to write the token to, readable by its owner alone, instead of printing it")
	cmd.Flags().StringVar(&req.Name, "name", "", "the name of its user: letters, digits and . _ : -")
	cmd.Flags().StringArrayVar(&req.Scopes, "scope", nil, "a scope, such as actions:write; may be repeated")
	cmd.Flags().StringVar(&req.Tenant, "tenant", "", "the tenant that it belongs to (default the tenant of the token that creates it)")
	cmd.Flags().StringVar(&req.ExpiresIn, "expires", "", "how long it is valid, such as 24h (default for ever)")
	cmd.Flags().StringArrayVar(&req.Entries, "entry", nil, "an entry of the policy that it may use; may be repeated (default all)")
	cmd.Flags().StringArrayVar(&req.Pools, "pool", nil, "a pool whose tasks it may lease; may be repeated (default all)")
	cmd.Flags().StringArrayVar(&req.Models, "model", nil, "a model that it may use, or a pattern such as openai/*; may be repeated (default all)")
	cmd.Flags().StringVar(&req.Rate, "rate", "", "how many requests it may send, such as 10/s (default the server's)")
	return adminFlags().command(env, cmd, func(ctx context.Context, c *api, _ []string) error {
		if req.Name == "" || len(req.Scopes) == 0 {
			return usagef("a token needs --name and at least one --scope")
		}
		if _, err := os.Lstat(out); out != "" && err == nil {
			return usagef("--out: %s exists, and no token was created; name a new file, or remove that one", out)
		}
		made, err := post[schemas.NewToken](ctx, c, routeTokens, req)
		if err != nil {
			return err
		}
		lost := "token " + made.ID + " was created and cannot be stored: %w; revoke it with `weir tokens revoke " + made.ID + "`"
		about := fmt.Sprintf("token %s of %s, tenant %s, %s: %s", made.ID, made.Name, made.Tenant, ends(made.Token), strings.Join(made.Scopes, " "))
		return c.printMade(&made, &made.Secret, out, os.O_EXCL, lost, about)
	})
}

func newTokenList(env *Env) *cobra.Command {
	cmd := &cobra.Command{Use: "ls", Short: "List the tokens of a tenant, oldest first", Example: "  weir tokens ls", Args: Exactly(0, "no arguments")}
	tenant := cmd.Flags().String("tenant", "", "the tenant (default the admin's own)")
	return adminFlags().command(env, cmd, func(ctx context.Context, c *api, _ []string) error {
		const header = "ID\tNAME\tTENANT\tSTATUS\tENDS\tLAST USED\tRATE\tSCOPES\tENTRIES\tPOOLS\tMODELS"
		empty := "the tenant " + *tenant + " has no tokens; `weir tokens create --tenant " + *tenant + "` makes one"
		if *tenant == "" { // not even the sender's own
			empty = "there are no tokens: the server is open and needs none; auth.mode tokens makes it require them"
		}
		return printList(c, list[schemas.Token](ctx, c, routeTokens, param(cmd, "tenant"), everything), empty, header, tokenRow)
	})
}

func tokenRow(t schemas.Token) []any {
	pools := "none"
	if schemas.Grants(t.Scopes, schemas.ScopeTasksWork) {
		pools = cmp.Or(strings.Join(t.Pools, " "), "all")
	}
	return []any{
		t.ID, t.Name, t.Tenant, t.Status, ends(t), cmp.Or(when(t.LastUsedAt), "never"), cmp.Or(t.Rate, "default"), strings.Join(t.Scopes, " "),
		cmp.Or(strings.Join(t.Entries, " "), "all"), pools, cmp.Or(strings.Join(t.Models, " "), "all"),
	}
}

// ends says until when a token is, or was, in force.
func ends(t schemas.Token) string {
	switch {
	case !t.RevokedAt.IsZero():
		return "revoked " + t.RevokedAt.Format(time.RFC3339)
	case t.ExpiresAt.IsZero():
		return "never expires"
	default:
		return "expires " + t.ExpiresAt.Format(time.RFC3339)
	}
}

func newTokenRevoke(env *Env) *cobra.Command {
	return adminFlags().command(env, &cobra.Command{
		Use: "revoke ID", Short: "Revoke a token", Args: Exactly(1, "the id of a token"),
		Example: `  weir tokens revoke k7m2q9x4v8c3b6n3`,
		Long: `Revoke a token and end the streams that are open with it. Actions that were accepted with
it go on; cancel them if they must not.`,
	}, func(ctx context.Context, c *api, args []string) error {
		if id, whole := wholeToken(args[0]); whole {
			return usagef("that is a whole token, and nothing was sent; name its id alone: weir tokens revoke %s", id)
		}
		t, err := post[schemas.Token](ctx, c, within(routeTokens, args[0], "/revoke"), nil)
		return c.print(t, err, "%s %s", t.ID, ends(t))
	})
}

// wholeToken returns the id of a text that is a token and not an id alone.
func wholeToken(text string) (id string, ok bool) {
	rest, ok := strings.CutPrefix(strings.TrimSpace(text), "weir1_")
	id, _, whole := strings.Cut(rest, "_")
	return id, ok && whole
}
