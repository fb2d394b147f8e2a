// Package ingress is the server that every write enters through. It authenticates a request,
// decodes it strictly, has its surface translate it to an action, and stores the action. It
// executes nothing, and gets the functions that answer from egress.
package ingress

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"weir/ingress/accept"
	"weir/ingress/grant"
	"weir/internal/fault"
	"weir/internal/githttp"
	"weir/internal/task"
	"weir/schemas"
)

// Metrics counts accepted actions and refused requests, and measures all requests.
type Metrics interface {
	Accepted(kind schemas.Kind)
	Refused(code schemas.Code)
	// Answered is called once for each request, after its answer. stream: the answer was an event
	// stream.
	Answered(surface, method string, stream bool, status int, took time.Duration)
}

type noMetrics struct{}

func (noMetrics) Accepted(schemas.Kind) {}
func (noMetrics) Refused(schemas.Code)  {}

func (noMetrics) Answered(string, string, bool, int, time.Duration) {}

// Reply writes the whole answer for an action that was accepted or joined. wait < 0
// waits for the action's end, 0 answers 202 at once, any other wait answers 202 after it.
type Reply func(w http.ResponseWriter, r *http.Request, ref schemas.Ref, receipt schemas.Receipt, wait time.Duration)

// bodyTimeout is how long the body of any request may take to arrive, read or not.
const bodyTimeout = 20 * time.Second

// Config of a Server. All fields have defaults but Reply, which routes that store an action need.
type Config struct {
	// Accept names, bounds and stores the actions; see accept.Config.
	Accept accept.Config
	// Authenticate returns the sender of a request. nil is open mode: every sender is the tenant
	// "default" with every scope, which only a loopback listener may grant.
	Authenticate func(r *http.Request) (Identity, error)
	// Sender returns the sender of a request by the text of a token, which may be the token of a task,
	// and counts the request. nil: requests with such a text are authenticated by Authenticate.
	Sender func(ctx context.Context, text string) (Identity, error)
	Reply  Reply
	// Expect is called before the claim of an action whose end Reply waits for, and release
	// after Reply has returned. It spares Reply a read of the log; default: nothing.
	Expect func(ref schemas.Ref) (release func())
	// MaxBody is the largest body in bytes; default 1 MiB.
	MaxBody int64
	// Memory waits until a tenant may use n bytes for a body that is read and stored; release may be
	// called twice. nil: nothing is counted.
	Memory func(ctx context.Context, tenant string, n int64) (release func(), err error)
	// BodyTimeout is how long a body may take to arrive; default 20 s.
	BodyTimeout time.Duration
	// Metrics may be nil.
	Metrics Metrics
	// Logger logs failures that no client is left to receive; nil: none.
	Logger *slog.Logger
}

func (c Config) withDefaults() Config {
	if c.Authenticate == nil {
		c.Authenticate = func(*http.Request) (Identity, error) {
			return Identity{Token: schemas.Token{Tenant: schemas.Operator, Scopes: []string{schemas.ScopeAdmin}}}, nil
		}
	}
	if c.Expect == nil {
		c.Expect = func(schemas.Ref) func() { return func() {} }
	}
	c.MaxBody, c.BodyTimeout = cmp.Or(c.MaxBody, 1<<20), cmp.Or(c.BodyTimeout, bodyTimeout)
	if c.Accept.Now == nil {
		c.Accept.Now = time.Now
	}
	if c.Metrics == nil {
		c.Metrics = noMetrics{}
	}
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	return c
}

// Server is what the surfaces share. It is safe for concurrent use, starts nothing and needs
// no Stop.
type Server struct {
	cfg      Config
	acceptor *accept.Acceptor
}

// NewServer returns a server that stores actions on the ledger.
func NewServer(l accept.Ledger, cfg Config) *Server {
	cfg = cfg.withDefaults()
	return &Server{cfg: cfg, acceptor: accept.New(l, cfg.Accept)}
}

// Acceptor stores the actions.
func (s *Server) Acceptor() *accept.Acceptor { return s.acceptor }

// Now is the server's clock.
func (s *Server) Now() time.Time { return s.cfg.Accept.Now() }

