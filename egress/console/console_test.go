package console_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"regexp"
	"strings"
	"testing"

	"github.com/gin-gonic/gin"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/docs"
	"weir/egress"
	"weir/egress/console"
	"weir/schemas"
)

// page is made once: it compresses its files.
var page = console.New()

func get(t *testing.T, name string, header ...string) *http.Response {
	t.Helper()
	w := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodGet, "/console/", nil)
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	require.True(t, page.Serve(w, r, name), name)
	return w.Result()
}

func text(t *testing.T, resp *http.Response) string {
	t.Helper()
	data, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	return string(data)
}

// TestThePageLoadsOnlyWhatLiesBesideIt: every file that the index names is there, and it names no other place.
func TestThePageLoadsOnlyWhatLiesBesideIt(t *testing.T) {
	t.Parallel()
	index := text(t, get(t, console.Index)) //nolint:bodyclose // text closes it
	names := regexp.MustCompile(`(?:src|href)="([^"]*)"`).FindAllStringSubmatch(index, -1)
	require.GreaterOrEqual(t, len(names), 3, "a script, its styles and an icon")
	for _, n := range names {
		name, ok := strings.CutPrefix(n[1], "/console/")
		require.True(t, ok, n[1])
		resp := get(t, name)
		require.NotEmpty(t, text(t, resp))
		require.NotEqual(t, "application/octet-stream", resp.Header.Get("Content-Type"), name)
		require.Contains(t, resp.Header.Get("Cache-Control"), "immutable", name)
	}
	require.NotRegexp(t, `<script>|<style|style=| on[a-z]+=`, index, "the policy would keep it from working")
}

func TestHeadersOfThePage(t *testing.T) {
	t.Parallel()
	resp := get(t, console.Index)
	require.NotEmpty(t, text(t, resp))
	h := resp.Header
	policy := h.Get("Content-Security-Policy")
	require.Contains(t, policy, "default-src 'none'")
	require.Contains(t, policy, "frame-ancestors 'none'")
	require.NotContains(t, policy, "unsafe")
	require.NotContains(t, policy, "http")
	require.Equal(t, "nosniff", h.Get("X-Content-Type-Options"))
	require.Equal(t, "no-referrer", h.Get("Referrer-Policy"))
	require.Equal(t, "same-origin", h.Get("Cross-Origin-Opener-Policy"))
	require.Equal(t, "DENY", h.Get("X-Frame-Options"))
	require.Equal(t, "no-cache", h.Get("Cache-Control"))
	require.Equal(t, "text/html; charset=utf-8", h.Get("Content-Type"))
}

func TestCompressedIsTheSame(t *testing.T) {
	t.Parallel()
	plain := text(t, get(t, console.Index)) //nolint:bodyclose // text closes it
	for accept, want := range map[string]bool{
		"gzip": true, "br, gzip;q=0.8": true, "GZIP": true, "gzip;q=1": true,
		"": false, "br": false, "gzip;q=0": false, "gzip; q=0.000": false, "identity": false, "xgzip": false,
	} {
		resp := get(t, console.Index, "Accept-Encoding", accept)
		require.Equal(t, "Accept-Encoding", resp.Header.Get("Vary"))
		body := text(t, resp)
		require.Equal(t, want, resp.Header.Get("Content-Encoding") == "gzip", accept)
		if want && accept != "gzip" {
			continue
		}
		if want {
			r, err := gzip.NewReader(bytes.NewReader([]byte(body)))
			require.NoError(t, err)
			data, err := io.ReadAll(r)
			require.NoError(t, err)
			body = string(data)
		}
		require.Equal(t, plain, body)
	}
}

func TestOtherNamesAreNone(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"", "assets", "assets/", "../console.go", "assets/../index.html", "index.htm", "dist/index.html"} {
		w := httptest.NewRecorder()
		require.False(t, page.Serve(w, httptest.NewRequest(http.MethodGet, "/", nil), name), name)
		require.Empty(t, w.Header())
	}
	w := httptest.NewRecorder()
	require.True(t, page.Serve(w, httptest.NewRequest(http.MethodHead, "/", nil), console.Index))
	require.Zero(t, w.Body.Len())
	require.NotEmpty(t, w.Header().Get("Content-Length"))
}

