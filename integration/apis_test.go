//go:build e2e

package integration_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"

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
