// Package status shows the state of an action: GET /v1/actions/{id}, and the status in lists.
package status

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"weir/egress/stream"
	"weir/internal/fault"
	"weir/internal/ledger"
	"weir/internal/problem"
	"weir/schemas"
)

// Actions reads actions; the ledger does.
type Actions interface {
	Find(ctx context.Context, tenant, id string) (*ledger.State, error)
	Load(ctx context.Context, ref schemas.Ref) (*ledger.State, error)
	Blob(ctx context.Context, inline json.RawMessage, name string) (json.RawMessage, error)
	Replay(ctx context.Context, ref schemas.Ref, fn func(schemas.Event) error) error
}

// Durable waits until what was read may be shown; the feed does.
type Durable interface {
	Durable(ctx context.Context, stream string, seq uint64) error
}

// Config shapes the status of actions. All are required.
type Config struct {
	Layout schemas.Layout
	// Result gives the form in which a kind shows its result document.
	Result func(ref schemas.Ref, s *schemas.Settled, doc json.RawMessage) json.RawMessage
	// Reserve waits until there is memory for a tenant to load and show what is stored under the names.
	Reserve func(ctx context.Context, tenant string, blobs ...string) (release func(), err error)
	// Payload returns what shows the payload of a kind, without the values that carry credentials;
	// nil as a result: payloads of that kind are not shown.
	Payload func(kind schemas.Kind) func(payload json.RawMessage) (json.RawMessage, error)
}

// Status serves the status of one action.
type Status struct {
	actions Actions
	durable Durable
	cfg     Config
}

// New serves from actions, and shows nothing before durable says so.
func New(actions Actions, durable Durable, cfg Config) *Status {
	return &Status{actions: actions, durable: durable, cfg: cfg}
}

// Serve answers GET /v1/actions/{id} for an action of tenant.
func (s *Status) Serve(w http.ResponseWriter, r *http.Request, tenant, id string) {
	st, err := s.find(r.Context(), tenant, id)
	if err == nil {
		err = s.show(w, r, st)
	}
	switch {
	case errors.Is(err, fault.ErrNotFound):
		problem.Write(w, r, fault.New(schemas.NotFound, "there is no such action"))
	case err != nil:
		problem.Write(w, r, err)
	}
}

// show answers with an action. The memory of a large result is reserved until it is written.
func (s *Status) show(w http.ResponseWriter, r *http.Request, st *ledger.State) error {
	if end := st.Settled; end != nil {
		release, err := s.cfg.Reserve(r.Context(), st.Tenant, end.ResultBlob, end.AnswerBlob)
		if err != nil {
			return err
		}
		defer release()
	}
	view, err := s.view(r.Context(), st)
	if err == nil {
		stream.WriteJSON(w, r, http.StatusOK, view)
	}
	return err
}

// find is an action that may be shown.
func (s *Status) find(ctx context.Context, tenant, id string) (*ledger.State, error) {
	if !schemas.ValidActionID(id) {
		return nil, fault.ErrNotFound
	}
	st, err := s.actions.Find(ctx, tenant, id)
	if err != nil {
		return nil, err
	}
	partition := schemas.LogStream(s.cfg.Layout.Partition(tenant, id))
	return st, s.durable.Durable(ctx, partition, st.Seq)
}

func (s *Status) view(ctx context.Context, st *ledger.State) (*schemas.ActionView, error) {
	v := &schemas.ActionView{
		ID: st.ID, Kind: st.Kind, Called: st.Called(), Agent: agent(st), Caller: cmp.Or(st.Action.Caller, st.Action.Principal), Task: st.Action.Task, TaskType: st.Action.TaskType, Status: schemas.Status(st.Status()), Class: st.Action.Class,
		Created: st.Action.AcceptedAt, Deadline: st.Action.Deadline, NotBefore: st.Action.NotBefore, Priority: cmp.Or(st.Action.Priority, schemas.PriorityNormal), Supersedes: st.Action.Supersedes, SupersededBy: st.SupersededBy,
		Waiting: st.Waiting, Resolution: st.Resolution,
		CancelRequested: st.CancelRequested && st.Settled == nil,
		Attempts:        attempts(st), Decision: decision(st), EventsURL: stream.EventsURL(st.ID),
	}
	return v, s.settled(ctx, st, v)
}

// agent is the task type of a run, or the name of the token that leased a task last.
func agent(st *ledger.State) string {
	name := st.Action.TaskType
	for _, ev := range st.Events {
		if t := ev.Task; t != nil && t.What == schemas.TaskClaimed {
			name = cmp.Or(t.Agent, t.Holder, name)
		}
	}
	return name
}

// settled adds what only an action that has ended has.
func (s *Status) settled(ctx context.Context, st *ledger.State, v *schemas.ActionView) error {
	if st.Settled == nil {
		return nil
	}
	resolved := *st.Settled
	resolved.Resolution = st.Resolution
	end := &resolved
	for _, ev := range st.Events {
		if ev.Seq == st.SettledSeq {
			v.Settled = ev.Time
		}
	}
	v.Code, v.Message = end.Code, end.Message
	if end.Outcome == schemas.OutcomeUnknown {
		v.Message = end.UnknownText(st.ID)
		v.ResolveURL = stream.ResolveURL(st.ID)
	}
	doc, err := ledger.Result(ctx, end, func(ctx context.Context, name string) (json.RawMessage, error) { return s.actions.Blob(ctx, nil, name) })
	if err != nil {
		return err
	}
	if len(doc) > 0 {
		v.Result = s.cfg.Result(st.Ref, end, doc)
		v.Decision = deniedBy(st, doc, v.Decision)
	}
	return nil
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

// decision is what policy said of the newest call.
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
