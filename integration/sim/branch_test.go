package sim_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
)

// The branches that a run can take only where something goes wrong, or two things happen
// at once. Over all runs each has to be taken, or the simulation sees less than it claims.
const (
	ackLost       = "the acknowledgement of an append was lost"
	appendLost    = "an append was lost"
	copyLate      = "an append arrived after its writer had given it up"
	diedBefore    = "a node died before an append"
	diedAfter     = "a node died after an append"
	diedCalling   = "a node died in a call, before its target heard of it"
	diedHeard     = "a node died in a call that its target had heard"
	diedIdle      = "a node died of itself"
	drained       = "a node that drained wrote down what became of a call that it had cut off"
	pausedLong    = "a node was paused for longer than the acknowledgement wait"
	overtaken     = "a message was taken over from a node that was still at it"
	staleFenced   = "a node whose message was another's by then was fenced"
	zombieSent    = "a node that had been paused sent its request late"
	twice         = "a message was delivered to two nodes at once"
	afterAck      = "a message was delivered after its acknowledgement"
	firstAgain    = "a repeat was delivered as if it were the first"
	ackMissed     = "the acknowledgement of a message was lost"
	replicaLate   = "a late replica answered"
	liveMissed    = "a republished record was missed"
	clockStepped  = "the clock of a node was stepped"
	readerCut     = "a reader was cut off and resumed"
	clientLeft    = "a client left and asked again later"
	joined        = "a repeated request joined its action"
	repaid        = "a request with an Idempotency-Key was given the stored answer"
	refused       = "another payload under a name in use was refused"
	revoked       = "the policy was replaced by one that denies"
	logUnknown    = "an interrupted call ended outcome_unknown"
	logAgain      = "an interrupted call was made again"
	logResumed    = "an action was ended by another node than the one that had its answer"
	logInFlight   = "an action waited for the attempt of a node that may live"
	logCanceled   = "an action was canceled before it was begun"
	logCancelCall = "an action was canceled while its call was under way"
	logCancelLate = "an action that was asked to stop succeeded all the same"
	logDenied     = "a call was denied at the last moment"
	logExhausted  = "all attempts of a call failed"
	logHeld       = "a traffic rule held a call back, and then did not"
	logMocked     = "a traffic rule answered in the target's place"
	logPartial    = "a plan was applied in part"
	logNotSent    = "a call failed before anything was sent, and was made again"
	logDelayed    = "the next attempt was left to a wake-up"
	logWokeLate   = "a wake-up came after its action's end"
	logExpired    = "the time of an action was up"
	logResolved   = "a person resolved an unknown outcome"
)

// branches lists those that a few hundred runs must take.
func branches() []string {
	return []string{
		ackLost, appendLost, copyLate, diedBefore, diedAfter, diedCalling, diedHeard, diedIdle, drained, pausedLong, overtaken,
		staleFenced, zombieSent, twice, afterAck, firstAgain, ackMissed, replicaLate, liveMissed, clockStepped, readerCut,
		clientLeft, joined, repaid, refused, revoked, logUnknown, logAgain, logResumed, logInFlight, logCanceled, logCancelCall,
		logCancelLate, logDenied, logExhausted, logHeld, logMocked, logPartial, logNotSent, logDelayed, logWokeLate,
		logExpired, logResolved,
	}
}

// tally counts how often each branch was taken. It is safe for concurrent use.
type tally struct {
	mu sync.Mutex
	of map[string]int
}

func (t *tally) add(branch string, n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.of == nil {
		t.of = map[string]int{}
	}
	t.of[branch] += n
}

func (t *tally) merge(other *tally) {
	for branch, n := range other.of {
		t.add(branch, n)
	}
}

// missing are the branches that were not taken.
func (t *tally) missing() []string {
	return slices.DeleteFunc(branches(), func(b string) bool { return t.of[b] > 0 })
}

func (t *tally) String() string {
	var b strings.Builder
	for _, branch := range branches() {
		fmt.Fprintf(&b, "%8d  %s\n", t.of[branch], branch)
	}
	return b.String()
}
