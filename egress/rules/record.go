package rules

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"weir/internal/fault"
	"weir/internal/ledger"
	"weir/internal/redact"
	"weir/internal/traffic"
	"weir/schemas"
)

// Blobs reads bodies that are too large for the log.
type Blobs interface {
	Blob(ctx context.Context, inline json.RawMessage, name string) (json.RawMessage, error)
}

// Record makes mock rules from the answers of an ended action: one for each step, with the step's
// last answer. After redirects, the rule gives the final answer at the step's original URL.
// Recorded rules can be created: an answer that no rule can hold is skipped, with the reason.
func Record(ctx context.Context, st *ledger.State, blobs Blobs, req schemas.RecordRequest, now time.Time) (schemas.Recording, error) {
	rec := recorder{blobs: blobs, req: req, now: now, st: st, seen: map[string]made{}}
	rec.out = schemas.Recording{Rules: []schemas.Rule{}, Skipped: []schemas.Unrecorded{}}
	var steps []int
	for _, t := range st.Attempts {
		steps = append(steps, t.Step)
	}
	slices.Sort(steps)
	for _, step := range slices.Compact(steps) {
		if err := rec.step(ctx, step); err != nil {
			return schemas.Recording{}, err
		}
	}
	return rec.out, nil
}

type recorder struct {
	blobs Blobs
	req   schemas.RecordRequest
	now   time.Time
	st    *ledger.State
	seen  map[string]made // the calls that have a rule
	out   schemas.Recording
}

// made is the step that a rule was made of, and the rule's id.
type made struct {
	step int
	rule string
}

func (r *recorder) skip(step int, why string) {
	r.out.Skipped = append(r.out.Skipped, schemas.Unrecorded{Step: step, Reason: why})
}

// step records one step.
func (r *recorder) step(ctx context.Context, step int) error {
	first, last := answered(r.st.AttemptsOf(step))
	if last == nil {
		r.skip(step, "no answer came")
		return nil
	}
	if first.URL == "" || first.Method == "" {
		r.skip(step, "the log does not say where the call went")
		return nil
	}
	answer, err := r.answer(ctx, last.Result)
	if errors.Is(err, fault.ErrNotFound) || errors.Is(err, fault.ErrGone) {
		r.skip(step, "the answer is not kept any more")
		return nil
	}
	if err != nil {
		return err
	}
	rule := r.rule(step, first)
	if agent, ok := strings.CutPrefix(first.LastWord().Entry, schemas.AgentEntryPrefix); ok {
		if s := rule.Scope; s != nil && s.Agent != "" && s.Agent != agent {
			r.skip(step, "it went to the agent "+agent+", and the scope names another; name the rehearsal by its request_id")
			return nil
		}
		rule = toAgent(rule, agent)
	} else if strings.Contains(rule.Match.URLPattern, "*") {
		r.skip(step, "its URL has a *, which would stand for anything in a pattern; make a rule for it by hand")
		return nil
	}
	call := rule.Match.Method + " " + rule.Match.URLPattern
	if other, ok := r.seen[call]; ok {
		r.out.Skipped = append(r.out.Skipped, schemas.Unrecorded{
			Step: step, Reason: "it made the same call as step " + strconv.Itoa(other.step) + ", whose answer a rule gives already", Rule: other.rule,
		})
		return nil
	}
	action, why := r.mock(answer)
	if why == "" {
		rule.Action = action
		rule, why = r.creatable(rule)
	}
	if why != "" {
		r.skip(step, why)
		return nil
	}
	r.seen[call] = made{step, rule.ID}
	r.out.Rules = append(r.out.Rules, rule)
	return nil
}

// answered is the last attempt that was answered, and the one that it is a hop of.
func answered(tries []ledger.Attempt) (first, last *ledger.Attempt) {
	for i := range slices.Backward(tries) {
		res := tries[i].Result
		if res == nil || res.Code != "" || res.Answer == nil && res.AnswerBlob == "" {
			continue
		}
		last = &tries[i]
		break
	}
	if last == nil {
		return nil, nil
	}
	for i := range tries {
		if tries[i].Number == last.Number && tries[i].Hop == 0 {
			return &tries[i], last
		}
	}
	return last, last
}

func (r *recorder) answer(ctx context.Context, res *schemas.Attempted) (*schemas.Answer, error) {
	switch {
	case res.InResult:
		end := r.st.Settled
		var result schemas.RunResult // also holds the answer of a call
		err := r.read(ctx, end.Result, end.ResultBlob, &result)
		if result.HTTP != nil {
			result.Answer = result.HTTP.Answer
		}
		if err == nil && result.Answer == nil {
			err = fault.ErrNotFound
		}
		return result.Answer, err
	case res.AnswerBlob != "":
		var answer schemas.Answer
		return &answer, r.read(ctx, nil, res.AnswerBlob, &answer)
	default:
		return res.Answer, nil
	}
}

// read decodes a document that is stored inline, or under a name.
func (r *recorder) read(ctx context.Context, inline json.RawMessage, name string, to any) error {
	doc, err := r.blobs.Blob(ctx, inline, name)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(doc, to); err != nil {
		return &fault.Error{Code: schemas.Internal, Message: "a stored answer cannot be read", Cause: err}
	}
	return nil
}

