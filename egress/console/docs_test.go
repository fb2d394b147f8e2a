package console_test

import (
	"net/http"
	"net/http/httptest"
	"path"
	"testing"

	"github.com/gin-gonic/gin"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/docs"
	"weir/egress"
	"weir/egress/console"
)

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
