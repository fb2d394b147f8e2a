// Package ingress is the room through which every write enters: it reads a
// request strictly, asks who it comes from, translates it to an action and
// stores that. It performs nothing, and leaves the answer to a Responder.
package ingress

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"weir/ingress/accept"
	"weir/ingress/actions"
	"weir/ingress/executor"
	"weir/ingress/git"
	"weir/ingress/grant"
	"weir/ingress/strict"
	"weir/ingress/tasks"
	"weir/schemas"
)

// Ledger is what ingress needs of the action log.
type Ledger interface {
	accept.Ledger
	actions.Ledger
}

// Responder answers for an action that was accepted or joined.
type Responder interface {
	// Expect is called before the claim of an action whose end will be waited
	// for; release after Respond has returned.
	Expect(ref schemas.Ref) (release func())
	// Respond writes the whole answer. wait < 0 waits for the action's end,
	// 0 answers 202 at once, anything else waits so long and then answers 202.
	Respond(w http.ResponseWriter, r *http.Request, ref schemas.Ref, receipt schemas.Receipt, wait time.Duration)
	// Resume is the position that the request's Last-Event-ID names; 0 without one.
	Resume(r *http.Request) (after uint64, err error)
	// Stream answers for a run with its events, from behind a position to its end.
	Stream(w http.ResponseWriter, r *http.Request, ref schemas.Ref, taskType string, after uint64)
	// ReadRules answers an operation of the agent API that changes nothing. Its
	// arguments have the types that they should.
	ReadRules(w http.ResponseWriter, r *http.Request, tenant string, req schemas.AgentRequest)
	// RecordRules answers with rules that give the answers again which an action
	// of the tenant got. Principal is the id of the token that asks.
	RecordRules(w http.ResponseWriter, r *http.Request, tenant, principal string, req schemas.RecordRequest)
	// Task answers with a task as its people see it; with a token, which is shown this
	// once, as schemas.NewTask. The headers that name it are set already.
	Task(w http.ResponseWriter, r *http.Request, ref schemas.Ref, status int, token string)
	// AgentTask answers with a task as the holder of a lease reads it, once its branch is
	// there or the wait for that is over; lease 0 is the task's own token's.
	AgentTask(w http.ResponseWriter, r *http.Request, ref schemas.Ref, lease int)
	// Leased answers with a task, the lease that was made of it, and its token. Timeout is
	// after how long without a call the lease is lost. Where given is false nobody has got
	// the token.
	Leased(w http.ResponseWriter, r *http.Request, ref schemas.Ref, lease int, token string, timeout time.Duration) (given bool)
	// Inquiry waits for the answer to a task's n-th question while the task is held by the
	// lease that asks, and answers with that. It calls touch every now and then, which keeps
	// the lease.
	Inquiry(w http.ResponseWriter, r *http.Request, ref schemas.Ref, lease, n int, touch func())
}

// Repos is the table of repositories.
type Repos interface {
	Get(ctx context.Context, tenant, name string) (schemas.Repo, error)
}

// Metrics counts what happens at the door.
type Metrics interface {
	Accepted(kind schemas.Kind)
	Refused(code schemas.Code)
}

// Config of a Room. What has no default says so.
type Config struct {
	// Accept names, bounds and stores the actions; see accept.Config.
	Accept accept.Config
	// Checker checks response schemas and postconditions; absent: unchecked.
	Checker executor.Checker
	// Authenticate says who sent a request. nil is open mode: everybody is the
	// tenant "default" with every scope, which only a loopback listener may be.
	Authenticate func(r *http.Request) (Identity, error)
	// Judge is what decides about the calls of somebody at the door: the policy as
	// far as its entries go, of the calls as the tenant's traffic rules leave them.
	// Absent: the policy that New was given, whoever asks.
	Judge func(who Asker) executor.Policy
	// NoAgentAPI refuses every operation of POST /v1/agent-api.
	NoAgentAPI bool
	// PolicyVersion is the version of the policy in force: the same write of the
	// rules under another policy is another one. Default: it is never looked at.
	PolicyVersion func() string
	// Previewer says what would become of a call; absent: it is not served.
	Previewer Previewer
	// Nudge tells the worker of a running action that its cancel is on the
	// log; absent: the worker finds out by itself.
	Nudge func(ref schemas.Ref)
	// Issuer makes and revokes tokens; absent: they are not served.
	Issuer Issuer
	// Serves says whether there is an agent for a task type, Weir's own ones aside;
	// absent: there are no others.
	Serves func(taskType string) bool
	// MaxRun is the longest budget of time that a run may ask for; default, and
	// at most, schemas.MaxRunTimeout.
	MaxRun time.Duration
	// Policies explains and reloads the policy; absent: neither is served.
	Policies Policies
	// Dead reads the dead letters; absent: redrive is not served.
	Dead actions.Dead
	// Git takes pushes; nil: they are not served.
	Git *git.Config
	// Tasks is the desk of the tasks; nil: neither tasks nor repositories are served.
	// With it Repos and Branches are required.
	Tasks *tasks.Desk
	// Repos finds a tenant's repository, or says fault.ErrNotFound.
	Repos Repos
	// Branches reports whether a repository has a branch. ErrNoRepo of internal/git means
	// that only another node knows, and an error that is not a public one that nobody
	// knows just now.
	Branches func(ctx context.Context, repo schemas.Repo, branch string) (exists bool, err error)
	// Hosts is nil where a repository of Weir's own can be made, and else says why not;
	// absent: it can.
	Hosts func() error
	// MaxTask is the longest time that a task may ask for; default 7 days.
	MaxTask time.Duration

	// MaxBody is the largest body in bytes; default 1 MiB.
	MaxBody int64
	// Limits bound the JSON of a body; see strict.Limits.
	Limits strict.Limits
	// BodyTimeout is how long a body may take to come; default 20 s.
	BodyTimeout time.Duration
	// Metrics may be nil.
	Metrics Metrics
}