// TestTheTypesFollowTheSchemas: the schema of a document has each member that types.ts names.
func TestTheTypesFollowTheSchemas(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("ui/src/types.ts")
	require.NoError(t, err)
	doc, err := os.ReadFile("../../schemas/json/openapi.json")
	require.NoError(t, err)
	var api struct {
		Components struct {
			Schemas map[string]struct {
				Properties map[string]json.RawMessage `json:"properties"`
			} `json:"schemas"`
		} `json:"components"`
	}
	require.NoError(t, json.Unmarshal(doc, &api))
	// The names of the console's types whose schema has another name.
	names := map[string]string{"Action": "ActionView", "DeadLetter": "DeadLetterView", "PolicyEntry": "EntryView", "Policy": "PolicyView"}
	found := 0
	for _, m := range regexp.MustCompile(`(?m)^export interface (\w+)[^{]*\{\n((?:  .*\n)*)\}`).FindAllStringSubmatch(string(source), -1) {
		name := m[1]
		if other, ok := names[name]; ok {
			name = other
		}
		schema, ok := api.Components.Schemas[name]
		if !ok {
			continue
		}
		found++
		for _, member := range regexp.MustCompile(`(?m)^  (\w+)\??: `).FindAllStringSubmatch(m[2], -1) {
			_, ok := schema.Properties[member[1]]
			require.True(t, ok, "the schema %s has no member %s; types.ts names it", name, member[1])
		}
	}
	require.Greater(t, found, 20, "types.ts has types with a schema")
}

// TestTheWordsAreThoseOfTheSchemas: the page knows every kind and every status of an action, and no others.
func TestTheWordsAreThoseOfTheSchemas(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("ui/src/vocabulary.ts")
	require.NoError(t, err)
	list := func(words any) string {
		doc, err := json.Marshal(words)
		require.NoError(t, err)
		return strings.ReplaceAll(string(doc), ",", ", ") + " as const;"
	}
	require.Contains(t, string(source), "kinds = "+list(schemas.Kinds()))
	require.Contains(t, string(source), "statuses = "+list(schemas.Statuses()))
}

// TestDocs serves each page of the documentation with the headers of the console's pages.
func TestDocs(t *testing.T) {
	t.Parallel()
	engine := gin.New()
	egress.Mount(engine, []egress.Surface{console.Docs(docs.Files)})
	request := func(method, path string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		engine.ServeHTTP(w, httptest.NewRequest(method, path, nil))
		return w
	}
	types := map[string]string{".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8", ".png": "image/png"}
	for name, body := range docs.Files() {
		w := request(http.MethodGet, "/docs/"+name)
		require.Equal(t, http.StatusOK, w.Code, name)
		require.Equal(t, body, w.Body.Bytes(), name)
		h := w.Header()
		assert.Equal(t, types[path.Ext(name)], h.Get("Content-Type"), name)
		assert.Equal(t, "no-cache", h.Get("Cache-Control"), name)
		assert.Equal(t, "nosniff", h.Get("X-Content-Type-Options"), name)
		assert.Contains(t, h.Get("Content-Security-Policy"), "default-src 'none'; script-src 'self'", name)
		assert.NotContains(t, h.Get("Content-Security-Policy"), "unsafe", name)
	}
	require.Equal(t, request(http.MethodGet, "/docs/index.html").Body.String(), request(http.MethodGet, "/docs/").Body.String())
	require.Equal(t, request(http.MethodGet, "/docs/adr/README.html").Body.String(), request(http.MethodGet, "/docs/adr/README").Body.String())
	w := request(http.MethodGet, "/docs")
	require.Equal(t, http.StatusPermanentRedirect, w.Code)
	require.Equal(t, "/docs/", w.Header().Get("Location"))
	require.Empty(t, request(http.MethodHead, "/docs/style.css").Body.Bytes())
	for _, missing := range []string{"/docs/nothing.html", "/docs/site/page.html", "/docs/docs.go", "/docs/../README.md", "/docs/%2e%2e/console/"} {
		require.Equal(t, http.StatusNotFound, request(http.MethodGet, missing).Code, missing)
	}
	require.Equal(t, http.StatusNotFound, request(http.MethodPost, "/docs/").Code)
}
