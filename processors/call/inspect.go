package call

import (
	"encoding/json"

	"github.com/go-json-experiment/json/jsontext"

	"weir/internal/jsonschema"
	"weir/internal/policy"
	"weir/processors/guard"
	"weir/schemas"
)

// inspect holds a successful answer against the response schema of its entry, before the answer is
// stored. With the mode redact it removes what the schema does not name. The shape of a probe's
// answer is not the schema's subject, but nothing unnamed is stored of it either.
func (c *Caller) inspect(t *Task, p guard.Pass, schema *jsonschema.Schema, mode string, res *schemas.Attempted, a *schemas.Answer) {
	bodiless := a.Hash == "" && (p.Permit().Method() == "HEAD" || a.Status == 204 || a.Status == 205)
	if bodiless { // the protocol has no body there
		return
	}
	found := schemas.SchemaFinding{Mode: mode, Code: schemas.ResponseSchemaInvalid}
	doc, isJSON := document(a)
	if mode == policy.SchemaRedact {
		doc, isJSON = redacted(schema, a, doc, isJSON)
	}
	if isJSON {
		found.Violations = schema.Validate(doc)
	} else {
		found.Code, found.Violations = schemas.ResponseNotJSON, []string{"the response body is not JSON"}
	}
	if t.probe != nil || len(found.Violations) == 0 {
		return
	}
	res.Schema = &found
	if c.cfg.Metrics != nil {
		c.cfg.Metrics.SchemaViolated(p.Permit().Entry(), mode)
	}
}

// document is the JSON of an answer. An answer that is passed on as it came has it as a text.
func document(a *schemas.Answer) (doc json.RawMessage, ok bool) {
	if a.JSON || a.Base64 {
		return a.Body, a.JSON
	}
	text, ok := a.Bytes()
	return text, ok && json.Valid(text)
}

// redacted removes from an answer what the schema does not name, and returns the rest of its JSON. A
// body that is not JSON is removed as a whole.
func redacted(schema *jsonschema.Schema, a *schemas.Answer, doc json.RawMessage, ok bool) (rest json.RawMessage, isJSON bool) {
	text := !a.JSON
	a.Body, a.JSON, a.Base64, a.Snippet = json.RawMessage("null"), false, false, ""
	if !ok {
		return nil, false
	}
	rest, err := schema.Prune(doc)
	body := rest
	if err == nil && text {
		body, err = jsontext.AppendQuote(nil, rest)
	}
	if err != nil {
		return nil, false
	}
	a.Body, a.JSON = body, !text
	return rest, true
}
