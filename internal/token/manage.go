package token

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"weir/internal/fault"
	"weir/internal/models"
	"weir/schemas"
)

const (
	maxNames    = 64 // of entries, pools or models
	maxLifetime = 10 * 365 * 24 * time.Hour
)

// Create makes a token for an admin and returns it with its secret, which is
// kept nowhere. Errors: VALIDATION_ERROR; FORBIDDEN for what the admin may not
// give away; CONFLICT where the tenant has as many as it may; LOG_FULL: nothing was stored; UNAVAILABLE: whether it was is
// unknown, and the secret of it is lost either way.
func (k *Keeper) Create(ctx context.Context, admin schemas.Token, req schemas.TokenRequest) (schemas.NewToken, error) {
	t, err := k.design(admin, req)
	if err != nil {
		return schemas.NewToken{}, err
	}
	now := time.Now()
	if k.count(func(h *held) bool { return h.token.Tenant == t.Tenant && h.valid(false, now) }) >= k.cfg.active {
		return schemas.NewToken{}, fault.New(schemas.Conflict, "the tenant "+t.Tenant+" has "+strconv.Itoa(k.cfg.active)+
			" tokens in force, which is the limit; revoke unused ones, and give new ones an expires_in")
	}
	id, s, text := mint(prefix)
	t.ID = id
	if err := k.put(ctx, &held{token: t, hash: s.hash()}, 0); err != nil {
		return schemas.NewToken{}, unstored(err, "whether the token was stored is unknown; list the tokens, and revoke what you do not know")
	}
	t.Status = active
	return schemas.NewToken{Token: t, Secret: text}, nil
}

// design reads what is asked for and holds it against what the admin may give.
func (k *Keeper) design(admin schemas.Token, req schemas.TokenRequest) (schemas.Token, error) {
	now := time.Now().UTC().Truncate(time.Millisecond)
	t := schemas.Token{
		Name: req.Name, Tenant: cmp.Or(req.Tenant, admin.Tenant), Scopes: req.Scopes, Entries: either(req.Entries, admin.Entries),
		Pools: req.Pools, Models: either(req.Models, admin.Models), Rate: req.Rate, CreatedAt: now, CreatedBy: admin.ID,
	}
	if schemas.Grants(t.Scopes, schemas.ScopeTasksWork) {
		t.Pools = either(t.Pools, admin.Pools)
	}
	if err := check(t); err != nil {
		return t, err
	}
	if req.ExpiresIn != "" {
		d, err := time.ParseDuration(req.ExpiresIn)
		if err != nil || d < time.Second || d > maxLifetime {
			return t, wrong("expires_in", `must be a duration from 1s to 87600h, such as "24h"`)
		}
		t.ExpiresAt = now.Add(d)
	}
	if end := admin.ExpiresAt; !end.IsZero() {
		switch {
		case t.ExpiresAt.IsZero():
			t.ExpiresAt = end
		case t.ExpiresAt.After(end):
			return t, fault.New(schemas.Forbidden, "a token may not outlive the one that makes it, which is in force until "+end.Format(time.RFC3339))
		}
	}
	if t.Tenant != admin.Tenant {
		if err := fault.Operator(admin.Tenant, "make tokens for another tenant"); err != nil {
			return t, err
		}
	}
	for _, l := range []struct {
		of           string
		names, limit []string
		may          func(limit []string, name string) bool
	}{{"entries", t.Entries, admin.Entries, among}, {"pools", t.Pools, admin.Pools, among}, {"models", t.Models, admin.Models, models.May}} {
		if slices.ContainsFunc(l.names, func(name string) bool { return !l.may(l.limit, name) }) {
			return t, fault.New(schemas.Forbidden, "a token that is limited to "+l.of+" may give away only those")
		}
	}
	return t, nil
}

// either returns the names, or the limit's if there are none.
func either(names, limit []string) []string {
	if len(names) == 0 {
		return slices.Clone(limit)
	}
	return names
}

// among reports whether a limit contains a name; an empty limit contains all.
func among(limit []string, name string) bool { return len(limit) == 0 || slices.Contains(limit, name) }

