package ingress

import (
	"net/http"
	"net/url"

	"github.com/gin-gonic/gin"

	"weir/ingress/accept"
	"weir/ingress/actions"
	"weir/ingress/executor"
	"weir/ingress/grant"
	"weir/ingress/plans"
	"weir/internal/ledger"
	"weir/schemas"
)

// Mount puts the writing routes on an engine of NewEngine.
func (in *Room) Mount(e *gin.Engine) {
	may := in.authorize(schemas.ScopeActionsWrite)
	e.POST(routeExecute, surface("executor", dialectExecutor), may, in.write(routeExecute, in.execute))
	e.POST(routePlans, surface("plans", ""), may, in.write(routePlans, in.plan))
	e.POST(schemas.RouteRunSync, surface("runs", dialectRuns), may, in.runSync)
	e.POST(schemas.RouteRunStream, surface("runs", dialectRuns), may, in.runStream)
	e.POST("/v1/actions/:id/cancel", surface("actions", ""), may, in.cancel)
	e.POST("/v1/actions/:id/resolve", surface("actions", ""), may, in.resolve)
	if in.redriver != nil {
		e.POST("/v1/dead-letters/redrive", surface("dead_letters", ""), in.authorize(schemas.ScopeAdmin), in.atOnce, in.redrive)
	}
	in.mountRules(e)
	in.mountPolicy(e)
	in.mountOperations(e)
	in.mountTokens(e)
	in.mountSessions(e)
	in.mountGit(e)
	in.mountTasks(e)
	in.mountChat(e)
}

// The routes whose names are part of an id that is derived from an
// Idempotency-Key. They must never change.
const (
	routeExecute = "/v1/execute"
	routePlans   = "/v1/plans"
)

func (in *Room) fail(c *gin.Context, err error) { fail(c, in.cfg.Metrics, err) }

// order is what a surface read out of a body: an action to be.
type order struct {
	kind    schemas.Kind
	class   schemas.Class // empty: the kind has none
	id      string        // the caller's own; may be empty
	payload any
	kept    any  // what is stored in the place of the payload; nil: the payload
	denied  bool // policy has refused it already
}

// write is the way of every writing surface: read the body, translate it, store
// the action and answer. The route is part of an id made of an Idempotency-Key.
func (in *Room) write(route string, translate func(who Identity, body []byte) (order, error)) gin.HandlerFunc {
	return func(c *gin.Context) {
		key, err := accept.Key(c.Request.Header.Values("Idempotency-Key"))
		if err != nil {
			in.fail(c, err)
			return
		}
		terms, err := accept.ReadTerms(c.Request.Header, in.cfg.Accept.Now())
		if err != nil {
			in.fail(c, err)
			return
		}
		body, err := in.read(c.Writer, c.Request)
		if err != nil {
			in.fail(c, err)
			return
		}
		who := identity(c)
		o, err := translate(who, body)
		if err != nil {
			in.fail(c, err)
			return
		}
		payload, err := ledger.Encode(o.payload)
		if err != nil {
			in.fail(c, err)
			return
		}
		kept := payload
		if o.kept != nil {
			if kept, err = ledger.Encode(o.kept); err != nil {
				in.fail(c, err)
				return
			}
		}
		in.submit(c, accept.Request{
			Name: accept.NameOf(who.Tenant, route, o.id, key), Tenant: who.Tenant, Kind: o.kind, Class: o.class, Payload: kept, Whole: payload,
			Principal: who.ID, Entries: who.Entries, Terms: terms,
		}, o.denied)
	}
}

func (in *Room) execute(who Identity, body []byte) (order, error) {
	req, err := executor.Translate(body, in.policyFor(who.asks(schemas.KindHTTP, "")), in.cfg.Checker)
	if err == nil {
		err = grant.Call(req.Call, who.Entries)
	}
	if err != nil {
		return order{}, err
	}
	o := order{kind: schemas.KindHTTP, class: req.Class, id: req.ID, payload: req.Call, denied: req.Denied()}
	if o.denied {
		o.kept = req.Kept()
	}
	return o, nil
}

func (*Room) plan(who Identity, body []byte) (order, error) {
	req, err := plans.Translate(body)
	if err == nil {
		err = grant.Plan(req, who.Entries)
	}
	if err != nil {
		return order{}, err
	}
	id := req.RequestID
	req.RequestID = "" // it names the action, and is no part of the plan
	return order{kind: schemas.KindPlan, id: id, payload: req}, nil
}

func (in *Room) cancel(c *gin.Context) {
	if err := in.readNothing(c.Writer, c.Request); err != nil {
		in.fail(c, err)
		return
	}
	s, err := in.control.Cancel(c.Request.Context(), identity(c).Tenant, c.Param("id"))
	status := http.StatusOK
	if s.CancelRequested {
		status = http.StatusAccepted
	}
	in.changed(c, status, s, err)
}

func (in *Room) resolve(c *gin.Context) {
	body, err := in.read(c.Writer, c.Request)
	if err != nil {
		in.fail(c, err)
		return
	}
	word, err := actions.ReadResolution(body)
	if err != nil {
		in.fail(c, err)
		return
	}
	who := identity(c)
	word.By = who.Name
	s, err := in.control.Resolve(c.Request.Context(), who.Tenant, c.Param("id"), word)
	in.changed(c, http.StatusOK, s, err)
}

// changed answers for an action whose course was to be changed.
func (in *Room) changed(c *gin.Context, status int, s actions.Status, err error) {
	if s.ID != "" {
		joined(c, s.Ref())
	}
	if err != nil {
		in.fail(c, err)
		return
	}
	writeJSON(c, status, s)
}

// atOnce stands before the routes whose actions cannot be put off.
func (in *Room) atOnce(c *gin.Context) {
	if err := accept.AtOnce(c.Request.Header); err != nil {
		in.fail(c, err)
	}
}

func (in *Room) redrive(c *gin.Context) {
	body, err := in.read(c.Writer, c.Request)
	if err != nil {
		in.fail(c, err)
		return
	}
	sequence, err := actions.ReadRedrive(body)
	if err != nil {
		in.fail(c, err)
		return
	}
	who := identity(c)
	out, err := in.redriver.Redrive(c.Request.Context(), who.asks("", ""), sequence)
	in.answer(c, out, err, 0)
}

// joined names the action in the answer and in the log.
func joined(c *gin.Context, ref schemas.Ref) {
	c.Set(keyAction, ref.ID)
	c.Writer.Header().Set("Weir-Action-Id", ref.ID)
}

// actionURL is where an action can be looked up.
func actionURL(id string) string { return "/v1/actions/" + url.PathEscape(id) }
