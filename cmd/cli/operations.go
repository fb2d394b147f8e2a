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
	"time"

	"github.com/spf13/cobra"

	"weir/schemas"
)

// targetFlags say what an operation is about.
type targetFlags struct {
	destination, tenant, kind string
}

func (f *targetFlags) register(cmd *cobra.Command, all bool) {
	cmd.Flags().StringVar(&f.destination, "destination", "", "calls to this destination, such as https://api.example.com")
	if all {
		cmd.Flags().StringVar(&f.tenant, "tenant", "", "calls for this tenant")
		cmd.Flags().StringVar(&f.kind, "kind", "", "calls of this kind of action, such as plan")
	}
}

// target is what the arguments and flags name.
func (f *targetFlags) target(cmd *cobra.Command, args []string) (schemas.Target, error) {
	t := schemas.Target{Destination: f.destination, Tenant: f.tenant, Kind: schemas.Kind(f.kind)}
	if len(args) > 0 {
		t.Entry = args[0]
	}
	if t.Named() == 1 {
		return t, nil
	}
	what := "an entry of the policy or --destination"
	if cmd.Flags().Lookup("tenant") != nil {
		what = "an entry of the policy, --destination, --tenant or --kind"
	}
	return t, usageError{fmt.Errorf("name one thing: %s; see `%s --help`", what, cmd.CommandPath())}
}

func atMostEntry(cmd *cobra.Command, args []string) error {
	if len(args) > 1 {
		return usageError{fmt.Errorf("%s takes one entry of the policy; see `%s --help`", cmd.CommandPath(), cmd.CommandPath())}
	}
	return nil
}

func newPause(env *Env) *cobra.Command {
	var f clientFlags
	var about targetFlags
	var reason string
	cmd := &cobra.Command{
		Use:   "pause [ENTRY]",
		Short: "hold calls back, on all workers",
		Long: `Hold back the calls of an entry of the policy, to a destination, for a tenant or of a
kind of action, until they are resumed. They wait, up to their deadlines: nothing of them
fails for that, and new ones are still accepted. What is under way is not stopped.`,
		Example: `  weir pause github --reason "their maintenance, until 14:00"
  weir pause --destination https://api.example.com
  weir pause --tenant acme
  weir pause --kind plan`,
		Args: atMostEntry,
		RunE: func(cmd *cobra.Command, args []string) error {
			t, err := about.target(cmd, args)
			if err != nil {
				return err
			}
			return operate(cmd.Context(), env, &f, schemas.RouteOperationsPause, schemas.OperationRequest{Target: t, Reason: reason}, "paused: calls %s wait until `weir resume` lets them go")
		},
	}
	f.register(cmd, env)
	about.register(cmd, true)
	cmd.Flags().StringVar(&reason, "reason", "", "why, for whoever lists the operations")
	return cmd
}

func newResume(env *Env) *cobra.Command {
	var f clientFlags
	var about targetFlags
	cmd := &cobra.Command{
		Use:   "resume [ENTRY]",
		Short: "let calls go that were paused",
		Long:  `Let the calls go that a pause holds back. What waits goes on at once.`,
		Example: `  weir resume github
  weir resume --tenant acme`,
		Args: atMostEntry,
		RunE: func(cmd *cobra.Command, args []string) error {
			t, err := about.target(cmd, args)
			if err != nil {
				return err
			}
			return operate(cmd.Context(), env, &f, schemas.RouteOperationsResume, schemas.OperationRequest{Target: t}, "resumed: calls %s")
		},
	}
	f.register(cmd, env)
	about.register(cmd, true)
	return cmd
}