func check(t schemas.Token) error {
	const id = "must be 1 to 128 of the characters A-Z a-z 0-9 . _ : -"
	scopes := "one of " + strings.Join(schemas.Scopes(), ", ")
	switch {
	case !schemas.ValidID(t.Name):
		return wrong("name", id)
	case !schemas.ValidID(t.Tenant):
		return wrong("tenant", id)
	case len(t.Scopes) == 0:
		return wrong("scopes", "must name at least "+scopes)
	}
	for _, list := range []struct {
		at    string
		names []string
		what  string
		valid func(string) bool
	}{
		{"scopes", t.Scopes, scopes, func(s string) bool { return slices.Contains(schemas.Scopes(), s) }},
		{"entries", t.Entries, "the name of an entry", schemas.ValidID},
		{"pools", t.Pools, "the name of a pool", schemas.ValidID},
		// It takes what no model is called now too: one may be called that later.
		{"models", t.Models, "the name of a model, or a pattern such as openai/* or *", models.ValidPattern},
	} {
		if len(list.names) > maxNames {
			return wrong(list.at, "must be at most "+strconv.Itoa(maxNames))
		}
		for i, name := range list.names {
			if !list.valid(name) || slices.Contains(list.names[:i], name) {
				return wrong(list.at+"/"+strconv.Itoa(i), "must be "+list.what+", each once")
			}
		}
	}
	if len(t.Pools) > 0 && !schemas.Grants(t.Scopes, schemas.ScopeTasksWork) {
		return wrong("pools", "is for tokens that lease tasks; add the scope "+schemas.ScopeTasksWork+", or leave it out")
	}
	if i := slices.Index(t.Pools, schemas.PoolNone); i >= 0 {
		return wrong("pools/"+strconv.Itoa(i), "must not be "+schemas.PoolNone+": tasks of that pool are not leased")
	}
	if _, _, ok := schemas.ParseRate(t.Rate); t.Rate != "" && !ok {
		return wrong("rate", `must be a count a second, minute or hour, such as "10/s"`)
	}
	return nil
}

func wrong(at, what string) error {
	return fault.New(schemas.ValidationError, "at /"+at+": "+what)
}

// maxTries is how often a revocation that others came before is tried again.
const maxTries = 8

// Revoke ends a token permanently. It holds on this node when Revoke returns, and on others as soon
// as they receive it. Revoking it again changes nothing. Errors: NOT_FOUND, also for tokens that
// the admin may not see; UNAVAILABLE: whether it was stored is unknown, so revoke it again.
func (k *Keeper) Revoke(ctx context.Context, admin schemas.Token, id string) (schemas.Token, error) {
	for range maxTries {
		h := k.get(id)
		if h == nil || !h.shown(time.Now()) || (h.token.Tenant != admin.Tenant && admin.Tenant != schemas.Operator) {
			return schemas.Token{}, fault.New(schemas.NotFound, "there is no token with this id")
		}
		t := h.token
		var err error
		if t.RevokedAt.IsZero() {
			t, err = k.end(ctx, h)
		} else {
			err = k.barrier(ctx) // a record of another writer may not be durable yet
		}
		if errors.Is(err, fault.ErrFenced) { // another writer was first: read its record
			if err = k.follower.CatchUp(ctx); err == nil {
				continue
			}
		}
		if err != nil {
			return schemas.Token{}, unstored(err, "whether the token is revoked is unknown; revoke it again, it counts once")
		}
		t.Status = revoked
		return t, nil
	}
	return schemas.Token{}, fault.New(schemas.Unavailable, "the token is changing too fast; try again")
}

// end stores that a token, or a session, is revoked.
func (k *Keeper) end(ctx context.Context, h *held) (schemas.Token, error) {
	t := h.token
	if !h.session {
		t.LastUsedAt = h.lastUsed() // a token that has ended is not stored again
	}
	t.RevokedAt = time.Now().UTC().Truncate(time.Millisecond)
	return t, k.put(ctx, &held{token: t, hash: h.hash, session: h.session}, h.revision)
}

// put stores a token, the caller gone or not, takes it over at once, and waits
// until it would survive.
func (k *Keeper) put(ctx context.Context, h *held, last uint64) error {
	data, err := encode(h)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	if h.revision, err = k.store.Put(ctx, h.token.ID, data, last); err != nil {
		return err
	}
	k.keep(h.token.ID, h)
	return k.store.Barrier(ctx)
}

func (k *Keeper) barrier(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	return k.store.Barrier(ctx)
}

func unstored(err error, unknown string) error {
	if errors.Is(err, fault.ErrFull) {
		return &fault.Error{Code: schemas.LogFull, Cause: err, Message: "the log is full, nothing was stored; try again later"}
	}
	return &fault.Error{Code: schemas.Unavailable, Cause: err, Message: unknown}
}
