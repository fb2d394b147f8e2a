package cli

import "github.com/spf13/cobra"

func newRulesReset(env *Env) *cobra.Command {
	var f writeFlags
	cmd := &cobra.Command{
		Use:   "reset",
		Short: "give up rules that cannot be read, for an empty set",
		Long: `Put an empty set of rules, which is on, in the place of one that the running Weir
cannot read: a newer version has written it, or it is damaged. Until then all calls
of the tenant are denied. What was stored is out of Weir's reach then; where a newer
version has written it, run that one instead. Rules that can be read are left as they
are, and the command is refused.`,
		Args: Exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.asking(env, func(c *api) error {
				done, err := writtenOf(c.resetRules(cmd.Context()))
				if err != nil {
					return err
				}
				return f.say(env, done, "the rules are given up; there are none now, and calls go out again")
			})
		},
	}
	f.rulesFlags.register(cmd, env)
	return cmd
}
