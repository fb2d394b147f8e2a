// Package egress is the server that every read and every record leaves through: the answers to
// waiting callers, the streams, the lists, the evidence, and a node's reports about itself.
package egress

import (
	"context"
	"net/http"
	"time"

	"weir/egress/evidence"
	"weir/egress/stream"
	"weir/internal/ledger"
	"weir/internal/problem"
	"weir/internal/redact"
	"weir/internal/task"
	"weir/schemas"
)

// Reader is the sender of a request that reads.
type Reader struct {
	// Token is the sender's: whose records it may read, and the entries and models that it may use. Its id
	// is the principal of actions, and empty in open mode and for the holder of a task.
	schemas.Token

	// Task is the id of the task that the reader holds; empty: it holds none.
	Task string
	// Model is the only model that the holder of a task may use; empty: Models say which.
	Model string
}

// Reads reports whether the holder of a task may read an action: one that a holder of the same task has
// sent, with limits that are no wider than its own.
func (r Reader) Reads(a schemas.Action) bool {
	own, of := task.Bounds{Entries: r.Entries, Models: r.Models}, task.Of(a)
	if a.Kind != schemas.KindChat { // the others use no models
		own.Models = nil
	}
	return a.Task == r.Task && a.Task != "" && own.Covers(of)
}

// Config of a Server. What names no default is required.
type Config struct {
	Layout schemas.Layout
	// Live is the source of new evidence.
	Live stream.Live
	// Reader returns the sender of a request, or refuses it with an error that becomes
	// a problem. With no scope every token will do. There is no open default.
	Reader func(r *http.Request, scope string) (Reader, error)
	// Holder returns the holder of a task by a token of the task; nil: no such token is served.
	Holder func(ctx context.Context, token string) (Reader, error)
	// Redactor knows the headers of a payload whose values are hidden; nil: those that are
	// always hidden.
	Redactor *redact.Redactor
	// Reserve waits until a tenant may use memory to load, render and send the objects with these
	// names, of which some may be empty. It ends with ctx.
	Reserve func(ctx context.Context, tenant string, blobs ...string) (release func(), err error)
	// Now is the clock; default time.Now.
	Now func() time.Time
}

// Server is what the surfaces share: it answers for ingress, and reads actions and their events.
// It is safe for concurrent use and starts nothing.
type Server struct {
	log     stream.Log
	actions *ledger.Ledger
	cfg     Config
	views   map[schemas.Kind]View

	feed    *stream.Feed
	records *evidence.Records
}

// NewServer returns the server over a log and the ledger that folds it. Follow completes it.
func NewServer(log stream.Log, actions *ledger.Ledger, cfg Config) *Server {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Server{log: log, actions: actions, cfg: cfg, views: map[schemas.Kind]View{}}
}

// Follow has the server answer by a feed, which the caller closes, and by the views of surfaces. It
// is called once, before the first request.
func (s *Server) Follow(feed *stream.Feed, surfaces []Surface) {
	for _, surface := range surfaces {
		for _, v := range surface.Views {
			s.views[v.Kind] = v
		}
	}
	s.feed = feed
	s.records = evidence.New(s.log, s.cfg.Live, feed)
}

// Now is the server's clock.
func (s *Server) Now() time.Time { return s.cfg.Now() }

// Actions reads actions from the log.
func (s *Server) Actions() *ledger.Ledger { return s.actions }

// Feed follows actions while they run, and serves their events.
func (s *Server) Feed() *stream.Feed { return s.feed }

// AcquireSlot reserves the stream that will answer a request; see stream.Feed.
func (s *Server) AcquireSlot(r *http.Request) (held *http.Request, release func(), err error) {
	return s.feed.AcquireSlot(r)
}

// Partition is the index of an action's partition.
func (s *Server) Partition(ref schemas.Ref) int { return s.cfg.Layout.Partition(ref.Tenant, ref.ID) }

// Durable returns when the records of an action, up to a sequence, may be shown.
func (s *Server) Durable(ctx context.Context, ref schemas.Ref, seq uint64) error {
	return s.feed.Durable(ctx, schemas.LogStream(s.Partition(ref)), seq)
}

// Records are the routes that read actions of every kind, and what is recorded of them.
func (s *Server) Records() Surface {
	record := func(path string, serve func(e *evidence.Records, w http.ResponseWriter, r *http.Request, tenant string), scope string) []Route {
		return s.Read(path, func(r *Request) error {
			serve(s.records, r.Writer, r.Request, r.Reader.Tenant) // Follow sets them
			return nil
		}, scope)
	}
	return Surface{Name: "actions", Routes: Routes(
		s.ReadAction("/v1/actions/:id", s.showStatus),
		s.ReadAction("/v1/actions/:id/payload", s.showPayload),
		s.ReadAction("/v1/actions/:id/events", func(r *Request) error {
			ref := schemas.Ref{Tenant: r.Reader.Tenant, ID: r.Param("id")} // the kind is not in the path
			s.feed.ServeAs(r.Writer, r.Request, stream.Dialect{Ref: ref, Refuse: problem.Write})
			return nil
		}),
		record("/v1/dead-letters", (*evidence.Records).ServeDead, schemas.ScopeActionsRead),
		record("/v1/evidence", (*evidence.Records).Serve, schemas.ScopeEvidenceRead),
	)}
}
