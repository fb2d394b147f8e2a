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

// finalError ends a Relay: coming back would not help.
type finalError string

func (e finalError) Error() string { return string(e) }

const errReplaced finalError = "another relay client has taken this session over: each has a --session of its own"

// What to do about a final error.
const (
	setToken    = ": set the relay's token in $WEIR_RELAY_TOKEN or name a file with --relay-token-file" //nolint:gosec // no credential
	seeTheFlags = ": see --url and --session"
)

// refused is the error of a handshake that the relay ended with a status.
func refused(status int) error {
	switch {
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return finalError(fmt.Sprintf("the relay does not take the token (%d)", status) + setToken)
	case status == http.StatusBadRequest:
		return finalError("the relay does not take the session (400)" + seeTheFlags)
	case status == http.StatusRequestTimeout, status == http.StatusTooEarly, status == http.StatusTooManyRequests,
		status >= http.StatusInternalServerError, status < http.StatusMultipleChoices: // it may be another the next time
		return fmt.Errorf("the relay answers %d", status)
	case status < http.StatusBadRequest:
		return finalError(fmt.Sprintf("the relay sends its clients elsewhere (%d): name that place itself", status) + seeTheFlags)
	default:
		return finalError(fmt.Sprintf("there is no relay at this address: it answers %d", status) + seeTheFlags)
	}
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
		return errReplaced
	case end.Code == websocket.StatusPolicyViolation, end.Code == closeUnauthorized, end.Code == closeForbidden:
		return finalError(fmt.Sprintf("the relay has closed the connection and does not take the token (%d%s)", end.Code, quoted(end.Reason)) + setToken)
	default:
		return fmt.Errorf("the relay has closed the connection (%d%s)", end.Code, quoted(end.Reason))
	}
}

// undialed returns why there is no connection. The error of a client contains the URL,
// and so the token: only the text of its cause is passed on.
func undialed(resp *http.Response, err error) error {
	if resp != nil && resp.StatusCode != http.StatusSwitchingProtocols {
		return refused(resp.StatusCode)
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

// quoted is a text of the relay's, made safe to show.
func quoted(s string) string {
	if s == "" {
		return ""
	}
	return fmt.Sprintf(" %q", s)
}
