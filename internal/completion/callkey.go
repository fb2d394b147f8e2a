package completion

import (
	"bytes"
	"strconv"
)

// callKey is what the pieces of one tool call are known by.
type callKey struct {
	index int
	id    []byte // as it came last; empty: none has come
}

// callKeys are those of a choice's calls, in the order in which they began.
type callKeys []callKey

// of is the place of the call that a piece is of, made where there is none; -1: there are
// too many. A piece without an index is of the call with its id, or of the last one where
// it has none. Some providers give one index to several calls, each of them whole:
// another id with a name begins another call.
func (k *callKeys) of(raw []byte) int {
	id, index := find(raw, "id"), find(raw, "index")
	n, err := strconv.Atoi(string(index))
	given := err == nil
	if hollow(id) {
		id = nil
	}
	whole := given && id != nil && !hollow(find(find(raw, "function"), "name"))
	for i := len(*k) - 1; i >= 0; i-- {
		c := &(*k)[i]
		switch same := len(c.id) > 0 && bytes.Equal(c.id, id); {
		case given && (c.index != n || whole && len(c.id) > 0 && !same), !given && id != nil && !same:
			continue
		}
		if id != nil {
			c.id = append(c.id[:0], id...)
		}
		return i
	}
	if len(*k) >= maxCalls {
		return -1
	}
	if !given {
		for _, c := range *k {
			n = max(n, c.index+1)
		}
	}
	*k = append(*k, callKey{index: n, id: bytes.Clone(id)})
	return len(*k) - 1
}
