// Package chat renders the answers of models in their dialects: the whole answer, the frames of a
// stream, and errors.
package chat

import (
	"encoding/json"
	"net/http"
	"strconv"

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
	write(w, http.StatusOK, whole)
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
	write(w, e.Status, body)
	return nil
}

func write(w http.ResponseWriter, status int, body []byte) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body) // the client is gone if it fails
}
