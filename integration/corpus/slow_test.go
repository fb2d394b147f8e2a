//go:build e2e

package corpus_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestInboundSlow sends the inbound rows that wait, side by side, and beside other
// tests. A cluster forms before the others begin to take the processors.
func TestInboundSlow(t *testing.T) {
	ordinary := newGateway(t, t.TempDir(), "log: {durability: process}\n")
	gateways := map[string]*gateway{}
	var rows []inboundRow
	for _, r := range readInbound(t) {
		if !r.mayRun() || !r.slow() {
			continue
		}
		gateways[r.ID] = ordinary
		if setup := inboundSetups[r.Setup]; setup != nil {
			gateways[r.ID], r.ready = setup(t, &r, ordinary), true
		}
		rows = append(rows, r)
	}
	t.Parallel()
	t.Run("rows", func(t *testing.T) {
		for _, r := range rows {
			for _, v := range r.routes() {
				r := r.on(v)
				t.Run(r.name(), func(t *testing.T) {
					t.Parallel()
					g := gateways[r.ID]
					r.run(t, g)
					if r.ready { // a node without its cluster takes long to stop
						assert.NoError(t, g.stop())
						g.stop = func() error { return nil }
					}
				})
			}
		}
	})
	ordinary.serves(t)
}
