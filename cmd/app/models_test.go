package app

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/weirtest/llm"
	"weir/internal/weirtest/poll"
	"weir/schemas"
)

// TestModelsOfAProvider: the list of a pattern's provider is shown after the start and after a
// reload, to tokens by their models, and the token may be in X-Api-Key.
func TestModelsOfAProvider(t *testing.T) {
	t.Parallel()
	provider := llm.New(t, llm.Config{Listed: []string{"large", "small"}})
	s := newSite(t, withTokens+fmt.Sprintf("models:\n  sim/*: {url: %q, model: \"*\"}\n  quick: {alias: sim/small}\n", provider.URL()))
	ids := func(token string, header ...string) string {
		_, body, _ := s.ask(t, http.MethodGet, "/v1/models", "", append([]string{"X-Api-Key", token}, header...)...)
		var list schemas.ModelList
		require.NoError(t, json.Unmarshal([]byte(body), &list), body)
		var all []string
		for _, m := range list.Data {
			all = append(all, m.ID)
		}
		return strings.Join(all, " ")
	}
	admin := s.admin(t)
	poll.Until(t, func() bool { return ids(admin.token) == "quick sim/large sim/small" })
	one, _ := admin.grant(t, `{"name":"one","scopes":["actions:write"],"models":["sim/large"]}`)
	assert.Equal(t, "sim/large", ids(one.token))
	assert.Equal(t, "sim/large", ids("nonsense", "Authorization", "Bearer "+one.token), "Authorization comes first")
	status, body, _ := s.ask(t, http.MethodGet, "/v1/models", "", "X-Api-Key", one.token+"x", "Anthropic-Version", "2023-06-01")
	assert.Equal(t, http.StatusUnauthorized, status)
	assert.Contains(t, body, `"type":"authentication_error"`)

	_, body, _ = admin.do(t, http.MethodGet, "/v1/evidence?kind=http.attempt&entry=model:sim:any", "")
	assert.Equal(t, 1, strings.Count(body, `"id":"models-`), body)
	assert.Zero(t, provider.Hits(), "no completion was asked for")
}
