package casefile

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"weir/ingress/strict"
	"weir/internal/policy"
)

// row is one line of a case file. Members that only a harness with a network
// can use are not read.
type row struct {
	ID       string              `json:"id"`
	Policy   *rowPolicy          `json:"policy"`
	Request  members             `json:"request"`
	Resolver map[string][]answer `json:"resolver"`
	Expected string              `json:"expected"` // allow or deny
	Code     string              `json:"code"`
	Level    string              `json:"level"`  // strict: the code is advice
	Static   *bool               `json:"static"` // absent: true
	Assert   struct {
		Rule json.RawMessage `json:"rule"` // a traffic rule, which policy alone cannot apply
	} `json:"assert"`
}

type rowPolicy struct {
	Entries []rowEntry `json:"entries"`
	// Allowlist is how the configuration spells it: a case whose policy is
	// copied from there must not be one without entries.
	Allowlist    []rowEntry `json:"allowlist"`
	AllowedHosts []string   `json:"allowed_hosts"`
	SelfPorts    []uint16   `json:"self_ports"`
	SelfHosts    []string   `json:"self_hosts"`
}

type rowEntry struct {
	Name          string            `json:"name"`
	URLPrefix     string            `json:"url_prefix"`
	Methods       []string          `json:"methods"`
	Network       string            `json:"network"`
	CIDRs         []string          `json:"cidrs"`
	Redirects     int               `json:"redirects"`
	Headers       map[string]string `json:"headers"`
	Query         map[string]string `json:"query"`
	Body          map[string]string `json:"body"`
	CallerHeaders []string          `json:"caller_headers"`
	CallerParams  []string          `json:"caller_params"`
	Mode          string            `json:"mode"`
	Idempotency   *struct {
		TTLSeconds float64 `json:"ttl_s"`
		TTL        string  `json:"ttl"` // as in the configuration, such as "24h"
	} `json:"upstream_idempotency"`
	// Secret is a header that the worker fills in.
	Secret *struct {
		Header string `json:"header"`
	} `json:"secret"`
}

// answer is one reply of the resolver: a list, or a single word.
type answer []string

// UnmarshalJSON takes a list of strings or one string.
func (a *answer) UnmarshalJSON(b []byte) error {
	var one string
	if json.Unmarshal(b, &one) == nil {
		*a = answer{one}
		return nil
	}
	var list []string
	if err := json.Unmarshal(b, &list); err != nil {
		return errors.New("an answer of the resolver is neither a list of addresses nor a keyword")
	}
	*a = list
	return nil
}

func parseRow(line []byte) (row, error) {
	var r row
	if err := json.Unmarshal(line, &r); err != nil {
		return r, fmt.Errorf("not a case: %w", err)
	}
	switch {
	case r.ID == "":
		return r, errors.New("id is missing")
	case r.Expected != allow && r.Expected != deny:
		return r, fmt.Errorf("expected is %q; write allow or deny", r.Expected)
	case r.Policy == nil:
		return r, errors.New("policy is missing")
	case r.Request["url"] == nil:
		return r, errors.New("request has no url")
	}
	return r, nil
}

func (r *row) skipped() bool {
	return (r.Static != nil && !*r.Static) || !strict.Absent(r.Assert.Rule)
}

func (p rowPolicy) compile() (*policy.Policy, error) {
	c := policy.Config{AllowedHosts: p.AllowedHosts, SelfPorts: p.SelfPorts, SelfHosts: p.SelfHosts}
	for _, e := range slices.Concat(p.Entries, p.Allowlist) {
		entry := policy.Entry{
			Name: e.Name, URLPrefix: e.URLPrefix, Methods: e.Methods,
			Network: e.Network, CIDRs: e.CIDRs, Redirects: e.Redirects,
			Headers: e.Headers, Query: e.Query, Body: e.Body, Mode: e.Mode,
			CallerHeaders: e.CallerHeaders, CallerParams: e.CallerParams,
		}
		if e.Idempotency != nil {
			ttl := time.Duration(e.Idempotency.TTLSeconds * float64(time.Second))
			if e.Idempotency.TTL != "" {
				var err error
				if ttl, err = time.ParseDuration(e.Idempotency.TTL); err != nil {
					return nil, fmt.Errorf("entry %q: upstream_idempotency: ttl is not a duration", e.Name)
				}
			}
			entry.UpstreamIdempotency = &policy.Idempotency{TTL: ttl}
		}
		if e.Secret != nil {
			entry.Headers = map[string]string{e.Secret.Header: "${secret:CASE}"}
		}
		c.Entries = append(c.Entries, entry)
	}
	return policy.Compile(c)
}
