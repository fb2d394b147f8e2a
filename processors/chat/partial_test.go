package chat_test

import (
	"bytes"
	"encoding/json"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"

	"weir/internal/fault"
	"weir/processors/call"
	"weir/processors/call/model"
	"weir/schemas"
)

// cleaning is an adapter whose secret is the role of who answers.
type cleaning struct{ *world }

func (c cleaning) For(t model.Talk) call.Adapter {
	t.Clean(func(doc json.RawMessage) json.RawMessage {
		return bytes.ReplaceAll(doc, []byte("assistant"), []byte("REDACTED"))
	})
	return c.world.For(t)
}

// TestThePartIsScrubbed: the adapter has the last word on an answer that broke off, too.
func TestThePartIsScrubbed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, modelOf("small", "a"))
		h.adapter = cleaning{h.world}
		h.hire()
		h.acts["a"] = []act{{texts: []string{"half"}, fails: &fault.Call{Code: schemas.UpstreamTruncated, Sent: true, Status: 200}}}
		e := h.run(order("small"))
		assert.Equal(t, schemas.UpstreamTruncated, e.Code)
		assert.True(t, e.result.Partial)
		assert.Contains(t, string(e.result.Completion), `"role":"REDACTED","content":"half"`)
		assert.EqualValues(t, 1, h.calls[0].talk.Choices)
	})
}
