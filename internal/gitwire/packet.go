package gitwire

import (
	"encoding/hex"
	"errors"
	"io"
)

// Flush ends a list of packets.
const Flush = "0000"

// Delim stands between the parts of a request of protocol 2.
const Delim = "0001"

const (
	headSize   = 4
	maxPacket  = 65520              // bytes of a whole packet
	maxPayload = maxPacket - 4      // of what it carries
	maxBand    = maxPayload - 1     // of that behind the number of a band
	hexDigits  = "0123456789abcdef" // of the head
)

// Kind is what a packet is.
type Kind int

// The kinds of packets.
const (
	KindData  Kind = iota
	KindFlush      // 0000
	KindDelim      // 0001
	KindEnd        // 0002, the end of an answer of protocol 2
)

// Packets reads packet lines, and never a byte more than those that it returns.
type Packets struct {
	r    io.Reader
	head [headSize]byte
	buf  []byte
	size int
}

// NewPackets returns a reader of r's packets.
func NewPackets(r io.Reader) *Packets { return &Packets{r: r} }

// Next returns the next packet; its data are good until the call after. io.EOF comes only
// between packets; where r ends in one, the error is ErrMalformed and
// io.ErrUnexpectedEOF at the same time.
func (p *Packets) Next() (Kind, []byte, error) {
	n, err := p.next()
	if err != nil {
		return 0, nil, err
	}
	p.size += max(n, headSize)
	switch {
	case n < headSize-1:
		return [...]Kind{KindFlush, KindDelim, KindEnd}[n], nil, nil
	case n == headSize-1, n > maxPacket:
		return 0, nil, malformed("a packet's length is one that no packet has")
	}
	if n -= headSize; cap(p.buf) < n {
		p.buf = make([]byte, n, max(n, 512))
	}
	p.buf = p.buf[:n]
	if _, err := io.ReadFull(p.r, p.buf); err != nil {
		return 0, nil, ended(err, "a packet")
	}
	return KindData, p.buf, nil
}

// Size is how many bytes the packets had so far.
func (p *Packets) Size() int { return p.size }

// next reads a head.
func (p *Packets) next() (int, error) {
	if _, err := io.ReadFull(p.r, p.head[:]); err != nil {
		if errors.Is(err, io.EOF) {
			return 0, io.EOF
		}
		return 0, ended(err, "the length of a packet")
	}
	var b [2]byte
	if _, err := hex.Decode(b[:], p.head[:]); err != nil {
		return 0, malformed("a packet's length is not four hex digits")
	}
	return int(b[0])<<8 | int(b[1]), nil
}

// ended tells the end of r, which comes too early, from its failure. One that
// failed with io.ErrUnexpectedEOF itself is the same to every caller.
func ended(err error, where string) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return cut(where)
	}
	return err
}

// line is a packet's text without the line feed that it may end in.
func line(data []byte) string {
	if n := len(data); n > 0 && data[n-1] == '\n' {
		data = data[:n-1]
	}
	return string(data)
}

// AppendPacket appends one packet line; what data has beyond 65,516 bytes is cut off.
func AppendPacket(b, data []byte) []byte {
	if len(data) > maxPayload {
		data = data[:maxPayload]
	}
	return append(appendHead(b, len(data)), data...)
}

// appendLine appends a packet of parts that are known to fit into one.
func appendLine(b []byte, parts ...string) []byte {
	n := 0
	for _, s := range parts {
		n += len(s)
	}
	b = appendHead(b, n)
	for _, s := range parts {
		b = append(b, s...)
	}
	return b
}

func appendHead(b []byte, n int) []byte {
	n += headSize
	return append(b, hexDigits[n>>12&15], hexDigits[n>>8&15], hexDigits[n>>4&15], hexDigits[n&15])
}

// appendBand appends data on a band, in as many packets as they need.
func appendBand(b []byte, band byte, data []byte) []byte {
	for len(data) > 0 {
		piece := data[:min(len(data), maxBand)]
		b = append(append(appendHead(b, 1+len(piece)), band), piece...)
		data = data[len(piece):]
	}
	return b
}
