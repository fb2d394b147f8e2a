package agent

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/tidwall/gjson"

	"weir/internal/ledger"
	"weir/processors/call/dial"
	"weir/schemas"
)

// What Weir says of an agent's end, among the warnings.
const (
	afterEnd    = "the agent sent more after its end"
	unfinished  = "the agent's last event was not finished by a blank line"
	noID        = "the agent's end does not name the request"
	otherName   = "the agent's end was one only because no other came"
	otherTask   = "the agent's end names another task type"
	degraded    = "the agent reports a degraded result"
	noOutputs   = "the agent gave no outputs"
	oddOutputs  = "the agent's outputs were not an object; they are under value"
	doubtedEnd  = "the agent sent an end that is not valid JSON to every reader"
	vagueBefore = "the agent sent an end that does not say whether the run succeeded"
	halvedEnd   = "the agent sent an end with half of a surrogate pair, which is shown as U+FFFD"
	notUTF8     = "the agent sent an event that is not UTF-8; each invalid byte is shown as U+FFFD"
	dropped     = " was not in the form of the contract and is left out"
)

// NoWords stands for the message of an agent that failed without one.
const NoWords = "the agent says that the task failed"

// What Weir says of an agent that said what cannot be.
const (
	conflictText  = "the agent ended the run twice, and differently"
	otherIDText   = "the agent's end is that of another request"
	maxStrayWords = 512
)

// end is one reported end.
type end struct {
	result  schemas.RunResult
	hash    string
	id      string
	outputs gjson.Result
}

// ends finds the one end among all that an agent tells.
type ends struct {
	opts CallOptions
	// first is the first end that says whether the run succeeded.
	first    *end
	conflict bool
	// failing is an end that does not say it, but bears the name of a failure or
	// holds an error; vague says that there was one that tells nothing at all.
	failing  *end
	vague    bool
	doubted  bool // there was one that says one thing to one reader, and another to the next
	warnings []string
}

func (e *ends) warn(text string) {
	if !slices.Contains(e.warnings, text) {
		e.warnings = append(e.warnings, text)
	}
}

// end takes one end.
func (e *ends) end(d data, name string, raw []byte) {
	if d.doubted {
		e.doubted = true
		e.warn(doubtedEnd)
		return
	}
	if d.halved {
		e.warn(halvedEnd)
	}
	m := d.members
	success, said := success(m)
	now := &end{hash: dial.Hash(raw), id: m.Get("request_id").Str, outputs: outputs(m)}
	switch first := e.first; {
	case said && first == nil:
		e.first, now.result = now, e.result(m, success, now.id)
		if e.vague {
			e.warn(vagueBefore)
		}
		if e.failing != nil {
			e.warn("before its end the agent said: " + Shorten(e.failing.result.Error.Message))
		}
	case said && (success != (first.result.Error == nil) || now.id != "" && first.id != "" && now.id != first.id ||
		success && now.outputs.Type != gjson.Null && first.outputs.Type != gjson.Null && !same(now.outputs.Raw, first.outputs.Raw)):
		e.conflict = true
	case first != nil:
		e.warn(afterEnd)
	case failure(m) == nil && !slices.Contains([]string{"error", "failed"}, strings.ToLower(strings.TrimSpace(name))):
		e.vague = true
	default:
		e.failed(&now.result, m)
		if d.text != "" {
			now.result.Error.Message = d.text
		}
		e.failing = now
	}
}

// outcome is the result of all the ends.
func (e *ends) outcome() schemas.RunResult {
	if e.conflict {
		return schemas.RunResult{Error: protocolError(conflictText)}
	}
	r := e.first.result
	r.Warnings = append(r.Warnings, e.warnings...)
	return r
}

// result is an end in canonical form.
func (e *ends) result(m gjson.Result, success bool, id string) schemas.RunResult {
	r := schemas.RunResult{RunExtras: e.extras(m)}
	switch {
	case id == "":
		e.warn(noID)
	case id != e.opts.RequestID:
		return schemas.RunResult{Error: protocolError(otherIDText)}
	}
	if task := m.Get("task_type"); task.Type == gjson.String && task.Str != e.opts.TaskType {
		e.warn(otherTask)
	}
	if !success {
		e.failed(&r, m)
		return r
	}
	if strings.EqualFold(m.Get("status").Str, "degraded") {
		e.warn(degraded)
		if told := failure(m); told != nil {
			e.warn("the agent said: " + Shorten(told.Message))
		}
	}
	if r.Outputs = e.outputs(m); r.Outputs == nil {
		e.warn(noOutputs)
		r.Outputs = json.RawMessage("{}")
	}
	return r
}

