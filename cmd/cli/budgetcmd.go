package cli

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"weir/schemas"
)

func newBudgets(env *Env) *cobra.Command {
	var f clientFlags
	var name string
	cmd := &cobra.Command{
		Use:   "budgets",
		Short: "see what was used of models, and what is left",
		Long: `See the accounts of budgets that were used: what is used of each and its limit, and
in brackets what is held for the worst case of completions that are under way. The
budgets are those of the configuration; the one called task is what a task brings.`,
		Example: `  weir budgets
  weir budgets --budget team --json`,
		Args: Exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.asking(env, func(c *api) error {
				all, err := accounts(cmd.Context(), c, name)
				switch {
				case err != nil:
					return err
				case len(all) == 0 && name != "":
					return noBudget(cmd.Context(), c, name)
				}
				return printBudgets(env, all, f.asJSON)
			})
		},
	}
	f.register(cmd, env)
	cmd.Flags().StringVar(&name, "budget", "", "only the accounts of this budget")
	return cmd
}

// accounts reads those of one budget; of all without a name.
func accounts(ctx context.Context, c *api, name string) ([]schemas.BudgetView, error) {
	query := url.Values{}
	if name != "" {
		query.Set("budget", name)
	}
	return pages(ctx, c.Budgets, query, math.MaxInt)
}

// noBudget is the error of asking for a budget that has no account. The server tells of
// accounts that were used and of nothing else, so that it may be one that is new.
func noBudget(ctx context.Context, c *api, name string) error {
	all, err := accounts(ctx, c, "")
	if err != nil {
		return err
	}
	var used []string
	for _, b := range all {
		if !slices.Contains(used, b.Budget) {
			used = append(used, b.Budget)
		}
	}
	if len(used) == 0 {
		return fmt.Errorf("there is no budget %s, or nothing was used of it yet; nothing was used of any", name)
	}
	return fmt.Errorf("there is no budget %s, or nothing was used of it yet; used were: %s", name, strings.Join(used, ", "))
}

func printBudgets(env *Env, all []schemas.BudgetView, asJSON bool) error {
	const empty = "no budget was used yet; `budgets` in the configuration bounds what may be used"
	return printList(env, asJSON, all, empty, "BUDGET\tOF\tREQUESTS\tTOKENS\tUSD\tOPEN\tBEGINS ANEW", func(b schemas.BudgetView) []any {
		return []any{b.Budget, ownerOf(b), countOf(b.Requests), countOf(b.Tokens), countOf(b.USD), b.Open, cmp.Or(when(b.Resets), "never")}
	})
}

// ownerOf is whose an account is, as far as its budget tells them apart.
func ownerOf(b schemas.BudgetView) string {
	var parts []string
	for _, p := range []struct{ word, name string }{{"token", b.Token}, {"task", b.Task}, {"model", b.Model}} {
		if p.name != "" {
			parts = append(parts, p.word+" "+p.name)
		}
	}
	if len(parts) == 0 {
		return "all"
	}
	return strings.Join(parts, ", ")
}

// countOf is used/limit, and in brackets what is held.
func countOf(c *schemas.BudgetCount) string {
	if c == nil {
		return "-"
	}
	number := func(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }
	text := number(c.Used) + "/" + number(c.Limit)
	if c.Held > 0 {
		text += " (" + number(c.Held) + ")"
	}
	return text
}
