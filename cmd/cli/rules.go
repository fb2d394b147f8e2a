package cli

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"weir/client"
	"weir/schemas"
)

func newRules(env *Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "rules",
		Short: "steer outbound calls: mock, delay or redirect them, change their headers",
		Long: `Read and write the traffic rules of a running Weir, by its agent API. A rule takes
effect on the next attempt of every call that it matches. Policy is asked about what
the rules have made of a call, so that no rule lets out what policy denies.

A change is made to the newest rules, and tried once more if somebody else has
changed them meanwhile; on and off, which mean the same whatever the rules are, up
to ten times. With --if-match it is made to the set with that etag or not at all. A
rule or a patch is given as JSON, as FILE or @FILE that holds it, or as - for standard
input. With --json, standard output has the data of the answer, and standard error
the answer itself where it is an error. Exit 1 on a refusal.

A change takes a token with the scope rules:write, a look at the rules that one or
actions:read, and reset admin.`,
		Example: `  weir rules create '{"id":"no-pay","type":"mock","match":{"url_pattern":"https://pay.example.com/*"},
                      "action":{"body_mode":"json","body":{"paid":true}}}'
  weir rules preview POST https://pay.example.com/charge
  weir rules list --json | jq '.rules[].id'
  weir rules patch no-pay '{"action":{"status":503}}'
  weir rules disable no-pay
  weir rules off                     # none has any effect now
  weir rules record 01890a5d-… --request-id rehearsal-1`,
		Args: Exactly(0, "one of list, get, create, patch, enable, disable, on, off, status, preview, record, reset, relay"),
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(
		newRulesList(env), newRulesGet(env), newRulesCreate(env), newRulesPatch(env),
		newRuleSwitch(env, "enable ID", "let a rule take effect", schemas.OpRulesEnable, "is enabled"),
		newRuleSwitch(env, "disable ID", "keep a rule from taking effect", schemas.OpRulesDisable, "is disabled"),
		newGlobalSwitch(env, "on", "let the rules take effect that are enabled", schemas.OpGlobalOn, "the rules are on"),
		newGlobalSwitch(env, "off", "keep all rules from taking effect, at once", schemas.OpGlobalOff, "all rules are off"),
		newRulesStatus(env), newRulesPreview(env), newRulesRecord(env), newRulesReset(env), newRulesRelay(env),
	)
	return cmd
}

// rulesFlags are what the subcommands of `weir rules` have in common.
type rulesFlags struct{ clientFlags }

// asking has do talk to the server, and says a refusal in the form that was asked
// for.
func (f *clientFlags) asking(env *Env, do func(c *api) error) error {
	c, err := f.client(env)
	if err != nil {
		return err
	}
	err = do(c)
	var raw json.RawMessage
	if no, refused := errors.AsType[*agentError](err); refused {
		raw = no.raw
	} else if no, refused := errors.AsType[*client.Error](err); refused {
		raw = no.Body
	}
	switch {
	case raw == nil:
		return err
	case f.asJSON:
		fmt.Fprintf(env.Err, "%s\n", bytes.TrimSpace(raw))
	default:
		fmt.Fprintf(env.Err, "weir: %v\n", err)
	}
	return quietError{}
}

// writeFlags are those of the subcommands that change something.
type writeFlags struct {
	rulesFlags
	ifMatch string
}

func (f *writeFlags) register(cmd *cobra.Command, env *Env) {
	f.rulesFlags.register(cmd, env)
	cmd.Flags().StringVar(&f.ifMatch, "if-match", "", "the etag of the rules that the change is for (default the newest, tried again once)")
}

// writer makes the changes.
func (f *writeFlags) writer(c *api) *ruleWriter {
	return &ruleWriter{c: c, etag: f.ifMatch, pinned: f.ifMatch != "", tries: ruleTries}
}

// say prints what was done: for a program the data, for a person a line.
func (f *writeFlags) say(env *Env, done written, line string) error {
	if f.asJSON {
		_, err := fmt.Fprintf(env.Out, "%s\n", done.data)
		return err
	}
	_, err := fmt.Fprintf(env.Out, "%s; %s\n", line, done.RulesEtag)
	return err
}

// newRuleSwitch is a command that turns one rule on or off.
func newRuleSwitch(env *Env, use, short, operation, done string) *cobra.Command {
	var f writeFlags
	cmd := &cobra.Command{
		Use: use, Short: short, Args: Exactly(1, "the id of a rule"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.asking(env, func(c *api) error {
				w, err := f.writer(c).write(cmd.Context(), operation, map[string]any{"id": args[0]})
				if err != nil {
					return err
				}
				return f.say(env, w, fmt.Sprintf("rule %s %s", args[0], done))
			})
		},
	}
	f.register(cmd, env)
	return cmd
}

