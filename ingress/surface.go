package ingress

import (
	"encoding/json"
	"net/http"
	"regexp"
	"slices"

	"github.com/gin-gonic/gin"

	"weir/ingress/accept"
	"weir/ingress/grant"
	"weir/internal/fault"
	"weir/internal/problem"
	"weir/schemas"
)

// Surface is one public protocol, as ingress serves it: its routes, the form of its errors,
// and what the routes of all actions need to know of its kind.
type Surface struct {
	// Name is the surface's label in metrics and log lines.
	Name   string
	Routes []Route
	// Fail writes an error in the protocol's own form and returns the code that it wrote.
	// nil: a problem (RFC 9457). Nothing may have been written before.
	Fail func(c *gin.Context, p problem.Error, err error) schemas.Code
	// Owns reports whether Fail also writes the errors of requests for a path that reach no
	// route, whatever their method; nil: for no path.
	Owns func(path string) bool
	// Tidy returns the route that a path with surplus slashes means; clients join paths onto a base
	// URL that ends in one. The path has no double slashes any more. nil: no path is changed.
	Tidy func(path string) (route string, ok bool)
	// APIKey: clients of the surface may send their token in X-Api-Key instead of Authorization.
	APIKey bool
	// Absent: this node does not serve the surface.
	Absent bool

	// Kind is the kind of the surface's actions; empty: it stores none.
	Kind schemas.Kind
	// Redrive completes the request for an action that repeats a stored payload, and refuses one whose
	// calls its caller may not make. A payload that cannot be read is a *fault.Terminal.
	Redrive func(req *accept.Request, by grant.Caller) error
	// NotRedriven says why actions of the kind are not redriven, and what to do instead. Empty:
	// Redrive decides, and nil refuses all.
	NotRedriven string
	// Canceled is the result of an action that was canceled before it started; nil: none.
	Canceled func(payload json.RawMessage, message string) (json.RawMessage, error)
}

// Route is one method of one path.
type Route struct {
	Method, Path string
	// Scopes are those of which a sender needs one. Empty: Handle authenticates the sender.
	Scopes []string
	// Holders: the token of a task authenticates its holder, for routes with Scopes.
	Holders bool
	Handle  Handler
}

// Handler answers a request, or returns an error that is written in the surface's form.
type Handler func(c *gin.Context) error

// Payload decodes a stored payload for Redrive.
func Payload[T any](payload json.RawMessage) (doc T, err error) {
	if err = json.Unmarshal(payload, &doc); err != nil {
		err = &fault.Terminal{Code: schemas.Poison, Reason: "the payload cannot be read", Cause: err}
	}
	return doc, err
}

// Post returns the route of a POST.
func Post(path string, handle Handler, scopes ...string) Route {
	return Route{Method: http.MethodPost, Path: path, Scopes: scopes, Handle: handle}
}

// WithHolders is the route, which serves the tokens of tasks too.
func (r Route) WithHolders() Route {
	r.Holders = true
	return r
}

// Mount registers the routes of the surfaces that this node serves.
func (s *Server) Mount(e *gin.Engine, surfaces []Surface) {
	for i := range surfaces {
		surface := &surfaces[i]
		if surface.Absent {
			continue
		}
		for _, r := range surface.Routes {
			e.Handle(r.Method, r.Path, func(c *gin.Context) {
				stateOf(c).surface = surface
				var err error
				if len(r.Scopes) > 0 {
					err = s.authorize(c, r)
				}
				if err == nil {
					err = r.Handle(c)
				}
				if err != nil {
					Fail(c, err)
				}
			})
		}
	}
}

// Paths returns an Owns for exact paths.
func Paths(paths ...string) func(path string) bool {
	return func(path string) bool { return slices.Contains(paths, path) }
}

// Written returns a Fail for errors that a function writes under their own code.
func Written(write func(w http.ResponseWriter, r *http.Request, err error)) func(*gin.Context, problem.Error, error) schemas.Code {
	return func(c *gin.Context, p problem.Error, err error) schemas.Code {
		write(c.Writer, c.Request, err)
		return p.Code
	}
}

// Misdirected answers 421 at the routes of a surface that nothing of the engine serves: nodes of
// another role serve them. role says which.
func Misdirected(e *gin.Engine, s Surface, role string) {
	here := map[[2]string]bool{}
	for _, r := range e.Routes() {
		here[[2]string{r.Method, r.Path}] = true
	}
	for _, r := range s.Routes {
		if !here[[2]string{r.Method, r.Path}] {
			e.Handle(r.Method, r.Path, func(c *gin.Context) {
				stateOf(c).surface = &s
				Fail(c, fault.New(schemas.Misdirected, "this node does not serve this: ask "+role))
			})
		}
	}
}

// tidy serves a path with surplus slashes as the route that its surface means by it, if one does.
func (m *middleware) tidy(c *gin.Context) bool {
	path := c.Request.URL.Path
	single := slashes.ReplaceAllLiteralString(path, "/")
	for i := range m.Surfaces {
		if m.Surfaces[i].Tidy == nil {
			continue
		}
		route, ok := m.Surfaces[i].Tidy(single)
		if !ok || route == path { // else it would be served again and again
			continue
		}
		r := *c.Request
		u := *r.URL
		u.Path, r.URL = route, &u
		c.Request = &r
		c.Status(http.StatusOK) // the router had set the status for a path without a route
		m.engine.HandleContext(c)
		c.Abort()
		return true
	}
	return false
}

var slashes = regexp.MustCompile(`/+`)

// Reached reports whether a request reached a route of a surface.
func Reached(c *gin.Context) bool { return stateOf(c).surface.Name != "" }
