// Package runs renders a run in the format of the run contract: its response, and the events of its
// stream. Empty members are omitted, because some callers take a null for an error. Both forms
// report the end by the same rules.
package runs

import (
	"encoding/json"
	"net/http"

	"weir/egress/executor"
	"weir/internal/ledger"
	"weir/schemas"
)

// none is the outputs of a run that has none.
const none = `{}`

// end is how a run ended.
type end struct {
	ok      bool
	outputs json.RawMessage // an object
	extras  schemas.RunExtras
	fault   *schemas.RunError // set where not ok
}

// Render is the response body of an ended run. doc is the result document, which may be empty. The
// same end always gives the same bytes.
func Render(ref schemas.Ref, s *schemas.Settled, doc json.RawMessage) (int, []byte, error) {
	e := read(ref, s, doc)
	body, err := ledger.Encode(schemas.RunResponse{
		Status: e.status(), RequestID: callers(ref), Outputs: e.outputs, RunExtras: e.extras, Error: e.fault,
	})
	return http.StatusOK, body, err
}

// callers is the id that a run's caller gave: a successor answers under it, too.
func callers(ref schemas.Ref) string {
	id, _ := schemas.Generation(ref.ID)
	return id
}

func (e end) status() string {
	if e.ok {
		return schemas.RunOK
	}
	return schemas.RunFault
}

// read tells how a run ended. A document that cannot be read is an end too, and
// no good one: a caller that waits must hear of one.
func read(ref schemas.Ref, s *schemas.Settled, doc json.RawMessage) end {
	e, err := decode(ref, s, doc)
	if err != nil {
		e = end{fault: because(schemas.TaskFailed, "the run's result cannot be read", reason{Code: schemas.Poison})}
	}
	if e.outputs == nil {
		e.outputs = json.RawMessage(none)
	}
	return e
}

func decode(ref schemas.Ref, s *schemas.Settled, doc json.RawMessage) (e end, err error) {
	var res schemas.RunResult
	if len(doc) > 0 {
		if err := json.Unmarshal(doc, &res); err != nil {
			return end{}, err
		}
	}
	if res.HTTP != nil && res.Answer != nil {
		res.HTTP.Answer = res.Answer
	}
	e.ok, e.extras = s.Outcome == schemas.OutcomeSucceeded, said(res.RunExtras)
	switch {
	case !e.ok:
		e.fault, err = failed(ref, s, res)
		if object(res.Outputs) { // they say more than its error
			e.outputs = res.Outputs
		}
	case res.HTTP != nil:
		e.outputs, err = called(ref, s, res.HTTP)
	case object(res.Outputs):
		e.outputs = res.Outputs
	}
	return e, err
}

// called is the body that the executor's callers get for the call of a run.
func called(ref schemas.Ref, s *schemas.Settled, res *schemas.HTTPResult) (json.RawMessage, error) {
	doc, err := ledger.Encode(res)
	if err != nil {
		return nil, err
	}
	_, body, err := executor.Render(ref, s, doc)
	return body, err
}

// said drops what an agent put there without a meaning.
func said(x schemas.RunExtras) schemas.RunExtras {
	if !object(x.Provenance) {
		x.Provenance = nil
	}
	if !object(x.Usage) {
		x.Usage = nil
	}
	if string(x.Grounding) == "null" {
		x.Grounding = nil
	}
	return x
}

// object reports whether raw, which is JSON, is an object.
func object(raw json.RawMessage) bool { return len(raw) > 0 && raw[0] == '{' }
