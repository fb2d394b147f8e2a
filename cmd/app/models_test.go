package app

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/processors/guard"
	"weir/schemas"
)

// completionOf asks the guard about the first call that a completion would make.
func (s *site) completionOf(t *testing.T, model string) schemas.Decision {
	t.Helper()
	candidates := s.models().Candidates([]string{model}, nil, nil, "a")
	require.NotEmpty(t, candidates, model)
	up := candidates[0].Upstream
	_, d := s.guard.Check(schemas.HTTPCall{
		Method: http.MethodPost, URL: up.URL + schemas.RouteChat, AllowlistKey: schemas.ModelEntry(up.Name), Body: json.RawMessage("{}"),
	}, guard.Scope{Agent: true, KeyRequired: true})
	return d
}

const twoModels = `
models:
  fast: {alias: m/one}
  m/*: {url: "http://127.0.0.1:9001/v1", price: {input: 1, output: 2}}
  far: {url: "https://far.example", headers: {Authorization: "Bearer ${secret:NOWHERE}"}}
`

// TestModelsInForce: what is known of a model is what its policy entry lets pass.
func TestModelsInForce(t *testing.T) {
	t.Parallel()
	s := newSite(t, allowing()+twoModels, false)
	for _, name := range []string{"fast", "m/one", "m/two", "far"} {
		assert.True(t, s.completionOf(t, name).Allowed, name)
	}
	_, _, known := s.models().Find("other")
	assert.False(t, known)
	status, body, _ := s.ask(t, http.MethodPost, "/v1/execute", `{"method":"POST","url":"http://127.0.0.1:9001/v1/chat/completions","allowlist_key":"model:m:any","body":{}}`)
	assert.Equal(t, http.StatusForbidden, status, body)
	assert.Contains(t, body, "DENY_KEY_UNKNOWN")

	status, body, _ = s.ask(t, http.MethodGet, "/v1/policy", "")
	require.Equal(t, http.StatusOK, status)
	assert.Contains(t, body, `"name":"model:far"`)
	assert.Contains(t, body, `"headers":["Authorization"]`)
	assert.NotContains(t, body, "NOWHERE")
	_, body, _ = s.ask(t, http.MethodPost, "/v1/policy/explain", `{"method":"POST","url":"https://far.example/chat/completions"}`)
	assert.NotContains(t, body, "model:")
	warned := strings.Join(s.warnings(s.reload.last), "\n")
	assert.Contains(t, warned, "model far: header Authorization: ")
	assert.Contains(t, warned, "NOWHERE")
	assert.NotContains(t, warned, "model m/*")
	assert.Empty(t, s.budgets())
	assert.Empty(t, (&App{}).budgets())
	assert.Nil(t, (&App{}).models(), "before there is a policy")
}

// TestReloadOfModels: they come, change and go with the policy, as a whole.
func TestReloadOfModels(t *testing.T) {
	t.Parallel()
	s := newSite(t, allowing(), false)
	none := s.policyView(nil, true).Version
	assert.Empty(t, s.models().Views(nil, nil))

	s.write(t, allowing()+twoModels)
	done := s.reloaded(t)
	assert.True(t, done.Changed)
	assert.NotEqual(t, none, done.Version)
	assert.True(t, s.completionOf(t, "fast").Allowed)
	assert.Contains(t, s.said.String(), "model far: header Authorization: ")
	assert.NotContains(t, s.said.String(), "restart", "models need none")

	s.write(t, allowing()+strings.ReplaceAll(twoModels, "input: 1", "input: 3"))
	again := s.reloaded(t)
	assert.True(t, again.Changed, "a model has another price")
	assert.Equal(t, done.Version, again.Version, "though the same is permitted")
	m, _, _ := s.models().Find("fast")
	assert.Equal(t, int64(3_000_000), m.Price.Input)
	assert.False(t, s.reloaded(t).Changed)

	s.write(t, allowing()+strings.ReplaceAll(twoModels, "input: 1", "input: 3")+"budgets:\n  daily: {usd: 1.5, window: 24h}\n")
	again = s.reloaded(t)
	assert.True(t, again.Changed, "they are asked within other bounds")
	assert.Equal(t, done.Version, again.Version)
	require.Len(t, s.budgets(), 1)
	assert.Equal(t, int64(1_500_000_000), s.budgets()[0].Nanos)
	assert.False(t, s.reloaded(t).Changed)
	assert.NotContains(t, s.said.String(), "restart", "budgets need none")

	s.write(t, allowing()+strings.ReplaceAll(twoModels, "https://far.example", "far.example")+"  more: {url: \"https://c.example\"}\n")
	status, body, _ := s.ask(t, http.MethodPost, "/v1/policy/reload", "")
	require.Equal(t, http.StatusUnprocessableEntity, status, body)
	assert.Contains(t, body, "models.far.url")
	_, _, known := s.models().Find("more")
	assert.False(t, known, "a mistake changes nothing")
	assert.Equal(t, done.Version, s.policyView(nil, true).Version)

	s.write(t, allowing())
	assert.Equal(t, none, s.reloaded(t).Version)
	assert.Empty(t, s.models().Views(nil, nil))
}

// TestWeirModels prints a line for each model, or a document.
func TestWeirModels(t *testing.T) {
	t.Parallel()
	answer, status := `{"object":"list","data":[
		{"id":"fast","object":"model","created":0,"owned_by":"m","context_length":128000,"pricing":{"prompt":"0.0000025","completion":"0.00001","request":"0"}},
		{"id":"m/*","object":"model","created":0,"owned_by":"m"}]}`, http.StatusOK
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		assert.Equal(t, "/v1/models", r.URL.Path)
		assert.Equal(t, "Bearer wt", r.Header.Get("Authorization"))
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, answer)
	}))
	t.Cleanup(upstream.Close)
	server := "--server=" + upstream.URL
	code, out, errs := saying(t, "", "models", server)
	require.Zero(t, code, errs)
	assert.Equal(t, "MODEL  OWNER  CONTEXT  INPUT  OUTPUT  REQUEST\n"+
		"fast   m      128000   2.5    10      0\n"+
		"m/*    m      -        -      -       -\n", out)
	code, out, _ = saying(t, "", "models", "--json", server)
	require.Zero(t, code)
	assert.JSONEq(t, `{"id":"m/*","object":"model","created":0,"owned_by":"m"}`, strings.Split(out, "\n")[1])

	answer = `{"object":"list","data":[]}`
	code, out, errs = saying(t, "", "models", server)
	require.Zero(t, code)
	assert.Empty(t, out)
	assert.Contains(t, errs, "there are no models")
	answer, status = `{"error":{"code":401,"message":"no such token","metadata":{"code":"UNAUTHORIZED"}}}`, http.StatusUnauthorized
	code, _, errs = saying(t, "", "models", server)
	assert.Equal(t, 1, code)
	assert.Contains(t, errs, "no such token")
	assert.Contains(t, errs, "weir token create")
	code, _, _ = saying(t, "", "models", "one", server)
	assert.Equal(t, 2, code)
}
