package index

import (
	"net/http"

	"weir/egress/stream"
	"weir/internal/problem"
)

// Serve answers GET /v1/actions. Tenant is whose actions are read; empty: everybody's.
func (x *Index) Serve(w http.ResponseWriter, r *http.Request, tenant string) {
	q, err := ParseList(r.URL.Query(), tenant, x.cfg.Now())
	if err != nil {
		problem.Write(w, r, err)
		return
	}
	page, err := x.List(r.Context(), q)
	if err != nil {
		problem.Write(w, r, err)
		return
	}
	stream.WriteJSON(w, r, http.StatusOK, page)
}

// ServeStats answers GET /v1/stats.
func (x *Index) ServeStats(w http.ResponseWriter, r *http.Request, tenant string) {
	q, err := ParseStats(r.URL.Query(), tenant, x.cfg.Now())
	if err != nil {
		problem.Write(w, r, err)
		return
	}
	stats, err := x.Stats(r.Context(), q)
	if err != nil {
		problem.Write(w, r, err)
		return
	}
	stream.WriteJSON(w, r, http.StatusOK, stats)
}
