package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"weir/schemas"
)

func newPolicy(env *Env) *cobra.Command {
	return Group(&cobra.Command{
		Use: "policy", Short: "Show, explain, test and reload the policy",
		Example: `  weir policy show
  weir policy explain GET https://api.example.com/orders
  weir policy reload`,
	}, newPolicyShow(env), newPolicyExplain(env), newPolicyTest(env), newPolicyReload(env))
}

func newPolicyReload(env *Env) *cobra.Command {
	all := false
	cmd := &cobra.Command{
		Use:   "reload",
		Short: "Reload the policy of a running Weir",
		Long: `Reload the configuration of a running Weir and put its policy in force. When this
returns, that node begins no call that the policy denies. A policy with a mistake changes
nothing.

Each node of a cluster reads its own file. With --all every node reloads, and the output
has a line for each. Exit 1 if a node refused, or if the nodes do not have the same policy
afterwards. A node that cannot be reached is not in the list.`,
		Example: `  weir policy reload
  weir policy reload --all --json`,
		Args: Exactly(0, "no arguments"),
	}
	cmd.Flags().BoolVar(&all, "all", false, "reload every node of the cluster, not only the one at the URL")
	return (&clientFlags{words: true}).command(env, cmd, func(ctx context.Context, c *api, _ []string) error {
		var req any
		if all {
			req = schemas.ReloadRequest{All: true}
		}
		done, err := post[schemas.Reload](ctx, c, routePolicy+"/reload", req)
		if err != nil {
			return err
		}
		if c.asJSON {
			err = PrintDocument(c.Out, done)
		} else {
			printReload(c.Out, done)
		}
		if err == nil && !agree(done.Nodes) {
			return Printed()
		}
		return err
	})
}

// printReload prints what became of a reload: of one node, or a line for each.
func printReload(out io.Writer, done schemas.Reload) {
	if len(done.Nodes) == 0 {
		fmt.Fprintln(out, reloaded(done.Version, done.Previous, done.Changed))
		if done.Node != "" {
			fmt.Fprintf(out, "that is node %s: the others have files of their own, and --all asks each\n", done.Node)
		}
		return
	}
	for _, n := range done.Nodes {
		text := reloaded(n.Version, n.Previous, n.Changed)
		switch {
		case n.Version == "":
			text = n.Error
		case n.Error != "":
			text = fmt.Sprintf("policy %s is in force as before: %s", n.Version, n.Error)
		}
		fmt.Fprintf(out, "%s %s: %s\n", n.Role, n.Node, text)
	}
	if !agree(done.Nodes) {
		fmt.Fprintf(out, "the %d nodes do not have the same policy\n", len(done.Nodes))
	}
}

func reloaded(version, previous string, changed bool) string {
	switch {
	case changed && version == previous:
		return fmt.Sprintf("the agents, the models or their budgets have changed: policy %s is in force as before", version)
	case changed:
		return fmt.Sprintf("policy %s is in force, in place of %s", version, previous)
	default:
		return fmt.Sprintf("nothing changed: policy %s is in force", version)
	}
}

func agree(nodes []schemas.NodeReport) bool {
	for _, n := range nodes {
		if n.Error != "" || n.Version != nodes[0].Version {
			return false
		}
	}
	return true
}

func newPolicyShow(env *Env) *cobra.Command {
	var f policyFlags
	cmd := &cobra.Command{
		Use:   "show",
		Short: "Show the entries of the policy",
		Long: `Show the entries of the policy in the order in which they are tried: the URLs of each, the
names of the headers and members that it adds to a call, and what callers may set. A *
or "any" means that callers may set everything that is not forbidden for all. DELIVERY has the
retries, the idempotency keys, the probe, the response schema and the limits of an entry.

The policy is the one in force on a running Weir, or with --config the one of a file.`,
		Example: `  weir policy show
  weir policy show --server http://127.0.0.1:8093 --json
  weir policy show --config weir.yaml`,
		Args: Exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, p, _, err := f.source(cmd, env)
			if err != nil {
				return err
			}
			v, err := p.View()
			if err != nil || c.asJSON {
				return c.print(v, err, "")
			}
			return printPolicy(c.Out, v)
		},
	}
	f.register(cmd, env)
	return cmd
}

func printPolicy(out io.Writer, v schemas.PolicyView) error {
	list := func(names []string) string { return strings.Join(names, ", ") }
	table := newTable(out)
	fmt.Fprintln(table, "ENTRY\tMODE\tMETHODS\tURL PREFIX\tNETWORK\tADDS\tCALLERS MAY SET\tDELIVERY")
	for _, e := range v.Entries {
		adds := labels(": ", "; ", "headers", list(e.Headers), "query", list(e.Query), "body", list(e.Body))
		callers := labels(": ", "; ", "headers", list(e.CallerHeaders), "params", list(e.CallerParams), "members", list(e.Pass))
		if adds == "" && callers == "" && !e.Agent {
			callers = "any"
		}
		printRow(table, e.Name, e.Mode, orDash(strings.Join(e.Methods, " ")), orDash(e.URLPrefix),
			orDash(strings.Join(append([]string{e.Network}, e.CIDRs...), " ")), orDash(adds), orDash(callers), orDash(deliveryText(e)))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "allowed hosts: %s\nversion: %s\n", cmp.Or(list(v.AllowedHosts), "none"), v.Version)
	return err
}
