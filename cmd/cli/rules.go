package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"weir/schemas"
)

func newRules(env *Env) *cobra.Command {
	return Group(
		&cobra.Command{
			Use:   "rules",
			Short: "Mock, delay or redirect calls, and change their headers",
			Long: `Read and write the traffic rules of a running Weir, by its agent API. A rule takes
effect on the next attempt of every call that it matches. The policy decides on the call
after the rules have changed it, so that no rule allows a call that the policy denies.

A command changes the newest rules, and tries once more if another client changed them
meanwhile (on and off: up to ten times). With --if-match it changes only the rules with
that etag. A rule or a patch is JSON, FILE or @FILE with JSON, or - for standard input.
With --json, standard output has the data of the answer, and standard error an error
document. Exit 1 on a refusal.

Writing needs a token with the scope rules:write, reading that one or actions:read, and
reset admin.`,
			Example: `  weir rules create '{"id":"no-pay","type":"mock","match":{"url_pattern":"https://pay.example.com/*"},
                      "action":{"body_mode":"json","body":{"paid":true}}}'
  weir rules preview POST https://pay.example.com/charge
  weir rules ls --json | jq '.rules[].id'
  weir rules patch no-pay '{"action":{"status":503}}'
  weir rules disable no-pay
  weir rules off                     # no rule has any effect now
  weir rules record 01890a5d-… --request-id rehearsal-1`,
		},
		newRulesList(env), newRulesGet(env), newRulesCreate(env), newRulesPatch(env),
		newRuleSwitch(env, "enable ID", "Enable a rule", "  weir rules enable no-pay", schemas.OpRulesEnable, "rule %s is enabled"),
		newRuleSwitch(env, "disable ID", "Disable a rule", "  weir rules disable no-pay", schemas.OpRulesDisable, "rule %s is disabled"),
		newRuleSwitch(env, "on", "Turn the enabled rules on", "  weir rules on", schemas.OpGlobalOn, "the rules are on"),
		newRuleSwitch(env, "off", "Turn all rules off, at once", "  weir rules off", schemas.OpGlobalOff, "all rules are off"),
		newRulesStatus(env), newRulesPreview(env), newRulesRecord(env), newRulesReset(env), newRulesRelay(env),
	)
}

// changesRules completes a command that changes the rules.
func changesRules(env *Env, cmd *cobra.Command, run func(ctx context.Context, w *ruleWriter, args []string) error) *cobra.Command {
	ifMatch := cmd.Flags().String("if-match", "", "the etag of the rules that the change is for (default the newest, tried again once)")
	return remote(env, cmd, func(ctx context.Context, c *api, args []string) error {
		return run(ctx, &ruleWriter{api: c, etag: *ifMatch, pinned: *ifMatch != "", tries: ruleTries}, args)
	})
}

// newRuleSwitch is a command that turns one rule or all of them on or off. done is printed then, with the
// rule's id at its %s.
func newRuleSwitch(env *Env, use, short, example, operation, done string) *cobra.Command {
	cmd := &cobra.Command{Use: use, Short: short, Example: example, Args: Exactly(0, "no arguments")}
	one := strings.HasSuffix(use, " ID")
	if one {
		cmd.Args = Exactly(1, "the id of a rule")
	}
	return changesRules(env, cmd, func(ctx context.Context, w *ruleWriter, args []string) error {
		if !one {
			w.tries = switchTries
			return w.change(ctx, operation, map[string]any{}, done)
		}
		return w.change(ctx, operation, map[string]any{"id": args[0]}, done, args[0])
	})
}

