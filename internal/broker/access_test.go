package broker

import (
	"testing"

	"github.com/stretchr/testify/require"

	"weir/internal/broker/access"
)

func TestLacks(t *testing.T) {
	t.Parallel()
	need := access.Of(access.Ingress, 1)
	grant := func(publish, subscribe *side, replies bool) granted {
		var g granted
		g.Data.Permissions = &struct {
			Publish   *side     `json:"publish"`
			Subscribe *side     `json:"subscribe"`
			Responses *struct{} `json:"responses"`
		}{Publish: publish, Subscribe: subscribe}
		if replies {
			g.Data.Permissions.Responses = &struct{}{}
		}
		return g
	}
	all := &side{Allow: access.Subjects(need.Publish)}
	hear := &side{Allow: access.Subjects(need.Subscribe)}
	require.Nil(t, granted{}.lacks(need), "no permissions are all permissions")
	require.Nil(t, grant(all, hear, true).lacks(need))
	require.Nil(t, grant(&side{Allow: []string{">"}}, &side{}, false).lacks(need))
	require.Equal(t, "weir.cancel.>", grant(&side{Allow: []string{">"}, Deny: []string{"weir.cancel.>"}}, hear, true).lacks(need).Subject)
	e := grant(all, &side{Allow: []string{"_INBOX.>"}}, true).lacks(need)
	e.Role = access.Ingress
	require.Equal(t, "the NATS user of this node may not subscribe to weir.live.log.> (to follow the log as it is written): "+
		"give it what the role ingress needs, as `weir nats init` writes it, and reload the servers", e.Error())
	require.ErrorContains(t, grant(all, hear, false).lacks(need), "allow_responses grants it")
}
