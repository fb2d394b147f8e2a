package egress_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"weir/egress"
	"weir/internal/fault"
	"weir/internal/models"
	"weir/internal/problem"
	"weir/internal/task"
	"weir/schemas"
)

// shop is a house with models, of which the token of thrifty may use some.
func shop(t *testing.T) *env {
	t.Helper()
	up := func(name string) []schemas.ModelUpstream { return []schemas.ModelUpstream{{Name: name}} }
	set := models.New([]schemas.Model{
		{Name: "openai/gpt", Upstreams: up("azure"), Context: 128000, Price: &schemas.ModelPrice{Input: 150_000, Output: 600_000}},
		{Name: "local/*", Upstreams: up("here")},
		{Name: "fast", Alias: "openai/gpt"},
	})
	return build(t, func(c *config) {
		c.Models = func() *models.Set { return set }
		c.Lists = func(up schemas.ModelUpstream) []schemas.ListedModel {
			if up.Name == "here" {
				return []schemas.ListedModel{{ID: "local/phi"}, {ID: "other/phi"}}
			}
			return nil
		}
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
				return egress.Reader{Token: schemas.Token{Tenant: "acme", Models: []string{"openai/gpt"}}}, nil
			case agentOf("bound"):
				return egress.Reader{Token: schemas.Token{Tenant: "acme", Entries: []string{"model:here"}}}, nil
			case agentOf("one"):
				return egress.Reader{Token: schemas.Token{Tenant: "acme", Models: []string{"openai/*"}}, Model: "fast"}, nil
			case agentOf("none"):
				return egress.Reader{Token: schemas.Token{Tenant: "acme", Models: []string{"local/*"}}, Model: "fast"}, nil
			}
			return egress.Reader{}, fault.New(schemas.Unauthorized, "no such task")
		}
	})
}

func agent() string { return agentOf("t") }

func agentOf(id string) string { return task.New("acme", id, 0, [32]byte{}).Text() }

// modelDoc is a model as it is shown.
func modelDoc(id, owner, more string) string {
	return `{"id":"` + id + `","object":"model","type":"model","created":0,"created_at":"1970-01-01T00:00:00Z","owned_by":"` + owner + `","display_name":"` + id + `"` + more + `}`
}