func newRulesPatch(env *Env) *cobra.Command {
	return changesRules(env, &cobra.Command{
		Use:   "patch ID PATCH",
		Short: "Change some members of a rule",
		Long: `Change some members of a rule. The others stay, null removes a member, and a list is
replaced as a whole. PATCH is JSON, FILE, @FILE or -.`,
		Example: `  weir rules patch slow '{"action":{"delay_ms":1500}}'
  weir rules patch slow '{"priority":10,"match":{"method":"POST"}}' --json`,
		Args: Exactly(2, "the id of a rule and a patch"),
	}, func(ctx context.Context, w *ruleWriter, args []string) error {
		patch, err := w.looseDocument("patch", args[1])
		if err != nil {
			return err
		}
		return w.change(ctx, schemas.OpRulesPatch, map[string]any{"id": args[0], "patch": patch}, "rule %s is changed", args[0])
	})
}

func newRulesCreate(env *Env) *cobra.Command {
	group, createGroup := "", false
	cmd := &cobra.Command{
		Use:   "create RULE",
		Short: "Create a rule",
		Long: `Create a rule. RULE is JSON, FILE, @FILE or -; a list creates several, in its order, and
stops at the first that is refused. Without --group a rule goes to the group that
it names itself, or else to "default".`,
		Example: `  weir rules create '{"id":"slow","type":"delay","match":{"url_pattern":"https://api.example.com/*"},"action":{"delay_ms":1200}}'
  weir rules create @rule.json --group checkout --create-group`,
		Args: Exactly(1, "a rule"),
	}
	cmd.Flags().StringVar(&group, "group", "", "the group that the rule goes to")
	cmd.Flags().BoolVar(&createGroup, "create-group", false, "create the group if it does not exist")
	return changesRules(env, cmd, func(ctx context.Context, w *ruleWriter, args []string) error {
		doc, err := w.looseDocument("rule", args[0])
		if err != nil {
			return err
		}
		var rules []json.RawMessage // of a list
		if json.Unmarshal(doc, &rules) != nil || rules == nil {
			rules = []json.RawMessage{doc}
		}
		if len(rules) == 0 {
			return usagef("the list holds no rule")
		}
		for _, rule := range rules {
			var named struct {
				Group string `json:"group"`
			}
			_ = json.Unmarshal(rule, &named) // the server says what is wrong with it
			done, err := w.create(ctx, rule, cmp.Or(group, named.Group), createGroup)
			if err == nil && done.Rule == nil {
				err = errors.New("the server made a rule and did not say which")
			}
			if err != nil {
				return err
			}
			if err := w.say(done, nil, "rule %s is made in group %s", done.Rule.ID, done.Rule.Group); err != nil {
				return err
			}
		}
		return nil
	})
}

// bindScope adds the flags that name the actions that rules are for.
func bindScope(flags *pflag.FlagSet, scope *schemas.RuleScope, who string) {
	flags.StringVar((*string)(&scope.ActionKind), "kind", "", "the kind of "+who+", such as http, passthrough or run")
	flags.StringVar(&scope.Agent, "agent", "", "the task type or the token's id of "+who)
	flags.StringVar(&scope.RequestID, "request-id", "", "the id of "+who)
}

// given is what flags have set; nil: none was given.
func given[T comparable](doc T) *T {
	if doc == *new(T) {
		return nil
	}
	return &doc
}

func newRulesReset(env *Env) *cobra.Command {
	return remote(env, &cobra.Command{
		Use:   "reset",
		Short: "Replace rules that cannot be read by an empty set",
		Long: `Replace a set of rules that the running Weir cannot read, because it is damaged or a newer
version wrote it, by an empty set. Until then Weir denies all calls of the tenant. The old
rules are lost; if a newer version wrote them, run that version instead. If the rules can
be read, the command is refused and changes nothing.`,
		Example: "  weir rules reset",
		Args:    Exactly(0, "no arguments"),
	}, func(ctx context.Context, c *api, _ []string) error {
		done, err := c.agent(ctx, schemas.RouteRulesReset, http.Header{"Idempotency-Key": {newAgentID()}}, nil)
		return c.say(done, err, "the rules were removed; there are none now, and calls are sent again")
	})
}

