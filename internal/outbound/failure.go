package outbound

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"strings"

	"weir/internal/fault"
	"weir/schemas"
)

var (
	errPhaseTime = errors.New("the phase took too long")
	errLeft      = errors.New("the reader closed the stream")
)

// headerFailure finds the code for an exchange without an answer.
func (x *exchange) headerFailure(err error) error {
	cut, readErr := x.wire.seen()
	if errors.Is(err, errOver) && readErr != nil { // why the body was let go of
		err = readErr
	}
	switch own := x.source.failure(); {
	case own != nil:
		return x.fail(schemas.Canceled, own)
	case errors.Is(readErr, errHeaderBytes):
		return x.fail(schemas.UpstreamHeadersTooLarge, err)
	case broken(err, readErr) || readErr != nil && cut:
		return x.fail(schemas.UpstreamReset, err)
	default: // it was read, and is not HTTP
		return x.fail(schemas.UpstreamProtocol, err)
	}
}

// broken distinguishes a connection that ended from malformed bytes. For the end before a trailer
// net/http has no value but a text.
func broken(err, readErr error) bool {
	return errors.Is(err, io.ErrUnexpectedEOF) || readErr != nil && errors.Is(err, readErr) ||
		strings.Contains(err.Error(), "unexpected EOF")
}

// bodyFailure finds the code for an answer that broke off in its body.
func (x *exchange) bodyFailure(err error) error {
	_, readErr := x.wire.seen()
	if errors.Is(err, errOver) && readErr != nil {
		err = readErr
	}
	switch own := x.source.failure(); {
	case own != nil:
		return x.fail(schemas.Canceled, own)
	case broken(err, readErr):
		return x.fail(schemas.UpstreamTruncated, err)
	case strings.Contains(err.Error(), "suspiciously long trailer"): // net/http has no value for it
		return x.fail(schemas.UpstreamHeadersTooLarge, err)
	default:
		return x.fail(schemas.UpstreamProtocol, err)
	}
}

// fail seals the wire and returns the call's error. A cancellation or a timeout explains whatever
// the connection then did.
func (x *exchange) fail(code schemas.Code, cause error) *fault.Call {
	sent := x.wire.seal()
	if own, over := givenUp(x.caller); over {
		code = own
	} else if own := context.Cause(x.ctx); errors.Is(own, errPhaseTime) {
		code = schemas.UpstreamTimeout
	} else if errors.Is(own, errLeft) {
		code = schemas.Canceled
	}
	return &fault.Call{Code: code, Sent: sent, Status: x.status, NoMemory: errors.Is(cause, errNoMemory), Cause: &PhaseError{x.phase, cause}}
}

// httpPrefix is how every answer begins.
const httpPrefix = "HTTP/1."

// head keeps the first header bytes: enough to distinguish a broken connection from malformed
// bytes. The parser of net/http cannot, because it takes the end of the connection for the end of a
// line.
type head struct {
	first []byte // as far as httpPrefix goes
	last  []byte // the last two bytes
	ended bool   // an empty line was seen
}

func (h *head) add(p []byte) {
	h.first = append(h.first, p[:min(len(p), len(httpPrefix)-len(h.first))]...)
	if h.ended {
		return
	}
	edge := slices.Concat(h.last, p[:min(len(p), 2)])
	h.ended = blankLine(edge) || blankLine(p)
	h.last = append(h.last, p[max(0, len(p)-2):]...)
	h.last = append([]byte(nil), h.last[max(0, len(h.last)-2):]...)
}

func blankLine(p []byte) bool {
	return bytes.Contains(p, []byte("\n\r\n")) || bytes.Contains(p, []byte("\n\n"))
}

// cut reports whether the beginning of an answer came, and ended within its headers.
func (h *head) cut() bool {
	return len(h.first) > 0 && string(h.first) == httpPrefix[:len(h.first)] && !h.ended
}
