package call

import (
	"encoding/json"

	"weir/internal/policy"
	"weir/processors/guard"
	"weir/schemas"
)

// inspect holds a successful answer against the response schema of its entry, before the answer is
// stored. With the mode redact it removes what the schema does not name. The shape of a probe's
// answer is not the schema's subject, but nothing unnamed is stored of it either.
func (c *Caller) inspect(t *Task, p guard.Pass, res *schemas.Attempted, a *schemas.Answer) {
	schema, mode := p.Permit().ResponseSchema()
	if schema == nil || a.Status < 200 || a.Status > 299 || bodiless(p.Permit().Method(), a) {
		return
	}
	found := schemas.SchemaFinding{Mode: mode, Code: schemas.ResponseSchemaInvalid}
	if !a.JSON {
		found.Code, found.Violations = schemas.ResponseNotJSON, []string{"the response body is not JSON"}
	}
	if mode == policy.SchemaRedact {
		pruned, err := schema.Prune(a.Body)
		if err != nil || !a.JSON {
			pruned = json.RawMessage("null")
		}
		a.Body, a.Base64, a.Snippet = pruned, false, ""
	}
	if a.JSON {
		found.Violations = schema.Validate(a.Body)
	}
	if t.probe != nil || len(found.Violations) == 0 {
		return
	}
	res.Schema = &found
	if c.cfg.Metrics != nil {
		c.cfg.Metrics.SchemaViolated(p.Permit().Entry(), mode)
	}
}

// bodiless reports whether an answer has no body because the protocol has none there.
func bodiless(method string, a *schemas.Answer) bool {
	return a.Hash == "" && (method == "HEAD" || a.Status == 204 || a.Status == 205)
}
