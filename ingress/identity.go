package ingress

import (
	"cmp"
	"time"

	"weir/ingress/grant"
	"weir/schemas"
)

// Asker is who asks for a call.
type Asker = grant.Asker

// Identity is the sender of a request.
type Identity struct {
	Tenant string
	Scopes []string
	// ID is the token's, and Name says whom it belongs to; both for the record,
	// and both empty in open mode.
	ID   string
	Name string
	// Entries are the only entries of the policy that it may use; empty: all.
	Entries []string
	// Pools are the only pools that it may lease tasks of; empty: all.
	Pools []string
	// Models are patterns of the only models that it may use; empty: all.
	Models []string
	// ExpiresAt is when the token ends; zero: never.
	ExpiresAt time.Time
}

// Asks is an identity as the sender of calls of a kind.
func (i Identity) Asks(kind schemas.Kind, taskType string) Asker {
	return Asker{Tenant: i.Tenant, Kind: kind, TaskType: taskType, Principal: i.ID, Entries: i.Entries, Models: i.Models}
}

// Caller is the identity on the record: the id of the token, or "open" without one.
func (i Identity) Caller() string { return cmp.Or(i.ID, "open") }
