package status

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"

	"weir/egress/stream"
	"weir/internal/fault"
	"weir/internal/ledger"
	"weir/internal/problem"
	"weir/schemas"
)

// ServePayload answers GET /v1/actions/{id}/payload for an action of tenant: what was asked
// for, without the values of headers that carry credentials. The payloads of some kinds are
// never shown.
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
	if !slices.Contains([]schemas.Kind{schemas.KindHTTP, schemas.KindPlan, schemas.KindRun}, st.Kind) {
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
		out.Payload, err = s.shown(st.Kind, payload)
	}
	return out, err
}

// shown is a payload without the values of the headers that carry credentials.
func (s *Status) shown(kind schemas.Kind, payload json.RawMessage) (json.RawMessage, error) {
	switch kind {
	case schemas.KindHTTP:
		var call schemas.HTTPCall
		if err := json.Unmarshal(payload, &call); err != nil {
			return nil, err
		}
		call.Headers = s.cfg.Redactor.Headers(call.Headers)
		return ledger.Encode(call)
	case schemas.KindPlan:
		var plan schemas.PlanRequest
		if err := json.Unmarshal(payload, &plan); err != nil {
			return nil, err
		}
		s.hide(&plan)
		return ledger.Encode(plan)
	default:
		var run schemas.Run
		if err := json.Unmarshal(payload, &run); err != nil {
			return nil, err
		}
		if run.Call != nil {
			run.Call.Headers = s.cfg.Redactor.Headers(run.Call.Headers)
		}
		if run.Plan != nil {
			s.hide(run.Plan)
		}
		return ledger.Encode(run)
	}
}

// hide removes the values of headers and of ignored members of a plan whose names say that
// they carry credentials. The body for the target stays.
func (s *Status) hide(plan *schemas.PlanRequest) {
	plan.Snapshot = s.cfg.Redactor.Members(plan.Snapshot)
	for i, d := range plan.Plan.Decisions {
		plan.Plan.Decisions[i].TargetState = s.cfg.Redactor.Members(d.TargetState, "url", "params", "body")
	}
}
