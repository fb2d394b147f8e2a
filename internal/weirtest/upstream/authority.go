package upstream

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Authority signs certificates for tests.
type Authority struct {
	t    testing.TB
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// NewAuthority makes an authority nobody else trusts.
func NewAuthority(tb testing.TB) *Authority {
	tb.Helper()
	a := &Authority{t: tb, key: newKey(tb)}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"},
		NotBefore: time.Now().Add(-3 * time.Hour), NotAfter: time.Now().Add(3 * time.Hour), // longer than any leaf below
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	a.cert = sign(tb, template, template, a.key, a.key)
	return a
}

// Pool trusts the authority alone.
func (a *Authority) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return pool
}

// Files writes the authority's certificate, and the key that signs with it, as PEM files.
func (a *Authority) Files() (cert, key string) {
	a.t.Helper()
	private, err := x509.MarshalPKCS8PrivateKey(a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	dir := a.t.TempDir()
	cert, key = filepath.Join(dir, "ca.pem"), filepath.Join(dir, "ca.key")
	for name, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: a.cert.Raw}, key: {Type: "PRIVATE KEY", Bytes: private}} {
		if err := os.WriteFile(name, pem.EncodeToMemory(block), 0o600); err != nil {
			a.t.Fatal(err)
		}
	}
	return cert, key
}

// Config is a server's configuration with a certificate for these names and addresses.
func (a *Authority) Config(names ...string) *tls.Config {
	return a.ConfigUntil(time.Now().Add(time.Hour), names...)
}

// ConfigUntil is Config with a certificate that expires then.
func (a *Authority) ConfigUntil(expiry time.Time, names ...string) *tls.Config {
	return a.ConfigBetween(time.Now().Add(-2*time.Hour), expiry, names...)
}

// ConfigBetween is Config with a certificate that holds from then till then.
func (a *Authority) ConfigBetween(begin, expiry time.Time, names ...string) *tls.Config {
	a.t.Helper()
	return serverConfig(leaf(a.t, begin, expiry, names, a.cert, a.key))
}

// SelfSigned is a configuration with a certificate that no authority signed.
func SelfSigned(tb testing.TB, names ...string) *tls.Config {
	tb.Helper()
	return serverConfig(leaf(tb, time.Now().Add(-2*time.Hour), time.Now().Add(time.Hour), names, nil, nil))
}

func serverConfig(cert tls.Certificate) *tls.Config {
	return &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}
}

func leaf(tb testing.TB, begin, expiry time.Time, names []string, parent *x509.Certificate, signer *ecdsa.PrivateKey) tls.Certificate {
	tb.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "test server"},
		NotBefore: begin, NotAfter: expiry,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	key := newKey(tb)
	if parent == nil {
		parent, signer = template, key
	}
	cert := sign(tb, template, parent, key, signer)
	return tls.Certificate{Certificate: [][]byte{cert.Raw}, PrivateKey: key}
}

func newKey(tb testing.TB) *ecdsa.PrivateKey {
	tb.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	return key
}

func sign(tb testing.TB, template, parent *x509.Certificate, key, signer *ecdsa.PrivateKey) *x509.Certificate {
	tb.Helper()
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		tb.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		tb.Fatal(err)
	}
	return cert
}
