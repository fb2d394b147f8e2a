package tasks

import (
	"context"
	"errors"
	"net/url"
	"slices"

	"weir/egress/stream"
	"weir/internal/fault"
	"weir/internal/ledger"
	"weir/internal/task"
	"weir/schemas"
)

// Query is what a list of tasks is asked for.
type Query struct {
	Limit  int
	Cursor string
	Status schemas.TaskStatus // empty: any
}

// ReadQuery reads the parameters of GET /v1/tasks.
func ReadQuery(q url.Values) (Query, error) {
	p := stream.NewParams(q, "status", "limit", "cursor")
	out := Query{Limit: p.Limit(50)}
	word, ok := p.One("status")
	if out.Status = schemas.TaskStatus(word); ok && !slices.Contains(schemas.TaskStatuses(), out.Status) {
		p.Refuse("status", "can be Queued, Running, Completed, Failed, Canceled or Expired")
	}
	out.Cursor = p.Cursor(func(cursor string) bool { return cursor != "" })
	return out, p.Err
}

// pageBytes ends a page early: the description of a task may be long.
const pageBytes = 4 << 20

// maxOthers is how many tasks are read for one page that then does not show them. A page
// that ends there is short and has a next.
const maxOthers = 100

// page lists tasks by the index and shows their state from the log, because tasks that are open in
// the index may have ended since.
func (a Answerer) page(ctx context.Context, tenant string, q Query) (schemas.TaskPage, error) {
	p := schemas.TaskPage{Items: []schemas.TaskView{}, Next: q.Cursor}
	seen := make([]uint64, a.cfg.Partitions) // of each partition, up to where the log was read
	size, others := 0, 0
	// Whether a task is over its action need not say yet, so that an open one may have any status.
	ends := slices.DeleteFunc(schemas.Outcomes(), func(o schemas.Outcome) bool { return task.StatusOf(o) != q.Status })
	for full := false; !full; {
		found, err := a.cfg.Index.Refs(ctx, stream.Selection{
			Tenant: tenant, Kind: schemas.KindTask, Ended: ends, Open: q.Status != "", Limit: max(q.Limit, maxOthers), Cursor: p.Next,
		})
		if err != nil {
			return p, err
		}
		p.Next, p.Freshness = found.Next, found.Freshness
		full = p.Next == "" || len(found.Items) == 0
		for i, n := range found.Items {
			view, seq, err := a.view(ctx, n.Ref)
			dropped := errors.Is(err, fault.ErrNotFound) || errors.Is(err, fault.ErrGone)
			switch {
			case err != nil && !dropped:
				return p, err
			case dropped, q.Status != "" && q.Status != view.Status:
				others++
			default:
				doc, err := ledger.Encode(view)
				if err != nil {
					return p, err
				}
				p.Items, size = append(p.Items, view), size+len(doc)
				seen[a.server.Partition(n.Ref)] = max(seen[a.server.Partition(n.Ref)], seq)
			}
			if len(p.Items) == q.Limit || size >= pageBytes || others >= maxOthers {
				if full = true; i < len(found.Items)-1 {
					p.Next = n.Next
				}
				break
			}
		}
	}
	for partition, seq := range seen { // shown are only records that would survive
		if err := a.server.Feed().Durable(ctx, schemas.LogStream(partition), seq); err != nil {
			return p, err
		}
	}
	return p, nil
}
