package wire

import (
	"net"
	"net/netip"
)

// Peer is who a connection from ip counts for.
func Peer(ip string) netip.Prefix { return peerOf(&net.TCPAddr{IP: net.ParseIP(ip)}) }
