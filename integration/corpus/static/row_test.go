package static_test

import (
	"encoding/json"
	"net/netip"
	"strings"

	"weir/internal/policy"
)

// row is one line of the outbound corpus, without the members that need a network.
type row struct {
	ID       string              `json:"id"`
	Policy   rowPolicy           `json:"policy"`
	Request  members             `json:"request"`
	Resolver map[string][]answer `json:"resolver"`
	Expected string              `json:"expected"` // allow or deny
	Code     string              `json:"code"`
	Level    string              `json:"level"` // strict: the code is advice
	Static   *bool               `json:"static"`
	Why      string              `json:"why"`
}

type rowPolicy struct {
	Entries      []policy.Entry `json:"entries"`
	AllowedHosts []string       `json:"allowed_hosts"`
	SelfPorts    []uint16       `json:"self_ports"`
	SelfHosts    []string       `json:"self_hosts"`
}

func (p rowPolicy) compile() (*policy.Policy, error) {
	return policy.Compile(policy.Config{Entries: p.Entries, AllowedHosts: p.AllowedHosts, SelfPorts: p.SelfPorts, SelfHosts: p.SelfHosts})
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
	return json.Unmarshal(b, (*[]string)(a))
}

// maxChain bounds the names that an answer may lead through.
const maxChain = 8

// resolve gives the first answer for a host, aliases followed. It is false
// where DNS would fail, which is what an absent host means too.
func (r *row) resolve(host string) ([]netip.Addr, bool) { return r.lookup(host, maxChain) }

func (r *row) lookup(host string, left int) ([]netip.Addr, bool) {
	answers, ok := r.Resolver[host]
	if !ok {
		answers = r.Resolver["*"]
	}
	if len(answers) == 0 || left == 0 {
		return nil, false
	}
	var addrs []netip.Addr
	for _, word := range answers[0] {
		if alias, ok := strings.CutPrefix(word, "CNAME:"); ok {
			more, ok := r.lookup(alias, left-1)
			if !ok {
				return nil, false
			}
			addrs = append(addrs, more...)
			continue
		}
		a, err := netip.ParseAddr(word)
		if err != nil { // NXDOMAIN, SERVFAIL, TIMEOUT, EMPTY
			return nil, false
		}
		addrs = append(addrs, a)
	}
	return addrs, len(addrs) > 0
}
