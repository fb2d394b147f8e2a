//go:build e2e

package canary_test

import (
	"slices"
	"strings"

	"github.com/stretchr/testify/assert"
)

// runsReached proves that what was not found was there to be found.
func (h *house) runsReached() {
	t, wire, mine := h.t, heard(h.agent), h.owner.seen.String()
	for _, tier := range tiers() {
		for _, route := range routes() {
			for _, class := range []string{"RUN.FULL" + tier + route + " input key", "RUN.FULL" + tier + route + " input"} {
				assert.Contains(t, wire, h.g.text(t, class), "%s did not reach the agent", class)
			}
			assert.Contains(t, mine, h.g.text(t, "run echo "+tier+route))
		}
		for _, place := range []string{
			"output key", "output", "deep output key", "deep output", "artifact", "artifact path", "provenance key", "provenance", "usage key", "usage", "grounding", "warning",
		} {
			for _, task := range []string{"RUN.FULL", "RUN.DATA", "RUN.SYNC", "RUN.JSON", "RUN.FALLBACK"} {
				h.seen(mine, task, tier, place)
			}
		}
		for _, place := range []string{"progress key", "progress", "progress that is text", "data over lines", "started key", "started"} {
			h.seen(mine, "RUN.FULL", tier, place)
		}
		h.seen(mine, "RUN.DATA", tier, "message in data")
		h.seen(mine, "RUN.HANGS", tier, "before it hangs")
	}
	for _, tier := range remotes()["RUN.FAILED"].tiers() {
		for _, place := range []string{"error code", "error message", "details key", "details"} {
			h.seen(mine, "RUN.FAILED", tier, place)
		}
		for task, place := range map[string]string{
			"RUN.TEXT": "error text", "RUN.ERROR": "text of an error", "RUN.NO.END": "before the end", "RUN.CUT": "before the cut",
		} {
			h.seen(mine, task, tier, place)
		}
	}
	for _, class := range []string{
		"RunResponse outputs.x-member as response", "RunResponse error.details.* (name) as end", "RunEvent outputs.* (name) as progress", "RunRefusal error.message as refusal",
	} {
		assert.Contains(t, mine, h.g.text(t, "agent says "+class), "the owner did not get the %s", class)
	}
	for _, member := range []string{"workflow_id", "stage_id", "user_id", "domain_id", "inputs.x-member"} {
		assert.Contains(t, wire, h.g.text(t, "run with all "+member), "the %s did not reach the agent", member)
	}
	assert.Contains(t, wire, h.g.text(t, "of an agent"), "the secret did not reach the agent")
}

// seen proves that one of the texts that an agent has said in a place came to the
// owner: what is said in a stream is not part of a single answer.
func (h *house) seen(mine, task, tier, place string) {
	h.t.Helper()
	class := "agent " + task + " " + tier + " " + place
	assert.True(h.t, slices.ContainsFunc(h.g.list(), func(c canary) bool {
		return c.class == class && strings.Contains(mine, c.text)
	}), "the owner did not get the %s of %s %s", place, task, tier)
}
