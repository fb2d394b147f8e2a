// Package document generates the JSON Schemas of the public documents, and the
// OpenAPI description of the routes that carry them, from the contracts' types
// and comments.
package document

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/invopop/jsonschema"

	"weir/schemas"
)

// object is a JSON object.
type object = map[string]any

// public is one document: a file of its own, and a component of the description.
type public struct {
	name, title string
	types       []reflect.Type // more than one: any of them
	lenient     bool           // a request whose unknown members are ignored
	open        []string       // the definitions of a request whose unknown members are ignored
}

// published lists the public documents.
func published() []public {
	one := func(name, title string, t ...reflect.Type) public { return public{name: name, title: title, types: t} }
	return []public{
		one("execute.request", "The body of POST /v1/execute", reflect.TypeFor[schemas.ExecuteRequest](), reflect.TypeFor[schemas.ExecuteBare]()),
		one("execute.outcome", "The answer of POST /v1/execute", reflect.TypeFor[schemas.ExecuteOutcome]()),
		one("execute.error", "The error of POST /v1/execute", reflect.TypeFor[schemas.ExecuteError]()),
		one("batch.answer", "The answer of POST /v1/batch", reflect.TypeFor[schemas.BatchAnswer]()),
		{name: "plan.request", title: "The body of POST /v1/plans", types: []reflect.Type{reflect.TypeFor[schemas.PlanRequest]()}, open: []string{"ProposedPlan", "PlanDecision"}},
		one("plan.result", "The answer of POST /v1/plans", reflect.TypeFor[schemas.PlanResult]()),
		{name: "run.request", title: "The body of POST /agents/run/sync and POST /agents/run/stream", types: []reflect.Type{reflect.TypeFor[schemas.RunRequest]()}, lenient: true},
		one("run.response", "The answer of POST /agents/run/sync", reflect.TypeFor[schemas.RunResponse]()),
		one("run.refusal", "The answer to a run that was not accepted", reflect.TypeFor[schemas.RunRefusal]()),
		one("run.event", "The data of an event of POST /agents/run/stream", reflect.TypeFor[schemas.RunEvent]()),
		{name: "agent.request", title: "The body of POST /v1/agent-api", types: []reflect.Type{reflect.TypeFor[schemas.AgentEnvelope](), reflect.TypeFor[schemas.AgentRequest]()}, lenient: true},
		one("agent.response", "The answer of POST /v1/agent-api", reflect.TypeFor[schemas.AgentResponse]()),
		one("rule", "A traffic rule", reflect.TypeFor[schemas.Rule]()),
		one("rule.page", "The answer of GET /v1/rules", reflect.TypeFor[schemas.RulePage]()),
		one("rule.preview.request", "The body of POST /v1/rules/preview", reflect.TypeFor[schemas.PreviewRequest]()),
		one("rule.preview", "The answer of POST /v1/rules/preview", reflect.TypeFor[schemas.Preview]()),
		one("rule.record.request", "The body of POST /v1/rules/record", reflect.TypeFor[schemas.RecordRequest]()),
		one("rule.recording", "The answer of POST /v1/rules/record", reflect.TypeFor[schemas.Recording]()),
		one("rule.audit", "The payload of the evidence of a write of the rules", reflect.TypeFor[schemas.RuleAudit]()),
		one("task.request", "The body of POST /v1/tasks", reflect.TypeFor[schemas.TaskRequest]()),
		one("task.new", "The answer of POST /v1/tasks, and of the routes that change a task", reflect.TypeFor[schemas.NewTask]()),
		one("task", "Where a task stands", reflect.TypeFor[schemas.TaskView]()),
		one("task.page", "The answer of GET /v1/tasks", reflect.TypeFor[schemas.TaskPage]()),
		one("task.update", "A change of a task's state, on its stream of events and on NATS", reflect.TypeFor[schemas.TaskUpdate]()),
		one("task.update.page", "A page of changes of a task's state", reflect.TypeFor[schemas.Page[schemas.TaskUpdate]]()),
		one("task.answer.request", "The body of POST /v1/tasks/{id}/answer", reflect.TypeFor[schemas.AnswerRequest]()),
		one("task.lease.request", "The body of POST /v1/tasks/lease", reflect.TypeFor[schemas.LeaseRequest]()),
		one("task.lease", "The answer of POST /v1/tasks/lease", reflect.TypeFor[schemas.LeasedTask]()),
		one("task.audit", "The payload of the evidence of a change of a task's state", reflect.TypeFor[schemas.TaskAudit]()),
		one("agent.task", "The answer of GET /agent/task", reflect.TypeFor[schemas.AgentTask]()),
		{name: "agent.complete.request", title: "The body of POST /agent/task/complete", types: []reflect.Type{reflect.TypeFor[schemas.CompleteRequest]()}, lenient: true},
		{name: "agent.fail.request", title: "The body of POST /agent/task/fail", types: []reflect.Type{reflect.TypeFor[schemas.FailRequest]()}, lenient: true},
		one("agent.subtoken.request", "The body of POST /agent/task/subtokens", reflect.TypeFor[schemas.SubtokenRequest]()),
		one("agent.subtoken", "The answer of POST /agent/task/subtokens", reflect.TypeFor[schemas.NewSubtoken]()),
		one("agent.inquiry.request", "The body of POST /agent/inquiry", reflect.TypeFor[schemas.InquiryRequest]()),
		one("agent.output.request", "The body of POST /agent/output", reflect.TypeFor[schemas.OutputRequest]()),
		one("task.output", "A piece of output of a task's command, in an event of type progress", reflect.TypeFor[schemas.TaskOutput]()),
		{name: "chat.request", title: "The body of POST /chat/completions", types: []reflect.Type{reflect.TypeFor[schemas.ChatRequest]()}, lenient: true},
		{name: "responses.request", title: "The body of POST /responses", types: []reflect.Type{reflect.TypeFor[schemas.ResponsesRequest]()}, lenient: true},
		{name: "messages.request", title: "The body of POST /messages", types: []reflect.Type{reflect.TypeFor[schemas.MessagesRequest]()}, lenient: true},
		{name: "count.request", title: "The body of POST /messages/count_tokens", types: []reflect.Type{reflect.TypeFor[schemas.CountRequest]()}, lenient: true},
		{name: "embeddings.request", title: "The body of POST /embeddings", types: []reflect.Type{reflect.TypeFor[schemas.EmbeddingsRequest]()}, lenient: true},
		one("messages.refusal", "The error of the routes of messages", reflect.TypeFor[schemas.MessagesRefusal]()),
		one("chat.completion", "The answer of POST /chat/completions", reflect.TypeFor[schemas.ChatCompletion]()),
		one("chat.refusal", "The error of the routes of chat completions, responses, embeddings and models", reflect.TypeFor[schemas.ChatRefusal]()),
		one("response", "A response of GET /responses/{id} that has not succeeded", reflect.TypeFor[schemas.Response]()),
		one("chat.audit", "The payload of the evidence of a completion", reflect.TypeFor[schemas.ChatAudit]()),
		one("budget", "An account of a budget", reflect.TypeFor[schemas.BudgetView]()),
		one("budget.page", "The answer of GET /v1/budgets", reflect.TypeFor[schemas.Page[schemas.BudgetView]]()),
		one("operation", "What an operator has decided", reflect.TypeFor[schemas.Operation]()),
		one("operation.request", "The body of POST /v1/operations/{pause,resume,pin,unpin}", reflect.TypeFor[schemas.OperationRequest]()),
		one("operations", "The answer of GET /v1/operations", reflect.TypeFor[schemas.OperationsView]()),
		one("model.list", "The answer of GET /models", reflect.TypeFor[schemas.ModelList]()),
		one("model", "A model", reflect.TypeFor[schemas.ModelView]()),
		one("repo.request", "The body of POST /v1/repos", reflect.TypeFor[schemas.RepoRequest]()),
		one("repo", "A repository", reflect.TypeFor[schemas.Repo]()),
		one("repo.page", "The answer of GET /v1/repos", reflect.TypeFor[schemas.Page[schemas.Repo]]()),
		one("repo.audit", "The payload of the evidence of the making of a repository", reflect.TypeFor[schemas.RepoAudit]()),
		one("push.audit", "The payload of the evidence of a push", reflect.TypeFor[schemas.PushAudit]()),
		one("tunnel.audit", "The payload of the evidence of a tunnel", reflect.TypeFor[schemas.TunnelAudit]()),
		one("receipt", "A receipt: the accepted action and its URL", reflect.TypeFor[schemas.Receipt]()),
		one("problem", "An error of every other route", reflect.TypeFor[schemas.Problem]()),
		one("action", "Where an action stands", reflect.TypeFor[schemas.ActionView]()),
		one("action.page", "A page of actions", reflect.TypeFor[schemas.ActionPage]()),
		one("usage", "The answer of GET /v1/usage", reflect.TypeFor[schemas.Usage]()),
		one("stats", "The answer of GET /v1/stats", reflect.TypeFor[schemas.Stats]()),
		one("action.payload", "What an action asks for", reflect.TypeFor[schemas.ActionPayload]()),
		one("action.status", "The answer of a cancel and a resolve", reflect.TypeFor[schemas.ActionStatus]()),
		one("event", "An event of an action, as its owner sees it", reflect.TypeFor[schemas.EventView]()),
		one("event.page", "A page of events", reflect.TypeFor[schemas.Page[schemas.EventView]]()),
		one("evidence", "A record of evidence", reflect.TypeFor[schemas.Evidence]()),
		one("evidence.page", "A page of evidence", reflect.TypeFor[schemas.Page[schemas.Evidence]]()),
		one("dead_letter", "A dead letter", reflect.TypeFor[schemas.DeadLetterView]()),
		one("dead_letter.page", "A page of dead letters", reflect.TypeFor[schemas.Page[schemas.DeadLetterView]]()),
		one("resolve.request", "The body of POST /v1/actions/{id}/resolve", reflect.TypeFor[schemas.ResolveRequest]()),
		one("redrive.request", "The body of POST /v1/dead-letters/redrive", reflect.TypeFor[schemas.RedriveRequest]()),
		one("policy", "The answer of GET /v1/policy", reflect.TypeFor[schemas.PolicyView]()),
		one("explain.request", "The body of POST /v1/policy/explain", reflect.TypeFor[schemas.ExplainRequest]()),
		one("explanation", "The answer of POST /v1/policy/explain", reflect.TypeFor[schemas.Explanation]()),
		one("reload.request", "The body of POST /v1/policy/reload", reflect.TypeFor[schemas.ReloadRequest]()),
		one("reload", "The answer of POST /v1/policy/reload", reflect.TypeFor[schemas.Reload]()),
		one("node.page", "The answer of GET /v1/nodes", reflect.TypeFor[schemas.Page[schemas.NodeReport]]()),
		one("token.request", "The body of POST /v1/tokens", reflect.TypeFor[schemas.TokenRequest]()),
		one("token.new", "The answer of POST /v1/tokens", reflect.TypeFor[schemas.NewToken]()),
		one("token", "A token as it is shown", reflect.TypeFor[schemas.Token]()),
		one("token.page", "The answer of GET /v1/tokens", reflect.TypeFor[schemas.Page[schemas.Token]]()),
		one("readiness", "The answer of GET /readyz", reflect.TypeFor[schemas.Readiness]()),
		one("health", "The answer of GET /health", reflect.TypeFor[schemas.Health]()),
		one("health.ready", "The answer of GET /health/ready", reflect.TypeFor[schemas.HealthReadiness]()),
		one("sandbox", "The answer of GET /sandbox", reflect.TypeFor[schemas.Sandbox]()),
	}
}

