package task

import (
	"cmp"

	"weir/schemas"
)

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
