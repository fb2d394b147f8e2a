package runs

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"weir/ingress"
	"weir/ingress/accept"
	"weir/ingress/executor"
	"weir/ingress/grant"
	"weir/internal/fault"
	"weir/internal/jsonschema"
	"weir/internal/ledger"
	"weir/internal/problem"
	"weir/schemas"
)

// Config of the surface. Resume, Slot and Stream are egress's, and required.
type Config struct {
	// Policy returns what decides about a caller's calls.
	Policy func(who grant.Caller) executor.Policy
	// Serves reports whether there is an agent for a task type, Weir's own ones aside;
	// default: there are no others.
	Serves func(taskType string) bool
	// MaxRun is the longest time that a run may ask for; default, and at most,
	// schemas.MaxRunTimeout.
	MaxRun time.Duration
	// Resume returns the place in a run's stream that the request's Last-Event-ID names; the zero
	// place without one.
	Resume func(r *http.Request) (after schemas.RunPosition, err error)
	// Slot acquires one of the streams that the sender of a request may hold open, before anything
	// is stored, or refuses it. Stream takes it over with the returned request. If Stream was not
	// called, release gives it back; otherwise it does nothing.
	Slot func(r *http.Request) (held *http.Request, release func(), err error)
	// Stream answers for a run with its events, from after a position to its end.
	Stream func(w http.ResponseWriter, r *http.Request, ref schemas.Ref, taskType string, after uint64)
}

type handlers struct {
	Config

	server   *ingress.Server
	compiled *jsonschema.Cache // of the response schemas of calls
}

// Surface are the two routes of the run contract.
func Surface(s *ingress.Server, cfg Config) ingress.Surface {
	if cfg.MaxRun <= 0 || cfg.MaxRun > schemas.MaxRunTimeout {
		cfg.MaxRun = schemas.MaxRunTimeout
	}
	h := handlers{cfg, s, new(jsonschema.Cache)}
	return ingress.Surface{
		Name: "runs", Kind: schemas.KindRun, Fail: fail, Owns: ingress.Paths(schemas.RouteRunSync, schemas.RouteRunStream),
		Routes: []ingress.Route{
			ingress.Post(schemas.RouteRunSync, h.sync, schemas.ScopeActionsWrite),
			ingress.Post(schemas.RouteRunStream, h.stream, schemas.ScopeActionsWrite),
		},
		Redrive: redrive, Canceled: canceled,
	}
}

// keyID holds the id that the body of a run names, for its refusal.
const keyID = "weir.run"

// sync answers with the run's end, or as the caller prefers.
func (h handlers) sync(c *gin.Context) error {
	defer h.server.ReserveBody(c)()
	req, err := h.order(c)
	if err != nil {
		return err
	}
	req.Sync = true
	return h.server.Submit(c, req, nil)
}

// stream answers with the run's events. There is nothing to prefer: the
// first of them comes at once. A position that cannot be read, and a stream too many, are
// refused before anything is stored; a run that this very request has made has no events yet
// that a client could have seen, and begins at its beginning; so does one whose position is that
// of another action of the request. A resumed stream begins no successor: clients reconnect by
// themselves after an end.
func (h handlers) stream(c *gin.Context) error {
	defer h.server.ReserveBody(c)()
	req, err := h.order(c)
	if err != nil {
		return err
	}
	after, err := h.Resume(c.Request)
	if err != nil {
		return err
	}
	r, release, err := h.Slot(c.Request)
	if err != nil {
		return err
	}
	defer release()
	req.Resumed = after != schemas.RunPosition{}
	out, err := h.server.Acceptor().Accept(c.Request.Context(), req)
	if err := h.server.Accepted(c, out, err); err != nil {
		return err
	}
	from := after.Seq
	switch _, generation := schemas.Generation(out.ID); {
	case !out.Receipt.Duplicate:
		from = out.Before // where the log is looked into, a long one at its end
	case after.Generation != generation:
		from = 0
	}
	h.Stream(c.Writer, r, out.Ref, req.TaskType, from)
	return nil
}

// order reads a run to be stored.
func (h handlers) order(c *gin.Context) (req accept.Request, err error) {
	who := ingress.Caller(c)
	run, id, err := h.run(c, who)
	if err != nil {
		return req, err
	}
	payload, err := ledger.Encode(run.Run)
	if err != nil {
		return req, err
	}
	terms, err := accept.ReadTerms(c.Request.Header, h.server.Now())
	if err != nil {
		return req, err
	}
	req = accept.Request{
		Name: accept.Name{ID: id, Source: schemas.IDRequest}, Timeout: run.Timeout(), Denied: run.Denied, Action: schemas.Action{
			Tenant: who.Tenant, Kind: schemas.KindRun, TaskType: run.TaskType, Sensitive: run.Sensitive(), Payload: payload,
			Principal: who.ID, Entries: who.Entries, NotBefore: terms.NotBefore, Priority: terms.Priority,
		},
	}
	if run.Unserved {
		req.Refusal = Unsupported()
	}
	return req, nil
}

// run reads the body. Checks of the token follow those for every caller and precede those of the
// inputs. The inputs of an unknown task type are not checked: such a run can only be joined.
func (h handlers) run(c *gin.Context, who ingress.Identity) (Run, string, error) {
	body, err := h.server.Read(c)
	if err != nil {
		return Run{}, "", err
	}
	asked, err := Read(body, h.MaxRun)
	c.Set(keyID, asked.ID)
	if err == nil {
		err = named(c.Request.Header, asked.ID)
	}
	if err == nil && !Builtin(asked.Order.TaskType) && (h.Serves == nil || !h.Serves(asked.Order.TaskType)) {
		return Run{Run: schemas.Run{RunOrder: asked.Order}, Unserved: true}, asked.ID, nil
	}
	if err == nil {
		err = grant.Task(asked.Order.TaskType, who.Entries)
	}
	if err != nil {
		return Run{}, "", err
	}
	run, err := Translate(asked.Order, h.Policy(who.Asks(schemas.KindRun, asked.Order.TaskType)), h.compiled)
	if err == nil {
		err = grant.Run(run.Run, who.Entries)
	}
	return run, asked.ID, err
}

// named refuses a second name: a run is repeated by its request_id.
func named(header http.Header, id string) error {
	key, err := accept.Key(header.Values("Idempotency-Key"))
	if err == nil && key != "" && key != id {
		err = fault.New(schemas.ValidationError, "a run is named by its request_id alone; leave Idempotency-Key out, or send the same there")
	}
	return err
}

func redrive(req *accept.Request, by grant.Caller) error {
	run, err := ingress.Payload[schemas.Run](req.Payload)
	if err != nil {
		return err
	}
	req.TaskType, req.Sensitive, req.Timeout = run.TaskType, run.Sensitive(), run.Timeout()
	return grant.Run(run, by.Entries)
}

func canceled(_ json.RawMessage, message string) (json.RawMessage, error) {
	return json.Marshal(schemas.RunResult{Error: &schemas.RunError{
		Code: string(schemas.TaskFailed), Message: message,
		Details: json.RawMessage(`{"code":"` + string(schemas.Canceled) + `"}`),
	}})
}

// fail writes an error in the run contract's form. A request that reached no route is
// malformed as a message, not as a run.
func fail(c *gin.Context, p problem.Error, _ error) schemas.Code {
	if p.Code != schemas.InvalidRequest || ingress.Reached(c) {
		p.Status = 0
	}
	problem.WriteRun(c.Writer, c.GetString(keyID), &p)
	return p.Code
}
