package app

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestATargetThatAsksOneTenantIsCalledForAnother: a 429 with a long Retry-After holds back the tenant that received it,
// and no other.
func TestATargetThatAsksOneTenantIsCalledForAnother(t *testing.T) {
	t.Parallel()
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/limited") {
			w.Header().Set("Retry-After", "299")
			w.WriteHeader(http.StatusTooManyRequests)
		}
	}))
	t.Cleanup(target.Close)
	a := newApp(t, withTokens+"deadline: {http: 1h}\n")
	admin := a.admin(t)
	first, second := admin.twoTenants(t)
	ask := func(who caller, path string, header ...string) (int, string) {
		status, text, _ := who.do(t, http.MethodPost, "/v1/execute", fmt.Sprintf(`{"method":"GET","url":%q}`, target.URL+path), header...)
		return status, text
	}
	status, text := ask(first, "/limited", "Prefer", "wait=1")
	require.Equal(t, http.StatusAccepted, status, text)
	_, text, _ = admin.do(t, http.MethodGet, "/v1/operations", "")
	require.Contains(t, text, `"tenants":["first"]`)
	status, text = ask(first, "/free", "Prefer", "wait=1")
	require.Equal(t, http.StatusAccepted, status, text)
	status, text = ask(second, "/free")
	require.Equal(t, http.StatusOK, status, text)
}
