package token

import (
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
	maxEntries  = 64
	maxPools    = 64
	maxModels   = 64
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
	if k.active(t.Tenant) >= k.cfg.Active {
		return schemas.NewToken{}, fault.New(schemas.Conflict, "the tenant "+t.Tenant+" has "+strconv.Itoa(k.cfg.Active)+
			" tokens in force, which is the limit; revoke unused ones, and give new ones an expires_in")
	}
	id, s, text := mint()
	t.ID = id
	if err := k.put(ctx, &held{token: t, hash: s.hash()}, 0); err != nil {
		return schemas.NewToken{}, unstored(err, "whether the token was stored is unknown; list the tokens, and revoke what you do not know")
	}
	t.Status = active
	return schemas.NewToken{Token: t, Secret: text}, nil
}

// design reads what is asked for and holds it against what the admin may give.
func (k *Keeper) design(admin schemas.Token, req schemas.TokenRequest) (schemas.Token, error) {
	now := k.cfg.Now().UTC().Truncate(time.Millisecond)
	t := schemas.Token{
		Name: req.Name, Tenant: req.Tenant, Scopes: req.Scopes, Entries: req.Entries, Pools: req.Pools, Models: req.Models, Rate: req.Rate,
		CreatedAt: now, CreatedBy: admin.ID,
	}
	if t.Tenant == "" {
		t.Tenant = admin.Tenant
	}
	if len(t.Entries) == 0 {
		t.Entries = slices.Clone(admin.Entries)
	}
	if len(t.Pools) == 0 && schemas.Grants(t.Scopes, schemas.ScopeTasksWork) {
		t.Pools = slices.Clone(admin.Pools)
	}
	if len(t.Models) == 0 {
		t.Models = slices.Clone(admin.Models)
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
	if !within(t.Entries, admin.Entries) {
		return t, fault.New(schemas.Forbidden, "a token that is limited to entries may give away only those")
	}
	if !within(t.Pools, admin.Pools) {
		return t, fault.New(schemas.Forbidden, "a token that is limited to pools may give away only those")
	}
	if slices.ContainsFunc(t.Models, func(m string) bool { return !models.May(admin.Models, m) }) {
		return t, fault.New(schemas.Forbidden, "a token that is limited to models may give away only those")
	}
	return t, nil
}

// within reports whether a limit contains all names; an empty limit contains none.
func within(names, limit []string) bool {
	for _, name := range names {
		if len(limit) > 0 && !slices.Contains(limit, name) {
			return false
		}
	}
	return true
}

func check(t schemas.Token) error {
	if !schemas.ValidID(t.Name) {
		return wrong("name", "must be 1 to 128 of the characters A-Z a-z 0-9 . _ : -")
	}
	if !schemas.ValidID(t.Tenant) {
		return wrong("tenant", "must be 1 to 128 of the characters A-Z a-z 0-9 . _ : -")
	}
	if len(t.Scopes) == 0 {
		return wrong("scopes", "must name at least one of "+strings.Join(schemas.Scopes(), ", "))
	}
	for i, s := range t.Scopes {
		if !slices.Contains(schemas.Scopes(), s) || slices.Contains(t.Scopes[:i], s) {
			return wrong("scopes/"+strconv.Itoa(i), "must be one of "+strings.Join(schemas.Scopes(), ", ")+", each once")
		}
	}
	if len(t.Entries) > maxEntries {
		return wrong("entries", "must be at most "+strconv.Itoa(maxEntries))
	}
	for i, e := range t.Entries {
		if !schemas.ValidID(e) || slices.Contains(t.Entries[:i], e) {
			return wrong("entries/"+strconv.Itoa(i), "must be the name of an entry, each once")
		}
	}
	if err := checkPools(t); err != nil {
		return err
	}
	if err := checkModels(t); err != nil {
		return err
	}
	if _, _, ok := schemas.ParseRate(t.Rate); t.Rate != "" && !ok {
		return wrong("rate", `must be a count a second, minute or hour, such as "10/s"`)
	}
	return nil
}

func checkPools(t schemas.Token) error {
	switch {
	case len(t.Pools) > maxPools:
		return wrong("pools", "must be at most "+strconv.Itoa(maxPools))
	case len(t.Pools) > 0 && !schemas.Grants(t.Scopes, schemas.ScopeTasksWork):
		return wrong("pools", "is for tokens that lease tasks; add the scope "+schemas.ScopeTasksWork+", or leave it out")
	}
	for i, p := range t.Pools {
		at := "pools/" + strconv.Itoa(i)
		if !schemas.ValidID(p) || slices.Contains(t.Pools[:i], p) {
			return wrong(at, "must be the name of a pool, each once")
		}
		if p == schemas.PoolNone {
			return wrong(at, "must not be "+schemas.PoolNone+": tasks of that pool are not leased")
		}
	}
	return nil
}

// checkModels takes what no model is called now too: it may be one day.
func checkModels(t schemas.Token) error {
	if len(t.Models) > maxModels {
		return wrong("models", "must be at most "+strconv.Itoa(maxModels))
	}
	for i, m := range t.Models {
		if !models.ValidPattern(m) || slices.Contains(t.Models[:i], m) {
			return wrong("models/"+strconv.Itoa(i), "must be the name of a model, or a pattern such as openai/* or *, each once")
		}
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
		k.mu.RLock()
		h := k.held[id]
		k.mu.RUnlock()
		if h == nil || !h.shown(k.cfg.Now()) || (h.token.Tenant != admin.Tenant && admin.Tenant != schemas.Operator) {
			return schemas.Token{}, fault.New(schemas.NotFound, "there is no token with this id")
		}
		t := h.token
		var err error
		if t.RevokedAt.IsZero() {
			t.RevokedAt = k.cfg.Now().UTC().Truncate(time.Millisecond)
			err = k.put(ctx, &held{token: t, hash: h.hash}, h.revision)
		} else {
			err = k.barrier(ctx) // a record of another writer may not be durable yet
		}
		if errors.Is(err, fault.ErrFenced) { // another writer was first: read its record
			if err = k.catchUp(ctx); err == nil {
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

// put stores a token, the caller gone or not, takes it over at once, and waits
// until it would survive.
func (k *Keeper) put(ctx context.Context, h *held, last uint64) error {
	data, err := encode(h)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), k.cfg.StoreTimeout)
	defer cancel()
	if h.revision, err = k.store.Put(ctx, h.token.ID, data, last); err != nil {
		return err
	}
	k.keep(h.token.ID, h)
	return k.store.Barrier(ctx)
}

func (k *Keeper) barrier(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), k.cfg.StoreTimeout)
	defer cancel()
	return k.store.Barrier(ctx)
}

func unstored(err error, unknown string) error {
	if errors.Is(err, fault.ErrFull) {
		return &fault.Error{Code: schemas.LogFull, Cause: err, Message: "the log is full, nothing was stored; try again later"}
	}
	return &fault.Error{Code: schemas.Unavailable, Cause: err, Message: unknown}
}
