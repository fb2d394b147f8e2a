package schemas

import (
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// What an operator may do to the calls that Weir makes.
const (
	// OperationPause holds every call back that it is about.
	OperationPause = "pause"
	// OperationPin holds a destination open or closed, whatever Weir has found out about it.
	OperationPin = "pin"
)

// How a destination is pinned.
const (
	// PinOpen: it is not called, as if it had failed too often.
	PinOpen = "open"
	// PinClosed: it is called, however often it has failed and whatever it asked for.
	PinClosed = "closed"
)

// Target is what an operation is about. Exactly one of them is set.
type Target struct {
	// Entry is a name of the policy: an entry's, host: and an allowed host, agent: and
	// a task type, or model: and an upstream's.
	Entry string `json:"entry,omitempty"`
	// Destination is scheme://host:port, as Destination writes it.
	Destination string `json:"destination,omitempty"`
	Tenant      string `json:"tenant,omitempty"`
	Kind        Kind   `json:"kind,omitempty"`
}

// Operation is what an operator has decided, until an operator takes it back.
type Operation struct {
	Do string `json:"do"` // pause or pin
	Target
	// State is how it is pinned: open or closed.
	State string `json:"state,omitempty"`
	// Reason is the operator's own word, up to MaxOperationReason bytes. It is shown to
	// operators alone.
	Reason string    `json:"reason,omitempty"`
	By     string    `json:"by,omitempty"` // the token's name
	At     time.Time `json:"at"`
}

// OperationRequest is the body of POST /v1/operations/{pause,resume,pin,unpin}.
type OperationRequest struct {
	Target

	State  string `json:"state,omitempty"`  // of a pin: open or closed
	Reason string `json:"reason,omitempty"` // of a pause or a pin
}

// DestinationView is a destination that is not called as usual, by what Weir has found out.
type DestinationView struct {
	Entry       string `json:"entry"`
	Destination string `json:"destination"`
	// State is asked (it requested a pause), open (it has failed too often) or
	// trying (one call is let through, to see).
	State string `json:"state"`
	// Until is when it is called again.
	Until time.Time `json:"until,omitzero"`
	// Failures are those in a row.
	Failures int `json:"failures,omitempty"`
	// Tenants are those that must pause, if not all must; absent: it is paused for all.
	Tenants []string `json:"tenants,omitempty"`
}

// The states of a DestinationView.
const (
	DestinationAsked  = "asked"
	DestinationOpen   = "open"
	DestinationTrying = "trying"
)

// OperationsView is the answer of GET /v1/operations.
type OperationsView struct {
	// Items are what operators have decided, oldest first.
	Items []Operation `json:"items"`
	// Destinations are the paused ones, by entry and destination.
	Destinations []DestinationView `json:"destinations"`
}

const (
	// MaxOperations is how many operations are in force at most.
	MaxOperations = 1000
	// MaxOperationReason is the longest reason, in bytes.
	MaxOperationReason = 256
)

// The routes of operations.
const (
	RouteOperations       = "/v1/operations"
	RouteOperationsPause  = RouteOperations + "/pause"
	RouteOperationsResume = RouteOperations + "/resume"
	RouteOperationsPin    = RouteOperations + "/pin"
	RouteOperationsUnpin  = RouteOperations + "/unpin"
)

// Named is how many of a target's members are set.
func (t Target) Named() (n int) {
	for _, s := range []string{t.Entry, t.Destination, t.Tenant, string(t.Kind)} {
		if s != "" {
			n++
		}
	}
	return n
}

// Same reports whether two operations are of one sort about one target: the newer one
// takes the place of the other.
func (o Operation) Same(p Operation) bool { return o.Do == p.Do && o.Target == p.Target }

// Destination writes where a call goes as scheme://host:port.
func Destination(scheme, host string, port uint16) string {
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	return scheme + "://" + host + ":" + strconv.Itoa(int(port))
}

// ParseDestination reads a URL of http or https as a Destination: its path says nothing,
// and its port may be left out.
func ParseDestination(text string) (string, bool) {
	u, err := url.Parse(text)
	if err != nil || u.User != nil || u.Hostname() == "" || !slices.Contains([]string{"http", "https"}, u.Scheme) {
		return "", false
	}
	port := uint64(80)
	if u.Scheme == "https" {
		port = 443
	}
	if u.Port() != "" {
		if port, err = strconv.ParseUint(u.Port(), 10, 16); err != nil || port == 0 {
			return "", false
		}
	}
	host := strings.ToLower(u.Hostname())
	if addr, err := netip.ParseAddr(host); err == nil {
		host = addr.String()
	}
	return Destination(u.Scheme, host, uint16(port)), true
}
