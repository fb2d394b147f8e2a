//go:build e2e

package corpus_test

import (
	"crypto/tls"
	"crypto/x509"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/weirtest/upstream"
)

// TestTLSFaults: each behaviour of TLS has the fault of its name and no other. A
// careful client fails for that fault; one that forgives only that fault gets on.
func TestTLSFaults(t *testing.T) {
	t.Parallel()
	const host = "api.example.com"
	type fault struct {
		as      func(error) bool // nil: TLS itself ends, without a certificate to blame
		forgive func(c *tls.Config, peer *x509.Certificate)
	}
	invalid := func(err error) bool {
		wrong, ok := unwrapped[x509.CertificateInvalidError](err)
		return ok && wrong.Reason == x509.Expired
	}
	at := func(after time.Duration) func(*tls.Config, *x509.Certificate) {
		return func(c *tls.Config, _ *x509.Certificate) {
			c.Time = func() time.Time { return time.Now().Add(after) }
		}
	}
	trust := func(c *tls.Config, peer *x509.Certificate) {
		c.RootCAs = x509.NewCertPool()
		c.RootCAs.AddCert(peer)
	}
	unknown := func(err error) bool { _, ok := unwrapped[x509.UnknownAuthorityError](err); return ok }
	named := func(err error) bool { _, ok := unwrapped[x509.HostnameError](err); return ok }
	other := func(name string) func(*tls.Config, *x509.Certificate) {
		return func(c *tls.Config, _ *x509.Certificate) { c.ServerName = name }
	}
	old := func(version uint16) func(*tls.Config, *x509.Certificate) {
		return func(c *tls.Config, _ *x509.Certificate) { c.MinVersion, c.MaxVersion = version, version }
	}
	faults := map[string]fault{
		"tls_expired":       {invalid, at(-90 * time.Minute)},
		"tls_not_yet_valid": {invalid, at(90 * time.Minute)},
		"tls_self_signed":   {unknown, trust},
		"tls_untrusted_ca":  {unknown, trust},
		"tls_unknown_ca":    {unknown, trust},
		"tls_wrong_host":    {named, other("other.example.org")},
		"tls_wrong_name":    {named, other("other.example.org")},
		"tls_ip_san_only":   {named, other("93.184.216.34")},
		"tls_1_0":           {nil, old(tls.VersionTLS10)},
		"tls_1_1":           {nil, old(tls.VersionTLS11)},
	}
	authority := upstream.NewAuthority(t)
	for _, name := range slices.Sorted(maps.Keys(tlsFaults)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := upstream.NewTLS(t, tlsFaults[name](t, authority, []string{host}))
			var peer *x509.Certificate
			asked := false
			connect := func(change func(*tls.Config, *x509.Certificate)) error {
				c := &tls.Config{
					RootCAs: authority.Pool(), ServerName: host, MinVersion: tls.VersionTLS12,
					GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
						asked = true
						return new(tls.Certificate), nil
					},
				}
				change(c, peer)
				conn, err := (&tls.Dialer{Config: c}).DialContext(t.Context(), "tcp", s.Addr().String())
				if err == nil {
					err = conn.Close()
				}
				return err
			}
			if name == "tls_client_cert_request" {
				require.NoError(t, connect(func(*tls.Config, *x509.Certificate) {}))
				assert.True(t, asked, "the server wants no certificate")
				return
			}
			require.Contains(t, faults, name, "no test of this behaviour")
			f := faults[name]
			err := connect(func(*tls.Config, *x509.Certificate) {})
			require.Error(t, err)
			if f.as != nil {
				assert.True(t, f.as(err), "%v", err)
				verify, ok := unwrapped[*tls.CertificateVerificationError](err)
				require.True(t, ok)
				peer = verify.UnverifiedCertificates[0]
				assert.Equal(t, name == "tls_self_signed", peer.CheckSignature(peer.SignatureAlgorithm, peer.RawTBSCertificate, peer.Signature) == nil, "signed by itself")
			}
			require.NoError(t, connect(f.forgive), "there is another fault")
			assert.False(t, asked)
		})
	}
}
