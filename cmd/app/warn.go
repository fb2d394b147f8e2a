package app

import (
	"fmt"
	"net"
	"net/netip"

	"weir/internal/secrets"
)

// warnings are what an operator should know and what need not keep Weir from
// starting: it may be put right while it runs.
func (a *App) warnings() []string {
	var all []string
	store := secrets.New(secrets.Config{Dir: a.cfg.Secrets.Dir, LookupEnv: a.lookupEnv})
	for _, e := range a.cfg.Policy.Allowlist {
		for name, template := range e.Headers {
			if _, _, err := store.Resolve(template); err != nil {
				all = append(all, fmt.Sprintf("entry %q: header %s: %v; its calls will fail until it is there", e.Name, name, err))
			}
		}
	}
	if host, _, err := net.SplitHostPort(a.NATS()); err == nil {
		if addr, err := netip.ParseAddr(host); err == nil && !addr.IsLoopback() {
			all = append(all, fmt.Sprintf("nats.listen: %s can be reached from other machines, and there is no TLS on it: whoever reads its traffic reads the evidence", a.NATS()))
		}
	}
	return all
}
