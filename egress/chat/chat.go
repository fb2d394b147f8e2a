// Package chat renders the answers of models in their dialects: the whole answer, the frames of a
// stream, and errors.
package chat

import (
	"encoding/json"
	"net/http"

	"weir/egress/stream"
	"weir/internal/ledger"
	"weir/internal/problem"
	"weir/schemas"
)

// Answer writes an answer that is no stream. The same end always gives the same bytes.
func Answer(w http.ResponseWriter, d schemas.Dialect, s *schemas.Settled, doc json.RawMessage) error {
	whole, refusal := Read(s, doc)
	if refusal != nil {
		return refusal.Write(w, d)
	}
	stream.WriteBody(w, http.StatusOK, "application/json", whole)
	return nil
}

// Write answers with a refusal, and with what its limits and its wait are in headers.
func (r *RefusalError) Write(w http.ResponseWriter, d schemas.Dialect) error {
	body, err := ledger.Encode(formOf(d).body(r))
	if err != nil {
		return err
	}
	e := problem.Of(&r.problem)
	e.SetHeaders(w.Header())
	problem.Limits(w.Header(), e.Limits)
	stream.WriteBody(w, e.Status, "application/json", body)
	return nil
}
