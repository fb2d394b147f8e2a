package tasks

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"weir/ingress"
	"weir/ingress/accept"
	"weir/internal/githttp"
	"weir/internal/problem"
	"weir/schemas"
)

// agentRoutes serve the agents who work on tasks. Their token names the task, in open mode
// too.
func (h handlers) agentRoutes() []ingress.Route {
	var routes []ingress.Route
	for _, base := range []string{"", schemas.RouteAPI} {
		routes = append(
			routes,
			ingress.Route{Method: http.MethodGet, Path: base + schemas.RouteAgentTask, Handle: h.agentTask},
			ingress.Post(base+schemas.RouteAgentComplete, h.report(ReadComplete)),
			ingress.Post(base+schemas.RouteAgentFail, h.report(ReadFail)),
			ingress.Post(base+schemas.RouteAgentInquiry, h.inquire),
			ingress.Post(base+schemas.RouteAgentSubtokens, h.subtoken),
			ingress.Post(base+schemas.RouteAgentOutput, h.output),
		)
	}
	return append(
		routes,
		ingress.Post(schemas.RouteTaskLease, h.lease, schemas.ScopeTasksWork),
		ingress.Post(schemas.RouteTaskRelease, h.release),
	)
}

// agentRoute is the agent's route that a path means which has a slash at its end.
func agentRoute(path string) (route string, ok bool) {
	route = strings.TrimSuffix(path, "/")
	agents := []string{schemas.RouteAgentTask, schemas.RouteAgentComplete, schemas.RouteAgentFail, schemas.RouteAgentInquiry, schemas.RouteAgentSubtokens, schemas.RouteAgentOutput}
	return route, slices.Contains(agents, route) || slices.Contains(agents, strings.TrimPrefix(route, schemas.RouteAPI))
}

// Bearer is the token of an agent that works on a task.
func Bearer(c *gin.Context) string {
	token, _ := githttp.BearerToken(c.Request.Header.Values("Authorization"), false)
	return token
}

// visits names the task of a request in its answer and its log line, and returns the error as
// the document has it, where what is wrong with a body is 400.
func visits(c *gin.Context, ref schemas.Ref, err error) error {
	if ref.ID != "" {
		ingress.SetTenant(c, ref.Tenant)
		ingress.SetAction(c, ref)
	}
	if err == nil {
		return nil
	}
	if p := problem.Of(err); p.Code == schemas.ValidationError {
		err = &problem.Error{Problem: schemas.Problem{Code: p.Code, Detail: p.Detail, Status: http.StatusBadRequest}, Cause: err}
	}
	return err
}

func body[T any](h handlers, c *gin.Context, read func(body []byte) (T, error)) func() (T, error) {
	return func() (v T, err error) {
		doc, err := h.server.Read(c)
		if err != nil {
			return v, err
		}
		return read(doc)
	}
}

// agentTask gives an agent its task. Whatever body it sends is not looked at.
func (h handlers) agentTask(c *gin.Context) error {
	v, leased, err := h.Tasks.AuthorizeOrLease(c.Request.Context(), Bearer(c))
	if err := visits(c, v.Ref, err); err != nil {
		return err
	}
	if leased != "" {
		c.Writer.Header().Set(schemas.HeaderTaskToken, leased)
	}
	// Where the answer is lost the next request with the pool's token finds the task.
	h.Agent(c.Writer, c.Request, v.Ref, v.Lease)
	return nil
}

func (h handlers) report(translate func(body []byte) (schemas.TaskReport, error)) ingress.Handler {
	return func(c *gin.Context) error {
		ref, err := h.Tasks.Report(c.Request.Context(), Bearer(c), body(h, c, translate))
		if err := visits(c, ref, err); err != nil {
			return err
		}
		c.Writer.WriteHeader(http.StatusOK)
		return nil
	}
}

// output stores a piece of output of a task's command, and keeps the lease.
func (h handlers) output(c *gin.Context) error {
	ref, err := h.Tasks.Output(c.Request.Context(), Bearer(c), body(h, c, ReadOutput))
	if err := visits(c, ref, err); err != nil {
		return err
	}
	c.Writer.WriteHeader(http.StatusNoContent)
	return nil
}

func (h handlers) inquire(c *gin.Context) error {
	v, n, err := h.Tasks.Ask(c.Request.Context(), Bearer(c), func() (text, key string, err error) {
		if key, err = accept.Key(c.Request.Header.Values("Idempotency-Key")); err != nil {
			return "", "", err
		}
		text, err = body(h, c, ReadInquiry)()
		return text, key, err
	})
	if err := visits(c, v.Ref, err); err != nil {
		return err
	}
	leave, err := h.Tasks.Wait(v)
	if err != nil {
		return visits(c, v.Ref, err)
	}
	defer leave()
	defer h.Tasks.Hold(v.grant())()
	h.Inquiry(c.Writer, c.Request, v.Ref, v.Lease, n)
	return nil
}

func (h handlers) subtoken(c *gin.Context) error {
	ref, made, err := h.Tasks.Delegate(c.Request.Context(), Bearer(c), body(h, c, ReadSubtoken))
	if err := visits(c, ref, err); err != nil {
		return err
	}
	ingress.WriteJSON(c, http.StatusCreated, made)
	return nil
}

// lease leases another task for a runner, which may have any number of them.
func (h handlers) lease(c *gin.Context) error {
	who := ingress.Caller(c)
	var req schemas.LeaseRequest
	var err error
	if c.Request.ContentLength != 0 { // the body may be left out
		req, err = body(h, c, ReadLease)()
	}
	if err == nil {
		err = MayLease(req.Pool, who.Pools)
	}
	if err != nil {
		return err
	}
	w := who.Token
	w.ID = who.Caller()
	if req.Pool != "" {
		w.Pools = []string{req.Pool}
	}
	ingress.NoDeadlineToRead(c.Writer)
	v, token, err := h.Tasks.Await(c.Request.Context(), w, time.Duration(req.WaitMS)*time.Millisecond)
	switch {
	case err != nil:
		return err
	case token == "":
		c.Writer.WriteHeader(http.StatusNoContent)
	default:
		ingress.SetAction(c, v.Ref)
		given := h.Leased(c.Writer, c.Request, v.Ref, v.Lease, token, h.Tasks.Lease())
		if !given || !delivered(c) {
			// The lease's token is lost. If this fails as well, the worker takes the task back in time.
			_ = h.Tasks.Return(c.Request.Context(), v)
		}
	}
	return nil
}

func (h handlers) release(c *gin.Context) error {
	ref, err := h.Tasks.Release(c.Request.Context(), Bearer(c))
	if err := visits(c, ref, err); err != nil {
		return err
	}
	c.Writer.WriteHeader(http.StatusNoContent)
	return nil
}

// delivered reports whether an answer was sent, and is what was asked for. If it was sent and was not received,
// this stays unknown.
func delivered(c *gin.Context) bool {
	if c.Writer.Status() != http.StatusOK || c.Writer.Size() <= 0 {
		return false
	}
	w := http.ResponseWriter(c.Writer) // gin's does not say how a flush ended
	if in, ok := w.(interface{ Unwrap() http.ResponseWriter }); ok {
		w = in.Unwrap()
	}
	err := http.NewResponseController(w).Flush()
	return err == nil || errors.Is(err, http.ErrNotSupported)
}
