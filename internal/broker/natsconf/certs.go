package natsconf

import (
	"cmp"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"
)

const (
	authorityLife = 10 * 365 * 24 * time.Hour
	serverLife    = 825 * 24 * time.Hour
	// renewBefore is when a server's certificate is made anew by another init.
	renewBefore = 90 * 24 * time.Hour
)

// authority signs the servers' certificates.
type authority struct {
	cert *x509.Certificate
	key  any // a crypto.Signer
	pem  []byte
}

// openAuthority reads the one in a directory, or creates it.
func openAuthority(dir string, now time.Time) (*authority, error) {
	a, err := readAuthority(dir)
	if a != nil || err != nil {
		return a, err
	}
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: "Weir NATS authority"}, NotAfter: now.Add(authorityLife),
		KeyUsage: x509.KeyUsageCertSign, BasicConstraintsValid: true, IsCA: true, MaxPathLenZero: true,
	}
	if err := (&authority{cert: template}).sign(template, filepath.Join(dir, "ca.pem"), filepath.Join(dir, "ca.key"), now); err != nil {
		return nil, err
	}
	return readAuthority(dir)
}

// sign writes a certificate and its new key. An authority without a key signs its own.
func (a *authority) sign(template *x509.Certificate, certFile, keyFile string, now time.Time) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	raw := make([]byte, 16)
	_, _ = rand.Read(raw) // never fails
	template.SerialNumber, template.NotBefore = new(big.Int).SetBytes(raw), now.Add(-time.Hour)
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), cmp.Or(a.key, any(key)))
	if err != nil {
		return err
	}
	keyDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return err
	}
	if err := write(keyFile, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: keyDER}), secret); err != nil {
		return err
	}
	return write(certFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), plain)
}

// readAuthority returns nil if the directory has none.
func readAuthority(dir string) (*authority, error) {
	certFile, keyFile := filepath.Join(dir, "ca.pem"), filepath.Join(dir, "ca.key")
	certPEM, err := os.ReadFile(certFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // see above
	}
	if err != nil {
		return nil, err
	}
	keyPEM, err := os.ReadFile(keyFile)
	if err != nil {
		return nil, fmt.Errorf("the key of the authority: %w; bring it back, or delete ca.pem too for another authority", err)
	}
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return nil, fmt.Errorf("%s holds no certificate, or %s holds no key of it: %w", certFile, keyFile, err)
	}
	return &authority{cert: pair.Leaf, key: pair.PrivateKey, pem: certPEM}, nil
}

// issue creates a server's certificate unless it has one by this authority that is valid for long
// enough. It is valid for both ends of a route between servers.
func (a *authority) issue(certFile, keyFile string, s Server, now time.Time) (made bool, err error) {
	names, addresses := s.names()
	if had, err := tls.LoadX509KeyPair(certFile, keyFile); err == nil {
		cert := had.Leaf
		if cert.CheckSignatureFrom(a.cert) == nil && now.Add(renewBefore).Before(cert.NotAfter) &&
			slices.Equal(cert.DNSNames, names) && slices.EqualFunc(cert.IPAddresses, addresses, net.IP.Equal) {
			return false, nil
		}
	}
	return true, a.sign(&x509.Certificate{
		Subject: pkix.Name{CommonName: s.Name}, NotAfter: now.Add(serverLife), DNSNames: names, IPAddresses: addresses,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, certFile, keyFile, now)
}

// names are those that a server's certificate is good for: its host, its own name, and this
// machine.
func (s Server) names() (names []string, addresses []net.IP) {
	names, addresses = []string{s.Name, "localhost"}, []net.IP{net.IPv4(127, 0, 0, 1).To4()}
	if ip := net.ParseIP(s.Host); ip == nil {
		names = append(names, s.Host)
	} else if !ip.Equal(addresses[0]) {
		addresses = append(addresses, ip)
	}
	return names, addresses
}
