package chat

import (
	"encoding/json"
)

// Delta is the data of a delta event as it is written.
func Delta(chunks ...json.RawMessage) json.RawMessage { return delta(chunks) }
