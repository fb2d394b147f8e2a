// Package policy decides which calls may be sent. A URL is parsed once, by a grammar of its own,
// into parts; the parts are matched against the entries of the allowlist, and a Permit passes the
// same parts to the builder of the request. So the matched URL is the sent one.
//
// The package is pure: no I/O, no clock, no DNS. Addresses are checked in two places by one rule: a
// literal address in a URL by Decide, a resolved one by Permit.CheckAddr, which the dialler must
// call for every address of an answer.
//
// Deny is the zero value of every type here.
package policy

import (
	"encoding/json"
	"net/netip"
	"time"

	"weir/schemas"
)

// The networks that an entry may lead to.
const (
	NetworkPublic   = "public"   // globally routable addresses; the default
	NetworkLoopback = "loopback" // 127.0.0.0/8 and ::1, never Weir's own ports
	NetworkPrivate  = "private"  // the entry's CIDRs, minus what nothing can grant
)

// The modes of an entry.
const (
	ModeEnforce = "enforce" // the entry permits; the default
	ModeShadow  = "shadow"  // it is decided about and recorded, and permits nothing
)

// AnyHost is the url_prefix of an entry that covers every public host on the
// ports 80 and 443. Only the address check protects what it reaches.
const AnyHost = "*"

// MaxRedirects is the most hops that an entry may allow.
const MaxRedirects = 3

// Config is a policy as it is written down.
type Config struct {
	// Entries is the allowlist, in order. A later entry replaces an earlier one of the same name
	// and mode. A shadow entry and an enforced one of the same name coexist: the shadow rehearses
	// the other's replacement.
	Entries []Entry
	// AllowedHosts are the executor's items: host, host:port, .example.com
	// (subdomains only) or a scheme://host[:port][/path] prefix. Empty grants
	// nothing; the default list is the configuration's business.
	AllowedHosts []string
	// SelfPorts are the ports that Weir itself listens on. On loopback and on
	// SelfAddrs they are never a target, whatever an entry says.
	SelfPorts []uint16
	// SelfHosts are names and addresses that lead to Weir alone, never a target
	// on any port. Loopback and unspecified ones are ignored: SelfPorts covers them.
	SelfHosts []string
	// SelfAddrs are the addresses of this machine, refused on SelfPorts only.
	// Needed where Weir listens on more than loopback.
	SelfAddrs []netip.Addr
	// MaxBody is the largest body in bytes that a call may send, calls to agents and models aside;
	// default 1 MiB. It is the limit of the requests that Weir takes.
	MaxBody int
	// MaxUpload is the same of a call that is passed through; default MaxBody.
	MaxUpload int
}

// Entry grants one target.
type Entry struct {
	// Name is 1 to 128 letters, digits and . _ : - , so that it is safe in a log line. The prefix
	// "host:" is reserved for allowed hosts, "agent:" for agents and "model:" for the upstreams of
	// models.
	Name string `json:"name" yaml:"name"`
	// URLPrefix is scheme://host[:port][/path], or "*" for every host. The path covers itself and
	// the paths below it, on a segment boundary; with a trailing slash, only the paths below.
	URLPrefix string `json:"url_prefix" yaml:"url_prefix"`
	// Methods that pass; default GET alone. CONNECT and TRACE never pass; see connect.
	Methods []string `json:"methods,omitempty" yaml:"methods,omitempty"`
	// Network is public (default), loopback or private.
	Network string `json:"network,omitempty" yaml:"network,omitempty"`
	// CIDRs are what a private entry may reach. Metadata services, loopback,
	// multicast and addresses that carry an IPv4 address in an IPv6 one stay refused.
	CIDRs []string `json:"cidrs,omitempty" yaml:"cidrs,omitempty"`
	// Redirects is how many redirects are followed, 0 (default) to 3.
	Redirects int `json:"redirects,omitempty" yaml:"redirects,omitempty"`
	// EncodedSlashes permits %2F in paths, as clients write it in the names of branches, files and
	// scoped packages, where the path lies below the prefix also with a slash in its place. Default
	// false: such a path is denied.
	EncodedSlashes bool `json:"encoded_slashes,omitempty" yaml:"encoded_slashes,omitempty"`
	// UpstreamIdempotency declares that the target honours idempotency keys.
	UpstreamIdempotency *Idempotency `json:"upstream_idempotency,omitempty" yaml:"upstream_idempotency,omitempty"`
	// Headers are added by the worker and may hold ${secret:NAME}. Callers can
	// neither see nor set them.
	Headers map[string]string `json:"headers,omitempty" yaml:"headers,omitempty"`
	// Query are parameters that the worker adds to the query. They may hold ${secret:NAME}. A call
	// that sets one of them is denied.
	Query map[string]string `json:"query,omitempty" yaml:"query,omitempty"`
	// Body are members that the worker adds to a JSON object in the body, like the parameters of
	// query. A call with POST, PUT or PATCH needs a JSON object to hold them.
	Body map[string]string `json:"body,omitempty" yaml:"body,omitempty"`
	// CallerHeaders are the headers that callers may set at an entry with headers, query or body, beyond
	// Accept*, Cache-Control, Content-Type, Content-Encoding, Content-Language, If-*, Pragma, Prefer, Sec-Fetch-Mode,
	// User-Agent, X-Request-Id, Traceparent, Tracestate, *-Version, *-Beta and X-Stainless-*: names,
	// or the beginning or end of one with a *; "*" alone permits all that no rule forbids. Authorization, X-Api-Key and Cookie must be
	// named in full. Default none: a call with another header is denied.
	CallerHeaders []string `json:"caller_headers,omitempty" yaml:"caller_headers,omitempty"`
	// CallerParams are the parameters that callers may set in the query at such an entry, in the same
	// form. Default none: a call with a query is denied.
	CallerParams []string `json:"caller_params,omitempty" yaml:"caller_params,omitempty"`
	// Connect permits CONNECT to the host and port through the forward proxy: tunnel passes the
	// caller's bytes on as they are, so that methods, paths and bodies are not checked; inspect ends
	// TLS with proxy.ca_cert, and each request is an action. Default none: CONNECT is denied.
	Connect string `json:"connect,omitempty" yaml:"connect,omitempty"`
	// Limits bound the calls that are made under the entry, by all workers together. A call
	// over them waits.
	Limits Limits `json:"limits,omitzero" yaml:"limits,omitempty"`

	Contract `yaml:",inline"`

	// Mode is enforce (default) or shadow: the entry is decided about and the
	// result is recorded, but it neither permits nor denies.
	Mode string `json:"mode,omitempty" yaml:"mode,omitempty"`
	// Agent marks the entry of a remote agent or of a model's upstream, which the
	// configuration makes: only a Request with Agent can use it, and that one no other.
	Agent bool `json:"agent,omitempty" yaml:"-"`
	// Routes are all calls that an entry with Agent permits, each a method and a path below the prefix,
	// such as "POST /responses"; none: every call below the prefix.
	Routes []string `json:"routes,omitempty" yaml:"-"`
	// Pass are the members of a completion that a model's upstream gets beyond those that
	// every one gets. Policy carries and shows them, and decides nothing by them.
	Pass []string `json:"pass,omitempty" yaml:"-"`
}

