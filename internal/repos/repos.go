// Package repos is the table of repositories: which there are, whose they are, and
// where they live. It holds no objects.
package repos

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"weir/internal/fault"
	"weir/schemas"
)

// Store holds one value a key, see broker.Bucket: Subject of its records is the key.
type Store interface {
	Put(ctx context.Context, key string, value []byte, last uint64) (uint64, error)
	Get(ctx context.Context, key string) (schemas.Record, error)
	Read(ctx context.Context, after uint64, limit int) ([]schemas.Record, error)
	Barrier(ctx context.Context) error
}

// Table is the table. It is safe for concurrent use and holds nothing: every read asks the store.
type Table struct{ store Store }

// New returns the table in a store.
func New(s Store) *Table { return &Table{store: s} }

// ErrTaken says that the tenant has a repository of that name, made by another action.
var ErrTaken = errors.New("the name is taken")

// ErrUnreadable is an entry that another version wrote, or none. Nobody writes over it.
var ErrUnreadable = errors.New("the entry of a repository cannot be read")

var errIncomplete = errors.New("a repository needs a name, a tenant, an id and the action that made it")

// Get is a tenant's repository, or fault.ErrNotFound, also for a name that none may have.
func (t *Table) Get(ctx context.Context, tenant, name string) (schemas.Repo, error) {
	if !schemas.ValidRepoName(name) {
		return schemas.Repo{}, fault.ErrNotFound
	}
	r, _, err := t.find(ctx, tenant, name)
	return r, err
}

// find also returns the revision of a key whose value is gone, beside fault.ErrNotFound.
func (t *Table) find(ctx context.Context, tenant, name string) (schemas.Repo, uint64, error) {
	rec, err := t.store.Get(ctx, keyOf(tenant, name))
	if err != nil {
		return schemas.Repo{}, 0, err
	}
	if len(rec.Data) == 0 { // deleted with other tools
		return schemas.Repo{}, rec.Seq, fault.ErrNotFound
	}
	r, err := decode(rec)
	return r, rec.Seq, err
}

// maxTries is how often Add looks what stands there.
const maxTries = 8

// Add puts a repository in and waits until it would survive. A repeat by the same action (Repo.By) returns
// what stands there; another's is ErrTaken. fault.ErrUnavailable: whether it was put in is unknown, and Add
// by the same action tells.
func (t *Table) Add(ctx context.Context, r schemas.Repo) (schemas.Repo, error) {
	r.URL = ""
	if !schemas.ValidRepoName(r.Name) || r.Tenant == "" || r.ID == "" || r.By == "" {
		return schemas.Repo{}, errIncomplete
	}
	value, err := encode(r)
	if err != nil {
		return schemas.Repo{}, err
	}
	for range maxTries {
		there, last, err := t.find(ctx, r.Tenant, r.Name)
		switch {
		case err == nil && there.By != r.By:
			return schemas.Repo{}, ErrTaken
		case err == nil:
			return there, t.store.Barrier(ctx)
		case !errors.Is(err, fault.ErrNotFound):
			return schemas.Repo{}, err
		}
		_, err = t.store.Put(ctx, keyOf(r.Tenant, r.Name), value, last)
		if err == nil {
			return r, t.store.Barrier(ctx)
		}
		// Fenced: somebody else put something there. Unavailable: nobody knows.
		if !errors.Is(err, fault.ErrFenced) && !errors.Is(err, fault.ErrUnavailable) || ctx.Err() != nil {
			return schemas.Repo{}, err
		}
	}
	return schemas.Repo{}, fault.ErrUnavailable
}

// page is how many entries are read at once.
const page = 1000

// List is a tenant's repositories by name. It reads the entries of every tenant, and
// passes over those that cannot be read.
func (t *Table) List(ctx context.Context, tenant string) ([]schemas.Repo, error) {
	newest := map[string]schemas.Repo{}
	begin := schemas.EscapeToken(tenant) + "."
	for after := uint64(0); ; {
		records, err := t.store.Read(ctx, after, page)
		if err != nil {
			return nil, err
		}
		for _, rec := range records {
			after = rec.Seq
			if !strings.HasPrefix(rec.Subject, begin) {
				continue
			}
			if r, err := decode(rec); err == nil {
				newest[rec.Subject] = r
			} else {
				delete(newest, rec.Subject)
			}
		}
		if len(records) < page {
			break
		}
	}
	list := make([]schemas.Repo, 0, len(newest))
	for _, r := range newest {
		list = append(list, r)
	}
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

func encode(r schemas.Repo) ([]byte, error) { return json.Marshal(entry{V: version, Repo: r}) }

// decode reads an entry, which must be the one that its key names.
func decode(rec schemas.Record) (schemas.Repo, error) {
	var e entry
	if err := json.Unmarshal(rec.Data, &e); err != nil || e.V != version || e.ID == "" || keyOf(e.Tenant, e.Name) != rec.Subject {
		return schemas.Repo{}, ErrUnreadable
	}
	return e.Repo, nil
}
