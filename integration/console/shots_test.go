//go:build shots

package console_test

import (
	"flag"
	"fmt"
	"net/http"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/internal/weirtest/upstream"
	"weir/schemas"
)

var shots = flag.String("console.shots", "../../docs/console", "write a picture of each page to this directory")

// TestShots takes a picture of each page, light and dark, wide and on a phone.
func TestShots(t *testing.T) {
	n := start(t)
	release := make(chan struct{})
	defer close(release)
	n.up.Handle("/held", upstream.Hold(release, upstream.OK()))
	n.up.Handle("/orders", upstream.Respond(http.StatusOK, `{"orders":[{"id":7,"item":"tea"}]}`))
	n.up.Handle("/busy", upstream.Respond(http.StatusServiceUnavailable, `{}`), upstream.Respond(http.StatusServiceUnavailable, `{}`), upstream.Respond(http.StatusOK, `{"ok":true}`))
	n.up.Handle("/gone", upstream.Respond(http.StatusNotFound, `{}`))
	n.up.Handle("/lost", upstream.ResetBeforeResponse())
	n.call("retried-1", http.MethodGet, n.up.URL()+"/busy")
	n.call("lost-1", http.MethodPost, n.up.URL()+"/lost")
	for i := range 9 {
		n.call(fmt.Sprintf("order-%d", i), http.MethodGet, n.up.URL()+"/orders")
	}
	n.call("missing-1", http.MethodGet, n.up.URL()+"/gone")
	for i := range 3 {
		n.call(fmt.Sprintf("mail-%d", i), http.MethodPost, "https://mail.example.com/v1/send")
	}
	n.call("metadata-1", http.MethodGet, "http://169.254.169.254/latest/meta-data/")
	n.call("held-1", http.MethodGet, n.up.URL()+"/held", "Prefer", "respond-async")
	n.call("tomorrow-1", http.MethodGet, n.up.URL()+"/orders", schemas.HeaderDelay, "23h")
	n.status("held-1", "started")
	for _, rule := range []string{
		`{"id":"mock-mail","name":"No mail leaves a rehearsal","type":"mock","match":{"url_pattern":"https://mail.example.com/*","method":"POST"},"action":{"status":202,"body":{"queued":true}}}`,
		`{"id":"slow-orders","type":"delay","match":{"url_pattern":"` + n.up.URL() + `/orders*"},"action":{"delay_ms":1500},"scope":{"agent":"LIT_RETRIEVAL"}}`,
	} {
		etag := n.etag()
		status, text, _ := n.ask(n.admin, http.MethodPost, "/v1/agent-api", `{"request_id":"`+etag+`","operation":"rules.create","args":{"rule":`+rule+`,"if_match":"`+etag+`"}}`)
		require.Equal(t, http.StatusOK, status, text)
	}
	for _, form := range []struct {
		name          string
		width, height int
		colours       string
	}{{"wide-light", 1280, 860, "light"}, {"wide-dark", 1280, 860, "dark"}, {"phone-light", 390, 800, "light"}, {"phone-dark", 390, 800, "dark"}} {
		p := n.signIn(form.name, n.admin, do{"viewport": do{"width": form.width, "height": form.height}, "colorScheme": form.colours})
		for name, at := range map[string][2]string{
			"actions": {"#/actions", "Actions"}, "action": {"#/actions/retried-1", "retried-1"}, "dead": {"#/dead", "Dead letters"}, "rules": {"#/rules", "Rules"}, "policy": {"#/policy", "Policy"}, "evidence": {"#/evidence", "Evidence"},
		} {
			p.to(at[0])
			p.seeRole("heading", at[1])
			p.do(do{"op": "gone", "css": ".spin"})
			p.do(do{"op": "settle"})
			p.do(do{"op": "shot", "path": filepath.Join(*shots, name+"-"+form.name+".png")})
		}
	}
}

func (n *node) etag() string {
	n.t.Helper()
	_, text, _ := n.ask(n.admin, http.MethodGet, "/v1/rules", "")
	return decode[schemas.RulePage](n.t, text).RulesEtag
}
