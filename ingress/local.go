package ingress

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
)

// local reports whether a request names this machine by a loopback name, and was
// not made by a page that has another.
func local(r *http.Request) bool {
	if !loopback(r.Host) || r.Header.Get("Sec-Fetch-Site") == "cross-site" {
		return false
	}
	origin := r.Header.Get("Origin")
	if origin == "" {
		return true
	}
	u, err := url.Parse(origin)
	return err == nil && loopback(u.Host)
}

// loopback reports whether an authority names this machine only.
func loopback(authority string) bool {
	host := authority
	if h, _, err := net.SplitHostPort(authority); err == nil {
		host = h
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	if strings.EqualFold(host, "localhost") {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.IsLoopback()
}
