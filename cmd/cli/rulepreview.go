package cli

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"weir/schemas"
)

// scopeFlags name the actions that rules are for.
type scopeFlags struct{ schemas.RuleScope }

func (f *scopeFlags) bind(cmd *cobra.Command, who string) {
	flags := cmd.Flags()
	flags.StringVar((*string)(&f.ActionKind), "kind", "", "the kind of "+who+", such as http, plan or run")
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

// previewFlags are those of `weir rules preview`.
type previewFlags struct {
	explainFlags
	scopeFlags
	rule string
}

func newRulesPreview(env *Env) *cobra.Command {
	var f previewFlags
	cmd := &cobra.Command{
		Use:   "preview METHOD URL",
		Short: "say what the rules and the policy would make of a call, and why",
		Long: `Say what the rules of a running Weir would make of a call, what its policy would
say of that, and what becomes of each rule that matches. Nothing is sent. With --rule
as if that rule were there as well, enabled. With --kind run and the task type of a
remote agent in --agent the call is one to that agent, and goes by the agent's own
entry. It takes a token with the scope actions:read or rules:write. Exit 1 if the
call would be denied.`,
		Example: `  weir rules preview GET https://api.example.com/orders
  weir rules preview POST https://pay.example.com/charge -d '{"sum":7}' --rule mock.json
  weir rules preview GET https://api.example.com/ --kind run --agent SUMMARY --json`,
		Args: Exactly(2, "a method and a URL"),
		RunE: func(cmd *cobra.Command, args []string) error {
			req, err := f.preview(env, args[0], args[1])
			if err != nil {
				return err
			}
			return f.asking(env, func(c *api) error {
				var raw json.RawMessage
				if err := c.PreviewRule(cmd.Context(), req, &raw); err != nil {
					return err
				}
				return f.tell(env, raw)
			})
		},
	}
	f.register(cmd, env)
	f.callFlags(cmd)
	f.bind(cmd, "the action that would make the call")
	cmd.Flags().StringVar(&f.rule, "rule", "", "a rule to look at as well: JSON, FILE, @FILE or -")
	return cmd
}

func (f *previewFlags) preview(env *Env, method, target string) (req schemas.PreviewRequest, err error) {
	if req.ExplainRequest, err = f.request(env, method, target); err != nil {
		return req, err
	}
	req.Scope = f.scope()
	if f.rule != "" {
		req.Rule, err = jsonArgument(env, "rule", f.rule)
	}
	return req, err
}

// tell prints a preview, and ends the program with failure where the call would be
// denied.
func (f *previewFlags) tell(env *Env, raw json.RawMessage) error {
	var p schemas.Preview
	if err := json.Unmarshal(raw, &p); err != nil {
		return fmt.Errorf("the server's answer cannot be read: %w", err)
	}
	if f.asJSON {
		fmt.Fprintf(env.Out, "%s\n", raw)
	} else {
		fmt.Fprint(env.Out, previewed(p))
	}
	if p.Result == schemas.PreviewDenied {
		return quietError{}
	}
	return nil
}

// previewed is a preview for a person.
func previewed(p schemas.Preview) string {
	var b strings.Builder
	line := func(label, text string) {
		if text != "" {
			fmt.Fprintf(&b, "  %-10s%s\n", label, text)
		}
	}
	switch p.Result {
	case schemas.PreviewDenied:
		fmt.Fprintf(&b, "denied: %s\n", p.Decision.Code)
		line("why", p.Decision.Reason)
	case schemas.PreviewMocked:
		fmt.Fprintln(&b, "mocked: nothing would be sent")
	default:
		fmt.Fprintf(&b, "sent, allowed by %s\n", p.Decision.Entry)
	}
	line("call", strings.TrimSpace(p.Method+" "+p.URL))
	for _, name := range slices.Sorted(maps.Keys(p.Headers)) {
		line("header", name+": "+p.Headers[name])
	}
	if p.DelayMS > 0 {
		line("delay", (time.Duration(p.DelayMS) * time.Millisecond).String())
	}
	if p.Mock != nil {
		line("answer", strings.TrimSpace(fmt.Sprintf("%d %s", p.Mock.Status, cut(compact(p.Mock.Body), 200))))
		for _, name := range slices.Sorted(maps.Keys(p.Mock.Headers)) {
			line("", name+": "+p.Mock.Headers[name])
		}
	}
	for _, c := range p.ResponseHeaders {
		line("then", strings.TrimSpace(fmt.Sprintf("%s response header %s %s", c.Op, c.Name, c.Value)))
	}
	state := p.RulesEtag
	if !p.GlobalActive {
		state += ", all rules are off"
	}
	line("rules", state)
	width := 0
	for _, v := range p.Rules {
		width = max(width, len(v.ID))
	}
	for _, v := range p.Rules {
		word := "applies"
		if !v.Applies {
			word = "does not apply: " + v.Reason
		}
		fmt.Fprintf(&b, "    %-*s  %-8s  %s\n", width, v.ID, v.Type, word)
	}
	return b.String()
}
