package egress_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/egress"
	"weir/schemas"
)

func TestPolicyRoute(t *testing.T) {
	t.Parallel()
	view := schemas.PolicyView{Version: "v", Entries: []schemas.EntryView{{Name: "one", Headers: []string{"authorization"}, Mode: "enforce"}}, AllowedHosts: []string{}}
	var asked [][]string
	h := build(t, func(c *egress.Config) {
		c.Policy = func(only []string, _ bool) schemas.PolicyView {
			asked = append(asked, only)
			return view
		}
	})
	a := h.get("/v1/policy")
	require.Equal(t, http.StatusOK, a.Code)
	assert.Equal(t, view, decode[schemas.PolicyView](t, a.Body))
	assert.Equal(t, http.StatusOK, h.ask(http.MethodGet, "/v1/policy", "acme/one").Code)
	assert.Equal(t, [][]string{nil, {"one"}}, asked, "who is limited to entries sees these")
	assert.Equal(t, http.StatusUnauthorized, h.ask(http.MethodGet, "/v1/policy", "").Code)
	assert.Equal(t, http.StatusNotFound, build(t).get("/v1/policy").Code)
}

// TestTheLastWordOfPolicyIsShown: where another policy came into force after an
// attempt was written down, its decision is the one that counts.
func TestTheLastWordOfPolicyIsShown(t *testing.T) {
	t.Parallel()
	h := build(t)
	st := h.claim(httpRef("a"))
	h.attempt(st)
	shown := decode[schemas.ActionView](t, h.get("/v1/actions/a").Body)
	require.NotNil(t, shown.Decision)
	assert.Equal(t, "github", shown.Decision.Entry)

	last := schemas.Decision{Code: schemas.DenyHost, Reason: "no", Version: "v-2", Shadow: &schemas.Shadow{Allowed: true, Entry: "new"}}
	h.append(st, schemas.Event{Type: schemas.EventAttempted, Attempted: &schemas.Attempted{Number: 1, Code: schemas.DenyHost, Decision: &last}})
	shown = decode[schemas.ActionView](t, h.get("/v1/actions/a").Body)
	require.NotNil(t, shown.Decision)
	assert.Equal(t, last, *shown.Decision)
}
