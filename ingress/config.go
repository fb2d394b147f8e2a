package ingress

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"weir/ingress/accept"
	"weir/ingress/actions"
	"weir/ingress/executor"
	"weir/ingress/git"
	"weir/ingress/strict"
	"weir/ingress/tasks"
	"weir/schemas"
)

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
	// Stop tells the worker of a running action to stop; absent: it finds out by the log.
	Stop func(ref schemas.Ref)
	// NoEnds: this node may not end actions; see actions.Config.
	NoEnds bool
	// Issuer makes and revokes tokens; absent: they are not served.
	Issuer Issuer
	// Sessions sign browsers in; absent: nobody has to.
	Sessions Sessions
	// PublicURL is this node's URL as others know it, without a slash at its end; absent:
	// it is not known.
	PublicURL func() string
	// Serves says whether there is an agent for a task type, Weir's own ones aside;
	// absent: there are no others.
	Serves func(taskType string) bool
	// MaxRun is the longest budget of time that a run may ask for; default, and
	// at most, schemas.MaxRunTimeout.
	MaxRun time.Duration
	// Policies explains and reloads the policy; absent: neither is served.
	Policies Policies
	// Operations are what operators decide; absent: they are not served.
	Operations Operations
	// Dead reads the dead letters; absent: redrive is not served.
	Dead actions.Dead
	// Chat is what completions need; nil: they are not served.
	Chat *ChatConfig
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
	// Logger hears of what fails when nobody is there any more to be told; nil: nothing.
	Logger *slog.Logger
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
	if c.Chat != nil {
		own := c.Chat.withDefaults()
		c.Chat = &own
	}
	if c.Hosts == nil {
		c.Hosts = func() error { return nil }
	}
	if c.PolicyVersion == nil {
		c.PolicyVersion = func() string { return "" }
	}
	if c.PublicURL == nil {
		c.PublicURL = func() string { return "" }
	}
	if c.Accept.Now == nil {
		c.Accept.Now = time.Now
	}
	if c.Metrics == nil {
		c.Metrics = silent{}
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

type silent struct{}

func (silent) Accepted(schemas.Kind) {}
func (silent) Refused(schemas.Code)  {}
