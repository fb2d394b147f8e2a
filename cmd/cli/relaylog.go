package cli

import (
	"fmt"
	"io"
	"sync"
	"time"

	"weir/cmd/cli/relay"
)

// relayLog tells what happens: requests on standard output, the connection's fate
// on standard error; with --json all of it on standard output, one document a line.
type relayLog struct {
	env           *Env
	session, host string
	asJSON        bool

	mu sync.Mutex
}

// relayLine is an event for a program.
type relayLine struct {
	Event     string `json:"event"`
	Session   string `json:"session,omitempty"`
	Operation string `json:"operation,omitempty"`
	Result    string `json:"result,omitempty"`
	// DurationMS of a request, and RetryMS before the next try to connect.
	DurationMS int64  `json:"duration_ms,omitempty"`
	RetryMS    int64  `json:"retry_ms,omitempty"`
	Reason     string `json:"reason,omitempty"`
}

func (l *relayLog) event(e relay.Event) {
	line := relayLine{
		Event: e.Event, Operation: e.Operation, Result: e.Result,
		DurationMS: e.Took.Milliseconds(), RetryMS: e.Wait.Milliseconds(), Reason: e.Reason,
	}
	switch e.Event {
	case relay.Connected:
		line.Session = l.session
		l.say(l.env.Err, line, fmt.Sprintf("weir: serving session %s at %s", l.session, l.host))
	case relay.Lost:
		l.say(l.env.Err, line, fmt.Sprintf("weir: %s; trying again in %s", e.Reason, e.Wait.Round(100*time.Millisecond)))
	default:
		l.say(l.env.Out, line, fmt.Sprintf("%-14s %-20s %s", e.Operation, e.Result, e.Took.Round(100*time.Microsecond)))
	}
}

func (l *relayLog) say(to io.Writer, line relayLine, text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.asJSON {
		if doc, err := encode(line); err == nil {
			fmt.Fprintf(l.env.Out, "%s\n", doc)
		}
		return
	}
	fmt.Fprintln(to, text)
}

// total says what was not served: nobody else would.
func (l *relayLog) total(n relay.Counts) {
	if n.Dropped+n.Unheard > 0 {
		fmt.Fprintf(l.env.Err, "weir: %d messages could not be read and were dropped; %d answers found nobody to go to\n", n.Dropped, n.Unheard)
	}
}
