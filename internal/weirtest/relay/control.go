package relay

import (
	"slices"

	"github.com/coder/websocket"

	"weir/internal/weirtest/poll"
)

// Ledger is a copy of the connections that were asked for, in their order.
func (r *Relay) Ledger() []Attempt {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.ledger)
}

// Wait blocks until as many connections of role relay have come to a session, the
// present one with it, and one is there.
func (r *Relay) Wait(session string, times int) {
	r.t.Helper()
	r.wait("a relay end", func() bool {
		s := r.sessions[session]
		return s != nil && s.relays >= times && s.ends[RoleRelay] != nil
	})
}

// WaitGone blocks until no connection of role relay is in a session.
func (r *Relay) WaitGone(session string) {
	r.t.Helper()
	r.wait("a relay end to go", func() bool {
		s := r.sessions[session]
		return s == nil || s.ends[RoleRelay] == nil
	})
}

// WaitAttempts blocks until as many connections were asked for.
func (r *Relay) WaitAttempts(n int) {
	r.t.Helper()
	r.wait("connections", func() bool { return len(r.ledger) >= n })
}

func (r *Relay) wait(what string, cond func() bool) {
	r.t.Helper()
	met := false
	poll.On(r.changed, func() bool {
		met = cond()
		return met || r.ended
	})
	if !met {
		r.t.Fatalf("relay: waited too long for %s", what)
	}
}

// Refuse answers the next connections of role relay with these statuses, one each.
func (r *Relay) Refuse(statuses ...int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refusing = append(r.refusing, statuses...)
}

// End closes the relay end of a session with a code and a reason. It does not wait
// for that to be heard.
func (r *Relay) End(session string, code int, reason string) {
	r.t.Helper()
	if e := r.present(session); e != nil {
		r.wg.Go(func() { _ = e.conn.Close(websocket.StatusCode(code), reason) }) // it waits for the other side
	}
}

// Cut ends the connection of the relay end without a word.
func (r *Relay) Cut(session string) {
	r.t.Helper()
	if e := r.present(session); e != nil {
		_ = e.raw.Close()
	}
}

// Stall has the connection of the relay end stay, without an answer to its pings.
func (r *Relay) Stall(session string) {
	r.t.Helper()
	if e := r.present(session); e != nil {
		e.stalled.Store(true)
	}
}

func (r *Relay) present(session string) *end {
	r.t.Helper()
	e := r.end(session, RoleRelay)
	if e == nil {
		r.t.Errorf("relay: there is no relay end in session %q", session)
	}
	return e
}
