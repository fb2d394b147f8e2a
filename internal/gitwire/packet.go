package gitwire

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"strconv"
	"strings"

	"github.com/go-git/go-git/v5/plumbing/format/pktline"
)

// Flush ends a list of packets. Delim stands between the parts of a request of protocol 2.
const (
	Flush = "0000"
	Delim = "0001"
)

const (
	headSize   = 4
	maxPayload = pktline.MaxPayloadSize
	maxBand    = maxPayload - 1 // of what follows the number of a band
)

// packets are the texts of a request. A packet without data, such as a flush, is an empty one. The library
// does not read delimiters, which are of protocol 2.
func packets(data []byte) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for len(data) > 0 {
			n, err := strconv.ParseUint(string(data[:min(headSize, len(data))]), 16, 16)
			switch size := int(n); {
			case err != nil, size == headSize-1, len(data) < max(size, headSize):
				yield("", malformed("a packet's length is none"))
				return
			case !yield(line(data[min(headSize, size):size]), nil):
				return
			default:
				data = data[max(size, headSize):]
			}
		}
	}
}

// lines are the texts of the packets up to a flush, and no byte more is read. An ERR packet is a
// *RemoteError, and an early end also io.ErrUnexpectedEOF.
func lines(r io.Reader) iter.Seq2[string, error] {
	s := pktline.NewScanner(r)
	return func(yield func(string, error) bool) {
		for s.Scan() {
			if data := s.Bytes(); len(data) == 0 || !yield(line(data), nil) {
				return
			}
		}
		if err := s.Err(); err != nil {
			yield("", wireError(err))
		} else {
			yield("", wireError(io.ErrUnexpectedEOF))
		}
	}
}

// wireError is an error of the library as this package has it. An error of the reader below stays in it.
func wireError(err error) error {
	said, refused := errors.AsType[*pktline.ErrorLine](err)
	switch {
	case refused:
		return &RemoteError{Text: clean(said.Text)}
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, pktline.ErrInvalidPktLen):
		return fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	return err
}

// line is a packet's text without the line feed that it may end in.
func line(data []byte) string { return strings.TrimSuffix(string(data), "\n") }

// AppendPacket appends one packet line; what data has beyond 65,516 bytes is cut off.
func AppendPacket(b, data []byte) []byte {
	data = data[:min(len(data), maxPayload)]
	return append(fmt.Appendf(b, "%04x", headSize+len(data)), data...)
}

// appendLine appends a packet of a text that is known to fit into one.
func appendLine(b []byte, text string) []byte { return AppendPacket(b, []byte(text)) }

// encoded is what a writer of the library writes. It only fails for texts that are no packet.
func encoded(write func(io.Writer) error) []byte {
	var b bytes.Buffer
	_ = write(&b)
	return b.Bytes()
}
