// Package relay serves the agent API to agents that reach it through a WebSocket
// relay: it connects out to the relay, carries each agent's request to the API and
// the answer back, and connects again when the connection is lost.
//
// Whatever a relay sends is untrusted. A message is bounded in size, one that
// cannot be read is refused or dropped, and no more requests than some are carried
// at once. An answer whose connection was lost meanwhile is lost too: agents ask
// again under the same request_id, which does nothing twice.
package relay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"
)

// Config of a Relay.
type Config struct {
	// URL is the relay's, ws or wss.
	URL *url.URL
	// Session is the meeting place of agents and this end.
	Session string
	// Token is the relay's, not Weir's; empty: none is sent.
	Token string
	// Ask carries a request to the agent API and returns the answer's body. The
	// request has a token of its own where tokened is true. An error means that there is no answer.
	Ask func(ctx context.Context, body []byte, tokened bool) ([]byte, error)
	// Notice receives the events, from several goroutines.
	Notice func(Event)

	// Slots is how many requests are carried at once. Further requests get an error that
	// says to wait. Default 16.
	Slots int
	// MaxMessage is the largest message that is looked at, in bytes; default 1 MiB.
	MaxMessage int64
	// Ping is how often the relay is asked whether it is there; default 20 s. Pong
	// is how long it may take to say so, or to take a message; default 10 s.
	Ping, Pong time.Duration
	// Wait is the shortest pause before connecting again, and MaxWait the longest;
	// default 1 s and 30 s. A connection that held for MaxWait begins anew.
	Wait, MaxWait time.Duration
}

func (c Config) withDefaults() Config {
	c.Slots = cmp.Or(c.Slots, 16)
	c.MaxMessage = cmp.Or(c.MaxMessage, 1<<20)
	c.Ping = cmp.Or(c.Ping, 20*time.Second)
	c.Pong = cmp.Or(c.Pong, 10*time.Second)
	c.Wait = cmp.Or(c.Wait, time.Second)
	c.MaxWait = cmp.Or(c.MaxWait, 30*time.Second)
	return c
}

// The events.
const (
	Connected = "connected"
	Lost      = "lost"   // it connects again after Wait
	Served    = "served" // a request was answered
	Unread    = "unread" // a message was dropped for Reason
)

// Event is something that happened. It holds nothing that an agent has written.
type Event struct {
	Event string `json:"event"`
	// Session is the one that is served from now on.
	Session string `json:"session,omitempty"`
	// Operation of a request that was served, "other" for one that there is not.
	// Result is ok or the code of its error, and Took how long it took.
	Operation  string        `json:"operation,omitempty"`
	Result     string        `json:"result,omitempty"`
	Took       time.Duration `json:"-"`
	DurationMS int64         `json:"duration_ms,omitempty"`
	// RetryMS and Wait are what is left before the next try, and Reason is of a loss, for a person.
	RetryMS int64         `json:"retry_ms,omitempty"`
	Wait    time.Duration `json:"-"`
	Reason  string        `json:"reason,omitempty"`
}

// Relay is one end of a relay's session.
type Relay struct {
	cfg    Config
	client *http.Client

	// Dropped are the messages that could not be answered: they were too large, no text, or had no
	// request_id. Unheard are those whose answers could not be sent.
	Dropped, Unheard atomic.Uint64
}

// New returns a Relay that is not connected. Run it once.
func New(cfg Config) *Relay {
	return &Relay{cfg: cfg.withDefaults(), client: newClient()}
}

// Run serves until ctx ends, and then returns nil; or until coming back would not
// help, with an error that says what to do.
func (r *Relay) Run(ctx context.Context) error {
	defer r.client.CloseIdleConnections()
	for failures := 0; ; failures++ {
		began := time.Now()
		err := r.session(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.As(err, new(finalError)):
			return err
		case time.Since(began) >= r.cfg.MaxWait:
			failures = 0
		}
		wait := r.pause(failures)
		r.cfg.Notice(Event{Event: Lost, Reason: err.Error(), Wait: wait, RetryMS: wait.Milliseconds()})
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
	}
}

// pause doubles with each failure, and is spread over its upper half so that the
// ends of a relay that has come back do not all arrive at once.
func (r *Relay) pause(failures int) time.Duration {
	longest := min(2*r.cfg.Wait<<min(failures, 16), r.cfg.MaxWait)
	if longest <= 0 { // more than a duration holds
		longest = r.cfg.MaxWait
	}
	return longest - rand.N(longest/2+1) //nolint:gosec // it spreads, it guards nothing
}

// address is where the session is. It has the token in it: it must not be shown.
func (r *Relay) address() string {
	u := *r.cfg.URL
	q := u.Query()
	q.Set("role", "relay")
	q.Set("sessionId", r.cfg.Session)
	if r.cfg.Token != "" {
		q.Set("token", r.cfg.Token)
	}
	u.RawQuery = q.Encode()
	return u.String()
}

// Address reads a relay's URL. It refuses the parameters that the protocol adds, above
// all a token, which every user of the machine could read.
func Address(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil, u.Host == "", u.Scheme != "ws" && u.Scheme != "wss":
		return nil, errors.New("it is not a ws or wss URL, such as ws://127.0.0.1:8787")
	case u.User != nil, u.Fragment != "":
		return nil, errors.New("it must have no user and no fragment")
	}
	for _, name := range []string{"role", "sessionId", "token"} {
		if u.Query().Has(name) {
			return nil, fmt.Errorf("leave %s out of it; the session and the relay's token are given by themselves", name)
		}
	}
	return u, nil
}

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
