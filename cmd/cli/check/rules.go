package check

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"weir/schemas"
)

// rule is what must hold of an answer: of the one that the first word of its id names.
type rule struct {
	id    string
	needs string // the ids of the rules without which it means nothing, with spaces between
	what  string // must hold
	hint  string // what to do
	// broken is what was there instead; empty: the rule holds.
	broken func(a *answer) string
}

// The hints of several rules.
const (
	healthy  = "answer 200 with an object such as {\"status\":\"ok\"}"
	serve    = "serve this route; answer an accepted run with 200, whatever its result"
	repeat   = "repeat request_id as it came"
	typed    = "repeat task_type as it came"
	succeed  = "send \"status\":\"ok\" for a run that succeeded, and an error with a code for one that did not"
	outputs  = "send outputs, empty if there are none: {}"
	members  = "leave out what there is none of: null is no list and no object"
	word     = "some callers know no other word"
	oddKinds = "what is optional is absent or of its kind, never null"
	isID     = "its request_id is the request's"
	isType   = "its task_type is the request's"
)

// rules is the table, in the order in which the rules are checked: a rule comes after those it needs.
func rules() []rule {
	return []rule{
		{"reach", "", "the service answers at all", "start it, and name the address it listens on", func(a *answer) string { return a.none }},
		{"health.status", "reach", "GET /health answers 200", healthy, failed},
		{"health.body", "health.status", "its body is an object with a string status", healthy, noStatus},
		{"ready.status", "reach", "GET /health/ready answers 200", healthy, failed},
		{"ready.body", "ready.status", "its body is an object with a string status", healthy, noStatus},

		{"sync.status", "reach", "POST " + schemas.RouteRunSync + " answers 200", serve, failed},
		{"sync.type", "sync.status", "its content type is application/json", "send Content-Type: application/json and no Content-Encoding", notType("application/json")},
		{"sync.body", "sync.status", "its body is one JSON object", "send one whole object in UTF-8", func(a *answer) string { return a.notDoc }},
		{"sync.request_id", "sync.body", "request_id is the request's", repeat, otherID},
		{"sync.success", "sync.body", "it says that the run succeeded", succeed, notSuccess("ok")},
		{"sync.error", "sync.success", "a success has no error", "leave error out of an answer that is ok", errorBeside},
		{"sync.outputs", "sync.body", "outputs is an object", outputs, notOutputs("outputs")},
		{"sync.members", "sync.body", oddKinds, members, oddMember},
		{"sync.word", "sync.success", "the status is ok", word, notWord},

		{"stream.status", "reach", "POST " + schemas.RouteRunStream + " answers 200", serve, failed},
		{"stream.type", "stream.status", "its content type is text/event-stream", "send Content-Type: text/event-stream and no Content-Encoding", notType("text/event-stream")},
		{"stream.first", "stream.status", "the first event comes in time", "send started as soon as the run is taken, and flush it", noEvent},
		{"stream.utf8", "stream.first", "all of it is UTF-8", "encode it so", func(a *answer) string { return a.notUTF8 }},
		{"stream.framing", "stream.first", "each line is a field, a comment or empty", "begin each line of an event's data with data:", func(a *answer) string { return a.notField }},
		{"stream.names", "stream.first", "each event is named by an event line", "send event: NAME ahead of data:", func(a *answer) string { return a.unnamed }},
		{"stream.data", "stream.first", "the data of each event is JSON", "send a text as a JSON string", func(a *answer) string { return a.notJSON }},
		{"stream.blank", "stream.first", "a blank line ends the last event", "send an empty line after every event: without it the last one is lost", unended},

		{"start.name", "stream.first", "the first event is started", "begin with event: started", notStarted},
		{"start.request_id", "start.name", isID, repeat, otherID},
		{"start.task_type", "start.name", isType, typed, otherType},
		{"stream.terminal", "stream.first", "there is a terminal event: complete, final or done", "end every stream with one, also where the run failed", noEnd},
		{"stream.single", "stream.terminal", "there is exactly one", "send one terminal event with every field", manyEnds},
		{"stream.last", "stream.terminal", "it is the last event", "send nothing after it", endNotLast},
		{"stream.close", "stream.terminal", "the stream closes after it", "close the answer, in order, once it is sent", func(a *answer) string { return a.stopped }},

		{"end.request_id", "stream.terminal", "the terminal event's request_id is the request's", repeat, otherID},
		{"end.task_type", "stream.terminal", isType, typed, otherType},
		{"end.status", "stream.terminal", "its status is a string", "send \"status\":\"ok\", also beside success", noStatus},
		{"end.success", "stream.terminal", "it says that the run succeeded", succeed, notSuccess("ok", "success")},
		{"end.error", "end.success", "a success has no error", "leave error out of an end that is ok", errorBeside},
		{"end.outputs", "stream.terminal", "its outputs, or data, is an object", outputs, notOutputs("outputs", "data")},
		{"end.members", "stream.terminal", oddKinds, members, oddMember},
		{"end.word", "end.status end.success", "its status is ok", word, notWord},

		{"unknown.status", "sync.status", "a task type that it has not is refused with 4xx", "answer 400", not4xx},
		{"unknown.body", "unknown.status", "the refusal has the contract's shape", "answer with request_id, \"ok\":false, \"status\":\"error\", \"outputs\":{}, warnings and error", notRefusal},
		{"unknown.request_id", "unknown.body", isID, repeat, otherID},
		{"malformed.status", "sync.status", "a request without request_id is refused with 4xx", "answer 422", not4xx},
	}
}

