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

// authority signs the servers' certificates. Without a key it signs its own.
type authority struct {
	tls.Certificate
	pem []byte
}

// authority reads the directory's authority, or creates it.
func (f *folder) authority(now time.Time) (a authority, err error) {
	certFile, keyFile := CAFile(f.Dir), filepath.Join(f.Dir, "ca.key")
	var key []byte
	a.pem, err = os.ReadFile(certFile)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		a.Leaf = &x509.Certificate{
			Subject: pkix.Name{CommonName: "Weir NATS authority"}, NotAfter: now.Add(authorityLife),
			KeyUsage: x509.KeyUsageCertSign, BasicConstraintsValid: true, IsCA: true, MaxPathLenZero: true,
		}
		a.pem, key, err = f.sign(a, *a.Leaf, certFile, keyFile, now)
	case err == nil:
		if key, err = os.ReadFile(keyFile); err != nil {
			return a, fmt.Errorf("the key of the authority: %w; bring it back, or delete ca.pem too for another authority", err)
		}
	}
	if err != nil {
		return a, err
	}
	if a.Certificate, err = tls.X509KeyPair(a.pem, key); err != nil {
		err = fmt.Errorf("%s holds no certificate, or %s holds no key of it: %w", certFile, keyFile, err)
	}
	return a, err
}

// sign adds the files of a certificate and its new key.
func (f *folder) sign(a authority, template x509.Certificate, certFile, keyFile string, now time.Time) (cert, key []byte, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	serial := make([]byte, 16)
	_, _ = rand.Read(serial) // never fails
	template.SerialNumber, template.NotBefore = new(big.Int).SetBytes(serial), now.Add(-time.Hour)
	der, err := x509.CreateCertificate(rand.Reader, &template, a.Leaf, private.Public(), cmp.Or(a.PrivateKey, any(private)))
	if err != nil {
		return nil, nil, err
	}
	keyDER, err := x509.MarshalECPrivateKey(private)
	cert, key = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: keyDER})
	f.add(keyFile, key, secret)
	f.add(certFile, cert, plain)
	return cert, key, err
}

// issue creates a server's certificate unless it has one by this authority that is valid for long
// enough. It is valid for both ends of a route between servers, and for the server's host, its own
// name, and this machine.
func (f *folder) issue(a authority, s Server, now time.Time) error {
	names, addresses := []string{s.Name, "localhost"}, []net.IP{net.IPv4(127, 0, 0, 1).To4()}
	if ip := net.ParseIP(s.Host); ip == nil {
		names = append(names, s.Host)
	} else if !ip.Equal(addresses[0]) {
		addresses = append(addresses, ip)
	}
	certFile, keyFile := filepath.Join(ServerDir(f.Dir, s.Name), "cert.pem"), filepath.Join(ServerDir(f.Dir, s.Name), "key.pem")
	if had, err := tls.LoadX509KeyPair(certFile, keyFile); err == nil {
		cert := had.Leaf
		if cert.CheckSignatureFrom(a.Leaf) == nil && now.Add(renewBefore).Before(cert.NotAfter) &&
			slices.Equal(cert.DNSNames, names) && slices.EqualFunc(cert.IPAddresses, addresses, net.IP.Equal) {
			return nil
		}
	}
	f.Made = append(f.Made, certFile, keyFile)
	_, _, err := f.sign(a, x509.Certificate{
		Subject: pkix.Name{CommonName: s.Name}, NotAfter: now.Add(serverLife), DNSNames: names, IPAddresses: addresses,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, certFile, keyFile, now)
	return err
}
