package ingress_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/ingress"
	"weir/ingress/chat"
	"weir/internal/fault"
	"weir/internal/models"
	"weir/schemas"
)

// bodies are a request of each dialect.
func bodies() map[schemas.Dialect]string {
	return map[schemas.Dialect]string{
		schemas.DialectChat:       okChat,
		schemas.DialectResponses:  `{"model":"fast","input":"hi"}`,
		schemas.DialectMessages:   `{"model":"fast","max_tokens":9,"messages":[{"role":"user","content":"hi"}]}`,
		schemas.DialectCount:      `{"model":"fast","messages":[{"role":"user","content":"hi"}]}`,
		schemas.DialectEmbeddings: `{"model":"fast","input":["hi"]}`,
	}
}

func (w *world) order(t *testing.T, id string) (order schemas.ChatOrder) {
	t.Helper()
	require.NoError(t, json.Unmarshal(w.action(t, "default", id).Payload, &order))
	return order
}

func TestEveryDialectIsStored(t *testing.T) {
	t.Parallel()
	for d, body := range bodies() {
		w := setup(t, desk())
		var id string
		for _, base := range schemas.ChatBases() {
			a := w.do(t, post(base+d.Route(), body, "Idempotency-Key", "k", "OpenAI-Beta", "x=1", "Anthropic-Beta", "a-1, b-2"))
			require.Equal(t, http.StatusAccepted, a.Code, "%s: %s", d, a.Body)
			id = a.Header().Get(schemas.HeaderGeneration)
		}
		require.Equal(t, 1, w.metrics.accepted[schemas.KindChat], "one key on every base is one action")
		order, got := w.order(t, id), w.action(t, "default", id)
		require.Equal(t, schemas.KindChat, got.Kind)
		require.True(t, got.Sensitive)
		require.Equal(t, d.Family() == schemas.DialectChat, order.Dialect == "", d)
		require.True(t, order.Dialect == "" || order.Dialect == d)
		require.JSONEq(t, body, string(order.Body))
		var names []string
		for _, h := range order.Headers {
			names = append(names, h.Name+": "+h.Value)
		}
		require.Equal(t, map[schemas.Dialect][]string{
			schemas.DialectResponses: {"openai-beta: x=1"}, schemas.DialectEmbeddings: {"openai-beta: x=1"},
			schemas.DialectMessages: {"anthropic-version: 2023-06-01", "anthropic-beta: a-1, b-2"},
			schemas.DialectCount:    {"anthropic-version: 2023-06-01", "anthropic-beta: a-1, b-2"},
		}[d], names, d)
	}
}

// refusalIn is the type of an error in the form of a dialect.
func refusalIn(t *testing.T, d schemas.Dialect, a answer) (class, code, message string) {
	t.Helper()
	require.Equal(t, "application/json", a.Header().Get("Content-Type"))
	require.EqualValues(t, a.Code, a.field("error", "metadata", "status"), a.Body)
	class, _ = a.field("error", "type").(string)
	message, _ = a.field("error", "message").(string)
	require.NotEmpty(t, message)
	if d.Family() == schemas.DialectMessages {
		require.Equal(t, "error", a.field("type"))
		require.Equal(t, a.Header().Get("X-Request-ID"), a.field("request_id"))
		require.Len(t, a.body, 3)
		return class, "", message
	}
	require.Len(t, a.body, 1)
	code, _ = a.field("error", "code").(string)
	return class, code, message
}