// Idempotency is a target's promise about repeated keys.
type Idempotency struct {
	TTL    time.Duration `json:"ttl" yaml:"ttl"`                           // How long the target remembers a key; positive.
	Header string        `json:"header,omitempty" yaml:"header,omitempty"` // The header in which the target reads keys. Default Idempotency-Key.
	// Derive gives each POST and PATCH without a key of its caller's a key that Weir derives from the
	// action, so that the call may be repeated.
	Derive bool `json:"derive,omitempty" yaml:"derive,omitempty"`
}

// Limits bound the calls made under an entry. Policy carries them and counts nothing: see
// internal/limits/destination. A second's worth of calls, or one, may begin at once.
type Limits struct {
	Rate        string `json:"rate,omitempty" yaml:"rate,omitempty"`               // calls begun: "10/s", "600/m", "1000/h"; empty: unlimited
	Concurrency int    `json:"concurrency,omitempty" yaml:"concurrency,omitempty"` // running calls; 0: unlimited
}

// Policy is a compiled Config. It is immutable and safe for concurrent use; a
// nil Policy denies everything.
type Policy struct {
	version string
	// all are the named entries as they are written, shadow ones too, then the
	// allowed hosts. The agents' and the models' are not among them.
	all []*entry
	// enforced decides. Rehearsal would decide if the shadow entries were enforced; nil without
	// shadow entries.
	enforced  table
	rehearsal *table
	// agents are the entries of remote agents and of models, which only a Request with Agent
	// can use.
	agents table
	hosts  []string
	ranges ranges
	self   self

	maxBody, maxUpload int
}

// Version is the hash of the canonical policy: the entries, including those of agents, and the
// allowed hosts. A node's own ports, hosts and limit of bodies are not part of it, so that nodes with
// the same policy agree.
func (p *Policy) Version() string {
	if p == nil {
		return ""
	}
	return p.version
}

// AllowedHosts lists the executor's items in canonical form.
func (p *Policy) AllowedHosts() []string {
	if p == nil {
		return []string{}
	}
	return append([]string{}, p.hosts...)
}

// Request is one call to be decided. Nothing in it is trusted.
type Request struct {
	// Key selects one named entry, with no fall-through to another. When it is
	// empty and KeyRequired is not set, the first entry that fits decides.
	Key         string
	KeyRequired bool
	// Only are the named entries that the caller may use; empty: every entry and every allowed
	// host. Other entries do not exist for this request.
	Only []string
	// Agent: the call goes by the entry of a remote agent, which Key names, and by
	// no other. For every other request those entries do not exist.
	Agent bool
	// Connect: the request is a CONNECT to the authority in URL, host:port. Method is not read then.
	Connect bool
	// Internal: Weir has written the query and the headers itself, for git's protocol. They may be
	// combined with those that an entry adds.
	Internal bool
	Method   string // any case; empty is refused: the surfaces own the default
	URL      string
	// DropFragment leaves a fragment after a path or query off the wire instead
	// of refusing it. A '#' right behind the host is refused anyway.
	DropFragment bool
	Headers      []schemas.Header // the caller's, without what Weir adds
	// IdempotencyKey is the declared key, which goes out as a header.
	IdempotencyKey string
	HasBody        bool
	Upload         bool // the call is passed through: MaxUpload bounds its body
	BodySize       int  // bytes that are sent
	BodyDepth      int  // nesting of a JSON body; 0 where ingress has bounded it
	// Body is the JSON value that is sent; nil where there is none or it is not
	// known. Only an entry that adds members looks into it, and refuses a body
	// that it does not know.
	Body json.RawMessage
	// TextBody says that the body goes out as text or bytes and not as a JSON value.
	TextBody bool
}
