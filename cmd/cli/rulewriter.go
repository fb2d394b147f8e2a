package cli

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"

	"weir/client"
	"weir/schemas"
)

// maxAgentDoc is the most that is read of an answer, in bytes.
const maxAgentDoc = 16 << 20

// operate asks the agent API for one operation and returns its data. A refusal is
// an *agentError.
func (c *api) operate(ctx context.Context, operation string, args map[string]any) (written, error) {
	text, err := client.Encode(args)
	if err != nil {
		return written{}, usageError{err}
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
		return done, &agentError{answer: answer, raw: raw, token: client.TokenHint(resp, answer.Error.Code)}
	}
	done.data = answer.Data
	if err := json.Unmarshal(done.data, &done); err != nil && !c.asJSON {
		return done, fmt.Errorf("the server's answer cannot be read: %w", err)
	}
	return done, nil
}

// agentError is an answer of the agent API that is an error.
type agentError struct {
	answer schemas.AgentResponse
	raw    []byte
	token  string // what to do about the token
}

func (r *agentError) Error() string {
	e := r.answer.Error
	return joined("\n", fmt.Sprintf("%s (%s)", e.Message, joined(", ", string(e.Code), e.Detail)), r.hint())
}

// hint says what to do about a refusal, where that can be said.
func (r *agentError) hint() string {
	switch e := r.answer.Error; {
	case e.Detail == schemas.DetailAPIDisabled:
		return "the server's configuration has rules.agent_api: false; remove that and restart it"
	case e.Detail == schemas.DetailScopeRequired && r.answer.Operation == schemas.OpRulesReset:
		return "an admin of the tenant may, with a token that is limited to no entries"
	case e.Detail == schemas.DetailScopeRequired:
		return "an admin makes a token that may with `weir tokens create --scope rules:write`, without --entry"
	case e.Code == schemas.Unauthorized:
		return r.token
	case e.Detail == schemas.DetailRuleExists:
		return "change the rule that is there with `weir rules patch ID PATCH`, or give the new one another id"
	case e.Detail == string(schemas.DenyRule):
		return "`weir rules preview METHOD URL --rule FILE` says what the rule would make of a call, and why policy denies that"
	case e.Code == schemas.EtagMismatch:
		return "another client changed the rules; read them again with `weir rules ls` before you write"
	case e.Code == schemas.NotFound && r.answer.Operation == schemas.OpRulesCreate:
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

// say prints what was done: for a program the data, for a person a line.
func (c *api) say(done written, line string) error {
	if c.asJSON {
		return PrintDocument(c.Out, done.data)
	}
	_, err := fmt.Fprintf(c.Out, "%s; %s\n", line, done.RulesEtag)
	return err
}

// change makes one change and says so.
func (w *ruleWriter) change(ctx context.Context, operation string, args map[string]any, line string) error {
	done, err := w.write(ctx, operation, args)
	if err != nil {
		return err
	}
	return w.say(done, line)
}

// write makes one change. Without --if-match it is made to the newest set, and again if that has
// changed meanwhile.
func (w *ruleWriter) write(ctx context.Context, operation string, args map[string]any) (written, error) {
	for try := 1; ; try++ {
		done, err := w.once(ctx, operation, args)
		if err == nil {
			w.etag = done.RulesEtag
			return done, nil
		}
		no, refused := errors.AsType[*agentError](err)
		if !refused || w.pinned || try >= w.tries || no.answer.Error.Code != schemas.EtagMismatch {
			return written{}, err
		}
		w.etag = ""
	}
}

func (w *ruleWriter) once(ctx context.Context, operation string, args map[string]any) (written, error) {
	if w.etag == "" {
		s, err := w.rulesStatus(ctx)
		if err != nil {
			return written{}, err
		}
		w.etag = s.RulesEtag
	}
	args["if_match"] = w.etag
	return w.operate(ctx, operation, args)
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
