package upstream

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
)

// The lookups that bring no address. Others are lists of addresses.
const (
	NXDomain    = "NXDOMAIN"
	ServFail    = "SERVFAIL"
	DNSTimeout  = "TIMEOUT" // hangs until the asker gives up
	EmptyAnswer = "EMPTY"
	CNAME       = "CNAME:" // and a name
)

// Network stands in for DNS and for the wire: names have the scripted answers,
// and every address is answered by one loopback server. It never dials a real
// address. Its methods fit outbound.Config; it is safe for concurrent use.
type Network struct {
	// To is where dialled connections really go.
	To netip.AddrPort
	// Refuse has addresses whose dials fail.
	Refuse []string
	// Swallow has addresses whose dials are never answered.
	Swallow []string

	mu      sync.Mutex
	names   map[string][][]string
	lookups []string
	dialed  []string
}

// NewNetwork maps each name to its answers, one a lookup, the last repeated;
// the name "*" stands for any other.
func NewNetwork(to netip.AddrPort, names map[string][][]string) *Network {
	return &Network{To: to, names: names}
}

// Answers is the script of a name that always has these addresses.
func Answers(addresses ...string) [][]string { return [][]string{addresses} }

// LookupNetIP answers from the script.
func (n *Network) LookupNetIP(ctx context.Context, _, host string) ([]netip.Addr, error) {
	host = strings.TrimSuffix(host, ".")
	n.mu.Lock()
	n.lookups = append(n.lookups, host)
	n.mu.Unlock()
	return n.answer(ctx, host, maxChain)
}

// maxChain is how many aliases are followed; more are an answer of none.
const maxChain = 8

func (n *Network) answer(ctx context.Context, host string, left int) ([]netip.Addr, error) {
	n.mu.Lock()
	answer := n.take(host)
	n.mu.Unlock()

	var addrs []netip.Addr
	for _, item := range answer {
		switch {
		case left == 0:
			return nil, &net.DNSError{Err: "too many aliases", Name: host}
		case item == NXDomain:
			return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
		case item == ServFail:
			return nil, &net.DNSError{Err: "server misbehaving", Name: host, IsTemporary: true}
		case item == DNSTimeout:
			<-ctx.Done()
			return nil, &net.DNSError{Err: "i/o timeout", Name: host, IsTimeout: true}
		case item == EmptyAnswer:
		case strings.HasPrefix(item, CNAME):
			more, err := n.answer(ctx, strings.TrimPrefix(item, CNAME), left-1)
			if err != nil {
				return nil, err
			}
			addrs = append(addrs, more...)
		default:
			addrs = append(addrs, netip.MustParseAddr(item))
		}
	}
	return addrs, nil
}

// take gives a name's next answer; the lock is held.
func (n *Network) take(host string) []string {
	script, ok := n.names[host]
	if !ok {
		host = "*"
		script = n.names[host]
	}
	if len(script) == 0 {
		return []string{NXDomain}
	}
	if len(script) > 1 {
		n.names[host] = script[1:]
	}
	return script[0]
}

// Dial connects to To, whatever address it is asked for, and remembers that.
func (n *Network) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	n.mu.Lock()
	n.dialed = append(n.dialed, host)
	refused, swallowed := slices.Contains(n.Refuse, host), slices.Contains(n.Swallow, host)
	n.mu.Unlock()
	if swallowed {
		<-ctx.Done()
		return nil, &net.OpError{Op: "dial", Net: network, Err: fmt.Errorf("connect to %s: %w", address, ctx.Err())}
	}
	to := n.To.String()
	if refused {
		to = "127.0.0.1:0" // no server can listen there: the kernel refuses the connection
	}
	return new(net.Dialer).DialContext(ctx, "tcp", to)
}

// Lookups are the names asked for so far, without the root's dot.
func (n *Network) Lookups() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.lookups)
}

// Dialed are the addresses dialled so far, without ports.
func (n *Network) Dialed() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.dialed)
}