// Authenticate returns the sender of a request, for routes that name no scopes.
func (s *Server) Authenticate(r *http.Request) (Identity, error) { return s.cfg.Authenticate(r) }

// Sender returns the sender of a request by its token, which may be the token of a task, for routes
// that name no scopes. Empty: the request has no token.
func (s *Server) Sender(r *http.Request, text string) (Identity, error) {
	if text == "" || s.cfg.Sender == nil {
		return s.cfg.Authenticate(r)
	}
	return s.cfg.Sender(r.Context(), text)
}

// authorize authenticates the sender of a request to a route with scopes, and refuses one that has none
// of them. The holder of a task is admitted by its token if the route serves these.
func (s *Server) authorize(c *gin.Context, route Route) error {
	text := ""
	if route.Holders {
		text, _ = githttp.BearerToken(c.Request.Header.Values("Authorization"), false)
	}
	if !task.Is(text) {
		text = ""
	}
	who, err := s.Sender(c.Request, text)
	if err != nil {
		return err
	}
	r := stateOf(c)
	r.tenant, r.sender = who.Tenant, who
	return fault.Scope(who.Scopes, route.Scopes...)
}

// state is what the middleware and the handlers of one request leave each other.
type state struct {
	engine         *middleware
	surface        *Surface // of the route that it reached, or the zero one
	sender         Identity
	tenant, action string
	releaseBody    func() // nil: the body needs no memory
}

// keyState is where a request's context has its state.
const keyState = "weir.state"

// stateOf is the state of a request.
func stateOf(c *gin.Context) *state {
	v, _ := c.Get(keyState)
	r, ok := v.(*state)
	if !ok {
		m := &middleware{EngineConfig: EngineConfig{Metrics: noMetrics{}}}
		r = &state{engine: m, surface: &m.none}
		c.Set(keyState, r)
	}
	return r
}

// Caller is the sender of a request to a route that names scopes.
func Caller(c *gin.Context) Identity { return stateOf(c).sender }

// SetTenant names the tenant of a request in its log line.
func SetTenant(c *gin.Context, tenant string) { stateOf(c).tenant = tenant }

// SetAction names an action in the answer and in the log line.
func SetAction(c *gin.Context, ref schemas.Ref) {
	stateOf(c).action = ref.ID
	c.Writer.Header().Set("Weir-Action-Id", ref.ID)
}

// Identity is the sender of a request.
type Identity struct {
	// Token is the sender's, of which the surfaces use the tenant, the name and what it permits. Its id
	// and its name are for the record, and are empty in open mode.
	schemas.Token

	// Holding is set for the holder of a task. ID, Entries and Models are then those that the task was
	// filed with.
	Holding *Holding
}

// Holding describes the lease and the budgets of a task's holder.
type Holding struct {
	Task schemas.Ref
	// Lease is the number of its lease; 0: it has the task's own token.
	Lease int
	// Model is the only model that the holder may use; empty: the identity's Models say which.
	Model  string
	Budget *schemas.TaskBudget
	// Subtokens are the budgets of the subtoken that it has, and of those that this one was made from.
	Subtokens []schemas.SubtokenBudget
}

// Task is the id of the task that the sender holds; empty: none.
func (i Identity) Task() string {
	if i.Holding == nil {
		return ""
	}
	return i.Holding.Task.ID
}

// Until is the latest end of the actions of a task's holder; zero: no bound.
func (i Identity) Until() time.Time {
	if i.Holding == nil {
		return time.Time{}
	}
	return i.ExpiresAt
}

// Keys scopes the Idempotency-Keys of a route to this sender: those of a task's holders are kept
// apart from all others.
func (i Identity) Keys(route string) string {
	if i.Holding == nil {
		return route
	}
	return route + "?task=" + i.Task()
}

// Asks is an identity as the sender of calls of a kind.
func (i Identity) Asks(kind schemas.Kind, taskType string) grant.Caller {
	return grant.Caller{Tenant: i.Tenant, Kind: kind, TaskType: taskType, Principal: i.ID, Entries: i.Entries, Models: i.Models}
}

// Caller is the identity on the record: the id of the token, or "open" without one.
func (i Identity) Caller() string { return cmp.Or(i.ID, "open") }
