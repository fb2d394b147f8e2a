package chat

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"weir/ingress"
	"weir/ingress/accept"
	"weir/ingress/grant"
	"weir/ingress/tasks"
	"weir/internal/ledger"
	"weir/internal/limits/budget"
	"weir/internal/models"
	"weir/internal/problem"
	"weir/internal/task"
	"weir/schemas"
)

// Config of the surface.
type Config struct {
	// Models are those in force.
	Models func() *models.Set
	// Budgets says whether a window is full just now; nil: the worker finds out.
	Budgets Looker
	// Tasks knows the holders of tasks.
	Tasks *tasks.Service
	// MaxBody is the largest body in bytes.
	MaxBody int64
	// Stop tells the worker of a running completion to stop.
	Stop func(ref schemas.Ref)
	// Actions reads the actions that responses continue, and those to be canceled.
	Actions *ledger.Ledger
	// Reserve waits until there is memory for a tenant to load what is stored under the names, of which
	// some may be empty.
	Reserve func(ctx context.Context, tenant string, blobs ...string) (release func(), err error)
	// Cancel asks a completion to stop, on the log.
	Cancel func(ctx context.Context, tenant, id string) error
	// Draining is closed when the node goes down: a completion whose client has left is
	// then asked to stop once. nil: never.
	Draining <-chan struct{}

	// Resume returns the place in a completion's stream that the request's Last-Event-ID
	// names; the zero place without one.
	Resume func(r *http.Request) (after schemas.ChatPosition, err error)
	// Slot acquires one of the streams that the sender of a request may hold open, before anything
	// is stored, or refuses it. Answer takes it over with the returned request. If Answer was not
	// called, release gives it back; otherwise it does nothing.
	Slot func(r *http.Request) (held *http.Request, release func(), err error)
	// Answer answers for an order, whose body it does not need: as a stream with its chunks from after a
	// place to its end, or with the whole, where wait is as in ingress.Config.Reply. A response in the
	// background that is no stream is answered at once, by its state. left is called at most once, when the
	// client has gone before the end and was the last on this node who read the completion or
	// waited for it; it may be nil.
	Answer func(
		w http.ResponseWriter, r *http.Request, ref schemas.Ref, receipt schemas.Receipt,
		order *schemas.ChatOrder, after schemas.ChatPosition, wait time.Duration, left func(),
	)
	// Respond answers for a response that was asked to stop, by its id.
	Respond func(w http.ResponseWriter, r *http.Request, ref schemas.Ref)
}

// Looker looks at budgets without holding anything; see budget.Book.
type Looker interface {
	Look(ctx context.Context, o budget.Order) ([]schemas.ChatLimit, error)
}

type handlers struct {
	Config

	server *ingress.Server
}

// Surface are the routes of the dialects.
func Surface(s *ingress.Server, cfg Config) ingress.Surface {
	h := handlers{cfg, s}
	out := ingress.Surface{
		Name: "chat", Kind: schemas.KindChat, Fail: fail, Owns: owns, APIKey: true,
		Tidy:     func(path string) (string, bool) { return path, owns(path) },
		Redrive:  func(req *accept.Request, _ grant.Caller) error { req.Sensitive = true; return nil }, // its model names no entry
		Canceled: canceled,
	}
	for _, base := range schemas.ChatBases() {
		for _, d := range schemas.AllDialects() {
			out.Routes = append(out.Routes, ingress.Post(base+d.Route(), h.complete(d)))
		}
		out.Routes = append(out.Routes, ingress.Post(base+schemas.RouteResponses+"/:id/cancel", h.cancel))
	}
	return out
}

// fail writes an error in the form of the dialect that a path belongs to.
func fail(c *gin.Context, p problem.Error, err error) schemas.Code {
	d, _ := schemas.DialectOf(c.Request.URL.Path)
	identify(c, d)
	problem.WriteChat(c.Writer, c.Request, d, err)
	return p.Code
}

