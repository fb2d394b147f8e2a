package cli

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"weir/schemas"
)

func newRulesList(env *Env) *cobra.Command {
	var f rulesFlags
	group := ""
	cmd := &cobra.Command{
		Use: "list", Short: "list the rules, in the order they were made in", Args: Exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.asking(env, func(c *api) error {
				args := map[string]any{}
				if cmd.Flags().Changed("group") {
					args["group"] = group
				}
				data, err := c.operate(cmd.Context(), schemas.OpRulesList, args)
				if err != nil || f.asJSON {
					return printData(env.Out, data, err)
				}
				var all struct {
					Rules     []schemas.Rule `json:"rules"`
					RulesEtag string         `json:"rules_etag"`
				}
				if err := json.Unmarshal(data, &all); err != nil {
					return fmt.Errorf("the server's answer cannot be read: %w", err)
				}
				s, err := c.rulesStatus(cmd.Context())
				if err != nil {
					return err
				}
				if len(all.Rules) == 0 {
					fmt.Fprintln(env.Err, noRules(group))
				} else if err := printRules(env.Out, all.Rules, time.Now()); err != nil {
					return err
				}
				if !s.GlobalActive {
					fmt.Fprintln(env.Err, "all rules are off: `weir rules on` lets them take effect")
				}
				_, err = fmt.Fprintln(env.Err, all.RulesEtag)
				return err
			})
		},
	}
	f.register(cmd, env)
	cmd.Flags().StringVar(&group, "group", "", "only those of a group")
	return cmd
}

// noRules says that there are none, and what to do.
func noRules(group string) string {
	if group != "" {
		return "there are no rules in group " + group + "; `weir rules list` shows those of all groups"
	}
	return "there are no rules yet; `weir rules create --help` shows how to make one"
}

func newRulesGet(env *Env) *cobra.Command {
	var f rulesFlags
	cmd := &cobra.Command{
		Use: "get ID", Short: "show one rule", Args: Exactly(1, "the id of a rule"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.asking(env, func(c *api) error {
				data, err := c.operate(cmd.Context(), schemas.OpRulesGet, map[string]any{"id": args[0]})
				if err != nil || f.asJSON {
					return printData(env.Out, data, err)
				}
				var one struct {
					Rule      schemas.Rule `json:"rule"`
					RulesEtag string       `json:"rules_etag"`
				}
				if err := json.Unmarshal(data, &one); err != nil {
					return fmt.Errorf("the server's answer cannot be read: %w", err)
				}
				enc := json.NewEncoder(env.Out)
				enc.SetEscapeHTML(false)
				enc.SetIndent("", "  ")
				if err := enc.Encode(one.Rule); err != nil {
					return err
				}
				_, err = fmt.Fprintln(env.Err, one.RulesEtag)
				return err
			})
		},
	}
	f.register(cmd, env)
	return cmd
}

func newRulesStatus(env *Env) *cobra.Command {
	var f rulesFlags
	cmd := &cobra.Command{
		Use: "status", Short: "say whether the rules are on, how many there are, and their etag", Args: Exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.asking(env, func(c *api) error {
				s, err := c.rulesStatus(cmd.Context())
				if err != nil || f.asJSON {
					return printData(env.Out, s.data, err)
				}
				word := "on"
				if !s.GlobalActive {
					word = "off"
				}
				_, err = fmt.Fprintf(env.Out, "rules are %s; %d of them; %s\n", word, s.RuleCount, s.RulesEtag)
				return err
			})
		},
	}
	f.register(cmd, env)
	return cmd
}

// printData prints what the agent API answered, on a line of its own, unless
// there is an error.
func printData(out io.Writer, data json.RawMessage, err error) error {
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%s\n", data)
	return err
}

// printRules prints rules as a table.
func printRules(out io.Writer, rules []schemas.Rule, now time.Time) error {
	table := newTable(out)
	fmt.Fprintln(table, "ID\tTYPE\tSTATE\tPRIORITY\tGROUP\tMETHOD\tPATTERN\tACTION\tSCOPE")
	for _, r := range rules {
		cells := []string{
			r.ID, r.Type, stateOf(r, now), strconv.Itoa(r.Priority), r.Group, cmp.Or(r.Match.Method, "ANY"), cut(r.Match.URLPattern, 60),
			cut(actionText(r), 60), scopeText(r.Scope),
		}
		for i := range cells {
			cells[i] = oneLine(cells[i])
		}
		fmt.Fprintln(table, strings.Join(cells, "\t"))
	}
	return table.Flush()
}

// stateOf says whether a rule takes effect while rules are on, and for how long.
func stateOf(r schemas.Rule, now time.Time) string {
	switch {
	case !r.Enabled:
		return "disabled"
	case r.ExpiresAt.IsZero():
		return "enabled"
	case !r.ExpiresAt.After(now):
		return "expired"
	default:
		return "until " + r.ExpiresAt.UTC().Format("2006-01-02 15:04Z")
	}
}

// actionText says in a few words what a rule does.
func actionText(r schemas.Rule) string {
	switch a := r.Action; r.Type {
	case schemas.RuleMock:
		if a.Status == 0 {
			a.Status = 200
		}
		if a.BodyMode == "" && len(a.Body) == 0 {
			return fmt.Sprintf("%d without a body", a.Status)
		}
		return fmt.Sprintf("%d %s", a.Status, compact(a.Body))
	case schemas.RuleDelay:
		if a.DelayMS == nil {
			return ""
		}
		return (time.Duration(*a.DelayMS) * time.Millisecond).String()
	case schemas.RuleRedirect:
		return a.ToURL
	case schemas.RuleHeaders:
		return strings.Join(slices.Concat(changeTexts("", a.RequestHeaders), changeTexts("response ", a.ResponseHeaders)), ", ")
	default:
		return r.Type
	}
}

func changeTexts(where string, changes []schemas.HeaderChange) []string {
	texts := make([]string, len(changes))
	for i, c := range changes {
		texts[i] = fmt.Sprintf("%s %s%s", c.Op, where, c.Name)
	}
	return texts
}

// compact is a JSON document without white space.
func compact(doc json.RawMessage) string {
	var b bytes.Buffer
	if err := json.Compact(&b, doc); err != nil {
		return string(doc)
	}
	return b.String()
}

// scopeText says which actions a rule is for.
func scopeText(s *schemas.RuleScope) string {
	if s == nil {
		return "all"
	}
	var parts []string
	for _, p := range []struct{ name, value string }{
		{"kind", string(s.ActionKind)},
		{"agent", s.Agent},
		{"task", s.TaskID},
		{"request", s.RequestID},
	} {
		if p.value != "" {
			parts = append(parts, p.name+"="+p.value)
		}
	}
	return strings.Join(parts, " ")
}
