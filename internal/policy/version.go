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

// canonical is an entry with its defaults filled in and its sets sorted.
type canonical struct {
	Name      string            `json:"name"`
	Any       bool              `json:"any,omitempty"`
	Scheme    string            `json:"scheme,omitempty"`
	Host      string            `json:"host,omitempty"`
	Port      uint16            `json:"port,omitempty"`
	Path      string            `json:"path,omitempty"`
	Methods   []string          `json:"methods"`
	Network   string            `json:"network"`
	CIDRs     []string          `json:"cidrs,omitempty"`
	Redirects int               `json:"redirects,omitempty"`
	TTL       time.Duration     `json:"ttl_ns,omitempty"`
	Headers   map[string]string `json:"headers,omitempty"`
	Query     map[string]string `json:"query,omitempty"`
	Body      map[string]string `json:"body,omitempty"`
	Caller    [2][]string       `json:"caller"`
	Shadow    bool              `json:"shadow,omitempty"`
	Agent     bool              `json:"agent,omitempty"`
	Members   []string          `json:"members,omitempty"`
	Limits    Limits            `json:"limits,omitzero"`
}

// version hashes the entries in order: two ways to write one policy have one
// version.
func version(entries []*entry) string {
	var b bytes.Buffer
	b.WriteString(generation)
	b.WriteByte('\n')
	enc := json.NewEncoder(&b)
	for _, e := range entries {
		c := canonical{
			Name: e.name, Any: e.any, Scheme: e.scheme, Host: e.host, Port: e.port, Path: e.prefix,
			Methods: e.methods.names(), Network: e.network,
			Redirects: e.redirects, TTL: e.ttl, Limits: e.limits,
			Headers: e.headers, Query: e.query, Body: e.body, Shadow: e.shadow, Agent: e.agent, Members: e.pass, Caller: [2][]string{e.callerHeaders, e.callerParams},
		}
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
