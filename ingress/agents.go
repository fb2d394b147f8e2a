package ingress

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"weir/ingress/accept"
	"weir/ingress/tasks"
	"weir/internal/githttp"
	"weir/internal/problem"
	"weir/schemas"
)

// mountAgents serves whoever works on tasks. Who that is, the token says, in open mode too.
func (in *Room) mountAgents(e *gin.Engine) {
	here := surface("tasks", "")
	for _, base := range []string{"", schemas.RouteAPI} {
		e.GET(base+schemas.RouteAgentTask, here, in.agentTask)
		e.POST(base+schemas.RouteAgentComplete, here, in.report(tasks.ReadComplete))
		e.POST(base+schemas.RouteAgentFail, here, in.report(tasks.ReadFail))
		e.POST(base+schemas.RouteAgentInquiry, here, in.inquire)
	}
	e.POST(schemas.RouteTaskLease, here, in.authorize(schemas.ScopeTasksWork), in.leaseTask)
	e.POST(schemas.RouteTaskRelease, here, in.releaseTask)
}

// agentPath is an agent's route without the slashes that its base URL and the path after
// it had both, and without one at the end; ok is false for another route, and for a path
// that is right as it is.
func agentPath(path string) (tidy string, ok bool) {
	if !strings.Contains(path, "//") && !strings.HasSuffix(path, "/") {
		return path, false
	}
	b := make([]byte, 0, len(path))
	for i := range len(path) {
		if path[i] != '/' || i == 0 || path[i-1] != '/' {
			b = append(b, path[i])
		}
	}
	tidy = string(b)
	for _, base := range []string{"", schemas.RouteAPI} {
		switch tidy := strings.TrimSuffix(tidy, "/"); tidy {
		case base + schemas.RouteAgentTask, base + schemas.RouteAgentComplete, base + schemas.RouteAgentFail, base + schemas.RouteAgentInquiry:
			return tidy, true
		}
	}
	return tidy, tidy != path && isChat(tidy) // else it would be served again and again
}

// tidy serves an agent's route, chat's among them, as if its path had no slash too many:
// clients join paths onto a base URL that ends in one. Whatever stands behind this sees the path as
// it should be.
func tidy(e *gin.Engine) gin.HandlerFunc {
	return func(c *gin.Context) {
		path, ok := agentPath(c.Request.URL.Path)
		if !ok || c.Request.URL.RawPath != "" {
			return
		}
		r := *c.Request
		u := *r.URL
		u.Path, r.URL = path, &u
		c.Request = &r
		c.Status(http.StatusOK) // that of the path which nothing stands at was set
		e.HandleContext(c)
		c.Abort()
	}
}

// bearer is the token of whoever works on a task.
func bearer(c *gin.Context) string {
	token, _ := githttp.Token(c.Request.Header.Values("Authorization"), false)
	return token
}

// visits names the task of a request in its answer and its line. Where there is an
// error, it answers itself.
func (in *Room) visits(c *gin.Context, ref schemas.Ref, err error) bool {
	if ref.ID != "" {
		c.Set(keyTenant, ref.Tenant)
		joined(c, ref)
	}
	if err != nil {
		in.failAgent(c, err)
		return false
	}
	return true
}

// failAgent answers as the document has it, where what is wrong with a body is 400.
func (in *Room) failAgent(c *gin.Context, err error) {
	if p := problem.Of(err); p.Code == schemas.ValidationError {
		err = &problem.Error{Problem: schemas.Problem{Code: p.Code, Detail: p.Detail, Status: http.StatusBadRequest}, Cause: err}
	}
	in.fail(c, err)
}

// agentTask gives an agent its task. Whatever body it sends is not looked at.
func (in *Room) agentTask(c *gin.Context) {
	v, leased, err := in.cfg.Tasks.Take(c.Request.Context(), bearer(c))
	if !in.visits(c, v.Ref, err) {
		return
	}
	if leased != "" {
		c.Writer.Header().Set(schemas.HeaderTaskToken, leased)
	}
	// Where the answer is lost the next request with the pool's token finds the task.
	in.responder.AgentTask(c.Writer, c.Request, v.Ref, v.Lease)
}

// report takes an agent's last word.
func (in *Room) report(translate func(body []byte) (schemas.TaskReport, error)) gin.HandlerFunc {
	return func(c *gin.Context) {
		ref, err := in.cfg.Tasks.Report(c.Request.Context(), bearer(c), func() (schemas.TaskReport, error) {
			body, err := in.read(c.Writer, c.Request)
			if err != nil {
				return schemas.TaskReport{}, err
			}
			return translate(body)
		})
		if in.visits(c, ref, err) {
			c.Writer.WriteHeader(http.StatusOK)
		}
	}
}

// inquire puts an agent's question, and waits for its answer.
func (in *Room) inquire(c *gin.Context) {
	v, n, err := in.cfg.Tasks.Ask(c.Request.Context(), bearer(c), func() (text, key string, err error) {
		if key, err = accept.Key(c.Request.Header.Values("Idempotency-Key")); err != nil {
			return "", "", err
		}
		body, err := in.read(c.Writer, c.Request)
		if err != nil {
			return "", "", err
		}
		text, err = tasks.ReadInquiry(body)
		return text, key, err
	})
	if !in.visits(c, v.Ref, err) {
		return
	}
	leave, err := in.cfg.Tasks.Wait(v)
	if err != nil {
		in.failAgent(c, err)
		return
	}
	defer leave()
	ctx := context.WithoutCancel(c.Request.Context())
	in.responder.Inquiry(c.Writer, c.Request, v.Ref, v.Lease, n, func() { in.cfg.Tasks.Touch(ctx, v.Ref, v.Lease) })
}

// leaseTask leases another task for a runner, which may have any number of them.
func (in *Room) leaseTask(c *gin.Context) {
	who := identity(c)
	req, err := in.leaseRequest(c)
	if err == nil {
		err = tasks.MayLease(req.Pool, who.Pools)
	}
	if err != nil {
		in.fail(c, err)
		return
	}
	w := tasks.Worker{Tenant: who.Tenant, Holder: caller(who), Pools: who.Pools, Entries: who.Entries, Models: who.Models}
	if req.Pool != "" {
		w.Pools = []string{req.Pool}
	}
	// The deadline of the request's body would end the wait.
	_ = http.NewResponseController(c.Writer).SetReadDeadline(time.Time{})
	v, token, err := in.cfg.Tasks.Await(c.Request.Context(), w, time.Duration(req.WaitMS)*time.Millisecond)
	switch {
	case err != nil:
		in.fail(c, err)
	case token == "":
		c.Writer.WriteHeader(http.StatusNoContent)
	default:
		joined(c, v.Ref)
		in.handOver(c, v, func(w http.ResponseWriter) (given bool) {
			return in.responder.Leased(w, c.Request, v.Ref, v.Lease, token, in.cfg.Tasks.Lease())
		})
	}
}

// leaseRequest reads the body, which may be left out.
func (in *Room) leaseRequest(c *gin.Context) (req schemas.LeaseRequest, err error) {
	if c.Request.ContentLength == 0 {
		return req, nil
	}
	body, err := in.read(c.Writer, c.Request)
	if err != nil {
		return req, err
	}
	return tasks.ReadLease(body)
}

// releaseTask takes a task back from the holder of its lease.
func (in *Room) releaseTask(c *gin.Context) {
	ref, err := in.cfg.Tasks.Release(c.Request.Context(), bearer(c))
	if in.visits(c, ref, err) {
		c.Writer.WriteHeader(http.StatusNoContent)
	}
}