// All generates every file: its name and its text. Source is the folder of the
// contracts, from the working directory.
func All(source string) (map[string][]byte, error) {
	s, err := newSource(source)
	if err != nil {
		return nil, err
	}
	files := make(map[string][]byte)
	components := object{}
	for _, p := range published() {
		doc, defs, err := s.describe(p)
		if err != nil {
			return nil, err
		}
		if files[p.name+".json"], err = encode(doc); err != nil {
			return nil, err
		}
		maps.Copy(components, defs)
	}
	description, err := openAPI(components)
	if err != nil {
		return nil, err
	}
	files["openapi.json"], err = encode(componented(description))
	return files, err
}

// source reflects the contracts' types.
type source struct{ comments map[string]string }

func newSource(dir string) (*source, error) {
	r := jsonschema.Reflector{}
	if err := r.AddGoComments("weir/schemas", dir, jsonschema.WithFullComment()); err != nil {
		return nil, fmt.Errorf("comments of the contracts: %w", err)
	}
	comments := make(map[string]string, len(r.CommentMap))
	for name, text := range r.CommentMap {
		// The folder's own name must not matter.
		if i := strings.LastIndexByte(name, '/'); i >= 0 {
			name = name[i+1:]
		}
		_, name, _ = strings.Cut(name, ".")
		comments["weir/schemas."+name] = strings.Join(strings.Fields(text), " ")
	}
	return &source{comments: comments}, nil
}