// about is the answer that the rule is about.
func (r rule) about() string {
	name, _, _ := strings.Cut(r.id, ".")
	return name
}

// group is the part of the report that the rule is in.
func (r rule) group() string {
	switch name := r.about(); name {
	case "reach", "ready":
		return "health"
	case "start", "end":
		return "stream"
	case "unknown", "malformed":
		return "refusals"
	default:
		return name
	}
}

// advice reports whether the contract merely recommends what the rule says.
func (r rule) advice() bool {
	return slices.Contains([]string{"sync.word", "start.task_type", "end.word"}, r.id)
}

// fix is the hint for a broken rule: by the answer's own error if the rule is about success, else the rule's.
func (r rule) fix(a *answer) string {
	status := strings.HasSuffix(r.id, ".status") && r.id != "end.status" && r.group() != "refusals"
	if status || strings.HasSuffix(r.id, ".success") {
		return cmp.Or(a.hint(), r.hint)
	}
	return r.hint
}

// hint says what to do about the error in an answer; empty: neither its code nor its status says more than a rule.
func (a *answer) hint() string {
	code := schemas.Code(a.doc.Get("error.code").Str)
	switch {
	case a.status == http.StatusTooManyRequests, a.status == http.StatusServiceUnavailable: // whatever the code is
		return "it says that it is busy or not ready; try again when it is neither"
	case code == schemas.AgentUnavailable:
		return "start the agent that serves this task type, or correct its URL in the configuration"
	case code == schemas.UnsupportedTaskType:
		return "name a task type that it serves after the = of the target"
	case strings.HasPrefix(a.doc.Get("error.details.code").Str, "DENY_"):
		return "its policy denies the run's call: change the policy, or the configuration of the agent"
	case code == schemas.ValidationError && a.status == http.StatusOK:
		return "give the inputs that the task type needs with --inputs"
	case code != "" && a.status == http.StatusOK:
		return "read the message of the run; if it needs inputs to succeed, give them with --inputs"
	case a.none != "":
		return "answer, and in time; --timeout and --first-event give it longer"
	case a.status == http.StatusUnauthorized, a.status == http.StatusForbidden:
		return "name a file with a token that may do this with --token-file"
	case a.status == http.StatusBadRequest, a.status == http.StatusUnprocessableEntity:
		return "look at what the refusal says; if it is about the inputs, give others with --inputs"
	case a.status >= 300 && a.status < 400:
		return "name the address that it redirects to: redirects are not followed"
	default:
		return ""
	}
}

// when is what was there, if it is wrong.
func when(wrong bool, what string) string {
	if !wrong {
		return ""
	}
	return what
}