// rule is one without its action.
func (r *recorder) rule(step int, t *ledger.Attempt) schemas.Rule {
	sum := sha256.Sum256([]byte(r.st.ID))
	url, _, _ := strings.Cut(t.URL, "#") // never sent
	group := r.req.Group
	if group == "" {
		group = schemas.DefaultGroup
	}
	return schemas.Rule{
		ID:    "rec-" + hex.EncodeToString(sum[:4]) + "-" + strconv.Itoa(step),
		Name:  "step " + strconv.Itoa(step) + " of " + r.st.ID,
		Group: group, Type: schemas.RuleMock, Enabled: true,
		Match: schemas.RuleMatch{URLPattern: url, Method: t.Method, IncludeQuery: strings.Contains(url, "?")},
		Scope: r.req.Scope, ExpiresAt: r.req.ExpiresAt,
	}
}

// toAgent is a rule for a call to an agent, wherever that is: its address is the
// configuration's, and none of the tenant's.
func toAgent(rule schemas.Rule, agent string) schemas.Rule {
	scope := schemas.RuleScope{}
	if rule.Scope != nil {
		scope = *rule.Scope
	}
	scope.Agent = agent
	route := strings.TrimPrefix(schemas.RunRoute(rule.Match.URLPattern), "/")
	rule.Scope, rule.Match = &scope, schemas.RuleMatch{URLPattern: "*://*:*/*" + route, Method: rule.Match.Method}
	return rule
}

// creatable is a rule as it would be created, or why it would not.
func (r *recorder) creatable(rule schemas.Rule) (schemas.Rule, string) {
	raw, err := ledger.Encode(rule)
	if err != nil {
		return rule, "the answer is no JSON that a rule can hold"
	}
	made, err := traffic.Read(raw, r.now)
	if bad, ok := errors.AsType[*traffic.Invalid](err); ok {
		return rule, "no rule can be made of it: at " + bad.Pointer + ": " + bad.Message
	}
	if err != nil {
		return rule, "no rule can be made of it"
	}
	made.Group = rule.Group
	return made, ""
}

// mock is the rule action that repeats an answer, or the reason why there is none. Redacted parts
// stay redacted; headers of a single message are removed.
func (r *recorder) mock(a *schemas.Answer) (action schemas.RuleAction, why string) {
	action = schemas.RuleAction{Status: a.Status, Headers: headers(a.Headers)}
	body, isJSON := a.Body, a.JSON
	if r.agent() {
		if body, why = agentBody(a); why != "" {
			return action, why
		}
	}
	switch {
	case a.Base64:
		action.BodyMode, action.Body = "base64", body
		return action, ""
	case isJSON:
		action.BodyMode, action.Body = "json", body
		if len(body) > 0 && body[0] == '"' { // a string that holds JSON would be answered as that JSON
			action.Body, _ = json.Marshal(string(body)) //nolint:errchkjson // a string: cannot fail
		}
	case len(body) > 0 && string(body) != "null":
		var text string
		if json.Unmarshal(body, &text) != nil {
			return action, "the answer is not kept in a form that can be given again"
		}
		if !whole(text, a.Hash) {
			return action, "the answer is no text in UTF-8, and is not kept as it came"
		}
		if action.BodyMode = "text"; action.Headers["content-type"] == "" {
			action.BodyMode = "raw"
		}
		action.Body = body
	}
	if len(action.Body) > schemas.MaxMockBody {
		return action, "the answer is larger than the " + strconv.Itoa(schemas.MaxMockBody) + " bytes that a rule can hold"
	}
	return action, ""
}

// whole reports whether a text is as it came: bytes that are no text were replaced.
func whole(text, hash string) bool {
	if !strings.ContainsRune(text, '\uFFFD') {
		return true
	}
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:]) == hash
}

// agent reports whether the action's calls were to a remote agent, of whose answers
// only what they say is kept.
func (r *recorder) agent() bool {
	return r.st.Kind == schemas.KindRun && !slices.Contains(schemas.BuiltinTasks(), r.st.Action.TaskType)
}

// agentBody says again what an agent said, as the run contract does. It names no
// request: the next run has another id.
func agentBody(a *schemas.Answer) (json.RawMessage, string) {
	var told schemas.RunResult
	if err := json.Unmarshal(a.Body, &told); err != nil {
		return nil, "the answer is not kept in a form that can be given again"
	}
	doc := struct {
		Status  string          `json:"status"`
		Outputs json.RawMessage `json:"outputs"`
		schemas.RunExtras
		Error *schemas.RunError `json:"error,omitempty"`
	}{schemas.RunOK, told.Outputs, told.RunExtras, told.Error}
	if told.Error != nil {
		doc.Status = schemas.RunFault
	}
	if len(doc.Outputs) == 0 {
		doc.Outputs = json.RawMessage(`{}`)
	}
	body, err := ledger.Encode(doc)
	if err != nil {
		return nil, "the answer is not kept in a form that can be given again"
	}
	return body, ""
}

// headers are those of an answer that a mock may have, a name that stands more than
// once with its values in one. Where there are too many, the last by name are left
// out; the content type stays.
func headers(all []schemas.Header) map[string]string {
	out := map[string]string{}
	for _, h := range all {
		name := strings.ToLower(h.Name)
		if name == "date" || h.Value == redact.Mark || h.Value == redact.Binary || traffic.MockHeader(name, h.Value) != nil {
			continue
		}
		value := h.Value
		if before, ok := out[name]; ok {
			value = before + ", " + value
		}
		if traffic.MockHeader(name, value) == nil {
			out[name] = value
		}
	}
	for _, name := range slices.Backward(slices.Sorted(maps.Keys(out))) {
		if len(out) > schemas.MaxRuleHeaders && name != "content-type" {
			delete(out, name)
		}
	}
	if len(out) == 0 {
		return nil
	}
	return out
}