func newRulesList(env *Env) *cobra.Command {
	group := ""
	cmd := &cobra.Command{Use: "ls", Short: "List rules, oldest first", Example: "  weir rules ls --group checkout", Args: Exactly(0, "no arguments")}
	cmd.Flags().StringVar(&group, "group", "", "only this group")
	return remote(env, cmd, func(ctx context.Context, c *api, _ []string) error {
		args := map[string]any{}
		if cmd.Flags().Changed("group") {
			args["group"] = group
		}
		all, err := c.operate(ctx, schemas.OpRulesList, args)
		if err != nil || c.asJSON {
			return c.print(all.data, err, "")
		}
		s, err := c.rulesStatus(ctx)
		if err != nil {
			return err
		}
		empty := "there are no rules yet; `weir rules create --help` shows how to make one"
		if group != "" {
			empty = "there are no rules in group " + group + "; `weir rules ls` shows those of all groups"
		}
		if err := c.printRules(all.Rules, empty); err != nil {
			return err
		}
		if !s.GlobalActive {
			fmt.Fprintln(c.Err, "all rules are off: `weir rules on` lets them take effect")
		}
		_, err = fmt.Fprintln(c.Err, all.RulesEtag)
		return err
	})
}

func newRulesGet(env *Env) *cobra.Command {
	return remote(env, &cobra.Command{Use: "get ID", Short: "Show one rule", Example: "  weir rules get no-pay", Args: Exactly(1, "the id of a rule")},
		func(ctx context.Context, c *api, args []string) error {
			one, err := c.rule(ctx, args[0])
			if err != nil || c.asJSON {
				return c.print(one.data, err, "")
			}
			enc := json.NewEncoder(c.Out)
			enc.SetEscapeHTML(false)
			enc.SetIndent("", "  ")
			if err := enc.Encode(one.Rule); err != nil {
				return err
			}
			_, err = fmt.Fprintln(c.Err, one.RulesEtag)
			return err
		})
}

func newRulesStatus(env *Env) *cobra.Command {
	return remote(env, &cobra.Command{
		Use: "status", Short: "Show whether the rules are on, their number and their etag", Example: "  weir rules status", Args: Exactly(0, "no arguments"),
	}, func(ctx context.Context, c *api, _ []string) error {
		s, err := c.rulesStatus(ctx)
		word := "off"
		if s.GlobalActive {
			word = "on"
		}
		return c.say(s, err, "rules are %s; %d of them", word, s.RuleCount)
	})
}

// rulesStatus is the data of the operation status.
func (c *api) rulesStatus(ctx context.Context) (written, error) {
	return c.operate(ctx, schemas.OpStatus, map[string]any{})
}

// rule reads one rule, and the etag of the set that it is in.
func (c *api) rule(ctx context.Context, id string) (written, error) {
	one, err := c.operate(ctx, schemas.OpRulesGet, map[string]any{"id": id})
	if err == nil && one.Rule == nil {
		err = errors.New("the server's answer holds no rule that can be read")
	}
	return one, err
}

func (c *api) printRules(rules []schemas.Rule, empty string) error {
	now := time.Now()
	return printList(c, read(rules, nil), empty, "ID\tTYPE\tSTATE\tPRIORITY\tGROUP\tMETHOD\tPATTERN\tACTION\tSCOPE", func(r schemas.Rule) []any {
		return []any{
			r.ID, r.Type, stateOf(r, now), r.Priority, r.Group, cmp.Or(r.Match.Method, "ANY"),
			cut(r.Match.URLPattern, 60), cut(actionText(r), 60), scopeText(r.Scope),
		}
	})
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

func compact(doc json.RawMessage) string {
	var b bytes.Buffer
	if err := json.Compact(&b, doc); err != nil {
		return string(doc)
	}
	return b.String()
}

func scopeText(s *schemas.RuleScope) string {
	if s == nil {
		return "all"
	}
	return labels("=", " ", "kind", string(s.ActionKind), "agent", s.Agent, "task", s.TaskID, "request", s.RequestID)
}
