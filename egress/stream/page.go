package stream

import (
	"net/http"
	"strconv"

	"weir/internal/ledger"
	"weir/internal/problem"
)

// WriteJSON answers with a document. It is not cached: it is somebody's, and
// it changes.
func WriteJSON(w http.ResponseWriter, r *http.Request, status int, v any) {
	body, err := ledger.Encode(v)
	if err != nil {
		problem.Write(w, r, err)
		return
	}
	WriteBody(w, status, "application/json", body)
}

// WriteBody answers with bytes as they are.
func WriteBody(w http.ResponseWriter, status int, contentType string, body []byte) {
	h := w.Header()
	h.Set("Content-Type", contentType)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body) //nolint:gosec // JSON that is sent as such; the client is gone if it fails
}