// describe gives a document that stands alone, and its definitions.
func (s *source) describe(p public) (doc, defs object, err error) {
	defs = object{}
	var refs []object
	for _, t := range p.types {
		raw, err := json.Marshal(s.reflector().ReflectFromType(t))
		if err != nil {
			return nil, nil, err
		}
		var one object
		if err := json.Unmarshal(raw, &one); err != nil {
			return nil, nil, err
		}
		own, _ := one["$defs"].(object)
		maps.Copy(defs, own)
		refs = append(refs, object{"$ref": one["$ref"]})
	}
	vocabulary(defs)
	wireNames(defs)
	if strings.HasSuffix(p.name, ".request") {
		tolerateNull(defs)
	}
	if p.lenient || !strings.HasSuffix(p.name, ".request") {
		tolerateMore(defs)
	}
	for _, name := range p.open {
		tolerateMore(object{name: defs[name]})
	}
	doc = object{"$schema": jsonschema.Version, "title": p.title, "$defs": defs}
	if len(refs) == 1 {
		doc["$ref"] = refs[0]["$ref"]
	} else {
		doc["anyOf"] = refs
	}
	return doc, defs, nil
}

func (s *source) reflector() *jsonschema.Reflector {
	return &jsonschema.Reflector{Anonymous: true, Namer: typeName, Mapper: word, CommentMap: s.comments}
}

