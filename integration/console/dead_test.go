//go:build e2e

package console_test

import (
	"context"
	"net/http"
	"net/netip"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/cmd/app"
	"weir/internal/config"
	"weir/internal/weirtest/capture"
	"weir/internal/weirtest/program"
)

// breaking is a resolver on which the worker panics, until it is mended.
type breaking struct{ mended atomic.Bool }

func (b *breaking) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	if b.mended.Load() {
		return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
	}
	panic("no name can be looked up")
}

// TestDeadLetters are of a worker that panics again and again, which no program does that is
// as it should be: this one is made in the test's own process, and open.
func TestDeadLetters(t *testing.T) {
	t.Parallel()
	cfg, err := config.Parse("weir.yaml", []byte(`listen: 127.0.0.1:0
data: `+filepath.Join(t.TempDir(), "data")+`
log: {durability: process}
policy: {allowlist: [{name: broken, url_prefix: "http://broken.example/"}]}
`), nil, nil)
	require.NoError(t, err)
	var log capture.Buffer
	names := &breaking{}
	a, err := app.New(t.Context(), app.Options{Config: cfg, Log: &log, Network: app.Network{Resolver: names}})
	require.NoError(t, err)
	require.NoError(t, a.Start(t.Context()))
	t.Cleanup(func() { require.NoError(t, a.Stop(context.WithoutCancel(t.Context()))) })

	p := open(t, "p", a.URL()+"/console/#/dead", nil)
	p.see("No dead letters.")
	for _, id := range []string{"poison-1", "poison-2", "poison-3"} {
		body := `{"type":"Http","request_id":"` + id + `","args":{"method":"GET","url":"http://broken.example/"}}`
		program.Client{Base: a.URL()}.Must(t, http.StatusAccepted, http.MethodPost, "/v1/execute", body, "Prefer", "respond-async")
	}
	for _, id := range []string{"poison-1", "poison-2", "poison-3"} {
		p.seeRole("link", id)
	}
	p.accessible()
	p.to("#/flow")
	p.click("link", "Dead letters 3")
	p.seeRole("heading", "Dead letters")

	names.mended.Store(true) // to an address that the policy does not let it reach
	p.click("button", "Redrive poison-1")
	p.see("redriven")
	p.choose("Kind", "plan")
	p.do(do{"op": "gone", "role": "link", "name": "poison-2"})
	p.choose("Kind", "http")
	p.click("button", "Redrive 3")
	p.accessible()
	p.fill("Per second", "50")
	p.do(do{"op": "click", "css": "dialog button.primary"})
	p.see("2 of 2, done")
	p.click("button", "Close")

	// Each made a new action, which names the old one.
	p.click("link", "Actions")
	p.choose("Status", "denied")
	p.do(do{"op": "see", "css": `tr:nth-child(3) >> text=DENY_ADDRESS`})
	p.do(do{"op": "click", "css": "tbody tr:first-child a"})
	p.css(`section:has(#h-facts) >> text=Created from`)
}
