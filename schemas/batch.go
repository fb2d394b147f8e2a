package schemas

// MaxBatch is the number of requests that a batch may have.
const MaxBatch = 1000

// MediaNDJSON is the media type of an answer to a batch with one line for each item.
const MediaNDJSON = "application/x-ndjson"

// BatchAnswer is the answer to a batch.
type BatchAnswer struct {
	// Items are in the order of the requests.
	Items []BatchItem `json:"items"`
}

// BatchItem is the answer to one request of a batch, as POST /v1/execute would have given it: its
// status, and one of result, error and receipt.
type BatchItem struct {
	// Index is the position of the request in the batch, from 0.
	Index int `json:"index"`
	// ActionID is absent if nothing was stored.
	ActionID string `json:"action_id,omitempty"`
	// Status is the status of this answer, and not of the target's: 202 comes with a receipt.
	Status int `json:"status"`
	// Replayed: an earlier batch with the same Idempotency-Key made the action.
	Replayed bool            `json:"replayed,omitempty"`
	Result   *ExecuteOutcome `json:"result,omitempty"`
	Error    *ExecuteFault   `json:"error,omitempty"`
	Receipt  *Receipt        `json:"receipt,omitempty"`
	// RetryAfter is after how many seconds a repeat of a refused request may succeed.
	RetryAfter int `json:"retry_after,omitempty"`
}
