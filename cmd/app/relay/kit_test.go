package relay_test

import (
	"context"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"weir/cmd/app/relay"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// api stands for the agent API: it answers every request with its own name, and
// keeps what it was asked.
type api struct {
	mu     sync.Mutex
	bodies []string
	tokens []bool
	reply  func(ctx context.Context, body string) (string, error)
}

func (a *api) ask(ctx context.Context, body []byte, tokened bool) ([]byte, error) {
	a.mu.Lock()
	a.bodies, a.tokens = append(a.bodies, string(body)), append(a.tokens, tokened)
	reply := a.reply
	a.mu.Unlock()
	if reply == nil {
		return []byte(`{"ok":true,"request_id":"r","operation":"status","data":{"x":"<&>","n":1.50}}`), nil
	}
	doc, err := reply(ctx, string(body))
	return []byte(doc), err
}

func (a *api) asked() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]string(nil), a.bodies...)
}

// end is a Relay that runs.
type end struct {
	*relay.Relay
	t      *testing.T
	events chan relay.Event
	stop   context.CancelFunc
	done   chan error
}

// begin runs a Relay against the double.
func begin(t *testing.T, at string, a *api, change ...func(*relay.Config)) *end {
	t.Helper()
	u, err := url.Parse(at)
	require.NoError(t, err)
	e := &end{t: t, events: make(chan relay.Event, 1000), done: make(chan error, 1)}
	cfg := relay.Config{
		URL: u, Session: "s1", Ask: a.ask, Notice: func(ev relay.Event) { e.events <- ev },
		Wait: time.Millisecond, MaxWait: 5 * time.Millisecond,
	}
	for _, f := range change {
		f(&cfg)
	}
	e.Relay = relay.New(cfg)
	ctx, cancel := context.WithCancel(t.Context())
	e.stop = cancel
	go func() { e.done <- e.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		_ = e.over() // what it is matters to those who ask
	})
	return e
}

// over waits for the end of Run.
func (e *end) over() error {
	e.t.Helper()
	select {
	case err := <-e.done:
		e.done <- err
		return err
	case <-time.After(20 * time.Second):
		e.t.Fatal("it still runs")
		return nil
	}
}

// await waits for an event.
func (e *end) await(name string) relay.Event {
	e.t.Helper()
	for {
		select {
		case ev := <-e.events:
			if ev.Event == name {
				return ev
			}
		case <-time.After(20 * time.Second):
			e.t.Fatalf("no %s", name)
		}
	}
}

func token(s string) func(*relay.Config) { return func(c *relay.Config) { c.Token = s } }
