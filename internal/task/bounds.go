package task

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"weir/internal/fault"
	"weir/internal/models"
	"weir/schemas"
)

// Bounds are the only entries of the policy that a caller may use, and patterns of the only models. An
// empty list means all.
type Bounds struct{ Entries, Models []string }

// Of are the bounds of an action.
func Of(a schemas.Action) Bounds { return Bounds{a.Entries, a.Models} }

// Covers reports whether a caller with these bounds may use all that others permit.
func (b Bounds) Covers(of Bounds) bool {
	return covers(b.Entries, of.Entries, slices.Contains[[]string]) && covers(b.Models, of.Models, models.May)
}

func covers(all, of []string, may func(all []string, name string) bool) bool {
	return len(all) == 0 || len(of) > 0 && !slices.ContainsFunc(of, func(name string) bool { return !may(all, name) })
}

// Narrow returns bounds that permit only what is asked for; an empty list of it asks for all that b
// permits. FORBIDDEN if b does not permit a name.
func (b Bounds) Narrow(to Bounds) (Bounds, error) {
	entries, err := narrow("entries", b.Entries, to.Entries, slices.Contains[[]string])
	if err != nil {
		return Bounds{}, err
	}
	patterns, err := narrow("models", b.Models, to.Models, models.May)
	return Bounds{entries, patterns}, err
}

func narrow(member string, all, to []string, may func(all []string, name string) bool) ([]string, error) {
	if len(to) == 0 {
		return all, nil
	}
	for _, name := range to {
		if len(all) > 0 && !may(all, name) {
			return nil, fault.New(schemas.Forbidden, "at /"+member+": the token may not use "+name+"; it may use "+listed(all))
		}
	}
	return to, nil
}

// mostListed is how many names a refusal lists.
const mostListed = 20

func listed(names []string) string {
	more := ""
	if n := len(names); n > mostListed {
		names, more = names[:mostListed], " and others"
	}
	return strings.Join(names, ", ") + more
}

// The most names in a request for bounds, as in one for a token.
const (
	maxEntries = 64
	maxModels  = 64
)

// Check refuses names that are not of entries and models, or stand more than once. given says which of
// the lists a request has: an empty one would permit all.
func (b Bounds) Check(entries, patterns bool) error {
	for _, l := range []struct {
		member string
		given  bool
		names  []string
		most   int
		valid  func(string) bool
		form   string
	}{
		{"entries", entries, b.Entries, maxEntries, schemas.ValidID, "must be the name of an entry, each once"},
		{"models", patterns, b.Models, maxModels, models.ValidPattern, "must be the name of a model, or a pattern such as openai/* or *, each once"},
	} {
		if n := len(l.names); n > l.most || l.given && n == 0 {
			return fault.New(schemas.ValidationError, "at /"+l.member+": must have 1 to "+strconv.Itoa(l.most)+" names; leave it out for all that the token may use")
		}
		for i, name := range l.names {
			if !l.valid(name) || slices.Contains(l.names[:i], name) {
				return fault.New(schemas.ValidationError, "at /"+l.member+"/"+strconv.Itoa(i)+": "+l.form)
			}
		}
	}
	return nil
}

// Grant is what the sender of a request may do with repositories. Ingress and egress pass it
// to each other; only who has looked at a token makes one.
type Grant struct {
	Tenant string
	// TaskID is the task of the lease's holder; empty: a reader of all repositories of the tenant,
	// without write access.
	TaskID string
	// Lease is the holder's lease, 0 of the task's own token.
	Lease int
	// Repo is the one repository, and Branch the one branch that may be updated. Base is
	// the branch beside it that may be read; empty: the repository's default.
	Repo, Branch, Base string
	// Key tells the token that it was asked with from another one for the same task; it
	// is a part of its hash.
	Key string
	// ReadOnly: the branch may not be updated.
	ReadOnly bool
	// Opened: the branch exists.
	Opened bool
	// Force lets an update drop what was pushed before.
	Force bool
	// Principal is the id of the token that asked for the task, or that reads; Holder the
	// pool token that has the lease.
	Principal, Holder string
	// Entries are the only entries of the policy that may be used; empty: all.
	Entries []string
}

// Task is the task of the holder.
func (g Grant) Task() schemas.Ref {
	return schemas.Ref{Tenant: g.Tenant, Kind: schemas.KindTask, ID: g.TaskID}
}

// Reads reports whether a ref may be shown. Of a task's repository that is its own
// branch and the one it began at.
func (g Grant) Reads(ref, defaultBranch string) bool {
	if g.TaskID == "" {
		return true
	}
	return ref == schemas.RefOf(g.Branch) || ref == schemas.RefOf(cmp.Or(g.Base, defaultBranch))
}
