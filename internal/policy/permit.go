package policy

import (
	"cmp"
	"maps"
	"net/netip"
	"time"

	"weir/internal/jsonschema"
	"weir/internal/policy/reconcile"
)

// Permit is the permission to make one call, with the matched parts of its target. Only Decide and
// Redirect make one; the zero Permit is refused everywhere and names nothing.
type Permit struct {
	policy *Policy
	entry  *entry
	target target
	method string
	hop    int // 0: the call itself; n: its nth redirect
}

// Valid reports whether something is permitted.
func (p *Permit) Valid() bool { return p.entry != nil && p.policy != nil }

// nothing is the entry of what is not permitted. It never changes: a new one would take room on the
// stack of every caller.
var nothing = new(entry) //nolint:gochecknoglobals // a constant

// granted is the entry; an empty one if nothing is permitted.
func (p *Permit) granted() *entry {
	if p.Valid() {
		return p.entry
	}
	return nothing
}

// Entry is the name of the entry that allowed the call.
func (p *Permit) Entry() string { return p.granted().Name }

// Version is the version of the policy that allowed it.
func (p *Permit) Version() string { return p.policy.Version() }

// Method is in upper case.
func (p *Permit) Method() string { return p.method }

// Scheme is http or https.
func (p *Permit) Scheme() string { return p.target.Scheme }

// Host is the name to resolve, or the address to dial: in lower case, an IPv6 address without
// brackets and in its shortest form.
func (p *Permit) Host() string { return p.target.Host }

// Addr is the literal address that the host is. It has been checked. Where it
// is not valid, the host is a name.
func (p *Permit) Addr() netip.Addr { return p.target.addr }

// Port is the effective port.
func (p *Permit) Port() uint16 { return p.target.Port }

// Authority is the Host header: host, brackets around an IPv6 address, and the
// port where it is not the scheme's own.
func (p *Permit) Authority() string { return p.text((*target).Authority) }

// RequestTarget is the path and query to put on the wire, byte for byte.
func (p *Permit) RequestTarget() string { return p.text(func(t *target) string { return t.Target }) }

// URL is the whole target in canonical form. It is content: never log it.
func (p *Permit) URL() string { return p.text((*target).String) }

func (p *Permit) text(of func(*target) string) string {
	if !p.Valid() {
		return ""
	}
	return of(&p.target)
}

// Redirects is how many hops the entry follows.
func (p *Permit) Redirects() int { return p.granted().Redirects }

// IdempotencyTTL is how long the target honours an Idempotency-Key, if it does.
func (p *Permit) IdempotencyTTL() (time.Duration, bool) {
	ttl := p.granted().TTL
	return ttl, ttl > 0
}

// KeyHeader is the header in which the target reads idempotency keys.
func (p *Permit) KeyHeader() string { return cmp.Or(p.granted().KeyHeader, keyHeader) }

// DerivesKey reports whether the call gets a derived key if its caller has given none.
func (p *Permit) DerivesKey() bool { return p.granted().Derive && once(p.method) }

// Contract is the entry's delivery contract. Its members are shared: change none.
func (p *Permit) Contract() Contract { return p.granted().Contract }

// Probe looks up the effect of a call whose answer was lost; nil: the entry has none.
func (p *Permit) Probe() *reconcile.Probe { return p.granted().probe }

// ResponseSchema is the entry's schema for successful answers, and its mode; nil: the entry has none.
func (p *Permit) ResponseSchema() (s *jsonschema.Schema, mode string) {
	e := p.granted()
	if e.schema == nil {
		return nil, ""
	}
	return e.schema, e.ResponseSchema.Mode
}

// Contract is the delivery contract of the enforced entry of a name; empty if there is none.
func (p *Policy) Contract(entry string) Contract {
	if p == nil || p.enforced.byName[entry] == nil {
		return Contract{}
	}
	return p.enforced.byName[entry].Contract
}

// KeyHeader is the header in which the target of the enforced entry of a name reads idempotency keys;
// empty if that is Idempotency-Key, or there is no such entry.
func (p *Policy) KeyHeader(entry string) string {
	if p == nil || p.enforced.byName[entry] == nil {
		return ""
	}
	return p.enforced.byName[entry].KeyHeader
}

// Added is what an entry adds to a call, with placeholders unresolved: headers, parameters of the query,
// and members of a JSON object in the body.
type Added struct{ Headers, Query, Body map[string]string }

// Added is what the entry adds. The permit of a redirect has nothing: no credential is carried on.
func (p *Permit) Added() Added {
	if p.hop > 0 {
		return Added{}
	}
	e := p.granted()
	return Added{maps.Clone(e.Headers), maps.Clone(e.Query), maps.Clone(e.Body)}
}

// Limits are the entry's, for all of its calls together.
func (p *Permit) Limits() Limits { return p.granted().Limits }

// CheckAddr reports whether one resolved address may be dialled; the error is
// a *DeniedError. An IPv4-mapped address is checked as the IPv4 address that it
// reaches, because net.Resolver reports plain IPv4 answers in that form; dial
// it unmapped.
func (p *Permit) CheckAddr(a netip.Addr) error {
	if !p.Valid() {
		return deniedNoPermit
	}
	return asError(p.policy.checkAddr(p.entry, a.Unmap(), p.target.Port))
}

// CheckAddrs holds an answer of DNS against the entry: every address must pass,
// and there must be one.
func (p *Permit) CheckAddrs(addrs []netip.Addr) error {
	if !p.Valid() {
		return deniedNoPermit
	}
	if len(addrs) == 0 {
		return deniedAddressNone
	}
	for _, a := range addrs {
		if err := p.CheckAddr(a); err != nil {
			return err
		}
	}
	return nil
}
