package outbound

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"

	"weir/internal/fault"
	"weir/schemas"
)

var (
	errPhaseTime = errors.New("the phase took too long")
	errLeft      = errors.New("the reader closed the stream")
)

// failure finds the code for an exchange that broke off.
func (x *exchange) failure(err error) error {
	inHead, readErr := x.wire.seen()
	if errors.Is(err, errOver) && readErr != nil { // why the body was let go of
		err = readErr
	}
	text := err.Error() // where net/http has no value for it
	ended := errors.Is(err, io.ErrUnexpectedEOF) || readErr != nil && errors.Is(err, readErr) || strings.Contains(text, "unexpected EOF")
	switch own := x.source.failure(); {
	case own != nil:
		return x.fail(schemas.Canceled, own)
	case errors.Is(readErr, errHeaderBytes), x.phase == PhaseBody && !ended && strings.Contains(text, "suspiciously long trailer"):
		return x.fail(schemas.UpstreamHeadersTooLarge, err)
	case ended && x.phase == PhaseBody:
		return x.fail(schemas.UpstreamTruncated, err)
	case ended, x.phase == PhaseHeader && readErr != nil && inHead:
		return x.fail(schemas.UpstreamReset, err)
	default: // it was read, and is not HTTP
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

// cut reports whether the beginning of an answer came, and ended within its headers. The parser of
// net/http takes the end of the connection for the end of a line, and so for malformed bytes.
func cut(head []byte) bool {
	const prefix = "HTTP/1."
	n := min(len(head), len(prefix))
	return n > 0 && string(head[:n]) == prefix[:n] && !bytes.Contains(head, []byte("\n\r\n")) && !bytes.Contains(head, []byte("\n\n"))
}
