package ingress

import (
	"net/http"
	"time"

	"weir/ingress/grant"
	"weir/schemas"
)

// Asker is who asks for a call.
type Asker = grant.Asker

// Identity is who sent a request.
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

// asks is an identity as the one who asks for calls of a kind.
func (i Identity) asks(kind schemas.Kind, taskType string) Asker {
	return Asker{Tenant: i.Tenant, Kind: kind, TaskType: taskType, Principal: i.ID, Entries: i.Entries, Models: i.Models}
}

func open(*http.Request) (Identity, error) {
	return Identity{Tenant: schemas.Operator, Scopes: []string{schemas.ScopeAdmin}}, nil
}
