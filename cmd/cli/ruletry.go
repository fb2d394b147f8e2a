package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"weir/schemas"
)

type recordFlags struct {
	scopeFlags
	group     string
	expiresIn time.Duration
	dryRun    bool
}

// recordedFor is how long recorded rules answer unless something else is said: one
// that is forgotten must not answer in the target's place for ever.
const recordedFor = 24 * time.Hour

func newRulesRecord(env *Env) *cobra.Command {
	var f recordFlags
	cmd := &cobra.Command{
		Use:   "record ACTION",
		Short: "Record the answers of an action as mock rules",
		Long: `Create mock rules that repeat the answers of an action, so that you can rehearse it
without any effect. The action must have ended. Without --kind, --agent or --request-id
the rules answer every call that matches; name the rehearsal with one of these to exclude
other calls. It needs a token with the scopes actions:read and rules:write.

Standard error lists the calls that cannot be recorded. Exit 1 if there is one that no
rule answers: a rehearsal would send it. The other rules are created.`,
		Example: `  weir rules record 01890a5d-… --request-id rehearsal-1
  weir rules record 01890a5d-… --group rehearsal --expires-in 1h
  weir rules record 01890a5d-… --dry-run --json | jq .rules`,
		Args: Exactly(1, "the id of an action"),
	}
	f.bind(cmd, "the actions that the rules answer")
	cmd.Flags().StringVar(&f.group, "group", "", "the group that the rules go to; it is made if there is none (default default)")
	cmd.Flags().DurationVar(&f.expiresIn, "expires-in", recordedFor, "how long the rules answer; 0: for ever")
	cmd.Flags().BoolVar(&f.dryRun, "dry-run", false, "print the rules and make none")
	return changesRules(env, cmd, func(ctx context.Context, w *ruleWriter, args []string) error {
		if f.expiresIn < 0 {
			return usageError{errors.New("--expires-in is a duration such as 1h, or 0 for ever")}
		}
		return f.record(ctx, w, args[0])
	})
}

func (f *recordFlags) record(ctx context.Context, w *ruleWriter, action string) error {
	req := schemas.RecordRequest{ActionID: action, Group: f.group, Scope: f.scope()}
	if f.expiresIn > 0 {
		req.ExpiresAt = time.Now().Add(f.expiresIn).UTC().Truncate(time.Second)
	}
	rec, err := post[schemas.Recording](ctx, w.api, "/v1/rules/record", req)
	if err != nil {
		return err
	}
	if f.dryRun {
		return w.printRecording(rec)
	}
	incomplete := w.unrecorded(rec)
	var exists error
	for _, r := range rec.Rules {
		done, err := w.create(ctx, r, f.group, f.group != "")
		if no, ok := errors.AsType[*agentError](err); ok && no.answer.Error.Detail == schemas.DetailRuleExists {
			// It is of an earlier recording, which may have ended before the others.
			if exists = err; !w.asJSON {
				fmt.Fprintf(w.Err, "weir: rule %s of an earlier recording stays as it is; `weir rules patch %[1]s PATCH` changes it\n", r.ID)
				exists = Printed()
			}
			continue
		}
		if err != nil {
			return err
		}
		if err := w.say(done, fmt.Sprintf("rule %s answers %s %s", r.ID, r.Match.Method, r.Match.URLPattern)); err != nil {
			return err
		}
	}
	if len(rec.Rules) == 0 {
		return errors.New("the action was answered nothing that a rule could give again; no rule was made")
	}
	return cmp.Or(exists, incomplete)
}

// unrecorded prints the steps without a rule. The error says that calls among them
// would go out.
func (c *api) unrecorded(rec schemas.Recording) error {
	out := 0
	for _, s := range rec.Skipped {
		fmt.Fprintf(c.Err, "weir: step %d is not recorded: %s\n", s.Step, s.Reason)
		if s.Rule == "" {
			out++
		}
	}
	if out == 0 {
		return nil
	}
	fmt.Fprintf(c.Err, "weir: a rehearsal is not without effect: calls of its that go out: %d\n", out)
	return Printed()
}

func (c *api) printRecording(rec schemas.Recording) error {
	if c.asJSON {
		if err := PrintDocument(c.Out, rec); err != nil {
			return err
		}
	} else if err := c.printRules(rec.Rules, ""); err != nil {
		return err
	}
	return c.unrecorded(rec)
}

// scopeFlags name the actions that rules are for.
type scopeFlags struct{ schemas.RuleScope }

