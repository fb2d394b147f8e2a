package policy

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"time"
)

// generation names the rules of this package. A change of what a policy means
// changes it, and with it the version of every policy.
const generation = "weir-policy-3"

// canonical is an entry with its defaults filled in, as the version hashes it.
type canonical struct {
	Name   string `json:"name"`
	Any    bool   `json:"any,omitempty"`    // every host on 80 and 443
	Scheme string `json:"scheme,omitempty"` // empty: either
	Host   string `json:"host,omitempty"`   // exact, or a suffix with its leading dot
	Port   uint16 `json:"port,omitempty"`   // 0: every port
	Path   string `json:"path,omitempty"`   // the prefix, as it was written
	// Methods, CIDRs and Caller are sorted; version sets them from the compiled ones.
	Methods   []string          `json:"methods"`
	Network   string            `json:"network"`
	CIDRs     []string          `json:"cidrs,omitempty"`
	Redirects int               `json:"redirects,omitempty"`
	TTL       time.Duration     `json:"ttl_ns,omitempty"`     // 0: the target does not honour keys
	KeyHeader string            `json:"key_header,omitempty"` // empty: Idempotency-Key
	Derive    bool              `json:"derive,omitempty"`     // Weir derives keys
	Headers   map[string]string `json:"headers,omitempty"`
	Query     map[string]string `json:"query,omitempty"`
	Body      map[string]string `json:"body,omitempty"`
	Caller    [2][]string       `json:"caller"`
	Shadow    bool              `json:"shadow,omitempty"`  // rehearsed, and permits nothing
	Agent     bool              `json:"agent,omitempty"`   // of a remote agent or a model, in a table of their own
	Extra     []string          `json:"members,omitempty"` // Pass of a model's Entry, sorted
	Routes    []string          `json:"routes,omitempty"`  // sorted
	Connect   string            `json:"connect,omitempty"` // tunnel or inspect
	Limits    Limits            `json:"limits,omitzero"`
	Contract
}

// version hashes the entries in order: two ways to write one policy have one
// version.
func version(entries []*entry) string {
	var b bytes.Buffer
	b.WriteString(generation)
	b.WriteByte('\n')
	enc := json.NewEncoder(&b)
	for _, e := range entries {
		c := e.canonical
		c.Methods, c.Caller = e.methods.names(), [2][]string{e.callerHeaders, e.callerParams}
		for _, p := range e.cidrs {
			c.CIDRs = append(c.CIDRs, p.String())
		}
		slices.Sort(c.CIDRs)
		if err := enc.Encode(c); err != nil {
			return "" // strings and numbers always encode
		}
	}
	sum := sha256.Sum256(b.Bytes())
	return hex.EncodeToString(sum[:])
}