func TestRefusalsHaveTheFormOfTheirDialect(t *testing.T) {
	t.Parallel()
	type want struct {
		status    int
		openai    string // code, and after a space the type; empty: it is about Messages alone
		anthropic string
		words     string
	}
	with := func(member string) func(d schemas.Dialect) *http.Request {
		return func(d schemas.Dialect) *http.Request {
			return post(d.Route(), strings.Replace(bodies()[d], "{", "{"+member+",", 1))
		}
	}
	w := setup(t, desk(func(c *chat.Config) { c.MaxBody = 1 << 20 }), func(c *config) {
		c.Authenticate = func(r *http.Request) (ingress.Identity, error) {
			if r.Header.Get("Test") == "none" {
				return ingress.Identity{}, fault.New(schemas.Unauthorized, "a bearer token is needed")
			}
			return ingress.Identity{Token: schemas.Token{Tenant: "default", Scopes: []string{schemas.ScopeAdmin}}}, nil
		}
	})
	for name, tc := range map[string]struct {
		make func(d schemas.Dialect) *http.Request
		want
	}{
		"unknown model": {func(d schemas.Dialect) *http.Request {
			return post(d.Route(), strings.Replace(bodies()[d], "fast", "nobody", 1))
		}, want{status: 404, openai: "model_not_found invalid_request_error", anthropic: "not_found_error", words: "GET /models"}},
		"no token":  {func(d schemas.Dialect) *http.Request { return post(d.Route(), bodies()[d], "Test", "none") }, want{status: 401, openai: "invalid_api_key authentication_error", anthropic: "authentication_error"}},
		"no object": {func(d schemas.Dialect) *http.Request { return post(d.Route(), "[]") }, want{status: 400, openai: "invalid_request invalid_request_error", anthropic: "invalid_request_error"}},
		"unknown":   {with(`"fancy":1`), want{status: 400, openai: "validation_error invalid_request_error", anthropic: "invalid_request_error", words: `at /fancy: no upstream of this model passes fancy; leave it out`}},
		"a key":     {with(`"api_key":"x"`), want{status: 400, openai: "validation_error invalid_request_error", anthropic: "invalid_request_error", words: "at /api_key"}},
		"too large": {with(`"metadata":{"a":"` + strings.Repeat("a", 2<<20) + `"}`), want{status: 413, openai: "payload_too_large invalid_request_error", anthropic: "request_too_large"}},
		"method": {func(d schemas.Dialect) *http.Request {
			return httptest.NewRequest(http.MethodPut, "/v1"+d.Route(), http.NoBody)
		}, want{status: 405, openai: "method_not_allowed invalid_request_error", anthropic: "invalid_request_error"}},
		"too deep":   {func(d schemas.Dialect) *http.Request { return post("/api/v1"+d.Route()+"/x/y", "{}") }, want{status: 404, openai: "not_found invalid_request_error", anthropic: "not_found_error"}},
		"slash":      {func(d schemas.Dialect) *http.Request { return post("/v1"+d.Route()+"//", "{}") }, want{status: 404, openai: "not_found invalid_request_error", anthropic: "not_found_error"}},
		"wrong beta": {func(d schemas.Dialect) *http.Request { return post(d.Route(), bodies()[d], "Anthropic-Beta", "a;b") }, want{status: 400, anthropic: "invalid_request_error", words: "anthropic-beta"}},
		"no date": {func(d schemas.Dialect) *http.Request {
			return post(d.Route(), bodies()[d], "Anthropic-Version", "latest")
		}, want{status: 400, anthropic: "invalid_request_error", words: "2023-06-01"}},
		"a websocket": {func(d schemas.Dialect) *http.Request {
			r := httptest.NewRequest(http.MethodGet, "/v1"+d.Route(), http.NoBody)
			r.Header.Set("Connection", "keep-alive, Upgrade")
			r.Header.Set("Upgrade", "websocket")
			r.Header.Set("Test", "none")
			return r
		}, want{status: 426, openai: "invalid_request invalid_request_error", anthropic: "invalid_request_error", words: "plain HTTP"}},
		"a websocket by POST": {func(d schemas.Dialect) *http.Request { return post(d.Route(), "{", "Upgrade", "WebSocket") }, want{status: 426, openai: "invalid_request invalid_request_error", anthropic: "invalid_request_error"}},
	} {
		for d := range bodies() {
			if tc.openai == "" && d.Family() != schemas.DialectMessages {
				continue
			}
			a := w.do(t, tc.make(d))
			require.Equal(t, tc.status, a.Code, "%s of %s: %s", name, d, a.Body)
			class, code, message := refusalIn(t, d, a)
			require.Contains(t, message, tc.words, "%s of %s", name, d)
			if d.Family() == schemas.DialectMessages {
				require.Equal(t, tc.anthropic, class, "%s of %s", name, d)
			} else {
				require.Equal(t, tc.openai, code+" "+class, "%s of %s", name, d)
			}
			require.Zero(t, w.records(t), name)
			require.Empty(t, w.responder.calls, name)
			if tc.status == http.StatusUpgradeRequired {
				require.Equal(t, "HTTP/1.1", a.Header().Get("Upgrade"))
			}
		}
	}
}

