// Package chat renders completions in the words of their protocol: the whole answer,
// the frames of a stream, and what went wrong.
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
func Answer(w http.ResponseWriter, s *schemas.Settled, doc json.RawMessage) error {
	whole, refusal := Read(s, doc)
	if refusal != nil {
		return refusal.Write(w)
	}
	write(w, http.StatusOK, whole)
	return nil
}

// Write answers with a refusal, and with what its limits and its wait are in headers.
func (r *RefusalError) Write(w http.ResponseWriter) error {
	status, body, err := r.render()
	if err != nil {
		return err
	}
	e := problem.Of(&r.problem)
	e.Remedy(w.Header())
	problem.Limits(w.Header(), e.Limits)
	write(w, status, body)
	return nil
}

func (r *RefusalError) render() (status int, body []byte, err error) {
	said := r.said()
	body, err = ledger.Encode(schemas.ChatRefusal{Error: said})
	return problem.Of(&r.problem).Status, body, err
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
