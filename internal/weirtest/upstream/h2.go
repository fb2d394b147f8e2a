package upstream

import (
	"encoding/binary"
	"strings"
)

// The types of HTTP/2's frames that are used here.
const (
	frameHeaders      = 0x1
	frameReset        = 0x3
	frameSettings     = 0x4
	framePing         = 0x6
	frameGoAway       = 0x7
	frameContinuation = 0x9
)

// frame is one frame of HTTP/2.
func frame(kind, flags byte, stream uint32, payload string) string {
	head := make([]byte, 9, 9+len(payload))
	binary.BigEndian.PutUint32(head, uint32(len(payload))<<8) //nolint:gosec // a few KiB
	head[3], head[4] = kind, flags
	binary.BigEndian.PutUint32(head[5:], stream)
	return string(append(head, payload...))
}

// HTTP2 answers a request of HTTP/1.1 in HTTP/2, as an upstream would that
// takes the other side to be no better than itself: settings, then the frames,
// once or for as long as anybody takes them.
func HTTP2(frames string, endless bool) Behaviour {
	return Answer(func(x *Exchange) {
		ok := x.Write(frame(frameSettings, 0, 0, "") + frames)
		for ok && endless {
			ok = x.Write(frames)
		}
	})
}

// H2ContinuationFlood never ends the headers of an answer.
func H2ContinuationFlood() Behaviour {
	return HTTP2(frame(frameHeaders, 0, 1, "\x88")+strings.Repeat(frame(frameContinuation, 0, 1, strings.Repeat("\x00\x01a\x01b", 200)), 16), true)
}

// H2PingFlood asks for signs of life without end.
func H2PingFlood() Behaviour {
	return HTTP2(strings.Repeat(frame(framePing, 0, 0, "12345678"), 1000), true)
}

// H2SettingsFlood changes its settings without end.
func H2SettingsFlood() Behaviour {
	return HTTP2(strings.Repeat(frame(frameSettings, 0, 0, "\x00\x04\x00\x00\xff\xff"), 1000), true)
}

// H2HpackBomb refers to one long table entry thousands of times.
func H2HpackBomb() Behaviour {
	const fragment = 4000
	long := "\x40\x01x\x7f\xa1\x1e" + strings.Repeat("a", fragment) // a literal that enters the table
	return HTTP2(frame(frameHeaders, 0x4, 1, "\x88"+long+strings.Repeat("\xbe", 8000)), false)
}

// H2RapidReset resets stream after stream.
func H2RapidReset() Behaviour {
	var b strings.Builder
	for n := uint32(1); n < 2000; n += 2 {
		b.WriteString(frame(frameReset, 0, n, "\x00\x00\x00\x07"))
	}
	return HTTP2(b.String(), true)
}

// H2RefusedStream says that it has not looked at the request, which nobody
// needs to believe.
func H2RefusedStream() Behaviour {
	return HTTP2(frame(frameReset, 0, 1, "\x00\x00\x00\x07"), false)
}

// H2GoAway says goodbye, and that nothing was processed.
func H2GoAway() Behaviour {
	return HTTP2(frame(frameGoAway, 0, 0, "\x00\x00\x00\x00\x00\x00\x00\x00"), false)
}
