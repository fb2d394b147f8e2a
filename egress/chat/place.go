package chat

import (
	"strconv"
	"strings"

	"weir/egress/stream"
	"weir/schemas"
)

// Place reads the id of a frame: the position of an event, and maybe a dot and how many
// of the event's chunks lie before the place, from 1 on and without zeros before it.
func Place(id string) (p schemas.ChatPlace, ok bool) {
	at, chunk, inside := strings.Cut(id, ".")
	seq, ok := stream.Position(at)
	if !ok || !inside {
		return schemas.ChatPlace{Seq: seq}, ok
	}
	n, err := strconv.ParseUint(chunk, 10, 31)
	if err != nil || chunk[0] == '0' || seq == 0 {
		return schemas.ChatPlace{}, false
	}
	return schemas.ChatPlace{Seq: seq, Chunk: int(n)}, true
}

// appendPlace is what Place reads.
func appendPlace(b []byte, p schemas.ChatPlace) []byte {
	b = strconv.AppendUint(b, p.Seq, 10)
	if p.Chunk > 0 {
		b = append(b, '.')
		b = strconv.AppendInt(b, int64(p.Chunk), 10)
	}
	return b
}
