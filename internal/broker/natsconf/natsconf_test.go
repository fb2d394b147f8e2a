package natsconf_test

import (
	"crypto/x509"
	"encoding/pem"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/internal/broker/access"
	"weir/internal/broker/natsconf"
)

// tree is the text of all files below a directory.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		raw, err := os.ReadFile(path)
		name, _ := filepath.Rel(dir, path)
		all[name] = string(raw)
		return err
	}))
	return all
}

func TestInitAgainChangesNothing(t *testing.T) {
	t.Parallel()
	dir, now := t.TempDir(), time.Now()
	r := must(natsconf.Init(dir, natsconf.Plan{Partitions: 2}, now))(t)
	require.Len(t, r.Made, len(access.Roles())+1+2*3, "a key for each role and for who looks after the servers, a certificate for each server")
	before := tree(t, dir)
	again := must(natsconf.Init(dir, natsconf.Plan{}, now.Add(time.Hour)))(t)
	require.Empty(t, again.Made)
	require.Equal(t, r.Plan, again.Plan)
	require.Equal(t, before, tree(t, dir))
}

// TestSecretsAreTheirOwnersAlone: nobody else reads them, no configuration has one, and what is
// copied to a server is its own key and no other: not the authority's, no other server's, and
// nobody's credentials.
func TestSecretsAreTheirOwnersAlone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := must(natsconf.Init(dir, natsconf.Plan{}, time.Now()))(t)
	must(natsconf.Tenant(dir, "a.b", time.Now()))(t)
	secrets := map[string]string{}
	for name, text := range tree(t, dir) {
		st := must(os.Stat(filepath.Join(dir, name)))(t)
		if strings.Contains(text, "PRIVATE KEY") || strings.HasPrefix(text, "SU") {
			secrets[name] = strings.TrimSpace(text)
			require.Equal(t, fs.FileMode(0o600), st.Mode().Perm(), name)
		}
		if strings.HasSuffix(name, ".conf") || strings.HasSuffix(name, ".json") {
			require.NotRegexp(t, `\bSU[A-Z2-7]{56}\b`, text, name) // a seed; a public key may have the same letters within
			require.NotContains(t, secrets, name)
		}
	}
	require.Len(t, secrets, len(access.Roles())+1+2+1+3)
	for _, s := range r.Servers {
		own := filepath.Join("servers", s.Name, "key.pem")
		require.Contains(t, secrets, own)
		for _, text := range tree(t, natsconf.ServerDir(dir, s.Name)) {
			for name, secret := range secrets {
				if name != own {
					require.NotContains(t, text, secret, "%s has %s", s.Name, name)
				}
			}
		}
	}
}

func TestCertificatesAreMadeAnewInTime(t *testing.T) {
	t.Parallel()
	dir, now := t.TempDir(), time.Now()
	must(natsconf.Init(dir, natsconf.Plan{}, now))(t)
	later := now.Add(800 * 24 * time.Hour)
	r := must(natsconf.Init(dir, natsconf.Plan{}, later))(t)
	require.Len(t, r.Made, 2*3)
	moved := natsconf.Local()
	moved[0].Host = "nats.example.com"
	r = must(natsconf.Init(dir, natsconf.Plan{Servers: moved, At: "/etc/nats"}, later))(t)
	require.Len(t, r.Made, 2, "only one server has another name")

	files := tree(t, dir)
	roots := x509.NewCertPool()
	require.True(t, roots.AppendCertsFromPEM([]byte(files["ca.pem"])))
	block, _ := pem.Decode([]byte(files["servers/n1/cert.pem"]))
	cert := must(x509.ParseCertificate(block.Bytes))(t)
	for _, name := range []string{"nats.example.com", "n1", "localhost", "127.0.0.1"} {
		_, err := cert.Verify(x509.VerifyOptions{Roots: roots, DNSName: name, CurrentTime: later})
		require.NoError(t, err, name)
	}
	require.Contains(t, files["servers/n1/nats.conf"], `listen: "0.0.0.0:4222"`)
	require.Contains(t, files["servers/n1/nats.conf"], `store_dir: "/etc/nats/data"`)
	require.Contains(t, files["servers/n2/nats.conf"], `"tls://nats.example.com:6222"`)
}