// failed adds the error of an end that says that the run failed: its error member, or one in the
// forms of common agent frameworks, under detail or message. Where the agent gives no error object,
// its outputs may say why, and are kept.
func (e *ends) failed(r *schemas.RunResult, m gjson.Result) {
	r.Error = failure(m)
	if r.Error != nil && m.Get("error").IsObject() {
		return
	}
	out := gjson.ParseBytes(e.outputs(m))
	if !empty(out) {
		r.Outputs = given(out)
	}
	if r.Error != nil {
		return
	}
	r.Error = &schemas.RunError{Code: string(schemas.TaskFailed), Message: NoWords}
	for _, name := range []string{"message", "detail"} {
		if v := m.Get(name); v.Str != "" {
			r.Error.Message = v.Str
		} else if v.Type != gjson.Null {
			r.Error.Details = details(v, name)
		}
	}
	for _, name := range []string{"error", "warning"} {
		if words := out.Get(name).Str; words != "" {
			r.Error.Message = words
			return
		}
	}
}

// outputs are an end's outputs as an object; nil where there are none.
func (e *ends) outputs(m gjson.Result) json.RawMessage {
	out := outputs(m)
	if out.Type == gjson.Null || out.IsObject() {
		return given(out)
	}
	e.warn(oddOutputs)
	return under("value", out)
}

// extras are the optional members, without nulls and what is in no known form.
func (e *ends) extras(m gjson.Result) schemas.RunExtras {
	var x schemas.RunExtras
	x.Artifacts, x.Warnings = e.texts(m, "artifacts"), e.texts(m, "warnings")
	x.Provenance, x.Usage = e.object(m, "provenance"), e.object(m, "usage")
	x.Grounding = given(m.Get("grounding"))
	return x
}

// object is a member that is an object.
func (e *ends) object(m gjson.Result, name string) json.RawMessage {
	v := m.Get(name)
	if v.Type != gjson.Null && !v.IsObject() {
		e.warn(name + dropped)
		return nil
	}
	return given(v)
}

// texts is a member that is a list of strings. One string is a list of one.
func (e *ends) texts(m gjson.Result, name string) (list []string) {
	switch v := m.Get(name); {
	case v.Type == gjson.String:
		return []string{v.Str}
	case v.Type != gjson.Null && !v.IsArray():
		e.warn(name + dropped)
		return nil
	}
	for _, item := range m.Get(name).Array() {
		if item.Type == gjson.String {
			list = append(list, item.Str)
		} else {
			e.warn("an item of " + name + dropped)
		}
	}
	return list
}

// same reports whether two texts are the same JSON, with its numbers as they are written.
func same(a, b string) bool {
	x, y := jsontext.Value(a), jsontext.Value(b)
	asWritten := []jsontext.Options{jsontext.CanonicalizeRawInts(false), jsontext.CanonicalizeRawFloats(false)}
	return a == b || x.Canonicalize(asWritten...) == nil && y.Canonicalize(asWritten...) == nil && bytes.Equal(x, y)
}

// Shorten bounds what is quoted of an agent, in code points. It allocates nothing: a message may be
// as long as an answer.
func Shorten(s string) string {
	n := 0
	for i := range s {
		if n++; n > maxStrayWords {
			return s[:i]
		}
	}
	return s
}

// Timed adds to a result's usage how long the run took, where the agent did not
// say it.
func Timed(r schemas.RunResult, took time.Duration) schemas.RunResult {
	var usage map[string]json.RawMessage
	if r.Usage != nil && json.Unmarshal(r.Usage, &usage) != nil {
		return r
	}
	if d, ok := usage["duration_ms"]; ok && string(d) != "null" {
		return r
	}
	if usage == nil {
		usage = map[string]json.RawMessage{}
	}
	usage["duration_ms"] = fmt.Append(nil, took.Milliseconds())
	if doc, err := ledger.Encode(usage); err == nil {
		r.Usage = doc
	}
	return r
}
