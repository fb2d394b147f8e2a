//go:build e2e

package corpus_test

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/cmd/app"
	"weir/internal/config"
	"weir/internal/weirtest/upstream"
	"weir/schemas"
)

// node is a Weir under one policy. Rows pass through it one after the other, each as a tenant of
// its own and with its own upstream.
type node struct {
	*weir
	yaml  atomic.Pointer[string]
	stage atomic.Pointer[stage]
}

// lane is a sequence of rows, and the nodes that they use: one for each configuration.
type lane struct {
	authority *upstream.Authority
	all       []outboundRow // of the corpus
	rows      []outboundRow
	nodes     map[string]*node
}

// starting bounds how many nodes start at a time.
var starting = make(chan struct{}, 2)

// key names what a row needs of its node.
func (r *outboundRow) key() string {
	return fmt.Sprintf("%s %s %t", r.configuration("", r.Policy), r.secret(), r.Assert.Rule != nil)
}

// node returns the node of a row. It stops with the lane.
func (l *lane) node(t, owner *testing.T, r *outboundRow) *node {
	t.Helper()
	alone := r.Assert.PolicyReload != nil // others need the configuration as it was
	if n := l.nodes[r.key()]; n != nil && !alone {
		return n
	}
	starting <- struct{}{}
	defer func() { <-starting }()
	n := &node{weir: newWeir(owner.TempDir())}
	if r.Assert.Rule != nil {
		storeRules(t, n.dir, l.all)
	}
	n.configure(r, r.Policy)
	n.start(t, *n.yaml.Load(), app.Options{
		Load:    func() (config.Config, error) { return config.Parse("weir.yaml", []byte(*n.yaml.Load()), nil, nil) },
		Environ: []string{"WEIR_SECRET_CASE=" + cmp.Or(r.secret(), "unused"), "NATS_PASSWORD=NATS_PASSWORD_VALUE"},
		Network: app.Network{Resolver: n, Dial: n.dial, RootCAs: l.authority.Pool()},
	})
	owner.Cleanup(func() { assert.NoError(owner, n.stop()) })
	if !alone {
		l.nodes[r.key()] = n
	}
	return n
}

// configure writes the configuration for a policy.
func (n *node) configure(r *outboundRow, p outboundPolicy) {
	s := string(r.configuration(n.dir, p))
	n.yaml.Store(&s)
}

// configuration is a row's, with its data at dir. JSON is YAML.
func (r *outboundRow) configuration(dir string, p outboundPolicy) []byte {
	timeout := "30s"
	switch b := r.Upstream.Behaviour; {
	case b == "slow_headers", b == "slow_body", b == "half_close_no_response", b == "accept_hang" && r.scheme() == "http":
		timeout = "2s" // the end of an attempt ends the answer: two seconds show the same
	}
	entries := slices.Clone(p.Entries)
	for i := range entries {
		e := &entries[i]
		if e.Idempotency != nil {
			i := *e.Idempotency
			i.TTL, i.Seconds = fmt.Sprintf("%gs", i.Seconds), 0
			e.Idempotency = &i
		}
		if e.Secret != nil {
			e.Headers = map[string]string{e.Secret.Header: strings.ReplaceAll(e.Secret.Format, "{value}", "${secret:CASE}")}
		} else if r.secret() != "" {
			e.Headers = map[string]string{"X-Upstream-Key": "${secret:CASE}"}
		}
		e.Secret = nil
	}
	return encode(map[string]any{
		"listen": "127.0.0.1:0", "data": dir, "proxy": map[string]any{"listen": "127.0.0.1:0"},
		"auth":      map[string]any{"mode": "tokens", "admin_token_file": filepath.Join(dir, "admin.token")},
		"log":       map[string]any{"durability": "process"},
		"telemetry": map[string]any{"log_level": "debug"},
		"limits":    map[string]any{"body": "4MiB"},
		"policy":    map[string]any{"timeout": timeout, "allowed_hosts": []string{}, "allowlist": entries},
	})
}

// secret is what the row's entry adds to its calls. A row whose upstream answers with a secret
// that no entry has is about a secret all the same.
func (r *outboundRow) secret() string {
	if r.Assert.SecretValue == "" && len(r.Assert.AbsentEverywhere) > 0 && strings.Contains(r.Upstream.Body, r.Assert.AbsentEverywhere[0]) {
		return r.Assert.AbsentEverywhere[0]
	}
	return r.Assert.SecretValue
}

// LookupNetIP asks the network of the row at hand.
func (n *node) LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error) {
	return n.stage.Load().network.LookupNetIP(ctx, network, host)
}

func (n *node) dial(ctx context.Context, network, address string) (net.Conn, error) {
	return n.stage.Load().network.Dial(ctx, network, address)
}

// as returns the token of a tenant that may do everything but what is the operator's.
func (n *node) as(t *testing.T, tenant string) string {
	t.Helper()
	return n.token(t, schemas.TokenRequest{Tenant: tenant, Scopes: []string{schemas.ScopeAdmin}}).Secret
}

// stage is the far side of one row: its server, and the network that leads there.
type stage struct {
	server    *upstream.Server
	network   *upstream.Network
	authority *upstream.Authority

	mu      sync.Mutex
	offered []string // protocols in the handshakes of clients
	shown   int      // certificates that clients showed
}

// newStage sets up a row's far side. Every address leads to the one server, which speaks TLS
// if the row's URL does.
func newStage(t *testing.T, r *outboundRow, authority *upstream.Authority) *stage {
	t.Helper()
	script, err := r.behaviours()
	require.NoError(t, err)
	s := &stage{}
	s.authority = authority
	if r.scheme() == "https" {
		s.server = upstream.NewTLS(t, s.tls(t, r, authority), script...)
	} else {
		s.server = upstream.New(t, script...)
	}
	names := map[string][][]string{}
	for host, answers := range r.Resolver {
		for _, a := range answers {
			names[host] = append(names[host], a)
		}
	}
	s.network = upstream.NewNetwork(s.server.Addr(), names)
	switch r.Upstream.Behaviour {
	case "connect_refused":
		s.network.Refuse = r.addresses()
	case "syn_blackhole":
		s.network.Swallow = r.addresses()
	}
	return s
}

// certifiable are the names and addresses that a certificate can be made for.
var certifiable = regexp.MustCompile(`^[a-z0-9:._-]+$`)

// tls is the server's side of a handshake, as the row wants it.
func (s *stage) tls(t *testing.T, r *outboundRow, authority *upstream.Authority) *tls.Config {
	t.Helper()
	names := slices.DeleteFunc(r.hosts(), func(n string) bool { return !certifiable.MatchString(n) })
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

// contacted says how a host was reached for, or nothing: by name, by address, or in a Host field.
func (s *stage) contacted(r *outboundRow, host string) string {
	if slices.Contains(s.network.Lookups(), host) {
		return "looked up"
	}
	for _, address := range append(slices.Concat(r.Resolver[host]...), host) {
		if slices.Contains(s.network.Dialed(), address) {
			return "dialled at " + address
		}
	}
	for _, got := range s.server.Ledger() {
		name, _, err := net.SplitHostPort(got.Header("Host"))
		if err != nil {
			name = got.Header("Host")
		}
		if strings.EqualFold(name, host) {
			return "requested: " + got.Target
		}
	}
	return ""
}
