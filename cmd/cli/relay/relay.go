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
	"math/rand/v2"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"
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
)

// Event is something that happened. It holds nothing that an agent has written.
type Event struct {
	Event string
	// Operation of a request that was served, "other" for one that there is not.
	// Result is ok or the code of its error, and Took how long it took.
	Operation, Result string
	Took              time.Duration
	// Reason of a loss, for a person, and Wait what is left before the next try.
	Reason string
	Wait   time.Duration
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
		r.cfg.Notice(Event{Event: Lost, Reason: err.Error(), Wait: wait})
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