// typeName is a type's name; a page of things is named after them.
func typeName(t reflect.Type) string {
	name, argument, generic := strings.Cut(t.Name(), "[")
	if !generic {
		return name
	}
	argument = strings.TrimSuffix(argument, "]")
	return name + "Of" + argument[strings.LastIndexByte(argument, '.')+1:]
}

// word refers to a closed vocabulary, and knows of numbers that may be missing.
func word(t reflect.Type) *jsonschema.Schema {
	if t == reflect.TypeFor[schemas.Latencies]() {
		number, null := &jsonschema.Schema{Type: "number"}, &jsonschema.Schema{Type: "null"}
		return &jsonschema.Schema{Type: "array", Items: &jsonschema.Schema{AnyOf: []*jsonschema.Schema{number, null}}}
	}
	if _, closed := words()[t.Name()]; closed && t.PkgPath() == "weir/schemas" && t.Kind() == reflect.String {
		return &jsonschema.Schema{Ref: "#/$defs/" + t.Name()}
	}
	return nil
}

func words() map[string][]string {
	codes := slices.Concat(texts(schemas.SettleCodes()), texts(schemas.IngressCodes()))
	slices.Sort(codes)
	return map[string][]string{
		"Code":       slices.Compact(codes),
		"Kind":       texts(schemas.Kinds()),
		"Outcome":    texts(schemas.Outcomes()),
		"Status":     texts(schemas.Statuses()),
		"Variant":    texts(schemas.Variants()),
		"TaskStatus": texts(schemas.TaskStatuses()),
		"TaskWhat": texts([]schemas.TaskWhat{
			schemas.TaskOpened, schemas.TaskClaimed, schemas.TaskReleased, schemas.TaskLost, schemas.TaskReissued, schemas.TaskSubtoken,
			schemas.TaskAsked, schemas.TaskAnswered, schemas.TaskReported, schemas.TaskPushed,
		}),
		"RepoMode": texts([]schemas.RepoMode{schemas.RepoHosted, schemas.RepoProxy}),
		"Class":    texts([]schemas.Class{schemas.ClassSafe, schemas.ClassIdempotent, schemas.ClassKeyed, schemas.ClassOnce}),
		"Priority": texts([]schemas.Priority{schemas.PriorityHigh, schemas.PriorityNormal}),
		"Durability": texts([]schemas.Durability{
			schemas.DurabilityDisk, schemas.DurabilityProcess, schemas.DurabilityReplicated,
		}),
		"EventType": texts([]schemas.EventType{
			schemas.EventAccepted, schemas.EventStarted, schemas.EventAttempt, schemas.EventAttempted, schemas.EventWaiting,
			schemas.EventProgress, schemas.EventDelta, schemas.EventSignal, schemas.EventStatus, schemas.EventCancel, schemas.EventSettled, schemas.EventResolution, schemas.EventSuperseded,
		}),
	}
}

