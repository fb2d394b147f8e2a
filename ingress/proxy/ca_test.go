package proxy

import (
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func newCA(t *testing.T, now time.Time) *CA {
	t.Helper()
	cert, key, err := MakeCA(t.TempDir(), now)
	require.NoError(t, err)
	info, err := os.Stat(key)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm(), "the key is its owner's alone")
	ca, err := LoadCA(cert, key, now)
	require.NoError(t, err)
	return ca
}

// TestLeafs: a client that trusts the CA believes a host's certificate, which is kept until it gets old.
func TestLeafs(t *testing.T) {
	t.Parallel()
	now := time.Now()
	ca := newCA(t, now)
	roots := x509.NewCertPool()
	roots.AddCert(ca.cert)
	for _, host := range []string{"api.example.com", "10.1.2.3", "fd12::1"} {
		leaf, err := ca.leaf(host, now)
		require.NoError(t, err)
		_, err = leaf.Leaf.Verify(x509.VerifyOptions{DNSName: host, Roots: roots, CurrentTime: now})
		require.NoError(t, err, host)
		require.Error(t, leaf.Leaf.VerifyHostname("other.example.com"))
		require.WithinDuration(t, now.Add(24*time.Hour), leaf.Leaf.NotAfter, time.Minute)
		again, err := ca.leaf(host, now.Add(time.Hour))
		require.NoError(t, err)
		require.Same(t, leaf, again)
		late, err := ca.leaf(host, now.Add(20*time.Hour))
		require.NoError(t, err)
		require.NotSame(t, leaf, late)
	}
}

// TestLeafsAreBounded: names that clients choose do not fill the memory.
func TestLeafsAreBounded(t *testing.T) {
	t.Parallel()
	ca := newCA(t, time.Now())
	for i := range maxLeafs + 10 {
		_, err := ca.leaf(fmt.Sprintf("h%d.example", i), time.Now())
		require.NoError(t, err)
	}
	require.LessOrEqual(t, len(ca.leafs), maxLeafs)
}

// TestNoCA: a certificate that is no CA's, or not valid today, is refused.
func TestNoCA(t *testing.T) {
	t.Parallel()
	now, dir := time.Now(), t.TempDir()
	leaf, err := newCA(t, now).leaf("api.example.com", now)
	require.NoError(t, err)
	key, err := x509.MarshalPKCS8PrivateKey(leaf.PrivateKey)
	require.NoError(t, err)
	certFile, keyFile := filepath.Join(dir, "c"), filepath.Join(dir, "k")
	require.NoError(t, os.WriteFile(certFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: leaf.Certificate[0]}), 0o600))
	require.NoError(t, os.WriteFile(keyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}), 0o600))
	_, err = LoadCA(certFile, keyFile, now)
	require.ErrorContains(t, err, "is not a CA certificate; make one with `weir proxy ca DIR`")
	certFile, keyFile, err = MakeCA(filepath.Join(dir, "ca"), now)
	require.NoError(t, err)
	for _, at := range []time.Time{now.Add(-24 * time.Hour), now.Add(11 * 365 * 24 * time.Hour)} {
		_, err = LoadCA(certFile, keyFile, at)
		require.ErrorContains(t, err, "is not valid today")
	}
}

// TestToken: the forms are those of passthrough.Token, in one header.
func TestToken(t *testing.T) {
	t.Parallel()
	const given = "weir1_a"
	basic := func(pair string) string { return "Basic " + base64.StdEncoding.EncodeToString([]byte(pair)) }
	for _, tc := range []struct {
		fields []string
		want   string
	}{
		{[]string{"Bearer " + given}, given},
		{[]string{"bearer  " + given}, given},
		{[]string{basic("me:" + given)}, given},
		{[]string{basic(":" + given)}, given},
		{[]string{basic(given + ":")}, given},
		{[]string{basic(given)}, given},
		{[]string{basic(given + ":b")}, given},
		{[]string{basic("me:" + given + ":y")}, given + ":y"},
		{nil, ""},
		{[]string{"Bearer " + given, "Bearer " + given}, ""},
		{[]string{"Basic !"}, ""},
		{[]string{"Bearer x"}, ""},
		{[]string{"Digest " + given}, ""},
		{[]string{"Bearer " + given + string(make([]byte, 4096))}, ""},
	} {
		require.Equal(t, tc.want, Token(tc.fields), tc.fields)
	}
}
