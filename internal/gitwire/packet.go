package gitwire

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"strconv"
)

// Flush ends a list of packets. Delim stands between the parts of a request of protocol 2.
const (
	Flush = "0000"
	Delim = "0001"
)

const (
	headSize   = 4
	maxPacket  = 65520                // bytes of a whole packet
	maxPayload = maxPacket - headSize // of what it carries
	maxBand    = maxPayload - 1       // of that behind the number of a band
)

// Kind is what a packet is.
type Kind int

// The kinds of packets. Those without data are numbered as they are written.
const (
	KindFlush Kind = iota // 0000
	KindDelim             // 0001
	KindEnd               // 0002, the end of an answer of protocol 2
	KindData
)

// Packets reads packet lines, and never a byte more than those that it returns.
type Packets struct {
	r    io.Reader
	buf  []byte
	size int // of all packets so far
}

// NewPackets returns a reader of r's packets.
func NewPackets(r io.Reader) *Packets { return &Packets{r: r} }

// Next returns the next packet; its data are good until the call after. io.EOF comes only
// between packets; where r ends in one, the error is ErrMalformed and
// io.ErrUnexpectedEOF at the same time.
func (p *Packets) Next() (Kind, []byte, error) {
	var head [headSize]byte
	if _, err := io.ReadFull(p.r, head[:]); err == io.EOF {
		return 0, nil, io.EOF
	} else if err != nil {
		return 0, nil, ended(err, "the length of a packet")
	}
	number, err := strconv.ParseUint(string(head[:]), 16, 16)
	n := int(number)
	p.size += max(n, headSize)
	switch {
	case err != nil:
		return 0, nil, malformed("a packet's length is not four hex digits")
	case n < int(KindData):
		return Kind(n), nil, nil
	case n < headSize, n > maxPacket:
		return 0, nil, malformed("a packet's length is one that no packet has")
	}
	if n -= headSize; cap(p.buf) < n {
		p.buf = make([]byte, max(n, 512))
	}
	p.buf = p.buf[:n]
	if _, err := io.ReadFull(p.r, p.buf); err != nil {
		return 0, nil, ended(err, "a packet")
	}
	return KindData, p.buf, nil
}

// lines returns the data of the packets up to a flush. where names them in the error of an early end.
func (p *Packets) lines(where string) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for {
			kind, data, err := p.Next()
			switch {
			case err != nil:
				yield(nil, ended(err, where))
				return
			case kind == KindFlush:
				return
			case kind != KindData:
				yield(nil, misplaced())
				return
			case !yield(data, nil):
				return
			}
		}
	}
}

func misplaced() error { return malformed("a line or a packet stands where it does not belong") }

// ended tells the end of r, which comes too early, from its failure. One that failed with
// io.ErrUnexpectedEOF itself, or an error around that, is malformed as well.
func ended(err error, where string) error {
	if errors.Is(err, ErrMalformed) {
		return err // it says where already
	}
	if err == io.EOF { //nolint:errorlint // of r, and not around another
		err = io.ErrUnexpectedEOF
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%w: %w in %s", ErrMalformed, err, where)
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
	data = data[:min(len(data), maxPayload)]
	return append(fmt.Appendf(b, "%04x", headSize+len(data)), data...)
}

// appendLine appends a packet of a text that is known to fit into one.
func appendLine(b []byte, text string) []byte { return AppendPacket(b, []byte(text)) }

// appendBand appends data on a band, in as many packets as they need.
func appendBand(b []byte, band byte, data []byte) []byte {
	for len(data) > 0 {
		n := min(len(data), maxBand)
		b = AppendPacket(b, append([]byte{band}, data[:n]...))
		data = data[n:]
	}
	return b
}