// identify repeats the id of the request in the header that clients of Messages read.
func identify(c *gin.Context, d schemas.Dialect) {
	if d.Family() == schemas.DialectMessages {
		c.Header("Request-Id", problem.RequestID(c.Request.Context()))
	}
}

// canceled is the result of an action that was canceled before it started.
func canceled(payload json.RawMessage, message string) (json.RawMessage, error) {
	var order schemas.ChatOrder
	_ = json.Unmarshal(payload, &order) // one that is kept elsewhere names its dialect there
	return ledger.Encode(schemas.ChatResult{
		Dialect: order.Dialect, Error: &schemas.ChatError{Status: schemas.ChatCanceled, Message: message},
	})
}

// owns reports whether a path belongs to the surface, for any method, or would be below one of
// its routes: a client that adds a slash too many then reads the surface's errors.
func owns(path string) bool {
	_, ok := schemas.DialectOf(path)
	return ok || slices.ContainsFunc(schemas.ChatBases(), func(base string) bool {
		rest, below := strings.CutPrefix(path, base+schemas.RouteModels)
		return below && (rest == "" || rest[0] == '/')
	})
}

// complete stores a completion of a dialect, or joins the one with its Idempotency-Key, and answers with
// its chunks or its end.
func (h handlers) complete(d schemas.Dialect) ingress.Handler {
	return func(c *gin.Context) error {
		identify(c, d)
		defer h.server.ReserveBody(c)()
		a, err := h.completion(c, d)
		if err != nil {
			return err
		}
		return h.answer(c, &a)
	}
}

// answer stores a completion that was read, and answers.
func (h handlers) answer(c *gin.Context, a *asked) error {
	prefer := accept.Prefer(nil)
	if !a.order.Stream && !a.order.Background {
		prefer = accept.Prefer(c.Request.Header.Values("Prefer"))
	}
	r := c.Request
	switch {
	case a.order.Stream: // a client that may hold no more streams open begins nothing that it cannot read
		held, free, err := h.Slot(r)
		if err != nil {
			return err
		}
		defer free()
		r = held
	case !a.order.Background && prefer.Hold != 0:
		defer h.server.Expect(&a.req)()
	}
	a.order.Body = nil // it is in the payload; one that is large need not be there twice
	out, err := h.accepted(c, a.req)
	if err := h.server.Accepted(c, out, err); err != nil {
		return err
	}
	if prefer.Applied != "" {
		c.Writer.Header().Set("Preference-Applied", prefer.Applied)
	}
	if !out.Receipt.Duplicate {
		a.after = schemas.ChatPosition{Seq: out.Before} // no client has read any of it
	}
	var left func()
	if a.cancels {
		left = ingress.Canceler{Stop: h.Stop, Cancel: h.Cancel, Draining: h.Draining}.Left(c, h.server, out.Ref)
	}
	if of := a.who.Holding; of != nil && of.Lease != 0 { // the answer keeps the lease of a task's holder
		defer h.Tasks.Hold(task.Grant{Tenant: a.Tenant, TaskID: of.Task.ID, Lease: of.Lease})()
	}
	h.Answer(c.Writer, r, out.Ref, out.Receipt, &a.order, a.after, prefer.Hold, left)
	return nil
}

// accepted stores a completion. A repeated request joins a running completion like an ended one,
// and both get its answer.
func (h handlers) accepted(c *gin.Context, req accept.Request) (accept.Accepted, error) {
	if req.Name.ID == "" && req.Refusal != nil { // a new name joins nothing
		return accept.Accepted{}, req.Refusal
	}
	out, err := h.server.Acceptor().Accept(c.Request.Context(), req)
	if out.ID != "" {
		c.Writer.Header().Set(schemas.HeaderGeneration, out.ID)
		if accept.InFlight(err) {
			out.Receipt.Duplicate, err = true, nil
		}
	}
	return out, err
}
