package egress

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/tidwall/gjson"

	"weir/egress/stream"
	"weir/internal/fault"
	"weir/internal/ledger"
	"weir/schemas"
)

// showStatus answers GET /v1/actions/{id}. The memory of a large result is reserved until it is written.
func (s *Server) showStatus(r *Request) error {
	st, err := s.Find(r.Request.Context(), r.Reader.Tenant, r.Param("id"), "there is no such action")
	if err != nil {
		return err
	}
	var doc json.RawMessage
	if st.Settled != nil {
		var release func()
		if doc, release, err = s.Document(r.Request.Context(), st.Tenant, st.Settled); err != nil {
			return err
		}
		defer release()
	}
	stream.WriteJSON(r.Writer, r.Request, http.StatusOK, s.view(st, doc))
	return nil
}

// showPayload answers GET /v1/actions/{id}/payload: the payload, without the values of credential
// headers. The payloads of some kinds are never shown.
func (s *Server) showPayload(r *Request) error {
	const absent = "there is no such action, or it is of a kind whose payload is not shown"
	st, err := s.Find(r.Request.Context(), r.Reader.Tenant, r.Param("id"), absent)
	if err != nil {
		return err
	}
	shown := s.views[st.Kind].Payload
	if shown == nil {
		return fault.New(schemas.NotFound, absent)
	}
	payload, release, err := s.Payload(r.Request.Context(), &st.Action)
	if err != nil {
		return err
	}
	defer release()
	doc := schemas.ActionPayload{ID: st.ID, Kind: st.Kind}
	if doc.Payload, err = shown(s.cfg.Redactor, payload); err == nil {
		stream.WriteJSON(r.Writer, r.Request, http.StatusOK, doc)
	}
	return err
}

// Find returns an action of a tenant, once it may be shown. absent is the error's text if it does not
// exist.
func (s *Server) Find(ctx context.Context, tenant, id, absent string) (*ledger.State, error) {
	if !schemas.ValidActionID(id) {
		return nil, fault.New(schemas.NotFound, absent)
	}
	st, err := s.actions.Find(ctx, tenant, id)
	if errors.Is(err, fault.ErrNotFound) {
		return nil, fault.New(schemas.NotFound, absent)
	}
	if err != nil {
		return nil, err
	}
	return st, s.Durable(ctx, st.Ref, st.Seq)
}

// view shows an action, whose result document is doc.
func (s *Server) view(st *ledger.State, doc json.RawMessage) *schemas.ActionView {
	v := &schemas.ActionView{
		ID: st.ID, Kind: st.Kind, Called: st.Called(), Agent: agentOf(st), Caller: cmp.Or(st.Action.Caller, st.Action.Principal), Task: st.Action.Task, TaskType: st.Action.TaskType, Status: schemas.Status(st.Status()), Class: st.Action.Class,
		Created: st.Action.AcceptedAt, Deadline: st.Action.Deadline, NotBefore: st.Action.NotBefore, Priority: cmp.Or(st.Action.Priority, schemas.PriorityNormal), Supersedes: st.Action.Supersedes, SupersededBy: st.SupersededBy,
		Waiting: st.Waiting, Resolution: st.Resolution,
		CancelRequested: st.CancelRequested && st.Settled == nil,
		Attempts:        attempts(st), Decision: decision(st), EventsURL: stream.EventsURL(st.ID),
	}
	if st.Kind == schemas.KindPush {
		v.Task = gjson.GetBytes(st.Action.Payload, "task_id").Str
	}
	if st.Settled != nil {
		s.addEnd(st, v, doc)
	}
	return v
}

// agentOf is the task type of a run, or the name of the token that leased a task last.
func agentOf(st *ledger.State) string {
	name := st.Action.TaskType
	for _, ev := range st.Events {
		if t := ev.Task; t != nil && t.What == schemas.TaskClaimed {
			name = cmp.Or(t.Agent, t.Holder, name)
		}
	}
	return name
}

// addEnd adds the fields of an ended action.
func (s *Server) addEnd(st *ledger.State, v *schemas.ActionView, doc json.RawMessage) {
	end := *st.Settled
	end.Resolution = st.Resolution
	v.Settled = st.SettledAt
	v.Code, v.Message = end.Code, end.Message
	if end.Outcome == schemas.OutcomeUnknown {
		v.Message = end.UnknownText(st.ID)
		v.ResolveURL = stream.ResolveURL(st.ID)
	}
	if len(doc) > 0 {
		v.Result = s.Result(st.Ref, &end, doc)
		v.Decision = deniedBy(st, doc, v.Decision)
	}
}

func attempts(st *ledger.State) []schemas.AttemptView {
	list := make([]schemas.AttemptView, 0, len(st.Attempts))
	for _, t := range st.Attempts {
		a := schemas.AttemptView{
			Step: t.Step, Number: t.Number, Hop: t.Hop, Probe: t.Probe, Class: t.Class,
			Entry: t.Decision.Entry, Version: t.Decision.Version, ExpiresAt: t.ExpiresAt,
		}
		if res := t.Result; res != nil {
			ms := stream.Milliseconds(res.Duration)
			a.Done, a.Code, a.Sent, a.Status, a.Effect, a.DurationMS = true, res.Code, &res.Sent, res.Status, res.Effect, &ms
		}
		list = append(list, a)
	}
	return list
}

// decision is policy's decision on the newest call.
func decision(st *ledger.State) *schemas.Decision {
	n := len(st.Attempts)
	if n == 0 {
		return nil
	}
	last := st.Attempts[n-1].LastWord()
	return &last
}

// deniedBy is the decision in the result of a call that was refused, whether the
// action is the call or a run that makes it.
func deniedBy(st *ledger.State, doc json.RawMessage, other *schemas.Decision) *schemas.Decision {
	type call struct {
		Decision *schemas.Decision `json:"decision"`
	}
	var res struct {
		call
		HTTP call `json:"http"`
	}
	if st.Kind == schemas.KindPlan || json.Unmarshal(doc, &res) != nil {
		return other
	}
	return cmp.Or(res.Decision, res.HTTP.Decision, other)
}
