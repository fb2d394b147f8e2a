package cli

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"weir/client"
	"weir/schemas"
)

// maxAgentDoc is the most that is read of an answer, in bytes.
const maxAgentDoc = 16 << 20

// operate asks the agent API for one operation and returns its data. A refusal is
// a *client.Error with its code and detail.
func (c *api) operate(ctx context.Context, operation string, args map[string]any) (written, error) {
	text, err := client.Encode(args)
	if err != nil {
		return written{}, Usage(err)
	}
	body := schemas.AgentEnvelope{
		Type:    schemas.AgentAPIType,
		Request: schemas.AgentRequest{RequestID: newAgentID(), Operation: operation, Args: text},
	}
	return c.agent(ctx, schemas.RouteAgentAPI, http.Header{}, body)
}

func newAgentID() string { return "weir-" + rand.Text() }

// agent sends a request that is answered in the words of the agent API, and returns the data of the answer.
func (c *api) agent(ctx context.Context, path string, header http.Header, body any) (done written, err error) {
	header.Set("Accept", "application/json")
	resp, err := c.Do(ctx, http.MethodPost, path, header, body)
	if cause, sent := errors.AsType[*url.Error](err); sent && ctx.Err() == nil {
		return done, fmt.Errorf("%w; whether it was done is not known: `weir rules ls` shows what is there", cause)
	}
	if err != nil {
		return done, err
	}
	defer resp.Body.Close()
	if kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); kind != "application/json" {
		return done, client.ErrorOf(resp) // not the agent API: another server, or something between
	}
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxAgentDoc+1))
	if err != nil {
		return done, fmt.Errorf("the answer was cut off: %w; `weir rules ls` shows whether it was done", err)
	}
	var answer schemas.AgentResponse
	if len(raw) > maxAgentDoc || json.Unmarshal(raw, &answer) != nil || answer.OK == (answer.Error != nil) {
		text := fmt.Sprintf("the server answered %s with something that is no agent response", resp.Status)
		return done, client.NewError(resp.StatusCode, text, nil)
	}
	if !answer.OK {
		e := answer.Error
		text := fmt.Sprintf("%s (%s)", e.Message, joined(", ", string(e.Code), e.Detail))
		refused := client.NewError(resp.StatusCode, joined("\n", text, agentHint(resp, answer)), raw)
		refused.Problem = schemas.Problem{Code: e.Code, Detail: e.Detail}
		return done, exitError{refused, ExitFailed}
	}
	done.data = answer.Data
	if err := json.Unmarshal(done.data, &done); err != nil && !c.asJSON {
		return done, fmt.Errorf("the server's answer cannot be read: %w", err)
	}
	return done, nil
}

// agentHint says what to do about a refusal, where that can be said.
func agentHint(resp *http.Response, answer schemas.AgentResponse) string {
	switch e := answer.Error; {
	case e.Detail == schemas.DetailAPIDisabled:
		return "the server's configuration has rules.agent_api: false; remove that and restart it"
	case e.Detail == schemas.DetailScopeRequired && answer.Operation == schemas.OpRulesReset:
		return "an admin of the tenant may, with a token that is limited to no entries"
	case e.Detail == schemas.DetailScopeRequired:
		return "an admin makes a token that may with `weir tokens create --scope rules:write`, without --entry"
	case e.Code == schemas.Unauthorized:
		return client.TokenHint(resp, e.Code)
	case e.Detail == schemas.DetailRuleExists:
		return "change the rule that is there with `weir rules patch ID PATCH`, or give the new one another id"
	case e.Detail == string(schemas.DenyRule):
		return "`weir rules preview METHOD URL --rule FILE` says what the rule would make of a call, and why policy denies that"
	case e.Code == schemas.EtagMismatch:
		return "another client changed the rules; read them again with `weir rules ls` before you write"
	case e.Code == schemas.NotFound && answer.Operation == schemas.OpRulesCreate:
		return "--create-group makes the group"
	case e.Code == schemas.NotFound:
		return "`weir rules ls` shows the ids there are"
	case e.Code == schemas.RuleLimitExceeded:
		return "a rule that has expired for a day makes room: give those that are not needed any more an expires_at with `weir rules patch`"
	default:
		return ""
	}
}

