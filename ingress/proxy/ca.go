package proxy

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"
)

const (
	leafLife = 24 * time.Hour
	maxLeafs = 1000 // that are kept
	caLife   = 10 * 365 * 24 * time.Hour
	backdate = time.Hour // clocks differ
)

// CA signs certificates of hosts for the clients of the proxy. It is safe for concurrent use.
type CA struct {
	cert *x509.Certificate
	raw  []byte
	key  any

	mu    sync.Mutex
	leafs map[string]*tls.Certificate
}

const makeOne = "; make one with `weir proxy ca DIR`"

// LoadCA reads a CA and its key from PEM files. An error says what is wrong with them.
func LoadCA(certFile, keyFile string, now time.Time) (*CA, error) {
	pair, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		return nil, fmt.Errorf("proxy.ca_cert and proxy.ca_key are no certificate with its key: %w"+makeOne, err)
	}
	c := pair.Leaf
	switch {
	case !c.IsCA || !c.BasicConstraintsValid:
		return nil, errors.New("proxy.ca_cert: the certificate is not a CA certificate" + makeOne)
	case c.KeyUsage != 0 && c.KeyUsage&x509.KeyUsageCertSign == 0:
		return nil, errors.New("proxy.ca_cert: the certificate may not sign others" + makeOne)
	case now.After(c.NotAfter) || now.Before(c.NotBefore):
		return nil, errors.New("proxy.ca_cert: the certificate is not valid today" + makeOne)
	}
	return &CA{cert: c, raw: c.Raw, key: pair.PrivateKey, leafs: map[string]*tls.Certificate{}}, nil
}

// leaf is a certificate of a host that is good for some hours at least.
func (ca *CA) leaf(host string, now time.Time) (*tls.Certificate, error) {
	ca.mu.Lock()
	defer ca.mu.Unlock()
	if made := ca.leafs[host]; made != nil && now.Add(leafLife/4).Before(made.Leaf.NotAfter) {
		return made, nil
	}
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: shorten(host)}, NotBefore: now.Add(-backdate), NotAfter: now.Add(leafLife),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	if ip := net.ParseIP(host); ip != nil {
		template.IPAddresses = []net.IP{ip}
	} else {
		template.DNSNames = []string{host}
	}
	raw, key, err := sign(template, ca.cert, ca.key)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(raw)
	if err != nil {
		return nil, err
	}
	if len(ca.leafs) >= maxLeafs {
		clear(ca.leafs)
	}
	made := &tls.Certificate{Certificate: [][]byte{raw, ca.raw}, PrivateKey: key, Leaf: cert}
	ca.leafs[host] = made
	return made, nil
}

// shorten keeps a name within the bounds of a common name.
func shorten(host string) string { return host[:min(len(host), 64)] }

// sign makes a key and a certificate of it. A nil parent stands for the certificate itself.
func sign(template, parent *x509.Certificate, by any) (raw []byte, key *ecdsa.PrivateKey, err error) {
	if key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		return nil, nil, err
	}
	if template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127)); err != nil {
		return nil, nil, err
	}
	if parent == nil {
		parent, by = template, key
	}
	raw, err = x509.CreateCertificate(rand.Reader, template, parent, key.Public(), by)
	return raw, key, err
}

// MakeCA writes a new CA into a directory, and returns its files. Existing files are left alone.
func MakeCA(dir string, now time.Time) (certFile, keyFile string, err error) {
	certFile, keyFile = filepath.Join(dir, "proxy-ca.pem"), filepath.Join(dir, "proxy-ca.key")
	for _, file := range []string{certFile, keyFile} {
		if _, err := os.Stat(file); err == nil {
			return "", "", fmt.Errorf("%s exists; choose another directory, or remove it", file)
		}
	}
	raw, key, err := sign(&x509.Certificate{
		Subject: pkix.Name{CommonName: "Weir proxy CA"}, NotBefore: now.Add(-backdate), NotAfter: now.Add(caLife),
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}, nil, nil)
	if err != nil {
		return "", "", err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return "", "", err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", "", err
	}
	if err := os.WriteFile(keyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), 0o600); err != nil {
		return "", "", err
	}
	return certFile, keyFile, os.WriteFile(certFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw}), 0o644) //nolint:gosec // clients read it
}
