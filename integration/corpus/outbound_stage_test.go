package corpus_test

import (
	"crypto/tls"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/internal/weirtest/upstream"
)

// stage is the far side of one row: its server, and the network that leads there.
type stage struct {
	server  *upstream.Server
	network *upstream.Network

	mu      sync.Mutex
	offered []string // by clients in their handshakes
	shown   int      // certificates that clients showed
}

// newStage sets up a row's far side. Every address leads to the one server,
// which speaks TLS if the row's URL does.
func newStage(t *testing.T, r *outboundRow, authority *upstream.Authority) *stage {
	t.Helper()
	script, ok := behaviours(r.Upstream)
	require.True(t, ok, "behaviour %q", r.Upstream.Behaviour)
	s := &stage{}
	if r.scheme() == "https" {
		s.server = upstream.NewTLS(t, s.tls(t, r, authority), script...)
	} else {
		s.server = upstream.New(t, script...)
	}
	names := map[string][][]string{}
	var all []string
	for host, answers := range r.Resolver {
		for _, a := range answers {
			names[host] = append(names[host], a)
			all = append(all, a...)
		}
	}
	s.network = upstream.NewNetwork(s.server.Addr(), names)
	switch r.Upstream.Behaviour {
	case "connect_refused":
		s.network.Refuse = all
	case "syn_blackhole":
		s.network.Swallow = all
	}
	return s
}

// certifiable are the names and addresses that a certificate can be made for.
var certifiable = regexp.MustCompile(`^[a-z0-9:._-]+$`)

// tls is the server's side of a handshake, as the row wants it.
func (s *stage) tls(t *testing.T, r *outboundRow, authority *upstream.Authority) *tls.Config {
	t.Helper()
	var names []string
	for host := range r.Resolver {
		names = append(names, host)
	}
	if u, err := url.Parse(r.url()); err == nil && u.Hostname() != "" {
		names = append(names, strings.ToLower(u.Hostname()))
	}
	names = slices.DeleteFunc(names, func(n string) bool { return !certifiable.MatchString(n) })
	now := time.Now()
	cfg := authority.Config(names...)
	switch r.Upstream.Behaviour {
	case "tls_expired":
		cfg = authority.ConfigUntil(now.Add(-time.Hour), names...)
	case "tls_not_yet_valid":
		cfg = authority.ConfigBetween(now.Add(time.Hour), now.Add(2*time.Hour), names...)
	case "tls_self_signed":
		cfg = upstream.SelfSigned(t, names...)
	case "tls_untrusted_ca", "tls_unknown_ca":
		cfg = upstream.NewAuthority(t).Config(names...)
	case "tls_wrong_host", "tls_wrong_name":
		cfg = authority.Config("other.example.org")
	case "tls_ip_san_only":
		cfg = authority.Config("93.184.216.34")
	case "tls_1_0":
		cfg.MinVersion, cfg.MaxVersion = tls.VersionTLS10, tls.VersionTLS10
	case "tls_1_1":
		cfg.MinVersion, cfg.MaxVersion = tls.VersionTLS11, tls.VersionTLS11
	case "tls_client_cert_request":
		cfg.ClientAuth = tls.RequestClientCert
	}
	cfg.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.offered = append(s.offered, hello.SupportedProtos...)
		return nil, nil //nolint:nilnil // the documented way to keep the configuration
	}
	cfg.VerifyConnection = func(state tls.ConnectionState) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.shown += len(state.PeerCertificates)
		return nil
	}
	return cfg
}

// contacted says how a host was reached for, or nothing: by name, by address,
// or by what the server was told in a Host field.
func (s *stage) contacted(r *outboundRow, host string) string {
	if slices.Contains(s.network.Lookups(), host) {
		return "looked up"
	}
	for _, answer := range r.Resolver[host] {
		for _, address := range answer {
			if slices.Contains(s.network.Dialed(), address) {
				return "dialled at " + address
			}
		}
	}
	if slices.Contains(s.network.Dialed(), host) {
		return "dialled"
	}
	for _, got := range s.server.Ledger() {
		name, _, err := net.SplitHostPort(got.Header("Host"))
		if err != nil {
			name = got.Header("Host")
		}
		if strings.EqualFold(name, host) {
			return "asked for " + got.Target
		}
	}
	return ""
}
