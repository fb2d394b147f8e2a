//go:build e2e

package roles_test

import (
	"slices"

	"github.com/stretchr/testify/require"

	"weir/internal/weirtest/crowd"
	"weir/internal/weirtest/history"
)

// inLine has calls made with one ordering key, accepted by both nodes in turn and lying in both
// partitions, and kills all workers while the first one is under way: others make it again, and
// then the rest, in the order in which they were accepted.
func (h *house) inLine() *crowd.Crowd {
	c := h.crowd("line")
	var names []string
	h.target.Hold("line-put-1")
	for range 8 {
		o := c.Order(crowd.Put)
		o.Line, o.Async = "account.4711", true
		names = append(names, o.Name)
		h.eventually(func() bool {
			a, _ := c.Ask(h.ctx, h.some("ingress"), o)
			return a.Answer == history.Accepted
		}, o.Name+" is accepted")
		c.Send(h.ctx, o) // which joins it
	}
	require.Equal(h.t, names[0], <-h.target.Heard())
	for range 2 {
		h.kill("worker")
	}
	h.add("worker", "worker")
	require.Equal(h.t, names[0], <-h.target.Heard())
	h.target.Release()
	require.NoError(h.t, c.Rest())
	var order []string
	for _, hit := range h.target.Hits("line-") {
		order = append(order, hit.Mark)
	}
	require.Equal(h.t, names, slices.Compact(order))
	return c
}
