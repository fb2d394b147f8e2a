package static_test

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"weir/ingress/strict"
)

// planned reports whether the request is a decision of a plan: the executor knows no
// parameters.
func (c *row) planned() bool { return !strict.Absent(c.Request["params"]) }

// body is the request as the body of POST /v1/execute, or of POST /v1/plans.
func (c *row) body() []byte {
	args, envelope := members{}, members{}
	for name, value := range c.Request {
		if name == "body" {
			value = written(value)
		}
		switch name {
		case "postcondition", "idempotency_key", "request_id": // these are not part of the arguments
			envelope[name] = value
		default:
			args[name] = value
		}
	}
	if c.planned() {
		maps.Copy(args, envelope)
		return []byte(`{"state:env.snapshot":{},"artifact:proposed.plan":{"decisions":[{"effect_ref":"case","target_state":` + args.text() + `}]}}`)
	}
	envelope["type"], envelope["args"] = json.RawMessage(`"Http"`), json.RawMessage(args.text())
	return []byte(envelope.text())
}

// members are those of an object. Their values need not be JSON.
type members map[string]json.RawMessage

func (m members) text() string {
	var b strings.Builder
	b.WriteByte('{')
	for i, name := range slices.Sorted(maps.Keys(m)) {
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(quote(name))
		b.WriteByte(':')
		b.Write(m[name])
	}
	b.WriteByte('}')
	return b.String()
}

// generated is a body that is described instead of written out.
type generated struct {
	Gen   string `json:"gen"`
	Unit  string `json:"unit"`
	Count int    `json:"count"`
	Depth int    `json:"depth"`
	Text  string `json:"text"`
}

// written is a body as it is sent.
func written(raw json.RawMessage) json.RawMessage {
	var g generated
	if json.Unmarshal(raw, &g) != nil {
		return raw
	}
	switch g.Gen {
	case "repeat":
		return quote(strings.Repeat(g.Unit, g.Count))
	case "nest":
		return json.RawMessage(strings.Repeat("[", g.Depth) + strings.Repeat("]", g.Depth))
	case "json":
		return json.RawMessage(g.Text)
	}
	return raw
}

func quote(s string) json.RawMessage {
	doc, err := json.Marshal(s)
	if err != nil { // a string always marshals
		return json.RawMessage("null")
	}
	return doc
}
