package natsconf

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
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
	key  *ecdsa.PrivateKey
	pem  []byte
}

// errNoAuthority says that a directory has none.
var errNoAuthority = errors.New("no authority")

// openAuthority reads the one in a directory, or creates it.
func openAuthority(dir string, now time.Time) (*authority, error) {
	a, err := readAuthority(dir)
	if !errors.Is(err, errNoAuthority) {
		return a, err
	}
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: "Weir NATS authority"}, NotAfter: now.Add(authorityLife),
		KeyUsage: x509.KeyUsageCertSign, BasicConstraintsValid: true, IsCA: true, MaxPathLenZero: true,
	}
	a = &authority{cert: template}
	if a.pem, a.key, err = a.sign(template, filepath.Join(dir, "ca.pem"), filepath.Join(dir, "ca.key"), now); err != nil {
		return nil, err
	}
	a.cert, err = readCert(a.pem)
	return a, err
}

// sign writes a certificate and its new key. An authority without a key signs its own.
func (a *authority) sign(template *x509.Certificate, certFile, keyFile string, now time.Time) (certPEM []byte, key *ecdsa.PrivateKey, err error) {
	if key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		return nil, nil, err
	}
	raw := make([]byte, 16)
	_, _ = rand.Read(raw) // never fails
	template.SerialNumber, template.NotBefore = new(big.Int).SetBytes(raw), now.Add(-time.Hour)
	signer := a.key
	if signer == nil {
		signer = key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), signer)
	if err != nil {
		return nil, nil, err
	}
	keyDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, nil, err
	}
	if err := write(keyFile, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: keyDER}), secret); err != nil {
		return nil, nil, err
	}
	certPEM = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return certPEM, key, write(certFile, certPEM, plain)
}

func readAuthority(dir string) (*authority, error) {
	certFile, keyFile := filepath.Join(dir, "ca.pem"), filepath.Join(dir, "ca.key")
	certPEM, err := os.ReadFile(certFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errNoAuthority
	}
	if err != nil {
		return nil, err
	}
	keyPEM, err := os.ReadFile(keyFile)
	if err != nil {
		return nil, fmt.Errorf("the key of the authority: %w; bring it back, or delete ca.pem too for another authority", err)
	}
	a := &authority{pem: certPEM}
	if a.cert, err = readCert(certPEM); err != nil {
		return nil, fmt.Errorf("%s: %w", certFile, err)
	}
	block, _ := pem.Decode(keyPEM)
	if block == nil {
		return nil, fmt.Errorf("%s holds no key", keyFile)
	}
	if a.key, err = x509.ParseECPrivateKey(block.Bytes); err != nil {
		return nil, fmt.Errorf("%s holds no key: %w", keyFile, err)
	}
	return a, nil
}

// issue creates a server's certificate unless it has one that is valid for long enough. It is valid
// for both ends of a route between servers.
func (a *authority) issue(certFile, keyFile string, s Server, now time.Time) (made bool, err error) {
	if raw, err := os.ReadFile(certFile); err == nil && a.good(raw, s, now) {
		if _, err := os.Stat(keyFile); err == nil {
			return false, nil
		}
	}
	names, addresses := s.names()
	_, _, err = a.sign(&x509.Certificate{
		Subject: pkix.Name{CommonName: s.Name}, NotAfter: now.Add(serverLife), DNSNames: names, IPAddresses: addresses,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, certFile, keyFile, now)
	return err == nil, err
}

// good reports whether a certificate is the server's, by this authority, for a while.
func (a *authority) good(raw []byte, s Server, now time.Time) bool {
	cert, err := readCert(raw)
	if err != nil || cert.CheckSignatureFrom(a.cert) != nil || now.Add(renewBefore).After(cert.NotAfter) {
		return false
	}
	names, addresses := s.names()
	return slices.Equal(cert.DNSNames, names) && slices.EqualFunc(cert.IPAddresses, addresses, net.IP.Equal)
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

func readCert(raw []byte) (*x509.Certificate, error) {
	block, _ := pem.Decode(raw)
	if block == nil {
		return nil, errors.New("no certificate")
	}
	return x509.ParseCertificate(block.Bytes)
}