// A body for another route says which.
func TestABodyOfAnotherProtocol(t *testing.T) {
	t.Parallel()
	for path, want := range map[schemas.Dialect][2]string{
		schemas.DialectChat:       {bodies()[schemas.DialectResponses], "POST /responses"},
		schemas.DialectMessages:   {bodies()[schemas.DialectResponses], "POST /responses"},
		schemas.DialectCount:      {bodies()[schemas.DialectResponses], "POST /responses"},
		schemas.DialectResponses:  {bodies()[schemas.DialectMessages], "POST /messages"},
		schemas.DialectEmbeddings: {okChat, "POST /chat/completions"},
	} {
		w := setup(t, desk())
		a := w.do(t, post(path.Route(), want[0]))
		require.Equal(t, http.StatusBadRequest, a.Code, path)
		_, _, message := refusalIn(t, path, a)
		require.Contains(t, message, want[1], path)
	}
}

// Upgrades that a server may ignore, as Java's and curl's to HTTP/2, are ignored.
func TestAnUpgradeToHTTP2IsIgnored(t *testing.T) {
	t.Parallel()
	w := setup(t, desk())
	a := w.do(t, post("/v1/responses", bodies()[schemas.DialectResponses], "Connection", "Upgrade, HTTP2-Settings", "Upgrade", "h2c"))
	require.Equal(t, http.StatusAccepted, a.Code, a.Body)
}

func TestModelsThatSpeakNotTheDialect(t *testing.T) {
	t.Parallel()
	up := func(name string, dialects ...schemas.Dialect) schemas.ModelUpstream {
		return schemas.ModelUpstream{Name: name, URL: "https://h", Dialects: dialects, Key: "models." + name}
	}
	set := models.New([]schemas.Model{
		{Name: "vendor/big", Upstreams: []schemas.ModelUpstream{up("a", schemas.DialectChat), up("b", schemas.DialectMessages)}},
		{Name: "vendor/small", Upstreams: []schemas.ModelUpstream{up("c")}},
		{Name: "fast", Alias: "vendor/big"},
	})
	for d, body := range bodies() {
		w := setup(t, desk(func(c *chat.Config) { c.Models = func() *models.Set { return set } }))
		a := w.do(t, post(d.Route(), body))
		if d.Family() == schemas.DialectChat || d.Family() == schemas.DialectMessages {
			require.Equal(t, http.StatusAccepted, a.Code, d)
			continue
		}
		require.Equal(t, http.StatusBadRequest, a.Code, d)
		_, _, message := refusalIn(t, d, a)
		require.Equal(t, "at /model: no upstream of this model answers POST "+d.Route()+"; use POST /chat/completions or POST /messages, another model, or have the operator add "+
			string(d)+" to the dialects of models.a", message)
		a = w.do(t, post(d.Route(), strings.Replace(body, "{", `{"models":["vendor/small"],`, 1)))
		require.Equal(t, http.StatusAccepted, a.Code, "another model of the request answers")
		require.Equal(t, []string{"vendor/small"}, w.action(t, "default", a.Header().Get(schemas.HeaderGeneration)).Answers)
	}
}

// The token may be in X-Api-Key, on these routes and if there is no Authorization.
func TestAKeyOfTheClient(t *testing.T) {
	t.Parallel()
	w := setup(t, desk(), func(c *config) {
		c.Authenticate = func(r *http.Request) (ingress.Identity, error) {
			if r.Header.Get("Authorization") != "Bearer good" {
				return ingress.Identity{}, fault.New(schemas.Unauthorized, "a bearer token is needed")
			}
			return ingress.Identity{Token: schemas.Token{Tenant: "default", Scopes: []string{schemas.ScopeAdmin}}}, nil
		}
	})
	for d, body := range bodies() {
		require.Equal(t, http.StatusAccepted, w.do(t, post("/v1"+d.Route(), body, "X-Api-Key", "good")).Code, d)
		require.Equal(t, http.StatusUnauthorized, w.do(t, post(d.Route(), body, "X-Api-Key", "good", "Authorization", "Bearer bad")).Code, d)
		require.Equal(t, http.StatusAccepted, w.do(t, post(d.Route(), body, "X-Api-Key", "bad", "Authorization", "Bearer good")).Code, d)
		twice := post(d.Route(), body)
		twice.Header["X-Api-Key"] = []string{"good", "good"}
		require.Equal(t, http.StatusUnauthorized, w.do(t, twice).Code, d)
	}
	require.Equal(t, http.StatusUnauthorized, w.do(t, post("/v1/execute", okGet, "X-Api-Key", "good")).Code)
}
