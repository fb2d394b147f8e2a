package index

import (
	"context"
	"math"

	"weir/schemas"
)

// Of asks for a tenant's actions of a kind (tenant empty: everybody's) that have ended in one
// of these ways or with POISON, whose record need not say how, or with open have not ended;
// without either, for all. Cursor is the next of an earlier page.
func Of(tenant string, kind schemas.Kind, ended []schemas.Outcome, open bool, limit int, cursor string) (Query, error) {
	q := Query{filter: filter{tenant: tenant, kinds: []string{string(kind)}, status: ended, damaged: len(ended) > 0}, limit: limit, cursor: math.MaxInt64}
	if open {
		q.open, q.anyOpen = openStatuses(), true
	}
	var err error
	if cursor != "" {
		q.cursor, err = parseCursorKey(cursor)
	}
	return q, err
}

// Named is an action of a list, and where the list goes on behind it.
type Named struct {
	schemas.Ref

	Next string
}

// Refs names the actions that a query asks for, the newest first, for lists that show more
// of an action than the index holds. Whether one is still open, or still there, the log
// knows. Next is where the list goes on, and empty at its end.
func (x *Index) Refs(ctx context.Context, q Query) (refs []Named, next string, fresh schemas.Freshness, err error) {
	err = x.with(ctx, func(ctx context.Context, s *store, lag lag) error {
		refs, next, fresh = nil, "", schemas.Freshness{AsOf: lag.asOf, Behind: lag.behind}
		n, err := s.number(ctx, q.filter)
		if err != nil || n.none {
			return err
		}
		sel := n.selection(q.cursor, x.cfg.Looks)
		found, err := s.read(ctx, sel, q.limit+1)
		if err != nil {
			return err
		}
		more := len(found) > q.limit
		for _, f := range found[:min(len(found), q.limit)] {
			refs = append(refs, Named{schemas.Ref{Tenant: f.tenant, Kind: schemas.Kind(f.kind), ID: f.id}, cursorKey(f.at)})
		}
		if more {
			next = refs[len(refs)-1].Next
		} else {
			next, err = s.horizon(ctx, sel, x.cfg.Looks)
		}
		return err
	})
	return refs, next, fresh, err
}