// within is the status, or why there is none, if it is not one of these.
func (a *answer) within(first, last int) string {
	if a.none != "" || a.status >= first && a.status <= last {
		return a.none
	}
	return strings.TrimSpace(fmt.Sprintf("%d %s", a.status, http.StatusText(a.status)))
}

func not4xx(a *answer) string { return a.within(400, 499) }

// failed: the status is not 200. The error of the document is added.
func failed(a *answer) string {
	said := a.within(http.StatusOK, http.StatusOK)
	return when(said != "", said+failure(a.doc))
}

func notType(want string) func(*answer) string {
	return func(a *answer) string {
		switch {
		case a.mediaType == "":
			return "there is none"
		case a.mediaType != want:
			return quote(a.mediaType)
		default:
			return when(a.encoding != "" && a.encoding != "identity", "it is encoded: "+quote(a.encoding))
		}
	}
}

func noStatus(a *answer) string {
	if a.notDoc != "" {
		return a.notDoc
	}
	return when(a.doc.Get("status").Str == "", found(a.doc, "status"))
}

func (a *answer) not(member, want string) string {
	return when(want == "" || a.doc.Get(member).Str != want, found(a.doc, member))
}

func otherID(a *answer) string   { return a.not("request_id", a.id) }
func otherType(a *answer) string { return a.not("task_type", a.task) }
func notWord(a *answer) string   { return a.not("status", schemas.RunOK) }

// notSuccess: neither does the status mean success, nor is one of these members true.
func notSuccess(flags ...string) func(*answer) string {
	return func(a *answer) string {
		status := a.doc.Get("status").Str
		well := status == schemas.RunOK || status == "success" || slices.ContainsFunc(flags, func(flag string) bool { return a.doc.Get(flag).Type == gjson.True })
		return when(!well, found(a.doc, "status")+failure(a.doc))
	}
}

func errorBeside(a *answer) string {
	what := kind(a.doc.Get("error"))
	return when(what != "" && what != "null", found(a.doc, "error")) // null is for the rule of members
}

func notOutputs(names ...string) func(*answer) string {
	return func(a *answer) string {
		if slices.ContainsFunc(names, func(name string) bool { return kind(a.doc.Get(name)) == "an object" }) {
			return ""
		}
		if kind(a.doc.Get(names[0])) == "" {
			return "there is no " + strings.Join(names, " and no ")
		}
		return found(a.doc, names[0])
	}
}

// oddMember finds an optional member that is not of its kind.
func oddMember(a *answer) string {
	for _, member := range []struct{ name, kind string }{
		{"artifacts", "a list"}, {"warnings", "a list"}, {"provenance", "an object"}, {"usage", "an object"}, {"grounding", ""}, {"error", ""},
	} {
		got := kind(a.doc.Get(member.name))
		switch {
		case got == "":
		case got == "null", member.kind != "" && got != member.kind:
			return member.name + " is " + got
		case got == "a list" && member.kind != "" && slices.ContainsFunc(a.doc.Get(member.name).Array(), noText):
			return member.name + " holds what is no string"
		}
	}
	return ""
}

// notRefusal: a refusal in the contract's shape denies success and has outputs.
func notRefusal(a *answer) string {
	switch {
	case a.notDoc != "":
		return a.notDoc
	case a.doc.Get("ok").Type != gjson.False && a.doc.Get("status").Str != schemas.RunFault:
		return "neither \"ok\":false nor \"status\":\"error\""
	default:
		return notOutputs("outputs")(a)
	}
}

func unended(a *answer) string { return when(a.open, "the stream closed inside an event") }

func noEvent(a *answer) string {
	return when(a.events == 0, cmp.Or(a.stopped, "the stream closed without one"))
}

func notStarted(a *answer) string {
	return when(a.first.word != schemas.RunEventStarted, "it is "+quote(a.first.word))
}

func noEnd(a *answer) string {
	return when(a.ends == 0, cmp.Or(a.stopped, "the last event is "+quote(a.last.word)))
}

func manyEnds(a *answer) string { return when(a.ends > 1, fmt.Sprintf("there are %d", a.ends)) }

func endNotLast(a *answer) string {
	return when(!a.last.terminal(), "the last event is "+quote(a.last.word))
}
