package casefile

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"weir/ingress/strict"
)

// beside are the members of a request that stand beside the arguments of the primitive.
var beside = []string{"postcondition", "idempotency_key", "request_id"}

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
		if !c.planned() && slices.Contains(beside, name) {
			envelope[name] = value
			continue
		}
		args[name] = value
	}
	if c.planned() {
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
		quoted, _ := json.Marshal(name) // a string always marshals
		b.Write(quoted)
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

// maxGenerated bounds what is generated, far above what any policy allows.
const maxGenerated = 4 << 20

// written is a body as it is sent.
func written(raw json.RawMessage) json.RawMessage {
	var g generated
	if json.Unmarshal(raw, &g) != nil {
		return raw
	}
	switch g.Gen {
	case "repeat":
		n := min(max(g.Count, 0), maxGenerated/max(len(g.Unit), 1))
		text, _ := json.Marshal(strings.Repeat(g.Unit, n))
		return text
	case "nest":
		n := min(max(g.Depth, 0), maxGenerated)
		return json.RawMessage(strings.Repeat("[", n) + strings.Repeat("]", n))
	case "json":
		return json.RawMessage(g.Text)
	}
	return raw
}