func texts[T ~string](list []T) []string {
	out := make([]string, len(list))
	for i, w := range list {
		out[i] = string(w)
	}
	return out
}

// vocabulary adds the definitions of the words that are referred to.
func vocabulary(defs object) {
	for name, list := range words() {
		if refers(defs, "#/$defs/"+name) {
			defs[name] = object{"type": "string", "enum": list}
		}
	}
}

func refers(node any, ref string) bool {
	switch n := node.(type) {
	case object:
		for key, v := range n {
			if key == "$ref" && v == ref || refers(v, ref) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(n, func(v any) bool { return refers(v, ref) })
	}
	return false
}

// wireNames has each description call its member by the name on the wire.
func wireNames(defs object) {
	eachObject(defs, func(_, properties object) {
		for name, v := range properties {
			p, _ := v.(object)
			text, _ := p["description"].(string)
			for _, end := range []string{" ", ": ", ", "} {
				first, rest, ok := strings.Cut(text, end)
				if ok && strings.EqualFold(first, strings.ReplaceAll(name, "_", "")) {
					p["description"] = name + end + rest
					break
				}
			}
		}
	})
}

// tolerateNull lets null stand for an optional member of a request.
func tolerateNull(defs object) {
	eachObject(defs, func(def, properties object) {
		required, _ := def["required"].([]any)
		for name, v := range properties {
			p, _ := v.(object)
			if slices.Contains(required, any(name)) {
				continue
			}
			if kind, ok := p["type"].(string); ok {
				p["type"] = []any{kind, "null"}
			}
			if list, ok := p["enum"].([]any); ok {
				p["enum"] = append(list, nil)
			}
			if ref, ok := p["$ref"]; ok {
				delete(p, "$ref")
				p["anyOf"] = []any{object{"$ref": ref}, object{"type": "null"}}
			}
		}
	})
}

// tolerateMore lets answers have members that this version does not know.
func tolerateMore(defs object) {
	eachObject(defs, func(def, _ object) { delete(def, "additionalProperties") })
}

// eachObject visits the definitions that have members.
func eachObject(defs object, visit func(def, properties object)) {
	for _, d := range defs {
		def, _ := d.(object)
		if properties, ok := def["properties"].(object); ok {
			visit(def, properties)
		}
	}
}

// encode writes a file: sorted names, two spaces, no HTML escapes.
func encode(doc any) ([]byte, error) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	err := enc.Encode(doc)
	return out.Bytes(), err
}
