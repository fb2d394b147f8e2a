package cli

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"weir/schemas"
)

func newPolicyShow(env *Env) *cobra.Command {
	var f policyFlags
	cmd := &cobra.Command{
		Use:   "show",
		Short: "list the entries of the policy and what they leave to callers",
		Long: `List the entries of the policy in the order in which they are tried: where each leads,
what it adds to a call (names, no values), and what it leaves to callers. A * means that
callers may set anything that is not refused everywhere.

The policy is that of the local configuration, or with --server the one in force on a
running Weir.`,
		Example: `  weir policy show
  weir policy show --config weir.yaml --json
  weir policy show --server http://127.0.0.1:8092`,
		Args: Exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			var v schemas.PolicyView
			if cmd.Flags().Changed("server") {
				c, err := f.client(env)
				if err == nil {
					v, err = c.Policy(cmd.Context())
				}
				if err != nil {
					return err
				}
			} else {
				p, err := env.Policy(f.config)
				if err != nil {
					return err
				}
				v = p.View()
			}
			if f.asJSON {
				return printDocuments(env.Out, v)
			}
			return printPolicy(env.Out, v)
		},
	}
	f.register(cmd, env)
	return cmd
}

func printPolicy(out io.Writer, v schemas.PolicyView) error {
	list := func(of []string) string { return cmp.Or(strings.Join(of, " "), "-") }
	table := newTable(out)
	fmt.Fprintln(table, "ENTRY\tMODE\tMETHODS\tURL PREFIX\tNETWORK\tADDS\tCALLERS MAY SET")
	for _, e := range v.Entries {
		var adds, callers []string
		for _, part := range []struct {
			to    *[]string
			what  string
			names []string
		}{
			{&adds, "headers", e.Headers},
			{&adds, "query", e.Query},
			{&adds, "body", e.Body},
			{&callers, "headers", e.CallerHeaders},
			{&callers, "params", e.CallerParams},
			{&callers, "members", e.Pass},
		} {
			if len(part.names) > 0 {
				*part.to = append(*part.to, part.what+": "+strings.Join(part.names, ", "))
			}
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", e.Name, e.Mode, list(e.Methods), cmp.Or(e.URLPrefix, "-"),
			list(append([]string{e.Network}, e.CIDRs...)), cmp.Or(strings.Join(adds, "; "), "-"), cmp.Or(strings.Join(callers, "; "), "-"))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "allowed hosts: %s\nversion: %s\n", cmp.Or(strings.Join(v.AllowedHosts, ", "), "none"), v.Version)
	return err
}