func (f *scopeFlags) bind(cmd *cobra.Command, who string) {
	flags := cmd.Flags()
	flags.StringVar((*string)(&f.ActionKind), "kind", "", "the kind of "+who+", such as http, passthrough or run")
	flags.StringVar(&f.Agent, "agent", "", "the task type or the token's id of "+who)
	flags.StringVar(&f.RequestID, "request-id", "", "the id of "+who)
}

// scope is nil where nothing was said.
func (f *scopeFlags) scope() *schemas.RuleScope {
	if f.RuleScope == (schemas.RuleScope{}) {
		return nil
	}
	return &f.RuleScope
}

type previewFlags struct {
	callFlags
	scopeFlags
	rule string
}

func newRulesPreview(env *Env) *cobra.Command {
	var f previewFlags
	cmd := &cobra.Command{
		Use:   "preview METHOD URL",
		Short: "Preview the effect of rules and policy on a call",
		Long: `Preview a call: how the rules of a running Weir would change it, whether the policy would
allow the result, and the effect of each rule that matches. Nothing is sent. --rule adds
an enabled rule to the preview. With --kind run and the task type of a remote agent in
--agent, the call goes to that agent by the agent's own entry. It needs a token with the
scope actions:read or rules:write. Exit 3 if the policy would deny the call.`,
		Example: `  weir rules preview GET https://api.example.com/orders
  weir rules preview POST https://pay.example.com/charge -d '{"sum":7}' --rule mock.json
  weir rules preview GET https://api.example.com/ --kind run --agent SUMMARY --json`,
		Args: Exactly(2, "a method and a URL"),
	}
	f.callFlags.bind(cmd)
	f.scopeFlags.bind(cmd, "the action that would make the call")
	cmd.Flags().StringVar(&f.rule, "rule", "", "a rule to look at as well: JSON, FILE, @FILE or -")
	return remote(env, cmd, func(ctx context.Context, c *api, args []string) error {
		req, err := f.preview(env, args[0], args[1])
		if err != nil {
			return err
		}
		raw, err := post[json.RawMessage](ctx, c, "/v1/rules/preview", req)
		if err != nil {
			return err
		}
		var p schemas.Preview
		if err := json.Unmarshal(raw, &p); err != nil {
			return fmt.Errorf("the server's answer cannot be read: %w", err)
		}
		if c.asJSON {
			err = PrintDocument(c.Out, raw)
		} else {
			err = printOutcome(c.Out, previewed(p))
		}
		if err == nil && p.Result == schemas.PreviewDenied {
			return exitError{code: ExitDenied}
		}
		return err
	})
}

func (f *previewFlags) preview(env *Env, method, target string) (req schemas.PreviewRequest, err error) {
	if req.ExplainRequest, err = f.request(env, method, target); err != nil {
		return req, err
	}
	req.Scope = f.scope()
	if f.rule != "" {
		req.Rule, err = env.looseDocument("rule", f.rule)
	}
	return req, err
}

// previewed is a preview for a person.
func previewed(p schemas.Preview) string {
	lines := labelled{width: 10}
	switch p.Result {
	case schemas.PreviewDenied:
		fmt.Fprintf(&lines, "denied: %s\n", p.Decision.Code)
		lines.add("why", p.Decision.Reason)
	case schemas.PreviewMocked:
		fmt.Fprintln(&lines, "mocked: nothing would be sent")
	default:
		fmt.Fprintf(&lines, "sent, allowed by %s\n", p.Decision.Entry)
	}
	lines.add("call", strings.TrimSpace(p.Method+" "+p.URL))
	for _, name := range slices.Sorted(maps.Keys(p.Headers)) {
		lines.add("header", name+": "+p.Headers[name])
	}
	if p.DelayMS > 0 {
		lines.add("delay", (time.Duration(p.DelayMS) * time.Millisecond).String())
	}
	if p.Mock != nil {
		lines.add("answer", strings.TrimSpace(fmt.Sprintf("%d %s", p.Mock.Status, cut(compact(p.Mock.Body), 200))))
		for _, name := range slices.Sorted(maps.Keys(p.Mock.Headers)) {
			lines.add("", name+": "+p.Mock.Headers[name])
		}
	}
	for _, c := range p.ResponseHeaders {
		lines.add("then", strings.TrimSpace(fmt.Sprintf("%s response header %s %s", c.Op, c.Name, c.Value)))
	}
	state := p.RulesEtag
	if !p.GlobalActive {
		state += ", all rules are off"
	}
	lines.add("rules", state)
	table := newTable(&lines)
	for _, v := range p.Rules {
		word := "applies"
		if !v.Applies {
			word = "does not apply: " + v.Reason
		}
		printRow(table, "    "+v.ID, fmt.Sprintf("%-8s  %s", v.Type, word))
	}
	_ = table.Flush() // to a buffer: cannot fail
	return lines.String()
}
