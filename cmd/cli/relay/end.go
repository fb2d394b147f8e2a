package relay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/coder/websocket"
)

// ErrReplaced says that another end has connected to the session: coming back
// would only put that one out.
var ErrReplaced = errors.New("another relay client has taken this session over")

// RefusedError says that the relay does not take this end.
type RefusedError struct {
	// Status is the status of the handshake, or 0. Then the relay closed the connection
	// with Code and Reason.
	Status int
	Code   int
	Reason string
}

func (e *RefusedError) Error() string {
	switch {
	case e.Status == http.StatusUnauthorized, e.Status == http.StatusForbidden:
		return fmt.Sprintf("the relay does not take the token (%d)", e.Status)
	case e.Status == http.StatusBadRequest:
		return "the relay does not take the session (400)"
	case e.Status >= 300 && e.Status < 400:
		return fmt.Sprintf("the relay sends its clients elsewhere (%d): name that place itself", e.Status)
	case e.Status != 0:
		return fmt.Sprintf("there is no relay at this address: it answers %d", e.Status)
	default:
		return fmt.Sprintf("the relay has closed the connection and does not take the token (%d%s)", e.Code, quoted(e.Reason))
	}
}

// Denied reports whether the token is at fault.
func (e *RefusedError) Denied() bool {
	return e.Status == 0 || e.Status == http.StatusUnauthorized || e.Status == http.StatusForbidden
}

// final reports whether coming back would not help.
func final(err error) bool {
	_, refused := errors.AsType[*RefusedError](err)
	return refused || errors.Is(err, ErrReplaced)
}

// The codes with which relays turn away who they do not trust, beside the policy
// violation that RFC 6455 has for it.
const (
	closeUnauthorized = 4001
	closeForbidden    = 4003
)

// closed words the end of a connection. Relays that give a session to who came
// last say "replaced", under 1012 or a code of their own: the code alone is no
// help, for 1012 is also what a relay that restarts says.
func closed(err error) error {
	end, ok := errors.AsType[websocket.CloseError](err)
	switch {
	case !ok && errors.Is(err, io.EOF):
		return errors.New("the relay has cut the connection")
	case !ok:
		return errors.New("the connection to the relay was lost")
	case strings.Contains(strings.ToLower(end.Reason), "replaced"):
		return ErrReplaced
	case end.Code == websocket.StatusPolicyViolation, end.Code == closeUnauthorized, end.Code == closeForbidden:
		return &RefusedError{Code: int(end.Code), Reason: end.Reason}
	default:
		return fmt.Errorf("the relay has closed the connection (%d%s)", end.Code, quoted(end.Reason))
	}
}

// undialed returns why there is no connection. The error of a client contains the URL,
// and so the token: only the text of its cause is passed on.
func undialed(resp *http.Response, err error) error {
	if resp != nil && resp.StatusCode != http.StatusSwitchingProtocols {
		if passing(resp.StatusCode) {
			return fmt.Errorf("the relay answers %d", resp.StatusCode)
		}
		return &RefusedError{Status: resp.StatusCode}
	}
	if resp != nil {
		return errors.New("what is at this address does not speak WebSocket")
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return errors.New("the relay did not answer in time")
	}
	if cause, ok := errors.AsType[*url.Error](err); ok {
		return fmt.Errorf("the relay cannot be reached: %w", cause.Err)
	}
	return errors.New("the relay cannot be reached")
}

// passing reports whether a status may be another one the next time.
func passing(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return true
	default:
		return status >= http.StatusInternalServerError || status < http.StatusMultipleChoices
	}
}

// quoted is a text of the relay's, made safe to show.
func quoted(s string) string {
	if s == "" {
		return ""
	}
	return fmt.Sprintf(" %q", s)
}