// newGlobalSwitch is a command that turns all rules on or off.
func newGlobalSwitch(env *Env, use, short, operation, done string) *cobra.Command {
	var f writeFlags
	cmd := &cobra.Command{
		Use: use, Short: short, Args: Exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.asking(env, func(c *api) error {
				w := f.writer(c)
				w.tries = switchTries
				made, err := w.write(cmd.Context(), operation, map[string]any{})
				if err != nil {
					return err
				}
				return f.say(env, made, done)
			})
		},
	}
	f.register(cmd, env)
	return cmd
}

func newRulesPatch(env *Env) *cobra.Command {
	var f writeFlags
	cmd := &cobra.Command{
		Use:   "patch ID PATCH",
		Short: "change some of a rule",
		Long: `Change some of a rule: what the patch leaves out stays as it is, null takes a
member away, and a list is replaced as a whole. PATCH is JSON, FILE, @FILE or -.`,
		Example: `  weir rules patch slow '{"action":{"delay_ms":1500}}'
  weir rules patch slow '{"priority":10,"match":{"method":"POST"}}' --json`,
		Args: Exactly(2, "the id of a rule and a patch"),
		RunE: func(cmd *cobra.Command, args []string) error {
			patch, err := jsonArgument(env, "patch", args[1])
			if err != nil {
				return err
			}
			return f.asking(env, func(c *api) error {
				done, err := f.writer(c).write(cmd.Context(), schemas.OpRulesPatch, map[string]any{"id": args[0], "patch": patch})
				if err != nil {
					return err
				}
				return f.say(env, done, "rule "+args[0]+" is changed")
			})
		},
	}
	f.register(cmd, env)
	return cmd
}

// createFlags are those of `weir rules create`.
type createFlags struct {
	writeFlags
	group       string
	createGroup bool
}

func newRulesCreate(env *Env) *cobra.Command {
	var f createFlags
	cmd := &cobra.Command{
		Use:   "create RULE",
		Short: "make a rule",
		Long: `Make a rule. RULE is JSON, FILE, @FILE or -; a list makes several, in its order,
and stops at the first that is refused. Without --group a rule goes to the group that
it names itself, or else to "default".`,
		Example: `  weir rules create '{"id":"slow","type":"delay","match":{"url_pattern":"https://api.example.com/*"},"action":{"delay_ms":1200}}'
  weir rules create @rule.json --group checkout --create-group`,
		Args: Exactly(1, "a rule"),
		RunE: func(cmd *cobra.Command, args []string) error {
			doc, err := jsonArgument(env, "rule", args[0])
			if err != nil {
				return err
			}
			rules := list(doc)
			if len(rules) == 0 {
				return usageError{errors.New("the list holds no rule")}
			}
			return f.asking(env, func(c *api) error {
				w := f.writer(c)
				for _, rule := range rules {
					if err := f.create(cmd, env, w, rule); err != nil {
						return err
					}
				}
				return nil
			})
		},
	}
	f.register(cmd, env)
	cmd.Flags().StringVar(&f.group, "group", "", "the group that the rule goes to")
	cmd.Flags().BoolVar(&f.createGroup, "create-group", false, "make the group if there is none")
	return cmd
}

func (f *createFlags) create(cmd *cobra.Command, env *Env, w *ruleWriter, rule json.RawMessage) error {
	args := map[string]any{"rule": rule}
	if group := cmp.Or(f.group, groupOf(rule)); group != "" {
		args["group"] = group
	}
	if f.createGroup {
		args["create_group_if_missing"] = true
	}
	done, err := w.write(cmd.Context(), schemas.OpRulesCreate, args)
	if err != nil {
		return err
	}
	if done.Rule == nil {
		return errors.New("the server made a rule and did not say which")
	}
	return f.say(env, done, fmt.Sprintf("rule %s is made in group %s", done.Rule.ID, done.Rule.Group))
}

// groupOf is the group that a rule names itself.
func groupOf(rule json.RawMessage) string {
	var named struct {
		Group string `json:"group"`
	}
	if json.Unmarshal(rule, &named) != nil {
		return "" // the server says what is wrong with it
	}
	return named.Group
}

// list is the items of a JSON list, or the one document that is none.
func list(doc json.RawMessage) []json.RawMessage {
	var items []json.RawMessage
	if json.Unmarshal(doc, &items) != nil || items == nil {
		return []json.RawMessage{doc}
	}
	return items
}

// jsonArgument is a JSON document that is given as such, in a file or, for -, on
// standard input.
func jsonArgument(env *Env, what, text string) (json.RawMessage, error) {
	switch first := strings.TrimLeft(text, " \t\r\n"); {
	case text == "-":
		text = "@-"
	case first != "" && strings.ContainsRune(`{["`, rune(first[0])), strings.HasPrefix(text, "@"):
	default:
		text = "@" + text
	}
	return document(env, what, text)
}

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
