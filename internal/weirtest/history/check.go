package history

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"weir/schemas"
)

// Check holds a run against its invariants and returns what it broke, each breach under
// the invariant that says most about it:
//
//   - I1: what was said to be accepted is on the log, and what was refused is not.
//   - I2: an accepted action has one terminal event, in time, the last of its life.
//   - I3: the upstream heard a call no more often than its class allows.
//   - I4: it heard nothing that was not written down before.
//   - I5: the end, the upstream's ledger and the client say the same.
//   - I6: every attempt and denial left its evidence, once, before the end.
//   - I7: a reader was given an action's events, each once, in order.
//   - I9: a name is one action.
//   - I11: nothing was left behind.
//
// The other invariants need more than these ledgers: an endpoint's, a canary's, a clock.
func Check(run Run, bounds Bounds) []Violation {
	c := newChecker(run, bounds)
	c.accepted()
	c.named()
	c.settled()
	c.sent()
	c.ended()
	c.evidence()
	c.watched()
	c.left()
	slices.SortStableFunc(c.found, func(a, b Violation) int { return cmp.Compare(ordinal(a.Invariant), ordinal(b.Invariant)) })
	return c.found
}

func ordinal(invariant string) int {
	n, _ := strconv.Atoi(strings.TrimPrefix(invariant, "I"))
	return n
}

const (
	defaultAttempts = 3
	defaultHeal     = time.Minute
)

// checker is one check of one run.
type checker struct {
	run     Run
	bounds  Bounds
	actions []*Action
	byID    map[place][]*Action // of several kinds where something is wrong
	names   []*name
	found   []Violation
}

// place is an id, or a name, in its tenant.
type place struct{ tenant, text string }

// name is one thing that a client wanted done, with all that the ledgers know of it.
type name struct {
	place
	asked   []Asked
	hits    []Hit
	actions []*Action
	flawed  bool // its hits break I3 or I4: the counts of I5 say no more
}

func newChecker(run Run, bounds Bounds) *checker {
	bounds.Attempts = cmp.Or(bounds.Attempts, defaultAttempts)
	bounds.Heal = cmp.Or(bounds.Heal, defaultHeal)
	c := &checker{run: run, bounds: bounds, actions: Read(run.Log), byID: map[place][]*Action{}}
	for _, a := range c.actions {
		at := place{a.Tenant, a.ID}
		c.byID[at] = append(c.byID[at], a)
	}
	known := map[place]*name{}
	get := func(p place) *name {
		if known[p] == nil {
			known[p] = &name{place: p}
			c.names = append(c.names, known[p])
		}
		return known[p]
	}
	for _, a := range run.Asked {
		n := get(place{a.Tenant, a.Name})
		n.asked = append(n.asked, a)
	}
	for _, h := range run.Hits {
		mark, _ := h.step()
		n := get(place{h.Tenant, mark})
		n.hits = append(n.hits, h)
	}
	c.attribute(known)
	return c
}

// attribute finds the actions of each name: those whose ids clients were told, the one
// that has the name for its id, and whatever was accepted with the name in its payload.
func (c *checker) attribute(known map[place]*name) {
	add := func(n *name, all ...*Action) {
		for _, a := range all {
			if n != nil && !slices.Contains(n.actions, a) {
				n.actions = append(n.actions, a)
			}
		}
	}
	for _, n := range c.names {
		for _, asked := range n.asked {
			if asked.ID != "" {
				add(n, c.byID[place{n.tenant, asked.ID}]...)
			}
		}
		add(n, c.byID[n.place]...)
	}
	for _, a := range c.actions {
		accepted := a.Accepted()
		if accepted == nil || !calls(a.Kind) {
			continue // the payload of another kind may speak of a name: a rule's does
		}
		words := strings.FieldsFunc(string(accepted.Payload), func(r rune) bool { return r > 127 || !schemas.ValidID(string(r)) })
		for _, w := range words {
			add(known[place{a.Tenant, w}], a)
		}
	}
}

func (c *checker) breach(invariant, tenant, subject, format string, args ...any) {
	c.found = append(c.found, Violation{Invariant: invariant, Tenant: tenant, Subject: subject, Detail: fmt.Sprintf(format, args...)})
}

// String is a violation in one line.
func (v Violation) String() string {
	return v.Invariant + " " + v.Tenant + "/" + v.Subject + ": " + v.Detail
}

// step splits a mark into the name and the step that it names; -1: it names none.
func (h Hit) step() (mark string, step int) {
	if before, after, ok := strings.Cut(h.Mark, "/"); ok {
		if n, err := strconv.Atoi(after); err == nil {
			return before, n
		}
	}
	return h.Mark, -1
}

// left is I11. It reads what was still there when all was over.
func (c *checker) left() {
	l := c.run.Left
	if l.Backlog != 0 {
		c.breach("I11", "", "", "%d messages wait for a worker or an acknowledgement", l.Backlog)
	}
	if l.Consumers != 0 {
		c.breach("I11", "", "", "%d more consumers than before", l.Consumers)
	}
}
