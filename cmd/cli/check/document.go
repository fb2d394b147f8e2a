package check

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"weir/schemas"
)

// noStatus: a health document needs a status.
func (a answer) noStatus() string { return cmp.Or(a.notDoc, a.doc.noText("status")) }

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
	_, ok := d.text(name)
	return found(!ok, d.found(name))
}

func (d document) notText(name, want string) string {
	got, ok := d.text(name)
	return found(!ok || got != want, d.found(name))
}

// notSuccess: the status means success, or one of these members is true.
func (d document) notSuccess(flags ...string) string {
	status, _ := d.text("status")
	well := status == schemas.RunOK || status == "success" ||
		slices.ContainsFunc(flags, func(flag string) bool { return d.says(flag, true) })
	return found(!well, d.found("status")+d.failure())
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

// failed is not200, with the error that the document of the answer tells.
func (h head) failed(doc document) string {
	said := h.not200()
	return found(said != "", said+doc.failure())
}

func (d document) errorBeside() string {
	what := kind(d["error"])
	return found(what != "absent" && what != "null", d.found("error")) // null is for the rule of members
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
	return found(s.events == 0, cmp.Or(s.stopped, "the stream closed without one"))
}

func (s *streamed) noEnd() string {
	return found(s.ends == 0, cmp.Or(s.stopped, "the last event is "+quote(s.last.word)))
}
