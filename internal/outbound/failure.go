package outbound

import (
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

// lostBefore is a connection that ended, or spoke, before it was used.
func lostBefore(err error) *fault.Call {
	code := schemas.UpstreamReset
	if errors.Is(err, errUnsolicited) {
		code = schemas.UpstreamProtocol
	}
	return &fault.Call{Code: code, Cause: &PhaseError{PhaseHeader, err}}
}

// headerFailure finds the word for an exchange without an answer.
func (x *exchange) headerFailure(err error) error {
	spoke, readErr := x.wire.seen()
	if errors.Is(err, errOver) && readErr != nil { // why the body was let go of
		err = readErr
	}
	switch own := x.source.failure(); {
	case own != nil:
		return x.fail(schemas.Canceled, own)
	case errors.Is(readErr, errHeaderBytes):
		return x.fail(schemas.UpstreamHeadersTooLarge, err)
	case broken(err, readErr) || readErr != nil && spoke == begun:
		return x.fail(schemas.UpstreamReset, err)
	default: // it was read, and is not HTTP
		return x.fail(schemas.UpstreamProtocol, err)
	}
}

// broken tells a connection that ended from bytes that make no sense. For the
// end before a trailer net/http has no value but a text.
func broken(err, readErr error) bool {
	return errors.Is(err, io.ErrUnexpectedEOF) || readErr != nil && errors.Is(err, readErr) ||
		strings.Contains(err.Error(), "unexpected EOF")
}

// bodyFailure finds the word for an answer that broke off in its body.
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

// fail seals the wire and makes the call's error. That the caller or the clock
// gave up explains whatever the connection then did.
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
