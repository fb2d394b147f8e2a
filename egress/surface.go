package egress

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"

	"github.com/gin-gonic/gin"

	"weir/egress/stream"
	"weir/internal/fault"
	"weir/internal/githttp"
	"weir/internal/ledger"
	"weir/internal/problem"
	"weir/internal/redact"
	"weir/internal/task"
	"weir/schemas"
)

// Surface is one public protocol, as egress serves it: its routes that read, and the views of
// its kinds.
type Surface struct {
	// Name is the surface's label in metrics and log lines.
	Name   string
	Routes []Route
	Views  []View
	// Absent: this node does not serve the routes.
	Absent bool
}

// View is the form of the answers for the actions of one kind.
type View struct {
	Kind schemas.Kind
	// Render is the whole answer for an end, whose stored document is doc, as a JSON document. It
	// depends on these alone, so that a replay gets the same bytes. An error is written by Fail. The
	// events and the status of an action show the same body, or nothing after an error.
	Render func(ref schemas.Ref, s *schemas.Settled, doc json.RawMessage) (status int, body []byte, err error)
	// Answer writes the whole answer of a kind without Render, in its stead.
	Answer func(w http.ResponseWriter, r *http.Request, ref schemas.Ref, s *schemas.Settled, doc json.RawMessage) error
	// Result is the public form of an end's document, for the events and the status of an
	// action; nil: the document itself. Not for kinds with Render.
	Result func(ref schemas.Ref, s *schemas.Settled, doc json.RawMessage) json.RawMessage
	// Part is the public form of the data of a delta; nil: the data itself.
	Part func(data json.RawMessage) json.RawMessage
	// Payload shows a stored payload without the values that carry credentials; nil: it is not
	// shown.
	Payload func(r *redact.Redactor, payload json.RawMessage) (json.RawMessage, error)
	// Fail writes an error in the protocol's own form; nil: a problem.
	Fail func(w http.ResponseWriter, r *http.Request, ref schemas.Ref, err error)
	// Accepted answers for an action before its end; nil: 202 and the receipt.
	Accepted func(w http.ResponseWriter, r *http.Request, receipt schemas.Receipt) error
	// Stopping is the error for callers who wait without bound on a node that stops, and whose
	// protocol knows no receipt; nil: as for any other whose wait is over.
	Stopping error
	// Live answers with an answer that has begun to arrive, to its end. left is as in
	// Server.ReplyOr. nil: Reply waits for the end of an action.
	Live func(w http.ResponseWriter, r *http.Request, ref schemas.Ref, left func())
	// Reading: the request's body is still read while the answer waits.
	Reading bool
}

// Shown returns a Payload that decodes a document, hides values in it and encodes it, with its
// order and numbers.
func Shown[T any](hide func(r *redact.Redactor, doc *T)) func(*redact.Redactor, json.RawMessage) (json.RawMessage, error) {
	return func(r *redact.Redactor, payload json.RawMessage) (json.RawMessage, error) {
		var doc T
		if err := json.Unmarshal(payload, &doc); err != nil {
			return nil, err
		}
		hide(r, &doc)
		return ledger.Encode(doc)
	}
}

// Route is one method of one path.
type Route struct {
	Method, Path string
	// Scopes are alternatives, of which a sender needs one. Empty: Handle authenticates the sender,
	// or serves all.
	Scopes []string
	Handle Handler
}

// Handler answers a request, or returns an error that is written as a problem.
type Handler func(c *gin.Context) error

// Read returns the routes of a path that is read: GET and HEAD.
func Read(path string, handle Handler) []Route {
	return []Route{{Method: http.MethodGet, Path: path, Handle: handle}, {Method: http.MethodHead, Path: path, Handle: handle}}
}

// Read returns the routes of a path. The sender needs one of the scopes and is authenticated before
// anything is read.
func (s *Server) Read(path string, serve func(r *Request) error, scopes ...string) []Route {
	routes := Read(path, func(c *gin.Context) error {
		who, err := s.Reader(c.Request, scopes...)
		if err != nil {
			return err
		}
		return serve(&Request{c, who})
	})
	for i := range routes {
		routes[i].Scopes = scopes
	}
	return routes
}

// JSON returns a reader that answers with a document.
func JSON(doc func(r *Request) (any, error)) func(r *Request) error {
	return func(r *Request) error {
		shown, err := doc(r)
		if err == nil {
			stream.WriteJSON(r.Writer, r.Request, http.StatusOK, shown)
		}
		return err
	}
}

// ReadAction returns the routes of a path that shows one action, whose id is the parameter id. The
// sender needs the scope actions:read, or is the holder of the task that the action was sent for.
func (s *Server) ReadAction(path string, serve func(r *Request) error) []Route {
	routes := s.Read(path, serve, schemas.ScopeActionsRead)
	for i, read := range routes {
		routes[i].Handle = func(c *gin.Context) error {
			who, ok, err := s.holder(c.Request)
			if !ok {
				return read.Handle(c)
			}
			if err == nil {
				err = s.owns(c.Request.Context(), who, c.Param("id"))
			}
			if err != nil {
				return err
			}
			return serve(&Request{c, who})
		}
	}
	return routes
}

// Sender is the sender of a request: the holder of a task by a token of the task, in open mode too, or
// the reader with another token that has one of the scopes; no scopes: every token will do.
func (s *Server) Sender(r *http.Request, scopes ...string) (Reader, error) {
	if who, ok, err := s.holder(r); ok {
		return who, err
	}
	return s.Reader(r, scopes...)
}

// holder authenticates the holder of a task; ok is false for a request with another token.
func (s *Server) holder(r *http.Request) (who Reader, ok bool, err error) {
	token, _ := githttp.BearerToken(r.Header.Values("Authorization"), false)
	if s.cfg.Holder == nil || !task.Is(token) {
		return who, false, nil
	}
	who, err = s.cfg.Holder(r.Context(), token)
	return who, true, err
}

// owns refuses an action that the holder of a task may not read.
func (s *Server) owns(ctx context.Context, who Reader, id string) error {
	const absent = "there is no such action of this task that this token may read"
	st, err := s.Find(ctx, who.Tenant, id, absent)
	if err == nil && !who.Reads(st.Action) {
		return fault.New(schemas.NotFound, absent)
	}
	return err
}

// Routes joins lists of routes.
func Routes(lists ...[]Route) []Route { return slices.Concat(lists...) }

// Mount registers the routes of the surfaces that this node serves. It sets nothing on the engine:
// how requests are recovered, limited and authenticated is the caller's.
func Mount(engine *gin.Engine, surfaces []Surface) {
	for _, s := range surfaces {
		if s.Absent {
			continue
		}
		for _, r := range s.Routes {
			engine.Handle(r.Method, r.Path, func(c *gin.Context) {
				problem.ReportOf(c.Request.Context()).Surface = s.Name
				if err := r.Handle(c); err != nil {
					problem.Write(c.Writer, c.Request, err)
				}
			})
		}
	}
}

// Request is a request whose sender is known.
type Request struct {
	*gin.Context

	Reader Reader
}

// Reader authenticates the sender of a request, which needs one of the scopes.
func (s *Server) Reader(r *http.Request, scopes ...string) (Reader, error) {
	if len(scopes) == 1 {
		return s.cfg.Reader(r, scopes[0])
	}
	who, err := s.cfg.Reader(r, "")
	if err == nil && len(scopes) > 1 {
		err = fault.Scope(who.Scopes, scopes...)
	}
	return who, err
}
