package schemas

import (
	"strconv"
	"strings"
)

// MaxGeneration is how many actions one request may have, one after another.
const MaxGeneration = 100

// Successor is the id of the n-th action of a request, from 2 on. ValidID refuses it, so that
// no caller can give an action such an id.
func Successor(id string, n int) string { return id + "~" + strconv.Itoa(n) }

// Generation takes an action's id apart: the id that its caller gave, and which of the
// request's actions it names, from 1 on.
func Generation(id string) (callers string, n int) {
	callers, suffix, ok := strings.Cut(id, "~")
	if !ok {
		return id, 1
	}
	n, err := strconv.Atoi(suffix)
	if err != nil || n < 2 || n > MaxGeneration || Successor(callers, n) != id {
		return id, 1
	}
	return callers, n
}

// ValidActionID reports whether an action may have an id: a ValidID, or the id of a successor.
func ValidActionID(s string) bool {
	callers, _ := Generation(s)
	return ValidID(callers)
}

// RunPlace is the position of a run's reader: a position on the log, in the stream of one of the
// request's actions. The zero place is the beginning.
type RunPlace struct {
	Seq uint64
	// Generation is the action's generation; see the function Generation.
	Generation int
}
