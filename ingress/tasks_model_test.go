package ingress_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"weir/ingress"
	"weir/internal/models"
	"weir/schemas"
)

// A task names no model of ours that its holder could not ask.
func TestModelOfATask(t *testing.T) {
	t.Parallel()
	who := func(models, entries []string) ingress.Identity {
		return ingress.Identity{Tenant: "default", ID: "tok", Scopes: []string{schemas.ScopeTasksWrite}, Models: models, Entries: entries}
	}
	none := func(c *ingress.ChatConfig) {
		c.Models = func() *models.Set { s, _ := models.Compile(nil); return s }
	}
	for name, tc := range map[string]struct {
		who    ingress.Identity
		model  string
		chat   func(*ingress.Config)
		status int
		code   schemas.Code
	}{
		"an exact name":          {who(nil, nil), "vendor/big", desk(), 201, ""},
		"an alias":               {who(nil, nil), "fast", desk(), 201, ""},
		"of a pattern":           {who(nil, nil), "other/any", desk(), 201, ""},
		"its creator's":          {who([]string{"vendor/*"}, []string{"model:one", "git"}), "fast", desk(), 201, ""},
		"nobody's":               {who(nil, nil), "nobody", desk(), 201, ""},
		"nobody's, of a few":     {who([]string{"vendor/small"}, nil), "nobody", desk(), 201, ""},
		"another's":              {who([]string{"vendor/small"}, nil), "vendor/big", desk(), 403, schemas.Forbidden},
		"at another's entry":     {who(nil, []string{"model:two", "git"}), "vendor/big", desk(), 403, schemas.Forbidden},
		"there are none":         {who([]string{"vendor/small"}, nil), "nobody", desk(none), 201, ""},
		"completions not served": {who([]string{"vendor/small"}, nil), "nobody", func(*ingress.Config) {}, 201, ""},
	} {
		h := lobby(t, tc.chat, scoped(tc.who))
		a := h.do(t, post("/v1/tasks", `{"request_id":"t","description":"d","repo":"app","model":"`+tc.model+`"}`))
		require.Equal(t, tc.status, a.Code, "%s: %s", name, a.Body)
		if tc.code == "" {
			continue
		}
		require.Equal(t, "application/problem+json", a.Header().Get("Content-Type"), name)
		require.Equal(t, string(tc.code), a.field("code"), name)
		require.Contains(t, a.field("detail"), "at /model: ", name)
		require.Zero(t, h.records(t), name)
	}
}
