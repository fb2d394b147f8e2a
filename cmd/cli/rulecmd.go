package cli

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

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
