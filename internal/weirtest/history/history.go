// Package history holds what a run of Weir left behind against what Weir promises. A run
// has three ledgers that know nothing of each other: what its clients saw, what the
// upstream received, and the log. Check reads them when all is over, and so needs no clock
// and no process; whoever brings a run about fills them, with a simulated log as well as
// with the data directory of a program that was killed.
package history

import (
	"time"

	"weir/schemas"
)

// Run is all that is left of a run after it has healed: every fault is over, every client
// has asked again for what it did not hear of, and nothing is under way.
type Run struct {
	// Asked is what clients did, in the order in which they began.
	Asked []Asked
	// Hits is what the upstream received, in order, each written before it was answered.
	Hits []Hit
	// Log is every message of the log's streams, and Evidence every one of the evidence's,
	// by sequence.
	Log, Evidence []schemas.Record
	// Watched is what readers of actions' events were given.
	Watched []Watched
	// Left is what was still there after the run.
	Left Left
}

// Answer is what a client knows of a request that it has made.
type Answer string

// What a client may know. A request that got no whole answer is Unheard: it may have been
// accepted or not.
const (
	Accepted Answer = "accepted" // a 2xx, or a refusal that the action's stored end says
	Refused  Answer = "refused"  // nothing was stored, by the answer
	Unheard  Answer = "unheard"
)

// Asked is one request of a client that was to accept an action, or to join it.
type Asked struct {
	// Name is the client's own for what it wants done once: two requests of one Name and
	// Tenant carry the same key or id, and the same payload.
	// A payload that holds the Name as a word of its own (of A-Z a-z 0-9 . _ : -) is taken
	// for what it names, so that a Name should be no word that stands there by chance.
	Tenant, Name string
	// ID is the action's, as the answer names it; empty where none came.
	ID     string
	Answer Answer
	Status int // of the answer; 0: none came
	// Outcome is the end that the answer tells; empty: it told none.
	Outcome schemas.Outcome
	// Digest is the hex SHA-256 of the upstream's body that the answer shows; empty: none.
	Digest string
}

// Hit is one request as the upstream received it.
type Hit struct {
	// Mark is what the client wrote into the request to know it again, in its path: the
	// action's Name, and of one call of several (a plan's) Name/step, as "p-7/0".
	Tenant, Mark string
	Method       string
	// Key is the Idempotency-Key that came with it.
	Key string
	// Sum is the hex SHA-256 of the body that came, and Whole whether all of it came.
	Sum   string
	Whole bool
	// Status is what it was answered with, and Digest the hex SHA-256 of that body; 0:
	// it was not answered.
	Status int
	Digest string
}

// Watched is what one reader was given of an action's events, over all its connections.
type Watched struct {
	Tenant, ID string
	// IDs are the sequences of the events in the order in which they came.
	IDs []uint64
	// After is the position from which it read, and Ended whether it was told that there
	// is nothing more.
	After uint64
	Ended bool
}

// Left is what a run did not clear away. All of it is to be zero.
type Left struct {
	// Backlog is how many messages wait for a worker or for an ack.
	Backlog uint64
	// Consumers is how many there are more than before the run.
	Consumers int
}

// Violation is a promise that a run broke.
type Violation struct {
	// Invariant is one of those that Check lists.
	Invariant string
	// Tenant and Name or ID tell of what.
	Tenant, Subject string
	// Detail says what is wrong, in a sentence with the numbers.
	Detail string
}

// Bounds are what Check cannot read off the ledgers.
type Bounds struct {
	// Attempts is how often a call that may be repeated is made at most; default 3.
	Attempts int
	// Heal is by when an action must have ended behind its deadline; default 60 s, and
	// below zero it is not asked.
	Heal time.Duration
}