// TestTenants have accounts of their own; a removal ends them: nothing of them is left, the others are as they were, and
// who comes back under the name has other keys.
func TestTenants(t *testing.T) {
	t.Parallel()
	dir, now := t.TempDir(), time.Now()
	_, err := natsconf.Remove(dir, "acme", now)
	require.ErrorIs(t, err, natsconf.ErrNone)
	_, err = natsconf.Tenant(dir, "acme", now)
	require.ErrorIs(t, err, natsconf.ErrNone)
	must(natsconf.Init(dir, natsconf.Plan{}, now))(t)
	before := tree(t, dir)
	_, err = natsconf.Remove(dir, "acme", now)
	require.ErrorContains(t, err, "no other has")
	require.Equal(t, before, tree(t, dir))
	_, err = natsconf.Tenant(dir, "a b", now)
	require.ErrorContains(t, err, "is not the name of a tenant")
	for _, name := range []string{"zeta", "acme", "zeta"} {
		must(natsconf.Tenant(dir, name, now))(t)
	}
	with := tree(t, dir)
	text := with["servers/n1/accounts.conf"]
	require.Equal(t, []int{1, 1}, []int{strings.Count(text, `"OBSERVER_acme": {`), strings.Count(text, `"AGENT_zeta": {`)})
	require.Equal(t, text, with["servers/n3/accounts.conf"])
	must(natsconf.Init(dir, natsconf.Plan{}, now))(t)
	require.Equal(t, with, tree(t, dir), "another init keeps tenants")
	_, err = natsconf.Remove(dir, "acne", now)
	require.ErrorContains(t, err, "those that have are acme, zeta")
	require.Equal(t, with, tree(t, dir))

	r := must(natsconf.Remove(dir, "acme", now))(t)
	require.Equal(t, []string{natsconf.ObserverFile(r.Dir, "acme"), natsconf.AgentFile(r.Dir, "acme")}, r.Removed)
	for name, text := range tree(t, dir) {
		require.NotContains(t, name, "acme")
		if strings.HasSuffix(name, ".conf") || strings.HasSuffix(name, ".json") {
			require.NotContains(t, text, "acme", name)
		}
	}
	require.Contains(t, tree(t, dir)["servers/n2/accounts.conf"], `"OBSERVER_zeta": {`)
	must(natsconf.Tenant(dir, "acme", now))(t)
	again := tree(t, dir)
	require.NotEqual(t, with["credentials/tenants/acme.observer.nk"], again["credentials/tenants/acme.observer.nk"])
	require.Equal(t, with["credentials/tenants/zeta.agent.nk"], again["credentials/tenants/zeta.agent.nk"])
}

// TestFoldersOfOthers are left as they are.
func TestFoldersOfOthers(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"servers/n1/key.pem", "credentials/worker.nk", "ca.pem", "ca.key"} {
		dir := t.TempDir()
		file := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o700))
		require.NoError(t, os.WriteFile(file, []byte("x"), 0o600))
		_, err := natsconf.Init(dir, natsconf.Plan{}, time.Now())
		require.ErrorContains(t, err, "and no cluster.json")
		require.Equal(t, map[string]string{name: "x"}, tree(t, dir))
	}
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	_, err := natsconf.Init(file, natsconf.Plan{}, time.Now())
	require.Error(t, err)
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "README.md"), []byte("x"), 0o600))
	_, err = natsconf.Init(dir, natsconf.Plan{}, time.Now())
	require.NoError(t, err, "what has another name is in nobody's way")
}

func TestPlansThatCannotBe(t *testing.T) {
	t.Parallel()
	for want, p := range map[string]natsconf.Plan{
		"use 3 or 5":           {Servers: natsconf.Local()[:2]},
		"same name":            {Servers: append(natsconf.Local()[:2], natsconf.Local()[0])},
		"use 1 to 64":          {Partitions: 65},
		"at least 1 MiB":       {Store: 1},
		"not an absolute path": {At: "etc/nats"},
	} {
		dir := t.TempDir()
		_, err := natsconf.Init(dir, p, time.Now())
		require.ErrorContains(t, err, want)
		require.Empty(t, tree(t, dir))
	}
	for _, text := range []string{"", "n1", "n1=", "=h", "n1=h:x", "n1=h:0", "n1=h:1:2:3", "n 1=h", `n1=h"`, "n1=a/b"} {
		_, err := natsconf.ParseServer(text)
		require.ErrorContains(t, err, "is not a server", text)
	}
	s := must(natsconf.ParseServer("n1=nats.example.com:14222:16222"))(t)
	require.Equal(t, natsconf.Server{Name: "n1", Host: "nats.example.com", Port: 14222, Route: 16222}, s)
}

func TestDamagedFilesAreNotReplaced(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"credentials/worker.nk": "holds no seed", "cluster.json": "cannot be read", "ca.key": "holds no key", "ca.pem": "no certificate",
	} {
		dir := t.TempDir()
		must(natsconf.Init(dir, natsconf.Plan{}, time.Now()))(t)
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte("x"), 0o600))
		require.NoError(t, os.Remove(filepath.Join(dir, "credentials", "egress.nk"))) // which would be made anew
		before := tree(t, dir)
		_, err := natsconf.Init(dir, natsconf.Plan{}, time.Now())
		require.ErrorContains(t, err, want, name)
		_, err = natsconf.Tenant(dir, "acme", time.Now())
		require.ErrorContains(t, err, want, name)
		require.Equal(t, before, tree(t, dir), "nothing was changed")
	}
}

// must returns the result of a call that may not fail.
func must[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		require.NoError(t, err)
		return v
	}
}
