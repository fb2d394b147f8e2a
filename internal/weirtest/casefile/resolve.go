package casefile

import (
	"net/netip"
	"strings"
)

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
