package status

import (
	"errors"
	"net/http"

	"weir/egress/stream"
	"weir/internal/fault"
	"weir/internal/problem"
	"weir/schemas"
)

// ServePayload answers GET /v1/actions/{id}/payload for an action of tenant: the payload, without
// the values of credential headers. The payloads of some kinds are never shown.
func (s *Status) ServePayload(w http.ResponseWriter, r *http.Request, tenant, id string) {
	doc, err := s.payload(r, tenant, id)
	if errors.Is(err, fault.ErrNotFound) {
		err = fault.New(schemas.NotFound, "there is no such action, or it is of a kind whose payload is not shown")
	}
	if err != nil {
		problem.Write(w, r, err)
		return
	}
	stream.WriteJSON(w, r, http.StatusOK, doc)
}

func (s *Status) payload(r *http.Request, tenant, id string) (schemas.ActionPayload, error) {
	var out schemas.ActionPayload
	if !schemas.ValidActionID(id) {
		return out, fault.ErrNotFound
	}
	st, err := s.actions.Find(r.Context(), tenant, id)
	if err != nil {
		return out, err
	}
	shown := s.cfg.Payload(st.Kind)
	if shown == nil {
		return out, fault.ErrNotFound
	}
	partition := schemas.LogStream(s.cfg.Layout.Partition(tenant, id))
	if err := s.durable.Durable(r.Context(), partition, st.Seq); err != nil {
		return out, err
	}
	out.ID, out.Kind = st.ID, st.Kind
	payload, err := s.actions.Blob(r.Context(), st.Action.Payload, st.Action.PayloadBlob)
	switch {
	case errors.Is(err, fault.ErrNotFound):
		return out, fault.ErrGone // the action is there, its payload was dropped
	case err == nil:
		out.Payload, err = shown(payload)
	}
	return out, err
}
