package ingress

import (
	"errors"
	"net/http"

	"github.com/gin-gonic/gin"

	"weir/ingress/accept"
	"weir/ingress/grant"
	"weir/ingress/runs"
	"weir/internal/fault"
	"weir/internal/ledger"
	"weir/internal/problem"
	"weir/schemas"
)

// keyRun holds the id that the body of a run names, for its refusal.
const keyRun = "weir.run"

// runSync answers with the run's end, or as the caller prefers.
func (in *Room) runSync(c *gin.Context) {
	if req, denied, ok := in.order(c); ok {
		req.Sync = true
		in.submit(c, req, denied)
	}
}

// runStream answers with the run's events. There is nothing to prefer: the
// first of them comes at once. A position that cannot be read, and a stream too many, are
// refused before anything is stored; a run that this very request has made has no events yet
// that a client could have seen, and begins at its beginning; so does one whose position is that
// of another action of the request. A resumed stream begins no successor: clients reconnect by
// themselves after an end.
func (in *Room) runStream(c *gin.Context) {
	req, _, ok := in.order(c)
	if !ok {
		return
	}
	behind, err := in.responder.Resume(c.Request)
	if err != nil {
		in.fail(c, err)
		return
	}
	r, leave, err := in.responder.Seat(c.Request)
	if err != nil {
		in.fail(c, err)
		return
	}
	defer leave()
	req.Resumed = behind != schemas.RunPlace{}
	out, err := in.acceptor.Accept(c.Request.Context(), req)
	if !in.taken(c, out, err) {
		return
	}
	after := behind.Seq
	switch _, generation := schemas.Generation(out.ID); {
	case !out.Receipt.Duplicate:
		after = out.Before // where the log is looked into, a long one at its end
	case behind.Generation != generation:
		after = 0
	}
	in.responder.Stream(c.Writer, r, out.Ref, req.TaskType, after)
}

// order reads a run to be stored. Where ok is false, it has answered.
func (in *Room) order(c *gin.Context) (req accept.Request, denied, ok bool) {
	who := identity(c)
	run, id, err := in.run(c, who)
	if err != nil {
		in.fail(c, err)
		return req, false, false
	}
	payload, err := ledger.Encode(run.Run)
	if err != nil {
		in.fail(c, err)
		return req, false, false
	}
	terms, err := accept.ReadTerms(c.Request.Header, in.cfg.Accept.Now())
	if err != nil {
		in.fail(c, err)
		return req, false, false
	}
	req = accept.Request{
		Name: accept.Name{ID: id, Source: schemas.IDRequest}, Tenant: who.Tenant, Kind: schemas.KindRun,
		TaskType: run.TaskType, Sensitive: run.Sensitive(), Timeout: run.Timeout(), Terms: terms, Payload: payload,
		Principal: who.ID, Entries: who.Entries,
	}
	if run.Unserved {
		req.Refusal = runs.Unsupported()
	}
	return req, run.Denied, true
}

// run reads the body. What is asked of a token comes after what is asked of
// every caller, and before the inputs are looked into. A task type that nobody
// serves is not looked into any further: it can only be joined.
func (in *Room) run(c *gin.Context, who Identity) (runs.Run, string, error) {
	body, err := in.read(c.Writer, c.Request)
	if err != nil {
		return runs.Run{}, "", err
	}
	asked, err := runs.Read(body, in.cfg.MaxRun)
	c.Set(keyRun, asked.ID)
	if err == nil {
		err = named(c.Request.Header, asked.ID)
	}
	if err == nil && !in.serves(asked.Order.TaskType) {
		return runs.Run{Run: schemas.Run{RunOrder: asked.Order}, Unserved: true}, asked.ID, nil
	}
	if err == nil {
		err = grant.Task(asked.Order.TaskType, who.Entries)
	}
	if err != nil {
		return runs.Run{}, "", err
	}
	run, err := runs.Translate(asked.Order, in.policyFor(who.asks(schemas.KindRun, asked.Order.TaskType)), in.cfg.Checker)
	if err == nil {
		err = grant.Run(run.Run, who.Entries)
	}
	return run, asked.ID, err
}

func (in *Room) serves(taskType string) bool {
	return runs.Builtin(taskType) || (in.cfg.Serves != nil && in.cfg.Serves(taskType))
}

// named refuses a second name: a run is repeated by its request_id.
func named(h http.Header, id string) error {
	key, err := accept.Key(h.Values("Idempotency-Key"))
	if err == nil && key != "" && key != id {
		err = fault.New(schemas.ValidationError, "a run is named by its request_id alone; leave Idempotency-Key out, or send the same there")
	}
	return err
}

// failRun words an error as the run contract does. A request that no route was
// asked to read is malformed as a message, not as a run.
func failRun(c *gin.Context, p problem.Error, err error) {
	if p.Code != schemas.InvalidRequest || c.GetString(keyDialect) != "" {
		p.Status = 0
	}
	if own, ok := errors.AsType[*runs.Error](err); ok {
		p.Details = own.Details
	}
	problem.WriteRun(c.Writer, c.GetString(keyRun), &p)
}
