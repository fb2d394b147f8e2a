package app

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/ingress/proxy"
	"weir/internal/config"
	"weir/internal/weirtest/table"
	"weir/schemas"
)

// here resolves every name to this machine.
type here struct{}

func (here) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
}

// proxied is a client of the proxy that trusts a CA.
func (a *App) proxied(t *testing.T, token string, trusted *x509.CertPool) *http.Client {
	t.Helper()
	at, err := url.Parse(a.ProxyURL())
	require.NoError(t, err)
	if token != "" {
		at.User = url.UserPassword("weir", token)
	}
	transport := &http.Transport{Proxy: http.ProxyURL(at), TLSClientConfig: &tls.Config{RootCAs: trusted, MinVersion: tls.VersionTLS12}}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// TestInspect: a client that knows nothing of Weir reaches an https target with the entry's secret, and
// each of its requests is an action.
func TestInspect(t *testing.T) {
	t.Parallel()
	upstream := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("X-Target", "yes")
		w.WriteHeader(http.StatusTeapot)
		_, _ = fmt.Fprintf(w, "%s %s %s|%s|%s", r.Method, r.Host, r.RequestURI, r.Header.Get("X-Key"), body)
	}))
	t.Cleanup(upstream.Close)
	_, port, _ := net.SplitHostPort(upstream.Listener.Addr().String())
	trust := x509.NewCertPool()
	trust.AddCert(upstream.Certificate())
	cert, key, err := proxy.MakeCA(t.TempDir(), time.Now())
	require.NoError(t, err)
	a := newApp(t, withTokens+fmt.Sprintf("proxy: {listen: \"127.0.0.1:0\", ca_cert: %q, ca_key: %q}\n", cert, key)+
		"policy:\n  allowlist:\n  - {name: api, url_prefix: \"https://example.com:"+port+"/v1\", methods: [GET, POST], network: loopback, connect: inspect, caller_params: [y], headers: {X-Key: \"${secret:API}\"}}\n",
		func(o *Options) {
			o.Environ = []string{"WEIR_SECRET_API=very-secret-key"}
			o.Network = Network{Resolver: here{}, RootCAs: trust}
		})
	admin := a.admin(t)
	one, made := admin.grant(t, `{"name":"one","scopes":["actions:write","actions:read"]}`)
	own := x509.NewCertPool()
	pem, err := os.ReadFile(cert)
	require.NoError(t, err)
	require.True(t, own.AppendCertsFromPEM(pem))
	client := a.proxied(t, one.token, own)
	base := "https://example.com:" + port

	resp, body := fetch(t, client, http.MethodPost, base+"/v1/x?y=z", "hello", "Content-Type", "text/plain")
	require.Equal(t, http.StatusTeapot, resp.StatusCode, body)
	require.Equal(t, "yes", resp.Header.Get("X-Target"))
	require.Equal(t, "POST example.com:"+port+" /v1/x?y=z|REDACTED|hello", strings.Replace(body, "very-secret-key", "REDACTED", 1))
	id := resp.Header.Get("Weir-Action-Id")
	require.NotEmpty(t, id)
	status, view, _ := one.do(t, http.MethodGet, "/v1/actions/"+id, "")
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, view, `"kind":"passthrough"`)
	require.NotContains(t, view, "very-secret-key")

	resp, body = fetch(t, client, http.MethodGet, base+"/other", "")
	require.Equal(t, http.StatusForbidden, resp.StatusCode, "each request is checked: the path")
	require.Equal(t, "DENY_PATH", resp.Header.Get("Weir-Refused"), body)
	resp, _ = fetch(t, client, http.MethodDelete, base+"/v1/x", "")
	require.Equal(t, "DENY_METHOD", resp.Header.Get("Weir-Refused"))

	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, base+"/v1/x", http.NoBody)
	require.NoError(t, err)
	req.Host = "victim.example"
	misdirected, err := client.Do(req)
	require.NoError(t, err)
	require.NoError(t, misdirected.Body.Close())
	require.Equal(t, http.StatusMisdirectedRequest, misdirected.StatusCode, "another Host")

	shakes := func(name string) (*connected, error) {
		c := a.opens(t, "example.com:"+port, "Bearer "+one.token, "")
		return c, tls.Client(c.TCPConn, &tls.Config{ServerName: name, RootCAs: own, MinVersion: tls.VersionTLS12}).HandshakeContext(t.Context())
	}
	_, err = shakes("victim.example")
	require.Error(t, err, "another name in TLS")
	audits, records := admin.tunnelAudits(t, `"end":"name"`)
	for i, a := range audits {
		require.Equal(t, a.End == schemas.TunnelName, records[i].Code == schemas.DenyHost)
	}

	c, err := shakes("example.com")
	require.NoError(t, err)
	c.cut(t, func() { admin.revoke(t, made.ID) })
	admin.tunnelAudits(t, `"end":"revoked"`)
}