// ruleWriter makes changes to the rule set, each on top of the one before.
type ruleWriter struct {
	*api
	// etag names the set that the next change is for; empty: the current one.
	etag string
	// pinned: the caller has read that set, so that no other will do.
	pinned bool
	// tries is how often a change is tried whose set has become another.
	tries int
}

// A change is looked at anew, and made once more, on a set that has changed
// meanwhile. What means the same on every set may be tried until it is made.
const (
	ruleTries   = 2
	switchTries = 10
)

// written is the data of an answer of the agent API: of a change, or of what there is.
type written struct {
	Rule         *schemas.Rule  `json:"rule"`
	Rules        []schemas.Rule `json:"rules"`
	RulesEtag    string         `json:"rules_etag"`
	GlobalActive bool           `json:"global_active"`
	RuleCount    int            `json:"rule_count"`

	data json.RawMessage
}

// say prints what was done, unless there is an error: for a program the data, for a person a line.
func (c *api) say(done written, err error, format string, args ...any) error {
	return c.print(done.data, err, format+"; %s", append(args, done.RulesEtag)...)
}

// change makes one change and says so.
func (w *ruleWriter) change(ctx context.Context, operation string, args map[string]any, format string, of ...any) error {
	done, err := w.write(ctx, operation, args)
	return w.say(done, err, format, of...)
}

// write makes one change. Without --if-match it is made to the newest set, and again if that has
// changed meanwhile.
func (w *ruleWriter) write(ctx context.Context, operation string, args map[string]any) (done written, err error) {
	for try := 1; ; try++ {
		if w.etag == "" {
			now, err := w.rulesStatus(ctx)
			if err != nil {
				return written{}, err
			}
			w.etag = now.RulesEtag
		}
		args["if_match"] = w.etag
		if done, err = w.operate(ctx, operation, args); err == nil {
			w.etag = done.RulesEtag
			return done, nil
		}
		no, refused := errors.AsType[*client.Error](err)
		if !refused || w.pinned || try >= w.tries || no.Problem.Code != schemas.EtagMismatch {
			return written{}, err
		}
		w.etag = ""
	}
}

// create makes a rule, in a group if one is named. makes says to make that too if there is none.
func (w *ruleWriter) create(ctx context.Context, rule any, group string, makes bool) (written, error) {
	args := map[string]any{"rule": rule}
	if group != "" {
		args["group"] = group
	}
	if makes {
		args["create_group_if_missing"] = true
	}
	return w.write(ctx, schemas.OpRulesCreate, args)
}

type recordFlags struct {
	scope     schemas.RuleScope
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
	bindScope(cmd.Flags(), &f.scope, "the actions that the rules answer")
	cmd.Flags().StringVar(&f.group, "group", "", "the group that the rules go to; it is made if there is none (default default)")
	cmd.Flags().DurationVar(&f.expiresIn, "expires-in", recordedFor, "how long the rules answer; 0: for ever")
	cmd.Flags().BoolVar(&f.dryRun, "dry-run", false, "print the rules and make none")
	return changesRules(env, cmd, func(ctx context.Context, w *ruleWriter, args []string) error {
		if f.expiresIn < 0 {
			return usagef("--expires-in is a duration such as 1h, or 0 for ever")
		}
		return f.record(ctx, w, args[0])
	})
}

func (f *recordFlags) record(ctx context.Context, w *ruleWriter, action string) error {
	req := schemas.RecordRequest{ActionID: action, Group: f.group, Scope: given(f.scope)}
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
		if no, ok := errors.AsType[*client.Error](err); ok && no.Problem.Detail == schemas.DetailRuleExists {
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
		if err := w.say(done, nil, "rule %s answers %s %s", r.ID, r.Match.Method, r.Match.URLPattern); err != nil {
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

type previewFlags struct {
	callFlags
	scope schemas.RuleScope
	rule  string
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
	f.bind(cmd, "would get")
	bindScope(cmd.Flags(), &f.scope, "the action that would make the call")
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
		code := ExitOK
		if p.Result == schemas.PreviewDenied {
			code = ExitDenied
		}
		return c.printVerdict(raw, previewed(p), code)
	})
}

func (f *previewFlags) preview(env *Env, method, target string) (req schemas.PreviewRequest, err error) {
	if req.ExplainRequest, err = f.request(env, method, target); err != nil {
		return req, err
	}
	req.Scope = given(f.scope)
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
