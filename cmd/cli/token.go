package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"weir/schemas"
)

func newTokens(env *Env) *cobra.Command {
	return Group(&cobra.Command{
		Use:   "tokens",
		Short: "make, list and revoke the tokens of callers",
		Long: `Make, list and revoke the tokens that a Weir asks for which is not open
(auth.mode: tokens), and that agents with a task and git are always asked for. On a
Weir that is not open it takes an admin's token: from --token-file, $WEIR_TOKEN, or
the file that the first start wrote, weir-data/admin.token.`,
		Example: `  weir tokens create --name ci --scope actions:write --scope actions:read --expires 24h
  export WEIR_TOKEN=$(weir tokens create --name agent-7 --scope actions:write --entry orders --rate 10/s)
  weir tokens create --name chat --scope actions:write --model openai/gpt-4o --model "anthropic/*"
  weir tokens create --name runner --scope tasks:work --pool ci
  weir tokens ls
  weir tokens revoke k7m2q9x4v8c3b6n3`,
	}, newTokenCreate(env), newTokenList(env), newTokenRevoke(env))
}

// adminFlags are those of a command for an admin: a start in the same directory writes the first token to a file.
func adminFlags() clientFlags {
	return clientFlags{fallback: filepath.Join("weir-data", "admin.token"), words: true}
}

func newTokenCreate(env *Env) *cobra.Command {
	f := adminFlags()
	var req schemas.TokenRequest
	cmd := &cobra.Command{
		Use:   "create --name NAME --scope SCOPE…",
		Short: "make a token, and print it this once",
		Long: `Make a token and print it on standard output; it is kept nowhere. What else is
known of it goes to standard error.

Scopes: ` + strings.Join(schemas.Scopes(), ", ") + `. An admin
has all of them. A token belongs to its maker's tenant; an admin of the tenant
default may name another. With --entry it may use these entries of the policy and
no others, and no host that has no entry. With --pool it may lease the tasks of
these pools and no others; it needs the scope tasks:work. With --model it may use
these models and no others: names, or patterns such as openai/*.`,
		Args: Exactly(0, "no arguments"),
	}
	cmd.Flags().StringVar(&req.Name, "name", "", "whom it is for: letters, digits and . _ : -")
	cmd.Flags().StringArrayVar(&req.Scopes, "scope", nil, "what it may do; may be repeated")
	cmd.Flags().StringVar(&req.Tenant, "tenant", "", "whose it is (default the maker's)")
	cmd.Flags().StringVar(&req.ExpiresIn, "expires", "", "how long it is in force, such as 24h (default for ever)")
	cmd.Flags().StringArrayVar(&req.Entries, "entry", nil, "an entry of the policy that it may use; may be repeated (default all)")
	cmd.Flags().StringArrayVar(&req.Pools, "pool", nil, "a pool whose tasks it may lease; may be repeated (default all)")
	cmd.Flags().StringArrayVar(&req.Models, "model", nil, "a model that it may use, or a pattern such as openai/*; may be repeated (default all)")
	cmd.Flags().StringVar(&req.Rate, "rate", "", "how many requests it may send, such as 10/s (default the server's)")
	return f.command(env, cmd, func(ctx context.Context, c *api, _ []string) error {
		if req.Name == "" || len(req.Scopes) == 0 {
			return usageError{errors.New("a token needs --name and at least one --scope")}
		}
		made, err := c.CreateToken(ctx, req)
		switch {
		case err != nil:
			return err
		case c.asJSON:
			return printDocument(c.Out, made)
		}
		scopes := strings.Join(made.Scopes, " ")
		fmt.Fprintf(c.Err, "token %s of %s, tenant %s, %s: %s\n", made.ID, made.Name, made.Tenant, ends(made.Token), scopes)
		_, err = fmt.Fprintln(c.Out, made.Secret)
		return err
	})
}

func newTokenList(env *Env) *cobra.Command {
	f, tenant := adminFlags(), ""
	cmd := &cobra.Command{Use: "ls", Short: "list the tokens of a tenant, oldest first", Args: Exactly(0, "no arguments")}
	cmd.Flags().StringVar(&tenant, "tenant", "", "whose (default the admin's own)")
	return f.command(env, cmd, func(ctx context.Context, c *api, _ []string) error {
		query := url.Values{}
		if tenant != "" {
			query.Set("tenant", tenant)
		}
		const header = "ID\tNAME\tTENANT\tSTATUS\tENDS\tRATE\tSCOPES\tENTRIES\tPOOLS\tMODELS"
		return printList(c, allOf(ctx, c.Tokens, query), "there are no such tokens", header, tokenRow)
	})
}

func tokenRow(t schemas.Token) []any {
	pools := "none"
	if schemas.Grants(t.Scopes, schemas.ScopeTasksWork) {
		pools = cmp.Or(strings.Join(t.Pools, " "), "all")
	}
	return []any{
		t.ID, t.Name, t.Tenant, t.Status, ends(t), cmp.Or(t.Rate, "default"), strings.Join(t.Scopes, " "),
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
	f := adminFlags()
	return f.command(env, &cobra.Command{
		Use: "revoke ID", Short: "end a token for good", Args: Exactly(1, "the id of a token"),
		Long: `End a token for good, and the streams that are open with it. What it has asked for
before is done all the same; cancel those actions if they should not be.`,
	}, func(ctx context.Context, c *api, args []string) error {
		if id, whole := wholeToken(args[0]); whole {
			return usageError{fmt.Errorf("that is a whole token, and nothing was sent; name its id alone: weir tokens revoke %s", id)}
		}
		t, err := c.RevokeToken(ctx, args[0])
		if err != nil {
			return err
		}
		return c.print(t, "%s %s", t.ID, ends(t))
	})
}

// wholeToken returns the id of a text that is a token and not an id alone.
func wholeToken(text string) (id string, ok bool) {
	rest, ok := strings.CutPrefix(strings.TrimSpace(text), "weir1_")
	id, _, whole := strings.Cut(rest, "_")
	return id, ok && whole
}
