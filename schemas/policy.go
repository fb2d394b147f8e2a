package schemas

import (
	"encoding/json"
	"time"
)

// PolicyView is the policy in force, without what only the worker may know.
type PolicyView struct {
	// Version is the hash of the canonical policy; every decision names it.
	Version string `json:"version"`
	// Since is when this node put it in force.
	Since time.Time `json:"since"`
	// Entries are tried in this order. Those of agents and models come last and are not
	// tried: each is for its own task type, or its own upstream.
	Entries []EntryView `json:"entries"`
	// AllowedHosts need no entry; they come after the entries.
	AllowedHosts []string `json:"allowed_hosts"`
}

// EntryView is one entry of the allowlist. Of what the worker adds to a call it
// has the names alone.
type EntryView struct {
	Name string `json:"name"`
	// URLPrefix, Network, CIDRs, Headers, Query and Body of an Agent entry are shown to an
	// admin of the operator's tenant alone; others do not get these members.
	URLPrefix string   `json:"url_prefix,omitempty"`
	Methods   []string `json:"methods"`
	Network   string   `json:"network,omitempty"`
	CIDRs     []string `json:"cidrs,omitempty"`
	Redirects int      `json:"redirects"`
	// EncodedSlashes: a path may have %2F.
	EncodedSlashes bool `json:"encoded_slashes,omitempty"`
	// UpstreamIdempotencyTTL is how long the target honours an Idempotency-Key,
	// such as "24h0m0s"; absent: it does not.
	UpstreamIdempotencyTTL string `json:"upstream_idempotency_ttl,omitempty"`
	// IdempotencyHeader is the header in which the target reads keys; absent: Idempotency-Key.
	IdempotencyHeader string `json:"idempotency_header,omitempty"`
	// DerivesKey: a POST or PATCH without a key gets one that Weir derives.
	DerivesKey bool `json:"derives_key,omitempty"`
	// RequiresKey: a POST or PATCH without a key is denied.
	RequiresKey    bool             `json:"requires_key,omitempty"`
	Retry          *EntryRetry      `json:"retry,omitempty"`
	NeverRetry     *EntryNeverRetry `json:"never_retry,omitempty"`
	Reconcile      *EntryReconcile  `json:"reconcile,omitempty"`
	ResponseSchema *EntrySchema     `json:"response_schema,omitempty"`
	// Limits bound the calls of the entry; absent: it has none.
	Limits  *EntryLimits `json:"limits,omitempty"`
	Headers []string     `json:"headers,omitempty"`
	Query   []string     `json:"query,omitempty"`
	Body    []string     `json:"body,omitempty"`
	// CallerHeaders and CallerParams are what callers may set beside these, beyond what they may
	// set at every entry; "*" stands for all.
	CallerHeaders []string `json:"caller_headers,omitempty"`
	CallerParams  []string `json:"caller_params,omitempty"`
	// Connect is what the proxy does with a CONNECT to the host and port: tunnel, inspect, or
	// absent, and then it is denied.
	Connect string `json:"connect,omitempty"`
	// Mode is enforce, or shadow: decided and recorded, and permits nothing.
	Mode string `json:"mode"`
	// Agent: it is a remote agent's, whose runs go by it, or a model's upstream, whose
	// completions do. No call that an action names itself goes by it.
	Agent bool `json:"agent,omitempty"`
	// Routes are all calls that the entry of a model's upstream permits, each a method and a path below
	// the prefix, such as "POST /responses".
	Routes []string `json:"routes,omitempty"`
	// Pass are the members of completions, and the types of tools, that a model's upstream
	// gets beyond those that every one gets; "*" stands for all.
	Pass []string `json:"pass,omitempty"`
}

// EntryRetry is the schedule of attempts that an entry has in place of the standard one.
type EntryRetry struct {
	Attempts int    `json:"attempts"` // the first one included
	Base     string `json:"base"`     // the wait after the first attempt, such as "200ms"; each further wait doubles it
	Cap      string `json:"cap"`      // the longest wait
	On       []int  `json:"on,omitempty"`
}

// EntryNeverRetry names the answers after which a call is not repeated.
type EntryNeverRetry struct {
	Status []int `json:"status,omitempty"`
	// Header has the names in lower case, and the value that ends the call.
	Header map[string]string `json:"header,omitempty"`
}

// EntryReconcile is the request that shows whether a call with a lost answer was applied.
type EntryReconcile struct {
	Method     string `json:"method"`
	URL        string `json:"url"`
	Applied    string `json:"applied"`
	NotApplied string `json:"not_applied,omitempty"`
	Within     string `json:"within"` // such as "30s"
}

// EntrySchema is the schema of an entry's successful answers.
type EntrySchema struct {
	Mode   string          `json:"mode"` // strict, warn or redact
	Schema json.RawMessage `json:"schema"`
}