// TestAbsoluteForm: a plain http request through the proxy is an action too.
func TestAbsoluteForm(t *testing.T) {
	t.Parallel()
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/empty":
			w.WriteHeader(http.StatusNotFound)
		default:
			_, _ = fmt.Fprintf(w, "%s %s|%s%s", r.Method, r.RequestURI, r.Header.Get("Proxy-Authorization"), r.Header.Get("Authorization"))
		}
	}))
	t.Cleanup(upstream.Close)
	a := newApp(t, withTokens+withProxy+"policy: {allowed_hosts: [127.0.0.1]}\n")
	admin := a.admin(t)
	client := a.proxied(t, admin.token, nil)
	resp, body := fetch(t, client, http.MethodGet, upstream.URL+"/a?b", "")
	require.Equal(t, []any{http.StatusOK, "GET /a?b|"}, []any{resp.StatusCode, body})
	require.NotEmpty(t, resp.Header.Get("Weir-Action-Id"))
	resp, body = fetch(t, client, http.MethodGet, upstream.URL+"/empty", "")
	require.Equal(t, []any{http.StatusNotFound, ""}, []any{resp.StatusCode, body})
	resp, body = fetch(t, client, http.MethodGet, "http://new.example/", "")
	require.Equal(t, []any{http.StatusForbidden, "DENY_HOST"}, []any{resp.StatusCode, resp.Header.Get("Weir-Refused")}, body)
	resp, body = fetch(t, a.proxied(t, "", nil), http.MethodGet, upstream.URL+"/a", "")
	require.Equal(t, http.StatusProxyAuthRequired, resp.StatusCode, body)
	require.NotEmpty(t, resp.Header.Get("Proxy-Authenticate"))
	resp, _ = fetch(t, client, http.MethodGet, a.URL()+"/v1/actions", "")
	require.Equal(t, "DENY_ADDRESS", resp.Header.Get("Weir-Refused"), "Weir itself is no target")
}

// TestBadCA: a file that is no CA is refused at start, with how to make one.
func TestBadCA(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cert, key, err := proxy.MakeCA(dir, time.Now())
	require.NoError(t, err)
	_, otherKey, err := proxy.MakeCA(filepath.Join(dir, "other"), time.Now())
	require.NoError(t, err)
	_, _, err = proxy.MakeCA(dir, time.Now())
	require.ErrorContains(t, err, "exists; choose another directory")
	server := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(server.Close)
	text := filepath.Join(dir, "text")
	require.NoError(t, os.WriteFile(text, []byte("no certificate"), 0o600))
	table.Run(t, map[string]struct{ cert, key, says string }{
		"no PEM":      {text, key, "no certificate with its key"},
		"no file":     {filepath.Join(dir, "none"), key, "no certificate with its key"},
		"another key": {cert, otherKey, "no certificate with its key"},
		"swapped":     {key, cert, "no certificate with its key"},
	}, func(t *testing.T, tc struct{ cert, key, says string }) {
		cfg, err := config.Parse("test", fmt.Appendf(nil, "listen: 127.0.0.1:0\ndata: %q\nproxy: {listen: \"127.0.0.1:0\", ca_cert: %q, ca_key: %q}", t.TempDir(), tc.cert, tc.key), nil, nil)
		require.NoError(t, err)
		_, err = New(t.Context(), Options{Config: cfg, Log: io.Discard})
		require.ErrorContains(t, err, tc.says)
		require.ErrorContains(t, err, "weir proxy ca DIR")
	})
}
