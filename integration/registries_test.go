//go:build e2e

package integration_test

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/internal/weirtest/upstream"
)

// newNPMRegistry is a registry of npm packages that has one: left 1.0.0.
func newNPMRegistry(t *testing.T, authority *upstream.Authority) (registry *api, integrity string) {
	t.Helper()
	var ball bytes.Buffer
	packed := gzip.NewWriter(&ball)
	files := tar.NewWriter(packed)
	for name, content := range map[string]string{
		"package/package.json": `{"name":"left","version":"1.0.0","main":"index.js"}`,
		"package/index.js":     "module.exports = 'left'\n",
	} {
		require.NoError(t, files.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(content)), Typeflag: tar.TypeReg}))
		_, err := io.WriteString(files, content)
		require.NoError(t, err)
	}
	require.NoError(t, files.Close())
	require.NoError(t, packed.Close())
	sum := sha512.Sum512(ball.Bytes())
	integrity = "sha512-" + base64.StdEncoding.EncodeToString(sum[:])
	mux := http.NewServeMux()
	mux.HandleFunc("GET /left", func(w http.ResponseWriter, r *http.Request) {
		dist := map[string]any{"integrity": integrity, "tarball": "https://" + r.Host + "/left/-/left-1.0.0.tgz"}
		version := map[string]any{"name": "left", "version": "1.0.0", "main": "index.js", "dist": dist}
		reply(w, http.StatusOK, map[string]any{"name": "left", "dist-tags": map[string]any{"latest": "1.0.0"}, "versions": map[string]any{"1.0.0": version}})
	})
	mux.HandleFunc("GET /left/-/left-1.0.0.tgz", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/octet-stream")
		_, _ = w.Write(ball.Bytes())
	})
	return newAPI(t, "registry", authority, mux), integrity
}

// npmCI installs a program's one dependency, with the environment given, and checks that it is there.
func npmCI(t *testing.T, registry *api, integrity, ca string, environ ...string) {
	t.Helper()
	dir := t.TempDir()
	program := map[string]any{"name": "program", "version": "1.0.0", "dependencies": map[string]any{"left": "1.0.0"}}
	left := map[string]any{"version": "1.0.0", "resolved": registry.URL + "/left/-/left-1.0.0.tgz", "integrity": integrity}
	lock := map[string]any{"name": "program", "version": "1.0.0", "lockfileVersion": 3, "packages": map[string]any{"": program, "node_modules/left": left}}
	for name, doc := range map[string]any{"package.json": program, "package-lock.json": lock} {
		text, err := json.Marshal(doc)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), text, 0o600))
	}
	runClient(t, dir, append(environ, "HOME="+dir), "npm", "ci", "--registry", registry.URL, "--cafile", ca, "--cache", filepath.Join(dir, "cache"), "--no-audit", "--no-fund", "--no-update-notifier", "--fetch-retries=0")
	require.FileExists(t, filepath.Join(dir, "node_modules", "left", "index.js"))
}

// newGoProxy is a proxy of Go modules that has one: example.test/left v1.0.0.
func newGoProxy(t *testing.T, authority *upstream.Authority) *api {
	t.Helper()
	const mod = "module example.test/left\n"
	var packed bytes.Buffer
	files := zip.NewWriter(&packed)
	for name, content := range map[string]string{"go.mod": mod, "left.go": "package left\n"} {
		f, err := files.Create("example.test/left@v1.0.0/" + name)
		require.NoError(t, err)
		_, err = io.WriteString(f, content)
		require.NoError(t, err)
	}
	require.NoError(t, files.Close())
	mux := http.NewServeMux()
	for name, content := range map[string]string{"v1.0.0.info": `{"Version":"v1.0.0"}`, "v1.0.0.mod": mod, "v1.0.0.zip": packed.String()} {
		mux.HandleFunc("GET /example.test/left/@v/"+name, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, content) })
	}
	return newAPI(t, "modules", authority, mux)
}

// goModDownload downloads a program's one module, with the environment given, and checks that it is there.
func goModDownload(t *testing.T, proxy *api, environ ...string) {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module program\n\ngo 1.24\n\nrequire example.test/left v1.0.0\n"), 0o600))
	environ = append(environ, "HOME="+dir, "GOPATH="+filepath.Join(dir, "go"), "GOPROXY="+proxy.URL, "GOSUMDB=off", "GOFLAGS=-modcacherw", "GOTOOLCHAIN=local")
	runClient(t, dir, environ, "go", "mod", "download")
	require.FileExists(t, filepath.Join(dir, "go", "pkg", "mod", "example.test", "left@v1.0.0", "left.go"))
}

// runClient runs a program in an environment that has no more than a path and what is given.
func runClient(t *testing.T, dir string, environ []string, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = dir
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C"}, environ...)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s %s\n%s", name, fmt.Sprint(args), out)
	return string(out)
}
