package task

import (
	"encoding/json"
	"strconv"

	"weir/internal/fault"
	"weir/schemas"
)

// LeaseKey names the record that says when the holder of a lease was last heard of. Each
// lease has its own: what a holder before it still writes is not read.
func LeaseKey(r schemas.Ref, lease int) string {
	return schemas.EscapeToken(r.Tenant) + "." + schemas.EscapeToken(r.ID) + "." + strconv.Itoa(lease)
}

// Heard is that record: the holder of a lease was heard of when it was written.
func Heard(lease int) []byte { return []byte(`{"lease":` + strconv.Itoa(lease) + `}`) }

// HeardOf is the lease that a record is about; ok is false where it cannot be read.
func HeardOf(record []byte) (lease int, ok bool) {
	var of struct {
		Lease *int `json:"lease"`
	}
	if json.Unmarshal(record, &of) != nil || of.Lease == nil {
		return 0, false
	}
	return *of.Lease, true
}

// NotRunning is what the holder of a task is told that has ended.
func NotRunning() error { return fault.New(schemas.TaskNotRunning, NotRunningText) }

// NotRunningText is what it says, in the protocol's words.
const NotRunningText = "Task is not running"
