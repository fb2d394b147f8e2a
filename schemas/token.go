package schemas

import (
	"slices"
	"time"
)

// Operator is the tenant of the node's operator. Only its admins may reload the policy, and see and
// make the tokens of other tenants; only its tokens may read the metrics.
// In open mode all requests belong to it.
const Operator = "default"

// The scopes that a token may have.
const (
	ScopeActionsWrite = "actions:write"
	ScopeActionsRead  = "actions:read"
	ScopeEvidenceRead = "evidence:read"
	ScopeRulesWrite   = "rules:write"
	ScopeTasksWrite   = "tasks:write"
	ScopeTasksWork    = "tasks:work"   // the pools' agents and runners
	ScopeMetricsRead  = "metrics:read" // read metrics only
	ScopeAdmin        = "admin"        // includes every other
)

// Scopes lists every scope.
func Scopes() []string {
	return []string{ScopeActionsWrite, ScopeActionsRead, ScopeEvidenceRead, ScopeRulesWrite, ScopeTasksWrite, ScopeTasksWork, ScopeMetricsRead, ScopeAdmin}
}

// Grants reports whether a token with these scopes may do what a scope is for.
func Grants(scopes []string, scope string) bool {
	return slices.Contains(scopes, scope) || slices.Contains(scopes, ScopeAdmin)
}

// TokenRequest is the body of POST /v1/tokens.
type TokenRequest struct {
	// Name is for people; letters, digits and . _ : - , at most 128.
	Name string `json:"name"`
	// Tenant owns what the token makes; default the caller's own.
	Tenant string   `json:"tenant,omitempty"`
	Scopes []string `json:"scopes"`
	// ExpiresIn is a duration such as "24h"; default never.
	ExpiresIn string `json:"expires_in,omitempty"`
	// Entries are the only entries of the policy it may use; default all.
	Entries []string `json:"entries,omitempty"`
	// Pools are the only pools of tasks that it may lease from; default all of the
	// tenant's. It needs the scope tasks:work.
	Pools []string `json:"pools,omitempty"`
	// Models are the only models it may use, as exact names or patterns such as
	// openai/*; default every model that is configured.
	Models []string `json:"models,omitempty"`
	// Rate is a count of requests a second, minute or hour, such as "10/s";
	// default the node's.
	Rate string `json:"rate,omitempty"`
}

// Token is a token as it may be shown.
type Token struct {
	ID        string    `json:"id"`
	Name      string    `json:"name"`
	Tenant    string    `json:"tenant"`
	Scopes    []string  `json:"scopes"`
	Entries   []string  `json:"entries,omitempty"`
	Pools     []string  `json:"pools,omitempty"`
	Models    []string  `json:"models,omitempty"`
	Rate      string    `json:"rate,omitempty"`
	CreatedAt time.Time `json:"created_at"`
	// CreatedBy is the id of the token that made it; absent for the first one.
	CreatedBy string    `json:"created_by,omitempty"`
	ExpiresAt time.Time `json:"expires_at,omitzero"`
	RevokedAt time.Time `json:"revoked_at,omitzero"`
	// LastUsedAt may be some minutes late; absent: never. A node of the role egress does not store it.
	LastUsedAt time.Time `json:"last_used_at,omitzero"`
	// Status is active, expired or revoked.
	Status string `json:"status"`
}

// NewToken answers POST /v1/tokens.
type NewToken struct {
	Token
	// Secret is the whole token, to be sent as a bearer. It is shown this once,
	// and only its hash is kept.
	Secret string `json:"secret"`
}

// The console's routes. It is a page for people, and no protocol: a program sends a token.
const (
	RouteConsole        = "/console/"
	RouteConsoleSession = "/console/session"
)

// RouteDocs is where the documentation is served.
const RouteDocs = "/docs/"

// HeaderConsole is 1 in what the console's own pages send. No page of another origin can
// send it, and without it a cookie counts for nothing.
const HeaderConsole = "Weir-Console"

// The modes of a ConsoleSession.
const (
	ConsoleOpen   = "open"   // no sign-in
	ConsoleTokens = "tokens" // with a token
)

// ConsoleSession is whom the console works for.
type ConsoleSession struct {
	Mode     string   `json:"mode"`
	SignedIn bool     `json:"signed_in"`
	Tenant   string   `json:"tenant,omitempty"`
	Name     string   `json:"name,omitempty"`
	Scopes   []string `json:"scopes,omitempty"`
	// ExpiresAt is when one has to sign in again.
	ExpiresAt time.Time `json:"expires_at,omitzero"`
}
