package stream

import (
	"bytes"
	"strconv"
	"time"

	"weir/internal/completion"
	"weir/schemas"
)

// swift reads an event that carries data, of which an action may have very many, without
// parsing that: the log holds what was parsed and written by a worker. What is not of the
// form that this version writes, to the byte, is left to ledger.Decode.
func swift(data []byte) (ev schemas.Event, ok bool) {
	rest, ok := bytes.CutPrefix(data, []byte(`{"v":1,"n":`))
	digits, rest, found := bytes.Cut(rest, []byte(`,"type":"`))
	if !ok || !found || len(digits) > 9 {
		return ev, false
	}
	n, err := strconv.Atoi(string(digits))
	word, rest, found := bytes.Cut(rest, []byte(`","time":"`))
	if err != nil || n < 1 || !found {
		return ev, false
	}
	switch string(word) {
	case string(schemas.EventDelta):
		ev.Type = schemas.EventDelta
	case string(schemas.EventProgress):
		ev.Type = schemas.EventProgress
	default:
		return ev, false
	}
	at, rest, found := bytes.Cut(rest, []byte(`","data":`))
	if !found || len(at) > len(time.RFC3339Nano) {
		return ev, false
	}
	ev.Time, err = time.Parse(time.RFC3339Nano, string(at))
	if size := completion.Span(rest); err != nil || size == 0 || len(rest) != size+1 || rest[size] != '}' {
		return ev, false
	}
	ev.V, ev.N, ev.Data = 1, n, rest[:len(rest)-1:len(rest)-1]
	return ev, true
}
