package egress_test

import (
	"context"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/egress"
	"weir/internal/fault"
	"weir/internal/models"
	"weir/internal/task"
	"weir/schemas"
)

// shop is a house with models, of which the token of thrifty may use some.
func shop(t *testing.T) *house {
	t.Helper()
	up := func(name string) []schemas.ModelUpstream { return []schemas.ModelUpstream{{Name: name}} }
	set, err := models.Compile([]schemas.Model{
		{Name: "openai/gpt", Upstreams: up("azure"), Context: 128000, Price: &schemas.ModelPrice{Input: 150_000, Output: 600_000}},
		{Name: "local/*", Upstreams: up("here")},
		{Name: "fast", Alias: "openai/gpt"},
	})
	require.NoError(t, err)
	return build(t, func(c *egress.Config) {
		c.Models = func() *models.Set { return set }
		c.Reader = func(r *http.Request, scope string) (egress.Reader, error) {
			who, err := readerOf(r, scope)
			switch who.Tenant {
			case "thrifty":
				who.Models = []string{"local/*"}
			case "auditor":
				who.Scopes = []string{schemas.ScopeEvidenceRead}
			case "asker":
				who.Scopes = []string{schemas.ScopeActionsWrite}
			}
			return who, err
		}
		c.Holder = func(_ context.Context, token string) (egress.Reader, error) {
			switch token {
			case agent():
				return egress.Reader{Tenant: "acme", Models: []string{"openai/gpt"}}, nil
			case agentOf("bound"):
				return egress.Reader{Tenant: "acme", Entries: []string{"model:here"}}, nil
			}
			return egress.Reader{}, fault.New(schemas.Unauthorized, "no such task")
		}
	})
}

func agent() string { return agentOf("t") }

func agentOf(id string) string { return task.New("acme", id, 0, [32]byte{}).Text() }

func TestModels(t *testing.T) {
	t.Parallel()
	h := shop(t)
	const (
		gpt   = `{"id":"openai/gpt","object":"model","created":0,"owned_by":"openai","context_length":128000,"pricing":{"prompt":"0.00000015","completion":"0.0000006","request":"0"}}`
		fast  = `{"id":"fast","object":"model","created":0,"owned_by":"openai","context_length":128000,"pricing":{"prompt":"0.00000015","completion":"0.0000006","request":"0"}}`
		local = `{"id":"local/*","object":"model","created":0,"owned_by":"local"}`
		llama = `{"id":"local/llama/3","object":"model","created":0,"owned_by":"local"}`
		none  = `{"error":{"message":"there is no such model, or it may not be used with this token","type":"invalid_request_error","param":"model","code":"model_not_found","metadata":{"code":"MODEL_NOT_FOUND","status":404}}}`
	)
	list := func(all string) string { return `{"object":"list","data":[` + all + `]}` }
	for _, tc := range []struct {
		path, who string
		status    int
		want      string
	}{
		{"/models", "acme", 200, list(fast + "," + local + "," + gpt)},
		{"/models", "asker", 200, list(fast + "," + local + "," + gpt)},
		{"/models/", "acme", 200, list(fast + "," + local + "," + gpt)},
		{"/models", "thrifty", 200, list(local)},
		{"/models", agent(), 200, list(fast + "," + gpt)},
		{"/models", "acme/model:here", 200, list(local)},
		{"/models", "acme/model:azure", 200, list(fast + "," + gpt)},
		{"/models", "acme/github", 200, list("")},
		{"/models", agentOf("bound"), 200, list(local)},
		{"/models/fast", "acme/model:here", 404, none},
		{"/models/local/llama/3", "acme/model:here", 200, llama},
		{"/models/openai/gpt", agentOf("bound"), 404, none},
		{"/models/openai/gpt", "acme", 200, gpt},
		{"/models/fast", "acme", 200, fast},
		{"/models/local/llama/3", "acme", 200, llama},
		{"/models/local%2Fllama%2F3", "acme", 200, llama},
		{"/models/openai/gpt", agent(), 200, gpt},
		{"/models/openai/gpt", "thrifty", 404, none},
		{"/models/local/llama/3", agent(), 404, none},
		{"/models/other", "acme", 404, none},
		{"/models/../x", "acme", 404, none},
		{"/models", "", 401, `{"error":{"message":"a token is needed","type":"authentication_error","param":null,"code":"invalid_api_key","metadata":{"code":"UNAUTHORIZED","status":401}}}`},
		{"/models", "auditor", 403, ""},
		{"/models/fast", "auditor", 403, ""},
		{"/models", agent() + "x", 401, `{"error":{"message":"no such task","type":"authentication_error","param":null,"code":"invalid_api_key","metadata":{"code":"UNAUTHORIZED","status":401}}}`},
	} {
		for _, base := range []string{"", "/v1", "/api", "/api/v1"} {
			w := h.ask(http.MethodGet, base+tc.path, tc.who)
			require.Equal(t, tc.status, w.Code, "%s %s", base+tc.path, tc.who)
			require.Equal(t, "application/json", w.Header().Get("Content-Type"))
			if tc.want != "" {
				require.JSONEq(t, tc.want, w.Body.String(), "%s %s", base+tc.path, tc.who)
			}
			require.Equal(t, tc.status, h.ask(http.MethodHead, base+tc.path, tc.who).Code)
		}
	}
}

func TestANodeWithoutModels(t *testing.T) {
	t.Parallel()
	require.Equal(t, http.StatusNotFound, build(t).get("/models").Code)
	h := build(t, func(c *egress.Config) { c.Models = func() *models.Set { return nil } })
	require.JSONEq(t, `{"object":"list","data":[]}`, h.get("/v1/models").Body.String())
}
