// Package wire stands between the sockets of the HTTP listener and net/http. It
// caps connections, ends those that take no answer, words the refusals that
// net/http writes by itself, and sees what net/http hides of a request's head.
package wire

import (
	"cmp"
	"net"
	"net/netip"
	"net/textproto"
	"strings"
	"sync"
	"time"

	"weir/schemas"
)

// Why a connection was closed before a byte of it was read.
const (
	ReasonTotal = "total" // too many connections are open
	ReasonPeer  = "peer"  // too many of them from one peer
)

// MaxTarget is how many bytes the target of a request may have. A longer one is
// URI_TOO_LONG, whatever the limit of the headers is.
const MaxTarget = 8 << 10

// Config of a Listener. Zero fields take the default.
type Config struct {
	// Connections open at a time, and PerPeer from one peer: an IPv4 address,
	// or the /64 of an IPv6 one. More are closed at once. Default: no cap.
	Connections int
	PerPeer     int
	// Stall is how long a client may take no piece of an answer before its
	// connection is reset; default 10 s. A piece has 64 KiB, or less at the end.
	Stall time.Duration
	// Answer is the whole answer to a request that net/http refuses before any
	// handler sees it; nil: what net/http says.
	Answer func(code schemas.Code) []byte
	// Refused is called with the reason for each connection over a cap. It is required if there are
	// caps.
	Refused func(reason string)
}

// Listener accepts connections under the caps.
type Listener struct {
	net.Listener
	cfg Config

	mu    sync.Mutex
	open  int
	peers map[netip.Prefix]int
}

// Wrap returns l under the caps of cfg.
func Wrap(l net.Listener, cfg Config) *Listener {
	cfg.Stall = cmp.Or(cfg.Stall, 10*time.Second)
	return &Listener{Listener: l, cfg: cfg, peers: map[netip.Prefix]int{}}
}

// Accept returns the next connection that the caps allow.
func (l *Listener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		who := netip.Prefix{}
		if tcp, ok := c.RemoteAddr().(*net.TCPAddr); ok {
			who = Peer(tcp.AddrPort().Addr())
		}
		tcp, isTCP := c.(*net.TCPConn)
		if why := l.acquire(who); why != "" {
			l.cfg.Refused(why)
			if isTCP {
				_ = tcp.SetLinger(0) // the kernel keeps nothing of a flood
			}
			_ = c.Close()
			continue
		}
		if isTCP {
			// The kernel would buffer megabytes for a client that reads nothing.
			_ = tcp.SetWriteBuffer(sendBuffer)
		}
		return &Conn{Conn: c, of: l, who: who}, nil
	}
}

// sendBuffer is what the kernel may hold of an answer for one connection;
// Linux doubles it.
const sendBuffer = 128 << 10

func (l *Listener) acquire(who netip.Prefix) (refused string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.cfg.Connections > 0 && l.open >= l.cfg.Connections:
		return ReasonTotal
	case l.cfg.PerPeer > 0 && l.peers[who] >= l.cfg.PerPeer:
		return ReasonPeer
	}
	l.open++
	l.peers[who]++
	return ""
}

func (l *Listener) release(who netip.Prefix) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open--
	if l.peers[who]--; l.peers[who] == 0 {
		delete(l.peers, who)
	}
}

// Peer is who a connection from ip counts for. One customer of an IPv6 network has
// a /64 at least, and could take another address for each connection.
func Peer(ip netip.Addr) netip.Prefix {
	ip = ip.Unmap().WithZone("")
	bits := 64
	if ip.Is4() {
		bits = 32
	}
	p, _ := ip.Prefix(bits) // the zero Prefix for the zero address
	return p
}

// PerConnection reports whether a field, in canonical case, belongs to one connection and not to the
// message: no proxy passes it on.
func PerConnection(name string) bool {
	switch name {
	case "Connection", "Http2-Settings", "Keep-Alive", "Te", "Trailer", "Transfer-Encoding", "Upgrade":
		return true
	}
	return strings.HasPrefix(name, "Proxy-")
}

// Named adds the fields that a value of Connection names to names, in canonical case. They belong to
// the connection too.
func Named(names []string, value string) []string {
	for name := range strings.SplitSeq(value, ",") {
		names = append(names, textproto.CanonicalMIMEHeaderKey(strings.TrimSpace(name)))
	}
	return names
}