func TestModels(t *testing.T) {
	t.Parallel()
	h := shop(t)
	const (
		priced = `,"context_length":128000,"pricing":{"prompt":"0.00000015","completion":"0.0000006","request":"0"}`
		none   = `{"error":{"message":"there is no such model, or it may not be used with this token; GET /models lists those that may","type":"invalid_request_error","param":"model","code":"model_not_found","metadata":{"code":"MODEL_NOT_FOUND","status":404}}}`
	)
	gpt, fast := modelDoc("openai/gpt", "openai", priced), modelDoc("fast", "openai", priced+`,"alias_of":"openai/gpt"`)
	phi, llama := modelDoc("local/phi", "local", ""), modelDoc("local/llama/3", "local", "")
	list := func(all ...string) string {
		first, last := "null", "null"
		if len(all) > 0 {
			first, last = gjson.Get(all[0], "id").Raw, gjson.Get(all[len(all)-1], "id").Raw
		}
		return `{"object":"list","data":[` + strings.Join(all, ",") + `],"has_more":false,"first_id":` + first + `,"last_id":` + last + `}`
	}
	for _, tc := range []struct {
		path, who string
		status    int
		want      string
	}{
		{"/models", "acme", 200, list(fast, phi, gpt)},
		{"/models?client_version=1&limit=1000&x=y", "acme", 200, list(fast, phi, gpt)},
		{"/models", "asker", 200, list(fast, phi, gpt)},
		{"/models/", "acme", 200, list(fast, phi, gpt)},
		{"/models", "thrifty", 200, list(phi)},
		{"/models", agent(), 200, list(fast, gpt)},
		{"/models", "acme/model:here", 200, list(phi)},
		{"/models", "acme/model:azure", 200, list(fast, gpt)},
		{"/models", "acme/model:none", 200, list()},
		{"/models", agentOf("bound"), 200, list(phi)},
		{"/models", agentOf("one"), 200, list(fast)},
		{"/models/openai/gpt", agentOf("one"), 404, none},
		{"/models/fast", agentOf("none"), 404, none},
		{"/models/fast", "acme", 200, fast},
		{"/models/fast", "acme/model:here", 404, none},
		{"/models/local/llama/3", "acme/model:here", 200, llama},
		{"/models/openai/gpt", agentOf("bound"), 404, none},
		{"/models/openai/gpt", "acme", 200, gpt},
		{"/models/local/llama/3", "acme", 200, llama},
		{"/models/local%2Fllama%2F3", "acme", 200, llama},
		{"/models/openai/gpt", "thrifty", 404, none},
		{"/models/local/llama/3", agent(), 404, none},
		{"/models/local/*", "acme", 404, none},
		{"/models/../x", "acme", 404, none},
		{"/models", "", 401, `{"error":{"message":"a token is needed","type":"authentication_error","param":null,"code":"invalid_api_key","metadata":{"code":"UNAUTHORIZED","status":401}}}`},
		{"/models", "auditor", 403, ""},
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

// The clients of Messages read the id of a request in a header of their own.
func TestModelsOfAnthropicAreIdentified(t *testing.T) {
	t.Parallel()
	h := shop(t)
	for _, path := range []string{"/v1/models", "/v1/models/gone"} {
		r := httptest.NewRequestWithContext(problem.WithRequestID(t.Context(), "r-1"), http.MethodGet, path, http.NoBody)
		r.Header.Set("Authorization", "Bearer acme")
		r.Header.Set("Anthropic-Version", "2023-06-01")
		w := httptest.NewRecorder()
		h.engine.ServeHTTP(w, r)
		require.Equal(t, "r-1", w.Header().Get("Request-Id"), path)
	}
}

// TestModelsOfAnthropic: their clients read pages, and get errors in their form.
func TestModelsOfAnthropic(t *testing.T) {
	t.Parallel()
	h := shop(t)
	ask := func(path, who string) (*httptest.ResponseRecorder, schemas.ModelList) {
		w := h.ask(http.MethodGet, "/v1/models"+path, who, "Anthropic-Version", "2023-06-01")
		var list schemas.ModelList
		if w.Code == http.StatusOK {
			require.NoError(t, json.Unmarshal(w.Body.Bytes(), &list))
		}
		return w, list
	}
	for query, want := range map[string]struct {
		ids  string
		more bool
	}{
		"":                              {"fast local/phi openai/gpt", false},
		"?limit=1":                      {"fast", true},
		"?limit=3":                      {"fast local/phi openai/gpt", false},
		"?limit=1&after_id=fast":        {"local/phi", true},
		"?limit=2&after_id=fast":        {"local/phi openai/gpt", false},
		"?after_id=gone":                {"local/phi openai/gpt", false},
		"?after_id=openai/gpt":          {"", false},
		"?limit=1&before_id=openai/gpt": {"local/phi", true},
		"?limit=2&before_id=openai/gpt": {"fast local/phi", false},
		"?before_id=fast":               {"", false},
	} {
		w, list := ask(query, "acme")
		require.Equal(t, http.StatusOK, w.Code, query)
		var ids []string
		for _, m := range list.Data {
			ids = append(ids, m.ID)
		}
		require.Equal(t, want.ids, strings.Join(ids, " "), query)
		require.Equal(t, want.more, list.HasMore, query)
		if len(ids) == 0 {
			require.Nil(t, list.FirstID)
			require.Nil(t, list.LastID)
		} else {
			require.Equal(t, [...]string{ids[0], ids[len(ids)-1]}, [...]string{*list.FirstID, *list.LastID})
		}
	}
	for path, want := range map[string]string{
		"?limit=0":                "400 invalid_request_error",
		"?limit=1&limit=2":        "400 invalid_request_error",
		"?after_id=a&before_id=b": "400 invalid_request_error",
		"/none":                   "404 not_found_error",
	} {
		w, _ := ask(path, "acme")
		e := gjson.Parse(w.Body.String())
		require.Equal(t, want, fmt.Sprint(w.Code, " ", e.Get("error.type")), path)
		require.Equal(t, "error", e.Get("type").Str)
		require.NotEmpty(t, e.Get("error.message").Str)
	}
	w, list := ask("", agent())
	require.Equal(t, http.StatusOK, w.Code, "a task's token")
	require.Len(t, list.Data, 2)
	w, _ = ask("", agent()+"x")
	require.Equal(t, http.StatusUnauthorized, w.Code)
	require.Contains(t, w.Body.String(), `"authentication_error"`)
}

func TestANodeWithoutModels(t *testing.T) {
	t.Parallel()
	require.Equal(t, http.StatusNotFound, build(t).get("/models").Code)
	h := build(t, func(c *config) { c.Models = func() *models.Set { return nil } })
	require.JSONEq(t, `{"object":"list","data":[],"has_more":false,"first_id":null,"last_id":null}`, h.get("/v1/models").Body.String())
}
