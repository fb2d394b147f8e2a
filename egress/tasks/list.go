package tasks

import (
	"net/url"
	"slices"

	"weir/egress/stream"
	"weir/internal/ledger"
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
	var err error
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

// pageBytes ends a page early: the description of a task may be long.
const pageBytes = 4 << 20

// Page is a page of tasks that is being filled.
type Page struct {
	query Query
	items []schemas.TaskView
	size  int
}

// NewPage is an empty one.
func NewPage(q Query) *Page { return &Page{query: q, items: []schemas.TaskView{}} }

// Add puts a task in if it was asked for. More is false when the page is full.
func (p *Page) Add(v schemas.TaskView) (added, more bool, err error) {
	if p.query.Status != "" && p.query.Status != v.Status {
		return false, true, nil
	}
	doc, err := ledger.Encode(v)
	if err != nil {
		return false, false, err
	}
	p.items, p.size = append(p.items, v), p.size+len(doc)
	return true, len(p.items) < p.query.Limit && p.size < pageBytes, nil
}

// With is the page with what names the next one.
func (p *Page) With(next string) schemas.Page[schemas.TaskView] {
	return schemas.Page[schemas.TaskView]{Items: p.items, Next: next}
}
