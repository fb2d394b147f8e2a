package app

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/ingress/accept"
	"weir/schemas"
)

// TestNoCallerTakesADerivedID has one token of a tenant name actions as Weir names those of
// another one's Idempotency-Key, rules and redrives. Every route that takes a request_id refuses
// it in the words of its surface, and nothing stands in the way of the key. Where an id is
// read, the derived one works.
func TestNoCallerTakesADerivedID(t *testing.T) {
	t.Parallel()
	a, upstream := tokenNode.node(t), okUpstream(t)
	of := fresh("reserves")
	const request = `{"name":%q,"tenant":%q,"scopes":["actions:write","actions:read","tasks:write"]}`
	taker, _ := a.admin(t).grant(t, fmt.Sprintf(request, "taker", of))
	owner, _ := a.admin(t).grant(t, fmt.Sprintf(request, "owner", of))

	id := accept.NameOf(of, "/v1/execute", "", "order-7").ID
	for path, body := range map[string]string{
		"/v1/execute":          `{"type":"Http","request_id":"ID","args":{"method":"GET","url":"` + upstream + `"}}`,
		"/v1/plans":            `{"request_id":"ID","state:env.snapshot":{},"artifact:proposed.plan":{"decisions":[]}}`,
		schemas.RouteRunSync:   `{"request_id":"ID","task_type":"ECHO"}`,
		schemas.RouteRunStream: `{"request_id":"ID","task_type":"ECHO"}`,
		schemas.RouteTasks:     `{"request_id":"ID","repo":"shop","description":"d"}`,
		schemas.RouteRepos:     `{"request_id":"ID","name":"shop"}`,
	} {
		for _, taken := range []string{id, "rul-1", "rdr-" + strings.Repeat("0", 64)} {
			status, text, h := taker.do(t, http.MethodPost, path, strings.ReplaceAll(body, "ID", taken))
			want := http.StatusBadRequest
			if path == schemas.RouteRunSync || path == schemas.RouteRunStream { // the run contract's status
				want = http.StatusUnprocessableEntity
			}
			assert.Equal(t, want, status, "%s: %s", path, text)
			assert.Contains(t, text, "ids that begin with "+taken[:4]+" are made by Weir alone", path)
			assert.Empty(t, h.Get("Weir-Action-Id"), path)
			status, _, _ = taker.do(t, http.MethodGet, "/v1/actions/"+taken, "")
			assert.Equal(t, http.StatusNotFound, status, "nothing was stored by %s", path)
		}
	}
	call := fmt.Sprintf(`{"method":"GET","url":%q}`, upstream)
	for _, replayed := range []string{"", "true"} {
		status, text, h := owner.do(t, http.MethodPost, "/v1/execute", call, "Idempotency-Key", "order-7")
		require.Equal(t, http.StatusOK, status, text)
		require.Equal(t, id, h.Get("Weir-Action-Id"))
		assert.Equal(t, replayed, h.Get("Idempotency-Replayed"))
	}
	for _, path := range []string{"/v1/actions/" + id, "/v1/actions/" + id + "/payload", "/v1/actions/" + id + "/events?live=long-poll"} {
		status, text, _ := owner.do(t, http.MethodGet, path, "")
		assert.Equal(t, http.StatusOK, status, "%s: %s", path, text)
	}
	status, text, _ := owner.do(t, http.MethodPost, "/v1/actions/"+id+"/cancel", "")
	assert.Equal(t, http.StatusConflict, status, text)
	assert.Contains(t, text, "has ended already")
	recorded, err := json.Marshal(schemas.RecordRequest{ActionID: id})
	require.NoError(t, err)
	status, text, _ = owner.do(t, http.MethodPost, "/v1/rules/record", string(recorded))
	assert.Equal(t, http.StatusOK, status, text)
}
