// Package repos is the table of repositories: which there are, whose they are, and
// where they live. It holds no objects.
package repos

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"weir/internal/fault"
	"weir/internal/limits"
	"weir/internal/mirror"
	"weir/schemas"
)

// Store holds one value a key, see broker.Bucket: Subject of its records is the key.
type Store interface {
	limits.Bucket
	mirror.Reader
	Barrier(ctx context.Context) error
}

// Table is the table. It is safe for concurrent use and keeps no copies: every call reads the store.
type Table struct {
	store   Store
	entries limits.Accounts[entry]
}

// storeWithin bounds the reads and writes of one Add.
const storeWithin = 10 * time.Second

// New returns the table in a store.
func New(s Store) *Table {
	return &Table{store: s, entries: limits.Accounts[entry]{
		Bucket: s, Readable: readable, Unreadable: ErrUnreadable, Clone: func(e entry) entry { return e }, Within: storeWithin,
	}}
}

// ErrTaken says that the tenant has a repository of that name, made by another action.
var ErrTaken = errors.New("the name is taken")

// ErrUnreadable is an entry that another version or another program wrote. It is never overwritten.
var ErrUnreadable = errors.New("the entry of a repository cannot be read")

// Get is a tenant's repository, or fault.ErrNotFound, also for a name that none may have.
func (t *Table) Get(ctx context.Context, tenant, name string) (schemas.Repo, error) {
	if !schemas.ValidRepoName(name) {
		return schemas.Repo{}, fault.ErrNotFound
	}
	e, _, err := t.entries.Open(keyOf(tenant, name), entry{}, nil).Seen(ctx, time.Time{})
	if err == nil && e.V == 0 {
		err = fault.ErrNotFound
	}
	return e.Repo, err
}

// Add puts a repository in, which has a valid name, a tenant, an id and the action that made it, and waits
// until it would survive. A repeat by the same action (Repo.By) returns the stored one; another action gets
// ErrTaken. After fault.ErrUnavailable the repository may be stored; a repeat by the same action shows it.
func (t *Table) Add(ctx context.Context, r schemas.Repo) (schemas.Repo, error) {
	r.URL = ""
	var stored schemas.Repo
	err := t.entries.Open(keyOf(r.Tenant, r.Name), entry{}, nil).Change(ctx, func(e *entry, _ time.Time) bool {
		free := e.V == 0
		if free {
			*e = entry{V: version, Repo: r}
		}
		stored = e.Repo
		return free
	})
	switch {
	case err != nil:
		return schemas.Repo{}, err
	case stored.By != r.By:
		return schemas.Repo{}, ErrTaken
	}
	return stored, t.store.Barrier(ctx)
}

// List is a tenant's repositories by name. It reads the entries of every tenant, and
// skips those that cannot be read.
func (t *Table) List(ctx context.Context, tenant string) ([]schemas.Repo, error) {
	newest := map[string]schemas.Repo{}
	begin := schemas.EscapeToken(tenant) + "."
	_, err := t.store.Read(ctx, 0, func(r schemas.Record) {
		delete(newest, r.Subject) // it was written again while it was read
		if e, ok := t.entries.Decode(r); ok && strings.HasPrefix(r.Subject, begin) {
			newest[r.Subject] = e.Repo
		}
	})
	if err != nil {
		return nil, err
	}
	list := slices.AppendSeq(make([]schemas.Repo, 0, len(newest)), maps.Values(newest))
	slices.SortFunc(list, func(a, b schemas.Repo) int { return cmp.Compare(a.Name, b.Name) })
	return list, nil
}

// version of the entries that are written.
const version = 1

// entry is a repository as it is stored.
type entry struct {
	V int `json:"v"`
	schemas.Repo
}

// keyOf names a tenant's repository in the store.
func keyOf(tenant, name string) string {
	return schemas.EscapeToken(tenant) + "." + schemas.EscapeToken(name)
}

// readable reports whether an entry is of this version, and the one that its key names.
func readable(key string, e entry) bool {
	return e.V == version && e.ID != "" && keyOf(e.Tenant, e.Name) == key
}
