//go:build e2e

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
	script, err := r.behaviours()
	require.NoError(t, err)
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
	cfg := authority.Config(names...)
	if fault, ok := tlsFaults[r.Upstream.Behaviour]; ok {
		cfg = fault(t, authority, names)
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

// tlsFaults are the servers that have one fault in their TLS, and no other.
// tls_handshake_hang is not here: it never speaks TLS.
var tlsFaults = map[string]func(t *testing.T, a *upstream.Authority, names []string) *tls.Config{
	"tls_expired": func(_ *testing.T, a *upstream.Authority, names []string) *tls.Config {
		return a.ConfigUntil(time.Now().Add(-time.Hour), names...)
	},
	"tls_not_yet_valid": func(_ *testing.T, a *upstream.Authority, names []string) *tls.Config {
		return a.ConfigBetween(time.Now().Add(time.Hour), time.Now().Add(2*time.Hour), names...)
	},
	"tls_self_signed": func(t *testing.T, _ *upstream.Authority, names []string) *tls.Config {
		t.Helper()
		return upstream.SelfSigned(t, names...)
	},
	"tls_untrusted_ca": otherAuthority, "tls_unknown_ca": otherAuthority,
	"tls_wrong_host": otherName, "tls_wrong_name": otherName,
	"tls_ip_san_only": func(_ *testing.T, a *upstream.Authority, _ []string) *tls.Config { return a.Config("93.184.216.34") },
	"tls_1_0":         oldVersion(tls.VersionTLS10),
	"tls_1_1":         oldVersion(tls.VersionTLS11),
	"tls_client_cert_request": func(_ *testing.T, a *upstream.Authority, names []string) *tls.Config {
		cfg := a.Config(names...)
		cfg.ClientAuth = tls.RequestClientCert
		return cfg
	},
}

func otherAuthority(t *testing.T, _ *upstream.Authority, names []string) *tls.Config {
	t.Helper()
	return upstream.NewAuthority(t).Config(names...)
}

func otherName(_ *testing.T, a *upstream.Authority, _ []string) *tls.Config {
	return a.Config("other.example.org")
}

func oldVersion(version uint16) func(*testing.T, *upstream.Authority, []string) *tls.Config {
	return func(_ *testing.T, a *upstream.Authority, names []string) *tls.Config {
		cfg := a.Config(names...)
		cfg.MinVersion, cfg.MaxVersion = version, version
		return cfg
	}
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
