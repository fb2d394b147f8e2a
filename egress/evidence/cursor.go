package evidence

import (
	"context"
	"encoding/json"
	"strconv"

	"weir/schemas"
)

// cursor reads a stream under a filter, page after page.
type cursor struct {
	e      *Records
	stream string
	filter string
	after  uint64
}

func newCursor(e *Records, stream, filter string, after uint64) *cursor {
	return &cursor{e: e, stream: stream, filter: filter, after: after}
}

// next reads up to limit records and waits until they may be shown.
func (c *cursor) next(ctx context.Context, limit int) ([]schemas.Record, error) {
	records, err := c.e.log.Range(ctx, c.stream, c.filter, c.after+1, limit)
	if err != nil || len(records) == 0 {
		return nil, err
	}
	last := records[len(records)-1].Seq
	if err := c.e.durable.Durable(ctx, c.stream, last); err != nil {
		return nil, err
	}
	c.after = last
	return records, nil
}

// page fills a page. next stands where there is more.
func (c *cursor) page(ctx context.Context, limit int, show func(schemas.Record) (json.RawMessage, error)) (schemas.Page[json.RawMessage], error) {
	page := schemas.Page[json.RawMessage]{Items: []json.RawMessage{}}
	size := 0
	for {
		want := min(limit-len(page.Items)+1, chunk) // one more tells whether there is a next
		records, err := c.next(ctx, want)
		if err != nil {
			return page, err
		}
		for _, rec := range records {
			if len(page.Items) == limit || size >= pageBytes {
				page.Next = strconv.FormatUint(rec.Seq-1, 10)
				return page, nil
			}
			item, err := show(rec)
			if err != nil || !json.Valid(item) {
				continue // not one of ours
			}
			page.Items = append(page.Items, item)
			size += len(item)
		}
		if len(records) < want {
			return page, nil
		}
	}
}
