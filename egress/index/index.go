// Package index lists actions, newest first, straight from the log: there is
// no second store to build, to lag or to repair.
package index

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"time"

	"weir/egress/status"
	"weir/egress/stream"
	"weir/internal/fault"
	"weir/internal/ledger"
	"weir/internal/problem"
	"weir/schemas"
)

// Log is what a list reads.
type Log interface {
	Last(ctx context.Context, stream, filter string) (schemas.Record, error)
	Range(ctx context.Context, stream, filter string, from uint64, limit int) ([]schemas.Record, error)
	Bounds(ctx context.Context, stream string) (first, last uint64, err error)
}

// Config shapes the list. Zero fields but Layout take the default.
type Config struct {
	Layout schemas.Layout // required
	// Reads and Looks bound the work of one page: reads of the log, and
	// actions looked at. A page that ends there is short and has a next.
	// Default 32 and 2000.
	Reads int
	Looks int
}

// Index serves the list of actions.
type Index struct {
	log     Log
	actions status.Actions
	durable status.Durable
	cfg     Config
}

// New serves from log, and shows nothing before durable says so.
func New(log Log, actions status.Actions, durable status.Durable, cfg Config) *Index {
	if cfg.Reads <= 0 {
		cfg.Reads = 32
	}
	if cfg.Looks <= 0 {
		cfg.Looks = 2000
	}
	return &Index{log: log, actions: actions, durable: durable, cfg: cfg}
}

// query is a list request, read and checked.
type query struct {
	limit  int
	kind   schemas.Kind
	status schemas.Status
	cursor []uint64
}

func (x *Index) parse(q url.Values) (query, error) {
	out := query{}
	var err error
	if out.limit, err = stream.Limit(q, 50); err != nil {
		return out, err
	}
	kind, ok, err := stream.One(q, "kind")
	if err != nil {
		return out, err
	}
	if out.kind = schemas.Kind(kind); ok && !slices.Contains(schemas.Kinds(), out.kind) {
		return out, stream.Invalid("the parameter kind is not a kind of action")
	}
	word, ok, err := stream.One(q, "status")
	if err != nil {
		return out, err
	}
	if out.status = schemas.Status(word); ok && !slices.Contains(schemas.Statuses(), out.status) {
		return out, stream.Invalid("the parameter status is not a status of an action")
	}
	cursor, ok, err := stream.One(q, "cursor")
	if ok && err == nil {
		out.cursor, err = parseCursor(cursor, x.cfg.Layout.Partitions)
	}
	return out, err
}

// Serve answers GET /v1/actions for a tenant.
func (x *Index) Serve(w http.ResponseWriter, r *http.Request, tenant string) {
	q, err := x.parse(r.URL.Query())
	if err != nil {
		problem.Write(w, r, err)
		return
	}
	page, err := x.page(r.Context(), tenant, q)
	if err != nil {
		problem.Write(w, r, err)
		return
	}
	stream.WriteJSON(w, r, http.StatusOK, page)
}

// page is the page of actions that a query asks for.
func (x *Index) page(ctx context.Context, tenant string, q query) (schemas.Page[schemas.ActionEntry], error) {
	page := schemas.Page[schemas.ActionEntry]{Items: []schemas.ActionEntry{}}
	var err error
	page.Next, err = x.walk(ctx, tenant, q.kind, q.cursor, func(ctx context.Context, rec schemas.Record) (seq uint64, more bool, err error) {
		entry, seq, err := x.entry(ctx, rec)
		if err != nil || q.status != "" && q.status != entry.Status {
			return 0, true, err
		}
		page.Items = append(page.Items, entry)
		return seq, len(page.Items) < q.limit, nil
	})
	return page, err
}

// Walk gives the accepted events of a tenant's actions of a kind, the newest first,
// from behind a cursor on, until take wants no more or as much was looked at as one
// page may cost. Take says up to which sequence it has read what it shows, which is
// waited for, or 0; its fault.ErrNotFound and fault.ErrGone pass the action over. Next
// is where to go on, and empty at the end.
func (x *Index) Walk(ctx context.Context, tenant string, kind schemas.Kind, cursor string, take func(ctx context.Context, rec schemas.Record) (seq uint64, more bool, err error)) (next string, err error) {
	var from []uint64
	if cursor != "" {
		if from, err = parseCursor(cursor, x.cfg.Layout.Partitions); err != nil {
			return "", err
		}
	}
	return x.walk(ctx, tenant, kind, from, take)
}

// walk merges the partitions by the time at which their actions were accepted.
// It stops where a partition has not been read far enough to know which action
// is next: what it gives is in order, if short.
func (x *Index) walk(ctx context.Context, tenant string, kind schemas.Kind, from []uint64, take func(context.Context, schemas.Record) (uint64, bool, error)) (string, error) {
	scans, err := x.scans(ctx, tenant, kind, from)
	if err != nil {
		return "", err
	}
	seen := make([]uint64, len(scans))
	reads, more := x.cfg.Reads, true
	for looks := x.cfg.Looks; more && looks > 0; looks-- {
		best, err := newest(ctx, x.log, scans, &reads)
		if err != nil {
			return "", err
		}
		if best < 0 {
			break
		}
		var seq uint64
		seq, more, err = take(ctx, scans[best].pop())
		if errors.Is(err, fault.ErrNotFound) || errors.Is(err, fault.ErrGone) {
			more = true // dropped while the page was read
			continue
		}
		if err != nil {
			return "", err
		}
		seen[best] = max(seen[best], seq)
	}
	for p, seq := range seen {
		if err := x.durable.Durable(ctx, scans[p].stream, seq); err != nil {
			return "", err
		}
	}
	return cursorOf(scans), nil
}

func (x *Index) scans(ctx context.Context, tenant string, kind schemas.Kind, from []uint64) ([]*scan, error) {
	scans := make([]*scan, x.cfg.Layout.Partitions)
	for p := range scans {
		s := &scan{stream: schemas.LogStream(p), filter: x.cfg.Layout.TenantAccepted(p, tenant, kind)}
		first, last, err := x.log.Bounds(ctx, s.stream)
		if err != nil {
			return nil, err
		}
		s.first, s.before = first, last+1
		if from != nil {
			s.before = min(s.before, from[p])
		}
		scans[p] = s
	}
	return scans, nil
}

// entry reads what the list shows of an action whose accepted event is rec.
func (x *Index) entry(ctx context.Context, rec schemas.Record) (schemas.ActionEntry, uint64, error) {
	ref, _, err := schemas.ParseSubject(rec.Subject)
	if err != nil {
		return schemas.ActionEntry{}, 0, err
	}
	e := schemas.ActionEntry{
		ID: ref.ID, Kind: ref.Kind, Created: rec.Time,
		URL: stream.ActionURL(ref.ID), EventsURL: stream.EventsURL(ref.ID),
	}
	var ev struct {
		Action struct {
			TaskType   string        `json:"task_type"`
			Class      schemas.Class `json:"class"`
			AcceptedAt time.Time     `json:"accepted_at"`
			Deadline   time.Time     `json:"deadline"`
		} `json:"action"`
	}
	if err := json.Unmarshal(rec.Data, &ev); err == nil && !ev.Action.AcceptedAt.IsZero() {
		e.TaskType, e.Class, e.Created, e.Deadline = ev.Action.TaskType, ev.Action.Class, ev.Action.AcceptedAt, ev.Action.Deadline
	}
	b, err := status.Word(ctx, x.log, x.actions, x.cfg.Layout, ref)
	e.Status, e.Code = b.Status, b.Code
	return e, b.Seq, err
}

var _ status.Actions = (*ledger.Ledger)(nil)
