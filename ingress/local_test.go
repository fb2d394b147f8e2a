package ingress

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/gin-gonic/gin"
	"github.com/stretchr/testify/assert"
)

// good holds for one token.
func good(r *http.Request) bool { return r.Header.Get("Authorization") == "Bearer good" }

func TestLocal(t *testing.T) {
	t.Parallel()
	tests := []struct {
		host, origin string
		want         bool
	}{
		{"localhost", "", true},
		{"LOCALHOST:8092", "", true},
		{"127.0.0.1:8092", "", true},
		{"127.9.9.9", "", true},
		{"[::1]:8092", "", true},
		{"[::1]", "", true},
		{"localhost:8092", "http://localhost:3000", true},
		{"localhost:8092", "http://[::1]:3000", true},
		{"attacker.example:8092", "", false},
		{"localhost.attacker.example", "", false},
		{"10.0.0.1:8092", "", false},
		{"", "", false},
		{"localhost:8092", "https://attacker.example", false},
		{"localhost:8092", "null", false},
	}
	engine := NewEngine(EngineConfig{Local: true, Known: good})
	engine.GET("/x", func(c *gin.Context) { c.Status(http.StatusNoContent) })
	for _, tt := range tests {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/x", nil)
		r.Host = tt.host
		if tt.origin != "" {
			r.Header.Set("Origin", tt.origin)
		}
		w := httptest.NewRecorder()
		engine.ServeHTTP(w, r)
		want := http.StatusForbidden
		if tt.want {
			want = http.StatusNoContent
		}
		assert.Equal(t, want, w.Code, "%s from %s", tt.host, tt.origin)
	}
	for token, want := range map[string]int{"Bearer good": 204, "Bearer bad": 403} { // a container names the machine otherwise
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/x", nil)
		r.Host = "host.docker.internal:8092"
		r.Header.Set("Authorization", token)
		w := httptest.NewRecorder()
		engine.ServeHTTP(w, r)
		assert.Equal(t, want, w.Code, token)
		r.Header.Set("Origin", "https://attacker.example")
		w = httptest.NewRecorder()
		engine.ServeHTTP(w, r)
		assert.Equal(t, http.StatusForbidden, w.Code, "a page of another machine, with "+token)
	}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/x", nil)
	r.Host = "localhost:8092"
	for site, want := range map[string]int{"none": 204, "same-origin": 204, "same-site": 204, "cross-site": 403} {
		r.Header.Set("Sec-Fetch-Site", site)
		w := httptest.NewRecorder()
		engine.ServeHTTP(w, r)
		assert.Equal(t, want, w.Code, site)
	}
}