func (c Config) withDefaults() Config {
	if c.Authenticate == nil {
		c.Authenticate = open
	}
	if c.MaxBody <= 0 {
		c.MaxBody = 1 << 20
	}
	if c.BodyTimeout <= 0 {
		c.BodyTimeout = 20 * time.Second
	}
	if c.MaxRun <= 0 || c.MaxRun > schemas.MaxRunTimeout {
		c.MaxRun = schemas.MaxRunTimeout
	}
	if c.MaxTask <= 0 {
		c.MaxTask = 7 * 24 * time.Hour
	}
	if c.Git != nil {
		own := c.Git.WithDefaults()
		c.Git = &own
	}
	if c.Hosts == nil {
		c.Hosts = func() error { return nil }
	}
	if c.PolicyVersion == nil {
		c.PolicyVersion = func() string { return "" }
	}
	if c.Accept.Now == nil {
		c.Accept.Now = time.Now
	}
	if c.Metrics == nil {
		c.Metrics = silent{}
	}
	return c
}

// Room is the ingress. It is safe for concurrent use.
type Room struct {
	policy    executor.Policy
	responder Responder
	acceptor  *accept.Acceptor
	control   *actions.Control
	redriver  *actions.Redriver // nil: not served
	cfg       Config
}

// New returns the room. It starts nothing and needs no Stop.
func New(l Ledger, p executor.Policy, r Responder, cfg Config) *Room {
	cfg = cfg.withDefaults()
	in := &Room{
		policy: p, responder: r, cfg: cfg,
		acceptor: accept.New(l, cfg.Accept),
		control:  actions.New(l, actions.Config{Barrier: cfg.Accept.Barrier, Nudge: cfg.Nudge, StoreTimeout: cfg.Accept.StoreTimeout}),
	}
	if cfg.Dead != nil {
		in.redriver = actions.NewRedriver(cfg.Dead, l, in.acceptor, func(call schemas.HTTPCall, who Asker) schemas.Class {
			_, class := in.policyFor(who).Judge(call)
			return class
		})
	}
	return in
}

// policyFor is what decides about somebody's calls.
func (in *Room) policyFor(who Asker) executor.Policy {
	if in.cfg.Judge == nil {
		return in.policy
	}
	return in.cfg.Judge(who)
}

// Asker is who asks for a call.
type Asker = grant.Asker

// Identity is who sent a request.
type Identity struct {
	Tenant string
	Scopes []string
	// ID is the token's, and Name says whom it belongs to; both for the record,
	// and both empty in open mode.
	ID   string
	Name string
	// Entries are the only entries of the policy that it may use; empty: all.
	Entries []string
	// Pools are the only pools that it may lease tasks of; empty: all.
	Pools []string
	// ExpiresAt is when the token ends; zero: never.
	ExpiresAt time.Time
}

// asks is an identity as the one who asks for calls of a kind.
func (i Identity) asks(kind schemas.Kind, taskType string) Asker {
	return Asker{Tenant: i.Tenant, Kind: kind, TaskType: taskType, Principal: i.ID, Entries: i.Entries}
}

func open(*http.Request) (Identity, error) {
	return Identity{Tenant: schemas.Operator, Scopes: []string{schemas.ScopeAdmin}}, nil
}

type silent struct{}

func (silent) Accepted(schemas.Kind) {}
func (silent) Refused(schemas.Code)  {}

// EngineConfig of NewEngine.
type EngineConfig struct {
	// Logger writes one line a request; nil: none.
	Logger *slog.Logger
	// Metrics counts refusals of requests that reach no route; may be nil.
	Metrics Metrics
	// Local refuses requests that name another host than this machine, or come
	// from a page of another one. In open mode the loopback listener is all that
	// stands between Weir and the web pages that a browser on this machine
	// shows: a page may have its own name resolve to 127.0.0.1.
	Local bool
	// BodyTimeout is how long the body of any request may take to come, read or
	// not; default 20 s.
	BodyTimeout time.Duration
	// Now is the clock; default time.Now.
	Now func() time.Time
}

// NewEngine returns the engine that every room mounts its routes on. A path is
// taken as it was sent, or not at all: there is no redirect to a tidier one. The
// caller's address is the connection's, whatever a header says. Unknown routes
// and methods get problems, and gin itself prints nothing.
func NewEngine(cfg EngineConfig) *gin.Engine {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Metrics == nil {
		cfg.Metrics = silent{}
	}
	if cfg.BodyTimeout <= 0 {
		cfg.BodyTimeout = 20 * time.Second
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if gin.Mode() == gin.DebugMode { // gin prints every route to stdout there
		gin.SetMode(gin.ReleaseMode)
	}
	e := gin.New()
	e.RedirectTrailingSlash = false
	e.RedirectFixedPath = false
	e.RemoveExtraSlash = false
	e.HandleMethodNotAllowed = true
	e.ForwardedByClientIP = false
	_ = e.SetTrustedProxies(nil) // fails on a malformed address only
	// Routes match the path as it was sent: an encoded slash stays inside its
	// segment, and a parameter is decoded once, after matching.
	e.UseRawPath = true
	e.UnescapePathValues = true
	m := middleware(cfg)
	e.Use(tidy(e), m.observe, m.recover, m.guard)
	e.NoRoute(m.noRoute)
	e.NoMethod(m.noMethod)
	return e
}
