package schemas

import "time"

// The console's routes. It is a page for people, and no protocol: a program sends a token.
const (
	RouteConsole        = "/console/"
	RouteConsoleSession = "/console/session"
)

// HeaderConsole is 1 in what the console's own pages send. No page of another origin can
// send it, and without it a cookie counts for nothing.
const HeaderConsole = "Weir-Console"

// The modes of a ConsoleSession.
const (
	ConsoleOpen   = "open"   // nobody signs in
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
