package upstream

import (
	"encoding/binary"
	"strings"
)

// frame is one frame of HTTP/2.
func frame(kind, flags byte, stream uint32, payload string) string {
	head := make([]byte, 9, 9+len(payload))
	binary.BigEndian.PutUint32(head, uint32(len(payload))<<8) //nolint:gosec // a few KiB
	head[3], head[4] = kind, flags
	binary.BigEndian.PutUint32(head[5:], stream)
	return string(append(head, payload...))
}

// H2 answers a request of HTTP/1.1 in HTTP/2, as an upstream would that takes the other side to be no
// better than itself. The names are those of the corpus; a flood goes on for as long as it is read.
func H2(name string) (b Behaviour, known bool) {
	const headers, reset, settings, ping, goAway, continuation = 0x1, 0x3, 0x4, 0x6, 0x7, 0x9
	frames := ""
	switch name {
	case "h2_continuation_flood": // the headers of an answer never end
		frames = frame(headers, 0, 1, "\x88") + strings.Repeat(frame(continuation, 0, 1, strings.Repeat("\x00\x01a\x01b", 200)), 16)
	case "h2_ping_flood":
		frames = strings.Repeat(frame(ping, 0, 0, "12345678"), 1000)
	case "h2_settings_flood":
		frames = strings.Repeat(frame(settings, 0, 0, "\x00\x04\x00\x00\xff\xff"), 1000)
	case "h2_hpack_bomb": // one long literal that enters the table, and thousands of references to it
		frames = frame(headers, 0x4, 1, "\x88\x40\x01x\x7f\xa1\x1e"+strings.Repeat("a", 4000)+strings.Repeat("\xbe", 8000))
	case "h2_rapid_reset":
		var all strings.Builder
		for n := uint32(1); n < 2000; n += 2 {
			all.WriteString(frame(reset, 0, n, "\x00\x00\x00\x07"))
		}
		frames = all.String()
	case "h2_rst_refused_stream": // a claim that the request was not looked at
		frames = frame(reset, 0, 1, "\x00\x00\x00\x07")
	case "h2_goaway": // a claim that nothing was processed
		frames = frame(goAway, 0, 0, "\x00\x00\x00\x00\x00\x00\x00\x00")
	default:
		return Behaviour{}, false
	}
	return Answer(func(x *Exchange) {
		ok := x.Write(frame(settings, 0, 0, "") + frames)
		for ok && (strings.HasSuffix(name, "_flood") || name == "h2_rapid_reset") {
			ok = x.Write(frames)
		}
	}), true
}
