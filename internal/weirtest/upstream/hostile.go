package upstream

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"net"
	"net/http"
	"strconv"
	"strings"
)

// AcceptHang takes the connection and never reads from it.
func AcceptHang() Behaviour {
	return OnAccept(func(x *Exchange) {
		<-x.Stopped()
		x.Close()
	})
}

// Unsolicited speaks before it was asked, then serves the next steps.
func Unsolicited(text string) Behaviour {
	return OnAccept(func(x *Exchange) { x.Write(text) })
}

// ResetInHandshake reads the beginning of TLS and resets.
func ResetInHandshake() Behaviour {
	return OnAccept(func(x *Exchange) {
		_, _ = x.bare.Read(make([]byte, 1))
		x.Reset()
	})
}

// HandshakeHang reads TLS's first message and never answers it.
func HandshakeHang() Behaviour {
	return OnAccept(func(x *Exchange) {
		x.Await()
		x.Close()
	})
}

// ResetBeforeResponse reads the whole request and resets.
func ResetBeforeResponse() Behaviour { return Answer((*Exchange).Reset) }

// CloseBeforeResponse reads the whole request and closes.
func CloseBeforeResponse() Behaviour { return Answer((*Exchange).Close) }

// HalfClose reads the whole request, ends its own direction and stays.
func HalfClose() Behaviour {
	return Answer(func(x *Exchange) {
		if c, ok := x.conn.(interface{ CloseWrite() error }); ok {
			_ = c.CloseWrite()
		}
		if c, ok := x.bare.(*net.TCPConn); ok {
			_ = c.CloseWrite()
		}
		x.Await()
	})
}

// ResetMidBody answers with half of the promised body and resets. A kernel
// hands over what arrived before it tells of the reset.
func ResetMidBody() Behaviour {
	return Answer(func(x *Exchange) {
		x.Write("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello")
		x.Reset()
	})
}

// EarlyThenReset answers before it reads the body, and resets.
func EarlyThenReset(status int) Behaviour {
	return Early(func(x *Exchange) {
		x.Write(Message(x.Request.Method, status, "early"))
		x.Reset()
	})
}

// CloseReused answers the first request of a connection and keeps it; of later
// ones it reads all and closes: the race that makes net/http send again.
func CloseReused() Behaviour {
	return Answer(func(x *Exchange) {
		if x.Served() > 1 {
			x.Close()
			return
		}
		x.Write(Message(x.Request.Method, http.StatusOK, `{"ok":true}`))
		x.KeepAlive()
	})
}

// LyingLength answers with a body and another Content-Length, and closes.
func LyingLength(claimed int, body string) Behaviour {
	return Raw(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", claimed, body))
}

// ChunkedNoTerminator sends one chunk, not the last one, and closes.
func ChunkedNoTerminator() Behaviour {
	return Raw("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")
}

// endless writes head and then block until nobody takes it.
func endless(head, block string) Behaviour {
	return Answer(func(x *Exchange) {
		ok := x.Write(head)
		for ok {
			ok = x.Write(block)
		}
	})
}

// InfiniteBody never ends a body without a length.
func InfiniteBody() Behaviour {
	return endless("HTTP/1.1 200 OK\r\n\r\n", strings.Repeat("x", 32<<10))
}

// InfiniteChunked never ends a chunked body.
func InfiniteChunked() Behaviour {
	return endless("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "8000\r\n"+strings.Repeat("x", 32<<10)+"\r\n")
}

// BodyBytes answers with a body of n bytes.
func BodyBytes(n int) Behaviour { return Respond(http.StatusOK, strings.Repeat("x", n)) }

// Encoding answers with a Content-Encoding and these bytes.
func Encoding(value, body string) Behaviour {
	return Respond(http.StatusOK, body, Header("Content-Encoding", value))
}

// Gzip answers with text, compressed.
func Gzip(text string) Behaviour { return Encoding("gzip", Compress(text)) }

// GzipBomb answers with zeros that decompress to n bytes, in one member.
func GzipBomb(n int64) Behaviour { return Encoding("gzip", CompressedZeros(n)) }

// CompressedZeros is n zero bytes in gzip, at the price of a few: with nothing but
// zeros before it, each block of zeros compresses to the same bytes.
func CompressedZeros(n int64) string {
	const block = 1 << 20
	var b, body bytes.Buffer
	b.WriteString("\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff")
	w, _ := flate.NewWriter(&body, flate.BestCompression) // the level is one that exists
	zeros := make([]byte, block)
	add := func(size int64) string {
		_, _ = w.Write(zeros[:size])
		_ = w.Flush()
		defer body.Reset()
		return body.String()
	}
	sum := crc32.NewIEEE()
	again := ""
	for i, left := int64(0), n; left > 0; i++ {
		size := min(left, block)
		if size < block || i < 2 {
			again = add(size)
		}
		b.WriteString(again)
		_, _ = sum.Write(zeros[:size])
		left -= size
	}
	_ = w.Close()
	b.Write(body.Bytes())
	_ = binary.Write(&b, binary.LittleEndian, []uint32{sum.Sum32(), uint32(n & math.MaxUint32)}) // the format's own modulus
	return b.String()
}

// GzipEmptyMembers sends compressed nothing for ever: no decoded byte, no end.
func GzipEmptyMembers() Behaviour {
	return endless("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n", strings.Repeat(Compress(""), 1000))
}

// GzipTruncated answers with half of a compressed text, well framed.
func GzipTruncated() Behaviour {
	whole := Compress(strings.Repeat("text ", 100))
	return Encoding("gzip", whole[:len(whole)/2])
}

// GzipTrailingGarbage adds what is not compressed after what is.
func GzipTrailingGarbage() Behaviour {
	return Encoding("gzip", Compress("text")+"garbage after the end")
}

// Compress is text in gzip.
func Compress(text string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = io.WriteString(w, text)
	_ = w.Close()
	return b.String()
}

// HeaderCount answers with n header fields.
func HeaderCount(n int) Behaviour {
	var b strings.Builder
	for i := range n {
		b.WriteString("X-" + strconv.Itoa(i) + ": v\r\n")
	}
	return Raw("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n" + b.String() + "\r\nok")
}

// HeaderBytes answers with one header field of n bytes.
func HeaderBytes(n int) Behaviour {
	return Raw("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX-Long: " + strings.Repeat("a", n) + "\r\n\r\nok")
}

// TrailerBytes ends a chunked body with a trailer field of n bytes.
func TrailerBytes(n int) Behaviour {
	return Raw("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-T\r\n\r\n2\r\nok\r\n0\r\nX-T: " +
		strings.Repeat("a", n) + "\r\n\r\n")
}

// InformationalFlood sends n interim answers before the real one.
func InformationalFlood(n int) Behaviour {
	return Answer(func(x *Exchange) {
		for range n {
			if !x.Write("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n") {
				return
			}
		}
		x.Write(Message(x.Request.Method, http.StatusOK, "ok"))
	})
}

// EndlessHeader never ends its headers.
func EndlessHeader() Behaviour {
	return endless("HTTP/1.1 200 OK\r\n", strings.Repeat("X-More: and more\r\n", 1000))
}

// LyingLengthOf is LyingLength with further header lines, each with its line break.
func LyingLengthOf(headers string, claimed int, body string) Behaviour {
	return Raw(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n%s\r\n%s", claimed, headers, body))
}
