package chat

import (
	"bytes"

	"weir/internal/completion"
	"weir/schemas"
)

// The document of a delta as a worker writes it, around the chunks in it.
const (
	head = `{"chunks":[`
	tail = `]}`
)

// aside is what the frame of a chunk has beside that, with the digits that places have.
const aside = 32

// swift makes the frames of a delta without parsing it: the log holds what was parsed
// and written by a worker. What is not of that form, to the byte, is left to careful: a
// line break, which a worker never writes, would end an event.
func swift(seq uint64, data []byte) (frames []byte, ok bool) {
	list, begins := bytes.CutPrefix(data, []byte(head))
	list, ends := bytes.CutSuffix(list, []byte(tail))
	if !begins || !ends || bytes.IndexByte(list, '\n') >= 0 || bytes.IndexByte(list, '\r') >= 0 {
		return nil, false
	}
	place := schemas.ChatPlace{Seq: seq}
	for {
		n := completion.Span(list)
		if n == 0 || n < len(list) && list[n] != ',' {
			return nil, false
		}
		if frames == nil { // the chunks of an answer are much alike
			frames = make([]byte, 0, len(list)+48+aside*(len(list)/(n+1)))
		}
		if n == len(list) {
			place.Chunk = 0
			return appendFrame(frames, place, list), true
		}
		place.Chunk++
		frames = appendFrame(frames, place, list[:n])
		list = list[n+1:]
	}
}
