package chat

import (
	"encoding/json"
	"strconv"
	"strings"

	"weir/egress/stream"
	"weir/internal/completion"
	"weir/schemas"
)

// done is the data of the last event of every stream.
const done = "data: [DONE]\n\n"

// Ended is all of a stream whose client was given everything before.
func Ended(d schemas.Dialect) []byte {
	if named(d) {
		return []byte{}
	}
	return []byte(done)
}

// aside is the size of a frame without its chunk, with the digits that places have; nameAside is that of
// the line with the event's name.
const (
	aside     = 32
	nameAside = 48
)

// Delta returns the frames of a delta event, one per chunk, each with the id of the place
// after it; see ParsePosition. The last has the event's position in the log: a client that resumes
// there has all of them. A chunk is UTF-8 in one line, as completion.Answer gives it. Data that is no
// ChatDelta has no frames.
func Delta(d schemas.Dialect, seq uint64, data json.RawMessage) []byte {
	list, named, n := completion.Parse(data).Get("chunks"), named(d), 0
	if !list.IsArray() {
		return nil
	}
	for range list.All() {
		n++
	}
	if n == 0 {
		return nil
	}
	frames, place := make([]byte, 0, len(list.Raw)+n*(aside+nameAside)), schemas.ChatPosition{Seq: seq}
	for _, chunk := range list.All() {
		if place.Chunk++; place.Chunk == n {
			place.Chunk = 0
		}
		name := ""
		if named && validName(chunk.Get("type").Str) {
			name = chunk.Get("type").Str
		}
		frames = appendFrame(frames, name, place, chunk.Raw)
	}
	return frames
}

// validName reports whether a chunk's type can be the name of an event: lower-case words.
func validName(name string) bool {
	return name != "" && len(name) <= 128 && strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789._-") == ""
}

// appendFrame is the frame of a chunk, with an id as ParsePosition reads it. One at the zero place has
// no id, and an empty name is left out.
func appendFrame(b []byte, name string, p schemas.ChatPosition, data string) []byte {
	if name != "" {
		b = append(b, "event: "...)
		b = append(b, name...)
		b = append(b, '\n')
	}
	if p.Seq > 0 {
		b = append(b, "id: "...)
		b = strconv.AppendUint(b, p.Seq, 10)
		if p.Chunk > 0 {
			b = append(b, '.')
			b = strconv.AppendInt(b, int64(p.Chunk), 10)
		}
		b = append(b, '\n')
	}
	b = append(b, "data: "...)
	b = append(b, data...)
	return append(b, "\n\n"...)
}

// Last is the frames of the end of a completion; refusal is nil where it succeeded.
func Last(seq uint64, refusal *RefusalError) []byte {
	b := []byte{}
	if refusal != nil {
		b = refusal.frame()
	}
	return appendFrame(b, "", schemas.ChatPosition{Seq: seq}, "[DONE]")
}

// Interrupted is what a stream ends with that ends before its completion does, by err. Its
// client goes on from the event that it read last.
func Interrupted(detail string) []byte {
	r := refused(schemas.Unavailable, schemas.ChatError{Message: detail})
	return append(r.frame(), done...)
}

// frame returns the error as OpenAI streams it. It has no choices: clients that know chunks by them would
// read the end of an answer, and overlook the error.
func (r *RefusalError) frame() []byte {
	return appendEvent(nil, "", schemas.ChatPosition{}, schemas.ChatRefusal{Error: r.said()})
}

// ParsePosition reads the id of a frame: the position of an event, and maybe a dot and how many
// of the event's chunks lie before the place, from 1 on and without zeros before it.
func ParsePosition(id string) (p schemas.ChatPosition, ok bool) {
	at, chunk, inside := strings.Cut(id, ".")
	seq, ok := stream.Position(at)
	if !ok || !inside {
		return schemas.ChatPosition{Seq: seq}, ok
	}
	n, err := strconv.ParseUint(chunk, 10, 31)
	if err != nil || chunk[0] == '0' || seq == 0 {
		return schemas.ChatPosition{}, false
	}
	return schemas.ChatPosition{Seq: seq, Chunk: int(n)}, true
}