// EntryLimits bound the calls of an entry, by all workers together. A call over them waits.
type EntryLimits struct {
	Rate        string `json:"rate,omitempty"`        // calls begun, such as "10/s"
	Concurrency int    `json:"concurrency,omitempty"` // running calls
}

// Contract is what happens to one call after a failure, a lost answer and an answer.
type Contract struct {
	Attempts int    `json:"attempts"` // the most attempts, the first one included
	Base     string `json:"base"`     // the wait after the first attempt, such as "200ms"
	Cap      string `json:"cap"`      // the longest wait
	// RetryOn are the statuses after which the call is repeated, such as "429" and "5xx". It is
	// empty for a call of class once, which is repeated only if no byte of it was sent.
	RetryOn    []string         `json:"retry_on"`
	NeverRetry *EntryNeverRetry `json:"never_retry,omitempty"`
	// Key is caller (the caller's own idempotency key is sent), derived (Weir derives one) or
	// none. KeyHeader is the header that carries it, KeyTTL how long it permits a repeat.
	Key         string `json:"key"`
	KeyHeader   string `json:"key_header,omitempty"`
	KeyTTL      string `json:"key_ttl,omitempty"`
	RequiresKey bool   `json:"requires_key,omitempty"` // the entry denies the call without a key
	// Probe: after a lost answer, a request to the target shows whether the call was applied.
	Probe bool `json:"probe,omitempty"`
	// ResponseSchema is strict, warn or redact; absent: the entry has no schema.
	ResponseSchema string `json:"response_schema,omitempty"`
}

// The sources of the key in a Contract.
const (
	KeyCaller  = "caller"
	KeyDerived = "derived"
	KeyNone    = "none"
)

// ExplainRequest is the body of POST /v1/policy/explain: a call that is not made.
type ExplainRequest struct {
	Method         string            `json:"method,omitempty"` // default GET
	URL            string            `json:"url"`
	AllowlistKey   string            `json:"allowlist_key,omitempty"`
	Headers        map[string]string `json:"headers,omitempty"`
	IdempotencyKey string            `json:"idempotency_key,omitempty"`
	// The forms of the body are those of POST /v1/execute.
	Body       json.RawMessage `json:"body,omitempty"`
	BodyText   json.RawMessage `json:"body_text,omitempty" jsonschema:"type=string"`
	BodyBase64 json.RawMessage `json:"body_base64,omitempty" jsonschema:"type=string"`
	Form       json.RawMessage `json:"form,omitempty" jsonschema:"type=object"`
}

// Explanation is what policy would say of a call, and why. No name was resolved
// for it: the addresses of a name are checked when the call is made.
type Explanation struct {
	Decision
	// Check is the step that denied; absent when allowed.
	Check string `json:"check,omitempty"`
	// Remedy is what would make it pass; absent when allowed, or when nothing would.
	Remedy string `json:"remedy,omitempty"`
	// Class is what may be done with the call if its result is lost.
	Class Class `json:"class,omitempty"`
	// Contract is what happens after a failure or a lost answer; absent when denied.
	Contract *Contract `json:"contract,omitempty"`
	// Entries are what each entry says of it, in the order of the policy.
	Entries []EntryVerdict `json:"entries"`
}

// EntryVerdict is what one entry says of a call.
type EntryVerdict struct {
	Entry string `json:"entry"`
	Mode  string `json:"mode"` // enforce or shadow
	Fits  bool   `json:"fits"`
	// Check and Reason say what keeps the call from fitting.
	Check  string `json:"check,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// Reload answers POST /v1/policy/reload: from now on, on this node, no call
// begins that the policy of Version does not allow.
type Reload struct {
	Version  string `json:"version"`
	Previous string `json:"previous"`
	// Changed: another policy is in force, or agents or models are called in another way
	// or within other bounds.
	Changed bool `json:"changed"`
	// Node is who answers, where others may work on the same log: each has a file of its own.
	Node string `json:"node,omitempty"`
	// Nodes are all that were heard of, where all were asked to.
	Nodes []NodeReport `json:"nodes,omitempty"`
}

// ReloadRequest is the body of POST /v1/policy/reload. It may be left away.
type ReloadRequest struct {
	// All: not this node alone, but every one that hears of it.
	All bool `json:"all,omitempty"`
}

// RouteNodes lists the nodes that work on the log and answer.
const RouteNodes = "/v1/nodes"

// NodeReport is what one node reports of itself, and of its reload if all are asked to reload.
type NodeReport struct {
	Node string `json:"node"`
	Role string `json:"role"`
	// Build is the version of the program, and Started when the process started.
	Build   string    `json:"build,omitempty"`
	Started time.Time `json:"started,omitzero"`
	// Version is the version of the policy in force there; empty: the node has not answered in
	// time.
	Version  string `json:"version,omitempty"`
	Previous string `json:"previous,omitempty"`
	Changed  bool   `json:"changed,omitempty"`
	// Error says why it goes on with the policy of before.
	Error string `json:"error,omitempty"`
}
