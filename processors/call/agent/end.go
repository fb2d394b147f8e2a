package agent

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"weir/internal/ledger"
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
	outputs json.RawMessage // as they came; nil where none did
}

// ends finds the one end among all that an agent tells.
type ends struct {
	opts CallOptions
	seen int // events, of any kind
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
func (e *ends) end(d data, name, hash string) {
	if d.doubted {
		e.doubted = true
		e.warn(doubtedEnd)
		return
	}
	members := d.members
	success, said := indicator(members)
	id, _ := text(members["request_id"])
	switch {
	case e.first != nil && !said:
		e.warn(afterEnd)
	case e.first != nil:
		e.again(members, success, id)
	case said:
		e.first = &end{result: e.result(members, success, id), hash: hash, id: id, outputs: outputs(members)}
		if e.vague {
			e.warn(vagueBefore)
		}
		if e.failing != nil {
			e.warn("before its end the agent said: " + shorten(e.failing.result.Error.Message))
		}
	default:
		e.unsaid(members, d.doc, name, hash)
	}
}

// unsaid takes an end that does not say whether the run succeeded.
func (e *ends) unsaid(members map[string]json.RawMessage, doc json.RawMessage, name, hash string) {
	word := strings.ToLower(strings.TrimSpace(name))
	if errorMember(members) == nil && word != "error" && word != "failed" {
		e.vague = true
		return
	}
	var r schemas.RunResult
	e.failed(&r, members)
	if words, ok := text(doc); ok && words != "" {
		r.Error.Message = words
	}
	e.failing = &end{result: r, hash: hash}
}

// again holds a later end against the first.
func (e *ends) again(members map[string]json.RawMessage, success bool, id string) {
	later := outputs(members)
	switch {
	case success != (e.first.result.Error == nil),
		id != "" && e.first.id != "" && id != e.first.id,
		success && later != nil && e.first.outputs != nil && !sameJSON(later, e.first.outputs):
		e.conflict = true
	default:
		e.warn(afterEnd)
	}
}

// outcome is the result of all the ends.
func (e *ends) outcome() (schemas.RunResult, string) {
	if e.conflict {
		return schemas.RunResult{Error: protocolError(conflictText)}, e.first.hash
	}
	r := e.first.result
	r.Warnings = append(r.Warnings, e.warnings...)
	return r, e.first.hash
}

// result is an end in canonical form.
func (e *ends) result(members map[string]json.RawMessage, success bool, id string) schemas.RunResult {
	r := schemas.RunResult{RunExtras: e.extras(members)}
	switch {
	case id == "":
		e.warn(noID)
	case id != e.opts.RequestID:
		return schemas.RunResult{Error: protocolError(otherIDText)}
	}
	if task, ok := text(members["task_type"]); ok && task != e.opts.TaskType {
		e.warn(otherTask)
	}
	if !success {
		e.failed(&r, members)
		return r
	}
	if word, _ := text(members["status"]); strings.EqualFold(word, "degraded") {
		e.warn(degraded)
		if told := errorMember(members); told != nil {
			e.warn("the agent said: " + shorten(told.Message))
		}
	}
	if r.Outputs = e.outputs(members); r.Outputs == nil {
		e.warn(noOutputs)
		r.Outputs = json.RawMessage("{}")
	}
	return r
}

// failed adds the error of an end that says that the run failed. Where the agent gives no
// error object, its outputs may say why, and are kept.
func (e *ends) failed(r *schemas.RunResult, members map[string]json.RawMessage) {
	r.Error = errorMember(members)
	if r.Error != nil && object(present(members["error"])) != nil {
		return
	}
	out := e.outputs(members)
	if !empty(out) {
		r.Outputs = out
	}
	if r.Error != nil {
		return
	}
	r.Error = frameworkError(members)
	inner := object(out)
	for _, name := range []string{"error", "warning"} {
		if words, ok := text(inner[name]); ok && words != "" {
			r.Error.Message = words
			return
		}
	}
}

// outputs are an end's outputs as an object; nil where there are none.
func (e *ends) outputs(members map[string]json.RawMessage) json.RawMessage {
	out := outputs(members)
	if out == nil || out[0] == '{' {
		return out
	}
	e.warn(oddOutputs)
	return slices.Concat(json.RawMessage(`{"value":`), out, json.RawMessage("}"))
}

// extras are the optional members, without nulls and what is in no known form.
func (e *ends) extras(members map[string]json.RawMessage) schemas.RunExtras {
	var x schemas.RunExtras
	x.Artifacts = e.texts(members, "artifacts")
	x.Warnings = e.texts(members, "warnings")
	x.Provenance = e.object(members, "provenance")
	x.Usage = e.object(members, "usage")
	x.Grounding = present(members["grounding"])
	return x
}

// object is a member that is an object.
func (e *ends) object(members map[string]json.RawMessage, name string) json.RawMessage {
	raw := present(members[name])
	if raw != nil && raw[0] != '{' {
		e.warn(name + dropped)
		return nil
	}
	return raw
}

// texts is a member that is a list of strings. One string is a list of one.
func (e *ends) texts(members map[string]json.RawMessage, name string) []string {
	raw := present(members[name])
	if raw == nil {
		return nil
	}
	if one, ok := text(raw); ok {
		return []string{one}
	}
	var items []json.RawMessage
	if err := json.Unmarshal(raw, &items); err != nil {
		e.warn(name + dropped)
		return nil
	}
	var list []string
	for _, item := range items {
		if s, ok := text(item); ok {
			list = append(list, s)
		} else {
			e.warn("an item of " + name + dropped)
		}
	}
	return list
}

// indicator reads whether an end reports success. An error in it outweighs a success status, except
// a degraded one.
func indicator(members map[string]json.RawMessage) (success, said bool) {
	yes, no, soft := false, false, false
	if word, ok := text(members["status"]); ok {
		switch strings.ToLower(word) {
		case "ok", "success":
			yes = true
		case "degraded":
			yes, soft = true, true
		case "error", "failed", "failure", "canceled", "cancelled", "timeout":
			no = true
		}
	}
	for _, name := range []string{"ok", "success"} {
		switch string(bytes.TrimSpace(members[name])) {
		case "true":
			yes = true
		case "false":
			no = true
		}
	}
	if yes && !soft && errorMember(members) != nil {
		no = true
	}
	return yes && !no, yes || no
}

// outputs are an end's outputs, or its data, as they came.
func outputs(members map[string]json.RawMessage) json.RawMessage {
	if out := present(members["outputs"]); out != nil {
		return out
	}
	return present(members["data"])
}

func sameJSON(a, b json.RawMessage) bool {
	return bytes.Equal(a, b) || reflect.DeepEqual(decode(a), decode(b))
}

// decode reads JSON with its numbers as they are written.
func decode(raw json.RawMessage) any {
	var v any
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		return nil
	}
	return v
}

// shorten bounds what is quoted of an agent in a warning.
func shorten(s string) string {
	if r := []rune(s); len(r) > maxStrayWords {
		return string(r[:maxStrayWords])
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
		usage = make(map[string]json.RawMessage, 1)
	}
	usage["duration_ms"] = fmt.Append(nil, took.Milliseconds())
	if doc, err := ledger.Encode(usage); err == nil {
		r.Usage = doc
	}
	return r
}
