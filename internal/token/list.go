package token

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"weir/internal/fault"
	"weir/schemas"
)

// List returns up to limit tokens of a tenant, oldest first, those that ended
// not long ago too. The cursor is the Next of the page before; empty is the
// beginning. Errors: INVALID_REQUEST for any other cursor; UNAVAILABLE as of Verify.
func (k *Keeper) List(tenant, cursor string, limit int) (schemas.Page[schemas.Token], error) {
	page := schemas.Page[schemas.Token]{Items: []schemas.Token{}}
	var after position
	if cursor != "" {
		var ok bool
		if after, ok = parsePosition(cursor); !ok {
			return page, fault.New(schemas.InvalidRequest, "the parameter cursor must be the next of an earlier page")
		}
	}
	now := time.Now()
	if k.stale(now) {
		return page, errUnknown(errStale)
	}
	k.mu.RLock()
	for _, h := range k.held {
		if h.shown(now) && h.token.Tenant == tenant && (cursor == "" || after.compare(positionOf(h.token)) < 0) {
			t := h.token
			t.LastUsedAt = h.lastUsed()
			page.Items = append(page.Items, t)
		}
	}
	k.mu.RUnlock()
	slices.SortFunc(page.Items, func(a, b schemas.Token) int { return positionOf(a).compare(positionOf(b)) })
	if len(page.Items) > limit {
		page.Items = page.Items[:limit]
		page.Next = positionOf(page.Items[limit-1]).String()
	}
	for i, t := range page.Items {
		page.Items[i].Status = statusAt(t, now)
	}
	return page, nil
}

// Name is the name of a token, by its id; empty: there is no such token.
func (k *Keeper) Name(id string) string {
	if h := k.get(id); h != nil {
		return h.token.Name
	}
	return ""
}

// position is the position of a token in a list. It stays for as long as the token is kept, so a list
// continues after a token that was dropped meanwhile.
type position struct {
	id string
	at int64 // milliseconds
}

func positionOf(t schemas.Token) position { return position{t.ID, t.CreatedAt.UnixMilli()} }

func (p position) compare(q position) int {
	return cmp.Or(cmp.Compare(p.at, q.at), cmp.Compare(p.id, q.id))
}

func (p position) String() string { return p.id + "-" + strconv.FormatInt(p.at, 36) }

// parsePosition reads what String has written, and nothing else.
func parsePosition(text string) (position, bool) {
	if len(text) <= idLength+1 {
		return position{}, false
	}
	at, err := strconv.ParseInt(text[idLength+1:], 36, 64)
	p := position{text[:idLength], at}
	return p, err == nil && ValidID(p.id) && p.String() == text
}
