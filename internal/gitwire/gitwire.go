// Package gitwire reads and writes what git's clients and servers say to each other:
// packet lines, the commands of a push, the report on them, the requests of a fetch,
// advertisements, and packs as far as their sizes go. It does no I/O of its own and
// starts nothing. The formats are those of git's documents gitprotocol-common,
// gitprotocol-pack, gitprotocol-v2 and gitformat-pack, with object ids by SHA-1.
package gitwire

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-git/go-git/v5/plumbing/format/pktline"
)

// ErrMalformed is what every reader here returns for bytes that are not what they
// should be; its text says what is wrong, without a byte of them. An error of the
// reader below is returned as it is.
var ErrMalformed = errors.New("malformed")

// ErrTooLarge is for what is well-formed and more than the limit.
var ErrTooLarge = errors.New("larger than the limit")

// Zero is the object id that stands for none.
const Zero = "0000000000000000000000000000000000000000"

// MaxText is the most that is kept of a text of the other side, in bytes.
const MaxText = 1024

func malformed(what string) error { return fmt.Errorf("%w: %s", ErrMalformed, what) }

func tooLarge(what string) error { return fmt.Errorf("%w: %s", ErrTooLarge, what) }

// ValidOid reports whether a text is an object id as git writes it: 40 hex digits, no
// capitals. Zero is one.
func ValidOid(s string) bool { return len(s) == len(Zero) && strings.Trim(s, "0123456789abcdef") == "" }

// plain reports whether a text is UTF-8 without control characters.
func plain(s string) bool {
	return utf8.ValidString(s) && strings.IndexFunc(s, control) < 0
}

func control(r rune) bool { return r < ' ' || r >= 0x7f && r < 0xa0 }

// clean makes a text of the other side fit to be kept and shown: one line of UTF-8,
// no control characters, up to MaxText bytes.
func clean(text string) string {
	s := strings.Map(func(r rune) rune {
		if control(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text[:min(len(text), MaxText)], ""))
	return strings.Join(strings.Fields(s), " ")
}

// ValidRef reports whether git would take a name for a ref (git-check-ref-format,
// with two parts at least). It does not look at what it begins with.
func ValidRef(name string) bool {
	if !strings.Contains(name, "/") || strings.HasSuffix(name, ".") || strings.Contains(name, "..") || strings.Contains(name, "@{") {
		return false
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == "" || part[0] == '.' || strings.HasSuffix(part, ".lock") {
			return false
		}
	}
	for i := range len(name) {
		if c := name[i]; c <= ' ' || c == 0x7f || strings.IndexByte(`~^:?*[\`, c) >= 0 {
			return false
		}
	}
	return true
}

// The media types of git's smart protocol over HTTP, by the service.

// AdvertisementType is the content type of a service's ref advertisement.
func AdvertisementType(service string) string { return "application/x-" + service + "-advertisement" }

// RequestType is that of what a client sends.
func RequestType(service string) string { return "application/x-" + service + "-request" }

// ResultType is the content type of a service's answer.
func ResultType(service string) string { return "application/x-" + service + "-result" }

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
