package check

import (
	"encoding/json"
	"slices"
	"strings"

	"weir/schemas"
)

// noStatus: a health document needs a status.
func (a answer) noStatus() string {
	if a.notDoc != "" {
		return a.notDoc
	}
	return a.doc.noText("status")
}

// notRefusal: a refusal in the contract's shape denies success and has outputs.
func (a answer) notRefusal() string {
	switch {
	case a.notDoc != "":
		return a.notDoc
	case !a.doc.says("ok", false) && string(a.doc["status"]) != `"`+schemas.RunFault+`"`:
		return "neither \"ok\":false nor \"status\":\"error\""
	case !a.doc.object("outputs"):
		return a.doc.found("outputs")
	default:
		return ""
	}
}

func (d document) noText(name string) string {
	if _, ok := d.text(name); ok {
		return ""
	}
	return d.found(name)
}

func (d document) notText(name, want string) string {
	if got, ok := d.text(name); ok && got == want {
		return ""
	}
	return d.found(name)
}

// notSuccess: the status is a word of success, or one of these members is true.
func (d document) notSuccess(flags ...string) string {
	status, _ := d.text("status")
	if status == schemas.RunOK || status == "success" {
		return ""
	}
	for _, flag := range flags {
		if d.says(flag, true) {
			return ""
		}
	}
	return d.found("status") + d.failure()
}

// failure is the code and the message of an error, ready to be added.
func (d document) failure() string {
	said := d.fault()
	if said.Code == "" {
		return ""
	}
	found := "; its error is " + quote(said.Code)
	if said.Details.Code != "" {
		found += " (" + quote(said.Details.Code) + ")"
	}
	if said.Message != "" {
		found += ": " + quote(said.Message)
	}
	return found
}

// fault is the error in a document, as far as it has the contract's form. Its
// details may have a code that is closer to the cause.
type fault struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Details struct {
		Code string `json:"code"`
	} `json:"details"`
}

func (d document) fault() (f fault) {
	_ = json.Unmarshal(d["error"], &f) // what is not of its kind stays empty
	return f
}

// not200 is head's, with the error that the answer tells.
func (a answer) not200() string {
	if found := a.head.not200(); found != "" {
		return found + a.doc.failure()
	}
	return ""
}

func (s *streamed) not200() string {
	if found := s.head.not200(); found != "" {
		return found + s.refusal.failure()
	}
	return ""
}

func (d document) errorBeside() string {
	if kind(d["error"]) == "absent" || kind(d["error"]) == "null" {
		return "" // null is for the rule of members
	}
	return d.found("error")
}

func (d document) notOutputs(names ...string) string {
	if slices.ContainsFunc(names, d.object) {
		return ""
	}
	if _, ok := d[names[0]]; !ok && len(names) > 1 {
		return "there is no " + strings.Join(names, " and no ")
	}
	return d.found(names[0])
}

// oddMember finds an optional member that is not of its kind.
func (d document) oddMember() string {
	for _, member := range []struct{ name, kind string }{
		{"artifacts", "a list"},
		{"warnings", "a list"},
		{"provenance", "an object"},
		{"usage", "an object"},
		{"grounding", ""},
		{"error", ""},
	} {
		raw, ok := d[member.name]
		if !ok {
			continue
		}
		got := kind(raw)
		var texts []*string
		switch {
		case got == "null", member.kind != "" && got != member.kind:
			return member.name + " is " + got
		case got == "a list" && member.kind != "" && (json.Unmarshal(raw, &texts) != nil || slices.Contains(texts, nil)):
			return member.name + " holds what is no string"
		}
	}
	return ""
}

func (s *streamed) noEvent() string {
	switch {
	case s.events > 0:
		return ""
	case s.stopped != "":
		return s.stopped
	default:
		return "the stream closed without one"
	}
}

func (s *streamed) noEnd() string {
	switch {
	case s.ends > 0:
		return ""
	case s.stopped != "":
		return s.stopped
	default:
		return "the last event is " + quote(s.last.word)
	}
}
