// Package egress is the room that every read and every record leaves through:
// the answers to whoever waits, the streams, the lists, the evidence, and what
// a node says about itself.
package egress

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"weir/egress/evidence"
	"weir/egress/git"
	"weir/egress/index"
	"weir/egress/status"
	"weir/egress/stream"
	"weir/internal/models"
	"weir/internal/redact"
	"weir/internal/rules"
	"weir/schemas"
)

// Log is what the room reads.
type Log interface {
	stream.Log
	GetBlob(ctx context.Context, name string) ([]byte, error)
}

// Check is one thing that a node needs in order to be ready.
type Check struct {
	Name string // shown when it fails; the error is not
	Run  func(ctx context.Context) error
}

// Reader is who reads.
type Reader struct {
	// Tenant is whose records it may read.
	Tenant string
	// Entries are the only entries of the policy that it may use; empty: all.
	Entries []string
	// Scopes are those of its token. Where one of two would do they are looked at
	// here.
	Scopes []string
	// Models are patterns of the only models that it may use; empty: all.
	Models []string
}

// Rules reads the traffic rules.
type Rules interface {
	// Newest is a tenant's rule set, never older than a write that was answered.
	Newest(ctx context.Context, tenant string) (rules.Snapshot, error)
}

// Repos is the table of repositories.
type Repos interface {
	// Get is a tenant's repository, or fault.ErrNotFound, also for a name that none may
	// have; List are all of a tenant's, by name.
	Get(ctx context.Context, tenant, name string) (schemas.Repo, error)
	List(ctx context.Context, tenant string) ([]schemas.Repo, error)
}

// Budgets are the accounts of what is used of models.
type Budgets interface {
	// List are those of a tenant, by budget, token, task and model.
	List(ctx context.Context, tenant string) ([]schemas.BudgetView, error)
}

// Config holds the rest of what the room needs.
type Config struct {
	Layout     schemas.Layout     // required
	Durability schemas.Durability // shown by /readyz
	Replicas   int                // shown by /readyz; 0: the node keeps the log itself
	Role       string             // shown by /readyz; empty: the node has every one
	Live       stream.Live        // required: evidence is watched through it
	// Reader says who reads, or refuses the request with an error that becomes
	// a problem. With no scope anybody with a token may. Required: there is no
	// open default.
	Reader func(r *http.Request, scope string) (Reader, error)
	// PolicyVersion and AllowedHosts are asked for each time: policy reloads.
	PolicyVersion func() string
	AllowedHosts  func() []string
	Checks        []Check
	// Redactor knows the headers of a payload whose values are hidden; nil: those that are
	// always hidden.
	Redactor *redact.Redactor
	// Policy is the policy in force, or what some entries of it show, to an operator or to
	// others; nil: it is not served.
	Policy func(only []string, operator bool) schemas.PolicyView
	// Tokens lists a tenant's tokens, a page at a time: cursor is the Next of the
	// page before, or empty. nil: they are not served.
	Tokens func(ctx context.Context, tenant, cursor string, limit int) (schemas.Page[schemas.Token], error)
	// Session says for whom a page of the console works; nil: the console is not served.
	Session func(r *http.Request) (schemas.ConsoleSession, error)
	// Rules are the traffic rules; nil: they are not served.
	Rules Rules
	// Repos are the repositories of the tenants; nil: neither they nor tasks are served.
	Repos Repos
	// PublicURL is what stands before the paths of this node where a URL has to be
	// complete, without a slash at its end. Default: nothing.
	PublicURL func() string
	// Models are the models in force; nil: they are not served.
	Models func() *models.Set
	// Budgets are the accounts of budgets; nil: they are not served.
	Budgets Budgets
	// Operations are what operators have decided, and the destinations that are left
	// alone; nil: they are not served.
	Operations func() schemas.OperationsView
	// Holder says who holds a task by the task's token, without scopes, and changes
	// nothing; nil: there are no tasks.
	Holder func(ctx context.Context, token string) (Reader, error)
	// TaskStreams is how many streams a task's own tokens may hold open on this node;
	// default 1000.
	TaskStreams int
	// ChatHold is how long the beginning of a streamed completion is held back for its
	// first chunk, so that an error in its place gets a status of its own; default 10 s.
	ChatHold time.Duration
	// Git serves what git reads; nil: it is not served.
	Git *git.Config
	// Reserve waits until there is memory for a tenant to load, render and answer with what is stored under the
	// names, of which some may be empty. It ends with ctx. nil: nothing is reserved.
	Reserve func(ctx context.Context, tenant string, blobs ...string) (release func(), err error)
	// Now is the clock; default time.Now.
	Now func() time.Time
	// Allow lets a request see what the node says about itself: /metrics, with
	// the scope metrics:read; nil: everybody may.
	Allow   func(r *http.Request, scope string) error
	Metrics http.Handler // /metrics; nil: 404
	OpenAPI []byte       // /openapi.json; nil: 404
	HTTP    stream.HTTP
	// Index answers for lists of actions and of tasks, and for figures; the caller closes
	// it. nil: none of them is served.
	Index *index.Index
}

func (c Config) validate() error {
	if c.Live == nil {
		return errors.New("egress needs the live feed")
	}
	return c.validateService()
}

func (c Config) validateService() error {
	switch {
	case c.Layout.Partitions < 1:
		return errors.New("egress needs the layout of the log")
	case c.Reader == nil:
		return errors.New("egress needs to know whose records a request may read")
	default:
		return nil
	}
}

func (c Config) withDefaults() Config {
	if c.PolicyVersion == nil {
		c.PolicyVersion = func() string { return "" }
	}
	if c.AllowedHosts == nil {
		c.AllowedHosts = func() []string { return nil }
	}
	if c.PublicURL == nil {
		c.PublicURL = func() string { return "" }
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.TaskStreams <= 0 {
		c.TaskStreams = 1000
	}
	if c.ChatHold <= 0 {
		c.ChatHold = 10 * time.Second
	}
	if c.Reserve == nil {
		c.Reserve = func(context.Context, string, ...string) (func(), error) { return func() {}, nil }
	}
	if c.Allow == nil {
		c.Allow = func(*http.Request, string) error { return nil }
	}
	c.HTTP = c.HTTP.WithDefaults()
	return c
}

// Room serves every route that reads, and answers for ingress. It is safe for
// concurrent use and starts nothing of its own.
type Room struct {
	log     Log
	actions status.Actions
	feed    *stream.Feed
	cfg     Config
	events  *stream.Events
	status  *status.Status
	records *evidence.Records
	service *Service
	places  *places
}

// New returns the room over a log, the ledger that folds it, and a feed that
// the caller closes.
func New(log Log, actions status.Actions, feed *stream.Feed, cfg Config) (*Room, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	return &Room{
		log: log, actions: actions, feed: feed, cfg: cfg,
		events:  stream.NewEvents(feed, cfg.HTTP),
		service: &Service{cfg: cfg, draining: feed.Draining()},
		places:  &places{most: cfg.TaskStreams, of: map[schemas.Ref]int{}},
		status:  status.New(actions, feed, status.Config{Layout: cfg.Layout, Result: publicResult, Reserve: cfg.Reserve, Redactor: cfg.Redactor}),
		records: evidence.New(log, cfg.Live, feed, cfg.HTTP, feed.Draining()),
	}, nil
}

// Mount registers the routes that read. It sets nothing on the engine: how requests are
// recovered, limited and authenticated is the caller's.
func (e *Room) Mount(engine *gin.Engine) { e.mountReads(engine) }

// Service is what the node says about itself.
func (e *Room) Service() *Service { return e.service }
