package tasks

import (
	"net/url"
	"slices"

	"weir/egress/stream"
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
	var out Query
	err := stream.Only(q, "status", "limit", "cursor")
	if err != nil {
		return out, err
	}
	if out.Limit, err = stream.Limit(q, 50); err != nil {
		return out, err
	}
	word, ok, err := stream.One(q, "status")
	if err != nil {
		return out, err
	}
	if out.Status = schemas.TaskStatus(word); ok && !slices.Contains(schemas.TaskStatuses(), out.Status) {
		return out, stream.Invalid("the parameter status can be Queued, Running, Completed, Failed, Canceled or Expired")
	}
	out.Cursor, ok, err = stream.One(q, "cursor")
	if err == nil && ok && out.Cursor == "" {
		err = stream.Invalid("the parameter cursor must be the next of an earlier page")
	}
	return out, err
}

// Ends are how the action of a task of the status that is asked for may have ended, and
// whether only those are meant that say so: without, any. Whether a task is over its action
// need not say yet, so that an open one may have any status.
func (q Query) Ends() (outcomes []schemas.Outcome, chosen bool) {
	for _, o := range schemas.Outcomes() {
		if task.StatusOf(o) == q.Status {
			outcomes = append(outcomes, o)
		}
	}
	return outcomes, q.Status != ""
}

// pageBytes ends a page early: the description of a task may be long.
const pageBytes = 4 << 20

// maxOthers is how many tasks are read for one page that then does not show them. A page
// that ends there is short and has a next.
const maxOthers = 100

// Batch is how many tasks to name at a time for one page.
func (q Query) Batch() int { return max(q.Limit, maxOthers) }

// Page is a page of tasks that is being filled.
type Page struct {
	query  Query
	items  []schemas.TaskView
	size   int
	others int
}

// NewPage is an empty one.
func NewPage(q Query) *Page { return &Page{query: q, items: []schemas.TaskView{}} }

// Add puts a task in if it was asked for. More is false when the page is full, or has cost
// enough.
func (p *Page) Add(v schemas.TaskView) (added, more bool, err error) {
	if p.query.Status != "" && p.query.Status != v.Status {
		return false, p.Pass(), nil
	}
	doc, err := ledger.Encode(v)
	if err != nil {
		return false, false, err
	}
	p.items, p.size = append(p.items, v), p.size+len(doc)
	return true, len(p.items) < p.query.Limit && p.size < pageBytes, nil
}

// Pass counts a task that is not shown. More is false when the page has cost enough.
func (p *Page) Pass() (more bool) {
	p.others++
	return p.others < maxOthers
}

// With is the page with what names the next one, and how closely the list follows the log.
func (p *Page) With(next string, f schemas.Freshness) schemas.TaskPage {
	return schemas.TaskPage{Items: p.items, Next: next, Freshness: f}
}
