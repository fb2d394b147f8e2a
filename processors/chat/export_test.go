package chat

import (
	"encoding/json"

	"weir/internal/ledger"
	"weir/processors/call/model"
	"weir/schemas"
)

// Answered is what becomes of an answer with a status, and nothing of an answer in it:
// whether another upstream is asked, and the caller's own status if not.
func Answered(status int) (falls bool, own int) {
	t := &ledger.Try{Result: &schemas.Attempted{Status: status, Sent: true}}
	return follows(t, &model.Response{}), rejection(status)
}

// Delta is the data of a delta event as it is written.
func Delta(chunks ...json.RawMessage) json.RawMessage { return delta(chunks) }
