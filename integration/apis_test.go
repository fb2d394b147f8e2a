//go:build e2e

package integration_test

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"cmp"
	"compress/gzip"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/internal/weirtest/upstream"
)

// api is a double of an HTTP API. It records each request before it answers.
type api struct {
	*httptest.Server
	// URL names the API by its host. Weir resolves every name below localhost to this machine,
	// and no client exempts such a name from its proxy. Direct is its address instead.
	Direct string

	mu       sync.Mutex
	received []received
}

// received is one request, with its body.
type received struct {
	*http.Request
	body string
}

// text is everything that the API received of a request.
func (r received) text() string {
	return fmt.Sprint(r.Method, " ", r.RequestURI, "\n", r.Header, "\n", r.body)
}

// newAPI starts a double that ends with its test, with TLS if there is an authority.
func newAPI(tb testing.TB, name string, authority *upstream.Authority, serve http.Handler) *api {
	tb.Helper()
	a := &api{}
	a.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		a.mu.Lock()
		a.received = append(a.received, received{r, string(body)})
		a.mu.Unlock()
		r.Body = io.NopCloser(strings.NewReader(string(body)))
		serve.ServeHTTP(w, r)
	}))
	host, scheme := name+".localhost", "http://"
	_, port, err := net.SplitHostPort(a.Listener.Addr().String())
	if err != nil {
		tb.Fatal(err)
	}
	if authority == nil {
		a.Start()
	} else {
		scheme, a.TLS = "https://", authority.Config(host, "127.0.0.1")
		a.StartTLS()
	}
	a.Direct, a.URL = a.URL, scheme+net.JoinHostPort(host, port)
	tb.Cleanup(a.Close)
	return a
}

// requests are those that it has received so far.
func (a *api) requests() []received {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]received(nil), a.received...)
}

// authorized lets requests with a credential pass, and answers others as an API does.
func authorized(credential string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != credential {
			reply(w, http.StatusUnauthorized, map[string]any{"message": "Bad credentials", "error": map[string]any{"type": "invalid_request_error", "message": "Invalid API key"}})
			return
		}
		next.ServeHTTP(w, r)
	})
}

func reply(w http.ResponseWriter, status int, doc any) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(doc) //nolint:errchkjson // maps of texts and numbers
}

// archive is a file that is no text: every byte value, and a gzip header before them.
var archive = func() (b []byte) {
	b = []byte("\x1f\x8b\x08\x00")
	for i := range 1 << 10 {
		b = append(b, byte(i))
	}
	return b
}()

// codeForge is an API like that of GitHub.
func codeForge(credential string) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /user", func(w http.ResponseWriter, _ *http.Request) {
		reply(w, http.StatusOK, map[string]any{"login": "weir-agent"})
	})
	mux.HandleFunc("GET /repos/acme/shop", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `"v1"`)
		if r.Header.Get("If-None-Match") == `"v1"` {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		reply(w, http.StatusOK, map[string]any{"full_name": "acme/shop"})
	})
	mux.HandleFunc("GET /repos/acme/shop/issues", func(w http.ResponseWriter, r *http.Request) {
		const last = 5
		size, _ := strconv.Atoi(r.URL.Query().Get("per_page"))
		page, _ := strconv.Atoi(r.URL.Query().Get("page"))
		issues := []map[string]any{}
		for n := (page-1)*size + 1; n <= min(page*size, last); n++ {
			issues = append(issues, map[string]any{"number": n})
		}
		if page*size < last {
			w.Header().Set("Link", fmt.Sprintf(`<http://%s/repos/acme/shop/issues?per_page=%d&page=%d>; rel="next"`, r.Host, size, page+1))
		}
		reply(w, http.StatusOK, issues)
	})
	mux.HandleFunc("POST /repos/acme/shop/issues", func(w http.ResponseWriter, r *http.Request) {
		var issue struct {
			Title string `json:"title"`
		}
		if err := json.NewDecoder(r.Body).Decode(&issue); err != nil {
			reply(w, http.StatusUnprocessableEntity, map[string]any{"message": "Problems parsing JSON"})
			return
		}
		reply(w, http.StatusCreated, map[string]any{"number": 6, "title": issue.Title})
	})
	mux.HandleFunc("GET /repos/acme/shop/tarball/main", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/x-gzip")
		_, _ = w.Write(archive)
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		reply(w, http.StatusNotFound, map[string]any{"message": "Not Found", "documentation_url": "https://docs.example.com"})
	})
	return authorized(credential, mux)
}

// payments is an API like that of Stripe: forms in, JSON out, and a ledger of idempotency keys.
type payments struct {
	mu        sync.Mutex
	customers []map[string]any
	byKey     map[string]paid
}

// paid is the request and the answer of an idempotency key.
type paid struct {
	form   string
	answer map[string]any
}

func newPayments(credential string) http.Handler {
	p := &payments{byKey: map[string]paid{}}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/customers", p.create)
	mux.HandleFunc("GET /v1/customers", p.list)
	mux.HandleFunc("POST /v1/charges", func(w http.ResponseWriter, _ *http.Request) {
		fault(w, http.StatusPaymentRequired, "card_error", "card_declined", "Your card was declined.")
	})
	return authorized(credential, mux)
}

func fault(w http.ResponseWriter, status int, kind, code, message string) {
	reply(w, status, map[string]any{"error": map[string]any{"type": kind, "code": code, "message": message}})
}

func (p *payments) create(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	form, err := url.ParseQuery(string(body))
	if err != nil || r.Header.Get("Content-Type") != "application/x-www-form-urlencoded" {
		fault(w, http.StatusBadRequest, "invalid_request_error", "parameter_invalid", "Send a form.")
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	key := r.Header.Get("Idempotency-Key")
	before, known := p.byKey[key]
	switch {
	case key != "" && known && before.form != string(body):
		fault(w, http.StatusBadRequest, "idempotency_error", "", "Keys for idempotent requests can only be used with the same parameters.")
		return
	case key != "" && known:
		w.Header().Set("Idempotent-Replayed", "true")
		reply(w, http.StatusOK, before.answer)
		return
	}
	customer := map[string]any{
		"id": fmt.Sprintf("cus_%d", len(p.customers)+1), "object": "customer",
		"email": form.Get("email"), "name": form.Get("name"), "metadata": map[string]string{"order": form.Get("metadata[order]")},
	}
	p.customers = append(p.customers, customer)
	p.byKey[key] = paid{string(body), customer}
	reply(w, http.StatusOK, customer)
}

func (p *payments) list(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	limit, _ := strconv.Atoi(cmp.Or(r.URL.Query().Get("limit"), "10"))
	rest := p.customers
	if after := r.URL.Query().Get("starting_after"); after != "" {
		for i, customer := range p.customers {
			if customer["id"] == after {
				rest = p.customers[i+1:]
			}
		}
	}
	page := rest[:min(limit, len(rest))]
	reply(w, http.StatusOK, map[string]any{"object": "list", "url": "/v1/customers", "has_more": len(page) < len(rest), "data": page})
}

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