func newPin(env *Env) *cobra.Command {
	var f clientFlags
	var about targetFlags
	var reason string
	cmd := &cobra.Command{
		Use:   "pin open|closed|off [ENTRY]",
		Short: "hold a destination open or closed, whatever Weir has found out about it",
		Long: `Weir leaves a destination alone that failed too often in a row, or that asked for it with
429 or Retry-After. A pin goes before that: pinned closed, the destination is called all the
same; pinned open, it is not. It is about all destinations of an entry of the policy, or
about one, whose own pin goes before its entry's. Off takes it back.`,
		Example: `  weir pin closed --destination https://api.example.com
  weir pin open github --reason "their data is wrong today"
  weir pin off github`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) < 1 || len(args) > 2 {
				return usageError{fmt.Errorf("%s takes open, closed or off, and an entry or --destination; see `%s --help`", cmd.CommandPath(), cmd.CommandPath())}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			t, err := about.target(cmd, args[1:])
			if err != nil {
				return err
			}
			req, route := schemas.OperationRequest{Target: t, State: args[0], Reason: reason}, schemas.RouteOperationsPin
			var said string
			switch args[0] {
			case schemas.PinOpen:
				said = "pinned open: calls %s wait"
			case schemas.PinClosed:
				said = "pinned closed: calls %s are made, whatever becomes of them"
			case "off":
				req.State, route, said = "", schemas.RouteOperationsUnpin, "unpinned: calls %s are made as Weir finds their destination"
			default:
				return usageError{fmt.Errorf("%q is not open, closed or off; see `%s --help`", args[0], cmd.CommandPath())}
			}
			return operate(cmd.Context(), env, &f, route, req, said)
		},
	}
	f.register(cmd, env)
	about.register(cmd, false)
	cmd.Flags().StringVar(&reason, "reason", "", "why, for whoever lists the operations")
	return cmd
}

// operate sends one request, and says what is in force now; said has a place for what it
// is about.
func operate(ctx context.Context, env *Env, f *clientFlags, route string, req schemas.OperationRequest, said string) error {
	return f.asking(env, func(c *api) error {
		op, err := c.Operate(ctx, route, req)
		if err != nil {
			return err
		}
		return printOne(env, f.asJSON, op, said, aboutOf(op.Target))
	})
}

// aboutOf words a target.
func aboutOf(t schemas.Target) string {
	switch {
	case t.Entry != "":
		return "under the entry " + t.Entry
	case t.Destination != "":
		return "to " + t.Destination
	case t.Tenant != "":
		return "for the tenant " + t.Tenant
	default:
		return "of kind " + string(t.Kind)
	}
}

func newOperations(env *Env) *cobra.Command {
	var f clientFlags
	cmd := &cobra.Command{
		Use:   "operations",
		Short: "see which calls are held back, and why",
		Long: `See what operators have paused and pinned, and the destinations that are left alone
because they asked for it (429 or Retry-After) or failed too often in a row.`,
		Example: `  weir operations
  weir operations --json`,
		Args: Exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.asking(env, func(c *api) error {
				v, err := c.Operations(cmd.Context())
				switch {
				case err != nil:
					return err
				case f.asJSON:
					return printDocuments(env.Out, v)
				case len(v.Items)+len(v.Destinations) == 0:
					fmt.Fprintln(env.Err, "nothing is held back")
					return nil
				}
				return printOperations(env, v)
			})
		},
	}
	f.register(cmd, env)
	return cmd
}

func printOperations(env *Env, v schemas.OperationsView) error {
	table := newTable(env.Out)
	fmt.Fprintln(table, "WHAT\tCALLS\tBY\tSINCE\tUNTIL\tREASON")
	for _, op := range v.Items {
		what := "paused"
		if op.Do == schemas.OperationPin {
			what = "pinned " + op.State
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\n", what, aboutOf(op.Target), orDash(op.By), op.At.Local().Format(time.DateTime), "-", orDash(op.Reason))
	}
	for _, d := range v.Destinations {
		until, why := "-", map[string]string{
			schemas.DestinationAsked:  "it asked to be left alone",
			schemas.DestinationOpen:   fmt.Sprintf("%d failures in a row", d.Failures),
			schemas.DestinationTrying: "one call sees whether it is well again",
		}[d.State]
		if len(d.Tenants) > 0 {
			why += ", by tenant " + strings.Join(d.Tenants, ", ")
		}
		if !d.Until.IsZero() {
			until = d.Until.Local().Format(time.DateTime)
		}
		fmt.Fprintf(table, "left alone\tto %s under the entry %s\tweir\t-\t%s\t%s\n", d.Destination, d.Entry, until, why)
	}
	return table.Flush()
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

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
